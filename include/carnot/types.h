// Data types, shapes and limits of the whole interface.
#ifndef CARNOT_TYPES_H_
#define CARNOT_TYPES_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "carnot/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// The version of this interface, raised by changes that break callers.
#define CARNOT_API_VERSION 1

// More dimensions than this are refused, as in TensorRT.
#define CARNOT_MAX_RANK 8

// X(NAME, "name", bits an element, class): F floating, I signed integer, U unsigned integer, B
// bool, C complex, S text.
#define CARNOT_DTYPES(X)                \
  X(INVALID, "invalid", 0, N)           \
  X(F32, "float32", 32, F)              \
  X(F64, "float64", 64, F)              \
  X(F16, "float16", 16, F)              \
  X(BF16, "bfloat16", 16, F)            \
  X(F8E4M3FN, "float8e4m3fn", 8, F)     \
  X(F8E4M3FNUZ, "float8e4m3fnuz", 8, F) \
  X(F8E5M2, "float8e5m2", 8, F)         \
  X(F8E5M2FNUZ, "float8e5m2fnuz", 8, F) \
  X(F8E8M0, "float8e8m0", 8, F)         \
  X(F6E2M3, "float6e2m3", 6, F)         \
  X(F6E3M2, "float6e3m2", 6, F)         \
  X(F4E2M1, "float4e2m1", 4, F)         \
  X(I64, "int64", 64, I)                \
  X(I32, "int32", 32, I)                \
  X(I16, "int16", 16, I)                \
  X(I8, "int8", 8, I)                   \
  X(I4, "int4", 4, I)                   \
  X(I2, "int2", 2, I)                   \
  X(U64, "uint64", 64, U)               \
  X(U32, "uint32", 32, U)               \
  X(U16, "uint16", 16, U)               \
  X(U8, "uint8", 8, U)                  \
  X(U4, "uint4", 4, U)                  \
  X(U2, "uint2", 2, U)                  \
  X(BOOL, "bool", 8, B)                 \
  X(C64, "complex64", 64, C)            \
  X(C128, "complex128", 128, C)         \
  X(STRING, "string", 0, S)

typedef enum carnot_dtype {
#define CARNOT_DTYPE_ENUM(NAME, name, bits, kind) CARNOT_DTYPE_##NAME,
  CARNOT_DTYPES(CARNOT_DTYPE_ENUM)
#undef CARNOT_DTYPE_ENUM
      CARNOT_DTYPE_COUNT
} carnot_dtype;

// "float32", "int4", …; "invalid" for values outside the list.
CARNOT_API const char* carnot_dtype_name(carnot_dtype dtype);
// Bits an element takes; 0 for text. Elements under 8 bits are packed, the first in the low bits.
CARNOT_API int carnot_dtype_bits(carnot_dtype dtype);
// Bytes that |count| packed elements take (rounded up); 0 for text.
CARNOT_API size_t carnot_dtype_bytes(carnot_dtype dtype, size_t count);

// Dimensions; -1 is one that is not known yet.
typedef struct carnot_dims {
  int32_t rank;
  int64_t d[CARNOT_MAX_RANK];
} carnot_dims;

// Libraries and kinds of kernels that tactics of an accelerator come from.
typedef enum carnot_tactic_source {
  CARNOT_SOURCE_CUBLAS,
  CARNOT_SOURCE_CUBLAS_LT,
  CARNOT_SOURCE_CUDNN,
  CARNOT_SOURCE_EDGE_MASK_CONVOLUTIONS,
  CARNOT_SOURCE_JIT_CONVOLUTIONS,
  CARNOT_SOURCE_COUNT
} carnot_tactic_source;

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_TYPES_H_
