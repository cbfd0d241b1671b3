// Convolution over channels-last float32 operands: implicit GEMM on packed weights, and depthwise.
#include "backend/cpu/conv.h"

#include <stdlib.h>

#include "backend/cpu/rows.h"
#include "backend/cpu/weights.h"

enum { kMaxZeroChannels = 8192, kMaxFilters = 1 << 16, kLeastPairChannels = 8 };

// Read where a tap falls into the padding.
static const float kZeros[kMaxZeroChannels];

carnot_status* carnot_sliding_window_check(const carnot_sliding_window* w, int low, int high) {
  CARNOT_CHECK(w->rank >= low && w->rank <= high, INVALID_MODEL, "a window of %d dimensions",
               w->rank);
  for (int i = 0; i < w->rank; i++)
    CARNOT_CHECK(w->kernel[i] >= 1 && w->kernel[i] < 1 << 20 && w->strides[i] >= 1 &&
                     w->strides[i] < 1 << 20 && w->dilations[i] >= 1 && w->dilations[i] < 1 << 20 &&
                     w->begin[i] > -(1 << 20) && w->begin[i] < 1 << 20 && w->end[i] > -(1 << 20) &&
                     w->end[i] < 1 << 20 && (unsigned)w->auto_pad <= CARNOT_PAD_VALID,
                 INVALID_MODEL, "the window's dimension %d is out of range", i);
  return NULL;
}

carnot_status* carnot_plane_make(const carnot_sliding_window* window, const carnot_operand* src,
                                 const carnot_operand* dst, carnot_plane* out) {
  CARNOT_CHECK(src->format.dtype == CARNOT_DTYPE_F32 && dst->format.dtype == CARNOT_DTYPE_F32,
               INVALID_MODEL, "operands are not float32");
  return carnot_plane_of(window, src, dst, out);
}

carnot_status* carnot_plane_of(const carnot_sliding_window* window, const carnot_operand* src,
                               const carnot_operand* dst, carnot_plane* out) {
  int rank = src->rank - 2;
  CARNOT_CHECK(rank >= 1 && rank <= 3 && dst->rank == src->rank && window->rank == rank,
               INVALID_MODEL, "a window of %d dimensions over an input of %d", window->rank,
               src->rank);
  CARNOT_CHECK(
      (src->strides[1] == 1 || src->dims[1] == 1) && (dst->strides[1] == 1 || dst->dims[1] == 1),
      INVALID_MODEL, "channels are not innermost");
  carnot_sliding_window w = *window;
  carnot_sliding_window_resolve(&w, src->dims + 2, dst->dims + 2);
  int x = rank + 1, y = rank > 1 ? rank : -1, wx = rank - 1, wy = rank - 2;
  *out = (carnot_plane){
      .n = src->dims[0], .h = y > 0 ? src->dims[y] : 1, .w = src->dims[x], .c = src->dims[1]};
  out->p = y > 0 ? dst->dims[y] : 1, out->q = dst->dims[x], out->k = dst->dims[1];
  out->r = y > 0 ? w.kernel[wy] : 1, out->s = w.kernel[wx];
  out->stride_h = y > 0 ? w.strides[wy] : 1, out->stride_w = w.strides[wx];
  out->dilation_h = y > 0 ? w.dilations[wy] : 1, out->dilation_w = w.dilations[wx];
  out->pad_h = y > 0 ? w.begin[wy] : 0, out->pad_w = w.begin[wx];
  out->pad_h_end = y > 0 ? w.end[wy] : 0, out->pad_w_end = w.end[wx];
  if (rank == 3)
    out->depth = (carnot_conv_depth){.taps = w.kernel[0],
                                     .in = src->dims[2],
                                     .out = dst->dims[2],
                                     .stride = w.strides[0],
                                     .dilation = w.dilations[0],
                                     .pad = w.begin[0],
                                     .src = src->strides[2]};
  int64_t planes = rank == 3 ? dst->dims[2] : 1;
  out->src_n = src->strides[0], out->src_w = src->strides[x];
  out->src_h = y > 0 ? src->strides[y] : src->strides[x] * src->dims[x];
  out->ld = dst->strides[x];
  CARNOT_CHECK(dst->dims[0] == out->n, INVALID_MODEL, "batches of %lld and %lld", (long long)out->n,
               (long long)dst->dims[0]);
  bool rows_join = y < 0 || dst->dims[y] == 1 || dst->strides[y] == out->ld * out->q;
  bool planes_join = planes == 1 || dst->strides[2] == out->ld * out->q * out->p;
  bool images_join = out->n == 1 || dst->strides[0] == out->ld * out->q * out->p * planes;
  CARNOT_CHECK(rows_join && planes_join && images_join, INVALID_MODEL,
               "the result's pixels are not evenly spaced");
  return NULL;
}

