// NHWC group and instance normalization of 16-bit floats, with the activation behind it.
#include "backend/cuda/pointwise/chain.h"
#include "kernel/cuda/norm/group_norm_params.h"
#include "tactic/problem/epilogue.h"
#include "tactic/problem/norm.h"

enum {
  kLeastSlice = 32,
  kWideSlice = 64,    // where there are many: a line of 128 bytes
  kLeastPixels = 32,  // a block of less is not cut
  kRoom = 100 << 10,  // bytes of a block when two are resident on a multiprocessor
  kMaxParts = 64
};

typedef struct group_norm_state {
  CUfunction whole;  // one reading; NULL: the two
  CUfunction moments, apply;
  carnot_cuda_group_norm_params params;
  unsigned threads;  // of the one
  size_t shared_bytes;
  carnot_cuda_chain_state chain;
} group_norm_state;
_Static_assert(sizeof(group_norm_state) <= CARNOT_STATE_BYTES, "the state has its size");

// The kernel fuses ReLU, SiLU or HardSwish; what follows is a pointwise chain.
static const char* read_region(const carnot_region* region, uint32_t inputs, int* activation,
                               carnot_cuda_chain* chain, char* reason, size_t size) {
  static const carnot_epilogue_mask kMask = {.activations = CARNOT_FUSED_BIT(RELU) |
                                                            CARNOT_FUSED_BIT(SILU) |
                                                            CARNOT_FUSED_BIT(HARD_SWISH)};
  carnot_epilogue e;
  carnot_epilogue_match(region, /*anchor=*/0, CARNOT_PLAN_NONE, /*facts=*/NULL, /*input_count=*/0,
                        &kMask, &e);
  *activation = (int)carnot_cuda_epilogue_from(&e.activation).kind;
  return carnot_cuda_chain_make(region, inputs, e.rest, e.acc, chain, reason, size);
}

// Channels of a slice: whole groups, a multiple of eight, and contiguous runs that are long
// enough; 0 where none fits.
static int64_t slice_of(int64_t channels, int64_t groups) {
  if (channels < 1 || groups < 1 || channels % 8 || channels % groups) return 0;
  int64_t slice = channels / groups;
  while (slice % 8 || (slice < kLeastSlice && channels % (2 * slice) == 0)) slice *= 2;
  return slice <= CARNOT_CUDA_GROUP_SLICE ? slice : 0;
}

static const char* group_norm_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  carnot_norm_problem norm;
  if (!carnot_norm_read(problem->region, &norm) || !carnot_norm_is_by_channel(&norm)) return "";
  const carnot_operand_desc* x = &problem->inputs[0];
  if (carnot_is_8bit(problem->outputs[0].format.dtype)) return "the result is quantized";
  if (!carnot_cuda_is_half(x->format.dtype) || x->rank < 3)
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s of rank %d",
                                     carnot_dtype_name(x->format.dtype), x->rank);
  int64_t channels = x->dims[1], groups = carnot_norm_groups(&norm, channels);
  if (x->min[1] != x->max[1] || !slice_of(channels, groups))
    return carnot_cuda_reject_reason(
        reason, size,
        "%lld groups of %lld channels, takes multiples of 8 channels and "
        "up to %d in a group",
        (long long)groups, (long long)channels, CARNOT_CUDA_GROUP_SLICE);
  for (uint32_t i = 1; i < node->input_count; i++)
    if (node->inputs[i] != CARNOT_PLAN_NONE &&
        (node->inputs[i] != i || problem->inputs[i].format.dtype != x->format.dtype))
      return "scale or bias have another type than the input";
  if (problem->output_count > 1) return "the statistics are wanted";
  carnot_cuda_chain chain;
  int activation;
  const char* why =
      read_region(problem->region, problem->input_count, &activation, &chain, reason, size);
  if (why) return why;
  carnot_cuda_want_row_major(problem);
  problem->inputs[0].format.layout = problem->outputs[0].format.layout =
      CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

static carnot_status* group_norm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_chain chain;
  int activation;
  char reason[256];
  const char* why = read_region(problem->region, problem->input_count, &activation, &chain, reason,
                                sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "%s", why);
  return carnot_cuda_chain_prepare(problem, &chain, problem->inputs[0].format.dtype, out);
}

