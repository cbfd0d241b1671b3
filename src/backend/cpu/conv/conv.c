// Convolution over channels-last float32 operands as an implicit GEMM on packed weights.
#include "backend/cpu/conv/conv.h"

#include <stdlib.h>

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/packed_weights.h"
#include "kernel/cpu/gemm/pack_split.h"

enum { kLeastPairChannels = 8 };

// ---- build ----

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_conv_params p;
  const char* why = carnot_conv_reject(problem, &p, reason, size);
  if (why) return why;
  if (carnot_conv_is_depthwise(&p) && p.window.rank < 3)
    return "the depthwise tactics take depthwise convolutions";
  if (p.channels > CARNOT_CONV_MAX_CHANNELS)
    return carnot_because(reason, size, "%lld channels, takes up to %d", (long long)p.channels,
                          CARNOT_CONV_MAX_CHANNELS);
  return NULL;
}

// Channels of a tap that fill a pair or, in parts, three quarters of a tile's depth.
static int64_t least_channels(carnot_weights_type type) {
  if (carnot_packed_weights_split(type)) return CARNOT_CONV_LEAST_SPLIT_CHANNELS;
  return type == CARNOT_WEIGHTS_BF16 ? kLeastPairChannels : 1;
}

// Tile instructions take windows of two dimensions: one of three is the sum of those of its planes.
static bool is_in_planes(carnot_weights_type type) {
  return carnot_packed_weights_split(type) || type == CARNOT_WEIGHTS_BF16;
}

static const char* packed_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = conv_reject(problem, reason, size);
  if (why) return why;
  const carnot_weights_type type = carnot_packed_weights_type(problem->tactic);
  const carnot_operand_desc* w = carnot_conv_weights(problem);
  if (w->dims[1] < least_channels(type))
    return carnot_because(reason, size, "%lld channels a tap, takes %lld and more",
                          (long long)w->dims[1], (long long)least_channels(type));
  if (is_in_planes(type) && w->rank > 4 && w->dims[3] * w->dims[4] > CARNOT_RESIDUAL_IN_PLACE_TAPS)
    return carnot_because(reason, size, "a plane of %lld taps, takes up to %d",
                          (long long)(w->dims[3] * w->dims[4]), CARNOT_RESIDUAL_IN_PLACE_TAPS);
  return carnot_packed_weights_reject(problem, w->tensor, type, reason, size);
}

static bool is_by_planes(const carnot_conv_params* p) {
  return p->window.rank == 3 && is_in_planes((carnot_weights_type)p->weights);
}
static int64_t planes_of(const carnot_conv_params* p) {
  return is_by_planes(p) ? p->window.kernel[0] : 1;
}

// The weights of one group and plane.
static carnot_packed_weights_shape weights_shape(const carnot_conv_params* p) {
  return (carnot_packed_weights_shape){carnot_conv_taps(p) / planes_of(p), p->channels / p->group,
                                       p->filters / p->group};
}

// The weights of plane |plane| of [M,C,planes,taps], in |taps| where there are several.
static const float* plane_of(carnot_packed_weights_shape shape, const float* weights,
                             int64_t planes, int64_t plane, float* taps) {
  if (planes == 1) return weights;
  for (int64_t i = 0; i < shape.n * shape.depth; i++)
    memcpy(taps + i * shape.taps, weights + (i * planes + plane) * shape.taps,
           (size_t)shape.taps * sizeof(float));
  return taps;
}

static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_weights_type type = carnot_packed_weights_type(problem->tactic);
  carnot_conv_params* p;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  p->weights = (int32_t)type;
  const carnot_operand_desc* w = carnot_conv_weights(problem);
  const carnot_packed_weights_shape shape = weights_shape(p);
  const int64_t planes = planes_of(p), each = shape.n * shape.depth * shape.taps * planes;
  size_t bytes = carnot_packed_weights_bytes(type, shape);
  void *packed, *taps = NULL;
  CARNOT_TRY(carnot_conv_alloc_weights(out, carnot_packed_weights_packing(type),
                                       bytes * (size_t)(p->group * planes), &packed));
  if (planes > 1)
    CARNOT_TRY(carnot_calloc((size_t)(shape.n * shape.depth * shape.taps), sizeof(float),
                             "weights of a plane", &taps));
  const float* weights = w->tensor->data;
  carnot_status* status = NULL;
  for (int64_t i = 0; i < p->group * planes && !status; i++) {
    const float* of_plane = plane_of(shape, weights + i / planes * each, planes, i % planes, taps);
    status = carnot_packed_weights_pack_conv(out->executor, type, shape, of_plane,
                                             (char*)packed + (size_t)i * bytes);
  }
  free(taps);
  return status;
}

