// ConvInteger with constant weights that int8 holds less their zero point. The zero point of the
// activations may be computed in the network.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/conv/int8_conv.h"
#include "kernel/cpu/gemm/gemm_u8s8.h"
#include "tactic/problem/conv.h"

enum { kX, kW, kXZero, kWZero };
enum { kPacked, kSums, kConstants };

// Stored in engines.
typedef struct conv_integer_shape {
  int64_t group, channels, filters, taps;
} conv_integer_shape;
typedef struct conv_integer_params {
  carnot_sliding_window window;
  conv_integer_shape shape;
} conv_integer_params;

static carnot_int8_weights_shape weights_of(const conv_integer_shape* s) {
  return (carnot_int8_weights_shape){s->group, s->taps, s->channels / s->group,
                                     s->filters / s->group};
}

static const carnot_operand_desc* given(const carnot_problem* p, uint32_t i) {
  return i < p->input_count && p->inputs[i].kind == CARNOT_VALUE_TENSOR ? &p->inputs[i] : NULL;
}

// The weights less their zero points to |out|, which may be NULL, and the sums of each filter to
// |out_sums|, likewise. NULL, or the reason.
static const char* center(const carnot_problem* problem, int64_t filters, int8_t* out,
                          int32_t* out_sums, char* reason, size_t size) {
  const carnot_tensor* w = problem->inputs[kW].tensor;
  const carnot_operand_desc* zeros = given(problem, kWZero);
  if (zeros && (!carnot_is_known(zeros) || (carnot_tensor_count(zeros->tensor) != 1 &&
                                            carnot_tensor_count(zeros->tensor) != filters)))
    return "the weights' zero points are not known, one or one a filter";
  const carnot_tensor* zero = zeros ? zeros->tensor : NULL;
  const int64_t count = carnot_tensor_count(w), each = count / filters;
  for (int64_t i = 0; i < count; i++) {
    const size_t at = zero && carnot_tensor_count(zero) > 1 ? (size_t)(i / each) : 0;
    const int64_t z = zero ? carnot_load_i64(zero->dtype, zero->data, at) : 0,
                  v = carnot_load_i64(w->dtype, w->data, (size_t)i) - z;
    if (v < INT8_MIN || v > INT8_MAX)
      return carnot_because(reason, size, "weight %lld less its zero point is %lld, exceeds int8",
                            (long long)i, (long long)v);
    if (out) out[i] = (int8_t)v;
    if (out_sums) out_sums[i / each] += (int32_t)v;
  }
  return NULL;
}

static const char* read_problem(const carnot_problem* problem, conv_integer_params* out,
                                char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_CONV_INTEGER || problem->region->node_count != 1) return "";
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != CARNOT_PLAN_NONE && node->inputs[i] != i) return "operands repeat";
  const carnot_operand_desc *x = &problem->inputs[kX], *w = given(problem, kW),
                            *x_zero = given(problem, kXZero);
  if (!carnot_is_8bit(x->format.dtype) || (x->rank != 3 && x->rank != 4))
    return "the activations are not 8-bit tensors of rank 3 or 4";
  if (!w || !carnot_is_known(w) || !carnot_is_8bit(w->format.dtype))
    return "the weights are no known int8 or uint8";
  if (x_zero && (x_zero->format.dtype != x->format.dtype || x_zero->rank < 0 ||
                 carnot_dims_count(x_zero->dims, x_zero->rank) != 1))
    return "the activations' zero point is not one";
  carnot_conv_problem conv = {.node = node};
  const char* why = carnot_conv_problem_sizes(x, w, &conv, reason, size);
  if (why) return why;
  *out = (conv_integer_params){.window = conv.window,
                               .shape = {conv.group, conv.channels, conv.filters, 1}};
  for (int d = 0; d < conv.window.rank; d++) out->shape.taps *= conv.window.kernel[d];
  const conv_integer_shape* s = &out->shape;
  if (s->channels < 1 || s->filters < 1 || s->channels > CARNOT_INT8_MAX_CHANNELS ||
      s->filters > CARNOT_INT8_MAX_CHANNELS || s->filters % s->group ||
      s->taps > CARNOT_INT8_MAX_TAPS)
    return carnot_because(reason, size, "%lld channels, %lld filters and %lld taps",
                          (long long)s->channels, (long long)s->filters, (long long)s->taps);
  return center(problem, s->filters, NULL, NULL, reason, size);
}