static carnot_status* check_operands(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* y, int64_t groups) {
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_operand* x = &inputs[0];
  CARNOT_CHECK(x->rank >= 3 && carnot_cuda_is_half(x->format.dtype) &&
                   slice_of(x->dims[1], groups) && carnot_cuda_is_channels_last(x) &&
                   carnot_cuda_is_channels_last(y),
               INVALID_ARGUMENT, "%lld groups of %lld channels, channels last", (long long)groups,
               (long long)x->dims[1]);
  for (uint32_t i = 1; i < 3 && i < node->input_count; i++)
    CARNOT_CHECK(node->inputs[i] == CARNOT_PLAN_NONE ||
                     (node->inputs[i] == i && inputs[i].format.dtype == x->format.dtype &&
                      (uintptr_t)inputs[i].data % 16 == 0 &&
                      carnot_dims_count(inputs[i].dims, inputs[i].rank) == x->dims[1]),
                 INVALID_ARGUMENT, "operand %u has other than %lld elements at 16 bytes", i,
                 (long long)x->dims[1]);
  return NULL;
}

// Shared memory of the one-pass kernel, laid out as in group_norm.cuh.
static size_t shared_bytes(const carnot_cuda_group_norm_params* p, unsigned threads) {
  size_t pieces = (size_t)p->slice / 8, lanes = threads / pieces,
         columns = pieces * (p->channels / p->groups < 8 ? 8 : 2);
  return 16 * (size_t)p->kept * threads + 8 * (columns * (lanes | 1) + (size_t)p->parts * columns +
                                               (size_t)(p->slice / (p->channels / p->groups)));
}

static void set_parts(group_norm_state* s, int64_t parts, unsigned threads) {
  carnot_cuda_group_norm_params* p = &s->params;
  p->parts = (int)parts, p->per_part = (int)carnot_ceildiv(p->pixels, parts);
  p->kept = (int)carnot_ceildiv(p->per_part, threads / (p->slice / 8));
  s->threads = threads, s->shared_bytes = shared_bytes(p, threads);
}

// One reading, where a cluster's shared memory holds a slice of an image: wide slices and two
// blocks a multiprocessor, or more small ones, where there are many; else a block for each
// multiprocessor.
static bool share_pixels(carnot_cuda* cuda, group_norm_state* s) {
  carnot_cuda_group_norm_params* p = &s->params;
  int64_t processors = cuda->base.multiprocessor_count, parts = 1;
  bool many = p->images * (p->channels / p->slice) >= processors;
  while (many && p->slice < kWideSlice && p->channels % (2 * p->slice) == 0) p->slice *= 2;
  int64_t slices = p->channels / p->slice;
  size_t most = (size_t)cuda->block_bytes - 1024, room = many && most > kRoom ? kRoom : most;
  int limit = carnot_cuda_widest_cluster(cuda, s->whole, CARNOT_CUDA_GROUP_THREADS, most);
  for (;; parts *= 2) {
    set_parts(s, parts, CARNOT_CUDA_GROUP_THREADS);
    bool idle = 2 * parts * slices * p->images <= processors && p->per_part >= kLeastPixels;
    if (2 * parts > limit || (s->shared_bytes <= room && !idle)) break;
  }
  if (many && s->shared_bytes <= room / 2) set_parts(s, parts, CARNOT_CUDA_GROUP_THREADS / 2);
  return s->shared_bytes <= most;
}

// Two readings: blocks enough for all multiprocessors.
static void share_images(const carnot_cuda* cuda, group_norm_state* s) {
  carnot_cuda_group_norm_params* p = &s->params;
  int64_t lanes = CARNOT_CUDA_GROUP_THREADS / (p->slice / 8), parts = 1,
          wanted = 4 * cuda->base.multiprocessor_count;
  while (parts < kMaxParts && parts * (p->channels / p->slice) * p->images < wanted &&
         carnot_ceildiv(p->pixels, parts) > 2 * lanes)
    parts *= 2;
  p->parts = (int)parts, p->per_part = (int)carnot_ceildiv(p->pixels, parts);
}

