// Pooling and direct convolution by own kernels over any layout.
#include "backend/cuda/window.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Kernels count places of an axis in 32 bits.
static carnot_status* check_reach(const carnot_cuda_window* w, int d) {
  const int64_t most = 1 << 30, all[] = {w->in[d],    w->out[d],      w->kernel[d], w->step[d],
                                         w->begin[d], w->dilation[d], w->end[d]};
  bool fits = true;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
    fits = fits && all[i] <= most && all[i] >= -most;
  // Products of two such numbers fit into 64 bits.
  CARNOT_CHECK(fits && w->kernel[d] * w->dilation[d] <= most && w->out[d] * w->step[d] <= most,
               UNSUPPORTED,
               "a window of %lld places %lld apart, %lld steps of %lld: takes up to 2^30 places",
               (long long)w->kernel[d], (long long)w->dilation[d], (long long)w->out[d],
               (long long)w->step[d]);
  return NULL;
}

carnot_status* carnot_cuda_window_make(const carnot_plan_node* node, const carnot_operand* x,
                                       const carnot_operand* weights, const carnot_operand* y,
                                       carnot_cuda_window* out) {
  int rank = x->rank - 2;
  CARNOT_CHECK(rank >= 1 && rank <= 3 && y->rank == x->rank && x->format.dtype == y->format.dtype &&
                   y->dims[0] == x->dims[0],
               INVALID_ARGUMENT, "a window over ranks %d and %d", x->rank, y->rank);
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .rank = weights ? weights->rank : 0};
  for (int d = 0; weights && d < weights->rank; d++) type.dims[d] = carnot_sym_of(weights->dims[d]);
  carnot_sliding_window w;
  CARNOT_TRY(carnot_sliding_window_read(carnot_op_get(node->op), &node->attrs, rank,
                                        weights ? &type : NULL, &w));
  carnot_sliding_window_resolve(&w, x->dims + 2, y->dims + 2);
  *out = (carnot_cuda_window){.n = x->dims[0],
                              .channels = x->dims[1],
                              .filters = y->dims[1],
                              .groups = 1,
                              .x_n = x->strides[0],
                              .x_c = x->strides[1],
                              .y_n = y->strides[0],
                              .y_c = y->strides[1]};
  for (int d = 0; d < 3; d++) {
    int at = d - (3 - rank);
    out->in[d] = at < 0 ? 1 : x->dims[at + 2];
    out->out[d] = at < 0 ? 1 : y->dims[at + 2];
    out->x_s[d] = at < 0 ? 0 : x->strides[at + 2];
    out->y_s[d] = at < 0 ? 0 : y->strides[at + 2];
    out->kernel[d] = at < 0 ? 1 : w.kernel[at];
    out->step[d] = at < 0 ? 1 : w.strides[at];
    out->dilation[d] = at < 0 ? 1 : w.dilations[at];
    out->begin[d] = at < 0 ? 0 : w.begin[at];
    out->end[d] = at < 0 ? 0 : w.end[at];
    CARNOT_CHECK(out->kernel[d] > 0 && out->step[d] > 0 && out->dilation[d] > 0, INVALID_MODEL,
                 "a window of size or step 0");
    CARNOT_TRY(check_reach(out, d));
  }
  return NULL;
}

bool carnot_cuda_window_within(const carnot_plan_node* node, const carnot_operand_desc* weights,
                               int64_t reach, int64_t step) {
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .rank = weights->rank};
  for (int d = 0; d < weights->rank; d++) type.dims[d] = carnot_sym_of(weights->dims[d]);
  carnot_sliding_window w;
  carnot_status* status = carnot_sliding_window_read(carnot_op_get(node->op), &node->attrs,
                                                     weights->rank - 2, &type, &w);
  bool within = !status;
  carnot_status_free(status);
  for (int d = 0; within && d < w.rank; d++)
    within = w.strides[d] <= step && w.dilations[d] <= reach &&
             (w.kernel[d] - 1) * w.dilations[d] <= reach && w.begin[d] <= reach &&
             w.end[d] <= reach && w.begin[d] >= 0 && w.end[d] >= 0;
  return within;
}

