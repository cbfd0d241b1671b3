// Decomposes Einsum into transpose, matmul, reshape; operands are combined from left to right.
//
// For two operands, a label of both that is still needed is a batch dimension, one that is not is
// the reduction dimension of the matmul; a label of one operand is a row or column, or is summed
// before. Without a reduction dimension the result is an element-wise product. Repeated labels in
// one operand (diagonals), and reshapes that no list of integers expresses, stay an Einsum.
#include "ops/einsum.h"
#include "pass/pass.h"

enum { kMostLabels = 2 * CARNOT_MAX_RANK, kUnsaid = 100 };

// Labels in the order of dimensions.
typedef struct order {
  int count, at[kMostLabels];
} order;

// A value with its dimensions named.
typedef struct term {
  carnot_value* value;  // NULL where it cannot be said
  order labels;
} term;

typedef struct rewrite {
  carnot_node* at;
  carnot_status* status;
  bool device;
} rewrite;

// ---- labels ----

static uint64_t bit(int label) { return (uint64_t)1 << label; }

static uint64_t set_of(const order* o) {
  uint64_t set = 0;
  for (int i = 0; i < o->count; i++) set |= bit(o->at[i]);
  return set;
}

static bool is_distinct(const order* o) {
  uint64_t set = 0;
  for (int i = 0; i < o->count; i++) {
    if (set & bit(o->at[i])) return false;
    set |= bit(o->at[i]);
  }
  return true;
}

static order order_of(const int* labels, int count) {
  order o = {.count = count};
  for (int i = 0; i < count; i++) o.at[i] = labels[i];
  return o;
}

// Those of |o| that are in |set|.
static order picked(const order* o, uint64_t set) {
  order out = {.count = 0};
  for (int i = 0; i < o->count; i++)
    if (set & bit(o->at[i])) out.at[out.count++] = o->at[i];
  return out;
}

// |a| and then what of |b| is not in it.
static order joined(order a, const order* b) {
  uint64_t have = set_of(&a);
  for (int i = 0; i < b->count; i++)
    if (!(have & bit(b->at[i]))) a.at[a.count++] = b->at[i];
  return a;
}

static order joined3(order a, const order* b, const order* c) { return joined(joined(a, b), c); }

static bool same_order(const order* a, const order* b) {
  if (a->count != b->count) return false;
  for (int i = 0; i < a->count; i++)
    if (a->at[i] != b->at[i]) return false;
  return true;
}

static int place_of(const order* o, int label) {
  int i = 0;
  while (i < o->count && o->at[i] != label) i++;
  return i;
}

static carnot_sym dim_of(const term* x, int label) {
  return x->value->type.dims[place_of(&x->labels, label)];
}

// ---- what is written ----

static carnot_value* put(rewrite* r, carnot_op op, const carnot_attrs* attrs,
                         carnot_value* const* inputs, int count) {
  carnot_node* made;
  if (r->status) return NULL;
  r->status = carnot_node_insert_before(r->at, op, r->at->name, attrs, inputs, count, 1, &made);
  if (r->status) return NULL;
  made->precision = r->at->precision;
  return made->outputs[0];
}

static carnot_value* put_ints(rewrite* r, carnot_op op, const carnot_attrs* attrs, carnot_value* x,
                              const int64_t* ints, int count) {
  carnot_value* inputs[2] = {x, carnot_graph_ints(r->at->block, ints, count)};
  return put(r, op, attrs, inputs, 2);
}

static term reordered(rewrite* r, term x, const order* wanted) {
  int64_t perm[CARNOT_MAX_RANK];
  carnot_attrs attrs = {0};
  if (!x.value || same_order(&x.labels, wanted)) return x;
  for (int i = 0; i < wanted->count; i++) perm[i] = place_of(&x.labels, wanted->at[i]);
  carnot_attrs_set_ints(&attrs, &r->at->block->graph->arena, "perm", perm, (size_t)wanted->count);
  return (term){put(r, CARNOT_OP_TRANSPOSE, &attrs, &x.value, 1), *wanted};
}

