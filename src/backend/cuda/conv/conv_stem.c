// Stem layers: convolutions of up to four channels to NHWC 16-bit floats, with bias and activation.
// The kernel reads float32 where a cast precedes the convolution.
#include "backend/cuda/conv/conv_stem.h"
#include "backend/cuda/conv/conv.h"

enum {
  kMostChannels = CARNOT_CUDA_CONV_STEM_CHANNELS,
  kMostQuads = 3,
  kMostKernel = 4 * kMostQuads,
  kMostStep = 4
};

typedef struct stem_state {
  CUfunction function;
  carnot_cuda_conv_stem_params params;
  int64_t grid[3];
  size_t shared_bytes;
  uint32_t bias;  // input; NONE
  carnot_cuda_chain_state chain;
} stem_state;
_Static_assert(sizeof(stem_state) <= CARNOT_STATE_BYTES, "the state has its size");

// Chunks of 32 filters that a block keeps; slices of the filters; groups of four columns of a
// filter row.
static int chunks_of(int64_t filters) { return filters <= 32 ? 1 : 2; }
static int slices_of(int64_t filters) {
  return (int)carnot_ceildiv(filters, 32 * chunks_of(filters));
}
static int quads_of(int64_t columns) { return (int)carnot_ceildiv(columns, 4); }

static const carnot_epilogue_mask kEpilogue = {CARNOT_EPILOGUE_ONE_BIAS, /*residual=*/false,
                                               CARNOT_CUDA_FUSED_ACTIVATIONS};

// ---- build ----

static const char* reject_window(const carnot_sliding_window* t, char* reason, size_t size) {
  for (int d = 0; d < 2; d++)
    if (t->kernel[d] > kMostKernel || t->strides[d] > kMostStep || t->dilations[d] != 1)
      return carnot_cuda_reject_reason(
          reason, size, "kernel size %lld, dilation %lld, stride %lld; takes up to %d, 1, %d",
          (long long)t->kernel[d], (long long)t->dilations[d], (long long)t->strides[d],
          kMostKernel, kMostStep);
  return NULL;
}

static const char* stem_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cuda_conv c;
  const char* why =
      carnot_cuda_conv_read_packed(problem, &kEpilogue, /*depthwise=*/false, &c, reason, size);
  if (why) return why;
  const carnot_operand_desc *x = &problem->inputs[0], *y = &problem->outputs[0],
                            *w = &problem->inputs[c.weights];
  if (carnot_cuda_of(problem->device)->major < 8) return "needs sm_80";
  if (!carnot_cuda_is_half(y->format.dtype) ||
      x->format.dtype != (c.problem.casts ? CARNOT_DTYPE_F32 : y->format.dtype))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s",
                                     carnot_dtype_name(x->format.dtype));
  if (w->dims[1] > kMostChannels || w->dims[0] % 8)
    return carnot_cuda_reject_reason(
        reason, size, "%lld channels and %lld filters; takes up to %d and a multiple of 8",
        (long long)w->dims[1], (long long)w->dims[0], kMostChannels);
  why = reject_window(&c.problem.window, reason, size);
  if (why) return why;
  carnot_cuda_conv_want_channels_last(problem, c.problem.casts);
  return NULL;
}

static carnot_status* stem_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_conv c;
  CARNOT_TRY(carnot_cuda_conv_of_problem(problem, &kEpilogue, &c));
  const carnot_operand_desc* w = &problem->inputs[c.weights];
  int rows = (int)w->dims[2], columns = (int)w->dims[3], quads = quads_of(columns);
  int32_t offsets[kMostQuads * kMostKernel][4][4];
  for (int s = 0; s < rows * quads; s++)
    for (int i = 0; i < 16; i++) {
      int column = s % quads * 4 + i / 4, channel = i % 4;
      offsets[s][i / 4][channel] = column < columns && channel < w->dims[1]
                                       ? (channel * rows + s / quads) * columns + column
                                       : -1;
    }
  out->packed_inputs = 1ull << c.weights;
  CARNOT_TRY(carnot_cuda_conv_pack_chunks(w, slices_of(w->dims[0]) * chunks_of(w->dims[0]),
                                          rows * quads, (const int32_t(*)[4][4])offsets, out));
  return carnot_cuda_chain_prepare(problem, &c.chain, problem->outputs[0].format.dtype, out);
}

