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

// Memory layouts of network inputs and outputs, with TensorRT's numbers. A tensor keeps its
// dimensions in every layout. The channels are dimension rank - 3, or rank - 4 for the formats with
// a D: dimension 1 of {N, C, H, W} and of {N, C, D, H, W}. X(NAME, number, "name", K, B, S): the
// last S dimensions are spatial; K: LINEAR row-major; LAST channels are the dense dimension, padded
// to a multiple of B; BLOCKED channels are in blocks of B, {N, ceil(C / B), H, W, B}; DLA not
// available. Padding is 0 in outputs and not read in inputs.
#define CARNOT_TENSOR_FORMATS(X)            \
  X(LINEAR, 0, "chw", LINEAR, 1, 0)         \
  X(CHW2, 1, "chw2", BLOCKED, 2, 2)         \
  X(HWC8, 2, "hwc8", LAST, 8, 2)            \
  X(CHW4, 3, "chw4", BLOCKED, 4, 2)         \
  X(CHW16, 4, "chw16", BLOCKED, 16, 2)      \
  X(CHW32, 5, "chw32", BLOCKED, 32, 2)      \
  X(DHWC8, 6, "dhwc8", LAST, 8, 3)          \
  X(CDHW32, 7, "cdhw32", BLOCKED, 32, 3)    \
  X(HWC, 8, "hwc", LAST, 1, 2)              \
  X(DLA_LINEAR, 9, "dla_linear", DLA, 1, 0) \
  X(DLA_HWC4, 10, "dla_hwc4", DLA, 4, 2)    \
  X(HWC16, 11, "hwc16", LAST, 16, 2)        \
  X(DHWC, 12, "dhwc", LAST, 1, 3)

typedef enum carnot_tensor_format {
#define CARNOT_TENSOR_FORMAT_ENUM(NAME, number, name, kind, block, spatial) \
  CARNOT_TENSOR_##NAME = number,
  CARNOT_TENSOR_FORMATS(CARNOT_TENSOR_FORMAT_ENUM)
#undef CARNOT_TENSOR_FORMAT_ENUM
      CARNOT_TENSOR_FORMAT_COUNT
} carnot_tensor_format;

// "chw", "hwc8", …, the names of --inputIOFormats; "unknown" for values outside the list.
CARNOT_API const char* carnot_tensor_format_name(carnot_tensor_format format);
// The format called |name|; CARNOT_TENSOR_FORMAT_COUNT when there is none.
CARNOT_API carnot_tensor_format carnot_tensor_format_find(const char* name);

// How a tensor lies in memory.
typedef struct carnot_tensor_layout {
  // Per dimension, in vectors of |components| elements.
  int64_t strides[CARNOT_MAX_RANK];
  int32_t vectorized_dim;  // the dimension whose elements are in vectors; -1: none
  int32_t components;      // elements of a vector; 1: none
  size_t bytes;            // of the whole tensor with its padding
} carnot_tensor_layout;
// The layout of a tensor of known dimensions. INVALID_ARGUMENT names a format that this type or
// these dimensions cannot have.
CARNOT_API carnot_status* carnot_tensor_layout_of(carnot_tensor_format format, carnot_dtype dtype,
                                                  const carnot_dims* dims,
                                                  carnot_tensor_layout* out) CARNOT_MUST_USE;
// Copies row-major |src| to |dst| of |format|, with zeros as padding.
CARNOT_API carnot_status* carnot_tensor_to_format(carnot_tensor_format format, carnot_dtype dtype,
                                                  const carnot_dims* dims, const void* src,
                                                  void* dst) CARNOT_MUST_USE;
// Copies |src| of |format| to row-major |dst|.
CARNOT_API carnot_status* carnot_tensor_from_format(carnot_tensor_format format, carnot_dtype dtype,
                                                    const carnot_dims* dims, const void* src,
                                                    void* dst) CARNOT_MUST_USE;

// Libraries and kinds of kernels that tactics come from: of an accelerator, and oneDNN of the CPU.
typedef enum carnot_tactic_source {
  CARNOT_SOURCE_CUBLAS,
  CARNOT_SOURCE_CUBLAS_LT,
  CARNOT_SOURCE_CUDNN,
  CARNOT_SOURCE_EDGE_MASK_CONVOLUTIONS,
  CARNOT_SOURCE_JIT_CONVOLUTIONS,
  CARNOT_SOURCE_ONEDNN,
  CARNOT_SOURCE_COUNT
} carnot_tactic_source;

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_TYPES_H_