typedef struct window_state {
  CUfunction function;
  carnot_cuda_window params;
  int64_t count;
  uint32_t weights, bias;
  carnot_cuda_conv_cast cast;
  carnot_cuda_chain_state chain;
} window_state;
_Static_assert(sizeof(window_state) <= CARNOT_STATE_BYTES, "the state has its size");

static carnot_status* find_kernel(const carnot_step_view* step, const char* family,
                                  carnot_dtype dtype, CUfunction* out) {
  char name[32];
  CARNOT_CHECK(carnot_cuda_type(dtype), INVALID_MODEL, "no kernel %s for %s", family,
               carnot_dtype_name(dtype));
  snprintf(name, sizeof(name), "%s_%s", family, carnot_cuda_type(dtype));
  return carnot_cuda_kernel(carnot_cuda_of_step(step), name, out);
}

// ---- pooling ----

static const char* pool_reject(carnot_problem* problem, char* reason, size_t size) {
  bool most = carnot_cuda_is_single(problem, CARNOT_OP_MAX_POOL);
  if (!most && !carnot_cuda_is_single(problem, CARNOT_OP_AVERAGE_POOL) &&
      !carnot_cuda_is_single(problem, CARNOT_OP_LP_POOL))
    return "";
  const carnot_operand_desc* x = &problem->inputs[0];
  bool bytes = most && (x->format.dtype == CARNOT_DTYPE_I8 || x->format.dtype == CARNOT_DTYPE_U8);
  const char* why = bytes ? NULL : carnot_cuda_not_real(x, reason, size);
  if (why) return why;
  if (x->rank < 3 || x->rank > 5)
    return carnot_cuda_because(reason, size, "rank %d, takes 3 to 5", x->rank);
  if (problem->region->nodes[0].outputs[0] == CARNOT_PLAN_NONE)
    return "only the places of the maxima are wanted";
  problem->outputs[0].format.layout = x->format.layout;
  if (problem->output_count > 1) carnot_cuda_want_row_major(problem);
  return NULL;
}

// Halves of channels that lie next to one another, read by 16 bytes.
static bool takes_eights(const carnot_operand* x, const carnot_operand* y,
                         const carnot_cuda_window* p) {
  int64_t bits = p->channels | p->x_n | p->y_n;
  for (int d = 0; d < 3; d++) bits |= p->x_s[d] | p->y_s[d];
  return carnot_cuda_is_half(x->format.dtype) && p->x_c == 1 && p->y_c == 1 && bits % 8 == 0 &&
         ((uintptr_t)x->data | (uintptr_t)y->data) % 16 == 0;
}

static carnot_status* pool_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_TRY(carnot_cuda_on_device(inputs, 1));
  CARNOT_TRY(carnot_cuda_on_device(outputs, step->output_count));
  window_state* s = state;
  *s = (window_state){.count = carnot_dims_count(outputs[0].dims, outputs[0].rank)};
  CARNOT_CHECK(
      step->output_count < 2 || (outputs[1].format.dtype == CARNOT_DTYPE_I64 &&
                                 carnot_dims_count(outputs[1].dims, outputs[1].rank) == s->count),
      INVALID_ARGUMENT, "the places of %lld maxima have another size or type", (long long)s->count);
  CARNOT_TRY(carnot_cuda_window_make(node, &inputs[0], NULL, &outputs[0], &s->params));
  CARNOT_CHECK(s->params.filters == s->params.channels, INVALID_ARGUMENT, "channels differ");
  const carnot_op_row* row = carnot_op_get(node->op);
  s->params.average = node->op == CARNOT_OP_AVERAGE_POOL;
  if (s->params.average)
    s->params.count_padding = carnot_attr_int(row, &node->attrs, "count_include_pad") != 0;
  if (node->op == CARNOT_OP_LP_POOL) {
    s->params.power = (int)carnot_attr_int(row, &node->attrs, "p");
    CARNOT_CHECK(s->params.power > 0, INVALID_MODEL, "p is %d", s->params.power);
  }
  if (step->output_count > 1)
    s->params.column_major = carnot_attr_int(row, &node->attrs, "storage_order") != 0;
  bool eights = !s->params.power && step->output_count < 2 &&
                takes_eights(&inputs[0], &outputs[0], &s->params);
  if (eights) s->count /= 8;
  return find_kernel(step, eights ? "pool_eight" : "pool", inputs[0].format.dtype, &s->function);
}