static const carnot_plan_node* anchor_of(const carnot_problem* problem) {
  return &problem->region->nodes[0];
}

const char* carnot_conv_describe(const carnot_problem* problem, carnot_conv_params* out,
                                 float* bias, char* reason, size_t size) {
  *out = (carnot_conv_params){.group = 1};
  const carnot_plan_node* node = anchor_of(problem);
  if (node->op != CARNOT_OP_CONV || node->inputs[0] != 0 || node->inputs[1] >= problem->input_count)
    return "the region does not begin with its convolution";
  const carnot_operand_desc *x = &problem->inputs[0], *w = &problem->inputs[node->inputs[1]];
  const char* why = carnot_not_f32(x, "the input", 3, 5, reason, size);
  if (why) return why;
  if (!carnot_is_f32_constant(w) || w->rank != x->rank)
    return "the weights are not constant float32";
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_CONV);
  carnot_type weights = {.kind = CARNOT_VALUE_TENSOR, .rank = w->rank};
  for (int i = 0; i < w->rank; i++) weights.dims[i] = carnot_sym_of(w->dims[i]);
  carnot_status* status =
      carnot_sliding_window_read(row, &node->attrs, x->rank - 2, &weights, &out->window);
  if (status) {
    carnot_because(reason, size, "%s", carnot_status_message(status));
    carnot_status_free(status);
    return reason;
  }
  out->group = carnot_attr_int(row, &node->attrs, "group");
  out->filters = w->dims[0];
  out->channels = w->dims[1] * out->group;
  if (x->dims[1] >= 0 && x->dims[1] != out->channels)
    return carnot_because(reason, size, "the input has %lld channels, the weights are for %lld",
                          (long long)x->dims[1], (long long)out->channels);
  if (out->filters > kMaxFilters)
    return carnot_because(reason, size, "%lld filters, takes up to %d", (long long)out->filters,
                          kMaxFilters);
  memset(bias, 0, (size_t)out->filters * sizeof(*bias));
  bool has_bias = node->input_count > 2 && node->inputs[2] != CARNOT_PLAN_NONE;
  if (has_bias) {
    const carnot_operand_desc* b = &problem->inputs[node->inputs[2]];
    if (node->inputs[2] >= problem->input_count || !carnot_is_f32_constant(b))
      return "the bias is not constant float32";
    memcpy(bias, b->tensor->data, (size_t)out->filters * sizeof(*bias));
  }
  why = carnot_tail_make(problem, x->rank - 1, bias, out->filters, &has_bias, &out->tail, reason,
                         size);
  out->has_bias = has_bias;
  return why;
}

static void want_channels_last(carnot_problem* problem, const carnot_conv_params* p) {
  problem->inputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  for (uint32_t i = 1; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  if (p->tail.residual >= 0)
    problem->inputs[p->tail.residual].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  for (int i = 0; i < p->tail.operand_count; i++)
    if (p->tail.operands[i].shape == CARNOT_TAIL_FULL)
      problem->inputs[p->tail.operands[i].input].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
}

static bool is_depthwise(const carnot_conv_params* p) {
  return p->group == p->channels && p->filters == p->channels && p->group > 1;
}

// describe with memory of its own for the bias.
static const char* describe(carnot_problem* problem, carnot_conv_params* p, char* reason,
                            size_t size) {
  const carnot_plan_node* node = anchor_of(problem);
  if (node->input_count < 2 || node->inputs[1] >= problem->input_count) return "no weights";
  const carnot_operand_desc* w = &problem->inputs[node->inputs[1]];
  if (w->rank < 1 || w->dims[0] < 1 || w->dims[0] > kMaxFilters)
    return "the number of filters is not fixed";
  float* bias = malloc((size_t)w->dims[0] * sizeof(float));
  if (!bias) return "no memory";
  const char* why = carnot_conv_describe(problem, p, bias, reason, size);
  free(bias);
  if (!why) want_channels_last(problem, p);
  return why;
}

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_conv_params p;
  const char* why = describe(problem, &p, reason, size);
  if (why) return why;
  if (is_depthwise(&p) && p.window.rank < 3) return "a depthwise convolution has a row of its own";
  if (p.channels > kMaxZeroChannels)
    return carnot_because(reason, size, "%lld channels, takes up to %d", (long long)p.channels,
                          kMaxZeroChannels);
  return NULL;
}

