// Rows of bytes around kernels that compute rows of float32.
#include "backend/cpu/quantize/row_ends.h"

enum { kBufferFloats = 4096 };  // as many rows at a time as fit, at least one

static carnot_status* check_end(const carnot_quantized_end* end, const carnot_operand* inputs,
                                const carnot_operand* value) {
  if (!carnot_is_end_bytes(end)) {
    CARNOT_CHECK(value->format.dtype == CARNOT_DTYPE_F32, INVALID_MODEL,
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

carnot_status* carnot_row_ends_check(const carnot_quantized_ends* ends,
                                     const carnot_operand* inputs, const carnot_operand* outputs) {
  CARNOT_TRY(check_end(&ends->x, inputs, &inputs[ends->input]));
  CARNOT_TRY(check_end(&ends->y, inputs, &outputs[ends->y_output]));
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

int64_t carnot_row_ends_buffer(const carnot_quantized_ends* ends, int64_t n) {
  const bool none = !carnot_is_end_bytes(&ends->x) && !carnot_is_end_bytes(&ends->y);
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
  const carnot_operand* output = &outputs[ends->y_output];
  carnot_row_ends out = {.kernels = kernels,
                         .x = inputs[ends->input].data,
                         .y = output->data,
                         .n = n,
                         .x_is_bytes = carnot_is_end_bytes(&ends->x),
                         .y_is_bytes = carnot_is_end_bytes(&ends->y)};
  if (ends->float_output != CARNOT_PLAN_NONE) out.kept = outputs[ends->float_output].data;
  if (out.x_is_bytes) out.from = quantize_of(&ends->x, inputs, &inputs[ends->input]);
  if (out.y_is_bytes) out.to = quantize_of(&ends->y, inputs, output);
  return out;
}

static void run_block(const carnot_row_ends* e, int64_t row, int64_t rows, float* buffer,
                      carnot_rows_fn* compute, const void* user) {
  carnot_quantize from = e->from, to = e->to;
  const int64_t at = row * e->n;
  from.n = to.n = rows * e->n;
  const float* src = e->x_is_bytes ? buffer : (const float*)e->x + at;
  float* dst = e->kept ? e->kept + at : e->y_is_bytes ? buffer : (float*)e->y + at;
  if (e->x_is_bytes)
    e->kernels->dequantize_f32(&from, 1, (const uint8_t*)e->x + at, from.n, buffer, from.n);
  compute(user, src, dst, rows);
  if (e->y_is_bytes) e->kernels->quantize_f32(&to, 1, dst, to.n, (uint8_t*)e->y + at, to.n);
}

void carnot_row_ends_run(const carnot_row_ends* e, int64_t first, int64_t last, float* buffer,
                         carnot_rows_fn* compute, const void* user) {
  const bool whole = !e->x_is_bytes && !e->y_is_bytes;
  const int64_t block = whole ? last - first : rows_of_block(e->n);
  for (int64_t row = first; row < last; row += block)
    run_block(e, row, carnot_min_i64(block, last - row), buffer, compute, user);
}
