// Multistage GEMM (cp.async): one tactic per tile size; the builder times them.
#include "backend/cuda/gemm/gemm_multistage.h"

#include "backend/cuda/gemm/gemm_tile_common.h"

enum { kMaxSplits = 8, kLeastSteps = 2, kDepth = 64 };

typedef struct multistage_config {
  carnot_cuda_multistage_tile tile;
  carnot_cuda_kernel_id kernels[2][2];  // in groups or of filters that are no eights; of BF16
} multistage_config;

typedef struct multistage_state {
  CUfunction function;
  carnot_cuda_gemm_tile_step step;
  int64_t grid[3];
  size_t shared_bytes;
} multistage_state;
_Static_assert(sizeof(multistage_state) <= CARNOT_STATE_BYTES, "the state has its size");

const char* carnot_cuda_multistage_reject(const carnot_cuda_multistage_tile* tile, int64_t rows,
                                          int64_t columns, char* reason, size_t size) {
  bool tall = tile->rows > 16 && rows <= tile->rows / 2;
  bool flat = tile->rows <= 32 && rows > 4 * tile->rows;
  bool wide = tile->columns > 32 && columns <= tile->columns / 2;
  bool narrow = tile->columns == 32 && columns > 128;
  if (!tall && !flat && !wide && !narrow) return NULL;
  return carnot_cuda_reject_reason(reason, size, "no size for %lldx%lld results", (long long)rows,
                                   (long long)columns);
}

int carnot_cuda_multistage_splits(const carnot_cuda* cuda, const carnot_cuda_multistage_tile* tile,
                                  int64_t tiles, int64_t steps) {
  if (cuda->major < 9) return 1;
  bool large = tile->stages * CARNOT_CUDA_GEMM_STAGE_BYTES(tile->rows, tile->columns) > 110 << 10;
  int64_t slots = (int64_t)cuda->base.multiprocessor_count * (large ? 1 : 2);
  int64_t splits = carnot_min_i64(carnot_min_i64(kMaxSplits, slots / tiles), steps / kLeastSteps);
  if (splits <= 1) return 1;
  // None is left without work.
  return (int)carnot_ceildiv(steps, carnot_ceildiv(steps, splits));
}

size_t carnot_cuda_multistage_shared_bytes(const carnot_cuda_multistage_tile* tile, int64_t steps) {
  int64_t stages = steps < tile->stages ? steps : tile->stages,
          bytes = stages * CARNOT_CUDA_GEMM_STAGE_BYTES(tile->rows, tile->columns),
          sums = CARNOT_CUDA_GEMM_ACCUMULATOR_BYTES(tile->rows, tile->columns);
  return 1024 + (size_t)(bytes > sums ? bytes : sums);
}

carnot_status* carnot_cuda_multistage_allow_shared(carnot_cuda* cuda, CUfunction function,
                                                   const carnot_cuda_multistage_tile* tile) {
  return carnot_cuda_check(
      cuda,
      cuda->cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               (int)carnot_cuda_multistage_shared_bytes(tile, tile->stages)),
      "cuFuncSetAttribute");
}

static const char* multistage_reject(carnot_problem* problem, char* reason, size_t size) {
  const multistage_config* config = problem->tactic->config;
  carnot_cuda_gemm_tile_region region;
  const char* why =
      carnot_cuda_gemm_tile_reject(problem, config->tile.columns, &region, reason, size);
  if (why) return why;
  if (region.is_fp8) return "no kernel for FP8";
  if (carnot_cuda_of(problem->device)->major < 8) return "needs sm_80";
  return carnot_cuda_multistage_reject(&config->tile, region.rows, region.columns, reason, size);
}

static carnot_status* multistage_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const multistage_config* config = problem->tactic->config;
  return carnot_cuda_gemm_tile_prepare(problem, config->tile.columns, out);
}

static carnot_status* multistage_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  const multistage_config* config = step->tactic->config;
  const carnot_cuda_multistage_tile* tile = &config->tile;
  *out_workspace_bytes = 0;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  multistage_state* s = state;
  s->function = NULL;
  CARNOT_TRY(carnot_cuda_gemm_tile_shape(step, inputs, outputs, &s->step));
  carnot_cuda_gemm_tile_params* p = &s->step.params;
  const int64_t each = p->group_filters ? p->group_filters : p->filters;
  int64_t down = carnot_ceildiv(p->rows, tile->rows),
          across = carnot_ceildiv(each, tile->columns) * (p->filters / each),
          steps = carnot_ceildiv(p->depth, kDepth);
  p->prefetch = down <= 8;
  s->grid[0] = down * across, s->grid[1] = 1;
  s->grid[2] = s->grid[0] ? carnot_cuda_multistage_splits(cuda, tile, s->grid[0], steps) : 1;
  s->shared_bytes = carnot_cuda_multistage_shared_bytes(tile, carnot_ceildiv(steps, s->grid[2]));
  const bool general = each != p->filters || p->filters % 8;
  CARNOT_TRY(carnot_cuda_kernel(
      cuda, config->kernels[general][outputs[0].format.dtype == CARNOT_DTYPE_BF16], &s->function));
  return carnot_cuda_multistage_allow_shared(cuda, s->function, tile);
}

static carnot_status* multistage_run(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  multistage_state* s = state;
  const multistage_config* config = step->tactic->config;
  carnot_cuda_gemm_tile_bind(step, inputs, outputs, &s->step);
  const int64_t cluster[3] = {1, 1, s->grid[2]};
  if (s->grid[0])
    CARNOT_TRY(carnot_cuda_launch_clusters(step, s->function, s->grid,
                                           (unsigned)config->tile.threads, cluster, s->shared_bytes,
                                           &s->step.params));
  return carnot_cuda_chain_run(step, &s->step.chain, inputs, outputs);
}

#define MULTISTAGE_TACTIC(height, width, stage_count)                                   \
  CARNOT_CUDA_GEMM_TILE_TACTIC(                                                         \
      multistage, gemm_multistage, "cuda_gemm_multistage", height, width,               \
      .tile = {.rows = height,                                                          \
               .columns = width,                                                        \
               .stages = stage_count,                                                   \
               .threads = CARNOT_CUDA_GEMM_MULTISTAGE_THREADS(height)},                 \
      .kernels = {{CARNOT_CUDA_KERNEL_gemm_multistage_##height##x##width##_f16,         \
                   CARNOT_CUDA_KERNEL_gemm_multistage_##height##x##width##_bf16},       \
                  {CARNOT_CUDA_KERNEL_gemm_multistage_general_##height##x##width##_f16, \
                   CARNOT_CUDA_KERNEL_gemm_multistage_general_##height##x##width##_bf16}})
CARNOT_CUDA_GEMM_MULTISTAGE_SIZES(MULTISTAGE_TACTIC)
