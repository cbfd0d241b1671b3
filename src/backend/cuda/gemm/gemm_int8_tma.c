// Warp-specialized GEMM and NHWC convolution of 8-bit integers by TMA (sm_90) with split-K over a
// cluster: one tactic per tile size; the builder times them.
#include "backend/cuda/gemm/gemm_int8_operands.h"
#include "backend/cuda/gemm/gemm_tma_layout.h"
#include "kernel/cuda/gemm/gemm_int8_params.h"

typedef struct tma_config {
  int rows, columns;
  carnot_cuda_kernel_id u8, i8;
} tma_config;

typedef struct tma_state {
  CUfunction function;
  carnot_cuda_gemm_tile_params gemm;
  int images, taps, chunks;
  bool is_window;
  carnot_cuda_gemm_tma_layout layout;
} tma_state;
_Static_assert(sizeof(tma_state) <= CARNOT_STATE_BYTES, "the state has its size");

static int64_t depth_of(const carnot_cuda_gemm_int8* p) {
  return carnot_cuda_gemm_int8_taps(p) * p->channels;
}
static size_t weight_bytes(const carnot_cuda_gemm_int8* p) {
  return (size_t)(p->filters * depth_of(p));
}

// ---- build ----

static const char* unfit(const carnot_cuda_gemm_int8* p) {
  const char* why = carnot_cuda_gemm_int8_unfit(p);
  if (why) return why;
  // The steps of a filter are one row of its weights.
  const bool splits =
      carnot_cuda_gemm_int8_taps(p) > 1 && p->channels % carnot_cuda_gemm_int8_pitch(p->channels);
  return splits ? "several taps of channels that are no multiple of 64" : NULL;
}

static const char* tma_reject(carnot_problem* problem, char* reason, size_t size) {
  const tma_config* tile = problem->tactic->config;
  carnot_cuda_gemm_int8 p;
  carnot_quantized_region view;
  carnot_quantized_shape shape;
  const char* why = carnot_cuda_gemm_int8_read(problem, &view, &p, &shape, reason, size);
  if (!why) why = unfit(&p);
  if (!why) why = carnot_cuda_gemm_int8_window_reject(problem, &view, &p);
  if (!why)
    why = carnot_cuda_gemm_tma_size_reject(
        carnot_cuda_gemm_int8_rows(&problem->outputs[0], p.is_conv), p.filters, tile->rows,
        tile->columns, reason, size);
  if (!why)
    carnot_cuda_int8_region_want(problem, &p.region,
                                 p.is_conv ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR);
  return why;
}

// [filters, taps, channels].
static void pack(const carnot_cuda_gemm_int8* p, const int8_t* from, int8_t* to) {
  carnot_cuda_gemm_int8_pack_rows(p, p->channels, depth_of(p), from, to);
}

static carnot_status* tma_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cuda_gemm_int8_prepare(problem, "krsc s8", weight_bytes, pack, out);
}

// ---- run ----

static carnot_status* tma_validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_cuda_gemm_int8_validate(step, weight_bytes));
  const char* why = unfit(step->params);
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  return NULL;
}

static carnot_status* tma_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  const tma_config* tile = step->tactic->config;
  const carnot_cuda_gemm_int8* p = step->params;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  tma_state* s = state;
  *out_workspace_bytes = 0;
  const int pitch = carnot_cuda_gemm_int8_pitch(p->channels);
  *s = (tma_state){.taps = (int)carnot_cuda_gemm_int8_taps(p),
                   .chunks = (int)carnot_ceildiv(p->channels, pitch),
                   .images = p->is_conv ? (int)outputs[0].dims[0] : 1,
                   .layout = {.rows = tile->rows, .columns = tile->columns, .pitch = pitch}};
  CARNOT_CHECK(cuda->major == 9, INVALID_MODEL, "%s has no TMA", cuda->base.arch);
  CARNOT_TRY(carnot_cuda_gemm_int8_geometry(p, inputs, &outputs[0], p->channels, &s->gemm));
  CARNOT_TRY(carnot_cuda_gemm_int8_window(&s->gemm, s->taps, &s->is_window));
  s->layout.steps = (int64_t)s->taps * s->chunks;
  CARNOT_TRY(carnot_cuda_kernel(cuda, p->region.x_signed ? tile->i8 : tile->u8, &s->function));
  return carnot_cuda_gemm_tma_lay_out(cuda, s->function, s->gemm.rows, s->gemm.filters, &s->layout);
}

static carnot_status* tma_run(const carnot_step_view* step, void* state,
                              const carnot_operand* inputs, const carnot_operand* outputs,
                              void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  tma_state* s = state;
  const carnot_cuda_gemm_tma_layout* l = &s->layout;
  const carnot_cuda_gemm_int8* p = step->params;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  if (!l->grid[1]) return NULL;
  s->gemm.x = inputs[p->region.x].data, s->gemm.y = outputs[0].data;
  carnot_cuda_gemm_int8_tma_params params = {
      .gemm = {.gemm = s->gemm,
               .taps = s->taps,
               .chunks = s->chunks,
               .is_window = s->is_window,
               .across = l->across,
               .stages = l->stages,
               .parts = l->parts,
               .pitch = l->pitch},
      .epilogue = carnot_cuda_int8_region_epilogue(&p->region, step, inputs)};
  CARNOT_TRY(carnot_cuda_tma_describe_bytes(cuda, &s->gemm, s->images, s->is_window, l->pitch,
                                            l->rows / l->across, &params.gemm.x));
  CARNOT_TRY(carnot_cuda_tma_describe_byte_rows(cuda, step->constants[CARNOT_CUDA_INT8_WEIGHTS],
                                                p->filters, s->gemm.depth, l->pitch, l->columns,
                                                &params.gemm.w));
  const int64_t cluster[3] = {l->across, 1, l->grid[2]};
  return carnot_cuda_launch_clusters(step, s->function, l->grid,
                                     CARNOT_CUDA_GEMM_TMA_THREADS(l->rows), cluster,
                                     l->shared_bytes, &params);
}

#define TMA_TACTIC(height, width)                                                              \
  const carnot_tactic carnot_cuda_gemm_int8_tma_##height##x##width = {                         \
      .name = "cuda_gemm_int8_tma_" #height "x" #width,                                        \
      .anchor = CARNOT_OP_COUNT,                                                               \
      .config =                                                                                \
          &(const tma_config){.rows = height,                                                  \
                              .columns = width,                                                \
                              .u8 = CARNOT_CUDA_KERNEL_gemm_int8_tma_##height##x##width##_u8,  \
                              .i8 = CARNOT_CUDA_KERNEL_gemm_int8_tma_##height##x##width##_i8}, \
      .numerics = CARNOT_NUMERICS_EXACT,                                                       \
      .device = true,                                                                          \
      .reject = tma_reject,                                                                    \
      .prepare = tma_prepare,                                                                  \
      .validate = tma_validate,                                                                \
      .uses_input = carnot_cuda_gemm_int8_uses_input,                                          \
      .configure = tma_configure,                                                              \
      .run = tma_run,                                                                          \
      .work = carnot_cuda_quantized_work};
CARNOT_CUDA_GEMM_INT8_TMA_SIZES(TMA_TACTIC)
