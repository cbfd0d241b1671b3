// The numbers of a quantized region: scales, zero points, bounds, and the vectors of channels.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tactic/problem/quantized.h"

static const carnot_tensor* known(const carnot_problem* problem, uint32_t input) {
  return input < problem->input_count && carnot_is_known(&problem->inputs[input])
             ? problem->inputs[input].tensor
             : NULL;
}

// A scale outside the normal numbers would lose the integers.
static bool is_fit_scale(float scale) { return scale >= FLT_MIN && scale <= FLT_MAX; }

static const char* read_scale(const carnot_problem* problem, uint32_t scale, uint32_t zero,
                              const char* what, float* out_scale, int32_t* out_zero, char* reason,
                              size_t size) {
  const carnot_tensor *s = known(problem, scale),
                      *z = zero == CARNOT_PLAN_NONE ? NULL : known(problem, zero);
  if (!s || s->dtype != CARNOT_DTYPE_F32 || carnot_tensor_count(s) != 1 ||
      (zero != CARNOT_PLAN_NONE && (!z || carnot_tensor_count(z) != 1))) {
    snprintf(reason, size, "%s has not one known float32 scale and zero point", what);
    return reason;
  }
  *out_scale = *(const float*)s->data;
  *out_zero = z ? (int32_t)carnot_load_i64(z->dtype, z->data, 0) : 0;
  if (is_fit_scale(*out_scale)) return NULL;
  snprintf(reason, size, "the scale of %s is %g, no normal positive number", what,
           (double)*out_scale);
  return reason;
}

static const char* read_residual(const carnot_problem* problem,
                                 const carnot_quantized_region* region,
                                 carnot_quantized_numbers* out, char* reason, size_t size) {
  out->residual_scale = 1;
  if (region->residual.scale == CARNOT_PLAN_NONE) return NULL;
  if (!carnot_is_8bit(problem->inputs[region->residual.value].format.dtype))
    return "the residual is not int8 or uint8";
  const char* why =
      read_scale(problem, region->residual.scale, region->residual.zero_point, "the residual",
                 &out->residual_scale, &out->residual_zero, reason, size);
  if (!why && !out->is_real_path)
    out->residual_scale = (float)((double)out->residual_scale / out->y_scale);
  return why;
}

// rint(bound / scale) + zero as an integer of the type's range.
static int32_t quantized_bound(float bound, double scale, int32_t zero, int32_t low, int32_t high) {
  const float v = rintf(bound / (float)scale) + (float)zero;
  return v <= (float)low ? low : v >= (float)high ? high : (int32_t)v;
}

// The range of a quantized type, narrowed by a bound.
static void read_bounds(const carnot_epilogue_activation* bound, carnot_dtype dtype, double scale,
                        int32_t zero, int32_t* low, int32_t* high) {
  const bool is_signed = dtype == CARNOT_DTYPE_I8;
  const int32_t least = is_signed ? -128 : 0, most = is_signed ? 127 : 255;
  *low = least, *high = most;
  if (bound->kind == CARNOT_FUSED_RELU) *low = quantized_bound(0, scale, zero, least, most);
  if (bound->kind != CARNOT_FUSED_CLAMP) return;
  *low = quantized_bound(bound->a, scale, zero, least, most);
  *high = quantized_bound(bound->b, scale, zero, least, most);
}

static const char* read_inner(const carnot_problem* problem, const carnot_quantized_region* region,
                              carnot_quantized_numbers* out, char* reason, size_t size) {
  float scale;
  if (!region->is_twice) return NULL;
  if (!carnot_is_8bit(region->inner_dtype)) return "the inner value is not int8 or uint8";
  const char* why = read_scale(problem, region->inner_scale, region->inner_zero, "the inner value",
                               &scale, &out->inner_zero, reason, size);
  if (why) return why;
  out->inner_scale = (double)scale;
  read_bounds(&region->inner_bound, region->inner_dtype, out->inner_scale, out->inner_zero,
              &out->inner_low, &out->inner_high);
  return NULL;
}