static const char* conv_integer_reject(carnot_problem* problem, char* reason, size_t size) {
  conv_integer_params p;
  const char* why = read_problem(problem, &p, reason, size);
  if (!why)
    problem->inputs[kX].format.layout = problem->outputs[0].format.layout =
        CARNOT_LAYOUT_CHANNELS_LAST;
  return why;
}

static carnot_status* conv_integer_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *params, *centered, *sums;
  char reason[256];
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(conv_integer_params), "parameters", &params));
  const char* why = read_problem(problem, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  const conv_integer_shape* s = &((conv_integer_params*)params)->shape;
  const carnot_int8_weights_shape shape = weights_of(s);
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)carnot_tensor_count(problem->inputs[kW].tensor),
                              1, "weights before packing", &centered));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)s->filters, sizeof(int32_t), "sums", &sums));
  memset(sums, 0, (size_t)s->filters * sizeof(int32_t));
  why = center(problem, s->filters, centered, sums, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_ARGUMENT, "quantized weights: %s", why);
  CARNOT_TRY(carnot_int8_pack(problem->tactic, &shape, centered, shape.c * shape.taps, 1,
                              shape.taps, kPacked, out));
  out->params = params;
  out->param_bytes = sizeof(conv_integer_params);
  out->constant_count = kConstants;
  out->constants[kSums].packing = "i32 filter sums";
  out->constants[kSums].data = sums;
  out->constants[kSums].bytes = (size_t)s->filters * sizeof(int32_t);
  out->packed_inputs = 1u << kW | 1u << kWZero;
  return NULL;
}

static carnot_status* conv_integer_validate(const carnot_step_view* step) {
  CARNOT_CHECK(
      step->param_bytes == sizeof(conv_integer_params) && step->constant_count == kConstants,
      INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and %d",
      step->param_bytes, step->constant_count, sizeof(conv_integer_params), kConstants);
  const conv_integer_params* p = step->params;
  const conv_integer_shape* s = &p->shape;
  CARNOT_TRY(carnot_sliding_window_check(&p->window, 1, 2));
  int64_t taps = 1;
  for (int d = 0; d < p->window.rank; d++) taps *= p->window.kernel[d];
  CARNOT_CHECK(s->group >= 1 && s->channels >= 1 && s->channels <= CARNOT_INT8_MAX_CHANNELS &&
                   s->filters >= 1 && s->filters <= CARNOT_INT8_MAX_CHANNELS &&
                   s->channels % s->group == 0 && s->filters % s->group == 0 && s->taps == taps &&
                   taps <= CARNOT_INT8_MAX_TAPS && step->input_count >= 2,
               INVALID_MODEL, "%lld channels, %lld filters, %lld groups, %lld taps",
               (long long)s->channels, (long long)s->filters, (long long)s->group,
               (long long)s->taps);
  const carnot_int8_weights_shape shape = weights_of(s);
  CARNOT_CHECK(step->constant_bytes[kPacked] ==
                       carnot_int8_group_bytes(step->tactic, &shape) * (size_t)s->group &&
                   step->constant_bytes[kSums] == (size_t)s->filters * sizeof(int32_t),
               INVALID_MODEL, "packed weights of %zu bytes, sums of %zu",
               step->constant_bytes[kPacked], step->constant_bytes[kSums]);
  return NULL;
}

static bool conv_integer_uses_input(const carnot_step_view* step, uint32_t input) {
  (void)step;
  return input == kX || input == kXZero;
}

typedef struct conv_integer_state {
  carnot_window_geometry geometry;
  carnot_work_partition partition;
} conv_integer_state;

static bool has_zero(const carnot_step_view* step, const carnot_operand* inputs) {
  return step->input_count > kXZero && inputs[kXZero].format.dtype != CARNOT_DTYPE_INVALID;
}

