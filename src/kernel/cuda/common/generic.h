// Parameters that all generic kernels begin with. A generic kernel reads the element types of its
// operands at run time: one instance serves all types.
#ifndef CARNOT_KERNEL_CUDA_COMMON_GENERIC_H_
#define CARNOT_KERNEL_CUDA_COMMON_GENERIC_H_

#include "kernel/cuda/common/params.h"

// clang-format off
// Element types of kernels that find out while running: real ones first, those of a byte or less at
// the ends of their kind.
#define CARNOT_CUDA_ELEMENT_TYPES(X) \
  X(F32) X(F64) X(F16) X(BF16) X(F8E4M3FN) X(F8E4M3FNUZ) X(F8E5M2) X(F8E5M2FNUZ) X(F8E8M0) X(F6E2M3) X(F6E3M2) X(F4E2M1) \
  X(I8) X(U8) X(I16) X(U16) X(I32) X(U32) X(I64) X(U64) X(BOOL) X(I4) X(U4) X(I2) X(U2)
// clang-format on
typedef enum carnot_cuda_element_type {
#define CARNOT_CUDA_ELEMENT_TYPE(NAME) CARNOT_CUDA_##NAME,
  CARNOT_CUDA_ELEMENT_TYPES(CARNOT_CUDA_ELEMENT_TYPE)
#undef CARNOT_CUDA_ELEMENT_TYPE
} carnot_cuda_element_type;

enum { CARNOT_CUDA_GENERIC_INPUTS = 9, CARNOT_CUDA_GENERIC_OUTPUTS = 4 };

// Common head of the parameters of generic kernels: dense operands, and the number of items
// (threads or blocks).
typedef struct carnot_cuda_generic_io {
  const void* in[CARNOT_CUDA_GENERIC_INPUTS];  // NULL: absent
  void* out[CARNOT_CUDA_GENERIC_OUTPUTS];
  int in_type[CARNOT_CUDA_GENERIC_INPUTS], out_type[CARNOT_CUDA_GENERIC_OUTPUTS];
  long long count;
  int bytes;      // of an element that is copied without conversion
  int together;   // elements of a thread: those of packed types that share bytes
  void* scratch;  // the step's workspace
} carnot_cuda_generic_io;

#endif  // CARNOT_KERNEL_CUDA_COMMON_GENERIC_H_
