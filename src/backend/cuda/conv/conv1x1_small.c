// 1x1 convolutions of few NHWC channels, with bias, residual and activation. They are bound by
// memory: the kernel writes each result once.
#include "backend/cuda/conv/conv.h"
#include "kernel/cuda/conv/conv_small_channels_params.h"

enum {
  kMostChannels = 128,
  kMostWeights = 64 << 10,
  kLeastPixels = 4096,
  kMostPixels = 1 << 30,
  kRowsOfWarp = 16
};

typedef struct conv1x1_state {
  CUfunction function;
  carnot_cuda_conv1x1_small_params params;
  int64_t grid[3];
  size_t shared_bytes;
  uint32_t bias, residual;  // inputs; NONE
  carnot_cuda_chain_state chain;
} conv1x1_state;
_Static_assert(sizeof(conv1x1_state) <= CARNOT_STATE_BYTES, "the state has its size");

static int blocks_of(int64_t channels) { return (int)carnot_ceildiv(channels, 32); }
static int chunks_of(int64_t filters) { return (int)carnot_ceildiv(filters, 32); }
static int64_t weights_bytes(int64_t filters, int64_t channels) {
  return carnot_ceildiv(filters, 32) * CARNOT_CUDA_PACKED_CHUNK_BYTES(1, 2 * blocks_of(channels));
}

static const carnot_epilogue_mask kEpilogue = {CARNOT_EPILOGUE_ONE_BIAS, /*residual=*/true,
                                               CARNOT_CUDA_FUSED_ACTIVATIONS};

// ---- build ----

static const char* conv1x1_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cuda_conv c;
  const char* why =
      carnot_cuda_conv_read_packed(problem, &kEpilogue, /*depthwise=*/false, &c, reason, size);
  if (why) return why;
  if (c.problem.casts) return "a cast precedes the convolution";
  const carnot_operand_desc *x = &problem->inputs[0], *y = &problem->outputs[0],
                            *w = &problem->inputs[c.weights];
  if (carnot_cuda_of(problem->device)->major < 8) return "needs sm_80";
  if (!carnot_cuda_is_half(x->format.dtype))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s",
                                     carnot_dtype_name(x->format.dtype));
  int64_t pixels = y->dims[0] * y->dims[2] * y->dims[3];
  if (w->dims[1] % 8 || w->dims[1] > kMostChannels || w->dims[0] % 8 || pixels < kLeastPixels ||
      weights_bytes(w->dims[0], w->dims[1]) > kMostWeights)
    return carnot_cuda_reject_reason(
        reason, size,
        "%lld channels, %lld filters, %lld pixels; takes eights of up to "
        "%d channels, %d KiB of weights and from %d pixels on",
        (long long)w->dims[1], (long long)w->dims[0], (long long)pixels, (int)kMostChannels,
        kMostWeights >> 10, (int)kLeastPixels);
  if (!carnot_sliding_window_is_pointwise(&c.problem.window))
    return "the window is not 1x1 of stride 1";
  carnot_cuda_conv_want_channels_last(problem, 0);
  return NULL;
}

static carnot_status* conv1x1_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_conv c;
  CARNOT_TRY(carnot_cuda_conv_of_problem(problem, &kEpilogue, &c));
  const carnot_operand_desc* w = &problem->inputs[c.weights];
  int32_t offsets[kMostChannels / 16][4][4];
  int steps = 2 * blocks_of(w->dims[1]);
  for (int s = 0; s < steps; s++)
    for (int i = 0; i < 16; i++) {
      int channel = s / 2 * 32 + i / 4 * 8 + s % 2 * 4 + i % 4;
      offsets[s][i / 4][i % 4] = channel < w->dims[1] ? channel : -1;
    }
  out->packed_inputs = 1ull << c.weights;
  CARNOT_TRY(carnot_cuda_conv_pack_chunks(w, chunks_of(w->dims[0]), steps,
                                          (const int32_t(*)[4][4])offsets, out));
  return carnot_cuda_chain_prepare(problem, &c.chain, problem->outputs[0].format.dtype, out);
}

// ---- configure and run ----

static carnot_status* check_operands(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* y, const carnot_cuda_conv* c,
                                     const carnot_cuda_sliding_window* t) {
  const carnot_operand *x = &inputs[0], *w = &inputs[c->weights];
  bool fits = t->channels > 0 && t->channels % 8 == 0 && t->channels <= kMostChannels &&
              t->filters % 8 == 0 && w->rank == 4 && w->dims[0] == t->filters &&
              w->dims[1] == t->channels && t->filters <= INT32_MAX &&
              carnot_dims_count(x->dims, 4) / t->channels < kMostPixels;
  for (int d = 1; d < 3; d++)
    fits = fits && t->kernel[d] == 1 && t->step[d] == 1 && !t->begin[d] && t->out[d] == t->in[d];
  CARNOT_CHECK(fits && carnot_cuda_row_pitch(x, true) && carnot_cuda_row_pitch(y, true) &&
                   weights_bytes(t->filters, t->channels) <= kMostWeights &&
                   step->constant_bytes[0] == (size_t)weights_bytes(t->filters, t->channels),
               INVALID_ARGUMENT,
               "a 1x1 convolution of %lld channels and %lld filters, channels last",
               (long long)t->channels, (long long)t->filters);
  CARNOT_TRY(carnot_cuda_conv_check_bias(c, inputs, y, t->filters, /*alignment=*/16));
  CARNOT_CHECK(
      c->residual == CARNOT_PLAN_NONE || carnot_cuda_is_channels_last(&inputs[c->residual]),
      INVALID_ARGUMENT, "the residual has another layout");
  return NULL;
}

