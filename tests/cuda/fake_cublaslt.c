// A stand-in for cuBLASLt beside the stand-in driver: proposes a few algorithms, whose bytes differ
// each time as the library's may, and computes nothing. For the ways of the row: choices, refit,
// mutated engines.
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { kAlgorithms = 5 };

EXPORT size_t cublasLtGetVersion(void) { return 130000; }
EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  (void)compute, (void)scale;
  return *out = malloc(1), CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t it) {
  return free(it), CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t it,
                                                     cublasLtMatmulDescAttributes_t a,
                                                     const void* from, size_t bytes) {
  return (void)it, (void)a, (void)from, (void)bytes, CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t ld) {
  (void)type, (void)rows, (void)columns, (void)ld;
  return *out = malloc(1), CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t it) {
  return free(it), CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t it,
                                                       cublasLtMatrixLayoutAttribute_t a,
                                                       const void* from, size_t bytes) {
  return (void)it, (void)a, (void)from, (void)bytes, CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  return *out = malloc(1), CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t it) {
  return free(it), CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t it,
                                                           cublasLtMatmulPreferenceAttributes_t a,
                                                           const void* from, size_t bytes) {
  return (void)it, (void)a, (void)from, (void)bytes, CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t* out) {
  return *out = malloc(1), CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t it) {
  return free(it), CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t h, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y, cublasLtMatmulPreference_t p, int capacity,
    cublasLtMatmulHeuristicResult_t results[], int* out_count) {
  (void)h, (void)d, (void)a, (void)b, (void)c, (void)y, (void)p;
  *out_count = capacity < kAlgorithms ? capacity : kAlgorithms;
  memset(results, 0, (size_t)*out_count * sizeof(*results));
  for (int i = 0; i < *out_count; i++) results[i].algo.data[0] = (uint64_t)rand();
  return CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t h, cublasComputeType_t compute,
                                               cudaDataType_t scale, cudaDataType_t a,
                                               cudaDataType_t b, cudaDataType_t c, cudaDataType_t y,
                                               int capacity, int* ids, int* out_count) {
  (void)h, (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)y;
  *out_count = capacity > 0;
  if (capacity > 0) ids[0] = 1;
  return CUBLAS_STATUS_SUCCESS;
}
// An algorithm is its number and its settings, which are what was set.
EXPORT cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t h, cublasComputeType_t compute,
                                             cudaDataType_t scale, cudaDataType_t a,
                                             cudaDataType_t b, cudaDataType_t c, cudaDataType_t y,
                                             int id, cublasLtMatmulAlgo_t* out) {
  (void)h, (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)y;
  memset(out, 0, sizeof(*out));
  return out->data[1] = (uint64_t)id, CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo,
                                                           cublasLtMatmulAlgoConfigAttributes_t a,
                                                           void* to, size_t bytes,
                                                           size_t* written) {
  const uint64_t number = a == CUBLASLT_ALGO_CONFIG_ID ? algo->data[1] : 0;
  memcpy(to, &number, bytes);
  return *written = bytes, CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algo,
                                                           cublasLtMatmulAlgoConfigAttributes_t a,
                                                           const void* from, size_t bytes) {
  return (void)algo, (void)a, (void)from, (void)bytes, CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t h, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t y,
                                              const cublasLtMatmulAlgo_t* algo,
                                              cublasLtMatmulHeuristicResult_t* out) {
  (void)h, (void)d, (void)a, (void)b, (void)c, (void)y, (void)algo;
  return memset(out, 0, sizeof(*out)), CUBLAS_STATUS_SUCCESS;
}
EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t d, const void* alpha,
                                     const void* a, cublasLtMatrixLayout_t la, const void* b,
                                     cublasLtMatrixLayout_t lb, const void* beta, const void* c,
                                     cublasLtMatrixLayout_t lc, void* y, cublasLtMatrixLayout_t ly,
                                     const cublasLtMatmulAlgo_t* algo, void* workspace,
                                     size_t bytes, cudaStream_t stream) {
  (void)h, (void)d, (void)alpha, (void)a, (void)la, (void)b, (void)lb, (void)beta, (void)c,
      (void)lc, (void)y, (void)ly;
  (void)algo, (void)workspace, (void)bytes, (void)stream;
  return CUBLAS_STATUS_SUCCESS;
}
