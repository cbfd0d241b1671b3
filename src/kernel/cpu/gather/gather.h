// Rows picked by index, and the index of an extreme.
//   gather_rows:       dst[i] = src[index[i]], rows of |row_bytes|
//   gather_panel_rows: the same rows, [count,k] floats, out of a table [N,K] that is stored only as
//                      GEMM weights, packed k1n16 f32 with B[k,n] = table[n,k]
// Negative indices count from the end. Both return the number of rows done: less than |count| if
// index[done] is outside [-rows, rows). No overlap. Any thread. Source: ONNX Gather-13.
#ifndef CARNOT_KERNEL_CPU_GATHER_GATHER_H_
#define CARNOT_KERNEL_CPU_GATHER_GATHER_H_

#include <stdbool.h>
#include <stdint.h>

// |src_stride|, |dst_stride| in bytes.
typedef int64_t carnot_gather_rows_fn(int64_t rows, int64_t row_bytes, const void* src,
                                      int64_t src_stride, int64_t count, const int64_t* index,
                                      void* dst, int64_t dst_stride);
typedef int64_t carnot_gather_panel_rows_f32_fn(int64_t rows, int64_t k, const float* packed,
                                                int64_t count, const int64_t* index, float* dst,
                                                int64_t dst_ld);

// dst[o,j] = the i < n of the largest (smallest with |min|) src[o,i,j]; NaN counts as most extreme.
// The first of equals, the last with |last|. |src| [outer, n, inner]: element (o,i,j) at
// o * src_outer + i * src_axis + j  |dst| [outer, inner] dense. Source: ONNX ArgMax-13, ArgMin-13.
typedef struct carnot_arg_extreme_f32 {
  int64_t n, inner;
  const float* src;
  int64_t src_outer, src_axis;
  int64_t* dst;
  bool min, last;
} carnot_arg_extreme_f32;

typedef void carnot_arg_extreme_f32_fn(const carnot_arg_extreme_f32* arg, int64_t o0, int64_t o1);

#endif