// |x| summed over all but |kept|.
static term summed(rewrite* r, term x, uint64_t kept) {
  int64_t axes[CARNOT_MAX_RANK];
  int count = 0;
  carnot_attrs attrs = {0};
  carnot_arena* arena = &r->at->block->graph->arena;
  for (int i = 0; i < x.labels.count; i++)
    if (!(kept & bit(x.labels.at[i]))) axes[count++] = i;
  if (!count || !x.value) return x;
  carnot_attrs_set_text(&attrs, arena, "fn", "sum");
  carnot_attrs_set_int(&attrs, arena, "keepdims", 0);
  return (term){put_ints(r, CARNOT_OP_REDUCE, &attrs, x.value, axes, count),
                picked(&x.labels, kept)};
}

// NULL where no list of integers says |dims|.
static carnot_value* reshaped(rewrite* r, carnot_value* x, const carnot_sym* dims, int rank) {
  int64_t list[CARNOT_MAX_RANK];
  int open = 0;
  carnot_type wanted = {.kind = CARNOT_VALUE_TENSOR, .rank = rank};
  if (!x) return NULL;
  for (int d = 0; d < rank; d++) {
    bool known = carnot_sym_is_const(dims[d]);
    bool copied = d < x->type.rank && carnot_sym_same(dims[d], x->type.dims[d]);
    wanted.dims[d] = dims[d];
    list[d] = known ? dims[d].bits : copied ? 0 : -1;
    open += list[d] < 0;
    if (known && list[d] == 0) return NULL;
  }
  if (carnot_same_dims(&x->type, &wanted)) return x;
  carnot_value* y = open > 1 ? NULL : put_ints(r, CARNOT_OP_RESHAPE, NULL, x, list, rank);
  return y && carnot_same_dims(&y->type, &wanted) ? y : NULL;
}

// ---- two operands ----

// The numbers of |x| where dimensions of |wanted| are to its right or missing in it.
static carnot_value* spread(rewrite* r, term x, const order* wanted) {
  order own = picked(wanted, set_of(&x.labels));
  int64_t axes[CARNOT_MAX_RANK];
  int count = 0, first = own.count ? place_of(wanted, own.at[0]) : wanted->count;
  x = reordered(r, x, &own);
  for (int i = first; i < wanted->count; i++)
    if (place_of(&own, wanted->at[i]) == own.count) axes[count++] = i - first;
  return x.value && count ? put_ints(r, CARNOT_OP_UNSQUEEZE, NULL, x.value, axes, count) : x.value;
}

static term multiplied(rewrite* r, term a, term b, const order* wanted) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &r->at->block->graph->arena, "fn", CARNOT_FN_MUL);
  carnot_value* inputs[2] = {spread(r, a, wanted), spread(r, b, wanted)};
  if (!inputs[0] || !inputs[1]) return (term){.value = NULL};
  return (term){put(r, CARNOT_OP_BINARY, &attrs, inputs, 2), *wanted};
}

// A batched MatMul: [batch, rows, sums] times [batch, sums, columns], each with its last two
// swapped where that saves moving numbers.
typedef struct product {
  term left, right;
  order batch, rows, sums, columns;
  order left_order, right_order, result;  // of the operands and what they give
  bool swap_left, swap_right;
  int moves;  // transposes that the run does; kUnsaid more where a reshape cannot be said
} product;

static bool ends_in(const order* o, const order* last) {
  return o->count && (set_of(last) & bit(o->at[o->count - 1]));
}

static int moves_to(const term* x, const order* wanted) {
  return !same_order(&x->labels, wanted) && !carnot_value_is_constant(x->value);
}

// Dimensions known to the run only.
static int open_of(const term* x, const order* labels) {
  int open = 0;
  for (int i = 0; i < labels->count; i++) open += !carnot_sym_is_const(dim_of(x, labels->at[i]));
  return open;
}

static product plan(const rewrite* r, term left, term right, const order* sums,
                    const order* wanted) {
  uint64_t in_left = set_of(&left.labels), in_right = set_of(&right.labels);
  product p = {.left = left, .right = right, .sums = *sums};
  p.batch = picked(wanted, in_left & in_right);
  p.rows = picked(wanted, in_left & ~in_right);
  p.columns = picked(wanted, in_right & ~in_left);
  // CPU tactics cannot transpose the left operand.
  p.swap_left = r->device && ends_in(&left.labels, &p.rows);
  p.swap_right = p.columns.count && ends_in(&right.labels, sums);
  p.left_order = p.swap_left ? joined3(p.batch, sums, &p.rows) : joined3(p.batch, &p.rows, sums);
  p.right_order =
      p.swap_right ? joined3(p.batch, &p.columns, sums) : joined3(p.batch, sums, &p.columns);
  p.result = joined3(p.batch, &p.rows, &p.columns);
  p.moves = moves_to(&left, &p.left_order) + moves_to(&right, &p.right_order) +
            !same_order(&p.result, wanted) + (open_of(&right, &p.columns) > 1 ? kUnsaid : 0);
  return p;
}

