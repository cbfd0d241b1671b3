// Constant 8-bit weights of GEMMs whose operand's zero point is known in the run alone.
#include "backend/cpu/gemm/integer_weights.h"

const char* carnot_integer_weights_check(const carnot_operand_desc* b,
                                         const carnot_operand_desc* zero) {
  if (!b || !carnot_is_known(b) || !carnot_is_8bit(b->format.dtype) || b->rank != 2)
    return "the weights are no constant matrix of 8 bits";
  if (!zero) return NULL;
  if (!carnot_is_known(zero) || zero->format.dtype != b->format.dtype)
    return "the weights' zero point is no constant of their type";
  const int64_t count = carnot_tensor_count(zero->tensor);
  return count == 1 || count == b->dims[1] ? NULL
                                           : "the weights' zero points are not one or one a column";
}

static int32_t middle_of(carnot_dtype dtype) { return dtype == CARNOT_DTYPE_U8 ? 128 : 0; }

// z' of column |n|.
static int32_t zero_of(const carnot_operand_desc* b, const carnot_operand_desc* zero, int64_t n) {
  const int32_t middle = middle_of(b->format.dtype);
  if (!zero) return -middle;
  const bool each = carnot_tensor_count(zero->tensor) > 1;
  return (int32_t)carnot_load_i64(zero->format.dtype, zero->tensor->data, each ? (size_t)n : 0) -
         middle;
}

bool carnot_integer_weights_are_centered(const carnot_operand_desc* b,
                                         const carnot_operand_desc* zero) {
  for (int64_t n = 0; n < b->dims[1]; n++)
    if (zero_of(b, zero, n) != 0) return false;
  return true;
}

static carnot_int8_weights_shape shape_of(int64_t k, int64_t n) {
  return (carnot_int8_weights_shape){.groups = 1, .taps = 1, .c = k, .n = n};
}

static void add_constant(carnot_prepared* out, const char* packing, void* data, int64_t columns) {
  const uint32_t index = out->constant_count++;
  out->constants[index].packing = packing;
  out->constants[index].data = data;
  out->constants[index].bytes = (size_t)columns * sizeof(int32_t);
}

carnot_status* carnot_integer_weights_prepare(const carnot_tactic* tactic,
                                              const carnot_operand_desc* b,
                                              const carnot_operand_desc* zero,
                                              carnot_prepared* out) {
  const int64_t depth = b->dims[0], columns = b->dims[1];
  const carnot_int8_weights_shape shape = shape_of(depth, columns);
  const uint8_t *stored = b->tensor->data, flip = (uint8_t)middle_of(b->format.dtype);
  void *centered, *sums, *zeros;
  CARNOT_TRY(
      carnot_arena_try(out->arena, (size_t)(depth * columns), 1, "centered weights", &centered));
  int8_t* weights = centered;
  for (int64_t i = 0; i < depth * columns; i++) weights[i] = (int8_t)(stored[i] ^ flip);
  CARNOT_TRY(carnot_int8_pack(tactic, &shape, weights, 1, 0, columns, CARNOT_INTEGER_WEIGHTS, out));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)columns, sizeof(int32_t), "sums", &sums));
  for (int64_t k = 0; k < depth; k++)
    for (int64_t n = 0; n < columns; n++) ((int32_t*)sums)[n] += weights[k * columns + n];
  out->constant_count = CARNOT_INTEGER_SUMS;
  add_constant(out, "i32 column sums", sums, columns);
  if (carnot_integer_weights_are_centered(b, zero)) return NULL;
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)columns, sizeof(int32_t), "zeros", &zeros));
  for (int64_t n = 0; n < columns; n++) ((int32_t*)zeros)[n] = zero_of(b, zero, n);
  add_constant(out, "i32 column zeros", zeros, columns);
  return NULL;
}

carnot_status* carnot_integer_weights_validate(const carnot_step_view* step, int64_t k, int64_t n) {
  CARNOT_CHECK(k >= 1 && n >= 1 && k < 1 << 28 && n < 1 << 28, INVALID_MODEL,
               "weights of %lld by %lld", (long long)k, (long long)n);
  const carnot_int8_weights_shape shape = shape_of(k, n);
  const size_t column_bytes = (size_t)n * sizeof(int32_t);
  CARNOT_CHECK((step->constant_count == CARNOT_INTEGER_ZEROS ||
                (step->constant_count == CARNOT_INTEGER_CONSTANTS &&
                 step->constant_bytes[CARNOT_INTEGER_ZEROS] == column_bytes)) &&
                   step->constant_bytes[CARNOT_INTEGER_WEIGHTS] ==
                       carnot_int8_group_bytes(step->tactic, &shape) &&
                   step->constant_bytes[CARNOT_INTEGER_SUMS] == column_bytes,
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

enum { kPartRows = 16 };

typedef struct correction {
  const carnot_gemm_u8s8* gemm;
  const int32_t* zeros;
  int32_t x_zero;
} correction;

static uint32_t sum_of(const uint8_t* x, int64_t count, bool is_signed) {
  uint32_t sum = 0;
  if (is_signed)
    for (int64_t i = 0; i < count; i++) sum += (uint32_t)(int8_t)x[i];
  else
    for (int64_t i = 0; i < count; i++) sum += x[i];
  return sum;
}

static void correct_part(void* argument, int64_t part) {
  const correction* c = argument;
  const carnot_gemm_u8s8* gemm = c->gemm;
  const int64_t first = part * kPartRows, last = carnot_min_i64(first + kPartRows, gemm->m);
  for (int64_t m = first; m < last; m++) {
    const uint8_t* x = (const uint8_t*)gemm->a + m * gemm->lda;
    const uint32_t sum =
        sum_of(x, gemm->k, gemm->a_signed) - (uint32_t)gemm->k * (uint32_t)c->x_zero;
    uint32_t* y = (uint32_t*)gemm->dst + m * gemm->ld;
    for (int64_t n = 0; n < gemm->n; n++) y[n] -= (uint32_t)c->zeros[n] * sum;
  }
}

void carnot_integer_weights_correct(const carnot_step_view* step, const carnot_gemm_u8s8* gemm,
                                    int64_t zero, carnot_executor* executor) {
  if (step->constant_count <= CARNOT_INTEGER_ZEROS) return;
  correction c = {gemm, step->constants[CARNOT_INTEGER_ZEROS], (int32_t)zero};
  carnot_executor_parallel(executor, carnot_ceildiv(gemm->m, kPartRows), correct_part, &c);
}
