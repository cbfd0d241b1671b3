// GEMM by cuBLASLt.
#include "backend/cuda/library/cublaslt.h"

#include <stdlib.h>

#include "base/hash.h"

enum {
  kWorkspaceBytes = 32 << 20,
  kCandidates = 12,
  kPoolBytes = 128 << 20,
  kLeastOnes = 1 << 16,
};

struct carnot_cuda_cublaslt_plan {
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulAlgo_t algo;
  size_t workspace_bytes;
  const float* ones;  // scales of the rows of FP8 operands
};

#define LT(call)                                                                  \
  do {                                                                            \
    cublasStatus_t status_ = cuda->call;                                          \
    if (status_ != CUBLAS_STATUS_SUCCESS)                                         \
      return CARNOT_ERROR(INTERNAL, "%.60s gave status %d", #call, (int)status_); \
  } while (0)

// ---- scales ----

static carnot_status* make_ones(carnot_cuda* cuda, size_t count, void** out) {
  const size_t bytes = count * sizeof(float);
  void *memory, *on_device = NULL;
  CARNOT_TRY(carnot_calloc(count, sizeof(float), "scales of one", &memory));
  for (size_t i = 0; i < count; i++) ((float*)memory)[i] = 1;
  carnot_status* status = cuda->base.backend->alloc(&cuda->base, bytes, &on_device);
  if (!status)
    status = carnot_cuda_check(
        cuda, cuda->cuMemcpyHtoDAsync_v2(carnot_cuda_address(on_device), memory, bytes, NULL),
        "cuMemcpyHtoDAsync_v2");
  if (!status)
    status = carnot_cuda_check(cuda, cuda->cuStreamSynchronize(NULL), "cuStreamSynchronize");
  free(memory);
  if (status && on_device) cuda->base.backend->free(&cuda->base, on_device), on_device = NULL;
  *out = on_device;
  return status;
}

// At least |count| ones in memory that lives as long as the device, shared by all GEMMs whose rows
// are no more than its power of two. The mutex is held by the caller.
static carnot_status* find_ones(carnot_cuda* cuda, int64_t count, const float** out) {
  uint64_t size = kLeastOnes;
  while (size < (uint64_t)count) size *= 2;
  const uint64_t key = carnot_hash(&size, sizeof(size), 59);
  void **found = carnot_cuda_cached(cuda, key), *made = found ? *found : NULL;
  if (!found) {
    CARNOT_TRY(make_ones(cuda, size, &made));
    carnot_status* status = carnot_cuda_keep(cuda, key, made);
    if (status) cuda->base.backend->free(&cuda->base, made);
    CARNOT_TRY(status);
  }
  *out = made;
  return NULL;
}

// ---- descriptions ----

static cudaDataType_t data_type(int32_t dtype) {
  switch ((carnot_dtype)dtype) {
    case CARNOT_DTYPE_F32: return CUDA_R_32F;
    case CARNOT_DTYPE_F16: return CUDA_R_16F;
    case CARNOT_DTYPE_F8E4M3FN: return CUDA_R_8F_E4M3;
    default: return CUDA_R_16BF;
  }
}

static bool is_scaled(const carnot_cuda_cublaslt_gemm* p) {
  return p->type == CARNOT_DTYPE_F8E4M3FN;
}

static cublasComputeType_t compute_type(const carnot_cuda_cublaslt_gemm* p) {
  return p->type == CARNOT_DTYPE_F32 && p->fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static carnot_status* make_layout(carnot_cuda* cuda, cublasLtMatrixLayout_t* out,
                                  cudaDataType_t type, int64_t rows, int64_t columns, int64_t ld,
                                  int64_t batch, int64_t stride) {
  int32_t count = (int32_t)batch;
  LT(cublasLtMatrixLayoutCreate(out, type, (uint64_t)rows, (uint64_t)columns, ld));
  LT(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                      sizeof(count)));
  LT(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                      sizeof(stride)));
  return NULL;
}

