// Changes of storage type over runs of |n| elements side by side.
//   f16, bf16 <-> f32: nearest even; infinity, NaN (made quiet) and subnormals kept
//   quantize:   dst = saturate(round(x / scale) + zero_point), ties to even, NaN as 0
//   dequantize: dst = (x - zero_point) * scale
// Quantization has |rows| rows of |n| elements, |src_ld| and |dst_ld| apart. Scale and zero point
// are one for all, or with |per_column| n of them; |zero_point| may be NULL for 0.
// Any alignment of floats; no overlap. Any thread. Source: ONNX QuantizeLinear-13.
#ifndef CARNOT_KERNEL_CPU_POINTWISE_CONVERT_H_
#define CARNOT_KERNEL_CPU_POINTWISE_CONVERT_H_

#include <stdbool.h>
#include <stdint.h>

typedef void carnot_f32_of_f16_fn(int64_t n, const uint16_t* src, float* dst);
typedef void carnot_f32_of_bf16_fn(int64_t n, const uint16_t* src, float* dst);
typedef void carnot_f16_of_f32_fn(int64_t n, const float* src, uint16_t* dst);
typedef void carnot_bf16_of_f32_fn(int64_t n, const float* src, uint16_t* dst);

typedef struct carnot_quantize {
  int64_t n;
  bool is_signed;  // s8, else u8; zero points are of that type
  bool per_column;
  const float* scale;
  const void* zero_point;
} carnot_quantize;

// out[0] = min(0, x[0], .., x[n-1]), out[1] = max(0, ..): the range of a dynamic quantization. NaN
// says nothing about it.
typedef void carnot_range_f32_fn(int64_t n, const float* x, float out[2]);

typedef void carnot_quantize_f32_fn(const carnot_quantize* quantize, int64_t rows, const float* src,
                                    int64_t src_ld, void* dst, int64_t dst_ld);
typedef void carnot_dequantize_f32_fn(const carnot_quantize* quantize, int64_t rows,
                                      const void* src, int64_t src_ld, float* dst, int64_t dst_ld);

#endif