// ---- load and run ----

static carnot_status* conv_validate(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  CARNOT_TRY(carnot_conv_check_params(step, 3, &p));
  CARNOT_CHECK(p->channels <= CARNOT_CONV_MAX_CHANNELS, INVALID_MODEL, "%lld channels",
               (long long)p->channels);
  CARNOT_CHECK(p->weights == (int32_t)carnot_packed_weights_type(step->tactic), INVALID_MODEL,
               "packed weights of type %d, must be %d", p->weights,
               (int)carnot_packed_weights_type(step->tactic));
  CARNOT_CHECK(carnot_conv_taps(p) <= INT32_MAX, INVALID_MODEL, "a window of %lld elements",
               (long long)carnot_conv_taps(p));
  size_t bytes = carnot_packed_weights_bytes((carnot_weights_type)p->weights, weights_shape(p));
  CARNOT_CHECK(!is_by_planes(p) || weights_shape(p).taps <= CARNOT_RESIDUAL_IN_PLACE_TAPS,
               INVALID_MODEL, "a plane of %lld taps", (long long)weights_shape(p).taps);
  return carnot_conv_check_packed(step, (size_t)(p->group * planes_of(p)) * bytes);
}

typedef struct conv_state {
  carnot_window_geometry geometry;
  carnot_work_partition partition;
  bool is_gemm;  // 1x1: the input's pixels are the rows of a matrix
} conv_state;

// A 1x1 filter of stride 1 over evenly spaced pixels: a plain GEMM.
static bool is_gemm(const carnot_window_geometry* p) {
  bool one = p->r == 1 && p->s == 1 && p->stride_h == 1 && p->stride_w == 1 && !p->pad_h &&
             !p->pad_w && p->p == p->h && p->q == p->w;
  return one && !p->depth.taps && (p->h == 1 || p->src_h == p->src_w * p->w) &&
         (p->n == 1 || p->src_n == p->src_w * p->w * p->h);
}

// Of kernels that convert whole rows of pixels.
static carnot_work_partition partition_of_rows(int threads, const carnot_conv_params* p,
                                               const carnot_window_geometry* g, bool is_split,
                                               bool is_gemm) {
  const int64_t row = is_gemm     ? CARNOT_SPLIT_ROWS
                      : g->p == 1 ? carnot_min_i64(g->q, CARNOT_SPLIT_SEQUENCE_PIECE)
                                  : g->q;
  const int64_t between = (g->r - 1) * g->dilation_h + 1 - g->stride_h;
  const carnot_split_work work = {
      .m = g->n * (g->depth.taps ? g->depth.out : 1) * g->p * g->q,
      .n = p->filters / p->group,
      .depth = p->channels / p->group,
      .taps = carnot_conv_taps(p),
      .row_unit = row,
      .unit_pixels = is_gemm || g->p == 1 ? row * g->stride_w : g->w * g->stride_h,
      .shared = is_gemm ? 0 : carnot_max_i64(0, between) * g->w};
  if (is_split) return carnot_work_partition_make_split(threads, &work);
  return carnot_work_partition_make_tall(threads, work.m, work.n, work.depth * work.taps, row);
}