static carnot_status* pool_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  window_state* s = state;
  s->params.x = inputs[0].data, s->params.y = outputs[0].data;
  s->params.places = step->output_count > 1 ? outputs[1].data : NULL;
  return carnot_cuda_launch_each(step, s->function, s->count, &s->params);
}

const carnot_tactic carnot_cuda_pool_row = {.name = "cuda_pool",
                                            .anchor = CARNOT_OP_COUNT,
                                            .numerics = CARNOT_NUMERICS_EXACT,
                                            .device = true,
                                            .strided_outputs = true,
                                            .reject = pool_reject,
                                            .configure = pool_shape,
                                            .run = pool_run};

// ---- convolution ----

const char* carnot_cuda_conv_read(const carnot_region* region, uint32_t input_count,
                                  const bool* channel, const bool* whole, carnot_cuda_takes takes,
                                  carnot_cuda_conv* out, char* reason, size_t size) {
  const carnot_plan_node* node = carnot_cuda_conv_node(region);
  bool casts = carnot_cuda_conv_casts(region);
  if (node->op != CARNOT_OP_CONV) return "";
  *out = (carnot_cuda_conv){.bias = CARNOT_PLAN_NONE, .residual = CARNOT_PLAN_NONE};
  out->weights = node->inputs[1];
  uint32_t x = casts ? region->nodes[0].inputs[0] : node->inputs[0];
  if (x != 0 || (casts && node->inputs[0] != region->nodes[0].outputs[0]) ||
      out->weights >= input_count)
    return "no operands";
  if (node->input_count > 2) out->bias = node->inputs[2];
  if (out->bias != CARNOT_PLAN_NONE && out->bias >= input_count) return "no operands";
  uint32_t acc = node->outputs[0], next = casts + 1;
  for (; next < region->node_count && carnot_cuda_is_fn(&region->nodes[next], CARNOT_FN_ADD);
       next++) {
    const carnot_plan_node* add = &region->nodes[next];
    uint32_t other = add->inputs[0] == acc ? add->inputs[1] : add->inputs[0];
    if (add->inputs[0] == add->inputs[1] || other >= input_count) break;
    if (channel[other] && out->bias == CARNOT_PLAN_NONE && out->residual == CARNOT_PLAN_NONE)
      out->bias = other;
    else if (whole[other] && takes >= CARNOT_CUDA_TAKES_RESIDUAL &&
             out->residual == CARNOT_PLAN_NONE)
      out->residual = other;
    else
      break;
    acc = add->outputs[0];
  }
  if (takes != CARNOT_CUDA_TAKES_BIAS && next < region->node_count) {
    carnot_cuda_epilogue e = carnot_cuda_epilogue_of(&region->nodes[next]);
    // cuDNN's engines with a clip at both ends took 20 to 100 times as long.
    bool relu = e.kind == CARNOT_CUDA_CLAMP && e.low == 0 && e.high == INFINITY;
    bool in_library = e.kind == CARNOT_CUDA_SILU || relu;
    if (e.kind && (in_library || takes != CARNOT_CUDA_TAKES_RESIDUAL)) {
      out->activation = e;
      acc = region->nodes[next++].outputs[0];
    }
  }
  return carnot_cuda_chain_make(region, input_count, next, acc, &out->chain, reason, size);
}

// [K,1,..] that meets [N,K,..] along its channels.
static bool is_channel(int rank, const int64_t* dims, int y_rank, int64_t filters) {
  int at = rank - (y_rank - 1);
  for (int d = 0; d < rank; d++)
    if (dims[d] != (d == at ? filters : 1)) return false;
  return at >= 0;
}

