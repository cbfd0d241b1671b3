// What the float32 convolution tactics share: reading the problem, packing the bias, checks of
// stored parameters.
#include <stdlib.h>

#include "backend/cpu/conv/conv.h"
#include "tactic/problem/conv.h"

const float carnot_conv_zeros[CARNOT_CONV_MAX_CHANNELS];

// |bias| has room for one number per filter.
static const char* read_bias(const carnot_problem* problem, const carnot_conv_problem* conv,
                             float* bias) {
  size_t bytes = (size_t)conv->filters * sizeof(*bias);
  memset(bias, 0, bytes);
  if (conv->bias == CARNOT_PLAN_NONE) return NULL;
  const carnot_operand_desc* b = &problem->inputs[conv->bias];
  if (!carnot_is_f32_constant(b)) return "the bias is not constant float32";
  memcpy(bias, b->tensor->data, bytes);
  return NULL;
}

static const char* read_operands(const carnot_problem* problem, carnot_conv_problem* out,
                                 char* reason, size_t size) {
  const char* why = carnot_conv_problem_read(problem, out, reason, size);
  if (why) return why;
  if (out->node->op != CARNOT_OP_CONV || out->casts)
    return "the region does not begin with its convolution";
  const carnot_operand_desc *x = &problem->inputs[0], *w = &problem->inputs[out->weights];
  why = carnot_not_f32_value(problem, x, "the input", 3, 5, reason, size);
  if (why) return why;
  if (!carnot_is_f32_constant(w) || w->rank != x->rank)
    return "the weights are not constant float32";
  if (out->filters < 1 || out->filters > CARNOT_CONV_MAX_FILTERS)
    return carnot_because(reason, size, "%lld filters, takes up to %d", (long long)out->filters,
                          CARNOT_CONV_MAX_FILTERS);
  return NULL;
}

// Fills |out| and the bias of a problem whose operands were read.
static const char* read_params(const carnot_problem* problem, const carnot_conv_problem* conv,
                               carnot_conv_params* out, float* bias, char* reason, size_t size) {
  bool has_bias = conv->bias != CARNOT_PLAN_NONE;
  *out = (carnot_conv_params){.window = conv->window,
                              .group = conv->group,
                              .channels = conv->channels,
                              .filters = conv->filters};
  const char* why = read_bias(problem, conv, bias);
  if (!why)
    why = carnot_epilogue_plan_make(problem, /*anchor=*/0, problem->inputs[0].rank - 1, bias,
                                    out->filters, &has_bias, &out->epilogue_plan, reason, size);
  out->has_bias = has_bias;
  return why;
}

