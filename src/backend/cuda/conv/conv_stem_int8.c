// Quantized stem layers: convolutions of up to four channels of bytes in planes to NHWC bytes.
#include "backend/cuda/conv/conv_stem.h"
#include "backend/cuda/gemm/gemm_int8_common.h"

enum { kMostChannels = CARNOT_CUDA_CONV_STEM_CHANNELS, kMostKernel = 8, kMostStep = 2 };

typedef struct stem_state {
  CUfunction function;
  carnot_cuda_conv_stem_int8_params params;
  int64_t grid[3];
  size_t shared_bytes;
} stem_state;
_Static_assert(sizeof(stem_state) <= CARNOT_STATE_BYTES, "the state has its size");

// Chunks of 32 filters that a block keeps; slices of the filters.
static int chunks_of(const carnot_cuda_gemm_int8* p) { return p->filters <= 32 ? 1 : 2; }
static int64_t slices_of(const carnot_cuda_gemm_int8* p) {
  return carnot_ceildiv(p->filters, 32 * chunks_of(p));
}
static size_t weight_bytes(const carnot_cuda_gemm_int8* p) {
  return (size_t)CARNOT_CUDA_PACKED_CHUNK_BYTES(slices_of(p) * chunks_of(p), p->window.kernel[0]);
}

// ---- build ----

static const char* unfit(const carnot_cuda_gemm_int8* p) {
  const carnot_sliding_window* w = &p->window;
  if (!p->is_conv || w->rank != 2) return "no convolution of images";
  if (p->channels > kMostChannels) return "more than four channels";
  if (p->filters % 8) return "output channels are no multiple of 8";
  for (int d = 0; d < 2; d++)
    if (w->kernel[d] > kMostKernel || w->strides[d] > kMostStep || w->dilations[d] != 1)
      return "a window of more than 8, a stride of more than 2 or a dilation";
  if (carnot_cuda_int8_region_form(&p->region) != CARNOT_CUDA_INT8_REQUANTIZE)
    return "the epilogue holds more than a bound";
  return NULL;
}

static const char* stem_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cuda_gemm_int8 p;
  carnot_quantized_region view;
  carnot_quantized_shape shape;
  const char* why = carnot_cuda_gemm_int8_read(problem, &view, &p, &shape, reason, size);
  if (!why) why = unfit(&p);
  if (why) return why;
  if (carnot_cuda_of(problem->device)->major < 8) return "needs sm_80";
  carnot_cuda_int8_region_want(problem, &p.region, CARNOT_LAYOUT_CHANNELS_LAST);
  problem->inputs[p.region.x].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

// [filters, channels, taps] as chunks of B fragments: of lane 4g + t and fragment j, columns t and
// t + 4 of a filter row.
static void pack(const carnot_cuda_gemm_int8* p, const int8_t* from, int8_t* to) {
  const int64_t rows = p->window.kernel[0], columns = p->window.kernel[1],
                chunks = slices_of(p) * chunks_of(p);
  for (int64_t at = 0; at < chunks * rows * 128; at++, to += 8) {
    const int64_t i = at % 128, r = at / 128 % rows, j = i / 64 * 2 + i % 2, g = i / 8 % 8,
                  t = i / 2 % 4, filter = at / 128 / rows * 32 + g / 2 * 8 + j * 2 + g % 2;
    for (int64_t k = 0; k < 8 && filter < p->filters; k++) {
      const int64_t column = t + k / 4 * 4, c = k % 4;
      if (column < columns && c < p->channels)
        to[k] = from[((filter * p->channels + c) * rows + r) * columns + column];
    }
  }
}

static carnot_status* stem_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cuda_gemm_int8_prepare(problem, "k32 mma s8", weight_bytes, pack, out);
}

// ---- run ----

static carnot_status* stem_validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_cuda_gemm_int8_validate(step, weight_bytes));
  const char* why = unfit(step->params);
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  return NULL;
}

