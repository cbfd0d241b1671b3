// GEMMs of FP8 operands with constant weights: the region, packed weights, kernel parameters.
#include "backend/cuda/gemm/gemm_fp8.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "backend/cuda/gemm/gemm_shape.h"
#include "backend/cuda/gemm/weight_transpose.h"
#include "tactic/problem/quantized.h"

enum { kVector = 16 };

typedef carnot_cuda_gemm_fp8_params fp8_params;

static bool is_fp8(carnot_dtype dtype) { return dtype == CARNOT_DTYPE_F8E4M3FN; }

bool carnot_cuda_is_fp8_region(const carnot_region* region, const carnot_operand_desc* inputs,
                               uint32_t input_count) {
  uint32_t anchor;
  if (!carnot_quantized_anchor(region, &anchor)) return false;
  const carnot_quantized_operand x = carnot_quantized_operand_of(region, anchor, 0, input_count);
  return x.value != CARNOT_PLAN_NONE && is_fp8(inputs[x.value].format.dtype);
}

// ---- the region ----

static const carnot_tensor* known(const carnot_problem* problem, uint32_t input) {
  return input < problem->input_count && carnot_is_known(&problem->inputs[input])
             ? problem->inputs[input].tensor
             : NULL;
}

// Known positive float32 scales, as many as |most| or one, and zero points of 0.
static const char* check_scales(const carnot_problem* problem, uint32_t scale, uint32_t zero,
                                int64_t most, const char* what, char* reason, size_t size) {
  const carnot_tensor *s = known(problem, scale), *z = known(problem, zero);
  const int64_t count = s && s->dtype == CARNOT_DTYPE_F32 ? carnot_tensor_count(s) : 0;
  if (count != 1 && count != most)
    return carnot_cuda_reject_reason(reason, size, "%s has %lld known float32 scales", what,
                                     (long long)count);
  for (int64_t i = 0; i < count; i++) {
    const float value = ((const float*)s->data)[i];
    if (!(value >= FLT_MIN && value <= FLT_MAX))
      return carnot_cuda_reject_reason(reason, size, "a scale of %s is %g", what, (double)value);
  }
  if (zero == CARNOT_PLAN_NONE) return NULL;
  if (!z) return carnot_cuda_reject_reason(reason, size, "the zero point of %s is not known", what);
  for (int64_t i = 0; i < carnot_tensor_count(z); i++)
    if (carnot_load_f64(z->dtype, z->data, (size_t)i) != 0)
      return carnot_cuda_reject_reason(reason, size, "a zero point of %s is not 0", what);
  return NULL;
}

static const char* check_weights(const carnot_problem* problem, const carnot_quantized_region* view,
                                 const carnot_cuda_gemm_weights* p, char* reason, size_t size) {
  const carnot_tensor* w = known(problem, view->weights.value);
  if (!w || !is_fp8(w->dtype)) return "the weights are no known float8e4m3fn";
  const char* why = check_scales(problem, view->weights.scale, view->weights.zero_point, p->filters,
                                 "the weights", reason, size);
  if (why || carnot_tensor_count(known(problem, view->weights.scale)) == 1) return why;
  const carnot_plan_node* node = carnot_quantized_dequantize(problem->region, view->anchor, 1);
  int64_t axis = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "axis");
  if (axis < 0) axis += w->rank;
  return axis == !p->trans ? NULL : "the weights' scales are not one a channel";
}

// The types of operands and result as kernels have them; COUNT: none.
static carnot_cuda_gemm_tile_types types_of(carnot_dtype result, carnot_dtype residual) {
  const carnot_dtype half = residual ? residual : is_fp8(result) ? CARNOT_DTYPE_F16 : result;
  if (residual && !is_fp8(result) && residual != result) return CARNOT_CUDA_TILE_TYPES;
  if (!residual && result == CARNOT_DTYPE_F32) return CARNOT_CUDA_TILE_FP8_F32;
  switch (half) {
    case CARNOT_DTYPE_F16:
      return is_fp8(result) ? CARNOT_CUDA_TILE_FP8_F16_FP8 : CARNOT_CUDA_TILE_FP8_F16;
    case CARNOT_DTYPE_BF16:
      return is_fp8(result) ? CARNOT_CUDA_TILE_FP8_BF16_FP8 : CARNOT_CUDA_TILE_FP8_BF16;
    default: return CARNOT_CUDA_TILE_TYPES;
  }
}