static product best_plan(const rewrite* r, term a, term b, uint64_t sums, const order* wanted) {
  const order by_a = picked(&a.labels, sums), by_b = picked(&b.labels, sums);
  product best = plan(r, a, b, &by_a, wanted);
  for (int i = 1; i < 4; i++) {
    const order* by = i & 1 ? &by_b : &by_a;
    product p = i & 2 ? plan(r, b, a, by, wanted) : plan(r, a, b, by, wanted);
    if (p.moves < best.moves) best = p;
  }
  return best;
}

static int dims_of(const term* x, const order* labels, carnot_sym* out) {
  for (int i = 0; i < labels->count; i++) out[i] = dim_of(x, labels->at[i]);
  return labels->count;
}

static carnot_sym size_of(rewrite* r, const term* x, const order* labels) {
  carnot_sym dims[CARNOT_MAX_RANK];
  int count = dims_of(x, labels, dims);
  return carnot_sym_product(&r->at->block->graph->syms, dims, (size_t)count);
}

// Rows of a matrix that all read need not be joined to one dimension.
static bool keeps_rows(const product* p) {
  return !p->batch.count && !p->swap_left && p->rows.count &&
         (open_of(&p->left, &p->rows) > 1 || carnot_value_is_constant(p->right.value));
}

// |x| with |first| and |second| behind the batch as one dimension each; |apart|: the first as many.
static carnot_value* matrices(rewrite* r, const product* p, term x, const order* wanted,
                              const order* first, const order* second, bool apart) {
  carnot_sym dims[CARNOT_MAX_RANK];
  int rank;
  x = reordered(r, x, wanted);
  if (!x.value) return NULL;
  rank = dims_of(&x, &p->batch, dims);
  if (apart)
    rank += dims_of(&x, first, dims + rank);
  else
    dims[rank++] = size_of(r, &x, first);
  dims[rank++] = size_of(r, &x, second);
  return reshaped(r, x.value, dims, rank);
}

static term matrix_product(rewrite* r, const product* p) {
  bool apart = keeps_rows(p);
  carnot_attrs attrs = {0};
  carnot_arena* arena = &r->at->block->graph->arena;
  carnot_value* inputs[2];
  inputs[0] = matrices(r, p, p->left, &p->left_order, p->swap_left ? &p->sums : &p->rows,
                       p->swap_left ? &p->rows : &p->sums, apart);
  inputs[1] = matrices(r, p, p->right, &p->right_order, p->swap_right ? &p->columns : &p->sums,
                       p->swap_right ? &p->sums : &p->columns, false);
  if (!inputs[0] || !inputs[1]) return (term){.value = NULL};
  if (p->swap_left) carnot_attrs_set_int(&attrs, arena, "transA", 1);
  if (p->swap_right) carnot_attrs_set_int(&attrs, arena, "transB", 1);
  carnot_value* y = put(r, CARNOT_OP_MATMUL, &attrs, inputs, 2);
  if (!y) return (term){.value = NULL};
  carnot_sym dims[CARNOT_MAX_RANK];
  int rank = p->batch.count;
  memcpy(dims, y->type.dims, (size_t)rank * sizeof(*dims));
  rank += dims_of(&p->left, &p->rows, dims + rank);
  rank += dims_of(&p->right, &p->columns, dims + rank);
  return (term){reshaped(r, y, dims, rank), p->result};
}

// Equal dimensions, and for what is not summed also one of 1.
static bool fits(const term* a, const term* b, uint64_t sums) {
  for (int i = 0; i < a->labels.count; i++) {
    int label = a->labels.at[i];
    if (place_of(&b->labels, label) == b->labels.count) continue;
    carnot_sym x = dim_of(a, label), y = dim_of(b, label);
    bool one = carnot_sym_is(x, 1) || carnot_sym_is(y, 1);
    if (!carnot_sym_same(x, y) && (!one || (sums & bit(label)))) return false;
  }
  return true;
}

