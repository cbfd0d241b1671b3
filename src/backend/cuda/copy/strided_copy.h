// Strided copies: the kernel that all data movement uses.
#ifndef CARNOT_BACKEND_CUDA_COPY_STRIDED_COPY_H_
#define CARNOT_BACKEND_CUDA_COPY_STRIDED_COPY_H_

#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/copy/copy_params.h"

typedef struct carnot_cuda_strided_copy {
  CUfunction function;
  carnot_cuda_copy_params params;  // without pointers
  int64_t grid[3];
  int64_t src_offset, dst_offset;  // in bytes
} carnot_cuda_strided_copy;
// y[i·dst] = x[src_offset + i·src]; offsets and strides in elements of |bytes|. Finds the cheapest
// kernel: wide elements where both sides allow, tiles for a transpose.
carnot_status* carnot_cuda_strided_copy_make(const carnot_step_view* step, int rank,
                                             const int64_t* dims, const int64_t* src,
                                             int64_t src_offset, const int64_t* dst,
                                             int64_t dst_offset, int bytes,
                                             carnot_cuda_strided_copy* out) CARNOT_MUST_USE;
carnot_status* carnot_cuda_strided_copy_run(const carnot_step_view* step,
                                            carnot_cuda_strided_copy* move, const void* x,
                                            void* y) CARNOT_MUST_USE;
// For tactics that move elements: the reason why elements of |t| are no whole bytes or its rank
// is unknown; operands of one type on the device.
const char* carnot_cuda_whole_bytes(const carnot_operand_desc* t, char* reason, size_t size);
carnot_status* carnot_cuda_check_copy(const carnot_operand* x,
                                      const carnot_operand* y) CARNOT_MUST_USE;
// The run function of tactics whose state is one strided copy of input 0 to output 0.
carnot_status* carnot_cuda_strided_copy_tactic_run(const carnot_step_view* step, void* state,
                                                   const carnot_operand* inputs,
                                                   const carnot_operand* outputs, void* workspace,
                                                   carnot_executor* executor) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_COPY_STRIDED_COPY_H_
