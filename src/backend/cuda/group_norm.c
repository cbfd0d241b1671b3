// Group and instance normalization of halves channels last, with the activation behind it.
#include <math.h>
#include <stdio.h>

#include "backend/cuda/rows.h"

enum { kMaxChannels = 2048, kMaxGroups = 256, kMaxParts = 32, kThreads = 512 };

typedef struct group_norm_state {
  CUfunction whole;  // one reading; NULL: the two
  CUfunction moments, apply;
  carnot_cuda_group_norm params;
  int64_t images, blocks;
  unsigned threads;
  carnot_cuda_chain_state chain;
} group_norm_state;
_Static_assert(sizeof(group_norm_state) <= CARNOT_STATE_BYTES, "the state has its size");

// ReLU or SiLU behind the norm is the kernel's; what follows is a program over the result.
static const char* read_region(const carnot_region* region, uint32_t inputs, int* activation,
                               carnot_cuda_chain* chain, char* reason, size_t size) {
  uint32_t next = 1, acc = region->nodes[0].outputs[0];
  *activation = CARNOT_CUDA_NO_ACTIVATION;
  if (region->node_count > 1) {
    carnot_cuda_epilogue e = carnot_cuda_epilogue_of(&region->nodes[1]);
    bool relu = e.kind == CARNOT_CUDA_CLAMP && e.low == 0 && e.high == INFINITY;
    if (relu || e.kind == CARNOT_CUDA_SILU || e.kind == CARNOT_CUDA_HARD_SWISH) {
      *activation = (int)e.kind;
      acc = region->nodes[next++].outputs[0];
    }
  }
  return carnot_cuda_chain_make(region, inputs, next, acc, chain, reason, size);
}

static int64_t groups_of(const carnot_plan_node* node, int64_t channels) {
  return node->op == CARNOT_OP_INSTANCE_NORM
             ? channels
             : carnot_attr_int(carnot_op_get(node->op), &node->attrs, "num_groups");
}

static const char* group_norm_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_GROUP_NORM && node->op != CARNOT_OP_INSTANCE_NORM) return "";
  const carnot_operand_type* x = &problem->inputs[0];
  if (!carnot_cuda_is_half(x->dtype) || x->rank < 3)
    return carnot_cuda_because(reason, size, "no kernel for %s of rank %d",
                               carnot_dtype_name(x->dtype), x->rank);
  int64_t channels = x->dims[1], groups = groups_of(node, channels);
  if (x->min[1] != x->max[1] || groups < 1 || channels % (2 * groups) || channels > kMaxChannels ||
      groups > kMaxGroups)
    return carnot_cuda_because(reason, size,
                               "%lld groups of %lld channels, takes an even number "
                               "in each",
                               (long long)groups, (long long)channels);
  for (uint32_t i = 1; i < node->input_count; i++)
    if (node->inputs[i] != CARNOT_PLAN_NONE &&
        (node->inputs[i] != i || problem->inputs[i].dtype != x->dtype))
      return "scale or bias have another type than the input";
  if (problem->output_count > 1) return "the statistics are wanted";
  carnot_cuda_chain chain;
  int activation;
  const char* why =
      read_region(problem->region, problem->input_count, &activation, &chain, reason, size);
  if (why) return why;
  carnot_cuda_want_row_major(problem);
  problem->inputs[0].layout = problem->outputs[0].layout = CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

static carnot_status* group_norm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_chain chain;
  int activation;
  char reason[256];
  const char* why = read_region(problem->region, problem->input_count, &activation, &chain, reason,
                                sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "%s", why);
  return carnot_cuda_chain_prepare(problem, &chain, problem->inputs[0].dtype, out);
}

static bool is_channels_last(const carnot_operand* t) {
  int64_t stride = t->dims[1];
  bool dense = t->strides[1] == 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    if (d == 1) continue;
    dense = dense && (t->dims[d] == 1 || t->strides[d] == stride);
    stride *= t->dims[d];
  }
  return dense && (uintptr_t)t->data % 4 == 0;
}

static carnot_status* check_operands(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* y, int64_t groups) {
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_operand* x = &inputs[0];
  CARNOT_CHECK(x->rank >= 3 && carnot_cuda_is_half(x->dtype) && groups > 0 &&
                   groups <= kMaxGroups && x->dims[1] <= kMaxChannels &&
                   x->dims[1] % (2 * groups) == 0 && is_channels_last(x) && is_channels_last(y),
               INVALID_ARGUMENT, "%lld groups of %lld channels, channels last", (long long)groups,
               (long long)x->dims[1]);
  for (uint32_t i = 1; i < 3 && i < node->input_count; i++)
    CARNOT_CHECK(node->inputs[i] == CARNOT_PLAN_NONE ||
                     (node->inputs[i] == i && inputs[i].dtype == x->dtype &&
                      carnot_dims_count(inputs[i].dims, inputs[i].rank) == x->dims[1]),
                 INVALID_ARGUMENT, "operand %u has other than %lld elements", i,
                 (long long)x->dims[1]);
  return NULL;
}

