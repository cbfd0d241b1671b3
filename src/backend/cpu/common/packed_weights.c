// Packed weights by type: sizes, conversion, kernels.
#include "backend/cpu/common/packed_weights.h"

#include <math.h>
#include <stdlib.h>

#include "kernel/cpu/gemm/pack_half.h"
#include "kernel/cpu/gemm/pack_split.h"

carnot_weights_type carnot_packed_weights_type(const carnot_tactic* tactic) {
  if (tactic->numerics == CARNOT_NUMERICS_SPLIT6) return CARNOT_WEIGHTS_SPLIT6;
  if (tactic->numerics == CARNOT_NUMERICS_SPLIT3) return CARNOT_WEIGHTS_SPLIT3;
  if (tactic->takes_bf16 && tactic->precision == CARNOT_DTYPE_BF16)
    return CARNOT_WEIGHTS_BF16_TILES;
  return tactic->precision == CARNOT_DTYPE_F16    ? CARNOT_WEIGHTS_F16
         : tactic->precision == CARNOT_DTYPE_BF16 ? CARNOT_WEIGHTS_BF16
                                                  : CARNOT_WEIGHTS_F32;
}

const char* carnot_packed_weights_packing(carnot_weights_type type) {
  return type == CARNOT_WEIGHTS_F16          ? "k1n16 f16"
         : type == CARNOT_WEIGHTS_BF16       ? "k2n16 bf16"
         : type == CARNOT_WEIGHTS_BF16_TILES ? "k2n16d32 bf16"
         : carnot_packed_weights_split(type) ? "k32n16 bf16x3"
                                             : "k1n16 f32";
}

size_t carnot_packed_weights_bytes(carnot_weights_type type, carnot_packed_weights_shape shape) {
  if (carnot_packed_weights_split(type))
    return (size_t)carnot_packed_split_bytes(shape.taps, shape.depth, shape.n);
  int64_t count = carnot_packed_k1n16_count(shape.taps * shape.depth, shape.n);
  if (type == CARNOT_WEIGHTS_F32) return (size_t)count * sizeof(float);
  if (type == CARNOT_WEIGHTS_BF16)
    count = carnot_packed_k2n16_count(shape.taps, shape.depth, shape.n);
  if (type == CARNOT_WEIGHTS_BF16_TILES)
    count = carnot_packed_k2n16d32_count(shape.taps, shape.depth, shape.n);
  return (size_t)count * sizeof(uint16_t);
}

void carnot_packed_weights_pack(carnot_weights_type type, carnot_packed_weights_shape shape,
                                const float* k1n16, void* packed) {
  if (carnot_packed_weights_split(type))
    carnot_pack_k32n16_bf16x3(shape.taps, shape.depth, shape.n, k1n16, packed);
  else if (type == CARNOT_WEIGHTS_BF16_TILES)
    carnot_pack_k2n16d32_bf16(shape.taps, shape.depth, shape.n, k1n16, packed);
  else if (type == CARNOT_WEIGHTS_BF16)
    carnot_pack_k2n16_bf16(shape.taps, shape.depth, shape.n, k1n16, packed);
  else
    carnot_pack_k1n16_f16(carnot_packed_k1n16_count(shape.taps * shape.depth, shape.n), k1n16,
                          packed);
}

// ---- on several threads ----

enum { kPanel = 16, kGroup = 4 * kPanel };  // columns; of a group, which is packed at a time

typedef struct packing {
  carnot_weights_type type;
  carnot_packed_weights_shape shape;
  const float* filters;  // of a convolution, [n,depth,taps]; NULL: |matrix|
  carnot_weights_matrix matrix;
  char* packed;
  float* wide;  // a group's columns as float32 for each part; unused where the type is float32
  int64_t parts;
  carnot_split_range* ranges;  // of each part
} packing;

static carnot_packed_weights_shape columns_of(const packing* p, int64_t count) {
  return (carnot_packed_weights_shape){p->shape.taps, p->shape.depth, count};
}

