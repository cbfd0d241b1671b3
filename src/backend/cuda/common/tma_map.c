// TMA tensor maps (sm_90) of any operands.
#include "backend/cuda/common/tma_map.h"

carnot_cuda_tma_element carnot_cuda_tma_half(carnot_dtype dtype) {
  return (carnot_cuda_tma_element){dtype == CARNOT_DTYPE_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                             : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                                   2, CARNOT_CUDA_TMA_DEPTH};
}

carnot_cuda_tma_element carnot_cuda_tma_byte(int depth) {
  return (carnot_cuda_tma_element){CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, (cuuint32_t)depth};
}

CUtensorMapSwizzle carnot_cuda_tma_swizzle(carnot_cuda_tma_element of) {
  return of.bytes * of.depth == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
}

carnot_status* carnot_cuda_tma_map_tiled(carnot_cuda* cuda, carnot_cuda_tma_element of,
                                         const void* address, cuuint32_t rank,
                                         const cuuint64_t* dims, const cuuint64_t* strides,
                                         const cuuint32_t* box, carnot_cuda_tma_descriptor* out) {
  static const cuuint32_t kSteps[5] = {1, 1, 1, 1, 1};
  CARNOT_CUDA_TRY(
      cuda, cuTensorMapEncodeTiled((CUtensorMap*)out, of.type, rank, (void*)(uintptr_t)address,
                                   dims, strides, box, kSteps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                   carnot_cuda_tma_swizzle(of), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return NULL;
}