static carnot_status* conv_integer_configure(const carnot_step_view* step,
                                             const carnot_operand* inputs,
                                             const carnot_operand* outputs, void* memory,
                                             size_t* out_workspace_bytes) {
  conv_integer_state* s = memory;
  const conv_integer_params* p = step->params;
  const carnot_operand* x = &inputs[kX];
  CARNOT_CHECK(carnot_is_8bit(x->format.dtype) && outputs[0].format.dtype == CARNOT_DTYPE_I32,
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(outputs[0].format.dtype));
  CARNOT_CHECK(
      !has_zero(step, inputs) || (inputs[kXZero].format.dtype == x->format.dtype &&
                                  carnot_dims_count(inputs[kXZero].dims, inputs[kXZero].rank) == 1),
      INVALID_MODEL, "the activations' zero point is not one of their type");
  CARNOT_TRY(carnot_window_geometry_of(&p->window, x, &outputs[0], &s->geometry));
  const carnot_window_geometry* g = &s->geometry;
  CARNOT_CHECK(g->c == p->shape.channels && g->k == p->shape.filters, INVALID_ARGUMENT,
               "%lld channels and %lld filters; the packed weights have %lld and %lld",
               (long long)g->c, (long long)g->k, (long long)p->shape.channels,
               (long long)p->shape.filters);
  const carnot_conv2d_u8s8 call = {.n = g->n,
                                   .p = g->p,
                                   .q = g->q,
                                   .c = p->shape.channels / p->shape.group,
                                   .k = p->shape.filters / p->shape.group,
                                   .r = g->r,
                                   .s = g->s};
  s->partition = carnot_int8_conv_partition(step, &call);
  *out_workspace_bytes =
      (size_t)p->shape.filters * sizeof(int32_t) + (size_t)p->shape.channels + 64;
  return NULL;
}

typedef struct conv_integer_run {
  const carnot_step_view* step;
  size_t group_bytes;  // of packed weights
  const conv_integer_state* s;
  carnot_conv2d_u8s8 conv;  // of the first group
} conv_integer_run;

static void conv_integer_part(void* argument, int64_t part) {
  const conv_integer_run* run = argument;
  const int64_t parts = carnot_work_partition_count(&run->s->partition), group = part / parts;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->s->partition, part % parts, &m0, &m1, &n0, &n1);
  carnot_conv2d_u8s8 conv = run->conv;
  conv.src = (const char*)conv.src + group * conv.c;
  conv.weights += (size_t)group * run->group_bytes;
  conv.dst = (int32_t*)conv.dst + group * conv.k;
  conv.epilogue.bias += group * conv.k;
  carnot_int8_conv_call(run->step, &conv, /*readable=*/false, /*workspace=*/NULL, m0, m1, n0, n1);
}

static carnot_status* conv_integer_run_all(const carnot_step_view* step, void* memory,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* workspace,
                                           carnot_executor* executor) {
  const conv_integer_state* s = memory;
  const conv_integer_shape* shape = &((const conv_integer_params*)step->params)->shape;
  const carnot_window_geometry* g = &s->geometry;
  const carnot_dtype dtype = inputs[kX].format.dtype;
  const bool is_signed = dtype == CARNOT_DTYPE_I8;
  const int64_t zero = has_zero(step, inputs) ? carnot_load_i64(dtype, inputs[kXZero].data, 0) : 0;
  const int32_t* sums = step->constants[kSums];
  int32_t* bias = workspace;
  uint8_t* border = (uint8_t*)(bias + shape->filters);
  memset(border, (int)(zero & 255), (size_t)shape->channels + 64);
  for (int64_t f = 0; f < shape->filters; f++)
    bias[f] = (int32_t)(uint32_t)(uint64_t)(-(zero + carnot_int8_shift(step->tactic, is_signed)) *
                                            (int64_t)sums[f]);
  const carnot_int8_weights_shape weights = weights_of(shape);
  conv_integer_run run = {
      .step = step, .group_bytes = carnot_int8_group_bytes(step->tactic, &weights), .s = s};
  run.conv = (carnot_conv2d_u8s8){CARNOT_WINDOW_FIELDS(g),
                                  .c = shape->channels / shape->group,
                                  .k = shape->filters / shape->group,
                                  .src = inputs[kX].data,
                                  .src_n = g->src_n,
                                  .src_h = g->src_h,
                                  .src_w = g->src_w,
                                  .src_signed = is_signed,
                                  .weights = step->constants[kPacked],
                                  .border = border,
                                  .dst = outputs[0].data,
                                  .ld = g->ld,
                                  .epilogue = {.bias = bias, .output = CARNOT_INT8_OUTPUT_S32}};
  carnot_executor_parallel(executor, shape->group * carnot_work_partition_count(&s->partition),
                           conv_integer_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(conv_integer_u8s8, .anchor = CARNOT_OP_CONV_INTEGER, .strided_outputs = true,
                   .reject = conv_integer_reject, .prepare = conv_integer_prepare,
                   .validate = conv_integer_validate, .uses_input = conv_integer_uses_input,
                   .configure = conv_integer_configure, .run = conv_integer_run_all);
