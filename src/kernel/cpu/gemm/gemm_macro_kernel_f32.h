// The macro-kernel: the loops around the micro-kernel, shared by GEMM and convolution; private to
// their sources.
//   dst[m,n] = epilogue(sum_{t,k} row(m,t)[k] * weights[t * depth + k, n])
// row(m,t) is a pointer that |rows| writes: a row of A, or the input pixel under filter tap t.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_MACRO_KERNEL_F32_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_MACRO_KERNEL_F32_H_

#include <stdint.h>

#include "kernel/cpu/common/simd.h"
#include "kernel/cpu/conv/conv2d_f32.h"
#include "kernel/cpu/gemm/gemm_f32.h"
#include "kernel/cpu/gemm/gemm_ukernel_f32.h"

// A level that has only its own micro-kernels uses the loops of avx512.
#if defined(__AVX512BF16__)
#define GEMM_MACRO_KERNEL(name) CARNOT_PASTE3(carnot_, name, avx512)
#else
#define GEMM_MACRO_KERNEL(name) CARNOT_KERNEL(name)
#endif

// Writes out_rows[t * count + i] for output rows m .. m + count - 1 and taps t0 .. t1 - 1.
typedef void (*gemm_rows_fn)(const void* problem, int64_t m, int count, int64_t t0, int64_t t1,
                             const void** out_rows);

// How many output rows from |m| on have their taps inside and outside alike.
typedef int64_t (*gemm_run_fn)(const void* problem, int64_t m);

typedef struct gemm_macro_kernel_f32 {
  gemm_rows_fn rows;
  gemm_run_fn run;      // tiles end with a run; NULL: anywhere
  const void* problem;  // handed to |rows|
  const void* zeros;    // what rows in the padding point to, or NULL: there are none
  int64_t taps, depth;  // K = taps * depth
  const gemm_ukernels_f32* tiles;
  const void* weights;  // packed as |tiles| say, over all columns
  float* dst;
  int64_t ld;
  const carnot_epilogue_f32* epilogue;
} gemm_macro_kernel_f32;

// Computes rows [m0, m1) of columns [n0, n1); n0 is a multiple of 16.
void CARNOT_KERNEL(gemm_macro_kernel_f32)(const gemm_macro_kernel_f32* loop, int64_t m0, int64_t m1,
                                          int64_t n0, int64_t n1);

// Applies an activation in place to rows of |columns| floats, |ld| apart.
void CARNOT_KERNEL(activate_f32)(carnot_kernel_activation activation, float a, float b, float* x,
                                 int64_t ld, int64_t rows, int64_t columns);

// A whole GEMM or convolution with the weights' type of |tiles|.
typedef void gemm_with_ukernels_f32_fn(const carnot_gemm_f32* gemm, const gemm_ukernels_f32* tiles,
                                       int64_t m0, int64_t m1, int64_t n0, int64_t n1);
typedef void conv2d_tiled_f32_fn(const carnot_conv2d_f32* conv, const gemm_ukernels_f32* tiles,
                                 int64_t m0, int64_t m1, int64_t n0, int64_t n1);
gemm_with_ukernels_f32_fn GEMM_MACRO_KERNEL(gemm_with_ukernels_f32);
conv2d_tiled_f32_fn GEMM_MACRO_KERNEL(conv2d_tiled_f32);

#if defined(__AMX_BF16__)
// BF16 by the loops of gemm_split_f32.c over weights packed k2n16; false where a tap is not a
// multiple of 32 deep, a block does not fit, or gathered rows are faster: one tap (by 1.1 to 1.2
// times on a Xeon with AMX) and few outputs (1.1 to 1.3).
bool CARNOT_KERNEL(conv2d_rounded)(const carnot_conv2d_f32* conv, int64_t m0, int64_t m1,
                                   int64_t n0, int64_t n1);
#endif

extern const gemm_ukernels_f32 CARNOT_KERNEL(gemm_ukernels_f32), CARNOT_KERNEL(gemm_ukernels_f16),
    CARNOT_KERNEL(gemm_ukernels_bf16), CARNOT_KERNEL(gemm_ukernels_split);

#endif