static const char* read_epilogue(const carnot_problem* problem, const carnot_quantized_region* view,
                                 fp8_params* out, char* reason, size_t size) {
  const bool has_residual = view->residual.value != CARNOT_PLAN_NONE;
  if (view->is_twice) return "it quantizes twice";
  if (view->residual.scale != CARNOT_PLAN_NONE) return "the residual is quantized";
  const carnot_dtype y = problem->outputs[0].format.dtype;
  if (view->quantizes) {
    if (!is_fp8(y)) return "the result is quantized to other than float8e4m3fn";
    const char* why =
        check_scales(problem, view->y_scale, view->y_zero, 1, "the result", reason, size);
    if (why) return why;
    out->factor = 1 / *(const float*)known(problem, view->y_scale)->data;
  }
  const carnot_cuda_gemm_tile_types types = types_of(
      y, has_residual ? problem->inputs[view->residual.value].format.dtype : CARNOT_DTYPE_INVALID);
  if (types == CARNOT_CUDA_TILE_TYPES)
    return carnot_cuda_reject_reason(reason, size, "no kernel with this residual for %s",
                                     carnot_dtype_name(y));
  const carnot_cuda_epilogue e = carnot_cuda_epilogue_from(&view->activation);
  if (view->activation.kind != CARNOT_FUSED_NONE && e.kind == CARNOT_CUDA_NO_ACTIVATION)
    return "the kernels do not apply its activation";
  out->types = (int32_t)types;
  out->x = (int32_t)view->x.value;
  out->residual = has_residual ? (int32_t)view->residual.value : -1;
  out->activation = (int32_t)e.kind, out->low = e.low, out->high = e.high;
  return NULL;
}

static const char* read_region(const carnot_problem* problem, carnot_quantized_region* view,
                               fp8_params* out, bool* out_trans, char* reason, size_t size) {
  uint32_t anchor;
  const carnot_plan_node* node = carnot_quantized_anchor(problem->region, &anchor);
  const uint32_t inputs = problem->input_count;
  const carnot_quantized_operand x = carnot_quantized_operand_of(problem->region, anchor, 0,
                                                                 inputs),
                                 w = carnot_quantized_operand_of(problem->region, anchor, 1,
                                                                 inputs);
  if (node->op != CARNOT_OP_MATMUL && node->op != CARNOT_OP_GEMM)
    return "convolutions of FP8 operands have no kernel";
  if (w.value == CARNOT_PLAN_NONE || w.scale == CARNOT_PLAN_NONE)
    return "the operands are not both quantized";
  carnot_cuda_gemm_weights sizes;
  const char* why = carnot_cuda_gemm_weights_read(
      &problem->inputs[x.value], &problem->inputs[w.value], node, &sizes, reason, size);
  if (why) return why;
  *out = (fp8_params){.channels = sizes.channels, .filters = sizes.filters, .factor = 1};
  *out_trans = sizes.trans;
  if (sizes.channels % kVector || sizes.filters % 8)
    return carnot_cuda_reject_reason(reason, size,
                                     "weights of %lldx%lld, takes multiples of 16 by 8",
                                     (long long)sizes.channels, (long long)sizes.filters);
  why = carnot_quantized_read(problem, 1, sizes.filters, view, reason, size);
  if (!why)
    why = check_scales(problem, view->x.scale, view->x.zero_point, 1, "the first operand", reason,
                       size);
  if (!why) why = check_weights(problem, view, &sizes, reason, size);
  return why ? why : read_epilogue(problem, view, out, reason, size);
}

const char* carnot_cuda_gemm_fp8_reject(carnot_problem* problem, carnot_cuda_gemm_tile_region* out,
                                        char* reason, size_t size) {
  carnot_quantized_region view;
  fp8_params p;
  bool trans;
  const char* why = read_region(problem, &view, &p, &trans, reason, size);
  if (why) return why;
  const carnot_operand_desc* y = &problem->outputs[0];
  *out = (carnot_cuda_gemm_tile_region){
      .x = view.x.value,
      .weights = view.weights.value,
      .bias = CARNOT_PLAN_NONE,
      .residual = view.residual.value,
      .activation = carnot_cuda_epilogue_from(&view.activation),
      .rows = carnot_dims_count(y->dims, y->rank) / p.filters,
      .columns = p.filters,
      .is_fp8 = true,
  };
  carnot_cuda_want_row_major(problem);
  return NULL;
}

