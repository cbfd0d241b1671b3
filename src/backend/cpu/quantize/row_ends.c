// Rows of bytes or BF16 around kernels that compute rows of float32.
#include "backend/cpu/quantize/row_ends.h"

enum { kBufferFloats = 4096 };  // as many rows at a time as fit, at least one

static carnot_status* check_end(const carnot_step_view* step, const carnot_quantized_end* end,
                                const carnot_operand* inputs, const carnot_operand* value) {
  if (!carnot_is_end_bytes(end)) {
    CARNOT_CHECK(carnot_cpu_is_f32_value(step, value), INVALID_MODEL,
                 "an operand is %s, must be float32", carnot_dtype_name(value->format.dtype));
    return NULL;
  }
  CARNOT_CHECK(carnot_is_8bit(value->format.dtype), INVALID_MODEL,
               "an operand is %s, must be int8 or uint8", carnot_dtype_name(value->format.dtype));
  const carnot_operand* scale = &inputs[end->scale];
  CARNOT_CHECK(
      scale->format.dtype == CARNOT_DTYPE_F32 && carnot_dims_count(scale->dims, scale->rank) == 1,
      INVALID_MODEL, "the scale of an operand is not one float32");
  if (end->zero == CARNOT_PLAN_NONE) return NULL;
  const carnot_operand* zero = &inputs[end->zero];
  CARNOT_CHECK(
      zero->format.dtype == value->format.dtype && carnot_dims_count(zero->dims, zero->rank) == 1,
      INVALID_MODEL, "the zero point of an operand is not one %s",
      carnot_dtype_name(value->format.dtype));
  return NULL;
}

carnot_status* carnot_row_ends_check(const carnot_step_view* step,
                                     const carnot_quantized_ends* ends,
                                     const carnot_operand* inputs, const carnot_operand* outputs) {
  CARNOT_TRY(check_end(step, &ends->x, inputs, &inputs[ends->input]));
  CARNOT_TRY(check_end(step, &ends->y, inputs, &outputs[ends->y_output]));
  if (ends->float_output == CARNOT_PLAN_NONE) return NULL;
  const carnot_operand *y = &outputs[ends->y_output], *kept = &outputs[ends->float_output];
  bool same = kept->format.dtype == CARNOT_DTYPE_F32 && kept->rank == y->rank;
  for (int d = 0; same && d < y->rank; d++)
    same = kept->dims[d] == y->dims[d] && (y->dims[d] == 1 || kept->strides[d] == y->strides[d]);
  CARNOT_CHECK(same, INVALID_MODEL, "the results are not bytes and float32 of one shape");
  return NULL;
}

static int64_t rows_of_block(int64_t n) {
  return carnot_max_i64(1, kBufferFloats / carnot_max_i64(1, n));
}

int64_t carnot_row_ends_buffer(const carnot_quantized_ends* ends, const carnot_operand* inputs,
                               const carnot_operand* outputs, int64_t n) {
  const bool none = inputs[ends->input].format.dtype == CARNOT_DTYPE_F32 &&
                    outputs[ends->y_output].format.dtype == CARNOT_DTYPE_F32;
  return none ? 0 : rows_of_block(n) * n;
}

static carnot_quantize quantize_of(const carnot_quantized_end* end, const carnot_operand* inputs,
                                   const carnot_operand* value) {
  return (carnot_quantize){
      .is_signed = value->format.dtype == CARNOT_DTYPE_I8,
      .scale = inputs[end->scale].data,
      .zero_point = end->zero == CARNOT_PLAN_NONE ? NULL : inputs[end->zero].data};
}

carnot_row_ends carnot_row_ends_make(const carnot_cpu_kernels* kernels,
                                     const carnot_quantized_ends* ends,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     int64_t n) {
  const carnot_operand *input = &inputs[ends->input], *output = &outputs[ends->y_output];
  carnot_row_ends out = {.kernels = kernels,
                         .x = input->data,
                         .y = output->data,
                         .n = n,
                         .x_is_bytes = carnot_is_end_bytes(&ends->x),
                         .y_is_bytes = carnot_is_end_bytes(&ends->y),
                         .x_is_bf16 = input->format.dtype == CARNOT_DTYPE_BF16,
                         .y_is_bf16 = output->format.dtype == CARNOT_DTYPE_BF16};
  if (ends->float_output != CARNOT_PLAN_NONE) out.kept = outputs[ends->float_output].data;
  if (out.x_is_bytes) out.from = quantize_of(&ends->x, inputs, input);
  if (out.y_is_bytes) out.to = quantize_of(&ends->y, inputs, output);
  return out;
}

static void run_block(const carnot_row_ends* e, int64_t row, int64_t rows, float* buffer,
                      carnot_rows_fn* compute, const void* user) {
  carnot_quantize from = e->from, to = e->to;
  const int64_t at = row * e->n;
  from.n = to.n = rows * e->n;
  const float* src = e->x_is_bytes || e->x_is_bf16 ? buffer : (const float*)e->x + at;
  float* dst = e->kept ? e->kept + at : e->y_is_bytes || e->y_is_bf16 ? buffer : (float*)e->y + at;
  if (e->x_is_bytes)
    e->kernels->dequantize_f32(&from, 1, (const uint8_t*)e->x + at, from.n, buffer, from.n);
  if (e->x_is_bf16) e->kernels->f32_of_bf16(from.n, (const uint16_t*)e->x + at, buffer);
  compute(user, src, dst, rows);
  if (e->y_is_bytes) e->kernels->quantize_f32(&to, 1, dst, to.n, (uint8_t*)e->y + at, to.n);
  if (e->y_is_bf16) e->kernels->bf16_of_f32(to.n, dst, (uint16_t*)e->y + at);
}

void carnot_row_ends_run(const carnot_row_ends* e, int64_t first, int64_t last, float* buffer,
                         carnot_rows_fn* compute, const void* user) {
  const bool whole = !e->x_is_bytes && !e->y_is_bytes && !e->x_is_bf16 && !e->y_is_bf16;
  const int64_t block = whole ? last - first : rows_of_block(e->n);
  for (int64_t row = first; row < last; row += block)
    run_block(e, row, carnot_min_i64(block, last - row), buffer, compute, user);
}