static void want_channels_last(carnot_problem* problem, const carnot_epilogue_plan* plan) {
  problem->inputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  for (uint32_t i = 1; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  if (plan->residual >= 0)
    problem->inputs[plan->residual].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  for (int i = 0; i < plan->operand_count; i++)
    if (plan->operands[i].shape == CARNOT_EPILOGUE_FULL)
      problem->inputs[plan->operands[i].input].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
}

const char* carnot_conv_reject(carnot_problem* problem, carnot_conv_params* out, char* reason,
                               size_t size) {
  carnot_conv_problem conv;
  const char* why = read_operands(problem, &conv, reason, size);
  if (why) return why;
  float* bias = malloc((size_t)conv.filters * sizeof(float));
  if (!bias) return "no memory";
  why = read_params(problem, &conv, out, bias, reason, size);
  free(bias);
  if (!why) want_channels_last(problem, &out->epilogue_plan);
  return why;
}

carnot_status* carnot_conv_prepare(const carnot_problem* problem, carnot_prepared* out,
                                   carnot_conv_params** out_params) {
  carnot_conv_problem conv;
  char reason[256];
  const char* why = read_operands(problem, &conv, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a convolution that reject accepted: %s", why);
  size_t room = (size_t)carnot_align_up((size_t)conv.filters, 16);
  void *bias, *params;
  CARNOT_TRY(carnot_arena_try(out->arena, room, sizeof(float), "a bias", &bias));
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(carnot_conv_params), "parameters", &params));
  why = read_params(problem, &conv, params, bias, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a convolution that reject accepted: %s", why);
  *out_params = params;
  out->params = params;
  out->param_bytes = sizeof(carnot_conv_params);
  out->constants[1].packing = "dense f32";
  out->constants[1].data = bias;
  out->constants[1].bytes = room * sizeof(float);
  out->constant_count = 2;
  out->packed_inputs = (uint64_t)1 << conv.weights;
  if (conv.bias != CARNOT_PLAN_NONE) out->packed_inputs |= (uint64_t)1 << conv.bias;
  return NULL;
}

carnot_status* carnot_conv_alloc_weights(carnot_prepared* out, const char* packing, size_t bytes,
                                         void** out_packed) {
  CARNOT_TRY(carnot_arena_try(out->arena, bytes + 64, 1, "packed weights", out_packed));
  *out_packed = (void*)carnot_align_up((uintptr_t)*out_packed, 64);
  out->constants[0].packing = packing;
  out->constants[0].data = *out_packed;
  out->constants[0].bytes = bytes;
  return NULL;
}

carnot_status* carnot_conv_pack_taps(carnot_weights_type type, carnot_packed_weights_shape shape,
                                     int64_t channels, const float* weights, void* packed) {
  void* wide;
  const int64_t depth = shape.taps * shape.depth;
  CARNOT_TRY(carnot_calloc((size_t)carnot_packed_k1n16_count(depth, shape.n), sizeof(float),
                           "weights before packing", &wide));
  carnot_pack_conv_k1n16_f32(shape.n, channels, depth / channels, weights, wide);
  carnot_packed_weights_pack(type, shape, wide, packed);
  free(wide);
  return NULL;
}

carnot_status* carnot_conv_params_check(const carnot_conv_params* p, uint32_t input_count,
                                        int most_dims) {
  CARNOT_TRY(carnot_sliding_window_check(&p->window, 1, most_dims));
  CARNOT_CHECK(p->group >= 1 && p->channels >= 1 && p->filters >= 1 && p->channels <= INT32_MAX &&
                   p->filters <= CARNOT_CONV_MAX_FILTERS && p->channels % p->group == 0 &&
                   p->filters % p->group == 0,
               INVALID_MODEL, "%lld channels, %lld filters, %lld groups", (long long)p->channels,
               (long long)p->filters, (long long)p->group);
  return carnot_epilogue_plan_validate(&p->epilogue_plan, input_count);
}

carnot_status* carnot_conv_check_params(const carnot_step_view* step, int most_dims,
                                        const carnot_conv_params** out) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_conv_params) && step->constant_count == 2,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and 2",
               step->param_bytes, step->constant_count, sizeof(carnot_conv_params));
  const carnot_conv_params* p = step->params;
  CARNOT_CHECK(step->region->nodes[0].op == CARNOT_OP_CONV && step->input_count >= 2, INVALID_MODEL,
               "the step is not a convolution");
  CARNOT_TRY(carnot_conv_params_check(p, step->input_count, most_dims));
  CARNOT_CHECK(step->constant_bytes[1] >= (size_t)p->filters * sizeof(float), INVALID_MODEL,
               "the bias has %zu bytes", step->constant_bytes[1]);
  *out = p;
  return NULL;
}

carnot_status* carnot_conv_check_packed(const carnot_step_view* step, size_t bytes) {
  CARNOT_CHECK(step->constant_bytes[0] == bytes, INVALID_MODEL,
               "the packed weights have %zu bytes, must have %zu", step->constant_bytes[0], bytes);
  return NULL;
}

bool carnot_conv_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_conv_params* p = step->params;
  if (input == 0 || carnot_epilogue_plan_uses_input(&p->epilogue_plan, input)) return true;
  return !((node->input_count > 1 && node->inputs[1] == input) ||
           (node->input_count > 2 && node->inputs[2] == input));
}

carnot_status* carnot_conv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, carnot_window_geometry* out) {
  return carnot_conv_configure_from(step, &inputs[0], inputs, outputs, out);
}

carnot_status* carnot_conv_configure_row_major(const carnot_step_view* step,
                                               const carnot_operand* inputs,
                                               const carnot_operand* outputs,
                                               carnot_window_geometry* out) {
  CARNOT_CHECK(outputs[0].format.dtype == CARNOT_DTYPE_F32 && carnot_cpu_is_dense(&outputs[0]),
               INVALID_MODEL, "the result is no dense float32");
  carnot_operand y = outputs[0];
  carnot_layout_strides(CARNOT_LAYOUT_CHANNELS_LAST, y.rank, y.dims, y.strides);
  return carnot_conv_configure(step, inputs, &y, out);
}

carnot_status* carnot_conv_configure_pixels(const carnot_step_view* step,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs, int64_t* out_src_c,
                                            carnot_window_geometry* out) {
  carnot_operand x = inputs[0];
  CARNOT_CHECK(x.rank >= 3 && x.format.dtype == CARNOT_DTYPE_F32, INVALID_MODEL,
               "an input of rank %d and %s", x.rank, carnot_dtype_name(x.format.dtype));
  *out_src_c = x.strides[1];
  x.strides[1] = 1;
  return carnot_conv_configure_from(step, &x, inputs, outputs, out);
}

