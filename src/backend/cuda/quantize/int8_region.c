// Quantized regions for the integer kernels: parameters, vectors of channels, checks and epilogue.
#include "backend/cuda/quantize/int8_region.h"

#include <math.h>

enum { kMaxTaps = 1 << 10 };

static carnot_cuda_int8_type type_of(carnot_dtype dtype) {
  switch (dtype) {
    case CARNOT_DTYPE_F32: return CARNOT_CUDA_INT8_F32;
    case CARNOT_DTYPE_U8: return CARNOT_CUDA_INT8_U8;
    case CARNOT_DTYPE_I8: return CARNOT_CUDA_INT8_S8;
    default: return CARNOT_CUDA_INT8_NONE;
  }
}

// A bound of the integer path is in low and high.
static const char* read_activation(const carnot_quantized_region* view,
                                   const carnot_quantized_numbers* numbers,
                                   carnot_cuda_int8_region* out) {
  if (!numbers->is_real_path || view->activation.kind == CARNOT_FUSED_NONE) return NULL;
  const carnot_cuda_epilogue e = carnot_cuda_epilogue_from(&view->activation);
  if (e.kind == CARNOT_CUDA_NO_ACTIVATION) return "the kernels do not apply its activation";
  out->activation = (int32_t)e.kind;
  out->a = e.low, out->b = e.high;
  return NULL;
}

const char* carnot_cuda_int8_region_read(const carnot_problem* problem, int channel_axis,
                                         const carnot_quantized_shape* shape,
                                         carnot_quantized_region* view,
                                         carnot_cuda_int8_region* out, char* reason, size_t size) {
  carnot_quantized_numbers numbers;
  const char* why =
      carnot_quantized_read(problem, channel_axis, shape->channels, view, reason, size);
  if (!why && view->offset != CARNOT_PLAN_NONE && view->node->op != CARNOT_OP_MATMUL &&
      view->node->op != CARNOT_OP_GEMM)
    why = "a bias behind the inner quantization of a convolution";
  if (!why) why = carnot_quantized_read_numbers(problem, view, &numbers, reason, size);
  if (why) return why;
  const bool has_residual = view->residual.value != CARNOT_PLAN_NONE;
  *out = (carnot_cuda_int8_region){
      .x = (int32_t)view->x.value,
      .residual = has_residual ? (int32_t)view->residual.value : -1,
      .offset = view->offset == CARNOT_PLAN_NONE ? -1 : (int32_t)view->offset,
      .x_zero = numbers.x_zero,
      .x_signed = problem->inputs[view->x.value].format.dtype == CARNOT_DTYPE_I8,
      .residual_type = has_residual
                           ? (int32_t)type_of(problem->inputs[view->residual.value].format.dtype)
                           : CARNOT_CUDA_INT8_NONE,
      .residual_zero = numbers.residual_zero,
      .residual_scale = numbers.residual_scale,
      .is_twice = view->is_twice,
      .inner_zero = numbers.inner_zero,
      .inner_low = numbers.inner_low,
      .inner_high = numbers.inner_high,
      .inner_scale = (float)numbers.inner_scale,
      .output = (int32_t)type_of(problem->outputs[0].format.dtype),
      .divisor = numbers.is_real_path ? (float)numbers.y_scale : 1,
      .zero_point = numbers.y_zero,
      .low = numbers.low,
      .high = numbers.high};
  if (out->output == CARNOT_CUDA_INT8_NONE)
    return carnot_cuda_reject_reason(reason, size, "the result is %s",
                                     carnot_dtype_name(problem->outputs[0].format.dtype));
  if (has_residual && out->residual_type == CARNOT_CUDA_INT8_NONE)
    return "the residual is not float32, int8 or uint8";
  why = read_activation(view, &numbers, out);
  if (!why && out->is_twice) carnot_cuda_int8_region_set_factors(out);
  double bound = 0;
  if (!why)
    why = carnot_quantized_check_channels(problem, view, &numbers, shape, &bound, reason, size);
  out->bound = (float)ldexp(bound, -31);
  return why;
}

void carnot_cuda_int8_region_want(carnot_problem* problem, const carnot_cuda_int8_region* region,
                                  carnot_layout layout) {
  carnot_cuda_want_row_major(problem);
  problem->inputs[region->x].format.layout = layout;
  if (region->residual >= 0) problem->inputs[region->residual].format.layout = layout;
  problem->outputs[0].format.layout = layout;
}