const char* carnot_quantized_read_numbers(const carnot_problem* problem,
                                          const carnot_quantized_region* region,
                                          carnot_quantized_numbers* out, char* reason,
                                          size_t size) {
  *out = (carnot_quantized_numbers){.y_scale = 1};
  float scale;
  if (region->has_casts || (region->bias != CARNOT_PLAN_NONE &&
                            problem->inputs[region->bias].format.dtype != CARNOT_DTYPE_F32))
    return "it computes in half precision";
  if (!carnot_is_8bit(problem->inputs[region->x.value].format.dtype))
    return "the first operand is not int8 or uint8";
  const char* why = read_scale(problem, region->x.scale, region->x.zero_point, "the first operand",
                               &scale, &out->x_zero, reason, size);
  if (why) return why;
  out->x_scale = (double)scale;
  const carnot_epilogue_activation* a = &region->activation;
  const bool is_bound =
      a->kind == CARNOT_FUSED_NONE || a->kind == CARNOT_FUSED_RELU || a->kind == CARNOT_FUSED_CLAMP;
  const bool float_residual =
      region->residual.value != CARNOT_PLAN_NONE && region->residual.scale == CARNOT_PLAN_NONE;
  out->is_real_path = !region->quantizes || !is_bound || float_residual || region->is_twice;
  if (region->quantizes) {
    const carnot_dtype dtype = problem->outputs[0].format.dtype;
    if (!carnot_is_8bit(dtype)) return "the result is not int8 or uint8";
    why = read_scale(problem, region->y_scale, region->y_zero, "the result", &scale, &out->y_zero,
                     reason, size);
    if (why) return why;
    out->y_scale = (double)scale;
    const carnot_epilogue_activation none = {.kind = CARNOT_FUSED_NONE};
    // Behind an inner quantization and a residual of bytes nothing is NaN, and a bound may follow
    // the rounding.
    const bool twice =
        region->is_twice && is_bound && !float_residual && region->offset == CARNOT_PLAN_NONE;
    read_bounds(out->is_real_path && !twice ? &none : a, dtype, out->y_scale, out->y_zero,
                &out->low, &out->high);
  }
  why = read_inner(problem, region, out, reason, size);
  return why ? why : read_residual(problem, region, out, reason, size);
}

// ---- channels ----

static const char* check_weight_scales(const carnot_tensor* scale, const carnot_tensor* zero,
                                       int64_t channels, char* reason, size_t size) {
  const int64_t count = scale && scale->dtype == CARNOT_DTYPE_F32 ? carnot_tensor_count(scale) : 0;
  if (count != 1 && count != channels) {
    snprintf(reason, size, "the weights have %lld known float32 scales, takes 1 or %lld",
             (long long)count, (long long)channels);
    return reason;
  }
  if (zero && carnot_tensor_count(zero) != count)
    return "the weights' zero points are not as many "
           "as their scales";
  for (int64_t i = 0; i < count; i++) {
    const float s = ((const float*)scale->data)[i];
    if (is_fit_scale(s)) continue;
    snprintf(reason, size, "scale %lld of the weights is %g, no normal positive number",
             (long long)i, (double)s);
    return reason;
  }
  return NULL;
}

// The axis of the scales is that of the channels.
static const char* check_weight_axis(const carnot_problem* problem,
                                     const carnot_quantized_region* region, int axis, int rank) {
  const carnot_plan_node* node = carnot_quantized_dequantize(problem->region, region->anchor, 1);
  int64_t given = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "axis");
  if (given < 0) given += rank;
  return rank == 1 || given == axis ? NULL : "the weights' scales are not one a channel";
}

static bool is_all_zero(const carnot_tensor* zero) {
  for (int64_t i = 0; zero && i < carnot_tensor_count(zero); i++)
    if (carnot_load_i64(zero->dtype, zero->data, (size_t)i) != 0) return false;
  return true;
}

// |count| weights from |first| on less |zero| to |out|, which may be NULL. The number of them
// before the first that exceeds int8.
static int64_t center_run(const carnot_tensor* w, int64_t first, int64_t count, int zero,
                          int8_t* out) {
  const bool is_signed = w->dtype == CARNOT_DTYPE_I8;
  const int8_t* s8 = (const int8_t*)w->data + first;
  const uint8_t* u8 = (const uint8_t*)w->data + first;
  if (is_signed && zero == 0) {
    if (out) memcpy(out + first, s8, (size_t)count);
    return count;
  }
  for (int64_t i = 0; i < count; i++) {
    const int v = (is_signed ? s8[i] : u8[i]) - zero;
    if (v < INT8_MIN || v > INT8_MAX) return i;
    if (out) out[first + i] = (int8_t)v;
  }
  return count;
}

const char* carnot_quantized_weights(const carnot_problem* problem,
                                     const carnot_quantized_region* region, int axis,
                                     int64_t channels, int8_t* out, float* out_scales, char* reason,
                                     size_t size) {
  const carnot_tensor *w = known(problem, region->weights.value),
                      *scale = known(problem, region->weights.scale),
                      *zero = known(problem, region->weights.zero_point);
  if (!w || !carnot_is_8bit(w->dtype)) return "the weights are no known int8 or uint8";
  if (!zero && region->weights.zero_point != CARNOT_PLAN_NONE)
    return "the weights' zero point is not known";
  const char* why = check_weight_scales(scale, zero, channels, reason, size);
  if (!why && carnot_tensor_count(scale) > 1)
    why = check_weight_axis(problem, region, axis, w->rank);
  if (why) return why;
  const bool each = carnot_tensor_count(scale) > 1;
  const int64_t count = carnot_tensor_count(w),
                run = each && !is_all_zero(zero)
                          ? carnot_dims_count(w->dims + axis + 1, w->rank - axis - 1)
                          : count;
  for (int64_t i = 0, channel = 0; i < count; i += run, channel++) {
    const size_t at = each ? (size_t)(channel % channels) : 0;
    const int z = zero ? (int)carnot_load_i64(zero->dtype, zero->data, at) : 0;
    const int64_t unfit = center_run(w, i, run, z, out);
    if (unfit < run) {
      snprintf(reason, size, "weight %lld less its zero point is %lld, exceeds int8",
               (long long)(i + unfit),
               (long long)carnot_load_i64(w->dtype, w->data, (size_t)(i + unfit)) - z);
      return reason;
    }
  }
  for (int64_t i = 0; out_scales && i < channels; i++)
    out_scales[i] = ((const float*)scale->data)[each ? i : 0];
  return NULL;
}

