// GEMM by cuBLASLt: descriptions cached by the device, and the choice of an algorithm by time.
#ifndef CARNOT_BACKEND_CUDA_LIBRARY_CUBLASLT_H_
#define CARNOT_BACKEND_CUDA_LIBRARY_CUBLASLT_H_

#include "backend/cuda/driver/cuda.h"

// d[b,m,n] = epilogue(alpha a[b,m,k] b[b,k,n] + beta c[b,m,n]), all row-major; strides of
// batches and rows in elements. FP8 operands are E4M3FN, b transposed, and columns of the product
// are multiplied by scales before c and the bias are added. Zeroed before it is filled: its bytes
// are a key.
typedef struct carnot_cuda_cublaslt_gemm {
  int64_t m, n, k, batch, a_batch, b_batch, c_batch, a_ld, b_ld;
  int32_t type, result;  // of a and b; of c, d and the bias
  int32_t trans_a, trans_b, bias, activation, beta, fast, alignment;
} carnot_cuda_cublaslt_gemm;

typedef enum carnot_cuda_cublaslt_activation {
  CARNOT_CUDA_CUBLASLT_NONE,
  CARNOT_CUDA_CUBLASLT_RELU,
  CARNOT_CUDA_CUBLASLT_GELU,  // the form by tanh
} carnot_cuda_cublaslt_activation;

enum { CARNOT_CUDA_CUBLASLT_SETTINGS = 9 };

// The fastest algorithm of one GEMM, as an engine stores it; zeroed: none was timed.
typedef struct carnot_cuda_cublaslt_choice {
  uint64_t gemm;                                    // hash of the description
  uint64_t version;                                 // of the library
  uint64_t rank;                                    // in the order of its heuristic, from 1
  int32_t has_settings;                             // what follows is known
  int32_t settings[CARNOT_CUDA_CUBLASLT_SETTINGS];  // the algorithm's, in the order of cublaslt.c
} carnot_cuda_cublaslt_choice;

typedef struct carnot_cuda_cublaslt_plan carnot_cuda_cublaslt_plan;

// By |choice| where it is for this GEMM and library version (by its settings without the library's
// heuristic, which takes 130 ms the first time), else the first of the heuristic. *out_plan is
// shared; UNSUPPORTED where the library has no algorithm.
carnot_status* carnot_cuda_cublaslt_find(carnot_cuda* cuda, const carnot_cuda_cublaslt_gemm* gemm,
                                         const carnot_cuda_cublaslt_choice* choice,
                                         carnot_cuda_cublaslt_plan** out_plan) CARNOT_MUST_USE;
size_t carnot_cuda_cublaslt_workspace(const carnot_cuda_cublaslt_plan* plan);
// Times the algorithms that the library proposes, with cold weights; times are read from and
// written to the timing cache. Where none can be timed |out| is zeroed: the heuristic's first runs.
void carnot_cuda_cublaslt_choose(const carnot_problem* problem,
                                 const carnot_cuda_cublaslt_gemm* gemm,
                                 carnot_cuda_cublaslt_choice* out);

typedef struct carnot_cuda_cublaslt_operands {
  const void *a, *b, *c, *bias;  // c NULL: nothing is added
  const float* scales;           // of FP8 operands: one a column
  void *y, *workspace;
  float alpha, beta;
} carnot_cuda_cublaslt_operands;
carnot_status* carnot_cuda_cublaslt_run(carnot_cuda* cuda, carnot_cuda_cublaslt_plan* plan,
                                        const carnot_cuda_cublaslt_operands* operands,
                                        CUstream stream) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_LIBRARY_CUBLASLT_H_
