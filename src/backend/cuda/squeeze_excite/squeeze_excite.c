// Squeeze and excitation of NHWC 16-bit floats in one kernel.
#include <string.h>

#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/squeeze_excite/squeeze_excite_params.h"

enum {
  kMostChannels = 4096,
  kMostHidden = 1024,
  kLeastSlice = 32,
  kRoom = 72 << 10  // bytes of a block when three are resident on a multiprocessor
};

typedef struct squeeze_excite_state {
  CUfunction function;
  carnot_cuda_squeeze_excite_params params;
  unsigned threads;
  size_t shared_bytes;
} squeeze_excite_state;

// Inputs of the step, NONE: no bias; the other ones are x, the first, and the axes of the mean.
typedef struct squeeze_excite_parts {
  uint32_t weights[2], bias[2];
  carnot_cuda_epilogue activation[2];
} squeeze_excite_parts;

static bool follows(const carnot_plan_node* node, carnot_op op, uint32_t value) {
  return node->op == op && node->input_count > 0 && node->inputs[0] == value;
}

// Matches mean, twice a 1x1 convolution and an activation, and the multiplication with the first
// input.
static const char* read_region(const carnot_region* region, uint32_t input_count,
                               squeeze_excite_parts* out) {
  const carnot_plan_node* n = region->nodes;
  if (region->node_count != 6 || !follows(&n[0], CARNOT_OP_REDUCE, 0)) return "";
  for (int i = 0; i < 2; i++) {
    const carnot_plan_node *conv = &n[1 + 2 * i], *act = &n[2 + 2 * i];
    if (!follows(conv, CARNOT_OP_CONV, n[2 * i].outputs[0]) ||
        !follows(act, CARNOT_OP_UNARY, conv->outputs[0]))
      return "";
    out->weights[i] = conv->input_count > 1 ? conv->inputs[1] : CARNOT_PLAN_NONE;
    out->bias[i] = conv->input_count > 2 ? conv->inputs[2] : CARNOT_PLAN_NONE;
    out->activation[i] = carnot_cuda_epilogue_of(act);
    if (out->weights[i] >= input_count ||
        (out->bias[i] != CARNOT_PLAN_NONE && out->bias[i] >= input_count) ||
        !out->activation[i].kind)
      return "no weights, or an activation that the kernel lacks";
  }
  uint32_t gate = n[4].outputs[0];
  bool scales =
      carnot_cuda_is_fn(&n[5], CARNOT_FN_MUL) && ((n[5].inputs[0] == 0 && n[5].inputs[1] == gate) ||
                                                  (n[5].inputs[0] == gate && n[5].inputs[1] == 0));
  return scales ? NULL : "";
}

// ---- build ----