static const char* reject_as(carnot_problem* problem, carnot_dtype dtype, char* reason,
                             size_t size) {
  const char* why = conv_reject(problem, reason, size);
  if (why) return why;
  const carnot_operand_desc* w = &problem->inputs[anchor_of(problem)->inputs[1]];
  if (dtype == CARNOT_DTYPE_BF16 && w->dims[1] < kLeastPairChannels)
    return carnot_because(reason, size, "%lld channels a tap, takes %d and more",
                          (long long)w->dims[1], kLeastPairChannels);
  return carnot_weights_reject(problem, w->tensor, dtype, reason, size);
}

static const char* conv_f16_reject(carnot_problem* problem, char* reason, size_t size) {
  return reject_as(problem, CARNOT_DTYPE_F16, reason, size);
}
static const char* conv_bf16_reject(carnot_problem* problem, char* reason, size_t size) {
  return reject_as(problem, CARNOT_DTYPE_BF16, reason, size);
}

static const char* depthwise_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_conv_params p;
  const char* why = describe(problem, &p, reason, size);
  if (why) return why;
  if (p.window.rank > 2) return "a window of three dimensions";
  if (!is_depthwise(&p))
    return carnot_because(reason, size, "group is %lld of %lld channels", (long long)p.group,
                          (long long)p.channels);
  return NULL;
}

// ---- prepare ----

static carnot_status* prepare_common(const carnot_problem* problem, carnot_prepared* out,
                                     carnot_conv_params** out_params) {
  const carnot_operand_desc* w = &problem->inputs[anchor_of(problem)->inputs[1]];
  void *bias, *params;
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)carnot_align_up((size_t)w->dims[0], 16),
                              sizeof(float), "a bias", &bias));
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(carnot_conv_params), "parameters", &params));
  char reason[256];
  const char* why = carnot_conv_describe(problem, params, bias, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  *out_params = params;
  out->params = params;
  out->param_bytes = sizeof(carnot_conv_params);
  out->constants[1].packing = "dense f32";
  out->constants[1].data = bias;
  out->constants[1].bytes = carnot_align_up((size_t)w->dims[0], 16) * sizeof(float);
  out->constant_count = 2;
  const carnot_plan_node* node = anchor_of(problem);
  out->packed_inputs = (uint64_t)1 << node->inputs[1];
  if (node->input_count > 2 && node->inputs[2] != CARNOT_PLAN_NONE)
    out->packed_inputs |= (uint64_t)1 << node->inputs[2];
  return NULL;
}

static int64_t taps_of(const carnot_operand_desc* w) {
  return carnot_dims_count(w->dims + 2, w->rank - 2);
}

static carnot_status* take_packed(carnot_prepared* out, carnot_dtype dtype, size_t bytes,
                                  void** packed) {
  CARNOT_TRY(carnot_arena_try(out->arena, bytes + 64, 1, "packed weights", packed));
  *packed = (void*)carnot_align_up((uintptr_t)*packed, 64);
  out->constants[0].packing = carnot_weights_packing(dtype);
  out->constants[0].data = *packed;
  out->constants[0].bytes = bytes;
  return NULL;
}

static carnot_weights_shape weights_shape(const carnot_conv_params* p, int64_t taps) {
  return (carnot_weights_shape){taps, p->channels / p->group, p->filters / p->group};
}

static carnot_status* prepare_as(const carnot_problem* problem, carnot_dtype dtype,
                                 carnot_prepared* out) {
  carnot_conv_params* p;
  CARNOT_TRY(prepare_common(problem, out, &p));
  p->weights = (int32_t)dtype;
  const carnot_operand_desc* w = &problem->inputs[anchor_of(problem)->inputs[1]];
  const carnot_weights_shape shape = weights_shape(p, taps_of(w));
  size_t bytes = carnot_weights_bytes(dtype, shape);
  void *packed, *wide;
  CARNOT_TRY(take_packed(out, dtype, bytes * (size_t)p->group, &packed));
  CARNOT_TRY(carnot_calloc(1, carnot_weights_bytes(CARNOT_DTYPE_F32, shape),
                           "weights before packing", &wide));
  const float* weights = w->tensor->data;
  for (int64_t g = 0; g < p->group; g++) {
    char* to = (char*)packed + (size_t)g * bytes;
    bool half = dtype != CARNOT_DTYPE_F32;
    carnot_pack_conv_k1n16_f32(shape.n, shape.depth, shape.taps,
                               weights + g * shape.n * shape.depth * shape.taps, half ? wide : to);
    if (half) carnot_weights_pack(dtype, shape, wide, to);
  }
  free(wide);
  return NULL;
}

