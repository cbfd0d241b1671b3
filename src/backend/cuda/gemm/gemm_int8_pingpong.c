// Persistent ping-pong GEMM and NHWC convolution of 8-bit integers by TMA (sm_90): one tactic per
// tile size; the builder times them.
#include "backend/cuda/gemm/gemm_int8_operands.h"
#include "kernel/cuda/gemm/gemm_int8_params.h"

enum {
  kRows = CARNOT_CUDA_GEMM_PINGPONG_ROWS,
  kGroup = 32,  // filters that are permuted together
  kVector = 16,
  kMostTiles = 1 << 22,
  kFewestStages = 4,  // beside weights that stay
  kMostShared = 226 << 10,
  kAlignment = 1024  // of the stages
};

typedef struct pingpong_config {
  int columns;
  carnot_cuda_kernel_id u8, i8;
} pingpong_config;

typedef struct pingpong_state {
  CUfunction function;
  carnot_cuda_gemm_tile_params gemm;
  int images, taps, chunks, pitch, down, across, stages;
  bool is_window, keeps_weights;
  int64_t grid[3];
  size_t shared_bytes;
} pingpong_state;
_Static_assert(sizeof(pingpong_state) <= CARNOT_STATE_BYTES, "the state has its size");

static int64_t padded_filters(const carnot_cuda_gemm_int8* p) {
  return carnot_ceildiv(p->filters, kGroup) * kGroup;
}
static size_t weight_bytes(const carnot_cuda_gemm_int8* p) {
  return (size_t)(padded_filters(p) * carnot_cuda_gemm_int8_taps(p) * p->channels);
}

// ---- build ----

// Bytes of a residual tile that TMA loads.
static int64_t slot_of(const carnot_tactic* tactic, const carnot_cuda_gemm_int8* p) {
  const pingpong_config* tile = tactic->config;
  return p->region.residual < 0 ? 0 : CARNOT_CUDA_GEMM_INT8_PINGPONG_SLOT(tile->columns);
}

static const char* unfit(const carnot_tactic* tactic, const carnot_cuda_gemm_int8* p) {
  if (slot_of(tactic, p) && p->filters % kVector)
    return "the residual's channels are no multiple of 16";
  if (carnot_cuda_int8_region_form(&p->region) == CARNOT_CUDA_INT8_GENERAL)
    return "the epilogue holds more than a residual of bytes and a bound";
  return carnot_cuda_gemm_int8_unfit(p);
}

static const char* pingpong_reject(carnot_problem* problem, char* reason, size_t size) {
  const pingpong_config* tile = problem->tactic->config;
  const carnot_cuda* cuda = carnot_cuda_of(problem->device);
  carnot_cuda_gemm_int8 p;
  carnot_quantized_region view;
  carnot_quantized_shape shape;
  const char* why = carnot_cuda_gemm_int8_read(problem, &view, &p, &shape, reason, size);
  if (!why) why = unfit(problem->tactic, &p);
  if (!why) why = carnot_cuda_gemm_int8_window_reject(problem, &view, &p);
  if (why) return why;
  const int64_t rows = carnot_cuda_gemm_int8_rows(&problem->outputs[0], p.is_conv),
                down = carnot_ceildiv(rows, kRows),
                across = carnot_ceildiv(p.filters, tile->columns);
  const bool is_wide = tile->columns > 64 && p.filters <= tile->columns / 2,
             is_few = down * across < cuda->base.multiprocessor_count / 2;
  if (is_wide || is_few || down * across > kMostTiles)
    return carnot_cuda_reject_reason(reason, size, "no size for %lldx%lld results", (long long)rows,
                                     (long long)p.filters);
  carnot_cuda_int8_region_want(problem, &p.region,
                               p.is_conv ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR);
  return NULL;
}

// [filters, taps, channels], each 32 filters in the kernel's order.
static void pack(const carnot_cuda_gemm_int8* p, const int8_t* from, int8_t* to) {
  const int64_t taps = carnot_cuda_gemm_int8_taps(p), count = padded_filters(p);
  for (int64_t row = 0; row < count; row++) {
    const int64_t b = row / 8 % 4, t = row / 2 % 4, n = row / 32 * 32 + 8 * t + 2 * b + row % 2;
    for (int64_t c = 0; n < p->filters && c < p->channels; c++)
      for (int64_t tap = 0; tap < taps; tap++)
        to[(row * taps + tap) * p->channels + c] = from[(n * p->channels + c) * taps + tap];
  }
}

static carnot_status* pingpong_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cuda_gemm_int8_prepare(problem, "k32rsc s8", weight_bytes, pack, out);
}

// ---- run ----

static carnot_status* pingpong_validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_cuda_gemm_int8_validate(step, weight_bytes));
  const char* why = unfit(step->tactic, step->params);
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  return NULL;
}

// Divides |room| bytes of shared memory among stages, |slots| of residuals, and, where they fit,
// the weights of the only column of tiles.
static void size_stages(pingpong_state* s, int columns, int64_t slots, int64_t room) {
  const int64_t x = (int64_t)kRows * s->pitch, w = (int64_t)columns * s->pitch,
                all_w = w * s->taps * s->chunks;
  s->keeps_weights = s->across == 1 && slots + all_w + kFewestStages * x <= room;
  const int64_t kept = s->keeps_weights ? all_w : 0, stage = s->keeps_weights ? x : x + w;
  s->stages = (int)carnot_min_i64((room - slots - kept) / stage, CARNOT_CUDA_GEMM_TMA_STAGES);
  s->shared_bytes = (size_t)(kAlignment + s->stages * stage + kept + slots);
}