static const char* squeeze_excite_reject(carnot_problem* problem, char* reason, size_t size) {
  squeeze_excite_parts parts;
  const char* why = read_region(problem->region, problem->input_count, &parts);
  if (why) return why;
  const carnot_operand_desc* x = &problem->inputs[0];
  if (!carnot_cuda_of(problem->device)->base.has_clusters) return "needs sm_90";
  if (!carnot_cuda_is_half(x->format.dtype) || x->rank != 4 || x->min[1] != x->max[1] ||
      x->dims[1] % 8 || x->dims[1] > kMostChannels)
    return carnot_cuda_reject_reason(reason, size, "no kernel for %lld channels of %s",
                                     (long long)(x->rank > 1 ? x->dims[1] : 0),
                                     carnot_dtype_name(x->format.dtype));
  for (int i = 0; i < 2; i++) {
    const carnot_operand_desc *w = &problem->inputs[parts.weights[i]],
                              *b = parts.bias[i] == CARNOT_PLAN_NONE
                                       ? NULL
                                       : &problem->inputs[parts.bias[i]];
    if (!carnot_is_known(w) || w->format.dtype != x->format.dtype || w->rank != 4 ||
        w->dims[i] > kMostHidden || w->dims[!i] != x->dims[1] || w->dims[2] != 1 || w->dims[3] != 1)
      return "weights that are not constant, or no 1x1 convolutions";
    if (b && (!carnot_is_known(b) || b->format.dtype != x->format.dtype || b->rank != 1 ||
              b->dims[0] != w->dims[0]))
      return "a bias of another size or type";
  }
  if (problem->inputs[parts.weights[0]].dims[0] != problem->inputs[parts.weights[1]].dims[1])
    return "layers of different sizes";
  carnot_cuda_want_row_major(problem);
  for (uint32_t i = 1; i < problem->region->nodes[0].input_count; i++) {
    uint32_t axes = problem->region->nodes[0].inputs[i];
    if (axes < problem->input_count) problem->inputs[axes].format.memory = CARNOT_MEMORY_HOST;
  }
  problem->inputs[0].format.layout = problem->outputs[0].format.layout =
      CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

static size_t weight_bytes(int64_t channels, int64_t hidden) {
  return (size_t)(2 * hidden * channels + hidden + channels) * 2;
}

// Copies |rows| of |from| elements, each padded with zeros up to |to|; *at advances.
static void pack_rows(const carnot_operand_desc* t, int64_t rows, int64_t from, int64_t to,
                      uint16_t** at) {
  const uint16_t* data = t->tensor->data;
  for (int64_t r = 0; r < rows; r++) memcpy(*at + r * to, data + r * from, (size_t)from * 2);
  *at += rows * to;
}

static carnot_status* squeeze_excite_prepare(const carnot_problem* problem, carnot_prepared* out) {
  squeeze_excite_parts parts;
  const char* why = read_region(problem->region, problem->input_count, &parts);
  CARNOT_CHECK(!why, INTERNAL, "%s", why);
  const carnot_operand_desc* w = &problem->inputs[parts.weights[0]];
  int64_t inner = w->dims[0], channels = w->dims[1], hidden = (inner + 7) / 8 * 8;
  size_t bytes = weight_bytes(channels, hidden);
  void* memory;
  CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, "packed weights", &memory));
  memset(memory, 0, bytes);
  uint16_t *at = memory, *biases = at + 2 * hidden * channels;
  pack_rows(w, inner, channels, channels, &at);
  at += (hidden - inner) * channels;
  pack_rows(&problem->inputs[parts.weights[1]], channels, inner, hidden, &at);
  for (int i = 0; i < 2; i++, biases += hidden)
    if (parts.bias[i] != CARNOT_PLAN_NONE) {
      uint16_t* to = biases;
      pack_rows(&problem->inputs[parts.bias[i]], 1, i ? channels : inner, 0, &to);
    }
  out->constants[0].packing = "squeeze_excite f16";
  out->constants[0].data = memory;
  out->constants[0].bytes = bytes;
  out->constant_count = 1;
  for (int i = 0; i < 2; i++) {
    out->packed_inputs |= 1ull << parts.weights[i];
    if (parts.bias[i] != CARNOT_PLAN_NONE) out->packed_inputs |= 1ull << parts.bias[i];
  }
  return NULL;
}

// ---- run ----

static carnot_status* squeeze_excite_check(const carnot_step_view* step) {
  squeeze_excite_parts parts;
  CARNOT_CHECK(step->constant_count > 0 && !read_region(step->region, step->input_count, &parts),
               INVALID_MODEL, "no packed weights, or another region");
  return NULL;
}

static bool squeeze_excite_reads(const carnot_step_view* step, uint32_t input) {
  squeeze_excite_parts parts;
  if (read_region(step->region, step->input_count, &parts)) return true;
  for (int i = 0; i < 2; i++)
    if (parts.weights[i] == input || parts.bias[i] == input) return false;
  return true;
}

// Shared memory besides the kept vectors, laid out as in squeeze_excite.cuh.
static size_t fixed_bytes(const carnot_cuda_squeeze_excite_params* p, unsigned threads,
                          bool staged) {
  size_t lanes = threads / ((unsigned)p->slice / 8), slice = (size_t)p->slice,
         hidden = (size_t)p->hidden, blocks = (size_t)(p->slices * p->parts);
  return 4 * (lanes * (slice + 4) + slice + hidden + blocks * hidden) +
         (staged ? 4 * hidden * slice : 0);
}

// Few images: a large cluster each, which keeps all it loads; otherwise several small blocks per
// multiprocessor, which hide latency. More slices rather than more parts while most blocks of
// the cluster are in use: each block then has fewer sums and weights.
static void share(const carnot_step_view* step, squeeze_excite_state* s) {
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  carnot_cuda_squeeze_excite_params* p = &s->params;
  bool few = p->images * 16 <= cuda->base.multiprocessor_count;
  size_t most = (size_t)cuda->block_bytes - 1024, room = few || most < kRoom ? most : kRoom;
  int limit = few ? carnot_cuda_widest_cluster(cuda, s->function,
                                               CARNOT_CUDA_SQUEEZE_EXCITE_THREADS, most)
                  : carnot_cuda_cluster_limit(cuda),
      slices = limit;
  while (slices > 1 && (p->channels % (8 * slices) || p->channels / slices < kLeastSlice ||
                        4 * slices * (limit / slices) <= 3 * limit))
    slices--;
  p->slices = slices, p->slice = p->channels / slices;
  p->parts = (int)carnot_min_i64(limit / slices, p->pixels);
  p->per_part = (int)carnot_ceildiv(p->pixels, p->parts);
  s->threads = few || p->slice > 1024 ? CARNOT_CUDA_SQUEEZE_EXCITE_THREADS : 256;
  size_t slot = 16 * s->threads;
  int64_t all = carnot_ceildiv(p->per_part, s->threads / (p->slice / 8));
  p->staged = fixed_bytes(p, s->threads, true) + slot <= room;
  size_t fixed = fixed_bytes(p, s->threads, p->staged);
  p->kept = fixed < room ? (int)carnot_min_i64(all, (int64_t)((room - fixed) / slot)) : 0;
  s->shared_bytes = fixed + (size_t)p->kept * slot;
}