static cublasLtEpilogue_t epilogue_of(const carnot_cuda_cublaslt_gemm* p) {
  switch ((carnot_cuda_cublaslt_activation)p->activation) {
    case CARNOT_CUDA_CUBLASLT_RELU:
      return p->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case CARNOT_CUDA_CUBLASLT_GELU:
      return p->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default: return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

// One scale for each row of both operands of the library, which takes no other form beside it: of
// b's columns the step's, of a's rows |ones|, which stand for both until a run. Sums stay in the
// tensor cores, as those of the built-in kernels do.
static carnot_status* describe_scales(carnot_cuda* cuda, cublasLtMatmulDesc_t desc,
                                      const float* ones) {
  const int32_t mode = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  const int8_t fast = 1;
  const struct {
    cublasLtMatmulDescAttributes_t name;
    const void* value;
    size_t bytes;
  } facts[] = {{CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode, sizeof(mode)},
               {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode, sizeof(mode)},
               {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &ones, sizeof(ones)},
               {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &ones, sizeof(ones)},
               {CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof(fast)}};
  for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
    LT(cublasLtMatmulDescSetAttribute(desc, facts[i].name, facts[i].value, facts[i].bytes));
  return NULL;
}

// Row-major C = A B is column-major C' = B' A': B is the first operand of the library.
static carnot_status* describe(carnot_cuda* cuda, const carnot_cuda_cublaslt_gemm* p,
                               carnot_cuda_cublaslt_plan* plan) {
  cudaDataType_t type = data_type(p->type), result = data_type(p->result);
  LT(cublasLtMatmulDescCreate(&plan->desc, compute_type(p), CUDA_R_32F));
  cublasOperation_t op_b = p->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasOperation_t op_a = p->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  LT(cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSA, &op_b, sizeof(op_b)));
  LT(cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_TRANSB, &op_a, sizeof(op_a)));
  cublasLtEpilogue_t epilogue = epilogue_of(p);
  LT(cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                    sizeof(epilogue)));
  if (p->bias)
    LT(cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &result,
                                      sizeof(result)));
  if (plan->ones) CARNOT_TRY(describe_scales(cuda, plan->desc, plan->ones));
  int64_t b_rows = p->trans_b ? p->k : p->n, b_columns = p->trans_b ? p->n : p->k;
  int64_t a_rows = p->trans_a ? p->m : p->k, a_columns = p->trans_a ? p->k : p->m;
  CARNOT_TRY(make_layout(cuda, &plan->b, type, b_rows, b_columns, p->b_ld, p->batch, p->b_batch));
  CARNOT_TRY(make_layout(cuda, &plan->a, type, a_rows, a_columns, p->a_ld, p->batch, p->a_batch));
  return make_layout(cuda, &plan->c, result, p->n, p->m, p->n, p->batch, p->c_batch);
}

static void drop(carnot_cuda* cuda, carnot_cuda_cublaslt_plan* plan) {
  if (plan->a) cuda->cublasLtMatrixLayoutDestroy(plan->a);
  if (plan->b) cuda->cublasLtMatrixLayoutDestroy(plan->b);
  if (plan->c) cuda->cublasLtMatrixLayoutDestroy(plan->c);
  if (plan->desc) cuda->cublasLtMatmulDescDestroy(plan->desc);
}

// ---- algorithms ----

// The best algorithms by the heuristic of the library, at most kCandidates. Split-K parts are
// reduced in the compute type.
static carnot_status* propose(carnot_cuda* cuda, const carnot_cuda_cublaslt_gemm* p,
                              const carnot_cuda_cublaslt_plan* plan,
                              cublasLtMatmulHeuristicResult_t* out, int* out_count) {
  cublasLtMatmulPreference_t preference;
  const uint64_t workspace = kWorkspaceBytes;
  const uint32_t alignment = (uint32_t)p->alignment, sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const struct {
    cublasLtMatmulPreferenceAttributes_t name;
    const void* value;
    size_t bytes;
  } wanted[] = {
      {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)},
      {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof(sums)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignment, sizeof(alignment)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignment, sizeof(alignment)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignment, sizeof(alignment)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignment, sizeof(alignment)},
  };
  LT(cublasLtMatmulPreferenceCreate(&preference));
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && !status; i++)
    status = cuda->cublasLtMatmulPreferenceSetAttribute(preference, wanted[i].name, wanted[i].value,
                                                        wanted[i].bytes);
  *out_count = 0;
  if (status == CUBLAS_STATUS_SUCCESS)
    status = cuda->cublasLtMatmulAlgoGetHeuristic(cuda->lt, plan->desc, plan->b, plan->a, plan->c,
                                                  plan->c, preference, kCandidates, out, out_count);
  cuda->cublasLtMatmulPreferenceDestroy(preference);
  CARNOT_CHECK(status == CUBLAS_STATUS_SUCCESS && *out_count > 0, UNSUPPORTED,
               "cuBLASLt has no algorithm for [%lld,%lld] x [%lld,%lld], status %d",
               (long long)p->m, (long long)p->k, (long long)p->k, (long long)p->n, (int)status);
  return NULL;
}

