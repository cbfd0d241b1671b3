// Decomposes Attention into matmul, softmax, matmul, as exporters write it. Later passes join the
// projections and recognise attention again together with the nodes around it.
//
// Variants that the parts cannot express as cheaply stay one operator: past keys and values,
// lengths per sample, windows, soft caps, scores as a result.
#include <math.h>

#include "pass/pass.h"

enum { kMaxCausal = 1 << 22 };  // elements of a causal mask that is written as a constant

typedef struct attention {
  carnot_node* at;
  carnot_status* status;
  int64_t heads, kv_heads, size, value_size;
} attention;

// ---- what is taken ----

static carnot_value* input_of(const carnot_node* node, int i) {
  return i < node->input_count ? node->inputs[i] : NULL;
}

static int64_t known(carnot_sym dim) { return carnot_sym_is_const(dim) ? dim.bits : -1; }

static int64_t heads_of(const carnot_node* node, int input, const char* name) {
  const carnot_type* t = &node->inputs[input]->type;
  return t->rank == 4 ? known(t->dims[1])
                      : carnot_attr_int(carnot_node_row(node), &node->attrs, name);
}

// The elements of a head; -1 where they are open.
static int64_t size_of(const carnot_node* node, int input, int64_t heads) {
  const carnot_type* t = &node->inputs[input]->type;
  int64_t last = known(t->dims[t->rank - 1]);
  return t->rank == 4 || last < 0 ? last : last % heads == 0 ? last / heads : -1;
}

static bool mask_fits(const carnot_node* node, const carnot_value* mask, carnot_sym keys) {
  if (!mask) return true;
  const carnot_type* t = &mask->type;
  return t->kind == CARNOT_VALUE_TENSOR && t->rank >= 2 && t->rank <= 4 &&
         (t->dtype == CARNOT_DTYPE_BOOL || t->dtype == node->inputs[0]->type.dtype) &&
         carnot_sym_same(t->dims[t->rank - 1], keys);
}

static bool is_plain(const carnot_node* node) {
  const carnot_op_row* row = carnot_node_row(node);
  for (int i = 1; i < node->output_count; i++)
    if (node->outputs[i] && carnot_value_used(node->outputs[i])) return false;
  for (int i = 4; i < 7; i++)
    if (input_of(node, i)) return false;
  return carnot_attr_float(row, &node->attrs, "softcap") == 0 &&
         carnot_attr_int(row, &node->attrs, "left_window_size") == -1 &&
         carnot_attr_int(row, &node->attrs, "right_window_size") == -1;
}

static bool read(const carnot_node* node, attention* out) {
  const carnot_value *q = node->inputs[0], *k = node->inputs[1];
  if (!is_plain(node)) return false;
  carnot_dtype dtype = q->type.dtype;
  bool half = carnot_dtype_is_half(dtype);
  for (int i = 0; i < 3; i++) {
    const carnot_type* t = &node->inputs[i]->type;
    if (t->kind != CARNOT_VALUE_TENSOR || t->dtype != dtype || t->rank != q->type.rank)
      return false;
  }
  if ((!half && dtype != CARNOT_DTYPE_F32) || (q->type.rank != 3 && q->type.rank != 4))
    return false;
  out->heads = heads_of(node, 0, "q_num_heads");
  out->kv_heads = heads_of(node, 1, "kv_num_heads");
  if (out->heads < 1 || out->kv_heads < 1 || out->heads % out->kv_heads ||
      heads_of(node, 2, "kv_num_heads") != out->kv_heads)
    return false;
  out->size = size_of(node, 0, out->heads);
  out->value_size = size_of(node, 2, out->kv_heads);
  if (out->size < 1 || out->value_size < 1 || size_of(node, 1, out->kv_heads) != out->size)
    return false;
  int axis = q->type.rank - 2;
  int64_t queries = known(q->type.dims[axis]), keys = known(k->type.dims[axis]);
  if (carnot_attr_int(carnot_node_row(node), &node->attrs, "is_causal") &&
      (queries < 0 || keys < 0 || queries > kMaxCausal / carnot_max_i64(1, keys)))
    return false;
  return mask_fits(node, input_of(node, 3), k->type.dims[axis]);
}

// ---- whether the parts become one kernel again ----