static void add_constant(carnot_prepared* out, int index, const char* packing, void* data,
                         size_t bytes) {
  out->constants[index].packing = packing;
  out->constants[index].data = data;
  out->constants[index].bytes = bytes;
}

// Whether sums and results keep to CARNOT_CUDA_INT8_NARROW_SUM for all x.
static bool is_narrow(const carnot_tensor* weights, const carnot_cuda_int8_region* region,
                      const carnot_quantized_shape* shape, const int8_t* centered,
                      const int32_t* bias, const float* scale) {
  const double bound = CARNOT_CUDA_INT8_NARROW_SUM,
               residual = 512 * fabs((double)region->residual_scale);
  const int64_t least = region->x_signed ? -128 : 0,
                inner = carnot_dims_count(weights->dims + shape->axis + 1,
                                          weights->rank - shape->axis - 1),
                outer = carnot_dims_count(weights->dims, shape->axis);
  for (int64_t n = 0; n < shape->channels; n++) {
    int64_t low = bias[n], high = bias[n];
    for (int64_t o = 0; o < outer; o++)
      for (int64_t i = 0; i < inner; i++) {
        const int64_t w = centered[(o * shape->channels + n) * inner + i];
        low += w * (w > 0 ? least : least + 255), high += w * (w > 0 ? least + 255 : least);
      }
    const double most = (double)carnot_max_i64(-low, high);
    // Form TWICE has a bound of its own before it rounds.
    if (!(most < bound) ||
        (!region->is_twice && !(most * fabs((double)scale[n]) + residual < bound)))
      return false;
  }
  return true;
}

carnot_status* carnot_cuda_int8_region_prepare(const carnot_problem* problem,
                                               const carnot_quantized_region* view,
                                               const carnot_cuda_int8_region* region,
                                               const carnot_quantized_shape* shape,
                                               int8_t* centered, carnot_prepared* out) {
  char reason[256];
  void *bias, *scale;
  const size_t channels = (size_t)shape->channels;
  carnot_quantized_numbers numbers;
  CARNOT_TRY(carnot_arena_try(out->arena, channels, sizeof(int32_t), "a bias", &bias));
  CARNOT_TRY(carnot_arena_try(out->arena, channels + 1, sizeof(float), "scales", &scale));
  const char* why = carnot_quantized_read_numbers(problem, view, &numbers, reason, sizeof(reason));
  if (!why)
    why = carnot_quantized_make_channels(problem, view, &numbers, shape, region->x_zero, centered,
                                         bias, scale, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_ARGUMENT, "quantized weights: %s", why);
  ((float*)scale)[channels] =
      is_narrow(problem->inputs[view->weights.value].tensor, region, shape, centered, bias, scale);
  add_constant(out, CARNOT_CUDA_INT8_BIAS, "i32 bias", bias, channels * sizeof(int32_t));
  add_constant(out, CARNOT_CUDA_INT8_SCALES, "f32 scales, narrow", scale,
               (channels + 1) * sizeof(float));
  out->constant_count = CARNOT_CUDA_INT8_CONSTANTS;
  for (uint32_t i = 0; i < problem->input_count; i++)
    if ((int64_t)i != region->x && (int64_t)i != region->residual && (int64_t)i != region->offset)
      out->packed_inputs |= (uint64_t)1 << i;
  return NULL;
}