const char* carnot_cuda_conv_describe(const carnot_problem* problem, carnot_cuda_takes takes,
                                      carnot_cuda_conv* out, char* reason, size_t size) {
  bool channel[64] = {false}, whole[64] = {false};
  if (problem->input_count > 64) return "too many operands";
  if (carnot_cuda_conv_node(problem->region)->op != CARNOT_OP_CONV) return "";
  const carnot_operand_desc* y = &problem->outputs[0];
  for (uint32_t i = 0; i < problem->input_count; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    if (t->format.dtype != y->format.dtype || t->rank < 0 || y->rank < 2) continue;
    channel[i] = t->is_constant && is_channel(t->rank, t->dims, y->rank, y->dims[1]);
    whole[i] = !t->is_constant && t->rank == y->rank;
    for (int d = 0; whole[i] && d < y->rank; d++)
      whole[i] = t->dims[d] == y->dims[d] && t->min[d] == y->min[d] && t->max[d] == y->max[d];
  }
  return carnot_cuda_conv_read(problem->region, problem->input_count, channel, whole, takes, out,
                               reason, size);
}

const char* carnot_cuda_conv_packs(const carnot_problem* problem, carnot_cuda_takes takes,
                                   bool groups, carnot_cuda_conv* out, char* reason, size_t size) {
  const char* why = carnot_cuda_conv_describe(problem, takes, out, reason, size);
  if (why) return why;
  const carnot_plan_node* node = carnot_cuda_conv_node(problem->region);
  const carnot_operand_desc x = carnot_cuda_conv_input(problem),
                            *w = &problem->inputs[out->weights];
  if (x.rank != 4 || w->rank != 4) return carnot_cuda_because(reason, size, "rank %d", x.rank);
  if (w->format.dtype != x.format.dtype || !carnot_is_known(w))
    return "the weights are not constant";
  if (!groups && carnot_attr_int(carnot_op_get(node->op), &node->attrs, "group") != 1)
    return "groups";
  return NULL;
}

void carnot_cuda_conv_want_channels_last(carnot_problem* problem, uint32_t first) {
  carnot_cuda_want_row_major(problem);
  problem->outputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  for (uint32_t i = first; i < problem->input_count; i++)
    if (!problem->inputs[i].is_constant)
      problem->inputs[i].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
}

carnot_status* carnot_cuda_conv_of_step(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, carnot_cuda_takes takes,
                                        carnot_cuda_conv* out) {
  bool channel[64] = {false}, whole[64] = {false};
  CARNOT_CHECK(step->input_count <= 64, INVALID_MODEL, "%u operands", step->input_count);
  const carnot_operand* y = &outputs[0];
  for (uint32_t i = 0; i < step->input_count; i++) {
    const carnot_operand* t = &inputs[i];
    if (t->format.dtype != y->format.dtype || y->rank < 2) continue;
    channel[i] = is_channel(t->rank, t->dims, y->rank, y->dims[1]);
    whole[i] = t->rank == y->rank && !channel[i];
    for (int d = 0; whole[i] && d < y->rank; d++) whole[i] = t->dims[d] == y->dims[d];
  }
  char reason[256];
  const char* why = carnot_cuda_conv_read(step->region, step->input_count, channel, whole, takes,
                                          out, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  CARNOT_TRY(carnot_cuda_on_device(inputs, step->input_count));
  return carnot_cuda_on_device(outputs, step->output_count);
}

carnot_status* carnot_cuda_conv_pack(const carnot_operand_desc* w, carnot_prepared* out) {
  int64_t k = w->dims[0], c = w->dims[1], taps = carnot_dims_count(w->dims + 2, w->rank - 2);
  void* memory;
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)(k * c * taps), 2, "packed weights", &memory));
  const uint16_t* from = w->tensor->data;
  uint16_t* to = memory;
  for (int64_t i = 0; i < k; i++)
    for (int64_t t = 0; t < taps; t++)
      for (int64_t j = 0; j < c; j++) *to++ = from[(i * c + j) * taps + t];
  out->constants[out->constant_count].packing = "krsc f16";
  out->constants[out->constant_count].data = memory;
  out->constants[out->constant_count++].bytes = (size_t)(k * c * taps) * 2;
  return NULL;
}