// ---- configure and run ----

static carnot_status* check_operands(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* y, const carnot_cuda_conv* c,
                                     const carnot_cuda_sliding_window* t) {
  const carnot_operand *x = &inputs[0], *w = &inputs[c->weights];
  int steps = (int)t->kernel[1] * quads_of(t->kernel[2]);
  int64_t reach = 0;
  bool fits = t->channels <= kMostChannels && t->filters % 8 == 0 && t->filters <= INT32_MAX / 2 &&
              w->rank == 4 && w->dims[0] == t->filters && w->dims[1] == t->channels;
  fits = fits &&
         (t->out[1] <= UINT16_MAX || t->out[2] <= UINT16_MAX);  // positions are stored in 16 bits
  for (int d = 1; d < 3; d++)
    fits = fits && t->kernel[d] <= kMostKernel && t->step[d] <= kMostStep && t->dilation[d] == 1;
  for (int d = 1; d < 4; d++) {
    fits = fits && x->strides[d] >= 0 && x->strides[d] <= INT32_MAX && x->dims[d] <= INT32_MAX;
    if (fits) reach += (x->dims[d] - 1) * x->strides[d];
  }
  CARNOT_CHECK(
      fits && reach <= INT32_MAX && carnot_cuda_is_channels_last(y) &&
          step->constant_bytes[0] == (size_t)CARNOT_CUDA_PACKED_CHUNK_BYTES(
                                         slices_of(t->filters) * chunks_of(t->filters), steps),
      INVALID_ARGUMENT, "a stem convolution of %lld channels and %lld filters, channels last",
      (long long)t->channels, (long long)t->filters);
  return carnot_cuda_conv_check_bias(c, inputs, y, t->filters, /*alignment=*/16);
}

static carnot_status* set_params(const carnot_operand* x, const carnot_cuda_sliding_window* t,
                                 const carnot_cuda_epilogue* activation,
                                 carnot_cuda_conv_stem_params* out) {
  *out = (carnot_cuda_conv_stem_params){.x_n = x->strides[0],
                                        .x_c = (int)x->strides[1],
                                        .x_row = (int)x->strides[2],
                                        .x_column = (int)x->strides[3],
                                        .channels = (int)t->channels,
                                        .filters = (int)t->filters,
                                        .in_rows = (int)t->in[1],
                                        .in_columns = (int)t->in[2],
                                        .out_rows = (int)t->out[1],
                                        .out_columns = (int)t->out[2],
                                        .activation = (int)activation->kind,
                                        .low = activation->low,
                                        .high = activation->high};
  for (int d = 0; d < 2; d++) {
    out->kernel[d] = (int)t->kernel[d + 1], out->step[d] = (int)t->step[d + 1];
    out->begin[d] = (int)t->begin[d + 1];
  }
  carnot_cuda_conv_stem_tile(4 * quads_of(t->kernel[2]), out);
  int64_t tiles = t->n * out->tiles_down;
  CARNOT_CHECK(tiles <= INT32_MAX && tiles * out->tiles_across <= INT32_MAX / 2, UNSUPPORTED,
               "%lld tiles of an image's rows are too many", (long long)tiles);
  out->tiles = (int)(tiles * out->tiles_across);
  return NULL;
}