// Slices of whole groups in pieces of 16 bytes whose pixels a cluster keeps in registers.
static bool fits_cluster(const carnot_cuda* cuda, const carnot_operand* x, const carnot_operand* y,
                         group_norm_state* s) {
  enum { kLeastSlice = 32 };
  carnot_cuda_group_norm* p = &s->params;
  int slice = p->channels / p->groups;
  while (slice % 8 || (slice < kLeastSlice && p->channels % (2 * slice) == 0)) slice *= 2;
  if (p->channels % slice || slice > CARNOT_CUDA_GROUP_THREADS || s->images > 65535 ||
      ((uintptr_t)x->data | (uintptr_t)y->data) % 16)
    return false;
  int64_t slices = p->channels / slice, lanes = CARNOT_CUDA_GROUP_THREADS / (slice / 8),
          room = lanes * CARNOT_CUDA_GROUP_KEEP, limit = carnot_cuda_cluster_limit(cuda), parts = 1;
  while (parts < limit && (carnot_ceildiv(p->pixels, parts) > room ||
                           (parts * slices * s->images < cuda->base.multiprocessor_count &&
                            carnot_ceildiv(p->pixels, parts) > 2 * lanes)))
    parts *= 2;
  if (carnot_ceildiv(p->pixels, parts) > room) return false;
  p->slice = slice, p->parts = (int)parts;
  p->per_part = (int)carnot_ceildiv(p->pixels, parts);
  return true;
}

// Two kernels: whole rows of channel pairs, in whole warps.
static void share_pixels(const carnot_cuda* cuda, group_norm_state* s) {
  carnot_cuda_group_norm* p = &s->params;
  int64_t pairs = p->channels / 2, lanes = carnot_max_i64(1, kThreads / pairs);
  s->threads = (unsigned)carnot_align_up((size_t)(pairs * lanes), 32);
  // About two blocks a multiprocessor; a warp joins the parts of a group.
  int64_t wanted = carnot_ceildiv(2 * cuda->base.multiprocessor_count, s->images);
  int64_t parts = carnot_min_i64(carnot_ceildiv(p->pixels, lanes), wanted);
  s->blocks = carnot_max_i64(1, parts);
  parts = carnot_max_i64(1, carnot_min_i64(parts, kMaxParts));
  p->per_part = (int)carnot_ceildiv(p->pixels, parts);
  p->parts = (int)carnot_ceildiv(p->pixels, p->per_part);
  p->per_block = (int)carnot_ceildiv(p->pixels, s->blocks);
}

static carnot_status* find_kernel(carnot_cuda* cuda, const char* family, carnot_dtype dtype,
                                  CUfunction* out) {
  char name[32];
  snprintf(name, sizeof(name), "%s_%s", family, carnot_cuda_type(dtype));
  return carnot_cuda_kernel(cuda, name, out);
}

static carnot_status* group_norm_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  const carnot_plan_node* node = &step->region->nodes[0];
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  CARNOT_TRY(carnot_cuda_on_device(inputs, step->input_count));
  CARNOT_TRY(carnot_cuda_on_device(outputs, 1));
  CARNOT_CHECK(x->rank >= 3, INVALID_MODEL, "rank %d", x->rank);
  int64_t groups = groups_of(node, x->dims[1]);
  CARNOT_TRY(check_operands(step, inputs, y, groups));
  group_norm_state* s = state;
  carnot_cuda_chain chain;
  char reason[256];
  *s = (group_norm_state){.images = x->dims[0]};
  carnot_cuda_group_norm* p = &s->params;
  const char* why =
      read_region(step->region, step->input_count, &p->activation, &chain, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  p->pixels = carnot_dims_count(x->dims + 2, x->rank - 2);
  p->channels = (int)x->dims[1], p->groups = (int)groups;
  p->eps = (float)carnot_attr_float(carnot_op_get(node->op), &node->attrs, "epsilon");
  if (fits_cluster(cuda, x, y, s)) {
    *out_workspace_bytes = 0;
    CARNOT_TRY(find_kernel(cuda, "group_norm", x->dtype, &s->whole));
  } else {
    share_pixels(cuda, s);
    *out_workspace_bytes = (size_t)(s->images * groups * p->parts) * 3 * sizeof(float);
    CARNOT_TRY(find_kernel(cuda, "group_moments", x->dtype, &s->moments));
    CARNOT_TRY(find_kernel(cuda, "group_apply", x->dtype, &s->apply));
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
  carnot_cuda_group_norm* p = &s->params;
  if (s->whole) {
    const int64_t grid[3] = {p->parts, p->channels / p->slice, s->images};
    CARNOT_TRY(carnot_cuda_launch_clusters(step, s->whole, grid, CARNOT_CUDA_GROUP_THREADS,
                                           (unsigned)p->parts, /*shared_bytes=*/0, p));
  } else {
    const int64_t parts[3] = {p->parts, s->images, 1}, blocks[3] = {s->blocks, s->images, 1};
    CARNOT_TRY(carnot_cuda_launch(step, s->moments, parts, s->threads, p));
    CARNOT_TRY(carnot_cuda_launch(step, s->apply, blocks, s->threads, p));
  }
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic_row carnot_cuda_group_norm_row = {.name = "cuda_group_norm_channels_last",
                                                      .anchor = CARNOT_OP_COUNT,
                                                      .numerics = "exact",
                                                      .device = true,
                                                      .reject = group_norm_reject,
                                                      .prepare = group_norm_prepare,
                                                      .shape = group_norm_shape,
                                                      .run = group_norm_run};
