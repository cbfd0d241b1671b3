// Convolution regions as CUDA kernels take them: the convolution problem, its epilogue mapped to
// the kernels' activations, and the rest of the region as a pointwise chain.
#include "backend/cuda/conv/conv.h"

static const char* of_problem(const carnot_region* region, uint32_t input_count,
                              carnot_cuda_conv* out, char* reason, size_t size) {
  const carnot_epilogue* e = &out->problem.epilogue;
  out->weights = out->problem.weights;
  out->bias = carnot_epilogue_bias(e);
  out->residual = e->residual;
  out->activation = carnot_cuda_epilogue_from(&e->activation);
  return carnot_cuda_chain_make(region, input_count, e->rest, e->acc, &out->chain, reason, size);
}

const char* carnot_cuda_conv_read(const carnot_problem* problem, const carnot_epilogue_mask* mask,
                                  carnot_cuda_conv* out, char* reason, size_t size) {
  if (carnot_conv_node(problem->region)->op != CARNOT_OP_CONV) return "";
  const char* why = carnot_conv_problem_read(problem, &out->problem, reason, size);
  if (!why) why = carnot_conv_problem_match(problem, mask, &out->problem);
  return why ? why : of_problem(problem->region, problem->input_count, out, reason, size);
}

carnot_status* carnot_cuda_conv_of_problem(const carnot_problem* problem,
                                           const carnot_epilogue_mask* mask,
                                           carnot_cuda_conv* out) {
  char reason[256];
  const char* why = carnot_cuda_conv_read(problem, mask, out, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a convolution that reject accepted: %s", why);
  return NULL;
}

const char* carnot_cuda_conv_read_packed(const carnot_problem* problem,
                                         const carnot_epilogue_mask* mask, bool depthwise,
                                         carnot_cuda_conv* out, char* reason, size_t size) {
  const char* why = carnot_cuda_conv_read(problem, mask, out, reason, size);
  if (why) return why;
  const carnot_operand_desc x = carnot_cuda_conv_input(problem),
                            *w = &problem->inputs[out->weights];
  if ((x.rank != 4 && !(depthwise && x.rank == 3)) || w->rank != x.rank)
    return carnot_cuda_reject_reason(reason, size, "rank %d", x.rank);
  if (w->format.dtype != x.format.dtype || !carnot_is_known(w))
    return "the weights are not constant";
  if (!depthwise && out->problem.group != 1) return "groups";
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
                                        const carnot_operand* outputs,
                                        const carnot_epilogue_mask* mask, carnot_cuda_conv* out) {
  char reason[256];
  const char* why = carnot_conv_problem_of_region(step->region, step->input_count, &out->problem);
  CARNOT_CHECK(!why && out->problem.node->op == CARNOT_OP_CONV, INVALID_MODEL,
               "the step is not a convolution: %s", why && *why ? why : "another operator");
  CARNOT_TRY(carnot_conv_problem_match_operands(step, inputs, &outputs[0], mask, &out->problem));
  why = of_problem(step->region, step->input_count, out, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  CARNOT_TRY(carnot_cuda_on_device(inputs, step->input_count));
  return carnot_cuda_on_device(outputs, step->output_count);
}

carnot_status* carnot_cuda_conv_check_bias(const carnot_cuda_conv* conv,
                                           const carnot_operand* inputs, const carnot_operand* y,
                                           int64_t filters, int alignment) {
  if (conv->bias == CARNOT_PLAN_NONE) return NULL;
  const carnot_operand* bias = &inputs[conv->bias];
  CARNOT_CHECK(carnot_dims_count(bias->dims, bias->rank) == filters &&
                   bias->format.dtype == y->format.dtype &&
                   (uintptr_t)bias->data % (uintptr_t)alignment == 0,
               INVALID_ARGUMENT, "the bias has %lld elements of %s; %lld of %s are required",
               (long long)carnot_dims_count(bias->dims, bias->rank),
               carnot_dtype_name(bias->format.dtype), (long long)filters,
               carnot_dtype_name(y->format.dtype));
  return NULL;
}

void carnot_cuda_conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_operand_desc *w = &problem->inputs[carnot_conv_node(problem->region)->inputs[1]],
                            *y = &problem->outputs[0];
  double outputs = (double)carnot_dims_count(y->dims, y->rank);
  double weights = (double)carnot_dims_count(w->dims, w->rank);
  *out_flops = 2 * outputs * weights / (double)carnot_max_i64(1, w->dims[0]);
  *out_bytes = (outputs + weights +
                (double)carnot_dims_count(problem->inputs[0].dims, problem->inputs[0].rank)) *
               carnot_dtype_bits(y->format.dtype) / 8;
}