// matmul(softmax(matmul(q, k^T) * scale), v) over heads of these sizes, in a graph of its own.
static carnot_status* make_parts(carnot_block* block, carnot_dtype dtype, const attention* a,
                                 carnot_node* out_nodes[4]) {
  enum { kRows = 16 };
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .dtype = dtype, .rank = 4};
  type.dims[0] = type.dims[1] = carnot_sym_of(1), type.dims[2] = carnot_sym_of(kRows);
  carnot_value* heads[3];
  for (int i = 0; i < 3; i++) {
    type.dims[3] = carnot_sym_of(i < 2 ? a->size : a->value_size);
    heads[i] = carnot_block_add_param(block, NULL, &type);
  }
  carnot_arena* arena = &block->graph->arena;
  carnot_attrs matmul = {0}, scale = {0}, last = {0};
  carnot_attrs_set_int(&matmul, arena, "transB", 1);
  carnot_attrs_set_int(&scale, arena, "fn", CARNOT_FN_MUL);
  carnot_attrs_set_int(&last, arena, "axis", -1);
  CARNOT_TRY(carnot_block_add_node(block, CARNOT_OP_MATMUL, NULL, &matmul, heads, 2, NULL, 1,
                                   &out_nodes[0]));
  carnot_value* pair[2] = {out_nodes[0]->outputs[0], carnot_graph_float(block, dtype, 1)};
  CARNOT_TRY(carnot_block_add_node(block, CARNOT_OP_BINARY, NULL, &scale, pair, 2, NULL, 1,
                                   &out_nodes[1]));
  CARNOT_TRY(carnot_block_add_node(block, CARNOT_OP_SOFTMAX, NULL, &last, out_nodes[1]->outputs, 1,
                                   NULL, 1, &out_nodes[2]));
  pair[0] = out_nodes[2]->outputs[0], pair[1] = heads[2];
  CARNOT_TRY(
      carnot_block_add_node(block, CARNOT_OP_MATMUL, NULL, NULL, pair, 2, NULL, 1, &out_nodes[3]));
  carnot_block_add_output(block, out_nodes[3]->outputs[0]);
  return NULL;
}

// On an accelerator, parts of half precision round the scores, which the operator keeps in FP32:
// they may be written only where they become one kernel again. The CPU computes them in FP32.
static carnot_status* may_decompose(const carnot_pass_options* options, const attention* a,
                                    bool* out) {
  carnot_dtype dtype = a->at->inputs[0]->type.dtype;
  carnot_graph* graph;
  carnot_node* nodes[4];
  *out = !options->device || !carnot_dtype_is_half(dtype);
  if (*out) return NULL;
  CARNOT_TRY(carnot_graph_create(&graph));
  carnot_status* status = make_parts(graph->main, dtype, a, nodes);
  *out = !status && carnot_pass_accepts(options, nodes, 4);
  carnot_graph_destroy(graph);
  return status;
}

// ---- what is written ----

static carnot_value* put(attention* a, carnot_op op, const carnot_attrs* attrs,
                         carnot_value* const* inputs, int count) {
  carnot_node* made;
  if (a->status) return NULL;
  a->status = carnot_node_insert_before(a->at, op, a->at->name, attrs, inputs, count, 1, &made);
  if (a->status) return NULL;
  made->precision = a->at->precision;
  return made->outputs[0];
}

static carnot_value* put_fn(attention* a, carnot_op op, carnot_fn fn, carnot_value* const* inputs,
                            int count) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &a->at->block->graph->arena, "fn", fn);
  return put(a, op, &attrs, inputs, count);
}

static carnot_value* number(const attention* a, double value) {
  return carnot_graph_float(a->at->block, a->at->inputs[0]->type.dtype, value);
}

static carnot_value* turned(attention* a, carnot_value* x, const int64_t perm[4]) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, &a->at->block->graph->arena, "perm", perm, 4);
  return put(a, CARNOT_OP_TRANSPOSE, &attrs, &x, 1);
}

static carnot_value* reshaped(attention* a, carnot_value* x, const int64_t* dims, int rank) {
  carnot_value* inputs[2] = {x, carnot_graph_ints(a->at->block, dims, rank)};
  return put(a, CARNOT_OP_RESHAPE, NULL, inputs, 2);
}

// [B,S,heads*size] as [B,heads,S,size], and each head as often as queries share it.
static carnot_value* split(attention* a, carnot_value* x, int64_t heads, int64_t size) {
  static const int64_t kHeads[] = {0, 2, 1, 3};
  const int64_t axis = 2, repeats[5] = {1, 1, a->heads / heads, 1, 1};
  const int64_t apart[4] = {0, 0, heads, size}, together[4] = {0, a->heads, -1, size};
  if (x->type.rank == 3) x = turned(a, reshaped(a, x, apart, 4), kHeads);
  if (heads == a->heads) return x;
  carnot_value* inputs[2] = {x, carnot_graph_ints(a->at->block, &axis, 1)};
  inputs[0] = put(a, CARNOT_OP_UNSQUEEZE, NULL, inputs, 2);
  inputs[1] = carnot_graph_ints(a->at->block, repeats, 5);
  return reshaped(a, put(a, CARNOT_OP_EXPAND, NULL, inputs, 2), together, 4);
}

