// GEMM and NHWC convolution of 8-bit integers on tensor cores, with their whole epilogue: one
// tactic per tile size and load; the builder times them.
#include "backend/cuda/gemm/gemm_int8_common.h"
#include "backend/cuda/gemm/gemm_multistage.h"
#include "kernel/cuda/gemm/gemm_int8_params.h"
#include "kernel/cuda/gemm/pad_channels_params.h"

enum { kDepth = 128 };

typedef struct int8_config {
  carnot_cuda_multistage_tile tile;
  int load;  // bytes of x at a time
  carnot_cuda_kernel_id u8, i8;
} int8_config;

typedef struct int8_state {
  CUfunction function, pad;  // pad: NULL where x is loaded as it is
  carnot_cuda_gemm_int8_params params;
  carnot_cuda_pad_channels_params pad_params;
  int64_t grid[3];
  size_t shared_bytes;
} int8_state;
_Static_assert(sizeof(int8_state) <= CARNOT_STATE_BYTES, "the state has its size");

// Of a pixel as the kernel reads it.
static int64_t padded_channels(const carnot_cuda_gemm_int8* p) {
  return (p->channels + 3) & ~(int64_t)3;
}
static int64_t depth_of(const carnot_cuda_gemm_int8* p) {
  return padded_channels(p) * carnot_cuda_gemm_int8_taps(p);
}
static int64_t pitch_of(const carnot_cuda_gemm_int8* p) {
  return (depth_of(p) + 15) & ~(int64_t)15;
}

// ---- build ----

static const char* int8_reject(carnot_problem* problem, char* reason, size_t size) {
  const int8_config* config = problem->tactic->config;
  carnot_cuda_gemm_int8 p;
  carnot_quantized_region view;
  carnot_quantized_shape shape;
  const char* why = carnot_cuda_gemm_int8_read(problem, &view, &p, &shape, reason, size);
  if (why) return why;
  if (carnot_cuda_of(problem->device)->major < 8) return "needs sm_80";
  if (p.filters % 8)
    return carnot_cuda_reject_reason(reason, size, "%lld output channels, takes eights",
                                     (long long)p.filters);
  const int load = p.channels % 16 == 0 ? 16 : p.channels % 8 == 0 ? 8 : 4;
  if (config->load != load)
    return carnot_cuda_reject_reason(reason, size, "%lld channels are loaded by %d bytes",
                                     (long long)p.channels, load);
  // One tile serves every size.
  const bool serves_all = config->tile.rows == 64 && config->tile.columns == 32;
  if (!serves_all)
    why = carnot_cuda_multistage_reject(&config->tile,
                                        carnot_cuda_gemm_int8_rows(&problem->outputs[0], p.is_conv),
                                        p.filters, reason, size);
  if (!why)
    carnot_cuda_int8_region_want(problem, &p.region,
                                 p.is_conv ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR);
  return why;
}

// Weights as [filters, taps, padded channels], rows |pitch| bytes apart.
static void pack(const carnot_cuda_gemm_int8* p, const int8_t* from, int8_t* to) {
  carnot_cuda_gemm_int8_pack_rows(p, padded_channels(p), pitch_of(p), from, to);
}

static size_t weight_bytes(const carnot_cuda_gemm_int8* p) {
  return (size_t)(p->filters * pitch_of(p));
}

static carnot_status* int8_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cuda_gemm_int8_prepare(problem, "krsc s8", weight_bytes, pack, out);
}

// ---- run ----

static carnot_status* int8_validate(const carnot_step_view* step) {
  return carnot_cuda_gemm_int8_validate(step, weight_bytes);
}

// Rows of x whose length is no multiple of four are padded to the workspace first.
static carnot_status* set_pad(const carnot_step_view* step, const carnot_operand* x, int8_state* s,
                              size_t* out_workspace_bytes) {
  const carnot_cuda_gemm_int8* p = step->params;
  s->pad = NULL;
  if (padded_channels(p) == p->channels) return NULL;
  const int64_t rows = carnot_dims_count(x->dims, x->rank) / p->channels;
  s->pad_params = (carnot_cuda_pad_channels_params){.count = rows * padded_channels(p) / 4,
                                                    .channels = (int)p->channels,
                                                    .padded = (int)padded_channels(p)};
  *out_workspace_bytes = (size_t)(rows * padded_channels(p));
  return carnot_cuda_kernel(carnot_cuda_of_step(step), CARNOT_CUDA_KERNEL_pad_channels, &s->pad);
}