void carnot_cuda_conv_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_operand_desc *w =
                                &problem->inputs[carnot_cuda_conv_node(problem->region)->inputs[1]],
                            *y = &problem->outputs[0];
  double outputs = (double)carnot_dims_count(y->dims, y->rank);
  double weights = (double)carnot_dims_count(w->dims, w->rank);
  *out_flops = 2 * outputs * weights / (double)carnot_max_i64(1, w->dims[0]);
  *out_bytes = (outputs + weights +
                (double)carnot_dims_count(problem->inputs[0].dims, problem->inputs[0].rank)) *
               carnot_dtype_bits(y->format.dtype) / 8;
}

// ---- a cast before ----

carnot_operand_desc carnot_cuda_conv_input(const carnot_problem* problem) {
  carnot_operand_desc x = problem->inputs[0];
  if (carnot_cuda_conv_casts(problem->region)) x.format.dtype = problem->outputs[0].format.dtype;
  return x;
}

carnot_status* carnot_cuda_conv_cast_shape(const carnot_step_view* step, const carnot_operand* x,
                                           carnot_dtype to, carnot_cuda_conv_cast* out,
                                           carnot_operand* out_x) {
  *out = (carnot_cuda_conv_cast){.function = NULL};
  *out_x = *x;
  if (!carnot_cuda_conv_casts(step->region)) return NULL;
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && carnot_cuda_is_half(to) && x->rank >= 2,
               INVALID_MODEL, "a cast from %s to %s before a convolution",
               carnot_dtype_name(x->format.dtype), carnot_dtype_name(to));
  out_x->format.dtype = to, out_x->data = NULL;
  carnot_layout_strides(CARNOT_LAYOUT_CHANNELS_LAST, x->rank, x->dims, out_x->strides);
  carnot_cuda_narrow* p = &out->params;
  p->rank = x->rank - 1, p->channels = x->dims[1], p->x_c = x->strides[1], p->count = 1;
  for (int d = 0; d < p->rank; d++) {
    p->dims[d] = x->dims[d ? d + 1 : 0], p->src[d] = x->strides[d ? d + 1 : 0];
    p->count *= p->dims[d];
  }
  out->bytes = carnot_align_up((size_t)carnot_dims_count(x->dims, x->rank) * 2, 256);
  return find_kernel(step, "narrow", to, &out->function);
}

carnot_status* carnot_cuda_conv_cast_run(const carnot_step_view* step, carnot_cuda_conv_cast* cast,
                                         void* workspace, void** x) {
  if (!cast->function) return NULL;
  cast->params.x = *x, cast->params.y = *x = workspace;
  return carnot_cuda_launch_each(step, cast->function, cast->params.count, &cast->params);
}

carnot_status* carnot_cuda_conv_pack_chunks(const carnot_operand_desc* w, int chunks, int steps,
                                            const int32_t (*place)[4][4], carnot_prepared* out) {
  int64_t count = carnot_dims_count(w->dims + 1, w->rank - 1);
  size_t bytes = (size_t)CARNOT_CUDA_STREAM_BYTES(chunks, steps);
  void* memory;
  CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, "packed weights", &memory));
  const uint16_t* from = w->tensor->data;
  uint16_t* to = memory;
  for (int chunk = 0; chunk < chunks; chunk++)
    for (int s = 0; s < steps; s++)
      for (int i = 0; i < 128; i++) {  // two products of 32 lanes, twice
        int j = i / 64 * 2 + i % 2, g = i / 2 % 32 / 4, t = i / 2 % 4;
        int64_t filter = chunk * 32 + g / 2 * 8 + j * 2 + g % 2;
        for (int k = 0; k < 4; k++)
          *to++ = filter < w->dims[0] && place[s][t][k] >= 0 ? from[filter * count + place[s][t][k]]
                                                             : 0;
      }
  out->constants[out->constant_count].packing = "chunks f16";
  out->constants[out->constant_count].data = memory;
  out->constants[out->constant_count++].bytes = bytes;
  return NULL;
}

carnot_status* carnot_cuda_conv_packed_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->constant_count > 0, INVALID_MODEL, "no packed weights");
  return NULL;
}

