// Persistent ping-pong GEMM by TMA (sm_90): one tactic per tile size; the builder times them.
#include <math.h>

#include "backend/cuda/gemm/tma_descriptor.h"

enum {
  kChunk = 32,  // filters
  kMostTiles = 1 << 22,
  kNarrow = 128,  // columns of the tile with the lowest arithmetic intensity
  kMostShared = 226 << 10
};

static const double kMostMultiplications = 1e10;

typedef struct pingpong_config {
  int rows, columns;
  carnot_cuda_kernel_id kernels[CARNOT_CUDA_TILE_TYPES];
  carnot_cuda_kernel_id pitched[2];  // of 16-bit operands, where rows of results are apart
} pingpong_config;

typedef struct pingpong_state {
  CUfunction function;
  carnot_cuda_gemm_tile_step step;
  int chunks, down, across, stages, gate;
  float c[3];
  int64_t grid[3];
  size_t shared_bytes;
} pingpong_state;
_Static_assert(sizeof(pingpong_state) <= CARNOT_STATE_BYTES, "the state has its size");

// The kernel's form of an activation of functions.cuh: x / (1 + 2^(x (c[0] + t (c[1] + t
// c[2])))), t = min(x x, 36). False: the activation has no such form.
static bool gate_of(int activation, float c[3]) {
  static const float kLog2 = 1.44269504f;
  const float *of, silu[3] = {1}, gelu[3] = {1.59521442f, 0.0743252971f, -0.000767224851f},
                   tanh[3] = {1.59576912f, 0.0713548163f};
  switch (activation) {
    case CARNOT_CUDA_SILU: of = silu; break;
    case CARNOT_CUDA_GELU: of = gelu; break;
    case CARNOT_CUDA_GELU_TANH: of = tanh; break;
    default: return false;
  }
  for (int i = 0; i < 3; i++) c[i] = -kLog2 * of[i];
  return true;
}

static const char* unfit(int activation, bool has_residual) {
  float c[3];
  if (activation == CARNOT_CUDA_NO_ACTIVATION || activation == CARNOT_CUDA_CLAMP) return NULL;
  if (!gate_of(activation, c)) return "no such activation";
  return has_residual ? "a residual before SiLU or GELU" : NULL;
}

static const char* pingpong_reject(carnot_problem* problem, char* reason, size_t size) {
  const pingpong_config* tile = problem->tactic->config;
  carnot_cuda_gemm_tile_region region;
  const char* why = carnot_cuda_gemm_tile_reject(problem, 0, &region, reason, size);
  if (!why) why = carnot_cuda_tma_reject(problem, &region, reason, size);
  if (!why) why = unfit((int)region.activation.kind, region.residual != CARNOT_PLAN_NONE);
  if (why) return why;
  int64_t down = carnot_ceildiv(region.rows, tile->rows),
          across = carnot_ceildiv(region.columns, tile->columns),
          processors = carnot_cuda_of(problem->device)->base.multiprocessor_count;
  // Large GEMMs are bound by power: a tile that wins by 5 % alone loses 2 % within a network.
  const carnot_operand_desc* w = &problem->inputs[region.weights];
  bool hungry =
      tile->columns == kNarrow &&
      (double)region.rows * (double)carnot_dims_count(w->dims, w->rank) > kMostMultiplications;
  bool wide = region.columns <= tile->columns / 2, few = down * across < processors / 2;
  if (region.columns % kChunk || wide || few || hungry || down * across > kMostTiles)
    return carnot_cuda_reject_reason(reason, size, "no size for %lldx%lld results",
                                     (long long)region.rows, (long long)region.columns);
  return NULL;
}

static carnot_status* pingpong_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cuda_gemm_tile_prepare(problem, 0, out);
}

