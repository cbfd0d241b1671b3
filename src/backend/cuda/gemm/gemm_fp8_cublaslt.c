// GEMMs of FP8 operands (gemm_fp8.h) by cuBLASLt: FP16 and BF16 results with a bias and a residual
// of their type. An activation or a result in FP8 takes the built-in kernels: the library has
// neither GELU by erf nor FP8 results with a scale for each column.
#include <string.h>

#include "backend/cuda/gemm/gemm_fp8.h"
#include "backend/cuda/gemm/gemm_tile_common.h"
#include "backend/cuda/library/cublaslt.h"

// The first release with a scale for each row of an operand, on sm_90.
enum { kLeastVersion = 120900, kAlignment = 16, kColumns = 16 };

// Stored in engines.
typedef struct library_params {
  carnot_cuda_gemm_fp8_params gemm;
  carnot_cuda_cublaslt_choice choice;
} library_params;

typedef struct library_state {
  carnot_cuda_cublaslt_plan* plan;  // NULL: no rows
  uint32_t x, residual;             // inputs of the step; NONE
} library_state;
_Static_assert(sizeof(library_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const char* library_lacks(carnot_cuda* cuda) {
  const char* missing = carnot_cuda_lacks_cublaslt(cuda);
  if (missing) return missing;
  return cuda->cublasLtGetVersion() < kLeastVersion ? "cuBLASLt is older than 12.9" : NULL;
}

static const char* library_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_fp8_region(problem->region, problem->inputs, problem->input_count)) return "";
  carnot_cuda* cuda = carnot_cuda_of(problem->device);
  if (cuda->major != 9) return "needs sm_90";
  carnot_cuda_gemm_tile_region region;
  const char* why = library_lacks(cuda);
  if (!why) why = carnot_cuda_gemm_fp8_reject(problem, &region, reason, size);
  if (why) return why;
  const carnot_dtype y = problem->outputs[0].format.dtype;
  if (!carnot_dtype_is_half(y))
    return carnot_cuda_reject_reason(reason, size, "the result is %s", carnot_dtype_name(y));
  if (region.columns % kColumns)
    return carnot_cuda_reject_reason(reason, size, "%lld columns, takes multiples of %d",
                                     (long long)region.columns, kColumns);
  return region.activation.kind == CARNOT_CUDA_NO_ACTIVATION ? NULL : "an activation";
}

static void set_gemm(int64_t rows, const carnot_cuda_gemm_fp8_params* p, int64_t x_pitch,
                     carnot_dtype result, carnot_cuda_cublaslt_gemm* out) {
  memset(out, 0, sizeof(*out));
  out->m = rows, out->n = p->filters, out->k = p->channels, out->batch = 1;
  out->a_ld = x_pitch, out->b_ld = p->channels;
  out->type = CARNOT_DTYPE_F8E4M3FN, out->result = (int32_t)result;
  out->trans_b = out->bias = 1, out->beta = p->residual >= 0, out->alignment = kAlignment;
}

// The fastest algorithm at the optimum sizes; what cannot be timed goes by the heuristic.
static void choose_algo(const carnot_problem* problem, const carnot_cuda_gemm_fp8_params* p,
                        carnot_cuda_cublaslt_choice* out) {
  const carnot_operand_desc* y = &problem->outputs[0];
  for (int d = 0; d < y->rank; d++)
    if (y->dims[d] < 1) return;
  carnot_cuda_cublaslt_gemm gemm;
  set_gemm(carnot_dims_count(y->dims, y->rank) / p->filters, p, p->channels, y->format.dtype,
           &gemm);
  carnot_cuda_cublaslt_choose(problem, &gemm, out);
}

// The library adds biases of the result's type.
static carnot_status* round_bias(carnot_dtype type, size_t count, carnot_prepared* out) {
  void* rounded;
  const size_t bytes = carnot_dtype_bytes(type, count);
  const float* bias = out->constants[CARNOT_CUDA_FP8_BIAS].data;
  CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, "a bias", &rounded));
  for (size_t i = 0; i < count; i++) carnot_store_f64(type, rounded, i, (double)bias[i]);
  out->constants[CARNOT_CUDA_FP8_BIAS].packing =
      type == CARNOT_DTYPE_F16 ? "f16 bias" : "bf16 bias";
  out->constants[CARNOT_CUDA_FP8_BIAS].data = rounded;
  out->constants[CARNOT_CUDA_FP8_BIAS].bytes = bytes;
  return NULL;
}

