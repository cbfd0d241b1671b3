// GEMM regions as the CUDA tactics see them: the typed problem, its epilogue (bias, residual,
// activation), and the rest as a pointwise chain.
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_EPILOGUE_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_EPILOGUE_H_

#include "backend/cuda/pointwise/chain.h"
#include "tactic/problem/gemm.h"

typedef struct carnot_cuda_gemm_region {
  carnot_gemm_problem gemm;
  uint32_t c;         // input that is added: Gemm's C where it is read, or a bias behind it; NONE
  bool c_is_bias;     // one number per column, added as it is
  uint32_t residual;  // input of the result's dimensions, added after the bias; NONE
  carnot_cuda_epilogue activation;
  carnot_cuda_chain chain;  // over the output of the GEMM
} carnot_cuda_gemm_region;

// Reads the region at build: what |mask| admits joins the epilogue, the rest the chain. NULL, or
// the reason; "" where the region is no GEMM.
const char* carnot_cuda_gemm_read(const carnot_problem* problem, const carnot_epilogue_mask* mask,
                                  carnot_cuda_gemm_region* out, char* reason, size_t size);
// The same when shapes are set; |residual| is the input that was found at build, or NONE. Operands
// are checked to be on the device, residual and bias against the result.
carnot_status* carnot_cuda_gemm_of_step(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* y, uint32_t residual,
                                        const carnot_epilogue_mask* mask,
                                        carnot_cuda_gemm_region* out) CARNOT_MUST_USE;
// Operations and bytes of the problem.
void carnot_cuda_gemm_work(const carnot_problem* problem, double* out_flops, double* out_bytes);

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_EPILOGUE_H_