static carnot_status* pingpong_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* state,
                                         size_t* out_workspace_bytes) {
  const pingpong_config* tile = step->tactic->config;
  const carnot_cuda_gemm_int8* p = step->params;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  pingpong_state* s = state;
  *out_workspace_bytes = 0;
  *s = (pingpong_state){.taps = (int)carnot_cuda_gemm_int8_taps(p)};
  CARNOT_CHECK(cuda->major == 9, INVALID_MODEL, "%s has no TMA", cuda->base.arch);
  carnot_cuda_gemm_tile_params* t = &s->gemm;
  CARNOT_TRY(carnot_cuda_gemm_int8_geometry(p, inputs, &outputs[0], p->channels, t));
  s->images = p->is_conv ? (int)outputs[0].dims[0] : 1;
  CARNOT_TRY(carnot_cuda_gemm_int8_window(t, s->taps, &s->is_window));
  const int64_t down = carnot_ceildiv(t->rows, kRows),
                across = carnot_ceildiv(p->filters, tile->columns);
  CARNOT_CHECK(down * across <= kMostTiles, UNSUPPORTED, "%lld tiles, takes up to %d",
               (long long)(down * across), kMostTiles);
  if (!down) return NULL;
  s->pitch = carnot_cuda_gemm_int8_pitch(p->channels);
  s->chunks = (int)carnot_ceildiv(p->channels, s->pitch);
  s->down = (int)down, s->across = (int)across;
  const int64_t resident = CARNOT_CUDA_GEMM_INT8_PINGPONG_RESIDENT(tile->columns);
  size_stages(s, tile->columns, CARNOT_CUDA_GEMM_PINGPONG_SLOTS * slot_of(step->tactic, p),
              kMostShared / resident - kAlignment);
  s->grid[0] = carnot_min_i64(down * across, cuda->base.multiprocessor_count * resident);
  s->grid[1] = s->grid[2] = 1;
  CARNOT_TRY(carnot_cuda_kernel(cuda, p->region.x_signed ? tile->i8 : tile->u8, &s->function));
  CARNOT_CUDA_TRY(cuda,
                  cuFuncSetAttribute(s->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     kMostShared));
  return NULL;
}

static carnot_status* pingpong_run(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  static const int64_t kOne[3] = {1, 1, 1};
  pingpong_state* s = state;
  const pingpong_config* tile = step->tactic->config;
  const carnot_cuda_gemm_int8* p = step->params;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  if (!s->function) return NULL;
  s->gemm.x = inputs[p->region.x].data, s->gemm.y = outputs[0].data;
  carnot_cuda_gemm_int8_pingpong_params params = {
      .gemm = {.gemm = s->gemm,
               .chunks = s->chunks,
               .is_window = s->is_window,
               .steps = s->taps * s->chunks,
               .stages = s->stages,
               .stages_each = s->taps * s->chunks,
               .keeps_weights = s->keeps_weights,
               .pitch = s->pitch,
               .down = s->down,
               .across = s->across,
               .tiles = s->down * s->across},
      .epilogue = carnot_cuda_int8_region_epilogue(&p->region, step, inputs)};
  CARNOT_TRY(carnot_cuda_tma_describe_bytes(cuda, &s->gemm, s->images, s->is_window, s->pitch,
                                            kRows, &params.gemm.x));
  CARNOT_TRY(carnot_cuda_tma_describe_byte_filters(cuda, step->constants[CARNOT_CUDA_INT8_WEIGHTS],
                                                   padded_filters(p), s->taps, (int)p->channels,
                                                   s->pitch, tile->columns, &params.gemm.w));
  if (slot_of(step->tactic, p))
    CARNOT_TRY(carnot_cuda_tma_describe_byte_rows(cuda, params.epilogue.residual, s->gemm.rows,
                                                  s->gemm.filters, tile->columns, kRows,
                                                  &params.gemm.residual));
  return carnot_cuda_launch_clusters(step, s->function, s->grid, CARNOT_CUDA_GEMM_PINGPONG_THREADS,
                                     kOne, s->shared_bytes, &params);
}

#define PINGPONG_TACTIC(width)                                                                    \
  const carnot_tactic carnot_cuda_gemm_int8_pingpong_128x##width = {                              \
      .name = "cuda_gemm_int8_pingpong_128x" #width,                                              \
      .anchor = CARNOT_OP_COUNT,                                                                  \
      .config =                                                                                   \
          &(const pingpong_config){.columns = width,                                              \
                                   .u8 = CARNOT_CUDA_KERNEL_gemm_int8_pingpong_128x##width##_u8,  \
                                   .i8 = CARNOT_CUDA_KERNEL_gemm_int8_pingpong_128x##width##_i8}, \
      .numerics = CARNOT_NUMERICS_EXACT,                                                          \
      .device = true,                                                                             \
      .reject = pingpong_reject,                                                                  \
      .prepare = pingpong_prepare,                                                                \
      .validate = pingpong_validate,                                                              \
      .uses_input = carnot_cuda_gemm_int8_uses_input,                                             \
      .configure = pingpong_configure,                                                            \
      .run = pingpong_run,                                                                        \
      .work = carnot_cuda_quantized_work};
CARNOT_CUDA_GEMM_INT8_PINGPONG_SIZES(PINGPONG_TACTIC)
