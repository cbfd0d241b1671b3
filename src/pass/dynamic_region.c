// Collects GEMMs and convolutions of integers whose activations are quantized in the run:
// [dynamic_quantize_linear,] matmul_integer or conv_integer, the product of the scales, cast to
// float32, mul, [bias], [residual], [activation], [dynamic_quantize_linear]. The quantization
// before it joins where the GEMM alone reads it, that behind it where it comes before what else
// reads the result. The longest region that a kernel takes is fused.
#include "pass/quantized_region.h"

enum { kMostBehind = 4 };

typedef struct pattern {
  carnot_node *gemm, *scales, *cast, *scaled;
  carnot_node* quantize;             // may be NULL
  carnot_node* behind[kMostBehind];  // what may follow, in order
  int behind_count;
} pattern;

static carnot_node* reader_of(const carnot_node* node, int output) {
  carnot_node* reader = carnot_only_user(node->outputs[output]);
  return reader && reader->block == node->block ? reader : NULL;
}

static carnot_value* other_operand(const carnot_node* node, const carnot_value* value) {
  return node->inputs[node->inputs[0] == value ? 1 : 0];
}

// Whether |node| computes float32 of the dimensions of |value|.
static bool keeps_type(const carnot_node* node, const carnot_value* value) {
  return node && node->outputs[0]->type.dtype == CARNOT_DTYPE_F32 &&
         carnot_same_dims(&node->outputs[0]->type, &value->type);
}

static bool is_sum(const carnot_node* node) {
  return carnot_node_is_fn(node, CARNOT_FN_ADD) && node->op == CARNOT_OP_BINARY &&
         node->inputs[0] != node->inputs[1];
}

// The dynamic quantization of |value|, where it comes before what else reads that.
static carnot_node* quantize_behind(const carnot_value* value) {
  carnot_node* found = NULL;
  for (size_t i = 0; i < value->use_count && !found; i++)
    if (value->uses[i].node->op == CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR &&
        value->uses[i].node->block == value->block)
      found = value->uses[i].node;
  for (size_t i = 0; found && i < value->use_count; i++) {
    const carnot_node* other = value->uses[i].node;
    if (other->block != value->block || (other != found && carnot_node_comes_before(other, found)))
      return NULL;
  }
  return found;
}

// A bias, a residual, an activation and a quantization, each where it is there.
static void find_behind(pattern* p) {
  carnot_value* value = p->scaled->outputs[0];
  bool has_activation = false;
  for (carnot_node* node; p->behind_count + 1 < kMostBehind && !has_activation;) {
    node = value->use_count == 1 ? reader_of(value->producer, 0) : NULL;
    if (!keeps_type(node, value) || (!is_sum(node) && node->op != CARNOT_OP_UNARY)) break;
    has_activation = node->op == CARNOT_OP_UNARY;
    p->behind[p->behind_count++] = node;
    value = node->outputs[0];
  }
  carnot_node* quantize = quantize_behind(value);
  if (quantize) p->behind[p->behind_count++] = quantize;
}

static bool reads_alone(const carnot_node* quantize, int output, const carnot_node* reader) {
  const carnot_value* value = quantize->outputs[output];
  return value && carnot_only_user(value) == reader;
}

static bool find_pattern(carnot_node* gemm, pattern* out) {
  *out = (pattern){.gemm = gemm, .cast = reader_of(gemm, 0)};
  if (!out->cast || out->cast->op != CARNOT_OP_CAST ||
      out->cast->outputs[0]->type.dtype != CARNOT_DTYPE_F32)
    return false;
  out->scaled = reader_of(out->cast, 0);
  if (!keeps_type(out->scaled, gemm->outputs[0]) || out->scaled->op != CARNOT_OP_BINARY ||
      !carnot_node_is_fn(out->scaled, CARNOT_FN_MUL))
    return false;
  const carnot_value* scales = other_operand(out->scaled, out->cast->outputs[0]);
  out->scales = scales->producer;
  if (!carnot_node_is_fn(out->scales, CARNOT_FN_MUL) || out->scales->block != gemm->block)
    return false;
  find_behind(out);
  return true;
}

// A product of scales that several GEMMs read is computed for each: |p| takes a copy, *out_original
// is what it replaces, NULL where |p| alone reads it.
static carnot_status* copy_shared_scales(pattern* p, carnot_node** out_original) {
  carnot_node *from = p->scales, *copy;
  *out_original = NULL;
  if (carnot_only_user(from->outputs[0]) == p->scaled) return NULL;
  CARNOT_TRY(carnot_node_insert_before(p->scaled, from->op, from->name, &from->attrs, from->inputs,
                                       from->input_count, 1, &copy));
  copy->order = from->order;
  copy->is_unnamed = from->is_unnamed;
  carnot_node_set_input(p->scaled, p->scaled->inputs[0] == from->outputs[0] ? 0 : 1,
                        copy->outputs[0]);
  *out_original = from;
  p->scales = copy;
  return NULL;
}

static void undo_copy(const pattern* p, carnot_node* original) {
  carnot_node_set_input(p->scaled, p->scaled->inputs[0] == p->scales->outputs[0] ? 0 : 1,
                        original->outputs[0]);
  carnot_node_remove(p->scales);
}

static void find_quantize(pattern* p) {
  carnot_node* from = p->gemm->inputs[0]->producer;
  if (from && from->op == CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR && from->block == p->gemm->block &&
      from->output_count == 3 && reads_alone(from, 0, p->gemm) && reads_alone(from, 1, p->scales) &&
      reads_alone(from, 2, p->gemm))
    p->quantize = from;
}

static carnot_status* fuse(const carnot_pass_options* options, const pattern* p, bool quantize,
                           int behind, carnot_node** out_region) {
  carnot_node* nodes[5 + kMostBehind];
  int count = 0;
  if (quantize) nodes[count++] = p->quantize;
  const bool gemm_first = carnot_node_comes_before(p->gemm, p->scales);
  nodes[count++] = gemm_first ? p->gemm : p->scales;
  nodes[count++] = gemm_first ? p->scales : p->gemm;
  // The cast may come before the scales.
  if (gemm_first && carnot_node_comes_before(p->cast, p->scales)) {
    nodes[count - 1] = p->cast;
    nodes[count++] = p->scales;
  } else {
    nodes[count++] = p->cast;
  }
  nodes[count++] = p->scaled;
  for (int i = 0; i < behind; i++) nodes[count++] = p->behind[i];
  if (!carnot_pass_accepts(options, nodes, count)) return NULL;
  return carnot_fuse(nodes, count, out_region);
}

carnot_status* carnot_fuse_dynamic(const carnot_pass_options* options, carnot_node* gemm) {
  pattern p;
  carnot_node *region = NULL, *shared;
  if (!options->accepts || !find_pattern(gemm, &p)) return NULL;
  CARNOT_TRY(copy_shared_scales(&p, &shared));
  find_quantize(&p);
  for (int behind = p.behind_count; behind >= 0 && !region; behind--)
    for (int quantize = p.quantize != NULL; quantize >= 0 && !region; quantize--)
      CARNOT_TRY(fuse(options, &p, quantize, behind, &region));
  if (!region && shared) undo_copy(&p, shared);
  return NULL;
}
