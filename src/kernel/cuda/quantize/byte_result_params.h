// How a kernel of 16-bit floats stores its result as bytes.
#ifndef CARNOT_KERNEL_CUDA_QUANTIZE_BYTE_RESULT_PARAMS_H_
#define CARNOT_KERNEL_CUDA_QUANTIZE_BYTE_RESULT_PARAMS_H_

typedef enum carnot_cuda_byte_type {
  CARNOT_CUDA_BYTE_NONE,  // the result stays in floats
  CARNOT_CUDA_BYTE_U8,
  CARNOT_CUDA_BYTE_S8,
  CARNOT_CUDA_BYTE_FP8,  // E4M3FN
  CARNOT_CUDA_BYTE_TYPES
} carnot_cuda_byte_type;

// Stored in engines.
typedef struct carnot_cuda_byte_result {
  int type, zero;  // carnot_cuda_byte_type; zero point, 0 of FP8
  float scale;     // a normal number
} carnot_cuda_byte_result;

#endif  // CARNOT_KERNEL_CUDA_QUANTIZE_BYTE_RESULT_PARAMS_H_