bool carnot_cuda_conv_packed_reads(const carnot_step_view* step, uint32_t input) {
  const carnot_plan_node* node = carnot_cuda_conv_node(step->region);
  return node->input_count < 2 || node->inputs[1] != input;
}

// ---- direct convolution ----

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cuda_conv c;
  const char* why = carnot_cuda_conv_describe(problem, CARNOT_CUDA_TAKES_BIAS, &c, reason, size);
  if (why) return why;
  carnot_cuda_want_row_major(problem);
  const carnot_operand_desc input = carnot_cuda_conv_input(problem), *x = &input;
  if (x->rank < 3 || x->rank > 5)
    return carnot_cuda_because(reason, size, "rank %d, takes 3 to 5", x->rank);
  if (problem->inputs[c.weights].format.dtype != x->format.dtype) return "weights of another type";
  return carnot_cuda_not_real(x, reason, size);
}

static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_conv c;
  char reason[256];
  const char* why =
      carnot_cuda_conv_describe(problem, CARNOT_CUDA_TAKES_BIAS, &c, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "%s", why);
  return carnot_cuda_chain_prepare(problem, &c.chain, problem->outputs[0].format.dtype, out);
}

static carnot_status* conv_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  const carnot_plan_node* node = carnot_cuda_conv_node(step->region);
  carnot_cuda_conv c;
  carnot_operand x;
  CARNOT_TRY(carnot_cuda_conv_of_step(step, inputs, outputs, CARNOT_CUDA_TAKES_BIAS, &c));
  window_state* s = state;
  *s = (window_state){.count = carnot_dims_count(outputs[0].dims, outputs[0].rank),
                      .weights = c.weights,
                      .bias = c.bias};
  const carnot_operand* w = &inputs[c.weights];
  CARNOT_TRY(carnot_cuda_conv_cast_shape(step, &inputs[0], outputs[0].format.dtype, &s->cast, &x));
  *out_workspace_bytes = s->cast.bytes;
  CARNOT_TRY(carnot_cuda_window_make(node, &x, w, &outputs[0], &s->params));
  s->params.groups = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "group");
  CARNOT_CHECK(s->params.groups > 0 && w->format.dtype == x.format.dtype &&
                   w->dims[0] == s->params.filters && s->params.filters % s->params.groups == 0 &&
                   w->dims[1] * s->params.groups == s->params.channels,
               INVALID_ARGUMENT, "weights do not fit %lld channels in %lld groups",
               (long long)s->params.channels, (long long)s->params.groups);
  CARNOT_CHECK(
      c.bias == CARNOT_PLAN_NONE ||
          (carnot_dims_count(inputs[c.bias].dims, inputs[c.bias].rank) == s->params.filters &&
           inputs[c.bias].format.dtype == x.format.dtype),
      INVALID_ARGUMENT, "a bias of other than %lld numbers", (long long)s->params.filters);
  CARNOT_TRY(find_kernel(step, "conv", x.format.dtype, &s->function));
  return carnot_cuda_chain_shape(step, &c.chain, inputs, outputs, &s->chain);
}

static carnot_status* conv_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)executor;
  window_state* s = state;
  void* x = inputs[0].data;
  CARNOT_TRY(carnot_cuda_conv_cast_run(step, &s->cast, workspace, &x));
  s->params.x = x, s->params.w = inputs[s->weights].data, s->params.y = outputs[0].data;
  s->params.bias = s->bias == CARNOT_PLAN_NONE ? NULL : inputs[s->bias].data;
  CARNOT_TRY(carnot_cuda_launch_each(step, s->function, s->count, &s->params));
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic carnot_cuda_conv_row = {.name = "cuda_conv_direct",
                                            .fallback = true,
                                            .anchor = CARNOT_OP_CONV,
                                            .numerics = CARNOT_NUMERICS_EXACT,
                                            .device = true,
                                            .reject = conv_reject,
                                            .prepare = conv_prepare,
                                            .configure = conv_shape,
                                            .run = conv_run,
                                            .work = carnot_cuda_conv_work};
