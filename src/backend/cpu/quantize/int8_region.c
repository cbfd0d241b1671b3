// Quantized regions for the integer kernels: parameters, vectors of channels, checks and epilogue.
#include "backend/cpu/quantize/int8_region.h"

#include "backend/cpu/common/epilogue.h"

static carnot_int8_residual residual_type(const carnot_problem* problem,
                                          const carnot_quantized_region* view) {
  if (view->residual.value == CARNOT_PLAN_NONE) return CARNOT_INT8_RESIDUAL_NONE;
  switch (problem->inputs[view->residual.value].format.dtype) {
    case CARNOT_DTYPE_U8: return CARNOT_INT8_RESIDUAL_U8;
    case CARNOT_DTYPE_I8: return CARNOT_INT8_RESIDUAL_S8;
    default: return CARNOT_INT8_RESIDUAL_F32;
  }
}

static carnot_int8_output output_type(const carnot_problem* problem) {
  switch (problem->outputs[0].format.dtype) {
    case CARNOT_DTYPE_U8: return CARNOT_INT8_OUTPUT_U8;
    case CARNOT_DTYPE_I8: return CARNOT_INT8_OUTPUT_S8;
    case CARNOT_DTYPE_F32: return CARNOT_INT8_OUTPUT_F32;
    default: return CARNOT_INT8_OUTPUT_COUNT;
  }
}

// A bound of the integer path is in low and high, and so is one behind an inner quantization and a
// residual of bytes.
static const char* read_activation(const carnot_quantized_region* view,
                                   const carnot_quantized_numbers* numbers,
                                   carnot_int8_region* out) {
  const bool is_bound = view->activation.kind == CARNOT_FUSED_NONE ||
                        view->activation.kind == CARNOT_FUSED_RELU ||
                        view->activation.kind == CARNOT_FUSED_CLAMP;
  if (!numbers->is_real_path) return NULL;
  if (out->is_twice && view->quantizes && is_bound &&
      out->residual_type != CARNOT_INT8_RESIDUAL_F32 && view->offset == CARNOT_PLAN_NONE)
    return NULL;
  const int kind = carnot_epilogue_kernel_activation(view->activation.kind);
  if (view->activation.kind != CARNOT_FUSED_NONE && kind == CARNOT_KERNEL_ACTIVATION_NONE)
    return "the kernels do not apply its activation";
  out->activation = kind;
  out->a = view->activation.a, out->b = view->activation.b;
  return NULL;
}

const char* carnot_int8_region_read(const carnot_problem* problem, int channel_axis,
                                    const carnot_quantized_shape* weights,
                                    carnot_quantized_region* view, carnot_int8_region* out,
                                    char* reason, size_t size) {
  carnot_quantized_numbers numbers;
  const char* why =
      carnot_quantized_read(problem, channel_axis, weights->channels, view, reason, size);
  if (!why && view->offset != CARNOT_PLAN_NONE && view->node->op != CARNOT_OP_MATMUL &&
      view->node->op != CARNOT_OP_GEMM)
    why = "a bias behind the inner quantization of a convolution";
  if (!why) why = carnot_quantized_read_numbers(problem, view, &numbers, reason, size);
  if (why) return why;
  *out = (carnot_int8_region){
      .x = (int32_t)view->x.value,
      .residual = view->residual.value == CARNOT_PLAN_NONE ? -1 : (int32_t)view->residual.value,
      .offset = view->offset == CARNOT_PLAN_NONE ? -1 : (int32_t)view->offset,
      .x_zero = numbers.x_zero,
      .x_signed = problem->inputs[view->x.value].format.dtype == CARNOT_DTYPE_I8,
      .residual_type = residual_type(problem, view),
      .residual_zero = numbers.residual_zero,
      .residual_scale = numbers.residual_scale,
      .is_twice = view->is_twice,
      .inner_zero = numbers.inner_zero,
      .inner_low = numbers.inner_low,
      .inner_high = numbers.inner_high,
      .inner_scale = (float)numbers.inner_scale,
      .output = output_type(problem),
      .divisor = numbers.is_real_path ? (float)numbers.y_scale : 1,
      .zero_point = numbers.y_zero,
      .low = numbers.low,
      .high = numbers.high};
  if (out->output == CARNOT_INT8_OUTPUT_COUNT)
    return carnot_because(reason, size, "the result is %s",
                          carnot_dtype_name(problem->outputs[0].format.dtype));
  why = read_activation(view, &numbers, out);
  return why ? why
             : carnot_quantized_check_channels(problem, view, &numbers, weights, NULL, reason,
                                               size);
}