static const carnot_cuda_kernel_id kColumns2[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, group_norm_2)};
static const carnot_cuda_kernel_id kColumns8[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, group_norm_8)};
static const carnot_cuda_kernel_id kMoments[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, group_norm_moments)};
static const carnot_cuda_kernel_id kApply[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, group_norm_apply)};

static carnot_status* group_norm_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  CARNOT_TRY(carnot_cuda_on_device(inputs, step->input_count));
  CARNOT_TRY(carnot_cuda_on_device(outputs, 1));
  carnot_norm_problem norm;
  carnot_norm_extents e;
  CARNOT_CHECK(carnot_norm_read(step->region, &norm) && carnot_norm_is_by_channel(&norm),
               INVALID_MODEL, "the step holds no group normalization");
  CARNOT_TRY(carnot_norm_extents_of(&norm, x->rank, x->dims, &e));
  CARNOT_TRY(check_operands(step, inputs, y, e.groups));
  group_norm_state* s = state;
  carnot_cuda_chain chain;
  char reason[256];
  *s = (group_norm_state){.whole = NULL};
  carnot_cuda_group_norm_params* p = &s->params;
  const char* why =
      read_region(step->region, step->input_count, &p->activation, &chain, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  p->pixels = e.spatial;
  p->channels = (int)e.channels, p->groups = (int)e.groups;
  p->slice = (int)slice_of(e.channels, e.groups);
  p->eps = (float)norm.epsilon;
  CARNOT_CHECK(p->pixels <= INT32_MAX && x->dims[0] <= UINT16_MAX, UNSUPPORTED,
               "%lld images of %lld pixels", (long long)x->dims[0], (long long)p->pixels);
  p->images = (int)x->dims[0];
  *out_workspace_bytes = 0;
  const carnot_cuda_kernel_id* kernels = p->channels / p->groups < 8 ? kColumns8 : kColumns2;
  CARNOT_TRY(carnot_cuda_kernel_for(cuda, kernels, x->format.dtype, &s->whole));
  CARNOT_TRY(carnot_cuda_allow_shared(cuda, s->whole));
  if (!share_pixels(cuda, s)) {
    s->whole = NULL;
    share_images(cuda, s);
    *out_workspace_bytes = (size_t)(p->images * e.groups * p->parts) * 3 * sizeof(float);
    CARNOT_TRY(carnot_cuda_kernel_for(cuda, kMoments, x->format.dtype, &s->moments));
    CARNOT_TRY(carnot_cuda_kernel_for(cuda, kApply, x->format.dtype, &s->apply));
  }
  return carnot_cuda_chain_shape(step, &chain, inputs, outputs, &s->chain);
}

static carnot_status* group_norm_run(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)executor;
  group_norm_state* s = state;
  const carnot_plan_node* node = &step->region->nodes[0];
  bool scales = node->input_count > 1 && node->inputs[1] != CARNOT_PLAN_NONE;
  bool shifts = node->input_count > 2 && node->inputs[2] != CARNOT_PLAN_NONE;
  s->params.x = inputs[0].data, s->params.y = outputs[0].data, s->params.partial = workspace;
  s->params.scale = scales ? inputs[1].data : NULL;
  s->params.bias = shifts ? inputs[2].data : NULL;
  carnot_cuda_group_norm_params* p = &s->params;
  const int64_t grid[3] = {p->parts, p->channels / p->slice, p->images},
                cluster[3] = {p->parts, 1, 1};
  if (s->whole) {
    CARNOT_TRY(
        carnot_cuda_launch_clusters(step, s->whole, grid, s->threads, cluster, s->shared_bytes, p));
  } else {
    CARNOT_TRY(carnot_cuda_launch(step, s->moments, grid, CARNOT_CUDA_GROUP_THREADS, p));
    CARNOT_TRY(carnot_cuda_launch(step, s->apply, grid, CARNOT_CUDA_GROUP_THREADS, p));
  }
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic carnot_cuda_group_norm = {.name = "cuda_group_norm_nhwc",
                                              .anchor = CARNOT_OP_COUNT,
                                              .numerics = CARNOT_NUMERICS_EXACT,
                                              .device = true,
                                              .reject = group_norm_reject,
                                              .prepare = group_norm_prepare,
                                              .configure = group_norm_shape,
                                              .run = group_norm_run};