static carnot_status* conv_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  conv_state* state = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_conv_configure(step, inputs, outputs, &state->geometry));
  const carnot_conv_params* p = step->params;
  const carnot_window_geometry* geometry = &state->geometry;
  int64_t planes = geometry->depth.taps ? geometry->depth.out : 1;
  const int64_t depth = p->channels / p->group, taps = carnot_conv_taps(p),
                pixels = geometry->n * planes * geometry->p * geometry->q;
  state->partition = carnot_work_partition_make_window(step->tactic->isa, step->threads, pixels,
                                                       p->filters / p->group, depth, taps);
  state->is_gemm = is_gemm(geometry);
  // AMX converts the pixels of a part at once.
  const bool is_split = carnot_packed_weights_split((carnot_weights_type)p->weights);
  if (is_split || (step->tactic->isa == CARNOT_ISA_AMX_BF16 && !state->is_gemm && planes == 1))
    state->partition = partition_of_rows(step->threads, p, geometry, is_split, state->is_gemm);
  return NULL;
}

typedef struct conv_run {
  const carnot_cpu_kernels* kernels;
  const carnot_conv_params* params;
  const conv_state* state;
  const carnot_operand *inputs, *outputs;
  const void* weights;
  const float* bias;
} conv_run;

static conv_run make_run(const carnot_step_view* step, const void* state,
                         const carnot_operand* inputs, const carnot_operand* outputs) {
  const carnot_conv_params* p = step->params;
  return (conv_run){
      carnot_cpu_kernels_of(step->tactic->isa), p, state, inputs, outputs, step->constants[0],
      p->has_bias ? step->constants[1] : NULL};
}

// Outputs of a plane whose sums stay in L2 from one plane of the filter to the next: whole rows, so
// many that rows under two pieces are few.
static int64_t outputs_at_once(const carnot_conv2d_f32* c) {
  enum { kBytes = 512 << 10, kLeastRows = 8 };
  const int64_t rows = kBytes / (c->k * (int64_t)sizeof(float) * c->q);
  return carnot_max_i64(c->r * c->s > 1 ? kLeastRows : 1, rows) * c->q;
}

// Outputs [m0, m1) of a 3-D convolution as sums of 2-D ones, one for each plane of the filter that
// is inside. |bytes|: the weights of a plane.
static void conv_by_planes(carnot_conv2d_f32_fn* conv2d, carnot_conv2d_f32 conv, size_t bytes,
                           int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const carnot_conv_depth depth = conv.depth;
  const carnot_epilogue_f32 epilogue = conv.epilogue;
  const float* src = conv.src;
  const char* weights = conv.weights;
  float* dst = conv.dst;
  const int64_t plane = conv.p * conv.q, h = conv.h, piece = outputs_at_once(&conv);
  conv.depth.taps = 0;
  conv.n = 1;
  for (int64_t m = m0, stop; m < m1; m = stop) {
    const int64_t at = m / plane, begin = m - at * plane;
    const int64_t end = carnot_min_i64(carnot_min_i64(m1 - at * plane, plane), begin + piece);
    stop = at * plane + end;
    const int64_t z0 = at % depth.out * depth.stride - depth.pad;
    int64_t last = depth.taps - 1;
    while (last > 0 && (uint64_t)(z0 + last * depth.dilation) >= (uint64_t)depth.in) last--;
    conv.dst = dst + at * plane * conv.ld;
    conv.epilogue.bias = epilogue.bias;
    conv.epilogue.residual =
        epilogue.residual ? epilogue.residual + at * plane * epilogue.residual_ld : NULL;
    conv.epilogue.residual_ld = epilogue.residual_ld;
    for (int64_t tap = 0; tap <= last; tap++) {
      const int64_t z = z0 + tap * depth.dilation;
      const bool inside = (uint64_t)z < (uint64_t)depth.in;
      if (!inside && tap < last) continue;
      conv.h = inside ? h : 0;  // of a filter that is wholly outside: all its taps are padding
      conv.src = inside ? src + at / depth.out * conv.src_n + z * depth.src : src;
      conv.weights = weights + (size_t)tap * bytes;
      conv.epilogue.activation = tap == last ? epilogue.activation : CARNOT_KERNEL_ACTIVATION_NONE;
      conv2d(&conv, begin, end, n0, n1);
      conv.epilogue.bias = NULL;
      conv.epilogue.residual = conv.dst;
      conv.epilogue.residual_ld = conv.ld;
    }
  }
}