// What an algorithm is made of.
static const struct {
  cublasLtMatmulAlgoConfigAttributes_t name;
  size_t bytes;
} kSettings[CARNOT_CUDA_CUBLASLT_SETTINGS] = {
    {CUBLASLT_ALGO_CONFIG_ID, 4},
    {CUBLASLT_ALGO_CONFIG_TILE_ID, 4},
    {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4},
    {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4},
    {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4},
    {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4},
    {CUBLASLT_ALGO_CONFIG_STAGES_ID, 4},
    {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2},
    {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2},
};

static void read_settings(carnot_cuda* cuda, const cublasLtMatmulAlgo_t* algo,
                          carnot_cuda_cublaslt_choice* out) {
  out->has_settings = true;
  for (int i = 0; i < CARNOT_CUDA_CUBLASLT_SETTINGS && out->has_settings; i++) {
    size_t written;
    out->has_settings = cuda->cublasLtMatmulAlgoConfigGetAttribute(
                            algo, kSettings[i].name, &out->settings[i], kSettings[i].bytes,
                            &written) == CUBLAS_STATUS_SUCCESS;
  }
}

// The algorithm of the settings; false where the library does not take it for this GEMM.
static bool restore(carnot_cuda* cuda, const carnot_cuda_cublaslt_gemm* p,
                    const carnot_cuda_cublaslt_choice* choice, carnot_cuda_cublaslt_plan* plan) {
  const cudaDataType_t type = data_type(p->type), result = data_type(p->result);
  if (!choice || !choice->has_settings ||
      cuda->cublasLtMatmulAlgoInit(cuda->lt, compute_type(p), CUDA_R_32F, type, type, result,
                                   result, choice->settings[0],
                                   &plan->algo) != CUBLAS_STATUS_SUCCESS)
    return false;
  for (int i = 1; i < CARNOT_CUDA_CUBLASLT_SETTINGS; i++)
    if (cuda->cublasLtMatmulAlgoConfigSetAttribute(&plan->algo, kSettings[i].name,
                                                   &choice->settings[i],
                                                   kSettings[i].bytes) != CUBLAS_STATUS_SUCCESS)
      return false;
  cublasLtMatmulHeuristicResult_t found = {.workspaceSize = 0};
  if (cuda->cublasLtMatmulAlgoCheck(cuda->lt, plan->desc, plan->b, plan->a, plan->c, plan->c,
                                    &plan->algo, &found) != CUBLAS_STATUS_SUCCESS ||
      found.workspaceSize > kWorkspaceBytes)
    return false;
  plan->workspace_bytes = found.workspaceSize;
  return true;
}

static uint64_t hash_of(const carnot_cuda_cublaslt_gemm* gemm) {
  return carnot_hash(gemm, sizeof(*gemm), 41);
}

static carnot_status* make_plan(carnot_cuda* cuda, const carnot_cuda_cublaslt_gemm* gemm,
                                const carnot_cuda_cublaslt_choice* choice,
                                carnot_cuda_cublaslt_plan* plan) {
  if (is_scaled(gemm)) CARNOT_TRY(find_ones(cuda, gemm->m, &plan->ones));
  CARNOT_TRY(describe(cuda, gemm, plan));
  if (restore(cuda, gemm, choice, plan)) return NULL;
  cublasLtMatmulHeuristicResult_t results[kCandidates];
  int count;
  CARNOT_TRY(propose(cuda, gemm, plan, results, &count));
  uint64_t at = choice && choice->rank <= (uint64_t)count ? choice->rank - 1 : 0;
  plan->algo = results[at].algo;
  plan->workspace_bytes = results[at].workspaceSize;
  return NULL;
}

