// Warp-specialized GEMM by TMA (sm_90) with split-K over a cluster: one tactic per tile size; the
// builder times them.
#include "backend/cuda/gemm/tma_descriptor.h"

enum {
  kMostTiles = 65535,  // one below the other
  kMostSmall = 400,
  kMaxSplits = 8,
  kStepsEach = 8,
  kMostShared = 226 << 10,
  kHalfShared = 112 << 10,  // two blocks a multiprocessor
  kLeastStages = 4
};

typedef struct tma_config {
  int rows, columns;
  carnot_cuda_kernel_id kernels[CARNOT_CUDA_TILE_TYPES];
} tma_config;

typedef struct tma_state {
  CUfunction function;
  carnot_cuda_gemm_tile_step step;
  int chunks, across, stages, parts;
  int64_t grid[3];
  size_t shared_bytes;
} tma_state;
_Static_assert(sizeof(tma_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const char* tma_reject(carnot_problem* problem, char* reason, size_t size) {
  const tma_config* tile = problem->tactic->config;
  carnot_cuda_gemm_tile_region region;
  const char* why = carnot_cuda_gemm_tile_reject(problem, 0, &region, reason, size);
  if (why) return why;
  why = carnot_cuda_tma_reject(problem, &region, reason, size);
  if (why) return why;
  int64_t down = carnot_ceildiv(region.rows, tile->rows),
          across = carnot_ceildiv(region.columns, tile->columns);
  bool tall = region.rows <= tile->rows / 2, wide = region.columns <= tile->columns / 2;
  // Others beat it.
  bool many = down * across > kMostSmall && (tile->rows == 64 || region.columns % 32 == 0);
  if (tall || wide || many || down > kMostTiles)
    return carnot_cuda_reject_reason(reason, size, "no size for %lldx%lld results",
                                     (long long)region.rows, (long long)region.columns);
  return NULL;
}

// ---- shape ----

// Shared memory for |splits| split-K parts: as many stages as fit in |limit| bytes. False where
// these are too few.
static bool lay_out(const tma_config* tile, int64_t splits, int64_t limit, tma_state* s) {
  int64_t steps = carnot_ceildiv((int64_t)s->step.taps * s->chunks, splits);
  int64_t stage = CARNOT_CUDA_GEMM_STAGE_BYTES(tile->rows, tile->columns);
  int64_t own = CARNOT_CUDA_GEMM_ACCUMULATOR_BYTES(tile->rows, tile->columns);
  int64_t others = (splits - 1) * carnot_ceildiv(tile->rows / 8, splits) * 8 * own / tile->rows;
  int64_t stages = carnot_min_i64((limit - 1024 - others) / stage, CARNOT_CUDA_GEMM_TMA_STAGES);
  s->stages = (int)carnot_min_i64(stages, steps);
  s->parts = (int)carnot_max_i64(s->stages * stage, own);
  s->shared_bytes = (size_t)(1024 + s->parts + others);
  return (int64_t)s->shared_bytes <= limit && s->stages >= carnot_min_i64(kLeastStages, steps);
}

// Depth is cut over the blocks of a cluster while multiprocessors would have nothing to do.
static carnot_status* choose(carnot_cuda* cuda, const tma_config* tile, tma_state* s) {
  int64_t slots = cuda->base.multiprocessor_count, tiles = s->grid[0] * s->grid[1];
  int64_t steps = (int64_t)s->step.taps * s->chunks;
  s->across = s->grid[0] == 2 && tiles > slots ? 2 : 1;
  s->grid[2] = 1;
  if (tiles > slots && lay_out(tile, 1, kHalfShared, s)) return NULL;
  for (int64_t splits = carnot_min_i64(carnot_min_i64(kMaxSplits, slots / tiles),
                                       (steps + kStepsEach / 2) / kStepsEach);
       splits > 1; splits--) {
    int64_t cluster[3] = {1, 1, splits};
    int count;
    bool idle = (splits - 1) * carnot_ceildiv(steps, splits) >= steps;
    if (idle || !lay_out(tile, splits, kMostShared, s)) continue;
    CARNOT_TRY(carnot_cuda_cluster_count(cuda, s->function,
                                         CARNOT_CUDA_GEMM_TMA_THREADS(tile->rows), cluster,
                                         s->shared_bytes, &count));
    s->grid[2] = splits;
    if (tiles <= count) return NULL;
  }
  s->grid[2] = 1;
  lay_out(tile, 1, kMostShared, s);
  return NULL;
}

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
  s->grid[0] = carnot_ceildiv(p->filters, tile->columns);
  s->grid[1] = carnot_ceildiv(p->rows, tile->rows);
  if (!s->grid[0] || !s->grid[1] || !s->chunks) return NULL;
  CARNOT_TRY(carnot_cuda_kernel(cuda, tile->kernels[s->step.types], &s->function));
  CARNOT_CUDA_TRY(cuda,
                  cuFuncSetAttribute(s->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     kMostShared));
  return choose(cuda, tile, s);
}

// ---- run ----

static carnot_status* tma_run(const carnot_step_view* step, void* state,
                              const carnot_operand* inputs, const carnot_operand* outputs,
                              void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  tma_state* s = state;
  const tma_config* tile = step->tactic->config;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  carnot_cuda_gemm_tile_bind(step, inputs, outputs, &s->step);
  if (s->function) {
    carnot_cuda_gemm_tma_params params = {.gemm = s->step.params,
                                          .taps = s->step.taps,
                                          .chunks = s->chunks,
                                          .is_window = s->step.is_window,
                                          .across = s->across,
                                          .stages = s->stages,
                                          .parts = s->parts};
    CARNOT_TRY(carnot_cuda_tma_describe_x(cuda, &s->step, tile->rows / s->across, &params.x));
    CARNOT_TRY(carnot_cuda_tma_describe_weights(cuda, &s->step, tile->columns, &params.w));
    const int64_t cluster[3] = {s->across, 1, s->grid[2]};
    CARNOT_TRY(carnot_cuda_launch_clusters(step, s->function, s->grid,
                                           CARNOT_CUDA_GEMM_TMA_THREADS(tile->rows), cluster,
                                           s->shared_bytes, &params));
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
