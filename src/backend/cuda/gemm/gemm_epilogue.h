// GEMM regions as the tactics see them: MatMul or Gemm, bias, residual, activation, and the rest as
// a pointwise chain.
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_EPILOGUE_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_EPILOGUE_H_

#include "backend/cuda/pointwise/chain.h"

typedef struct carnot_cuda_gemm_region {
  uint32_t a, b;  // inputs of the step
  bool trans_a, trans_b;
  float alpha, beta;
  uint32_t c;         // input that is added: Gemm's third, or a bias of the region; NONE
  bool c_is_bias;     // one number a column, added as it is
  uint32_t residual;  // input of the result's dimensions, added after the bias; NONE
  carnot_cuda_epilogue activation;
  carnot_cuda_chain chain;  // over the output of the GEMM
} carnot_cuda_gemm_region;

// What a kernel fuses besides a bias; activation NULL: none.
typedef struct carnot_cuda_gemm_takes {
  bool residual;
  bool (*activation)(const carnot_cuda_epilogue* activation);
} carnot_cuda_gemm_takes;

static inline bool carnot_cuda_is_gemm(carnot_op op) {
  return op == CARNOT_OP_MATMUL || op == CARNOT_OP_GEMM;
}
// NULL, or the reason; "" where the region is no GEMM.
const char* carnot_cuda_gemm_describe(const carnot_problem* problem,
                                      const carnot_cuda_gemm_takes* takes,
                                      carnot_cuda_gemm_region* out, char* reason, size_t size);
// The same when shapes are set; |residual| is the input that was found at build, or NONE. Residual
// and bias are checked against the result.
carnot_status* carnot_cuda_gemm_of_step(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* y, uint32_t residual,
                                        bool (*activation)(const carnot_cuda_epilogue*),
                                        carnot_cuda_gemm_region* out) CARNOT_MUST_USE;
// Operations and bytes of the problem.
void carnot_cuda_gemm_work(const carnot_problem* problem, double* out_flops, double* out_bytes);

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_EPILOGUE_H_
