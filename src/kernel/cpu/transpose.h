// Transposes of matrices in memory: the whole of NCHW <-> NHWC and of the last two axes.
//   dst[j * dst_ld + i] = src[i * src_ld + j],  i < m, j < n
// No overlap. Any thread.
#ifndef CARNOT_KERNEL_CPU_TRANSPOSE_H_
#define CARNOT_KERNEL_CPU_TRANSPOSE_H_

#include <stdint.h>

typedef void carnot_transpose_f32_fn(int64_t m, int64_t n, const float* src, int64_t src_ld,
                                     float* dst, int64_t dst_ld);

#endif