static int64_t columns_before(const packing* p, int64_t part) {
  return carnot_min_i64(p->shape.n, carnot_ceildiv(p->shape.n, kGroup) * part / p->parts * kGroup);
}

static int64_t packed_at(const packing* p, int64_t column) {
  const size_t bytes = carnot_packed_weights_bytes(p->type, columns_of(p, column));
  return (int64_t)bytes - (carnot_packed_weights_split(p->type) ? CARNOT_SPLIT_RANGE_BYTES : 0);
}

static void pack_f32(const packing* p, int64_t column, int64_t count, float* to) {
  const int64_t taps = p->shape.taps, depth = p->shape.depth;
  if (p->filters) {
    carnot_pack_conv_k1n16_f32(count, depth, taps, p->filters + column * depth * taps, to);
    return;
  }
  const carnot_weights_matrix* m = &p->matrix;
  carnot_cpu_kernels_for(CARNOT_ISA_SCALAR)
      ->gemm_pack_f32(depth, count, m->data + column * m->column_stride, m->row_stride,
                      m->column_stride, to);
  const int64_t all = carnot_packed_k1n16_count(depth, count);
  for (int64_t i = 0; m->scale != 1 && i < all; i++) to[i] *= m->scale;
}

static void pack_group(const packing* p, int64_t part, int64_t column, int64_t count) {
  const int64_t taps = p->shape.taps, depth = p->shape.depth;
  void* packed = p->packed + packed_at(p, column);
  float* to = p->type == CARNOT_WEIGHTS_F32 ? packed : p->wide + part * taps * depth * kGroup;
  pack_f32(p, column, count, to);
  if (carnot_packed_weights_split(p->type))
    p->ranges[part] = carnot_split_range_of_both(
        p->ranges[part], carnot_pack_split_panels(taps, depth, count, to, packed));
  else if (p->type != CARNOT_WEIGHTS_F32)
    carnot_packed_weights_pack(p->type, columns_of(p, count), to, packed);
}

static void pack_part(void* argument, int64_t part) {
  const packing* p = argument;
  const int64_t end = columns_before(p, part + 1);
  for (int64_t column = columns_before(p, part); column < end; column += kGroup)
    pack_group(p, part, column, carnot_min_i64(kGroup, end - column));
}

static carnot_status* pack_on_threads(packing* p, carnot_executor* executor) {
  const carnot_packed_weights_shape s = p->shape;
  p->parts = carnot_max_i64(
      1, carnot_min_i64(carnot_executor_thread_count(executor), carnot_ceildiv(s.n, kGroup)));
  const int64_t wide = p->type == CARNOT_WEIGHTS_F32 ? 0 : p->parts * s.taps * s.depth * kGroup;
  p->wide = malloc((size_t)wide * sizeof(float) + 1);
  p->ranges = malloc((size_t)p->parts * sizeof(*p->ranges));
  const bool has_memory = p->wide && p->ranges;
  if (has_memory) {
    for (int64_t i = 0; i < p->parts; i++) p->ranges[i] = (carnot_split_range){INFINITY, 0, 1};
    carnot_cpu_prepare_parallel(executor, p->parts, pack_part, p);
    for (int64_t i = 1; i < p->parts; i++)
      p->ranges[0] = carnot_split_range_of_both(p->ranges[0], p->ranges[i]);
    if (carnot_packed_weights_split(p->type))
      carnot_pack_split_range(s.taps, s.depth, s.n, p->ranges[0], p->packed);
  }
  free(p->wide);
  free(p->ranges);
  CARNOT_CHECK(has_memory, OUT_OF_MEMORY, "no memory to pack weights of %lld x %lld x %lld",
               (long long)s.taps, (long long)s.depth, (long long)s.n);
  return NULL;
}

