// The first |k| elements of lanes of float32 in order, with their indices.
//   lane l: src[l / inner * n * inner + l % inner + i * inner], i < n
//   values, index: the same lanes with k elements; either may be NULL
// Largest first (smallest without |largest|); of equal elements the lower index first; NaN counts
// as greater than every number, -0 as 0. 0 < k <= n < 2^32. |work|: aligned to 8. Any thread.
// Source: ONNX TopK-24.
#ifndef CARNOT_KERNEL_CPU_REDUCE_TOP_K_F32_H_
#define CARNOT_KERNEL_CPU_REDUCE_TOP_K_F32_H_

#include <stdbool.h>
#include <stdint.h>

typedef struct carnot_top_k_f32 {
  int64_t n, k, inner;
  const float* src;
  float* values;
  int64_t* index;
  bool largest;
} carnot_top_k_f32;

// Bytes of workspace. An eighth of a lane and more is sorted, less is chosen.
static inline bool carnot_top_k_f32_sorts(int64_t n, int64_t k) { return n >= 64 && k >= n / 8; }
static inline int64_t carnot_top_k_f32_workspace(int64_t n, int64_t k) {
  return (carnot_top_k_f32_sorts(n, k) ? 16 * n : 8 * k) + 4 * n;
}

// Lanes [l0, l1).
typedef void carnot_top_k_f32_fn(const carnot_top_k_f32* arg, int64_t l0, int64_t l1, void* work);

#endif