static carnot_cuda_kernel_id kernel_of(carnot_dtype x, carnot_dtype y, int chunks, int quads) {
  static const struct {
    carnot_dtype y, x;
    int chunks, quads;
    carnot_cuda_kernel_id kernel;
  } kKernels[] = {
#define DTYPE_f32  CARNOT_DTYPE_F32
#define DTYPE_f16  CARNOT_DTYPE_F16
#define DTYPE_bf16 CARNOT_DTYPE_BF16
#define STEM(T, X, chunks, quads)       \
  {DTYPE_##T, DTYPE_##X, chunks, quads, \
   CARNOT_CUDA_KERNEL_conv_stem_##chunks##_##quads##_##X##_##T},
      CARNOT_CUDA_CONV_STEMS(STEM)
#undef STEM
  };
  for (size_t i = 0; i < sizeof(kKernels) / sizeof(kKernels[0]); i++)
    if (kKernels[i].x == x && kKernels[i].y == y && kKernels[i].chunks == chunks &&
        kKernels[i].quads == quads)
      return kKernels[i].kernel;
  return CARNOT_CUDA_KERNEL_NONE;
}

static carnot_status* stem_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  const carnot_plan_node* node = carnot_conv_node(step->region);
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  carnot_cuda_conv c;
  carnot_cuda_sliding_window t;
  CARNOT_TRY(carnot_cuda_conv_of_step(step, inputs, outputs, &kEpilogue, &c));
  CARNOT_CHECK(carnot_cuda_is_half(y->format.dtype) && x->rank == 4 &&
                   x->format.dtype == (c.problem.casts ? CARNOT_DTYPE_F32 : y->format.dtype),
               INVALID_ARGUMENT, "a stem convolution from %s to %s",
               carnot_dtype_name(x->format.dtype), carnot_dtype_name(y->format.dtype));
  carnot_operand seen = *x;
  seen.format.dtype = y->format.dtype;
  CARNOT_TRY(carnot_cuda_sliding_window_make(node, &seen, &inputs[c.weights], y, &t));
  CARNOT_TRY(check_operands(step, inputs, y, &c, &t));
  stem_state* s = state;
  *s = (stem_state){.bias = c.bias};
  CARNOT_TRY(set_params(x, &t, &c.activation, &s->params));
  int chunks = chunks_of(t.filters), slices = slices_of(t.filters), quads = quads_of(t.kernel[2]);
  int64_t blocks =
      (int64_t)cuda->base.multiprocessor_count * CARNOT_CUDA_CONV_STEM_BLOCKS(chunks) / slices;
  s->grid[0] = carnot_min_i64(s->params.tiles, carnot_max_i64(1, blocks));
  s->grid[1] = slices, s->grid[2] = 1;
  s->shared_bytes = (size_t)CARNOT_CUDA_PACKED_CHUNK_BYTES(chunks, (int)t.kernel[1] * quads) +
                    (size_t)chunks * 128 +
                    (size_t)s->params.patch_rows * (size_t)s->params.patch_columns * 8;
  CARNOT_TRY(carnot_cuda_kernel(cuda, kernel_of(x->format.dtype, y->format.dtype, chunks, quads),
                                &s->function));
  CARNOT_TRY(carnot_cuda_allow_shared(cuda, s->function));
  return carnot_cuda_chain_shape(step, &c.chain, inputs, outputs, &s->chain);
}

static carnot_status* stem_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  stem_state* s = state;
  s->params.x = inputs[0].data, s->params.w = step->constants[0], s->params.y = outputs[0].data;
  s->params.bias = carnot_cuda_conv_data(inputs, s->bias);
  const int64_t alone[3] = {1, 1, 1};
  if (s->grid[0])
    CARNOT_TRY(carnot_cuda_launch_clusters(step, s->function, s->grid,
                                           CARNOT_CUDA_CONV_STEM_THREADS, alone, s->shared_bytes,
                                           &s->params));
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic carnot_cuda_conv_stem = {.name = "cuda_conv_stem",
                                             .anchor = CARNOT_OP_CONV,
                                             .numerics = CARNOT_NUMERICS_EXACT,
                                             .device = true,
                                             .reject = stem_reject,
                                             .prepare = stem_prepare,
                                             .validate = carnot_cuda_conv_packed_check,
                                             .uses_input = carnot_cuda_conv_packed_reads,
                                             .configure = stem_configure,
                                             .run = stem_run,
                                             .work = carnot_cuda_conv_work};