carnot_status* carnot_cuda_cublaslt_find(carnot_cuda* cuda, const carnot_cuda_cublaslt_gemm* gemm,
                                         const carnot_cuda_cublaslt_choice* choice,
                                         carnot_cuda_cublaslt_plan** out_plan) {
  uint64_t key = hash_of(gemm);
  if (choice && (choice->gemm != key || choice->version != cuda->cublasLtGetVersion() ||
                 choice->rank < 1 || choice->rank > kCandidates))
    choice = NULL;
  if (choice) key = carnot_hash(choice, sizeof(*choice), 53);
  pthread_mutex_lock(&cuda->mutex);
  void** found = carnot_cuda_cached(cuda, key);
  *out_plan = found ? *found : NULL;
  carnot_status* status = NULL;
  if (!found) {
    void* memory = NULL;
    status = carnot_calloc(1, sizeof(carnot_cuda_cublaslt_plan), "a plan of cuBLASLt", &memory);
    if (!status) status = make_plan(cuda, gemm, choice, memory);
    if (!status) status = carnot_cuda_keep(cuda, key, memory);
    if (status && memory) drop(cuda, memory), free(memory), memory = NULL;
    *out_plan = memory;
  }
  pthread_mutex_unlock(&cuda->mutex);
  return status;
}

size_t carnot_cuda_cublaslt_workspace(const carnot_cuda_cublaslt_plan* plan) {
  return plan->workspace_bytes;
}

// ---- run ----

static carnot_status* multiply(carnot_cuda* cuda, const carnot_cuda_cublaslt_plan* plan,
                               const carnot_cuda_cublaslt_operands* o,
                               const cublasLtMatmulAlgo_t* algo, size_t workspace_bytes,
                               CUstream stream) {
  if (o->bias)
    LT(cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->bias,
                                      sizeof(o->bias)));
  if (plan->ones)
    LT(cublasLtMatmulDescSetAttribute(plan->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &o->scales,
                                      sizeof(o->scales)));
  float beta = o->c ? o->beta : 0;
  LT(cublasLtMatmul(cuda->lt, plan->desc, &o->alpha, o->b, plan->b, o->a, plan->a, &beta,
                    o->c ? o->c : o->y, plan->c, o->y, plan->c, algo, o->workspace, workspace_bytes,
                    (cudaStream_t)stream));
  return NULL;
}

carnot_status* carnot_cuda_cublaslt_run(carnot_cuda* cuda, carnot_cuda_cublaslt_plan* plan,
                                        const carnot_cuda_cublaslt_operands* operands,
                                        CUstream stream) {
  // The addresses of bias and scales are part of the shared description.
  pthread_mutex_lock(&cuda->mutex);
  carnot_status* status =
      multiply(cuda, plan, operands, &plan->algo, plan->workspace_bytes, stream);
  pthread_mutex_unlock(&cuda->mutex);
  return status;
}

// ---- autotuning ----

// In a run, weights are read from memory and activations from the cache: each timed GEMM reads
// another copy of b, in a pool larger than the L2 cache.
typedef struct contest {
  carnot_cuda* cuda;
  carnot_cuda_cublaslt_plan plan;
  carnot_cuda_cublaslt_operands operands;
  void* memory;
  char* pool;
  size_t b_bytes;
  int64_t copies, turn;
} contest;

static carnot_status* run_algo(void* user, void* way, CUstream stream) {
  contest* c = user;
  const cublasLtMatmulHeuristicResult_t* result = way;
  c->operands.b = c->pool + (size_t)(c->turn++ % c->copies) * c->b_bytes;
  return multiply(c->cuda, &c->plan, &c->operands, &result->algo, result->workspaceSize, stream);
}

