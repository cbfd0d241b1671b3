// Splits the channels of convolutions into attention heads behind a transpose to channels last:
//   reshape(x [b,c,l], [b,h,d,l])            -> transpose(reshape(transpose(x), [b,l,h,d]))
//   reshape(transpose(o [b,h,l,d]), [b,c,l]) -> transpose(reshape(transpose(o), [b,l,c]))
// for q, k, v and the result of one attention, on the processor. Convolutions compute channels
// last, so the outer transposes move nothing, and the elements of a head are contiguous, as
// fuse_attention requires.
#include "pass/emit.h"

enum { kOperands = 3, kMostScores = 4 };

// q, k and v as they are split from channels, and the reshape of the result back to channels.
typedef struct heads {
  carnot_node *splits[kOperands], *values, *join;
} heads;

static bool has_rank(const carnot_value* value, int rank) {
  return carnot_is_ranked(value) && value->type.rank == rank;
}

// |split| is [b,h,d,l] of |whole| [b,c,l], h and d known.
static bool splits_channels(const carnot_type* whole, const carnot_type* split) {
  const carnot_sym h = split->dims[1], d = split->dims[2], c = whole->dims[1];
  return carnot_sym_is_const(h) && carnot_sym_is_const(d) && carnot_sym_is_const(c) &&
         h.bits * d.bits == c.bits && carnot_sym_same(split->dims[0], whole->dims[0]) &&
         carnot_sym_same(split->dims[3], whole->dims[2]);
}

static bool is_view(const carnot_node* node) {
  return node && carnot_op_has_trait(node->op, CARNOT_TRAIT_VIEW);
}

// The reshape of a convolution's result that operand |input| of |matmul| comes from, behind at most
// one transpose.
static carnot_node* find_split(const carnot_node* matmul, int input) {
  carnot_node* node = carnot_only_producer(matmul->inputs[input]);
  if (node && node->op == CARNOT_OP_TRANSPOSE) node = carnot_only_producer(node->inputs[0]);
  if (!is_view(node) || !has_rank(node->outputs[0], 4) || !has_rank(node->inputs[0], 3) ||
      !splits_channels(&node->inputs[0]->type, &node->outputs[0]->type))
    return NULL;
  const carnot_node* conv = carnot_only_producer(node->inputs[0]);
  return conv && conv->op == CARNOT_OP_CONV ? node : NULL;
}

// The MatMul of q and k, behind scales and masks of the scores.
static carnot_node* scores_of(const carnot_node* softmax) {
  carnot_node* node = carnot_only_producer(softmax->inputs[0]);
  for (int i = 0; i < kMostScores && node && node->op == CARNOT_OP_BINARY; i++)
    node = carnot_only_producer(node->inputs[0]);
  return node && node->op == CARNOT_OP_MATMUL ? node : NULL;
}

static bool find(carnot_node* softmax, heads* out) {
  if (!has_rank(softmax->outputs[0], 4)) return false;
  carnot_node *scores = scores_of(softmax), *values = carnot_only_user(softmax->outputs[0]);
  if (!scores || !values || values->op != CARNOT_OP_MATMUL ||
      values->inputs[0] != softmax->outputs[0])
    return false;
  *out = (heads){.splits = {find_split(scores, 0), find_split(scores, 1), find_split(values, 1)},
                 .values = values};
  for (int i = 0; i < kOperands; i++)
    if (!out->splits[i]) return false;
  const carnot_node* turn = carnot_only_user(values->outputs[0]);
  if (!carnot_swaps_last(turn)) return false;
  out->join = carnot_only_user(turn->outputs[0]);
  return is_view(out->join) && out->join->inputs[0] == turn->outputs[0] &&
         has_rank(out->join->outputs[0], 3) &&
         splits_channels(&out->join->outputs[0]->type, &turn->outputs[0]->type);
}

static const int64_t kLast3[3] = {0, 2, 1};

static carnot_status* rewrite_split(carnot_node* split) {
  static const int64_t kBack[4] = {0, 2, 3, 1};
  const carnot_type* type = &split->outputs[0]->type;
  const int64_t dims[4] = {0, 0, type->dims[1].bits, type->dims[2].bits};  // 0: as it was
  carnot_emitter e = {.at = split, .name = split->name};
  carnot_value* x = carnot_emit_transpose(&e, split->inputs[0], kLast3, 3);
  x = carnot_emit_reshape(&e, x, dims, 4);
  return carnot_emit_replace(&e, split, carnot_emit_transpose(&e, x, kBack, 4));
}

static carnot_status* rewrite_join(const heads* h) {
  static const int64_t kHeadsBehind[4] = {0, 2, 1, 3};
  const int64_t dims[3] = {0, 0, h->join->outputs[0]->type.dims[1].bits};
  carnot_emitter e = {.at = h->join, .name = h->join->name};
  carnot_value* x = carnot_emit_transpose(&e, h->values->outputs[0], kHeadsBehind, 4);
  x = carnot_emit_reshape(&e, x, dims, 3);
  return carnot_emit_replace(&e, h->join, carnot_emit_transpose(&e, x, kLast3, 3));
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node* node = block->first; node; node = node->next) {
    heads h;
    if (node->op != CARNOT_OP_SOFTMAX || !find(node, &h)) continue;
    for (int i = 0; i < kOperands; i++) CARNOT_TRY(rewrite_split(h.splits[i]));
    CARNOT_TRY(rewrite_join(&h));
  }
  return NULL;
}

carnot_status* carnot_pass_channels_last_heads(carnot_graph* graph,
                                               const carnot_pass_options* options) {
  if (options->device) return NULL;
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
