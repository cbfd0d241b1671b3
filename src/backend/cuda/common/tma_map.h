// TMA tensor maps (sm_90) of any operands.
#ifndef CARNOT_BACKEND_CUDA_COMMON_TMA_MAP_H_
#define CARNOT_BACKEND_CUDA_COMMON_TMA_MAP_H_

#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/common/tma_descriptor.h"

// Elements of 16-bit floats of a box, which are 128 bytes; of FP8 twice as many.
enum { CARNOT_CUDA_TMA_DEPTH = 64 };

// Elements of a tensor map, whose boxes have |depth| of them: 128 or 64 bytes.
typedef struct carnot_cuda_tma_element {
  CUtensorMapDataType type;
  cuuint32_t bytes, depth;
} carnot_cuda_tma_element;

// FP16 or BF16.
carnot_cuda_tma_element carnot_cuda_tma_half(carnot_dtype dtype);
carnot_cuda_tma_element carnot_cuda_tma_byte(int depth);
// By the bytes of a box.
CUtensorMapSwizzle carnot_cuda_tma_swizzle(carnot_cuda_tma_element of);
// |dims| and |box| from the innermost on; |strides| in bytes, of all but the innermost, multiples
// of
// 16. Outside of the dimensions boxes are zero.
carnot_status* carnot_cuda_tma_map_tiled(carnot_cuda* cuda, carnot_cuda_tma_element of,
                                         const void* address, cuuint32_t rank,
                                         const cuuint64_t* dims, const cuuint64_t* strides,
                                         const cuuint32_t* box,
                                         carnot_cuda_tma_descriptor* out) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_COMMON_TMA_MAP_H_
