// Convolution problems, their operands and the result in double precision, for the tests of
// convolution kernels.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_TEST_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_TEST_H_

#include "kernel/cpu/common/kernel_test.h"
#include "kernel/cpu/conv/conv2d_f32.h"

typedef struct problem {
  int64_t n, h, w, c, groups, k, r, s, stride, dilation, pad;
  carnot_kernel_activation activation;
  bool residual, dense;  // dense: no gap between pixels
} problem;

typedef struct operands {
  int64_t p, q, src_ld, ld;
  float *src, *weights, *packed, *bias, *residual, *zeros, *dst;
} operands;

// Input and weights hold what the kernel computes with: the oracle sees the same numbers.
static inline void operands_init(const problem* p, const carnot_cpu_kernels* kernels,
                                 weights_type type, operands* o) {
  const int64_t c = p->c * p->groups, k = p->k * p->groups;
  o->p = window_count(p->h, p->r, p->stride, p->dilation, p->pad);
  o->q = window_count(p->w, p->s, p->stride, p->dilation, p->pad);
  o->src_ld = p->dense ? c : c + 2, o->ld = k + 3;
  o->src = buffer(p->n * p->h * p->w * o->src_ld - (o->src_ld - c), 11);
  o->weights = buffer(k * p->c * p->r * p->s, 12);
  round_all(type, o->weights, k * p->c * p->r * p->s);
  if (rounds_rows(kernels, type))
    round_all(type, o->src, p->n * p->h * p->w * o->src_ld - (o->src_ld - c));
  o->packed = buffer(carnot_packed_k1n16_count(p->r * p->s * p->c, p->k), 0);
  o->bias = buffer(k, 13);
  o->residual = buffer(p->n * o->p * o->q * o->ld, 14);
  o->zeros = buffer(p->c, 0);
  memset(o->zeros, 0, (size_t)p->c * sizeof(float));
  o->dst = buffer(p->n * o->p * o->q * o->ld - 3, 0);
}

static inline void operands_deinit(operands* o) {
  buffer_free(o->src), buffer_free(o->weights), buffer_free(o->packed), buffer_free(o->bias);
  buffer_free(o->residual), buffer_free(o->zeros), buffer_free(o->dst);
}

static inline carnot_conv2d_f32 conv_of(const problem* p, const operands* o, int64_t group) {
  return (carnot_conv2d_f32){
      .n = p->n,
      .h = p->h,
      .w = p->w,
      .c = p->c,
      .p = o->p,
      .q = o->q,
      .k = p->k,
      .r = p->r,
      .s = p->s,
      .stride_h = p->stride,
      .stride_w = p->stride,
      .dilation_h = p->dilation,
      .dilation_w = p->dilation,
      .pad_h = p->pad,
      .pad_w = p->pad,
      .src = o->src + group * p->c,
      .src_n = p->h * p->w * o->src_ld,
      .src_h = p->w * o->src_ld,
      .src_w = o->src_ld,
      .weights = o->packed,
      .zeros = o->zeros,
      .dst = o->dst + group * p->k,
      .ld = o->ld,
      .epilogue = {.bias = o->bias + group * p->k,
                   .residual = p->residual ? o->residual + group * p->k : NULL,
                   .residual_ld = o->ld,
                   .activation = p->activation,
                   .a = -0.2f,
                   .b = 1.5f}};
}

// Output (m, k) of a group in double precision; the sum of sizes for the bound.
static inline double reference(const problem* p, const operands* o, int64_t group, int64_t m,
                               int64_t k, double* out_size_sum) {
  const int64_t q = m % o->q, row = m / o->q % o->p, n = m / (o->q * o->p);
  double sum = o->bias[group * p->k + k], size = fabs(sum);
  for (int64_t r = 0; r < p->r; ++r) {
    for (int64_t s = 0; s < p->s; ++s) {
      const int64_t h = row * p->stride + r * p->dilation - p->pad;
      const int64_t w = q * p->stride + s * p->dilation - p->pad;
      if (h < 0 || h >= p->h || w < 0 || w >= p->w) continue;
      for (int64_t c = 0; c < p->c; ++c) {
        const double x = o->src[((n * p->h + h) * p->w + w) * o->src_ld + group * p->c + c];
        const int64_t at = (((group * p->k + k) * p->c + c) * p->r + r) * p->s + s;
        sum += x * o->weights[at], size += fabs(x * o->weights[at]);
      }
    }
  }
  if (p->residual) {
    const double x = o->residual[m * o->ld + group * p->k + k];
    sum += x, size += fabs(x);
  }
  *out_size_sum = size;
  return activation_in_double(p->activation, -0.2f, 1.5f, sum);
}

#endif  // CARNOT_KERNEL_CPU_CONV_CONV2D_TEST_H_