// -inf where a key comes behind its query.
static carnot_value* causal_mask(attention* a) {
  const carnot_type *q = &a->at->inputs[0]->type, *k = &a->at->inputs[1]->type;
  carnot_block* block = a->at->block;
  int64_t queries = q->dims[q->rank - 2].bits, keys = k->dims[k->rank - 2].bits;
  float* numbers = CARNOT_NEW_ARRAY(&block->graph->arena, float, (size_t)(queries * keys) + 1);
  for (int64_t i = 0; i < queries; i++)
    for (int64_t j = 0; j < keys; j++) numbers[i * keys + j] = j > i ? -INFINITY : 0;
  const carnot_tensor tensor = {
      .dtype = CARNOT_DTYPE_F32, .rank = 2, .dims = {queries, keys}, .data = numbers};
  carnot_value* mask = carnot_graph_constant(block, NULL, &tensor);
  if (q->dtype != CARNOT_DTYPE_F32 && !a->status)
    a->status = carnot_insert_cast(a->at, mask, q->dtype, &mask);
  return mask;
}

static carnot_value* masked(attention* a, carnot_value* scores) {
  carnot_value* mask = input_of(a->at, 3);
  if (mask && mask->type.dtype == CARNOT_DTYPE_BOOL) {
    carnot_value* inputs[3] = {mask, number(a, 0), number(a, -INFINITY)};
    mask = put_fn(a, CARNOT_OP_TERNARY, CARNOT_FN_SELECT, inputs, 3);
  }
  if (carnot_attr_int(carnot_node_row(a->at), &a->at->attrs, "is_causal")) {
    carnot_value* both[2] = {mask, causal_mask(a)};
    mask = mask ? put_fn(a, CARNOT_OP_BINARY, CARNOT_FN_ADD, both, 2) : both[1];
  }
  carnot_value* inputs[2] = {scores, mask};
  return mask ? put_fn(a, CARNOT_OP_BINARY, CARNOT_FN_ADD, inputs, 2) : scores;
}

// A query that sees no key gives zeros.
static carnot_value* guarded(attention* a, carnot_value* p) {
  if (!input_of(a->at, 3)) return p;
  carnot_value* inputs[3] = {put_fn(a, CARNOT_OP_UNARY, CARNOT_FN_IS_NAN, &p, 1), number(a, 0), p};
  return put_fn(a, CARNOT_OP_TERNARY, CARNOT_FN_SELECT, inputs, 3);
}

static carnot_status* decompose(attention* a) {
  static const int64_t kBack[] = {0, 2, 1, 3}, kLast[] = {0, 1, 3, 2};
  carnot_node* node = a->at;
  const carnot_op_row* row = carnot_node_row(node);
  double scale = carnot_attr_has(&node->attrs, "scale")
                     ? carnot_attr_float(row, &node->attrs, "scale")
                     : 1 / sqrt((double)a->size);
  carnot_value* keys = split(a, node->inputs[1], a->kv_heads, a->size);
  carnot_value* pair[2] = {split(a, node->inputs[0], a->heads, a->size), turned(a, keys, kLast)};
  carnot_value* y = put(a, CARNOT_OP_MATMUL, NULL, pair, 2);
  pair[0] = y, pair[1] = number(a, scale);
  y = masked(a, put_fn(a, CARNOT_OP_BINARY, CARNOT_FN_MUL, pair, 2));
  carnot_attrs last = {0};
  carnot_attrs_set_int(&last, &node->block->graph->arena, "axis", -1);
  pair[0] = guarded(a, put(a, CARNOT_OP_SOFTMAX, &last, &y, 1));
  pair[1] = split(a, node->inputs[2], a->kv_heads, a->value_size);
  y = put(a, CARNOT_OP_MATMUL, NULL, pair, 2);
  if (node->inputs[0]->type.rank == 3) {
    const int64_t dims[3] = {0, 0, a->heads * a->value_size};
    y = reshaped(a, turned(a, y, kBack), dims, 3);
  }
  CARNOT_TRY(a->status);
  carnot_value_replace(node->outputs[0], y);
  carnot_node_absorb(y->producer, node);
  carnot_node_remove(node);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    attention a = {.at = node};
    bool may = node->op == CARNOT_OP_ATTENTION && read(node, &a);
    if (may) CARNOT_TRY(may_decompose(user, &a, &may));
    if (may) CARNOT_TRY(decompose(&a));
  }
  return NULL;
}

carnot_status* carnot_pass_decompose_attention(carnot_graph* graph,
                                               const carnot_pass_options* options) {
  return carnot_each_block(graph->main, visit, (void*)(uintptr_t)options);
}