carnot_status* carnot_cuda_int8_region_validate(const carnot_cuda_int8_region* r,
                                                const carnot_step_view* step, int64_t channels,
                                                size_t weight_bytes) {
  const int64_t inputs = (int64_t)step->input_count;
  CARNOT_CHECK(step->constant_count == CARNOT_CUDA_INT8_CONSTANTS, INVALID_MODEL,
               "%u constants, must be %d", step->constant_count, CARNOT_CUDA_INT8_CONSTANTS);
  CARNOT_CHECK(r->x >= 0 && r->x < inputs && r->residual >= -1 && r->residual < inputs &&
                   r->offset >= -1 && r->offset < inputs && (r->offset < 0 || r->is_twice) &&
                   step->output_count == 1,
               INVALID_MODEL, "operands %d, %d and %d of %u inputs", r->x, r->residual, r->offset,
               step->input_count);
  CARNOT_CHECK(r->residual_type >= 0 && r->residual_type < CARNOT_CUDA_INT8_TYPES &&
                   (r->residual_type == CARNOT_CUDA_INT8_NONE) == (r->residual < 0) &&
                   r->activation >= 0 && r->activation <= CARNOT_CUDA_HARD_SIGMOID &&
                   r->output > CARNOT_CUDA_INT8_NONE && r->output < CARNOT_CUDA_INT8_TYPES,
               INVALID_MODEL, "residual of type %d, activation %d, result of type %d",
               r->residual_type, r->activation, r->output);
  const size_t* bytes = step->constant_bytes;
  CARNOT_CHECK(bytes[CARNOT_CUDA_INT8_WEIGHTS] == weight_bytes &&
                   bytes[CARNOT_CUDA_INT8_BIAS] == (size_t)channels * sizeof(int32_t) &&
                   bytes[CARNOT_CUDA_INT8_SCALES] == ((size_t)channels + 1) * sizeof(float),
               INVALID_MODEL,
               "weights of %zu bytes, a bias of %zu and scales of %zu; weights of %zu and vectors "
               "of %lld channels are required",
               bytes[CARNOT_CUDA_INT8_WEIGHTS], bytes[CARNOT_CUDA_INT8_BIAS],
               bytes[CARNOT_CUDA_INT8_SCALES], weight_bytes, (long long)channels);
  return NULL;
}

// Of a GEMM, whose channels are the last axis of |output|.
static carnot_status* check_offset(const carnot_operand* offset, const carnot_operand* output) {
  CARNOT_TRY(carnot_cuda_on_device(offset, 1));
  CARNOT_CHECK(offset->format.dtype == CARNOT_DTYPE_F32 && carnot_cuda_is_dense(offset, false) &&
                   carnot_dims_count(offset->dims, offset->rank) == output->dims[output->rank - 1],
               INVALID_MODEL, "the offset is no float32 number for each channel");
  return NULL;
}

carnot_status* carnot_cuda_int8_region_configure(const carnot_cuda_int8_region* r,
                                                 bool x_channels_last, bool channels_last,
                                                 const carnot_operand* inputs,
                                                 const carnot_operand* output) {
  const carnot_operand *x = &inputs[r->x],
                       *residual = r->residual < 0 ? NULL : &inputs[r->residual];
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(carnot_cuda_on_device(output, 1));
  CARNOT_CHECK(x->format.dtype == (r->x_signed ? CARNOT_DTYPE_I8 : CARNOT_DTYPE_U8) &&
                   (int32_t)type_of(output->format.dtype) == r->output,
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(output->format.dtype));
  CARNOT_CHECK(
      carnot_cuda_is_dense(x, x_channels_last) && carnot_cuda_is_dense(output, channels_last),
      INVALID_ARGUMENT, "activations and result must be dense");
  if (r->offset >= 0) CARNOT_TRY(check_offset(&inputs[r->offset], output));
  if (!residual) return NULL;
  CARNOT_TRY(carnot_cuda_on_device(residual, 1));
  CARNOT_CHECK((int32_t)type_of(residual->format.dtype) == r->residual_type &&
                   residual->rank == output->rank,
               INVALID_MODEL, "the residual is %s of rank %d",
               carnot_dtype_name(residual->format.dtype), residual->rank);
  for (int d = 0; d < output->rank; d++)
    CARNOT_CHECK(residual->dims[d] == output->dims[d], INVALID_ARGUMENT,
                 "dimension %d of the residual is %lld, must be %lld", d,
                 (long long)residual->dims[d], (long long)output->dims[d]);
  CARNOT_CHECK(carnot_cuda_is_dense(residual, channels_last), INVALID_ARGUMENT,
               "the residual must be dense");
  return NULL;
}

