// Depthwise convolution of NHWC 16-bit floats by tiles in shared memory, with bias and activation.
#include "backend/cuda/conv/depthwise.h"

enum { kMostWarps = 8, kSpansOfBlock = 4 };

typedef struct tile_state {
  CUfunction function;
  carnot_cuda_depthwise_params params;
  int64_t grid[3];
  size_t shared_bytes;
  uint32_t bias;  // input; NONE
  carnot_cuda_chain_state chain;
} tile_state;
_Static_assert(sizeof(tile_state) <= CARNOT_STATE_BYTES, "the state has its size");

static carnot_cuda_kernel_id kernel_of(int64_t columns, int64_t step, carnot_dtype dtype) {
  static const struct {
    int columns, step;
    carnot_cuda_kernel_id f16, bf16;
  } kKernels[] = {
#define TILE(columns, step)                                                   \
  {columns, step, CARNOT_CUDA_KERNEL_depthwise_tile_##columns##_##step##_f16, \
   CARNOT_CUDA_KERNEL_depthwise_tile_##columns##_##step##_bf16},
      CARNOT_CUDA_DEPTHWISE_TILES(TILE)
#undef TILE
  };
  for (size_t i = 0; i < sizeof(kKernels) / sizeof(kKernels[0]); i++)
    if (kKernels[i].columns == columns && kKernels[i].step == step)
      return dtype == CARNOT_DTYPE_F16 ? kKernels[i].f16 : kKernels[i].bf16;
  return CARNOT_CUDA_KERNEL_NONE;
}

// Bytes of the weights and pixels of a block.
static size_t shared_bytes(const carnot_cuda_depthwise_params* p) {
  const size_t pixel = CARNOT_CUDA_DEPTHWISE_CHANNELS * 2;
  const int width = (p->spans * CARNOT_CUDA_DEPTHWISE_SPAN - 1) * p->step[1] + p->kernel[1],
            lines = (p->tile_rows - 1) * p->step[0] + (p->kernel[0] - 1) * p->dilation[0] + 1;
  return pixel * ((size_t)(p->kernel[0] * p->kernel[1]) + (size_t)width * (size_t)lines);
}

static void set_grid(tile_state* s) {
  const carnot_cuda_depthwise_params* p = &s->params;
  s->grid[0] = carnot_ceildiv(p->columns, (int64_t)p->spans * CARNOT_CUDA_DEPTHWISE_SPAN) *
               carnot_ceildiv(p->rows, p->tile_rows);
  s->grid[1] = carnot_ceildiv(p->channels, CARNOT_CUDA_DEPTHWISE_CHANNELS);
  s->grid[2] = p->images;
  s->shared_bytes = shared_bytes(p);
}

// Large tiles read less halo: the largest that fit in shared memory twice and leave half of the
// multiprocessors a block.
static carnot_status* choose_tile(const carnot_cuda* cuda, tile_state* s) {
  carnot_cuda_depthwise_params* p = &s->params;
  const size_t most = (size_t)cuda->block_bytes - 1024;
  p->spans =
      (int)carnot_min_i64(kSpansOfBlock, carnot_ceildiv(p->columns, CARNOT_CUDA_DEPTHWISE_SPAN));
  p->tile_rows = (int)carnot_min_i64(kMostWarps / p->spans, p->rows);
  for (;; p->tile_rows > 1 ? (p->tile_rows /= 2) : (p->spans /= 2)) {
    set_grid(s);
    const bool idle = 2 * s->grid[0] * s->grid[1] * s->grid[2] < cuda->base.multiprocessor_count;
    if (p->tile_rows == 1 && p->spans == 1) break;
    if (s->shared_bytes <= most / 2 && !(idle && p->tile_rows > 1)) break;
  }
  CARNOT_CHECK(s->shared_bytes <= most, UNSUPPORTED,
               "a tile of a window of %d x %d takes %zu bytes of shared memory, a block has %zu",
               p->kernel[0], p->kernel[1], s->shared_bytes, most);
  return NULL;
}

static const char* tile_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cuda_conv c;
  const char* why = carnot_cuda_depthwise_read(problem, &c, reason, size);
  if (why) return why;
  const carnot_sliding_window* t = &c.problem.window;
  if (c.problem.group % 8)
    return carnot_cuda_reject_reason(reason, size, "%lld channels, takes eights",
                                     (long long)c.problem.group);
  if (t->rank == 1) return NULL;  // one column
  const int64_t columns = problem->inputs[c.weights].dims[3];
  if (t->dilations[1] != 1 ||
      kernel_of(columns, t->strides[1], CARNOT_DTYPE_F16) == CARNOT_CUDA_KERNEL_NONE)
    return carnot_cuda_reject_reason(reason, size,
                                     "a window of %lld columns, stride %lld and dilation %lld; "
                                     "takes 1, 3, 5, 7, 9 and 11 columns of stride 1 and 2",
                                     (long long)columns, (long long)t->strides[1],
                                     (long long)t->dilations[1]);
  return NULL;
}

static carnot_status* tile_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  tile_state* s = state;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  carnot_cuda_depthwise_params* p = &s->params;
  *s = (tile_state){.function = NULL};
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_cuda_depthwise_shape(step, inputs, outputs, p, &s->bias, &s->chain));
  const carnot_cuda_kernel_id kernel = kernel_of(p->kernel[1], p->step[1], inputs[0].format.dtype);
  CARNOT_CHECK(kernel != CARNOT_CUDA_KERNEL_NONE && p->dilation[1] == 1 && p->channels % 8 == 0,
               UNSUPPORTED, "no kernel for %d columns of step %d and %d channels", p->kernel[1],
               p->step[1], p->channels);
  CARNOT_TRY(carnot_cuda_kernel(cuda, kernel, &s->function));
  CARNOT_TRY(carnot_cuda_allow_shared(cuda, s->function));
  return p->count ? choose_tile(cuda, s) : NULL;
}

static carnot_status* tile_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  static const int64_t kNoCluster[3] = {1, 1, 1};
  tile_state* s = state;
  s->params.x = inputs[0].data, s->params.w = step->constants[0], s->params.y = outputs[0].data;
  s->params.bias = carnot_cuda_conv_data(inputs, s->bias);
  const unsigned threads = 32 * (unsigned)(s->params.tile_rows * s->params.spans);
  if (s->params.count)
    CARNOT_TRY(carnot_cuda_launch_clusters(step, s->function, s->grid, threads, kNoCluster,
                                           s->shared_bytes, &s->params));
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic carnot_cuda_depthwise_tile = {.name = "cuda_depthwise_tile",
                                                  .anchor = CARNOT_OP_CONV,
                                                  .numerics = CARNOT_NUMERICS_EXACT,
                                                  .device = true,
                                                  .pitched_inputs = 1,
                                                  .pitched_outputs = true,
                                                  .reject = tile_reject,
                                                  .prepare = carnot_cuda_depthwise_prepare,
                                                  .validate = carnot_cuda_conv_packed_check,
                                                  .uses_input = carnot_cuda_conv_packed_reads,
                                                  .configure = tile_configure,
                                                  .run = tile_run,
                                                  .work = carnot_cuda_conv_work};