static void set_grid(const carnot_cuda* cuda, const carnot_cuda_multistage_tile* tile,
                     int8_state* s) {
  carnot_cuda_gemm_tile_params* t = &s->params.gemm;
  const int64_t down = carnot_ceildiv(t->rows, tile->rows),
                across = carnot_ceildiv(t->filters, tile->columns),
                steps = carnot_ceildiv(t->depth, kDepth);
  t->prefetch = down <= 8;
  s->grid[0] = down * across, s->grid[1] = 1;
  s->grid[2] = s->grid[0] ? carnot_cuda_multistage_splits(cuda, tile, s->grid[0], steps) : 1;
  s->shared_bytes = carnot_cuda_multistage_shared_bytes(tile, carnot_ceildiv(steps, s->grid[2]));
}

static carnot_status* int8_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  const int8_config* config = step->tactic->config;
  const carnot_cuda_gemm_int8* p = step->params;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  int8_state* s = state;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(padded_channels(p) % config->load == 0, INVALID_MODEL,
               "%lld channels, loaded by %d bytes", (long long)p->channels, config->load);
  CARNOT_TRY(
      carnot_cuda_gemm_int8_geometry(p, inputs, &outputs[0], padded_channels(p), &s->params.gemm));
  s->params.w_pitch = (int)pitch_of(p);
  s->params.outside = (unsigned)(p->region.x_zero & 255) * 0x01010101u;
  CARNOT_TRY(set_pad(step, &inputs[p->region.x], s, out_workspace_bytes));
  set_grid(cuda, &config->tile, s);
  CARNOT_TRY(carnot_cuda_kernel(cuda, p->region.x_signed ? config->i8 : config->u8, &s->function));
  return carnot_cuda_multistage_allow_shared(cuda, s->function, &config->tile);
}

static carnot_status* int8_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)executor;
  int8_state* s = state;
  const int8_config* config = step->tactic->config;
  const carnot_cuda_gemm_int8* p = step->params;
  carnot_cuda_gemm_tile_params* t = &s->params.gemm;
  if (!s->grid[0]) return NULL;
  t->x = inputs[p->region.x].data, t->y = outputs[0].data;
  t->w = step->constants[CARNOT_CUDA_INT8_WEIGHTS];
  s->params.epilogue = carnot_cuda_int8_region_epilogue(&p->region, step, inputs);
  if (s->pad) {
    s->pad_params.x = t->x, s->pad_params.y = workspace, t->x = workspace;
    CARNOT_TRY(carnot_cuda_launch_threads(step, s->pad, s->pad_params.count, &s->pad_params));
  }
  const int64_t cluster[3] = {1, 1, s->grid[2]};
  return carnot_cuda_launch_clusters(step, s->function, s->grid, (unsigned)config->tile.threads,
                                     cluster, s->shared_bytes, &s->params);
}

#define INT8_TACTIC(height, width, stage_count, bytes)                               \
  const carnot_tactic carnot_cuda_gemm_int8_##height##x##width##_##bytes = {         \
      .name = "cuda_gemm_int8_" #height "x" #width "_" #bytes,                       \
      .anchor = CARNOT_OP_COUNT,                                                     \
      .config =                                                                      \
          &(const int8_config){                                                      \
              .tile = {.rows = height,                                               \
                       .columns = width,                                             \
                       .stages = stage_count,                                        \
                       .threads = CARNOT_CUDA_GEMM_MULTISTAGE_THREADS(height)},      \
              .load = bytes,                                                         \
              .u8 = CARNOT_CUDA_KERNEL_gemm_int8_##height##x##width##_##bytes##_u8,  \
              .i8 = CARNOT_CUDA_KERNEL_gemm_int8_##height##x##width##_##bytes##_i8}, \
      .numerics = CARNOT_NUMERICS_EXACT,                                             \
      .device = true,                                                                \
      .reject = int8_reject,                                                         \
      .prepare = int8_prepare,                                                       \
      .validate = int8_validate,                                                     \
      .uses_input = carnot_cuda_gemm_int8_uses_input,                                \
      .configure = int8_configure,                                                   \
      .run = int8_run,                                                               \
      .work = carnot_cuda_quantized_work};
CARNOT_CUDA_GEMM_INT8_SIZES(INT8_TACTIC)
