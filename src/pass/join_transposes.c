// On the processor: writes a chain of transposes and reshapes of one tensor as one transpose, where
// that moves rows:
//   reshape(transpose(reshape(transpose(reshape(x)))))  ->  reshape(transpose(reshape(x)))
// as in the patches that MobileViT unfolds from pixels and folds again.
//
// The dimensions of x are cut into factors until each reshape of the chain only groups neighbours;
// a transpose reorders groups. Channels of what a convolution makes, or reads, are last in memory:
// there the chain begins, or ends, with a transpose of its own that moves nothing.
#include "pass/emit.h"

enum { kMostFactors = 2 * CARNOT_MAX_RANK, kMostNodes = 12, kLeastRow = 8 };

// Lists of factors by number: as they lie in x and in the current tensor, of which |ends| says
// where each dimension's end.
typedef struct factors {
  int64_t sizes[kMostFactors];
  int source[kMostFactors], current[kMostFactors], count;
  int ends[CARNOT_MAX_RANK], rank;
} factors;

static bool dims_of(const carnot_value* value, int64_t* out) {
  if (!carnot_is_ranked(value)) return false;
  for (int d = 0; d < value->type.rank; d++) {
    if (!carnot_sym_is_const(value->type.dims[d]) || value->type.dims[d].bits < 1) return false;
    out[d] = value->type.dims[d].bits;
  }
  return true;
}

static void insert_after(int* list, int count, int after, int number) {
  int at = count;
  for (; list[at - 1] != after; at--) list[at] = list[at - 1];
  list[at] = number;
}

// Cuts factor |number| into |outer| and the rest behind it.
static bool cut(factors* f, int number, int64_t outer) {
  if (f->count == kMostFactors || f->sizes[number] % outer) return false;
  insert_after(f->source, f->count, number, f->count);
  insert_after(f->current, f->count, number, f->count);
  f->sizes[f->count++] = f->sizes[number] / outer;
  f->sizes[number] = outer;
  return true;
}

// Groups the factors of the current tensor to |dims|.
static bool group(factors* f, const int64_t* dims, int rank) {
  int at = 0;
  f->rank = rank;
  for (int d = 0; d < rank; d++) {
    for (int64_t left = dims[d]; left > 1; at++) {
      if (at == f->count) return false;
      const int number = f->current[at];
      if (left % f->sizes[number] && !cut(f, number, left)) return false;
      left /= f->sizes[number];
    }
    f->ends[d] = at;
  }
  return at == f->count;
}

static void reorder(factors* f, const int64_t* perm) {
  int current[kMostFactors], ends[CARNOT_MAX_RANK], count = 0;
  for (int d = 0; d < f->rank; d++) {
    for (int at = perm[d] ? f->ends[perm[d] - 1] : 0; at < f->ends[perm[d]]; at++)
      current[count++] = f->current[at];
    ends[d] = count;
  }
  memcpy(f->current, current, (size_t)count * sizeof(*current));
  memcpy(f->ends, ends, (size_t)f->rank * sizeof(*ends));
}

// Channels, dimension 1, behind the others.
static int last_channels(int rank, int64_t* out_perm) {
  for (int d = 0; d < rank; d++) out_perm[d] = !d ? 0 : d == rank - 1 ? 1 : d + 1;
  return rank;
}

static const int64_t* permutation(const carnot_node* node) {
  size_t count;
  const int64_t* perm = carnot_attr_ints(&node->attrs, "perm", &count);
  return perm && (int)count == node->inputs[0]->type.rank ? perm : NULL;
}

// More than dimensions of 1 changes its position.
static bool moves_elements(const carnot_node* node) {
  const int64_t* perm = permutation(node);
  int64_t dims[CARNOT_MAX_RANK], last = -1;
  if (!perm || !dims_of(node->inputs[0], dims)) return false;
  for (int d = 0; d < node->inputs[0]->type.rank; d++) {
    if (dims[perm[d]] == 1) continue;
    if (perm[d] < last) return true;
    last = perm[d];
  }
  return false;
}

typedef struct chain {
  carnot_node* nodes[kMostNodes];  // from the last to the first
  int count, moves;
  carnot_value *x, *y;
} chain;

static bool is_reshape(const carnot_node* node) {
  return node->op == CARNOT_OP_RESHAPE || node->op == CARNOT_OP_SQUEEZE ||
         node->op == CARNOT_OP_UNSQUEEZE;
}

static chain chain_of(carnot_node* last) {
  chain c = {.y = last->outputs[0]};
  for (carnot_node* node = last; node && node->block == last->block && c.count < kMostNodes;
       node = node->inputs[0]->producer) {
    int64_t dims[CARNOT_MAX_RANK];
    const bool is_transpose = node->op == CARNOT_OP_TRANSPOSE && permutation(node);
    if ((!is_transpose && !is_reshape(node)) || !dims_of(node->outputs[0], dims) ||
        !dims_of(node->inputs[0], dims) || (c.count && !carnot_only_user(node->outputs[0])))
      break;
    c.nodes[c.count++] = node;
    c.moves += is_transpose && moves_elements(node);
    c.x = node->inputs[0];
  }
  return c;
}

static bool follow(const chain* c, factors* f) {
  int64_t dims[CARNOT_MAX_RANK];
  for (int i = c->count; i-- > 0;) {
    const carnot_node* node = c->nodes[i];
    if (node->op == CARNOT_OP_TRANSPOSE)
      reorder(f, permutation(node));
    else if (!dims_of(node->outputs[0], dims) || !group(f, dims, node->outputs[0]->type.rank))
      return false;
  }
  return true;
}

