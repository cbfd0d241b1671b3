// Parameters of the GEMM without tensor cores.
#ifndef CARNOT_KERNEL_CUDA_GEMM_GEMM_SIMT_PARAMS_H_
#define CARNOT_KERNEL_CUDA_GEMM_GEMM_SIMT_PARAMS_H_

// c[b,m,n] = alpha sum_k a[b,m,k] b[b,k,n] + beta c[b,m,n], then max(c, 0) with |relu|; any
// strides.
typedef struct carnot_cuda_gemm_simt_params {
  const void *a, *b;
  void* c;
  long long m, n, k, batch;
  long long a_b, a_m, a_k, b_b, b_k, b_n, c_b, c_m, c_n;
  float alpha, beta;
  int relu;
} carnot_cuda_gemm_simt_params;

#endif  // CARNOT_KERNEL_CUDA_GEMM_GEMM_SIMT_PARAMS_H_