// ---- build ----

static void add_constant(carnot_prepared* out, int index, const char* packing, void* data,
                         size_t bytes) {
  out->constants[index].packing = packing;
  out->constants[index].data = data;
  out->constants[index].bytes = bytes;
}

// Weights as [filters, channels].
static void pack(const fp8_params* p, bool trans, const uint8_t* from, uint8_t* to) {
  if (trans)
    memcpy(to, from, (size_t)(p->filters * p->channels));
  else
    carnot_cuda_transpose_weights_8(from, p->channels, p->filters, p->channels, to);
}

carnot_status* carnot_cuda_gemm_fp8_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_quantized_region view;
  bool trans;
  char reason[256];
  void *params, *weights, *scales, *bias;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(fp8_params), "parameters", &params));
  fp8_params* p = params;
  const char* why = read_region(problem, &view, p, &trans, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  const size_t count = (size_t)p->filters, bytes = count * (size_t)p->channels;
  CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, "packed weights", &weights));
  CARNOT_TRY(carnot_arena_try(out->arena, count, sizeof(float), "scales", &scales));
  CARNOT_TRY(carnot_arena_try(out->arena, count, sizeof(float), "a bias", &bias));
  pack(p, trans, known(problem, view.weights.value)->data, weights);
  const carnot_tensor *x_scale = known(problem, view.x.scale),
                      *w_scale = known(problem, view.weights.scale), *b = known(problem, view.bias);
  const bool each = carnot_tensor_count(w_scale) > 1;
  for (size_t n = 0; n < count; n++) {
    ((float*)scales)[n] = (float)((double)*(const float*)x_scale->data *
                                  (double)((const float*)w_scale->data)[each ? n : 0]);
    ((float*)bias)[n] = b ? (float)carnot_load_f64(b->dtype, b->data, n) : 0;
  }
  add_constant(out, CARNOT_CUDA_FP8_WEIGHTS, "nk f8e4m3fn", weights, bytes);
  add_constant(out, CARNOT_CUDA_FP8_SCALES, "f32 scales", scales, count * sizeof(float));
  add_constant(out, CARNOT_CUDA_FP8_BIAS, "f32 bias", bias, count * sizeof(float));
  out->constant_count = CARNOT_CUDA_FP8_CONSTANTS;
  out->params = params;
  out->param_bytes = sizeof(fp8_params);
  for (uint32_t i = 0; i < problem->input_count; i++)
    if ((int64_t)i != p->x && (int64_t)i != p->residual) out->packed_inputs |= (uint64_t)1 << i;
  return NULL;
}

// ---- run ----

bool carnot_cuda_is_fp8_step(const carnot_step_view* step) {
  return step->param_bytes == sizeof(fp8_params);
}

carnot_status* carnot_cuda_gemm_fp8_check(const carnot_step_view* step, size_t bias_bytes) {
  CARNOT_CHECK(step->param_bytes >= sizeof(fp8_params), INVALID_MODEL, "%u bytes of parameters",
               step->param_bytes);
  const fp8_params* p = step->params;
  const int64_t inputs = (int64_t)step->input_count, most = 1 << 24;
  CARNOT_CHECK(p->channels >= 1 && p->channels <= most && p->channels % kVector == 0 &&
                   p->filters >= 1 && p->filters <= most && p->filters % 8 == 0,
               INVALID_MODEL, "FP8 weights of %lldx%lld", (long long)p->channels,
               (long long)p->filters);
  CARNOT_CHECK(p->x >= 0 && p->x < inputs && p->residual >= -1 && p->residual < inputs &&
                   p->types >= CARNOT_CUDA_TILE_FP8_F16 && p->types < CARNOT_CUDA_TILE_TYPES &&
                   p->activation >= 0 && p->activation <= CARNOT_CUDA_HARD_SIGMOID,
               INVALID_MODEL, "operands %d and %d of %u inputs, types %d, activation %d", p->x,
               p->residual, step->input_count, p->types, p->activation);
  const size_t vector = (size_t)p->filters * sizeof(float), *bytes = step->constant_bytes;
  CARNOT_CHECK(step->constant_count == CARNOT_CUDA_FP8_CONSTANTS &&
                   bytes[CARNOT_CUDA_FP8_WEIGHTS] == (size_t)(p->filters * p->channels) &&
                   bytes[CARNOT_CUDA_FP8_SCALES] == vector &&
                   bytes[CARNOT_CUDA_FP8_BIAS] == (size_t)p->filters * bias_bytes,
               INVALID_MODEL, "%u constants of an FP8 GEMM with weights of %lldx%lld",
               step->constant_count, (long long)p->channels, (long long)p->filters);
  return NULL;
}