// Of a convolution, or of a function behind one.
static bool is_picture(const carnot_value* value) {
  const carnot_node* node = value->producer;
  if (node && carnot_node_fn(node) != CARNOT_FN_COUNT) node = node->inputs[0]->producer;
  return value->type.rank == 4 && node && node->op == CARNOT_OP_CONV;
}

static bool feeds_convolution(const carnot_value* value) {
  const carnot_node* reader = carnot_only_user(value);
  return value->type.rank == 4 && reader && reader->op == CARNOT_OP_CONV &&
         reader->inputs[0] == value;
}

// The one transpose: of |count| dimensions, neighbours in both orders joined.
typedef struct transpose {
  int64_t dims[kMostFactors], perm[kMostFactors];
  int count;
} transpose;

static transpose transpose_of(const factors* f) {
  transpose t = {.count = 0};
  int positions[kMostFactors], first[kMostFactors];  // of a factor in the result; of a dimension
  for (int i = 0; i < f->count; i++) positions[f->current[i]] = i;
  for (int i = 0; i < f->count; i++) {
    const int number = f->source[i];
    if (i && positions[number] == positions[f->source[i - 1]] + 1) {
      t.dims[t.count - 1] *= f->sizes[number];
      continue;
    }
    first[t.count] = positions[number];
    t.dims[t.count++] = f->sizes[number];
  }
  for (int d = 0; d < t.count; d++) {
    int before = 0;
    for (int k = 0; k < t.count; k++) before += first[k] < first[d];
    t.perm[before] = d;
  }
  return t;
}

static bool moves_rows(const transpose* t) {
  return t->count <= CARNOT_MAX_RANK && t->perm[t->count - 1] == t->count - 1 &&
         t->dims[t->count - 1] >= kLeastRow;
}

static carnot_value* emit(carnot_emitter* e, const chain* c, const transpose* t, bool from_picture,
                          bool to_picture) {
  int64_t perm[CARNOT_MAX_RANK], dims[CARNOT_MAX_RANK], last[CARNOT_MAX_RANK];
  carnot_value* x = c->x;
  if (from_picture) x = carnot_emit_transpose(e, x, perm, last_channels(x->type.rank, perm));
  x = carnot_emit_reshape(e, x, t->dims, t->count);
  if (t->count > 1) x = carnot_emit_transpose(e, x, t->perm, t->count);
  const int rank = c->y->type.rank;
  if (!dims_of(c->y, dims) || !to_picture) return carnot_emit_reshape(e, x, dims, rank);
  last_channels(rank, perm);
  for (int d = 0; d < rank; d++) last[d] = dims[perm[d]];
  x = carnot_emit_reshape(e, x, last, rank);
  for (int d = 0; d < rank; d++) dims[perm[d]] = d;
  return carnot_emit_transpose(e, x, dims, rank);
}

// Ends in a tensor that neither a transpose nor a reshape alone reads.
static bool is_end(const carnot_node* node) {
  if (node->output_count != 1 || (node->op != CARNOT_OP_TRANSPOSE && !is_reshape(node)))
    return false;
  const carnot_node* reader = carnot_only_user(node->outputs[0]);
  return !reader || (reader->op != CARNOT_OP_TRANSPOSE && !is_reshape(reader));
}

// The factors of the chain in both orders, channels that convolutions keep last behind the others.
static bool read_factors(const chain* c, bool from_picture, bool to_picture, factors* f) {
  int64_t dims[CARNOT_MAX_RANK], perm[CARNOT_MAX_RANK];
  const int rank = c->x->type.rank;
  *f = (factors){.count = 0};
  if (!dims_of(c->x, dims)) return false;
  for (int d = 0; d < rank; d++) {
    if (dims[d] == 1) continue;
    f->sizes[f->count] = dims[d];
    f->source[f->count] = f->current[f->count] = f->count;
    f->count++;
  }
  if (!group(f, dims, rank) || !follow(c, f)) return false;
  if (to_picture) last_channels(c->y->type.rank, perm), reorder(f, perm);
  if (!from_picture) return true;
  factors source = *f;
  memcpy(source.current, f->source, sizeof(source.current));
  if (!group(&source, dims, rank)) return false;
  last_channels(rank, perm), reorder(&source, perm);
  memcpy(f->source, source.current, sizeof(f->source));
  return true;
}

static carnot_status* join(carnot_node* node, const chain* c) {
  const bool from_picture = is_picture(c->x), to_picture = feeds_convolution(c->y);
  factors f;
  if (!read_factors(c, from_picture, to_picture, &f)) return NULL;
  const transpose t = transpose_of(&f);
  if (!moves_rows(&t)) return NULL;
  carnot_emitter e = {.at = node, .name = node->name};
  carnot_value* y = emit(&e, c, &t, from_picture, to_picture);
  CARNOT_TRY(e.status);
  for (int i = 1; i < c->count; i++) carnot_node_absorb(node, c->nodes[i]);
  return carnot_emit_replace(&e, node, y);
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->last, *previous; node; node = previous) {
    previous = node->previous;
    if (!is_end(node)) continue;
    const chain c = chain_of(node);
    if (c.moves < 2) continue;
    previous = c.nodes[c.count - 1]->previous;
    CARNOT_TRY(join(node, &c));
  }
  return NULL;
}

carnot_status* carnot_pass_join_transposes(carnot_graph* graph,
                                           const carnot_pass_options* options) {
  if (options->device) return NULL;
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
