// Transposes and strided copies in memory: NCHW <-> NHWC, the last two axes, slices, concatenation,
// padding.
//   transpose: dst[j * dst_ld + i] = src[i * src_ld + j],  i < m, j < n
//   copy:      dst[sum_a x_a * dst_stride_a] = src[sum_a x_a * src_stride_a] for all x_a < size_a
//   fill:      dst[sum_a x_a * dst_stride_a] = *value
// of elements of 1, 2, 4 or 8 bytes. No overlap. Any thread.
#ifndef CARNOT_KERNEL_CPU_COPY_TRANSPOSE_H_
#define CARNOT_KERNEL_CPU_COPY_TRANSPOSE_H_

#include <stdint.h>

enum { CARNOT_COPY_MAX_RANK = 8 };

typedef void carnot_transpose_f32_fn(int64_t m, int64_t n, const float* src, int64_t src_ld,
                                     float* dst, int64_t dst_ld);
typedef void carnot_transpose_u16_fn(int64_t m, int64_t n, const uint16_t* src, int64_t src_ld,
                                     uint16_t* dst, int64_t dst_ld);
typedef void carnot_transpose_u8_fn(int64_t m, int64_t n, const uint8_t* src, int64_t src_ld,
                                    uint8_t* dst, int64_t dst_ld);

// |src_strides| may be 0 (broadcast) or negative; rank <= CARNOT_COPY_MAX_RANK. A copy whose inner
// axes touch on both sides is memcpy, one whose inner axes differ goes by transposed blocks.
typedef struct carnot_copy_desc {
  int32_t element_bytes, rank;
  int64_t sizes[CARNOT_COPY_MAX_RANK];
  int64_t src_strides[CARNOT_COPY_MAX_RANK], dst_strides[CARNOT_COPY_MAX_RANK];  // in elements
} carnot_copy_desc;

typedef void carnot_copy_strided_fn(const carnot_copy_desc* copy, const void* src, void* dst);

// Sets |count| elements side by side to *value.
typedef void carnot_fill_fn(int32_t element_bytes, int64_t count, const void* value, void* dst);

#endif