bool carnot_cuda_gemm_fp8_uses_input(const carnot_step_view* step, uint32_t input) {
  const fp8_params* p = step->params;
  return (int64_t)input == p->x || (int64_t)input == p->residual;
}

static carnot_status* check_operands(const fp8_params* p, const carnot_operand* inputs,
                                     const carnot_operand* y) {
  const carnot_operand *x = &inputs[p->x], *r = p->residual < 0 ? NULL : &inputs[p->residual];
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(carnot_cuda_on_device(y, 1));
  CARNOT_CHECK(is_fp8(x->format.dtype) &&
                   types_of(y->format.dtype, r ? r->format.dtype : CARNOT_DTYPE_INVALID) ==
                       (carnot_cuda_gemm_tile_types)p->types,
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(y->format.dtype));
  CARNOT_CHECK(
      x->rank >= 1 && y->rank >= 1 && x->dims[x->rank - 1] == p->channels &&
          y->dims[y->rank - 1] == p->filters &&
          carnot_dims_count(x->dims, x->rank - 1) == carnot_dims_count(y->dims, y->rank - 1) &&
          carnot_dims_count(x->dims, x->rank - 1) <= INT32_MAX,
      INVALID_ARGUMENT, "operands do not fit packed weights of [%lld,%lld]", (long long)p->channels,
      (long long)p->filters);
  CARNOT_CHECK(carnot_cuda_row_pitch(x, false) && carnot_cuda_row_pitch(y, false), INVALID_ARGUMENT,
               "rows of operand and result are aligned and evenly apart");
  if (!r) return NULL;
  CARNOT_TRY(carnot_cuda_on_device(r, 1));
  CARNOT_CHECK(carnot_cuda_is_dense(r, false) &&
                   carnot_dims_count(r->dims, r->rank) == carnot_dims_count(y->dims, y->rank),
               INVALID_ARGUMENT, "the residual has another size or layout");
  return NULL;
}

carnot_status* carnot_cuda_gemm_fp8_shape(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs,
                                          carnot_cuda_gemm_tile_step* out) {
  const fp8_params* p = step->params;
  CARNOT_TRY(check_operands(p, inputs, &outputs[0]));
  *out = (carnot_cuda_gemm_tile_step){
      .params = carnot_cuda_gemm_tile_rows(carnot_dims_count(outputs[0].dims, outputs[0].rank - 1),
                                           p->filters, p->channels),
      .x = (uint32_t)p->x,
      .bias = CARNOT_PLAN_NONE,
      .residual = p->residual < 0 ? CARNOT_PLAN_NONE : (uint32_t)p->residual,
      .images = 1,
      .taps = 1,
      .operand = CARNOT_DTYPE_F8E4M3FN,
      .types = (carnot_cuda_gemm_tile_types)p->types};
  out->params.pixel = (int)carnot_cuda_row_pitch(&inputs[p->x], false);
  out->params.pitch = (int)carnot_cuda_row_pitch(&outputs[0], false);
  out->params.activation = p->activation;
  out->params.low = p->low, out->params.high = p->high, out->params.factor = p->factor;
  return NULL;
}

void carnot_cuda_gemm_fp8_bind(const carnot_step_view* step, carnot_cuda_gemm_tile_params* out) {
  out->scale = step->constants[CARNOT_CUDA_FP8_SCALES];
  out->bias = step->constants[CARNOT_CUDA_FP8_BIAS];
}