static carnot_status* library_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void* memory;
  CARNOT_TRY(carnot_cuda_gemm_fp8_prepare(problem, out));
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(library_params), "parameters", &memory));
  library_params* p = memory;
  *p = (library_params){.gemm = *(const carnot_cuda_gemm_fp8_params*)out->params};
  if (problem->previous && problem->previous->param_bytes == sizeof(*p))
    p->choice = ((const library_params*)problem->previous->params)->choice;
  else if (problem->allow_timing)
    choose_algo(problem, &p->gemm, &p->choice);
  out->params = p;
  out->param_bytes = sizeof(*p);
  return round_bias(problem->outputs[0].format.dtype, (size_t)p->gemm.filters, out);
}

static carnot_status* library_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(library_params), INVALID_MODEL, "%u bytes of parameters",
               step->param_bytes);
  return carnot_cuda_gemm_fp8_check(step, carnot_dtype_bytes(CARNOT_DTYPE_F16, 1));
}

static carnot_status* library_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  const char* missing = library_lacks(cuda);
  CARNOT_CHECK(!missing, NOT_FOUND, "this step calls a library: %s", missing);
  const library_params* p = step->params;
  carnot_cuda_gemm_tile_step t;
  CARNOT_TRY(carnot_cuda_gemm_fp8_shape(step, inputs, outputs, &t));
  CARNOT_CHECK(t.types <= CARNOT_CUDA_TILE_FP8_BF16 &&
                   p->gemm.activation == CARNOT_CUDA_NO_ACTIVATION &&
                   t.params.pitch == t.params.filters,
               INVALID_ARGUMENT, "results of types %d, activation %d, %d columns apart by %d",
               (int)t.types, p->gemm.activation, t.params.filters, t.params.pitch);
  library_state* s = state;
  *s = (library_state){.x = t.x, .residual = t.residual};
  *out_workspace_bytes = 0;
  if (!t.params.rows) return NULL;
  carnot_cuda_cublaslt_gemm gemm;
  set_gemm(t.params.rows, &p->gemm, t.params.pixel, outputs[0].format.dtype, &gemm);
  CARNOT_TRY(carnot_cuda_cublaslt_find(cuda, &gemm, &p->choice, &s->plan));
  *out_workspace_bytes = carnot_cuda_cublaslt_workspace(s->plan);
  return NULL;
}

static carnot_status* library_run(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  (void)executor;
  const library_state* s = state;
  if (!s->plan) return NULL;
  CARNOT_TRY(carnot_cuda_fence_before_library(step));
  const carnot_cuda_cublaslt_operands operands = {
      .a = inputs[s->x].data,
      .b = step->constants[CARNOT_CUDA_FP8_WEIGHTS],
      .c = s->residual == CARNOT_PLAN_NONE ? NULL : inputs[s->residual].data,
      .bias = step->constants[CARNOT_CUDA_FP8_BIAS],
      .scales = step->constants[CARNOT_CUDA_FP8_SCALES],
      .y = outputs[0].data,
      .workspace = workspace,
      .alpha = 1,
      .beta = 1};
  return carnot_cuda_cublaslt_run(carnot_cuda_of_step(step), s->plan, &operands,
                                  carnot_cuda_stream_of(step)->handle);
}

const carnot_tactic carnot_cuda_gemm_fp8_cublaslt = {.name = "cuda_gemm_fp8_cublaslt",
                                                     .anchor = CARNOT_OP_COUNT,
                                                     .numerics = CARNOT_NUMERICS_EXACT,
                                                     .device = true,
                                                     .sources = 1u << CARNOT_SOURCE_CUBLAS_LT,
                                                     .pitched_inputs = 1,
                                                     .reject = library_reject,
                                                     .prepare = library_prepare,
                                                     .validate = library_check,
                                                     .uses_input = carnot_cuda_gemm_fp8_uses_input,
                                                     .configure = library_shape,
                                                     .run = library_run,
                                                     .work = carnot_cuda_gemm_tile_work};