// Whether every result before its zero point is below 2^30, by the bounds of sums and residual.
static bool is_small(const carnot_int8_region* r, const carnot_quantized_shape* w,
                     const float* scale) {
  if (r->output < CARNOT_INT8_OUTPUT_U8 || r->activation || r->offset >= 0 ||
      r->residual_type == CARNOT_INT8_RESIDUAL_F32 ||
      (r->is_twice ? r->inner_factor == 0 : r->divisor != 1))
    return false;
  const double residual = r->residual_type && !r->is_twice ? 255 * (double)r->residual_scale : 0;
  for (int64_t n = 0; n < w->channels; n++)
    if (!((double)INT32_MAX * (double)scale[n] + residual < 0x1p30)) return false;
  return true;
}

static void find_factors(carnot_int8_region* r) {
  const carnot_quantized_twice twice = {
      .inner_zero = r->inner_zero,
      .inner_low = r->inner_low,
      .inner_high = r->inner_high,
      .inner_scale = r->inner_scale,
      .residual_signed = r->residual_type == CARNOT_INT8_RESIDUAL_S8,
      .residual_zero = r->residual_zero,
      .residual_scale = r->residual_scale,
      .divisor = r->divisor,
      .folds_zero = true};
  if (!r->is_twice || r->residual_type < CARNOT_INT8_RESIDUAL_U8 ||
      r->output < CARNOT_INT8_OUTPUT_U8 || r->activation ||
      !carnot_quantized_find_factors(&twice, &r->inner_factor, &r->residual_factor))
    r->inner_factor = r->residual_factor = 0;
}

carnot_status* carnot_int8_region_prepare(const carnot_problem* problem,
                                          const carnot_quantized_region* view,
                                          carnot_int8_region* region,
                                          const carnot_quantized_shape* weights, int32_t shift,
                                          int8_t* centered, carnot_prepared* out) {
  char reason[256];
  void *bias, *scale;
  const size_t channels = (size_t)weights->channels;
  carnot_quantized_numbers numbers;
  CARNOT_TRY(carnot_arena_try(out->arena, channels + 16, sizeof(int32_t), "a bias", &bias));
  CARNOT_TRY(carnot_arena_try(out->arena, channels + 16, sizeof(float), "scales", &scale));
  const char* why = carnot_quantized_read_numbers(problem, view, &numbers, reason, sizeof(reason));
  if (!why)
    why = carnot_quantized_make_channels(problem, view, &numbers, weights, region->x_zero + shift,
                                         centered, bias, scale, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_ARGUMENT, "quantized weights: %s", why);
  find_factors(region);
  region->is_small = is_small(region, weights, scale);
  out->constants[CARNOT_INT8_BIAS].packing = "i32 bias";
  out->constants[CARNOT_INT8_BIAS].data = bias;
  out->constants[CARNOT_INT8_BIAS].bytes = channels * sizeof(int32_t);
  out->constants[CARNOT_INT8_SCALES].packing = "f32 scales";
  out->constants[CARNOT_INT8_SCALES].data = scale;
  out->constants[CARNOT_INT8_SCALES].bytes = channels * sizeof(float);
  out->constant_count = CARNOT_INT8_CONSTANTS;
  for (uint32_t i = 0; i < problem->input_count; i++)
    if ((int64_t)i != region->x && !carnot_int8_region_uses(region, i))
      out->packed_inputs |= (uint64_t)1 << i;
  return NULL;
}

