// Warp-specialized GEMM by TMA (sm_90) with split-K over a cluster: one tactic per tile size; the
// builder times them.
#include "backend/cuda/gemm/gemm_tma_layout.h"
#include "backend/cuda/gemm/tma_descriptor.h"

enum { kPitch = 128 };  // bytes of a step

typedef struct tma_config {
  int rows, columns;
  carnot_cuda_kernel_id kernels[CARNOT_CUDA_TILE_TYPES];
} tma_config;

typedef struct tma_state {
  CUfunction function;
  carnot_cuda_gemm_tile_step step;
  int chunks;
  carnot_cuda_gemm_tma_layout layout;
} tma_state;
_Static_assert(sizeof(tma_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const char* tma_reject(carnot_problem* problem, char* reason, size_t size) {
  const tma_config* tile = problem->tactic->config;
  carnot_cuda_gemm_tile_region region;
  const char* why = carnot_cuda_gemm_tile_reject(problem, 0, &region, reason, size);
  if (why) return why;
  why = carnot_cuda_tma_reject(problem, &region, reason, size);
  return why ? why
             : carnot_cuda_gemm_tma_size_reject(region.rows, region.columns, tile->rows,
                                                tile->columns, reason, size);
}

// ---- shape ----

static carnot_status* tma_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cuda_gemm_tile_prepare(problem, 0, out);
}

static carnot_status* tma_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* state,
                                size_t* out_workspace_bytes) {
  const tma_config* tile = step->tactic->config;
  *out_workspace_bytes = 0;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  tma_state* s = state;
  s->function = NULL;
  CARNOT_TRY(carnot_cuda_gemm_tile_shape(step, inputs, outputs, &s->step));
  const carnot_cuda_gemm_tile_params* p = &s->step.params;
  CARNOT_TRY(carnot_cuda_tma_check(cuda, &s->step));
  s->chunks = carnot_cuda_tma_chunks(&s->step);
  s->layout = (carnot_cuda_gemm_tma_layout){.rows = tile->rows,
                                            .columns = tile->columns,
                                            .pitch = kPitch,
                                            .steps = (int64_t)s->step.taps * s->chunks};
  if (!p->filters || !p->rows || !s->chunks) return NULL;
  CARNOT_TRY(carnot_cuda_kernel(cuda, tile->kernels[s->step.types], &s->function));
  return carnot_cuda_gemm_tma_lay_out(cuda, s->function, p->rows, p->filters, &s->layout);
}

// ---- run ----

static carnot_status* tma_run(const carnot_step_view* step, void* state,
                              const carnot_operand* inputs, const carnot_operand* outputs,
                              void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  tma_state* s = state;
  const carnot_cuda_gemm_tma_layout* l = &s->layout;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  carnot_cuda_gemm_tile_bind(step, inputs, outputs, &s->step);
  if (s->function) {
    carnot_cuda_gemm_tma_params params = {.gemm = s->step.params,
                                          .taps = s->step.taps,
                                          .chunks = s->chunks,
                                          .is_window = s->step.is_window,
                                          .across = l->across,
                                          .stages = l->stages,
                                          .parts = l->parts,
                                          .pitch = kPitch};
    CARNOT_TRY(carnot_cuda_tma_describe_x(cuda, &s->step, l->rows / l->across, &params.x));
    CARNOT_TRY(carnot_cuda_tma_describe_weights(cuda, &s->step, l->columns, &params.w));
    const int64_t cluster[3] = {l->across, 1, l->grid[2]};
    CARNOT_TRY(carnot_cuda_launch_clusters(step, s->function, l->grid,
                                           CARNOT_CUDA_GEMM_TMA_THREADS(l->rows), cluster,
                                           l->shared_bytes, &params));
  }
  return carnot_cuda_chain_run(step, &s->step.chain, inputs, outputs);
}

#define TMA_TACTIC(height, width)                                                                  \
  CARNOT_CUDA_GEMM_TILE_TACTIC(                                                                    \
      tma, gemm_tma, "cuda_gemm_tma", height, width, .rows = height, .columns = width,             \
      .kernels = {[CARNOT_CUDA_TILE_F16] = CARNOT_CUDA_KERNEL_gemm_tma_##height##x##width##_f16,   \
                  [CARNOT_CUDA_TILE_BF16] = CARNOT_CUDA_KERNEL_gemm_tma_##height##x##width##_bf16, \
                  CARNOT_CUDA_TILE_FP8_KERNELS(gemm_fp8_##height##x##width)})
CARNOT_CUDA_GEMM_TMA_SIZES(TMA_TACTIC)
