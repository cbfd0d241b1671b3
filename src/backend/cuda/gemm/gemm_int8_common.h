// What the GEMMs and convolutions of 8-bit integers with constant weights share.
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_INT8_COMMON_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_INT8_COMMON_H_

#include "backend/cuda/quantize/int8_region.h"
#include "kernel/cuda/gemm/gemm_tile_params.h"

// Stored in engines. A GEMM is a convolution of one tap over images of one row.
typedef struct carnot_cuda_gemm_int8 {
  carnot_sliding_window window;
  int64_t channels, filters;
  int32_t is_conv, reserved;
  carnot_cuda_int8_region region;
} carnot_cuda_gemm_int8;

// Bytes of the packed weights.
typedef size_t carnot_cuda_gemm_int8_bytes(const carnot_cuda_gemm_int8* p);
// Packs weights |from|, [filters, channels, taps], to |to|, which is zero.
typedef void carnot_cuda_gemm_int8_pack(const carnot_cuda_gemm_int8* p, const int8_t* from,
                                        int8_t* to);

// Such packing as [filters, taps, |padded| channels], rows |pitch| bytes apart.
void carnot_cuda_gemm_int8_pack_rows(const carnot_cuda_gemm_int8* p, int64_t padded, int64_t pitch,
                                     const int8_t* from, int8_t* to);

int64_t carnot_cuda_gemm_int8_taps(const carnot_cuda_gemm_int8* p);
// Rows of the result |y| of a convolution (pixels), or of a GEMM.
int64_t carnot_cuda_gemm_int8_rows(const carnot_operand_desc* y, bool conv);
// Reads the region of |problem|. NULL, or the reason; "" for other regions.
const char* carnot_cuda_gemm_int8_read(const carnot_problem* problem, carnot_quantized_region* view,
                                       carnot_cuda_gemm_int8* out, carnot_quantized_shape* shape,
                                       char* reason, size_t size);
carnot_status* carnot_cuda_gemm_int8_prepare(const carnot_problem* problem, const char* packing,
                                             carnot_cuda_gemm_int8_bytes* bytes_of,
                                             carnot_cuda_gemm_int8_pack* pack,
                                             carnot_prepared* out) CARNOT_MUST_USE;
carnot_status* carnot_cuda_gemm_int8_validate(
    const carnot_step_view* step, carnot_cuda_gemm_int8_bytes* bytes_of) CARNOT_MUST_USE;
bool carnot_cuda_gemm_int8_uses_input(const carnot_step_view* step, uint32_t input);
// The sizes of a launch, whose pixels have |channels| bytes. INVALID_ARGUMENT, UNSUPPORTED.
carnot_status* carnot_cuda_gemm_int8_geometry(const carnot_cuda_gemm_int8* p,
                                              const carnot_operand* inputs, const carnot_operand* y,
                                              int64_t channels,
                                              carnot_cuda_gemm_tile_params* out) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_INT8_COMMON_H_
