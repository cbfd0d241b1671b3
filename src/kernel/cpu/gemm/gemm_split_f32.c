// GEMM and convolution of float32 by AMX: operands split in bfloat16 parts, products of parts
// summed in float32. Other levels multiply as gemm_f32 does.
#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_functions.h"

#if defined(__AMX_BF16__)

carnot_gemm_f32_fn GEMM_MACRO_KERNEL(gemm_f32);
carnot_conv2d_f32_fn GEMM_MACRO_KERNEL(conv2d_f32);
carnot_gemm_pack_f32_fn GEMM_MACRO_KERNEL(gemm_pack_f32);

#include "kernel/cpu/gemm/gemm_loop_split.h"

// A matrix is an image of one column.
void CARNOT_KERNEL(gemm_split_f32)(const carnot_gemm_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                   int64_t n1) {
  const carnot_conv2d_f32 conv = {.n = 1,
                                  .h = p->m,
                                  .w = 1,
                                  .c = p->k,
                                  .p = p->m,
                                  .q = 1,
                                  .k = p->n,
                                  .r = 1,
                                  .s = 1,
                                  .stride_h = 1,
                                  .stride_w = 1,
                                  .dilation_h = 1,
                                  .dilation_w = 1,
                                  .src = p->a,
                                  .src_h = p->lda,
                                  .weights = p->b,
                                  .dst = p->c,
                                  .ld = p->ldc,
                                  .epilogue = p->epilogue};
  split_image image;
  if (split_image_init(&image, &conv, 3)) {
    split_outputs(&image, m0, m1, n0, n1);
  } else {
    GEMM_MACRO_KERNEL(gemm_f32)(p, m0, m1, n0, n1);
  }
}

void CARNOT_KERNEL(conv2d_split_f32)(const carnot_conv2d_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                     int64_t n1) {
  split_image image;
  if (split_image_init(&image, p, 3)) {
    split_outputs(&image, m0, m1, n0, n1);
  } else {
    GEMM_MACRO_KERNEL(conv2d_f32)(p, m0, m1, n0, n1);
  }
}

void CARNOT_KERNEL(matmul_split_f32)(const carnot_matmul_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                     int64_t n1) {
  const gemm_functions functions = {CARNOT_KERNEL(gemm_split_f32),
                                    GEMM_MACRO_KERNEL(gemm_pack_f32)};
  GEMM_MACRO_KERNEL(matmul_by)(p, &functions, m0, m1, n0, n1);
}

#else

void CARNOT_KERNEL(gemm_split_f32)(const carnot_gemm_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                   int64_t n1) {
  CARNOT_KERNEL(gemm_f32)(p, m0, m1, n0, n1);
}

void CARNOT_KERNEL(conv2d_split_f32)(const carnot_conv2d_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                     int64_t n1) {
  CARNOT_KERNEL(conv2d_f32)(p, m0, m1, n0, n1);
}

void CARNOT_KERNEL(matmul_split_f32)(const carnot_matmul_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                     int64_t n1) {
  CARNOT_KERNEL(matmul_f32)(p, m0, m1, n0, n1);
}

#endif