static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare_as(problem, CARNOT_DTYPE_F32, out);
}
static carnot_status* conv_f16_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare_as(problem, CARNOT_DTYPE_F16, out);
}
static carnot_status* conv_bf16_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return prepare_as(problem, CARNOT_DTYPE_BF16, out);
}

static carnot_status* depthwise_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_conv_params* p;
  CARNOT_TRY(prepare_common(problem, out, &p));
  const carnot_operand_desc* w = &problem->inputs[anchor_of(problem)->inputs[1]];
  int64_t taps = taps_of(w);
  void* packed;
  p->weights = CARNOT_DTYPE_F32;
  size_t bytes = (size_t)carnot_packed_k1n16_count(taps, p->channels) * sizeof(float);
  CARNOT_TRY(take_packed(out, CARNOT_DTYPE_F32, bytes, &packed));
  carnot_pack_k1n16_f32(taps, p->channels, w->tensor->data, 1, taps, packed);
  return NULL;
}

// ---- load and run ----

static carnot_status* check_params(const carnot_step_view* step, int most_dims,
                                   const carnot_conv_params** out) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_conv_params) && step->constant_count == 2,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and 2",
               step->param_bytes, step->constant_count, sizeof(carnot_conv_params));
  const carnot_conv_params* p = step->params;
  CARNOT_CHECK(step->region->nodes[0].op == CARNOT_OP_CONV && step->input_count >= 2, INVALID_MODEL,
               "the step holds no convolution");
  CARNOT_TRY(carnot_sliding_window_check(&p->window, 1, most_dims));
  CARNOT_CHECK(p->group >= 1 && p->channels >= 1 && p->filters >= 1 && p->channels <= INT32_MAX &&
                   p->filters <= kMaxFilters && p->channels % p->group == 0 &&
                   p->filters % p->group == 0,
               INVALID_MODEL, "%lld channels, %lld filters, %lld groups", (long long)p->channels,
               (long long)p->filters, (long long)p->group);
  CARNOT_CHECK(step->constant_bytes[1] >= (size_t)p->filters * sizeof(float), INVALID_MODEL,
               "the bias has %zu bytes", step->constant_bytes[1]);
  *out = p;
  return carnot_tail_check(&p->tail, step->input_count);
}

static carnot_status* check_packed(const carnot_step_view* step, size_t bytes) {
  CARNOT_CHECK(step->constant_bytes[0] == bytes, INVALID_MODEL,
               "the packed weights have %zu bytes, must have %zu", step->constant_bytes[0], bytes);
  return NULL;
}

static int64_t kernel_taps(const carnot_conv_params* p) {
  return carnot_dims_count(p->window.kernel, p->window.rank);
}

static carnot_status* conv_check(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  CARNOT_TRY(check_params(step, 3, &p));
  CARNOT_CHECK(p->channels <= kMaxZeroChannels, INVALID_MODEL, "%lld channels",
               (long long)p->channels);
  CARNOT_CHECK(carnot_weights_known((carnot_dtype)p->weights), INVALID_MODEL,
               "packed weights of type %d", p->weights);
  CARNOT_CHECK(kernel_taps(p) <= INT32_MAX, INVALID_MODEL, "a window of %lld elements",
               (long long)kernel_taps(p));
  size_t bytes = carnot_weights_bytes((carnot_dtype)p->weights, weights_shape(p, kernel_taps(p)));
  return check_packed(step, (size_t)p->group * bytes);
}

static carnot_status* depthwise_check(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  CARNOT_TRY(check_params(step, 2, &p));
  CARNOT_CHECK(is_depthwise(p), INVALID_MODEL, "%lld groups of %lld channels are not depthwise",
               (long long)p->group, (long long)p->channels);
  return check_packed(
      step, (size_t)carnot_packed_k1n16_count(kernel_taps(p), p->channels) * sizeof(float));
}

// Weights and bias come packed.
static bool conv_reads(const carnot_step_view* step, uint32_t input) {
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_conv_params* p = step->params;
  if (input == 0 || carnot_tail_reads(&p->tail, input)) return true;
  return !((node->input_count > 1 && node->inputs[1] == input) ||
           (node->input_count > 2 && node->inputs[2] == input));
}

