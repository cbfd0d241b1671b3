// GEMM of 8-bit integers with small K, and 1x1 convolution: all weights in shared memory.
#include "backend/cuda/gemm/gemm_int8_common.h"
#include "kernel/cuda/gemm/gemm_int8_params.h"

enum {
  kMostChannels = 128,
  kStep = 32,
  kChunk = 32,
  kChunkStep = 1024,
  kWarps = CARNOT_CUDA_GEMM_INT8_SMALL_THREADS / 32,
  kRows = CARNOT_CUDA_GEMM_INT8_SMALL_ROWS,
  kMostShared = 48 << 10
};

typedef struct small_state {
  CUfunction function;
  carnot_cuda_gemm_int8_small_params params;
  int64_t grid[3];
  size_t shared_bytes;
} small_state;
_Static_assert(sizeof(small_state) <= CARNOT_STATE_BYTES, "the state has its size");

static int64_t chunks_of(const carnot_cuda_gemm_int8* p) {
  return carnot_ceildiv(p->filters, kChunk);
}
static int64_t steps_of(const carnot_cuda_gemm_int8* p) {
  return carnot_ceildiv(p->channels, kStep);
}
static size_t weight_bytes(const carnot_cuda_gemm_int8* p) {
  return (size_t)(chunks_of(p) * steps_of(p) * kChunkStep);
}
// Weights, biases and scales.
static size_t shared_bytes(const carnot_cuda_gemm_int8* p) {
  return weight_bytes(p) + (size_t)chunks_of(p) * kChunk * 8;
}

// ---- build ----

static bool is_plain(const carnot_sliding_window* w) {
  bool plain = w->auto_pad == CARNOT_PAD_NOTSET || w->auto_pad == CARNOT_PAD_VALID;
  for (int d = 0; d < w->rank; d++)
    plain = plain && w->kernel[d] == 1 && w->strides[d] == 1 && !w->begin[d] && !w->end[d];
  return plain;
}

static const char* unfit(const carnot_cuda_gemm_int8* p) {
  if (p->is_conv && !is_plain(&p->window)) return "a window, a stride or padding";
  if (p->channels % 8 || p->channels > kMostChannels || p->filters % 8)
    return "takes up to 128 channels, and multiples of 8";
  if (shared_bytes(p) > kMostShared) return "the weights exceed 48 KB";
  if (carnot_cuda_int8_region_form(&p->region) == CARNOT_CUDA_INT8_GENERAL)
    return "the epilogue holds more than a residual of bytes and a bound";
  return NULL;
}

static const char* small_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cuda_gemm_int8 p;
  carnot_quantized_region view;
  carnot_quantized_shape shape;
  const char* why = carnot_cuda_gemm_int8_read(problem, &view, &p, &shape, reason, size);
  if (!why) why = unfit(&p);
  if (why) return why;
  if (carnot_cuda_of(problem->device)->major < 8) return "needs sm_80";
  carnot_cuda_int8_region_want(problem, &p.region,
                               p.is_conv ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR);
  return NULL;
}

// [filters, channels] as chunks of B fragments.
static void pack(const carnot_cuda_gemm_int8* p, const int8_t* from, int8_t* to) {
  const int64_t steps = steps_of(p), count = chunks_of(p) * steps * 128;
  for (int64_t at = 0; at < count; at++, to += 8) {
    const int64_t i = at % 128, s = at / 128 % steps, j = i / 64 * 2 + i % 2, g = i / 8 % 8,
                  t = i / 2 % 4, filter = at / 128 / steps * kChunk + g / 2 * 8 + j * 2 + g % 2;
    for (int64_t k = 0; k < 8 && filter < p->filters; k++) {
      const int64_t c = s * kStep + t * 8 + k;
      if (c < p->channels) to[k] = from[filter * p->channels + c];
    }
  }
}

static carnot_status* small_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cuda_gemm_int8_prepare(problem, "k32 mma s8", weight_bytes, pack, out);
}

// ---- run ----

static carnot_status* small_validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_cuda_gemm_int8_validate(step, weight_bytes));
  const char* why = unfit(step->params);
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  return NULL;
}

static carnot_status* small_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  static const carnot_cuda_kernel_id kKernels[][2] = {
#define ENTRY(steps)                                \
  {CARNOT_CUDA_KERNEL_gemm_int8_small_##steps##_u8, \
   CARNOT_CUDA_KERNEL_gemm_int8_small_##steps##_i8},
      CARNOT_CUDA_GEMM_INT8_SMALL_SIZES(ENTRY)
#undef ENTRY
  };
  const carnot_cuda_gemm_int8* p = step->params;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  small_state* s = state;
  carnot_cuda_gemm_tile_params sizes;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_cuda_gemm_int8_geometry(p, inputs, &outputs[0], p->channels, &sizes));
  *s = (small_state){
      .params = {.rows = sizes.rows, .channels = (int)p->channels, .filters = (int)p->filters},
      .shared_bytes = shared_bytes(p)};
  s->grid[0] = carnot_min_i64(
      carnot_ceildiv(sizes.rows, (int64_t)kWarps * kRows),
      (int64_t)cuda->base.multiprocessor_count * CARNOT_CUDA_GEMM_INT8_SMALL_RESIDENT);
  s->grid[1] = s->grid[2] = 1;
  return carnot_cuda_kernel(cuda, kKernels[steps_of(p) - 1][p->region.x_signed], &s->function);
}

static carnot_status* small_run(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  static const int64_t kOne[3] = {1, 1, 1};
  small_state* s = state;
  const carnot_cuda_gemm_int8* p = step->params;
  if (!s->grid[0]) return NULL;
  s->params.x = inputs[p->region.x].data, s->params.y = outputs[0].data;
  s->params.w = step->constants[CARNOT_CUDA_INT8_WEIGHTS];
  s->params.epilogue = carnot_cuda_int8_region_epilogue(&p->region, step, inputs);
  return carnot_cuda_launch_clusters(step, s->function, s->grid,
                                     CARNOT_CUDA_GEMM_INT8_SMALL_THREADS, kOne, s->shared_bytes,
                                     &s->params);
}

const carnot_tactic carnot_cuda_gemm_int8_small = {.name = "cuda_gemm_int8_small",
                                                   .anchor = CARNOT_OP_COUNT,
                                                   .numerics = CARNOT_NUMERICS_EXACT,
                                                   .device = true,
                                                   .reject = small_reject,
                                                   .prepare = small_prepare,
                                                   .validate = small_validate,
                                                   .uses_input = carnot_cuda_gemm_int8_uses_input,
                                                   .configure = small_configure,
                                                   .run = small_run,
                                                   .work = carnot_cuda_quantized_work};