static carnot_status* set_params(const carnot_cuda_gemm_int8* p, const carnot_operand* x,
                                 const carnot_operand* y, carnot_cuda_conv_stem_params* out) {
  CARNOT_CHECK(x->rank == 4 && y->rank == 4 && x->dims[0] == y->dims[0] &&
                   x->dims[1] == p->channels && y->dims[1] == p->filters,
               INVALID_ARGUMENT, "%lld channels to %lld, the packed weights have %lld and %lld",
               (long long)x->dims[1], (long long)y->dims[1], (long long)p->channels,
               (long long)p->filters);
  // Positions are stored in 16 bits, offsets in an image in 32.
  CARNOT_CHECK(carnot_dims_count(x->dims + 1, 3) <= INT32_MAX && y->dims[2] <= UINT16_MAX &&
                   y->dims[3] <= UINT16_MAX,
               UNSUPPORTED, "images of %lldx%lld", (long long)x->dims[2], (long long)x->dims[3]);
  carnot_sliding_window w = p->window;
  carnot_sliding_window_resolve(&w, x->dims + 2, y->dims + 2);
  *out = (carnot_cuda_conv_stem_params){
      .x_n = p->channels * x->dims[2] * x->dims[3],
      .x_c = (int)(x->dims[2] * x->dims[3]),
      .x_row = (int)x->dims[3],
      .x_column = 1,
      .channels = (int)p->channels,
      .filters = (int)p->filters,
      .in_rows = (int)x->dims[2],
      .in_columns = (int)x->dims[3],
      .out_rows = (int)y->dims[2],
      .out_columns = (int)y->dims[3],
      .kernel = {(int)w.kernel[0], (int)w.kernel[1]},
      .step = {(int)w.strides[0], (int)w.strides[1]},
      .begin = {(int)w.begin[0], (int)w.begin[1]},
  };
  carnot_cuda_conv_stem_tile(/*width=*/8, out);
  const int64_t tiles = y->dims[0] * out->tiles_down;
  CARNOT_CHECK(tiles <= INT32_MAX && tiles * out->tiles_across <= INT32_MAX / 2, UNSUPPORTED,
               "%lld tiles of an image's rows are too many", (long long)tiles);
  out->tiles = (int)(tiles * out->tiles_across);
  return NULL;
}

static carnot_status* stem_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  static const carnot_cuda_kernel_id kKernels[2][2] = {
      {CARNOT_CUDA_KERNEL_conv_stem_int8_1_u8, CARNOT_CUDA_KERNEL_conv_stem_int8_1_i8},
      {CARNOT_CUDA_KERNEL_conv_stem_int8_2_u8, CARNOT_CUDA_KERNEL_conv_stem_int8_2_i8}};
  const carnot_cuda_gemm_int8* p = step->params;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  stem_state* s = state;
  *out_workspace_bytes = 0;
  *s = (stem_state){.params.x_zero = p->region.x_zero};
  CARNOT_TRY(set_params(p, &inputs[p->region.x], &outputs[0], &s->params.stem));
  CARNOT_TRY(carnot_cuda_int8_region_configure(&p->region, /*x_channels_last=*/false,
                                               /*channels_last=*/true, inputs, &outputs[0]));
  const int chunks = chunks_of(p);
  const int64_t slices = slices_of(p), blocks = (int64_t)cuda->base.multiprocessor_count *
                                                CARNOT_CUDA_CONV_STEM_BLOCKS(chunks) / slices;
  s->grid[0] = carnot_min_i64(s->params.stem.tiles, carnot_max_i64(1, blocks));
  s->grid[1] = slices, s->grid[2] = 1;
  s->shared_bytes = (size_t)CARNOT_CUDA_PACKED_CHUNK_BYTES(chunks, s->params.stem.kernel[0]) +
                    (size_t)s->params.stem.patch_rows * (size_t)s->params.stem.patch_columns * 4;
  return carnot_cuda_kernel(cuda, kKernels[chunks - 1][p->region.x_signed], &s->function);
}

static carnot_status* stem_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  static const int64_t kOne[3] = {1, 1, 1};
  stem_state* s = state;
  const carnot_cuda_gemm_int8* p = step->params;
  if (!s->grid[0]) return NULL;
  s->params.stem.x = inputs[p->region.x].data, s->params.stem.y = outputs[0].data;
  s->params.stem.w = step->constants[CARNOT_CUDA_INT8_WEIGHTS];
  s->params.epilogue = carnot_cuda_int8_region_epilogue(&p->region, step, inputs);
  return carnot_cuda_launch_clusters(step, s->function, s->grid, CARNOT_CUDA_CONV_STEM_THREADS,
                                     kOne, s->shared_bytes, &s->params);
}

const carnot_tactic carnot_cuda_conv_stem_int8 = {.name = "cuda_conv_stem_int8",
                                                  .anchor = CARNOT_OP_COUNT,
                                                  .numerics = CARNOT_NUMERICS_EXACT,
                                                  .device = true,
                                                  .reject = stem_reject,
                                                  .prepare = stem_prepare,
                                                  .validate = stem_validate,
                                                  .uses_input = carnot_cuda_gemm_int8_uses_input,
                                                  .configure = stem_configure,
                                                  .run = stem_run,
                                                  .work = carnot_cuda_quantized_work};