static const carnot_cuda_kernel_id kSqueezeExcite[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, squeeze_excite)};

static carnot_status* squeeze_excite_shape(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  squeeze_excite_parts parts;
  const char* why = read_region(step->region, step->input_count, &parts);
  CARNOT_CHECK(!why, INVALID_MODEL, "another region: %s", why);
  const carnot_operand *x = &inputs[0], *y = &outputs[0], *w = &inputs[parts.weights[0]];
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(carnot_cuda_on_device(y, 1));
  CARNOT_CHECK(x->rank == 4 && y->rank == 4 && w->rank == 4 &&
                   carnot_cuda_is_half(x->format.dtype) && y->format.dtype == x->format.dtype &&
                   memcmp(x->dims, y->dims, 4 * sizeof(*x->dims)) == 0 &&
                   carnot_cuda_is_channels_last(x) && carnot_cuda_is_channels_last(y),
               INVALID_ARGUMENT, "operands of ranks %d, %d and %d, channels last", x->rank, y->rank,
               w->rank);
  int64_t channels = x->dims[1], hidden = carnot_ceildiv(w->dims[0], 8) * 8;
  CARNOT_CHECK(channels >= 8 && channels % 8 == 0 && channels <= kMostChannels && hidden >= 8 &&
                   hidden <= kMostHidden &&
                   step->constant_bytes[0] == weight_bytes(channels, hidden),
               INVALID_ARGUMENT, "%zu bytes of weights for %lld channels", step->constant_bytes[0],
               (long long)channels);
  CARNOT_CHECK(x->dims[0] <= UINT16_MAX && x->dims[2] * x->dims[3] <= INT32_MAX / channels,
               UNSUPPORTED, "%lld images of %lldx%lld", (long long)x->dims[0],
               (long long)x->dims[2], (long long)x->dims[3]);
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  CARNOT_CHECK(cuda->base.has_clusters, UNSUPPORTED, "needs sm_90");
  squeeze_excite_state* s = state;
  *s = (squeeze_excite_state){.params = {.images = (int)x->dims[0],
                                         .pixels = (int)(x->dims[2] * x->dims[3]),
                                         .channels = (int)channels,
                                         .hidden = (int)hidden,
                                         .inner = (int)parts.activation[0].kind,
                                         .inner_low = parts.activation[0].low,
                                         .inner_high = parts.activation[0].high,
                                         .outer = (int)parts.activation[1].kind,
                                         .outer_low = parts.activation[1].low,
                                         .outer_high = parts.activation[1].high}};
  if (!s->params.images || !s->params.pixels) return NULL;
  CARNOT_TRY(carnot_cuda_kernel_for(cuda, kSqueezeExcite, x->format.dtype, &s->function));
  CARNOT_TRY(carnot_cuda_allow_shared(cuda, s->function));
  share(step, s);
  return NULL;
}

static carnot_status* squeeze_excite_run(const carnot_step_view* step, void* state,
                                         const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* workspace,
                                         carnot_executor* executor) {
  (void)workspace, (void)executor;
  squeeze_excite_state* s = state;
  if (!s->function) return NULL;
  s->params.x = inputs[0].data, s->params.y = outputs[0].data;
  s->params.weights = step->constants[0];
  int64_t blocks = s->params.slices * s->params.parts;
  const int64_t grid[3] = {blocks, s->params.images, 1}, cluster[3] = {blocks, 1, 1};
  return carnot_cuda_launch_clusters(step, s->function, grid, s->threads, cluster, s->shared_bytes,
                                     &s->params);
}

const carnot_tactic carnot_cuda_squeeze_excite = {.name = "cuda_squeeze_excite",
                                                  .anchor = CARNOT_OP_REDUCE,
                                                  .numerics = CARNOT_NUMERICS_EXACT,
                                                  .device = true,
                                                  .reject = squeeze_excite_reject,
                                                  .prepare = squeeze_excite_prepare,
                                                  .validate = squeeze_excite_check,
                                                  .uses_input = squeeze_excite_reads,
                                                  .configure = squeeze_excite_shape,
                                                  .run = squeeze_excite_run};