typedef struct conv_state {
  carnot_plane plane;
  carnot_grid grid;
  bool is_product;                   // the input's pixels are the rows of a matrix
  int64_t rows_per_part, row_count;  // depthwise
} conv_state;

static carnot_status* shape_common(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, conv_state* state) {
  const carnot_conv_params* p = step->params;
  CARNOT_TRY(carnot_plane_make(&p->window, &inputs[0], &outputs[0], &state->plane));
  const carnot_plane* plane = &state->plane;
  CARNOT_CHECK(plane->c == p->channels && plane->k == p->filters, INVALID_ARGUMENT,
               "%lld channels give %lld, packed are %lld and %lld", (long long)plane->c,
               (long long)plane->k, (long long)p->channels, (long long)p->filters);
  return carnot_tail_shapes(&p->tail, inputs, &outputs[0], p->filters);
}

// A filter of one tap over pixels that are evenly spaced, one for one: no window to walk.
static bool is_product(const carnot_plane* p) {
  bool one = p->r == 1 && p->s == 1 && p->stride_h == 1 && p->stride_w == 1 && !p->pad_h &&
             !p->pad_w && p->p == p->h && p->q == p->w;
  return one && !p->depth.taps && (p->h == 1 || p->src_h == p->src_w * p->w) &&
         (p->n == 1 || p->src_n == p->src_w * p->w * p->h);
}

static carnot_status* conv_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* memory,
                                 size_t* out_workspace_bytes) {
  conv_state* state = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(shape_common(step, inputs, outputs, state));
  const carnot_conv_params* p = step->params;
  const carnot_plane* plane = &state->plane;
  int64_t planes = plane->depth.taps ? plane->depth.out : 1;
  int64_t k = p->channels / p->group * kernel_taps(p);
  state->grid = carnot_grid_cut(step->tactic->isa, plane->n * planes * plane->p * plane->q,
                                p->filters / p->group, k);
  state->is_product = is_product(plane);
  return NULL;
}

static carnot_status* depthwise_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* memory,
                                      size_t* out_workspace_bytes) {
  conv_state* state = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(shape_common(step, inputs, outputs, state));
  const carnot_plane* plane = &state->plane;
  state->row_count = plane->n * plane->p;
  state->rows_per_part =
      carnot_rows_per_part(state->row_count, plane->q * plane->c * plane->r * plane->s);
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

static void conv_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const carnot_conv_params* p = run->params;
  const carnot_plane* plane = &run->state->plane;
  int64_t per_group = carnot_grid_count(&run->state->grid), group = part / per_group;
  int64_t channels = p->channels / p->group, filters = p->filters / p->group;
  carnot_conv2d_f32 conv = {.n = plane->n,
                            .h = plane->h,
                            .w = plane->w,
                            .c = channels,
                            .p = plane->p,
                            .q = plane->q,
                            .k = filters,
                            .r = plane->r,
                            .s = plane->s,
                            .stride_h = plane->stride_h,
                            .stride_w = plane->stride_w,
                            .dilation_h = plane->dilation_h,
                            .dilation_w = plane->dilation_w,
                            .pad_h = plane->pad_h,
                            .pad_w = plane->pad_w,
                            .depth = plane->depth,
                            .src_n = plane->src_n,
                            .src_h = plane->src_h,
                            .src_w = plane->src_w,
                            .zeros = kZeros,
                            .ld = plane->ld};
  conv.src = (const float*)run->inputs[0].data + group * channels;
  conv.dst = (float*)run->outputs[0].data + group * filters;
  const carnot_dtype dtype = (carnot_dtype)p->weights;
  const carnot_weights_shape shape = weights_shape(p, kernel_taps(p));
  conv.weights = (const char*)run->weights + (size_t)group * carnot_weights_bytes(dtype, shape);
  carnot_tail_epilogue(&p->tail, run->inputs, run->bias ? run->bias + group * filters : NULL,
                       &conv.epilogue);
  if (conv.epilogue.residual) conv.epilogue.residual += group * filters;
  int64_t m0, m1, n0, n1;
  carnot_grid_part(&run->state->grid, part % per_group, &m0, &m1, &n0, &n1);
  if (run->state->is_product) {
    carnot_gemm_f32 gemm = {.m = run->state->grid.m,
                            .n = filters,
                            .k = channels,
                            .a = conv.src,
                            .lda = plane->src_w,
                            .b = conv.weights,
                            .c = conv.dst,
                            .ldc = conv.ld,
                            .epilogue = conv.epilogue};
    carnot_weights_gemm(run->kernels, dtype)(&gemm, m0, m1, n0, n1);
  } else {
    carnot_weights_conv2d(run->kernels, dtype)(&conv, m0, m1, n0, n1);
  }
  carnot_tail_run(run->kernels, &p->tail, run->inputs, run->outputs[0].data, plane->ld, m0, m1,
                  group * filters + n0, group * filters + n1);
}