carnot_status* carnot_cuda_int8_window_check(const carnot_sliding_window* w) {
  CARNOT_CHECK((w->rank == 1 || w->rank == 2) && (unsigned)w->auto_pad <= CARNOT_PAD_VALID,
               INVALID_MODEL, "a window of rank %d", w->rank);
  int64_t taps = 1;
  for (int d = 0; d < w->rank; d++) {
    CARNOT_CHECK(w->kernel[d] >= 1 && w->kernel[d] <= kMaxTaps && w->strides[d] >= 1 &&
                     w->strides[d] <= INT16_MAX && w->dilations[d] >= 1 &&
                     w->dilations[d] <= INT16_MAX && w->begin[d] > INT16_MIN &&
                     w->begin[d] <= INT16_MAX,
                 INVALID_MODEL, "a window of %lld, stride %lld, dilation %lld, pad %lld",
                 (long long)w->kernel[d], (long long)w->strides[d], (long long)w->dilations[d],
                 (long long)w->begin[d]);
    taps *= w->kernel[d];
  }
  CARNOT_CHECK(taps <= kMaxTaps, INVALID_MODEL, "%lld taps", (long long)taps);
  return NULL;
}

// rint(bound / divisor) + zero point within [low, high]. Division and rint never decrease, so the
// bound of the real value is this bound of the integer.
static int quantized_bound(const carnot_cuda_int8_region* r, float bound) {
  const float v = rintf(bound / r->divisor) + (float)r->zero_point;
  return v <= (float)r->low ? r->low : v >= (float)r->high ? r->high : (int)v;
}

carnot_cuda_int8_epilogue carnot_cuda_int8_region_epilogue(const carnot_cuda_int8_region* r,
                                                           const carnot_step_view* step,
                                                           const carnot_operand* inputs) {
  carnot_cuda_int8_epilogue e = {.form = carnot_cuda_int8_region_form(r),
                                 .bias = step->constants[CARNOT_CUDA_INT8_BIAS],
                                 .scale = step->constants[CARNOT_CUDA_INT8_SCALES],
                                 .residual = r->residual < 0 ? NULL : inputs[r->residual].data,
                                 .residual_type = r->residual_type,
                                 .residual_zero = r->residual_zero,
                                 .residual_scale = r->residual_scale,
                                 .is_twice = r->is_twice,
                                 .inner_zero = r->inner_zero,
                                 .inner_low = r->inner_low,
                                 .inner_high = r->inner_high,
                                 .inner_scale = r->inner_scale,
                                 .offset = r->offset < 0 ? NULL : inputs[r->offset].data,
                                 .activation = r->activation,
                                 .a = r->a,
                                 .b = r->b,
                                 .output = r->output,
                                 .divisor = r->divisor,
                                 .inner_factor = r->inner_factor,
                                 .residual_factor = r->residual_factor,
                                 .zero_point = r->zero_point,
                                 .low = r->low,
                                 .high = r->high};
  if (e.form == CARNOT_CUDA_INT8_TWICE && r->activation == CARNOT_CUDA_CLAMP) {
    e.activation = CARNOT_CUDA_NO_ACTIVATION;
    e.low = quantized_bound(r, r->a), e.high = quantized_bound(r, r->b);
  }
  const int least = r->output == CARNOT_CUDA_INT8_S8 ? -128 : 0;
  e.is_bounded = e.low > least || e.high < least + 255;
  return e;
}

static double bytes_of(const carnot_operand_desc* t) {
  return (double)carnot_dims_count(t->dims, t->rank) * carnot_dtype_bits(t->format.dtype) / 8;
}

void carnot_cuda_quantized_work(const carnot_problem* problem, double* out_flops,
                                double* out_bytes) {
  uint32_t anchor;
  *out_flops = *out_bytes = 0;
  const carnot_plan_node* node = carnot_quantized_anchor(problem->region, &anchor);
  if (!node) return;
  const carnot_quantized_operand w =
      carnot_quantized_operand_of(problem->region, anchor, 1, problem->input_count);
  if (w.value == CARNOT_PLAN_NONE) return;
  const carnot_operand_desc *weights = &problem->inputs[w.value], *y = &problem->outputs[0];
  const int64_t channels = node->op == CARNOT_OP_CONV ? y->dims[1] : y->dims[y->rank - 1];
  *out_flops = 2 * (double)carnot_dims_count(y->dims, y->rank) *
               (double)carnot_dims_count(weights->dims, weights->rank) /
               (double)carnot_max_i64(1, channels);
  *out_bytes = bytes_of(y);
  for (uint32_t i = 0; i < problem->input_count; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    if (t->kind == CARNOT_VALUE_TENSOR && t->rank >= 0) *out_bytes += bytes_of(t);
  }
}