// As many blocks as are resident at a time; warps walk over the remaining tiles.
static int64_t count_blocks(const carnot_cuda* cuda, int blocks, int64_t rows) {
  static const int kResident[] = {
#define RESIDENT(blocks, resident) [blocks] = resident,
      CARNOT_CUDA_CONV1X1_SMALL_SIZES(RESIDENT)
#undef RESIDENT
  };
  int64_t room = (int64_t)cuda->base.multiprocessor_count * kResident[blocks];
  return carnot_min_i64(carnot_ceildiv(rows, kRowsOfWarp * CARNOT_CUDA_CONV1X1_SMALL_THREADS / 32),
                        room);
}

// By blocks of 32 channels.
static const carnot_cuda_kernel_id kKernels[][CARNOT_DTYPE_COUNT] = {
#define BY_BLOCKS(blocks, resident) \
  [blocks] = {CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, conv1x1_small_##blocks)},
    CARNOT_CUDA_CONV1X1_SMALL_SIZES(BY_BLOCKS)
#undef BY_BLOCKS
};

static carnot_status* conv1x1_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  carnot_cuda_conv c;
  carnot_cuda_sliding_window t;
  CARNOT_TRY(carnot_cuda_conv_of_step(step, inputs, outputs, &kEpilogue, &c));
  CARNOT_CHECK(x->rank == 4 && carnot_cuda_is_half(x->format.dtype), INVALID_ARGUMENT,
               "a convolution of %s of rank %d", carnot_dtype_name(x->format.dtype), x->rank);
  CARNOT_TRY(carnot_cuda_sliding_window_make(node, x, &inputs[c.weights], y, &t));
  CARNOT_TRY(check_operands(step, inputs, y, &c, &t));
  conv1x1_state* s = state;
  *s = (conv1x1_state){.bias = c.bias,
                       .residual = c.residual,
                       .params = {.rows = (int)(t.n * t.out[1] * t.out[2]),
                                  .channels = (int)t.channels,
                                  .filters = (int)t.filters,
                                  .x_pitch = (int)carnot_cuda_row_pitch(x, true),
                                  .y_pitch = (int)carnot_cuda_row_pitch(y, true),
                                  .activation = (int)c.activation.kind,
                                  .low = c.activation.low,
                                  .high = c.activation.high}};
  int blocks = blocks_of(t.channels);
  s->grid[0] = count_blocks(cuda, blocks, s->params.rows), s->grid[1] = s->grid[2] = 1;
  s->shared_bytes =
      (size_t)weights_bytes(t.filters, t.channels) + (size_t)chunks_of(t.filters) * 128;
  CARNOT_TRY(carnot_cuda_kernel_for(cuda, kKernels[blocks], x->format.dtype, &s->function));
  CARNOT_CUDA_TRY(cuda,
                  cuFuncSetAttribute(s->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     kMostWeights + kMostWeights / 16));
  return carnot_cuda_chain_shape(step, &c.chain, inputs, outputs, &s->chain);
}

static carnot_status* conv1x1_run(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  conv1x1_state* s = state;
  s->params.x = inputs[0].data, s->params.w = step->constants[0], s->params.y = outputs[0].data;
  s->params.bias = carnot_cuda_conv_data(inputs, s->bias);
  s->params.residual = carnot_cuda_conv_data(inputs, s->residual);
  const int64_t alone[3] = {1, 1, 1};
  if (s->grid[0])
    CARNOT_TRY(carnot_cuda_launch_clusters(step, s->function, s->grid,
                                           CARNOT_CUDA_CONV1X1_SMALL_THREADS, alone,
                                           s->shared_bytes, &s->params));
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic carnot_cuda_conv1x1_small = {.name = "cuda_conv1x1_small",
                                                 .anchor = CARNOT_OP_CONV,
                                                 .numerics = CARNOT_NUMERICS_EXACT,
                                                 .device = true,
                                                 .pitched_inputs = 1,
                                                 .pitched_outputs = true,
                                                 .reject = conv1x1_reject,
                                                 .prepare = conv1x1_prepare,
                                                 .validate = carnot_cuda_conv_packed_check,
                                                 .uses_input = carnot_cuda_conv_packed_reads,
                                                 .configure = conv1x1_configure,
                                                 .run = conv1x1_run,
                                                 .work = carnot_cuda_conv_work};