carnot_status* carnot_conv_configure_from(const carnot_step_view* step, const carnot_operand* x,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs,
                                          carnot_window_geometry* out) {
  const carnot_conv_params* p = step->params;
  CARNOT_CHECK(carnot_cpu_is_f32_value(step, x) && carnot_cpu_is_f32_value(step, &outputs[0]),
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(outputs[0].format.dtype));
  CARNOT_TRY(carnot_window_geometry_of(&p->window, x, &outputs[0], out));
  CARNOT_CHECK(out->c == p->channels && out->k == p->filters, INVALID_ARGUMENT,
               "%lld channels and %lld filters; the packed weights have %lld and %lld",
               (long long)out->c, (long long)out->k, (long long)p->channels, (long long)p->filters);
  return carnot_epilogue_plan_check(step, &p->epilogue_plan, inputs, &outputs[0], p->filters);
}

bool carnot_conv_rounds_last(const carnot_epilogue_plan* plan, bool takes_gate) {
  const carnot_kernel_activation activation = (carnot_kernel_activation)plan->activation;
  return (activation <= CARNOT_KERNEL_ACTIVATION_CLIP ||
          (takes_gate && carnot_kernel_is_gate(activation))) &&
         !plan->program.instruction_count;
}

const char* carnot_conv_reject_bf16(const carnot_problem* problem, const carnot_epilogue_plan* plan,
                                    bool takes_gate) {
  const carnot_dtype result = problem->outputs[0].format.dtype;
  if (result == CARNOT_DTYPE_BF16 && !carnot_conv_rounds_last(plan, takes_gate))
    return "the activation is computed behind the sum, which BF16 would round first";
  if (plan->residual >= 0 && problem->inputs[plan->residual].format.dtype != result)
    return "the residual and the result have different types";
  return NULL;
}

carnot_status* carnot_conv_check_bf16(const carnot_epilogue_plan* plan, bool takes_gate,
                                      const carnot_operand* inputs, const carnot_operand* outputs) {
  const carnot_dtype result = outputs[0].format.dtype;
  CARNOT_CHECK(result != CARNOT_DTYPE_BF16 || carnot_conv_rounds_last(plan, takes_gate),
               INVALID_MODEL, "activation %d of a BF16 result", plan->activation);
  CARNOT_CHECK(plan->residual < 0 || inputs[plan->residual].format.dtype == result, INVALID_MODEL,
               "a residual of %s, a result of %s",
               carnot_dtype_name(inputs[plan->residual].format.dtype), carnot_dtype_name(result));
  return NULL;
}

int64_t carnot_conv_rows_per_part(int threads, int64_t rows, int64_t span) {
  const int64_t even = carnot_ceildiv(rows, carnot_parts(threads)),
                tall = carnot_min_i64(4 * span, carnot_ceildiv(rows, 4 * (int64_t)threads));
  return carnot_max_i64(1, carnot_max_i64(even, tall));
}

void carnot_conv_work(const carnot_problem* problem, double weight_bytes, double* out_flops,
                      double* out_bytes) {
  const carnot_operand_desc* w = carnot_conv_weights(problem);
  const carnot_operand_desc* y = &problem->outputs[0];
  double pixels =
      (double)carnot_dims_count(y->dims, y->rank) / (double)carnot_max_i64(1, y->dims[1]);
  double weights = (double)carnot_dims_count(w->dims, w->rank);
  *out_flops = 2 * pixels * weights;
  const carnot_operand_desc* x = &problem->inputs[0];
  *out_bytes =
      weight_bytes * weights +
      carnot_dtype_bits(x->format.dtype) / 8.0 * (double)carnot_dims_count(x->dims, x->rank) +
      carnot_dtype_bits(y->format.dtype) / 8.0 * pixels * (double)y->dims[1];
}

// Pixels in place are read mostly from L2. Others are copied by every part, in whole rows, for a
// row that two parts share is copied twice.
carnot_work_partition carnot_conv_tiles_partition(int threads,
                                                  const carnot_conv2d_bf16_tiles* call) {
  enum { kRowUnit = 32 };
  const carnot_conv2d_f32* c = &call->conv;
  const bool in_place = carnot_conv2d_bf16_tiles_in_place(call);
  const int64_t depth = c->c * c->r * c->s;
  const double src = (double)(c->n * c->h * c->w * c->c);
  const int passes = in_place ? 1 : call->src_is_bf16 ? 4 : 6;
  return carnot_work_partition_make_least(threads, c->n * c->p * c->q, c->k, depth,
                                          in_place ? kRowUnit : c->q, src * passes,
                                          (double)(depth * c->k) * 2);
}
