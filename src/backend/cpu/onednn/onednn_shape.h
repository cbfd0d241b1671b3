// Primitives of oneDNN: a convolution or a GEMM, with its bias and what dst holds before.
//   dst = src * weights + bias[k] (+ dst)
// Activations are not the library's: its ReLU and clip turn NaN into a number.
#ifndef CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_SHAPE_H_
#define CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_SHAPE_H_

#include <stdbool.h>

#include "backend/cpu/onednn/onednn_library.h"
#include "carnot/types.h"

// Fields of one size, so that two shapes are compared as bytes.
typedef struct carnot_onednn_shape {
  int64_t is_matmul;
  int64_t dtype, dst_dtype;  // carnot_dtype, float32 or BF16; |dtype| of src and weights
  int64_t has_bias;          // float32
  int64_t sums;              // dst is added to
  // Of a convolution: src [n,h,w,c], weights [k,c/group,r,s], dst [n,p,q,k], all dense. Of a matrix
  // GEMM: src [n,c], weights [c,k], dst [n,k], dense too; the rest is 0.
  int64_t n, c, k;
  int64_t group, h, w, p, q, r, s, stride_h, stride_w, dilation_h, dilation_w;
  int64_t pad_h, pad_w, pad_h_end, pad_w_end;
} carnot_onednn_shape;

// Describes the primitive, with weights laid out as |weights| or, where that is NULL, as it wants
// them. UNSUPPORTED where the library has no code, or, unless |takes_reference|, nothing but its
// reference code. The caller destroys it. Call within enter and leave.
carnot_status* carnot_onednn_describe(const carnot_onednn* library,
                                      const carnot_onednn_shape* shape,
                                      const onednn_memory_desc* weights, bool takes_reference,
                                      onednn_primitive_desc** out_desc) CARNOT_MUST_USE;

// Adds the layout of |weights|, of the primitive |shape|, to |hash|. UNSUPPORTED where the layout
// is not one of blocks.
carnot_status* carnot_onednn_hash_layout(const carnot_onednn* library,
                                         const carnot_onednn_shape* shape,
                                         const onednn_memory_desc* weights,
                                         uint64_t* hash) CARNOT_MUST_USE;

// Copies |src|, laid out as |from|, to |dst|, laid out as |to|. Within enter and leave.
carnot_status* carnot_onednn_reorder(const carnot_onednn* library, const onednn_memory_desc* from,
                                     const onednn_memory_desc* to, const void* src,
                                     void* dst) CARNOT_MUST_USE;
// Packs float32 weights into |packed|, laid out as |weights|. Those of a convolution are dense
// [k,c/group,r,s]; element [i,j] of those of a GEMM is src[i * row_stride + j *
// column_stride].
carnot_status* carnot_onednn_pack(const carnot_onednn* library, const carnot_onednn_shape* shape,
                                  const onednn_memory_desc* weights, const float* src,
                                  int64_t row_stride, int64_t column_stride,
                                  void* packed) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_SHAPE_H_