static carnot_status* conv_run_all(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)workspace;
  conv_run run = make_run(step, state, inputs, outputs);
  carnot_executor_parallel(executor, carnot_grid_count(&run.state->grid) * run.params->group,
                           conv_part, &run);
  return NULL;
}

static void depthwise_part(void* argument, int64_t part) {
  const conv_run* run = argument;
  const carnot_plane* plane = &run->state->plane;
  carnot_depthwise_f32 conv = {.n = plane->n,
                               .h = plane->h,
                               .w = plane->w,
                               .c = plane->c,
                               .p = plane->p,
                               .q = plane->q,
                               .r = plane->r,
                               .s = plane->s,
                               .stride_h = plane->stride_h,
                               .stride_w = plane->stride_w,
                               .dilation_h = plane->dilation_h,
                               .dilation_w = plane->dilation_w,
                               .pad_h = plane->pad_h,
                               .pad_w = plane->pad_w,
                               .src = run->inputs[0].data,
                               .src_n = plane->src_n,
                               .src_h = plane->src_h,
                               .src_w = plane->src_w,
                               .weights = run->weights,
                               .dst = run->outputs[0].data,
                               .ld = plane->ld};
  carnot_tail_epilogue(&run->params->tail, run->inputs, run->bias, &conv.epilogue);
  int64_t row0 = part * run->state->rows_per_part;
  int64_t row1 = carnot_min_i64(row0 + run->state->rows_per_part, run->state->row_count);
  run->kernels->depthwise_f32(&conv, row0, row1);
  carnot_tail_run(run->kernels, &run->params->tail, run->inputs, conv.dst, plane->ld,
                  row0 * plane->q, row1 * plane->q, 0, plane->c);
}

static carnot_status* depthwise_run(const carnot_step_view* step, void* state,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  (void)workspace;
  conv_run run = make_run(step, state, inputs, outputs);
  carnot_executor_parallel(executor, carnot_ceildiv(run.state->row_count, run.state->rows_per_part),
                           depthwise_part, &run);
  return NULL;
}

static void work_with(const carnot_problem* problem, double weight_bytes, double* out_flops,
                      double* out_bytes) {
  const carnot_operand_desc* w = &problem->inputs[anchor_of(problem)->inputs[1]];
  const carnot_operand_desc* y = &problem->outputs[0];
  double pixels =
      (double)carnot_dims_count(y->dims, y->rank) / (double)carnot_max_i64(1, y->dims[1]);
  double weights = (double)carnot_dims_count(w->dims, w->rank);
  *out_flops = 2 * pixels * weights;
  *out_bytes = weight_bytes * weights +
               4 * ((double)carnot_dims_count(problem->inputs[0].dims, problem->inputs[0].rank) +
                    pixels * (double)y->dims[1]);
}

static void conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  work_with(problem, 4, out_flops, out_bytes);
}
static void half_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  work_with(problem, 2, out_flops, out_bytes);
}

#define CONV_ROW                                                             \
  .anchor = CARNOT_OP_CONV, .strided_outputs = true, .validate = conv_check, \
  .uses_input = conv_reads, .configure = conv_shape, .run = conv_run_all
CARNOT_CPU_ROWS(conv_f32, CONV_ROW, .reject = conv_reject, .prepare = conv_prepare,
                .work = conv_work);
CARNOT_CPU_F16_ROWS(conv_f16, CONV_ROW, .reject = conv_f16_reject, .prepare = conv_f16_prepare,
                    .work = half_work);
CARNOT_CPU_BF16_ROWS(conv_bf16, CONV_ROW, .reject = conv_bf16_reject, .prepare = conv_bf16_prepare,
                     .work = half_work);
CARNOT_CPU_ROWS(depthwise_f32, .anchor = CARNOT_OP_CONV, .strided_outputs = true,
                .reject = depthwise_reject, .prepare = depthwise_prepare,
                .validate = depthwise_check, .uses_input = conv_reads, .configure = depthwise_shape,
                .run = depthwise_run, .work = conv_work);