carnot_status* carnot_int8_region_validate(const carnot_int8_region* r,
                                           const carnot_step_view* step, int64_t channels) {
  const int64_t inputs = (int64_t)step->input_count;
  CARNOT_CHECK(r->x >= 0 && r->x < inputs && r->residual >= -1 && r->residual < inputs &&
                   step->output_count == 1,
               INVALID_MODEL, "operands %d and %d of %u inputs", r->x, r->residual,
               step->input_count);
  CARNOT_CHECK(r->offset >= -1 && r->offset < inputs && (r->offset < 0 || r->is_twice),
               INVALID_MODEL, "an offset in input %d of %u", r->offset, step->input_count);
  CARNOT_CHECK(r->residual_type >= 0 && r->residual_type < CARNOT_INT8_RESIDUAL_COUNT &&
                   (r->residual_type == CARNOT_INT8_RESIDUAL_NONE) == (r->residual < 0) &&
                   r->activation >= 0 && r->activation < CARNOT_KERNEL_ACTIVATION_COUNT &&
                   r->output > CARNOT_INT8_OUTPUT_S32 && r->output < CARNOT_INT8_OUTPUT_COUNT,
               INVALID_MODEL, "residual of type %d, activation %d, result of type %d",
               r->residual_type, r->activation, r->output);
  CARNOT_CHECK(r->low >= -128 && r->high <= 255, INVALID_MODEL, "results in [%d,%d]", r->low,
               r->high);
  CARNOT_CHECK(!r->is_twice || (r->inner_low >= -128 && r->inner_high <= 255 &&
                                r->inner_zero >= -128 && r->inner_zero <= 255),
               INVALID_MODEL, "inner values in [%d,%d] around %d", r->inner_low, r->inner_high,
               r->inner_zero);
  CARNOT_CHECK(step->constant_bytes[CARNOT_INT8_BIAS] == (size_t)channels * sizeof(int32_t) &&
                   step->constant_bytes[CARNOT_INT8_SCALES] == (size_t)channels * sizeof(float),
               INVALID_MODEL, "a bias of %zu bytes and scales of %zu for %lld channels",
               step->constant_bytes[CARNOT_INT8_BIAS], step->constant_bytes[CARNOT_INT8_SCALES],
               (long long)channels);
  return NULL;
}

carnot_status* carnot_int8_region_configure(const carnot_int8_region* r, int channel_axis,
                                            const carnot_operand* inputs,
                                            const carnot_operand* output) {
  static const carnot_dtype kOutputs[] = {CARNOT_DTYPE_I32, CARNOT_DTYPE_F32, CARNOT_DTYPE_U8,
                                          CARNOT_DTYPE_I8};
  static const carnot_dtype kResiduals[] = {CARNOT_DTYPE_INVALID, CARNOT_DTYPE_F32, CARNOT_DTYPE_U8,
                                            CARNOT_DTYPE_I8};
  const carnot_dtype x = r->x_signed ? CARNOT_DTYPE_I8 : CARNOT_DTYPE_U8;
  CARNOT_CHECK(inputs[r->x].format.dtype == x && output->format.dtype == kOutputs[r->output],
               INVALID_MODEL, "operands are %s and %s, must be %s and %s",
               carnot_dtype_name(inputs[r->x].format.dtype),
               carnot_dtype_name(output->format.dtype), carnot_dtype_name(x),
               carnot_dtype_name(kOutputs[r->output]));
  if (r->offset >= 0) {
    const carnot_operand* offset = &inputs[r->offset];
    CARNOT_CHECK(offset->format.dtype == CARNOT_DTYPE_F32 && carnot_cpu_is_dense(offset) &&
                     carnot_dims_count(offset->dims, offset->rank) ==
                         output->dims[output->rank - channel_axis],
                 INVALID_MODEL, "the offset is no float32 number for each channel");
  }
  if (r->residual < 0) return NULL;
  const carnot_operand* t = &inputs[r->residual];
  CARNOT_CHECK(t->format.dtype == kResiduals[r->residual_type] && t->rank == output->rank,
               INVALID_MODEL, "the residual is %s of rank %d", carnot_dtype_name(t->format.dtype),
               t->rank);
  for (int d = 0; d < t->rank; d++)
    CARNOT_CHECK(t->dims[d] == output->dims[d], INVALID_ARGUMENT,
                 "dimension %d of the residual is %lld, must be %lld", d, (long long)t->dims[d],
                 (long long)output->dims[d]);
  CARNOT_CHECK(carnot_epilogue_is_even(t, channel_axis), INVALID_ARGUMENT,
               "the residual's rows are not evenly spaced");
  return NULL;
}