static carnot_status* pingpong_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  const pingpong_config* tile = step->tactic->config;
  *out_workspace_bytes = 0;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  pingpong_state* s = state;
  s->function = NULL;
  CARNOT_TRY(carnot_cuda_gemm_tile_shape(step, inputs, outputs, &s->step));
  CARNOT_TRY(carnot_cuda_tma_check(cuda, &s->step));
  carnot_cuda_gemm_tile_params* p = &s->step.params;
  const char* why = unfit(p->activation, s->step.residual != CARNOT_PLAN_NONE);
  CARNOT_CHECK(!why, INVALID_ARGUMENT, "%s", why);
  int64_t down = carnot_ceildiv(p->rows, tile->rows),
          across = carnot_ceildiv(p->filters, tile->columns);
  CARNOT_CHECK(p->filters % kChunk == 0 && down * across <= kMostTiles, INVALID_ARGUMENT,
               "%lld rows of %d filters", (long long)p->rows, p->filters);
  if (p->activation != CARNOT_CUDA_CLAMP) p->low = -INFINITY, p->high = INFINITY;
  s->gate = gate_of(p->activation, s->c);
  s->chunks = carnot_cuda_tma_chunks(&s->step);
  s->down = (int)down, s->across = (int)across;
  if (!down || !across || !s->chunks) return NULL;
  int64_t stage = CARNOT_CUDA_GEMM_STAGE_BYTES(tile->rows, tile->columns);
  s->stages = (int)carnot_min_i64((kMostShared - 1024) / stage, CARNOT_CUDA_GEMM_TMA_STAGES);
  s->shared_bytes = (size_t)(1024 + s->stages * stage);
  s->grid[0] = carnot_min_i64(down * across, cuda->base.multiprocessor_count);
  s->grid[1] = s->grid[2] = 1;
  const bool is_pitched = p->pitch != p->filters && s->step.types <= CARNOT_CUDA_TILE_BF16;
  const carnot_cuda_kernel_id* kernels = is_pitched ? tile->pitched : tile->kernels;
  CARNOT_TRY(carnot_cuda_kernel(cuda, kernels[s->step.types], &s->function));
  CARNOT_CUDA_TRY(cuda,
                  cuFuncSetAttribute(s->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     kMostShared));
  return NULL;
}

static carnot_status* pingpong_run(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  pingpong_state* s = state;
  const pingpong_config* tile = step->tactic->config;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  carnot_cuda_gemm_tile_bind(step, inputs, outputs, &s->step);
  if (s->function) {
    static const int64_t kOne[3] = {1, 1, 1};
    const int steps = s->step.taps * s->chunks,
              residual_stages = CARNOT_CUDA_GEMM_PINGPONG_RESIDUAL_STAGES(tile->columns);
    carnot_cuda_gemm_pingpong_params params = {
        .gemm = s->step.params,
        .chunks = s->chunks,
        .is_window = s->step.is_window,
        .steps = steps,
        .stages = s->stages,
        .stages_each = steps + (s->step.params.residual ? residual_stages : 0),
        .pitch = 128,
        .down = s->down,
        .across = s->across,
        .tiles = s->down * s->across,
        .gate = s->gate,
        .c = {s->c[0], s->c[1], s->c[2]}};
    CARNOT_TRY(carnot_cuda_tma_describe_x(cuda, &s->step, tile->rows, &params.x));
    CARNOT_TRY(carnot_cuda_tma_describe_permuted_weights(cuda, &s->step, tile->columns, &params.w));
    if (params.gemm.residual)
      CARNOT_TRY(carnot_cuda_tma_describe_residual(cuda, &s->step, tile->rows, &params.residual));
    CARNOT_TRY(carnot_cuda_launch_clusters(step, s->function, s->grid,
                                           CARNOT_CUDA_GEMM_PINGPONG_THREADS, kOne, s->shared_bytes,
                                           &params));
  }
  return carnot_cuda_chain_run(step, &s->step.chain, inputs, outputs);
}

#define PINGPONG_TACTIC(width)                                                                     \
  CARNOT_CUDA_GEMM_TILE_TACTIC(                                                                    \
      pingpong, gemm_tma_pingpong, "cuda_gemm_tma_pingpong", 128, width, .rows = 128,              \
      .columns = width,                                                                            \
      .kernels = {[CARNOT_CUDA_TILE_F16] = CARNOT_CUDA_KERNEL_gemm_tma_pingpong_128x##width##_f16, \
                  [CARNOT_CUDA_TILE_BF16] =                                                        \
                      CARNOT_CUDA_KERNEL_gemm_tma_pingpong_128x##width##_bf16,                     \
                  CARNOT_CUDA_TILE_FP8_KERNELS(gemm_fp8_pingpong_128x##width)},                    \
      .pitched = {                                                                                 \
          [CARNOT_CUDA_TILE_F16] = CARNOT_CUDA_KERNEL_gemm_tma_pingpong_pitched_128x##width##_f16, \
          [CARNOT_CUDA_TILE_BF16] =                                                                \
              CARNOT_CUDA_KERNEL_gemm_tma_pingpong_pitched_128x##width##_bf16})
CARNOT_CUDA_GEMM_PINGPONG_SIZES(PINGPONG_TACTIC)
