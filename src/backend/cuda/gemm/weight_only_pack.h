// GEMM of floats by packed integer weights: the region, packed constants.
#ifndef CARNOT_BACKEND_CUDA_GEMM_WEIGHT_ONLY_PACK_H_
#define CARNOT_BACKEND_CUDA_GEMM_WEIGHT_ONLY_PACK_H_

#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/gemm/gemm_weight_only_params.h"
#include "tactic/problem/weight_only.h"

enum { CARNOT_CUDA_WEIGHT_ONLY_MAX_COLUMNS = 1 << 24, CARNOT_CUDA_WEIGHT_ONLY_ONE_BLOCK = 30 };
// Constants; ZEROS may be missing.
enum {
  CARNOT_CUDA_WEIGHT_ONLY_WEIGHTS,
  CARNOT_CUDA_WEIGHT_ONLY_SCALES,
  CARNOT_CUDA_WEIGHT_ONLY_BIAS,
  CARNOT_CUDA_WEIGHT_ONLY_ZEROS
};

// Stored in engines.
typedef struct carnot_cuda_weight_only_step {
  int64_t n, k;
  int32_t bits;  // of packed weights: 4 or 8
  int32_t shift, zero, has_zeros;
  int32_t scale_dtype;  // carnot_dtype: F32, F16, or BF16 where x is BF16
  int32_t x, residual;  // inputs of the step; residual -1: none
  int32_t activation;   // carnot_cuda_activation
  float low, high, alpha;
} carnot_cuda_weight_only_step;

// Sizes of the packed weights, as gemm_weight_only_params.h describes them.
int64_t carnot_cuda_weight_only_tile_depth(const carnot_cuda_weight_only_step* p);  // of K
int64_t carnot_cuda_weight_only_tiles(const carnot_cuda_weight_only_step* p);
int64_t carnot_cuda_weight_only_blocks(const carnot_cuda_weight_only_step* p);
int64_t carnot_cuda_weight_only_column_groups(const carnot_cuda_weight_only_step* p);
size_t carnot_cuda_weight_only_weight_bytes(const carnot_cuda_weight_only_step* p);
// Scales and zero points.
size_t carnot_cuda_weight_only_scale_count(const carnot_cuda_weight_only_step* p);
// Scales of a tile (CARNOT_CUDA_WEIGHT_ONLY_FORMS).
int carnot_cuda_weight_only_groups(const carnot_cuda_weight_only_step* p);
int carnot_cuda_weight_only_scale_bytes(const carnot_cuda_weight_only_step* p);  // of one scale

// Reads the region of |problem|, without the zero points' values. |bias|: of n zeros, or NULL.
// NULL, or the reason; "" for other regions.
const char* carnot_cuda_weight_only_read(const carnot_problem* problem,
                                         carnot_weight_only_problem* view,
                                         carnot_cuda_weight_only_step* out, float* bias,
                                         char* reason, size_t size);
carnot_status* carnot_cuda_weight_only_prepare(const carnot_problem* problem,
                                               carnot_prepared* out) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_GEMM_WEIGHT_ONLY_PACK_H_