bool carnot_int8_region_may_share(const carnot_int8_region* region, const carnot_step_view* step,
                                  uint32_t input, uint32_t output) {
  const bool floats = region->residual_type == CARNOT_INT8_RESIDUAL_F32;
  return output == 0 && (int64_t)input == region->residual &&
         (floats ? region->output == CARNOT_INT8_OUTPUT_F32
                 : region->output >= CARNOT_INT8_OUTPUT_U8) &&
         carnot_cpu_reads_once(step, input);
}

carnot_int8_epilogue carnot_int8_region_epilogue(const carnot_int8_region* r, int channel_axis,
                                                 const carnot_step_view* step,
                                                 const carnot_operand* inputs) {
  const carnot_operand* residual = r->residual < 0 ? NULL : &inputs[r->residual];
  return (carnot_int8_epilogue){
      .bias = step->constants[CARNOT_INT8_BIAS],
      .scale = step->constants[CARNOT_INT8_SCALES],
      .residual_type = (carnot_int8_residual)r->residual_type,
      .residual = residual ? residual->data : NULL,
      .residual_ld = residual ? carnot_epilogue_row_distance(residual, channel_axis) : 0,
      .residual_scale = r->residual_scale,
      .residual_zero = r->residual_zero,
      .offset = r->offset < 0 ? NULL : inputs[r->offset].data,
      .is_twice = r->is_twice != 0,
      .inner_scale = r->inner_scale,
      .inner_low = r->inner_low - r->inner_zero,
      .inner_high = r->inner_high - r->inner_zero,
      .inner_factor = r->inner_factor,
      .residual_factor = r->residual_factor,
      .residual_base = carnot_quantized_residual_base(r->residual_zero, r->residual_factor),
      .activation = (carnot_kernel_activation)r->activation,
      .a = r->a,
      .b = r->b,
      .output = (carnot_int8_output)r->output,
      .divisor = r->divisor,
      .zero_point = r->zero_point,
      .low = r->low,
      .high = r->high,
      .is_small = r->is_small != 0};
}

void carnot_int8_region_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  uint32_t anchor;
  *out_flops = *out_bytes = 0;
  const carnot_plan_node* node = carnot_quantized_anchor(problem->region, &anchor);
  if (!node) return;
  const carnot_quantized_operand w =
      carnot_quantized_operand_of(problem->region, anchor, 1, problem->input_count);
  if (w.value == CARNOT_PLAN_NONE) return;
  const carnot_operand_desc *weights = &problem->inputs[w.value], *y = &problem->outputs[0];
  const bool is_conv = node->op == CARNOT_OP_CONV;
  const int64_t channels = is_conv ? y->dims[1] : y->dims[y->rank - 1];
  const double count = (double)carnot_dims_count(weights->dims, weights->rank);
  *out_flops =
      2 * (double)carnot_dims_count(y->dims, y->rank) * count / (double)carnot_max_i64(1, channels);
  *out_bytes = (double)carnot_dims_count(y->dims, y->rank) *
               (double)(carnot_dtype_bits(y->format.dtype) / 8);
  for (uint32_t i = 0; i < problem->input_count; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    if (t->kind == CARNOT_VALUE_TENSOR && t->rank >= 0)
      *out_bytes += (double)carnot_dims_count(t->dims, t->rank) *
                    (double)(carnot_dtype_bits(t->format.dtype) / 8);
  }
}