static carnot_status* make_operands(contest* c, const carnot_cuda_cublaslt_gemm* p) {
  const size_t size = carnot_dtype_bytes((carnot_dtype)p->type, 1),
               result = carnot_dtype_bytes((carnot_dtype)p->result, 1);
  size_t a = (size_t)((p->batch - 1) * p->a_batch + p->m * p->k) * size;
  size_t y = (size_t)((p->batch - 1) * p->c_batch + p->m * p->n) * result;
  c->b_bytes = carnot_align_up((size_t)((p->batch - 1) * p->b_batch + p->n * p->k) * size, 256);
  c->copies = carnot_max_i64(1, kPoolBytes / (int64_t)c->b_bytes);
  const size_t bytes[] = {a,
                          y,
                          y,
                          (size_t)p->n * result,
                          (size_t)p->n * sizeof(float),
                          kWorkspaceBytes,
                          (size_t)c->copies * c->b_bytes};
  enum { kAreas = sizeof(bytes) / sizeof(bytes[0]) };
  size_t total = 0, at[kAreas];
  for (int i = 0; i < kAreas; i++) at[i] = total, total += carnot_align_up(bytes[i], 256);
  carnot_cuda* cuda = c->cuda;
  CARNOT_TRY(cuda->base.backend->alloc(&cuda->base, total, &c->memory));
  char* memory = c->memory;
  c->operands = (carnot_cuda_cublaslt_operands){.a = memory,
                                                .c = p->beta ? memory + at[1] : NULL,
                                                .y = memory + at[2],
                                                .bias = p->bias ? memory + at[3] : NULL,
                                                .scales = (const float*)(void*)(memory + at[4]),
                                                .workspace = memory + at[5],
                                                .alpha = 1,
                                                .beta = 1};
  c->pool = memory + at[6];
  CARNOT_CUDA_TRY(cuda, cuMemsetD8Async(carnot_cuda_address(memory), 0x2c, total, NULL));
  return carnot_cuda_check(cuda, cuda->cuStreamSynchronize(NULL), "cuStreamSynchronize");
}

static carnot_status* hold(const carnot_problem* problem, const carnot_cuda_cublaslt_gemm* gemm,
                           contest* c, carnot_cuda_cublaslt_choice* out) {
  carnot_cuda* cuda = c->cuda;
  if (is_scaled(gemm)) {
    pthread_mutex_lock(&cuda->mutex);
    carnot_status* status = find_ones(cuda, gemm->m, &c->plan.ones);
    pthread_mutex_unlock(&cuda->mutex);
    CARNOT_TRY(status);
  }
  CARNOT_TRY(describe(cuda, gemm, &c->plan));
  cublasLtMatmulHeuristicResult_t results[kCandidates];
  void* ways[kCandidates];
  int count, best;
  CARNOT_TRY(propose(cuda, gemm, &c->plan, results, &count));
  for (int i = 0; i < count; i++) ways[i] = &results[i];
  uint64_t version = cuda->cublasLtGetVersion(), key = hash_of(gemm);
  uint64_t timed = carnot_hash(&version, sizeof(version), key);
  if (!carnot_cuda_autotune_cached(problem, timed, "cuda_gemm_cublaslt", count, &best)) {
    CARNOT_TRY(make_operands(c, gemm));
    CARNOT_TRY(carnot_cuda_autotune(problem, timed, "cuda_gemm_cublaslt", run_algo, c, ways, count,
                                    &best));
  }
  *out = (carnot_cuda_cublaslt_choice){.gemm = key, .version = version, .rank = (uint64_t)best + 1};
  read_settings(cuda, &results[best].algo, out);
  return NULL;
}

void carnot_cuda_cublaslt_choose(const carnot_problem* problem,
                                 const carnot_cuda_cublaslt_gemm* gemm,
                                 carnot_cuda_cublaslt_choice* out) {
  contest c = {.cuda = carnot_cuda_of(problem->device)};
  *out = (carnot_cuda_cublaslt_choice){0};
  carnot_status_free(hold(problem, gemm, &c, out));
  if (c.memory) c.cuda->base.backend->free(&c.cuda->base, c.memory);
  drop(c.cuda, &c.plan);
}
