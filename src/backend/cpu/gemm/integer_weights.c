// Constant int8 weights of GEMMs whose operand's zero point is known in the run alone.
#include "backend/cpu/gemm/integer_weights.h"

const char* carnot_integer_weights_check(const carnot_operand_desc* b,
                                         const carnot_operand_desc* zero) {
  if (!b || !carnot_is_known(b) || b->format.dtype != CARNOT_DTYPE_I8 || b->rank != 2)
    return "the weights are no constant matrix of int8";
  if (!zero) return NULL;
  if (!carnot_is_known(zero)) return "the weights' zero is not constant";
  for (int64_t i = 0; i < carnot_tensor_count(zero->tensor); i++)
    if (carnot_load_i64(zero->format.dtype, zero->tensor->data, (size_t)i) != 0)
      return "the weights' zero is not 0";
  return NULL;
}

static carnot_int8_weights_shape shape_of(int64_t k, int64_t n) {
  return (carnot_int8_weights_shape){.groups = 1, .taps = 1, .c = k, .n = n};
}

carnot_status* carnot_integer_weights_prepare(const carnot_tactic* tactic,
                                              const carnot_operand_desc* b, carnot_prepared* out) {
  const int64_t depth = b->dims[0], columns = b->dims[1];
  const int8_t* weights = b->tensor->data;
  const carnot_int8_weights_shape shape = shape_of(depth, columns);
  void* sums;
  CARNOT_TRY(carnot_int8_pack(tactic, &shape, weights, 1, 0, columns, CARNOT_INTEGER_WEIGHTS, out));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)columns, sizeof(int32_t), "sums", &sums));
  for (int64_t k = 0; k < depth; k++)
    for (int64_t n = 0; n < columns; n++) ((int32_t*)sums)[n] += weights[k * columns + n];
  out->constant_count = CARNOT_INTEGER_CONSTANTS;
  out->constants[CARNOT_INTEGER_SUMS].packing = "i32 column sums";
  out->constants[CARNOT_INTEGER_SUMS].data = sums;
  out->constants[CARNOT_INTEGER_SUMS].bytes = (size_t)columns * sizeof(int32_t);
  return NULL;
}

carnot_status* carnot_integer_weights_validate(const carnot_step_view* step, int64_t k, int64_t n) {
  CARNOT_CHECK(k >= 1 && n >= 1 && k < 1 << 28 && n < 1 << 28, INVALID_MODEL,
               "weights of %lld by %lld", (long long)k, (long long)n);
  const carnot_int8_weights_shape shape = shape_of(k, n);
  CARNOT_CHECK(step->constant_count == CARNOT_INTEGER_CONSTANTS &&
                   step->constant_bytes[CARNOT_INTEGER_WEIGHTS] ==
                       carnot_int8_group_bytes(step->tactic, &shape) &&
                   step->constant_bytes[CARNOT_INTEGER_SUMS] == (size_t)n * sizeof(int32_t),
               INVALID_MODEL, "%u constants; the packed weights have %zu bytes, their sums %zu",
               step->constant_count, step->constant_bytes[CARNOT_INTEGER_WEIGHTS],
               step->constant_bytes[CARNOT_INTEGER_SUMS]);
  return NULL;
}

void carnot_integer_weights_bias(const carnot_step_view* step, int64_t n, int64_t zero,
                                 bool is_signed, int32_t* bias) {
  const int32_t* sums = step->constants[CARNOT_INTEGER_SUMS];
  for (int64_t i = 0; i < n; i++)
    bias[i] = (int32_t)(uint32_t)(-(zero + carnot_int8_shift(step->tactic, is_signed)) *
                                  (int64_t)sums[i]);
}