// The product of both, summed over what is not in |kept|; its dimensions near the order of
// |result|, which may lack some.
static term pair(rewrite* r, term a, term b, uint64_t kept, const order* result) {
  uint64_t common = set_of(&a.labels) & set_of(&b.labels), sums = common & ~kept;
  if (!fits(&a, &b, sums)) return (term){.value = NULL};
  a = summed(r, a, kept | common), b = summed(r, b, kept | common);
  if (!a.value || !b.value) return (term){.value = NULL};
  uint64_t left = (set_of(&a.labels) | set_of(&b.labels)) & ~sums;
  order all = joined(a.labels, &b.labels), known = picked(result, left),
        wanted = picked(&all, left);
  if (known.count == wanted.count) wanted = known;
  if (wanted.count > CARNOT_MAX_RANK) return (term){.value = NULL};
  if (!sums) return multiplied(r, a, b, &wanted);
  // Batches of dot products are slow as 1x1 matrices; in half precision the products would be
  // rounded.
  bool dots = left && left == (common & kept) && !carnot_dtype_is_half(a.value->type.dtype);
  if (dots) return summed(r, multiplied(r, a, b, &a.labels), left);
  product p = best_plan(r, a, b, sums, &wanted);
  int rows = p.rows.count ? p.rows.count : 1, columns = p.columns.count ? p.columns.count : 1;
  if (p.batch.count + rows + columns > CARNOT_MAX_RANK) return (term){.value = NULL};
  return matrix_product(r, &p);
}

// ---- the node ----

// Types that matmul accumulates as Einsum does: half precision in FP32, integers exactly.
static bool takes(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F32 || dtype == CARNOT_DTYPE_F64 || carnot_dtype_is_half(dtype) ||
         dtype == CARNOT_DTYPE_I32 || dtype == CARNOT_DTYPE_I64 || dtype == CARNOT_DTYPE_U32 ||
         dtype == CARNOT_DTYPE_U64;
}

static bool read(const carnot_node* node, carnot_equation* e) {
  int ranks[CARNOT_EINSUM_OPERANDS];
  if (node->input_count > CARNOT_EINSUM_OPERANDS) return false;
  for (int i = 0; i < node->input_count; i++) {
    if (!carnot_is_ranked(node->inputs[i]) || !takes(node->inputs[i]->type.dtype)) return false;
    ranks[i] = node->inputs[i]->type.rank;
  }
  // Infer has read the same.
  carnot_strview text = carnot_attr_text(carnot_node_row(node), &node->attrs, "equation");
  carnot_status* status = carnot_equation_read(text, node->input_count, ranks, e);
  carnot_status_free(status);
  if (status) return false;
  order result = order_of(e->out_labels, e->out_rank);
  bool distinct = is_distinct(&result);
  for (int i = 0; i < e->operands; i++) {
    order own = order_of(e->labels[i], e->ranks[i]);
    distinct &= is_distinct(&own);
  }
  return distinct;
}

static carnot_status* visit_einsum(rewrite* r, const carnot_equation* e) {
  carnot_node* node = r->at;
  order result = order_of(e->out_labels, e->out_rank);
  term x = {node->inputs[0], order_of(e->labels[0], e->ranks[0])};
  if (e->operands == 1) x = summed(r, x, set_of(&result));
  for (int i = 1; i < e->operands && x.value; i++) {
    uint64_t kept = set_of(&result);
    for (int k = i + 1; k < e->operands; k++) {
      order later = order_of(e->labels[k], e->ranks[k]);
      kept |= set_of(&later);
    }
    term y = {node->inputs[i], order_of(e->labels[i], e->ranks[i])};
    x = pair(r, x, y, kept, &result);
  }
  carnot_value* y = reordered(r, x, &result).value;
  if (y == node->inputs[0]) y = put(r, CARNOT_OP_IDENTITY, NULL, &y, 1);
  CARNOT_TRY(r->status);
  if (!y || !carnot_same_dims(&y->type, &node->outputs[0]->type)) return NULL;
  carnot_value_replace(node->outputs[0], y);
  carnot_node_absorb(y->producer, node);
  carnot_node_remove(node);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  carnot_equation e;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    rewrite r = {.at = node, .device = options->device};
    if (node->op == CARNOT_OP_EINSUM && read(node, &e)) CARNOT_TRY(visit_einsum(&r, &e));
  }
  return NULL;
}

// What was begun and could not be ended is dead.
carnot_status* carnot_pass_decompose_einsum(carnot_graph* graph,
                                            const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, (void*)(uintptr_t)options));
  return carnot_pass_dce(graph, options);
}
