// GEMM of up to four rows with constant weights, bound by the memory rate of the weights.
#include "backend/cuda/gemm/gemm_tile_common.h"
#include "tactic/problem/conv.h"

enum { kMostRows = 4, kWarps = CARNOT_CUDA_GEMV_THREADS / 32 };

typedef struct gemv_state {
  CUfunction function;
  carnot_cuda_gemm_tile_step step;
} gemv_state;
_Static_assert(sizeof(gemv_state) <= CARNOT_STATE_BYTES, "the state has its size");

static bool is_pointwise(const carnot_problem* problem) {
  carnot_conv_problem conv;
  char unused[256];
  return !carnot_conv_problem_read(problem, &conv, unused, sizeof(unused)) &&
         carnot_sliding_window_is_pointwise(&conv.window);
}

static const char* gemv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cuda_gemm_tile_region region;
  const char* why = carnot_cuda_gemm_tile_reject(problem, 0, &region, reason, size);
  if (why) return why;
  if (region.is_fp8) return "no kernel for FP8";
  if (problem->region->nodes[0].op == CARNOT_OP_CONV && !is_pointwise(problem))
    return "a window of several elements, a stride or padding";
  if (region.rows > kMostRows)
    return carnot_cuda_reject_reason(reason, size, "%lld rows, takes up to %d",
                                     (long long)region.rows, kMostRows);
  return NULL;
}

static carnot_status* gemv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cuda_gemm_tile_prepare(problem, 0, out);
}

static carnot_status* gemv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  static const carnot_cuda_kernel_id kKernels[3][2] = {
      {CARNOT_CUDA_KERNEL_gemv_1_f16, CARNOT_CUDA_KERNEL_gemv_1_bf16},
      {CARNOT_CUDA_KERNEL_gemv_2_f16, CARNOT_CUDA_KERNEL_gemv_2_bf16},
      {CARNOT_CUDA_KERNEL_gemv_4_f16, CARNOT_CUDA_KERNEL_gemv_4_bf16}};
  gemv_state* s = state;
  s->function = NULL;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_cuda_gemm_tile_shape(step, inputs, outputs, &s->step));
  const carnot_cuda_gemm_tile_params* p = &s->step.params;
  CARNOT_CHECK(p->rows <= kMostRows && s->step.taps == 1 && !s->step.is_window &&
                   (!p->group_filters || p->group_filters == p->filters) &&
                   carnot_cuda_is_half(s->step.operand),
               INVALID_ARGUMENT, "%lld rows and %d taps; takes up to %d rows of one tap",
               (long long)p->rows, s->step.taps, kMostRows);
  const int size = p->rows <= 1 ? 0 : p->rows <= 2 ? 1 : 2;
  return carnot_cuda_kernel(carnot_cuda_of_step(step),
                            kKernels[size][s->step.types == CARNOT_CUDA_TILE_BF16], &s->function);
}

static carnot_status* gemv_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  gemv_state* s = state;
  carnot_cuda_gemm_tile_bind(step, inputs, outputs, &s->step);
  const carnot_cuda_gemm_tile_params* p = &s->step.params;
  const int64_t grid[3] = {carnot_ceildiv(p->filters, kWarps), 1, 1};
  if (p->rows && p->filters && p->depth)
    CARNOT_TRY(
        carnot_cuda_launch(step, s->function, grid, CARNOT_CUDA_GEMV_THREADS, &s->step.params));
  return carnot_cuda_chain_run(step, &s->step.chain, inputs, outputs);
}

const carnot_tactic carnot_cuda_gemv = {.name = "cuda_gemv",
                                        .anchor = CARNOT_OP_COUNT,
                                        .numerics = CARNOT_NUMERICS_EXACT,
                                        .device = true,
                                        .pitched_inputs = 1,
                                        .pitched_outputs = true,
                                        .reject = gemv_reject,
                                        .prepare = gemv_prepare,
                                        .validate = carnot_cuda_gemm_tile_check,
                                        .uses_input = carnot_cuda_gemm_tile_uses_input,
                                        .configure = gemv_configure,
                                        .run = gemv_run,
                                        .work = carnot_cuda_gemm_tile_work};