carnot_status* carnot_packed_weights_pack_matrix(carnot_executor* executor,
                                                 carnot_weights_type type,
                                                 carnot_packed_weights_shape shape,
                                                 carnot_weights_matrix matrix, void* packed) {
  packing p = {.type = type, .shape = shape, .matrix = matrix, .packed = packed};
  return pack_on_threads(&p, executor);
}

carnot_status* carnot_packed_weights_pack_conv(carnot_executor* executor, carnot_weights_type type,
                                               carnot_packed_weights_shape shape,
                                               const float* weights, void* packed) {
  packing p = {.type = type, .shape = shape, .filters = weights, .packed = packed};
  return pack_on_threads(&p, executor);
}

static bool exact_in_f16(const float* x, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float back = carnot_half_to_float(carnot_half_from_float(x[i]));
    if (back != x[i] && !isnan(x[i])) return false;
  }
  return true;
}

// 65520 is the least number that rounds to infinity.
static bool beyond_f16(const float* x, int64_t count, float* out_greatest) {
  float greatest = 0;
  for (int64_t i = 0; i < count; i++) {
    float size = fabsf(x[i]);
    greatest = size > greatest && size < INFINITY ? size : greatest;
  }
  *out_greatest = greatest;
  return greatest >= 65520;
}

static bool is_beyond_parts(float x) {
  const float size = fabsf(x);
  return (size < 0x1p-100f && size > 0) || !(size < INFINITY);
}

// What BF16 parts do not hold exactly, and what tile instructions do not multiply as floats.
static bool beyond_parts(const float* x, int64_t count, float* out_found) {
  enum { kBlock = 256 };  // that the compiler takes in vectors
  for (int64_t i = 0; i < count; i += kBlock) {
    const int64_t end = carnot_min_i64(i + kBlock, count);
    int beyond = 0;
    for (int64_t j = i; j < end; j++) {
      beyond |= is_beyond_parts(x[j]);
    }
    for (int64_t j = i; beyond && j < end; j++) {
      *out_found = x[j];
      if (is_beyond_parts(x[j])) return true;
    }
  }
  return false;
}

const char* carnot_packed_weights_reject(const carnot_problem* problem,
                                         const carnot_tensor* weights, carnot_weights_type type,
                                         char* reason, size_t size) {
  const float* x = weights->data;
  int64_t count = carnot_tensor_count(weights);
  float found;
  if (carnot_packed_weights_split(type))
    return beyond_parts(x, count, &found)
               ? carnot_because(reason, size, "a weight of %g is not split in parts", found)
               : NULL;
  if (type != CARNOT_WEIGHTS_F16) return NULL;
  if (problem->exact_f16)
    return exact_in_f16(x, count) ? NULL
                                  : "float16 is not allowed here and would round the weights";
  if (beyond_f16(x, count, &found))
    return carnot_because(reason, size, "a weight of %g is beyond float16 (65504)", found);
  return NULL;
}

carnot_gemm_f32_fn* carnot_packed_weights_gemm(const carnot_cpu_kernels* kernels,
                                               carnot_weights_type type) {
  return type == CARNOT_WEIGHTS_F16      ? kernels->gemm_f16
         : type == CARNOT_WEIGHTS_BF16   ? kernels->gemm_bf16
         : type == CARNOT_WEIGHTS_SPLIT6 ? kernels->gemm_split6_f32
         : type == CARNOT_WEIGHTS_SPLIT3 ? kernels->gemm_split3_f32
                                         : kernels->gemm_f32;
}

carnot_conv2d_f32_fn* carnot_packed_weights_conv2d(const carnot_cpu_kernels* kernels,
                                                   carnot_weights_type type) {
  return type == CARNOT_WEIGHTS_F16      ? kernels->conv2d_f16
         : type == CARNOT_WEIGHTS_BF16   ? kernels->conv2d_bf16
         : type == CARNOT_WEIGHTS_SPLIT6 ? kernels->conv2d_split6_f32
         : type == CARNOT_WEIGHTS_SPLIT3 ? kernels->conv2d_split3_f32
                                         : kernels->conv2d_f32;
}
