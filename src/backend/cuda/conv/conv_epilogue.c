// Matches what follows a convolution in its region: bias, residual, activation, and the rest as a
// pointwise chain.
#include <math.h>

#include "backend/cuda/conv/conv.h"

const char* carnot_cuda_conv_read(const carnot_region* region, uint32_t input_count,
                                  const bool* channel, const bool* whole,
                                  carnot_cuda_conv_takes takes, carnot_cuda_conv* out, char* reason,
                                  size_t size) {
  const carnot_plan_node* node = carnot_cuda_conv_node(region);
  bool casts = carnot_cuda_conv_casts(region);
  if (node->op != CARNOT_OP_CONV) return "";
  *out = (carnot_cuda_conv){.bias = CARNOT_PLAN_NONE, .residual = CARNOT_PLAN_NONE};
  out->weights = node->inputs[1];
  uint32_t x = casts ? region->nodes[0].inputs[0] : node->inputs[0];
  if (x != 0 || (casts && node->inputs[0] != region->nodes[0].outputs[0]) ||
      out->weights >= input_count)
    return "no operands";
  if (node->input_count > 2) out->bias = node->inputs[2];
  if (out->bias != CARNOT_PLAN_NONE && out->bias >= input_count) return "no operands";
  uint32_t acc = node->outputs[0], next = casts + 1;
  for (; next < region->node_count && carnot_cuda_is_fn(&region->nodes[next], CARNOT_FN_ADD);
       next++) {
    const carnot_plan_node* add = &region->nodes[next];
    uint32_t other = add->inputs[0] == acc ? add->inputs[1] : add->inputs[0];
    if (add->inputs[0] == add->inputs[1] || other >= input_count) break;
    if (channel[other] && out->bias == CARNOT_PLAN_NONE && out->residual == CARNOT_PLAN_NONE)
      out->bias = other;
    else if (whole[other] && takes >= CARNOT_CUDA_TAKES_RESIDUAL &&
             out->residual == CARNOT_PLAN_NONE)
      out->residual = other;
    else
      break;
    acc = add->outputs[0];
  }
  if (takes != CARNOT_CUDA_TAKES_BIAS && next < region->node_count) {
    carnot_cuda_epilogue e = carnot_cuda_epilogue_of(&region->nodes[next]);
    // cuDNN's engines with a clip at both ends took 20 to 100 times as long.
    bool relu = e.kind == CARNOT_CUDA_CLAMP && e.low == 0 && e.high == INFINITY;
    bool in_library = e.kind == CARNOT_CUDA_SILU || relu;
    if (e.kind && (in_library || takes != CARNOT_CUDA_TAKES_RESIDUAL)) {
      out->activation = e;
      acc = region->nodes[next++].outputs[0];
    }
  }
  return carnot_cuda_chain_make(region, input_count, next, acc, &out->chain, reason, size);
}

// [K,1,..] that meets [N,K,..] along its channels.
static bool is_channel(int rank, const int64_t* dims, int y_rank, int64_t filters) {
  int at = rank - (y_rank - 1);
  for (int d = 0; d < rank; d++)
    if (dims[d] != (d == at ? filters : 1)) return false;
  return at >= 0;
}

const char* carnot_cuda_conv_describe(const carnot_problem* problem, carnot_cuda_conv_takes takes,
                                      carnot_cuda_conv* out, char* reason, size_t size) {
  bool channel[64] = {false}, whole[64] = {false};
  if (problem->input_count > 64) return "too many operands";
  if (carnot_cuda_conv_node(problem->region)->op != CARNOT_OP_CONV) return "";
  const carnot_operand_desc* y = &problem->outputs[0];
  for (uint32_t i = 0; i < problem->input_count; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    if (t->format.dtype != y->format.dtype || t->rank < 0 || y->rank < 2) continue;
    channel[i] = t->is_constant && is_channel(t->rank, t->dims, y->rank, y->dims[1]);
    whole[i] = !t->is_constant && t->rank == y->rank;
    for (int d = 0; whole[i] && d < y->rank; d++)
      whole[i] = t->dims[d] == y->dims[d] && t->min[d] == y->min[d] && t->max[d] == y->max[d];
  }
  return carnot_cuda_conv_read(problem->region, problem->input_count, channel, whole, takes, out,
                               reason, size);
}

const char* carnot_cuda_conv_packs(const carnot_problem* problem, carnot_cuda_conv_takes takes,
                                   bool groups, carnot_cuda_conv* out, char* reason, size_t size) {
  const char* why = carnot_cuda_conv_describe(problem, takes, out, reason, size);
  if (why) return why;
  const carnot_plan_node* node = carnot_cuda_conv_node(problem->region);
  const carnot_operand_desc x = carnot_cuda_conv_input(problem),
                            *w = &problem->inputs[out->weights];
  if (x.rank != 4 || w->rank != 4)
    return carnot_cuda_reject_reason(reason, size, "rank %d", x.rank);
  if (w->format.dtype != x.format.dtype || !carnot_is_known(w))
    return "the weights are not constant";
  if (!groups && carnot_attr_int(carnot_op_get(node->op), &node->attrs, "group") != 1)
    return "groups";
  return NULL;
}

void carnot_cuda_conv_want_channels_last(carnot_problem* problem, uint32_t first) {
  carnot_cuda_want_row_major(problem);
  problem->outputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  for (uint32_t i = first; i < problem->input_count; i++)
    if (!problem->inputs[i].is_constant)
      problem->inputs[i].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
}

carnot_status* carnot_cuda_conv_of_step(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, carnot_cuda_conv_takes takes,
                                        carnot_cuda_conv* out) {
  bool channel[64] = {false}, whole[64] = {false};
  CARNOT_CHECK(step->input_count <= 64, INVALID_MODEL, "%u operands", step->input_count);
  const carnot_operand* y = &outputs[0];
  for (uint32_t i = 0; i < step->input_count; i++) {
    const carnot_operand* t = &inputs[i];
    if (t->format.dtype != y->format.dtype || y->rank < 2) continue;
    channel[i] = is_channel(t->rank, t->dims, y->rank, y->dims[1]);
    whole[i] = t->rank == y->rank && !channel[i];
    for (int d = 0; whole[i] && d < y->rank; d++) whole[i] = t->dims[d] == y->dims[d];
  }
  char reason[256];
  const char* why = carnot_cuda_conv_read(step->region, step->input_count, channel, whole, takes,
                                          out, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  CARNOT_TRY(carnot_cuda_on_device(inputs, step->input_count));
  return carnot_cuda_on_device(outputs, step->output_count);
}

void carnot_cuda_conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_operand_desc *w =
                                &problem->inputs[carnot_cuda_conv_node(problem->region)->inputs[1]],
                            *y = &problem->outputs[0];
  double outputs = (double)carnot_dims_count(y->dims, y->rank);
  double weights = (double)carnot_dims_count(w->dims, w->rank);
  *out_flops = 2 * outputs * weights / (double)carnot_max_i64(1, w->dims[0]);
  *out_bytes = (outputs + weights +
                (double)carnot_dims_count(problem->inputs[0].dims, problem->inputs[0].rank)) *
               carnot_dtype_bits(y->format.dtype) / 8;
}