// Upper bound of |sum over depth of (x - zero point) w| for 8-bit x and centered 8-bit weights w.
static double largest_sum(int64_t depth) { return (double)depth * 255 * 128; }

const char* carnot_quantized_channels(const carnot_problem* problem,
                                      const carnot_quantized_region* region,
                                      const carnot_quantized_numbers* numbers, int64_t channels,
                                      int64_t depth, int32_t shift, const int32_t* sum_w,
                                      int32_t* bias, float* scale, char* reason, size_t size) {
  const carnot_tensor* b = known(problem, region->bias);
  const double y_scale = region->is_twice        ? numbers->inner_scale
                         : numbers->is_real_path ? 1
                                                 : numbers->y_scale;
  for (int64_t n = 0; n < channels; n++) {
    const double product = numbers->x_scale * (double)scale[n];
    const double q = b ? rint((double)((const float*)b->data)[n] / product) : 0;
    if (!(fabs(q) + largest_sum(depth) <= INT32_MAX)) {
      snprintf(reason, size, "sums of %lld products and the bias %.9g of channel %lld exceed int32",
               (long long)depth, b ? (double)((const float*)b->data)[n] : 0, (long long)n);
      return reason;
    }
    bias[n] = (int32_t)(uint32_t)(uint64_t)((int64_t)q - (int64_t)shift * sum_w[n]);
    scale[n] = (float)(product / y_scale);
  }
  return NULL;
}

// Memory for int32 |vectors| of the channels; NULL: none.
static int32_t* channel_vectors(const carnot_quantized_shape* shape, size_t vectors) {
  return calloc((size_t)shape->channels * vectors + 1, sizeof(int32_t));
}

const char* carnot_quantized_check_channels(const carnot_problem* problem,
                                            const carnot_quantized_region* region,
                                            const carnot_quantized_numbers* numbers,
                                            const carnot_quantized_shape* shape, double* out_bound,
                                            char* reason, size_t size) {
  int32_t* sums = channel_vectors(shape, 3);
  if (!sums) return CARNOT_REJECT_NO_MEMORY;
  int32_t* bias = sums + shape->channels;
  float* scale = (float*)(sums + 2 * shape->channels);
  const char* why = carnot_quantized_weights(problem, region, shape->axis, shape->channels, NULL,
                                             scale, reason, size);
  if (!why)
    why = carnot_quantized_channels(problem, region, numbers, shape->channels, shape->depth, 0,
                                    sums, bias, scale, reason, size);
  double bound = 0;
  for (int64_t n = 0; n < shape->channels && !why; n++)
    bound = fmax(bound, scale[n] * (fabs((double)bias[n]) + largest_sum(shape->depth)));
  if (out_bound) *out_bound = bound;
  free(sums);
  return why;
}

const char* carnot_quantized_make_channels(const carnot_problem* problem,
                                           const carnot_quantized_region* region,
                                           const carnot_quantized_numbers* numbers,
                                           const carnot_quantized_shape* shape, int32_t shift,
                                           int8_t* centered, int32_t* bias, float* scale,
                                           char* reason, size_t size) {
  int32_t* sums = channel_vectors(shape, 1);
  if (!sums) return CARNOT_REJECT_NO_MEMORY;
  const char* why = carnot_quantized_weights(problem, region, shape->axis, shape->channels,
                                             centered, scale, reason, size);
  if (!why) {
    const carnot_tensor* w = problem->inputs[region->weights.value].tensor;
    const int64_t inner = carnot_dims_count(w->dims + shape->axis + 1, w->rank - shape->axis - 1),
                  count = carnot_tensor_count(w);
    for (int64_t i = 0, channel = 0; i < count; i += inner, channel++)
      for (int64_t k = 0; k < inner; k++) sums[channel % shape->channels] += centered[i + k];
    why = carnot_quantized_channels(problem, region, numbers, shape->channels, shape->depth, shift,
                                    sums, bias, scale, reason, size);
  }
  free(sums);
  return why;
}