static void conv_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const carnot_conv_params* p = run->params;
  const carnot_window_geometry* geometry = &run->state->geometry;
  int64_t per_group = carnot_work_partition_count(&run->state->partition), group = part / per_group;
  int64_t channels = p->channels / p->group, filters = p->filters / p->group;
  carnot_conv2d_f32 conv = {CARNOT_WINDOW_FIELDS(geometry),
                            .c = channels,
                            .k = filters,
                            .depth = geometry->depth,
                            .src_n = geometry->src_n,
                            .src_h = geometry->src_h,
                            .src_w = geometry->src_w,
                            .zeros = carnot_conv_zeros,
                            .ld = geometry->ld};
  conv.src = (const float*)run->inputs[0].data + group * channels;
  conv.dst = (float*)run->outputs[0].data + group * filters;
  const carnot_weights_type type = (carnot_weights_type)p->weights;
  const carnot_packed_weights_shape shape = weights_shape(p);
  const int64_t planes = planes_of(p);
  const size_t bytes = carnot_packed_weights_bytes(type, shape);
  conv.weights = (const char*)run->weights + (size_t)(group * planes) * bytes;
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs,
                            run->bias ? run->bias + group * filters : NULL, &conv.epilogue);
  if (conv.epilogue.residual) conv.epilogue.residual += group * filters;
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&run->state->partition, part % per_group, &m0, &m1, &n0, &n1);
  if (run->state->is_gemm) {
    carnot_gemm_f32 gemm = {.m = run->state->partition.m,
                            .n = filters,
                            .k = channels,
                            .a = conv.src,
                            .lda = geometry->src_w,
                            .b = conv.weights,
                            .c = conv.dst,
                            .ldc = conv.ld,
                            .epilogue = conv.epilogue};
    carnot_packed_weights_gemm(run->kernels, type)(&gemm, m0, m1, n0, n1);
  } else if (is_by_planes(p)) {
    conv_by_planes(carnot_packed_weights_conv2d(run->kernels, type), conv, bytes, m0, m1, n0, n1);
  } else {
    carnot_packed_weights_conv2d(run->kernels, type)(&conv, m0, m1, n0, n1);
  }
  carnot_epilogue_plan_run(run->kernels, &p->epilogue_plan, run->inputs, run->outputs[0].data,
                           geometry->ld, m0, m1, group * filters + n0, group * filters + n1);
}

static carnot_status* conv_run_all(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)workspace;
  conv_run run = make_run(step, state, inputs, outputs);
  carnot_executor_parallel(executor,
                           carnot_work_partition_count(&run.state->partition) * run.params->group,
                           conv_part, &run);
  return NULL;
}

static bool conv_may_share(const carnot_step_view* step, uint32_t input, uint32_t output) {
  const carnot_conv_params* p = step->params;
  const int64_t taps = carnot_conv_taps(p);
  const bool apart = carnot_packed_weights_split((carnot_weights_type)p->weights);
  return taps <= CARNOT_RESIDUAL_IN_PLACE_TAPS && !is_by_planes(p) &&
         (apart || taps * p->channels / p->group <= CARNOT_RESIDUAL_IN_PLACE_DEPTH) &&
         carnot_epilogue_plan_may_share(&p->epilogue_plan, step, input, output);
}

static void conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_weights_type type = carnot_packed_weights_type(problem->tactic);
  const int bytes = type == CARNOT_WEIGHTS_F32 ? 4 : carnot_packed_weights_split(type) ? 6 : 2;
  carnot_conv_work(problem, bytes, out_flops, out_bytes);
}

#define CONV_TACTIC                                                                         \
  .anchor = CARNOT_OP_CONV, .strided_outputs = true, .reject = packed_reject,               \
  .prepare = conv_prepare, .validate = conv_validate, .uses_input = carnot_conv_uses_input, \
  .configure = conv_configure, .run = conv_run_all, .may_share = conv_may_share, .work = conv_work
CARNOT_CPU_TACTICS(conv_f32, CONV_TACTIC);
CARNOT_CPU_SPLIT_TACTICS(conv, CONV_TACTIC);
CARNOT_CPU_F16_TACTICS(conv_f16, CONV_TACTIC);
CARNOT_CPU_BF16_TACTICS(conv_bf16, CONV_TACTIC);
