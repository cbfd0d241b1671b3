// Collects GEMMs and convolutions of integers whose activations are quantized in the run:
// [dynamic_quantize_linear,] matmul_integer or conv_integer, the product of the scales, cast to
// float32, mul, [add], [relu]. The quantization joins where the GEMM alone reads it. The longest
// region that a kernel takes is fused.
#include "pass/quantized_region.h"

typedef struct pattern {
  carnot_node *gemm, *scales, *cast, *scaled;
  carnot_node *quantize, *sum, *relu;  // may be NULL
} pattern;

static carnot_node* reader_of(const carnot_node* node, int output) {
  carnot_node* reader = carnot_only_user(node->outputs[output]);
  return reader && reader->block == node->block ? reader : NULL;
}

static carnot_value* other_operand(const carnot_node* node, const carnot_value* value) {
  return node->inputs[node->inputs[0] == value ? 1 : 0];
}

// The node of |fn| that alone reads |value| and keeps its dimensions.
static carnot_node* follower(const carnot_node* node, carnot_fn fn) {
  carnot_node* next = reader_of(node, 0);
  return carnot_node_is_fn(next, fn) && next->op == CARNOT_OP_BINARY &&
                 next->outputs[0]->type.dtype == CARNOT_DTYPE_F32 &&
                 carnot_same_dims(&next->outputs[0]->type, &node->outputs[0]->type)
             ? next
             : NULL;
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
  out->scaled = follower(out->cast, CARNOT_FN_MUL);
  if (!out->scaled) return false;
  const carnot_value* scales = other_operand(out->scaled, out->cast->outputs[0]);
  out->scales = scales->producer;
  if (!carnot_node_is_fn(out->scales, CARNOT_FN_MUL) || out->scales->block != gemm->block ||
      carnot_only_user(scales) != out->scaled)
    return false;
  out->sum = follower(out->scaled, CARNOT_FN_ADD);
  if (out->sum && !other_operand(out->sum, out->scaled->outputs[0])->constant) out->sum = NULL;
  carnot_node* last = reader_of(out->sum ? out->sum : out->scaled, 0);
  if (carnot_node_is_fn(last, CARNOT_FN_RELU)) out->relu = last;
  carnot_node* from = gemm->inputs[0]->producer;
  if (from && from->op == CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR && from->block == gemm->block &&
      from->output_count == 3 && reads_alone(from, 0, gemm) && reads_alone(from, 1, out->scales) &&
      reads_alone(from, 2, gemm))
    out->quantize = from;
  return true;
}

static carnot_status* fuse(const carnot_pass_options* options, const pattern* p, bool quantize,
                           bool sum, bool relu, carnot_node** out_region) {
  carnot_node* nodes[7];
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
  if (sum) nodes[count++] = p->sum;
  if (relu) nodes[count++] = p->relu;
  if (!carnot_pass_accepts(options, nodes, count)) return NULL;
  return carnot_fuse(nodes, count, out_region);
}

carnot_status* carnot_fuse_dynamic(const carnot_pass_options* options, carnot_node* gemm) {
  pattern p;
  carnot_node* region = NULL;
  if (!options->accepts || !find_pattern(gemm, &p)) return NULL;
  for (int i = 7; i >= 0 && !region; i--) {
    const bool relu = i & 4, quantize = i & 1, sum = i & 2;
    if ((quantize && !p.quantize) || (sum && !p.sum) || (relu && (!p.relu || (p.sum && !sum))))
      continue;
    CARNOT_TRY(fuse(options, &p, quantize, sum, relu, &region));
  }
  return NULL;
}
