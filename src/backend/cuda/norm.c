// Rows that reduce: softmax, normalizations, reductions over any axes.
#include <stdio.h>
#include <string.h>

#include "backend/cuda/rows.h"

static carnot_status* kernel_for(const carnot_step_view* step, const char* family,
                                 carnot_dtype dtype, CUfunction* out) {
  char name[48];
  const char* type = carnot_cuda_type(dtype);
  CARNOT_CHECK(type, INVALID_MODEL, "no kernel %s for %s", family, carnot_dtype_name(dtype));
  snprintf(name, sizeof(name), "%s_%s", family, type);
  return carnot_cuda_kernel(carnot_cuda_of_step(step), name, out);
}

static unsigned threads_for(int64_t size) {
  unsigned threads = 32;
  while (threads < size / 4 && threads < 1024) threads *= 2;
  return threads;
}

static int64_t axis_of(const carnot_plan_node* node, int rank) {
  int64_t axis = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "axis");
  return axis < 0 ? axis + rank : axis;
}

// ---- softmax ----

typedef struct softmax_state {
  CUfunction function;
  carnot_cuda_softmax params;
} softmax_state;

static const char* softmax_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_SOFTMAX) &&
      !carnot_cuda_is_single(problem, CARNOT_OP_LOG_SOFTMAX))
    return "";
  carnot_cuda_want_row_major(problem);
  return carnot_cuda_not_real(&problem->inputs[0], reason, size);
}

static carnot_status* softmax_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_TRY(carnot_cuda_on_device(inputs, 1));
  CARNOT_TRY(carnot_cuda_on_device(outputs, 1));
  int64_t axis = axis_of(node, x->rank);
  CARNOT_CHECK(x->rank == 0 || (axis >= 0 && axis < x->rank), INVALID_MODEL, "axis %lld",
               (long long)axis);
  softmax_state* s = state;
  int64_t length = x->rank ? x->dims[axis] : 1;
  int64_t inner = x->rank ? carnot_dims_count(x->dims + axis + 1, x->rank - (int)axis - 1) : 1;
  *s = (softmax_state){.params = {.rows = carnot_dims_count(x->dims, x->rank) / length,
                                  .size = length,
                                  .inner = inner,
                                  .stride = inner,
                                  .scale = 1,
                                  .log = node->op == CARNOT_OP_LOG_SOFTMAX}};
  return kernel_for(step, "softmax", x->format.dtype, &s->function);
}

static carnot_status* softmax_run(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  softmax_state* s = state;
  s->params.x = inputs[0].data, s->params.y = outputs[0].data;
  const int64_t grid[3] = {s->params.rows, 1, 1};
  return carnot_cuda_launch(step, s->function, grid, threads_for(s->params.size), &s->params);
}

const carnot_tactic carnot_cuda_softmax_row = {.name = "cuda_softmax",
                                               .anchor = CARNOT_OP_COUNT,
                                               .numerics = CARNOT_NUMERICS_EXACT,
                                               .device = true,
                                               .reject = softmax_reject,
                                               .configure = softmax_shape,
                                               .run = softmax_run};

// ---- normalization by the row's own statistics ----

typedef struct norm_state {
  CUfunction function;
  carnot_cuda_norm params;
  int64_t groups;
  bool by_warp;  // four rows a block
  carnot_cuda_chain_state chain;
} norm_state;
_Static_assert(sizeof(norm_state) <= CARNOT_STATE_BYTES, "the state has its size");

static bool is_norm(carnot_op op) {
  return op == CARNOT_OP_LAYER_NORM || op == CARNOT_OP_RMS_NORM || op == CARNOT_OP_GROUP_NORM ||
         op == CARNOT_OP_INSTANCE_NORM;
}

static const char* norm_chain(const carnot_region* region, uint32_t inputs, carnot_cuda_chain* out,
                              char* reason, size_t size) {
  return carnot_cuda_chain_make(region, inputs, 1, region->nodes[0].outputs[0], out, reason, size);
}

static const char* norm_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (!is_norm(node->op)) return "";
  carnot_cuda_want_row_major(problem);
  const carnot_operand_desc* x = &problem->inputs[0];
  const char* why = carnot_cuda_not_real(x, reason, size);
  if (why) return why;
  bool by_row = node->op == CARNOT_OP_LAYER_NORM || node->op == CARNOT_OP_RMS_NORM;
  int64_t axis = by_row ? axis_of(node, x->rank) : 0;
  for (uint32_t i = 1; i < node->input_count; i++) {
    if (node->inputs[i] == CARNOT_PLAN_NONE) continue;
    if (node->inputs[i] != i) return "the operands stand in another order";
    const carnot_operand_desc* t = &problem->inputs[i];
    if (t->format.dtype != x->format.dtype) return "scale or bias have another type than the input";
    // One number an element of the row, or of its last axes in turn; scale and bias alike.
    bool fits = !by_row || t->rank <= x->rank - axis, ends = false;
    for (int d = 1; by_row && fits && d <= t->rank; d++) {
      int64_t dim = t->dims[t->rank - d];
      ends = ends || dim != x->dims[x->rank - d];
      fits = t->min[t->rank - d] == t->max[t->rank - d] && (!ends || dim == 1);
    }
    if (fits && by_row && i == 2 && node->inputs[1] != CARNOT_PLAN_NONE)
      fits = carnot_dims_count(t->dims, t->rank) ==
             carnot_dims_count(problem->inputs[1].dims, problem->inputs[1].rank);
    if (!fits) return "scale or bias do not run along the normalized axes";
  }
  for (uint32_t i = 1; i < problem->output_count; i++)
    if (problem->outputs[i].format.dtype != CARNOT_DTYPE_F32)
      return "statistics of another type than float32";
  carnot_cuda_chain chain;
  if (problem->output_count > 1 && problem->region->node_count > 1) return "too many results";
  if (problem->output_count > 1) return NULL;
  return norm_chain(problem->region, problem->input_count, &chain, reason, size);
}

static carnot_status* norm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_chain chain;
  char reason[256];
  if (problem->region->node_count == 1) return NULL;
  const char* why =
      norm_chain(problem->region, problem->input_count, &chain, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "%s", why);
  return carnot_cuda_chain_prepare(problem, &chain, problem->inputs[0].format.dtype, out);
}

// Rows of halves that a warp holds in registers, read by 16 bytes.
static bool fits_warp(const carnot_step_view* step, const carnot_operand* inputs,
                      const carnot_operand* outputs, const carnot_cuda_norm* p) {
  uintptr_t bits = (uintptr_t)outputs[0].data;
  for (uint32_t i = 0; i < step->input_count && i < 3; i++) bits |= (uintptr_t)inputs[i].data;
  return carnot_cuda_is_half(inputs[0].format.dtype) && p->per_element && p->period == p->size &&
         p->size % 8 == 0 && p->size <= 2048 && bits % 16 == 0 && step->output_count == 1;
}

static carnot_status* norm_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_op_row* row = carnot_op_get(node->op);
  CARNOT_TRY(carnot_cuda_on_device(inputs, step->input_count));
  CARNOT_TRY(carnot_cuda_on_device(outputs, step->output_count));
  norm_state* s = state;
  *s = (norm_state){.params = {.eps = (float)carnot_attr_float(row, &node->attrs, "epsilon"),
                               .rms = node->op == CARNOT_OP_RMS_NORM,
                               .spatial = 1,
                               .groups = 1}};
  int64_t count = carnot_dims_count(x->dims, x->rank);
  if (node->op == CARNOT_OP_LAYER_NORM || node->op == CARNOT_OP_RMS_NORM) {
    int64_t axis = axis_of(node, x->rank);
    CARNOT_CHECK(axis >= 0 && axis < x->rank, INVALID_MODEL, "axis %lld", (long long)axis);
    s->params.size = carnot_dims_count(x->dims + axis, x->rank - (int)axis);
    s->params.per_element = 1;
  } else {
    CARNOT_CHECK(x->rank >= 2, INVALID_MODEL, "rank %d", x->rank);
    int64_t groups = node->op == CARNOT_OP_INSTANCE_NORM
                         ? x->dims[1]
                         : carnot_attr_int(row, &node->attrs, "num_groups");
    CARNOT_CHECK(groups > 0 && x->dims[1] % groups == 0, INVALID_MODEL,
                 "%lld groups of %lld channels", (long long)groups, (long long)x->dims[1]);
    s->params.groups = groups;
    s->params.spatial = carnot_dims_count(x->dims + 2, x->rank - 2);
    s->params.size = x->dims[1] / groups * s->params.spatial;
  }
  s->params.period = s->params.size;
  for (uint32_t i = 1; s->params.per_element && i < 3 && i < node->input_count; i++)
    if (node->inputs[i] == i && i < step->input_count)
      s->params.period = carnot_dims_count(inputs[i].dims, inputs[i].rank);
  int64_t wanted = s->params.per_element ? s->params.period : x->rank > 1 ? x->dims[1] : 1;
  CARNOT_CHECK(s->params.period > 0 || !s->params.size, INVALID_ARGUMENT, "an empty scale");
  for (uint32_t i = 1; i < 3 && i < node->input_count; i++)
    CARNOT_CHECK(node->inputs[i] == CARNOT_PLAN_NONE ||
                     (node->inputs[i] == i && inputs[i].format.dtype == x->format.dtype &&
                      carnot_dims_count(inputs[i].dims, inputs[i].rank) == wanted),
                 INVALID_ARGUMENT, "operand %u has other than %lld elements", i, (long long)wanted);
  s->groups = count / carnot_max_i64(1, s->params.size);
  s->by_warp = fits_warp(step, inputs, outputs, &s->params);
  s->params.count = s->groups;
  static const char* const kByWarp[] = {"norm_warp_1", "norm_warp_3", "norm_warp_4", "norm_warp_8"};
  int64_t size = s->params.size;
  int pieces = size <= 256 ? 0 : size <= 768 ? 1 : size <= 1024 ? 2 : 3;
  CARNOT_TRY(
      kernel_for(step, s->by_warp ? kByWarp[pieces] : "norm", x->format.dtype, &s->function));
  if (step->region->node_count == 1) return NULL;
  carnot_cuda_chain chain;
  char reason[256];
  const char* why = norm_chain(step->region, step->input_count, &chain, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  return carnot_cuda_chain_shape(step, &chain, inputs, outputs, &s->chain);
}

static carnot_status* norm_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  norm_state* s = state;
  const carnot_plan_node* node = &step->region->nodes[0];
  bool scales = node->input_count > 1 && node->inputs[1] != CARNOT_PLAN_NONE;
  bool shifts = node->input_count > 2 && node->inputs[2] != CARNOT_PLAN_NONE;
  s->params.x = inputs[0].data;
  s->params.scale = scales ? inputs[1].data : NULL;
  s->params.bias = shifts ? inputs[2].data : NULL;
  s->params.y = outputs[0].data;
  for (uint32_t i = 1, at = 1; i < node->output_count; i++) {
    if (node->outputs[i] == CARNOT_PLAN_NONE || at >= step->output_count) continue;
    *(i == 1 ? &s->params.mean_out : &s->params.inv_out) = outputs[at++].data;
  }
  // A warp a block while there are few rows.
  int64_t warps = s->groups > 4096 ? 4 : 1;
  const int64_t grid[3] = {s->by_warp ? carnot_ceildiv(s->groups, warps) : s->groups, 1, 1};
  unsigned threads = s->by_warp ? 32 * (unsigned)warps : threads_for(s->params.size);
  CARNOT_TRY(carnot_cuda_launch(step, s->function, grid, threads, &s->params));
  return carnot_cuda_chain_run(step, &s->chain, inputs, outputs);
}

const carnot_tactic carnot_cuda_norm_row = {.name = "cuda_norm",
                                            .anchor = CARNOT_OP_COUNT,
                                            .numerics = CARNOT_NUMERICS_EXACT,
                                            .device = true,
                                            .reject = norm_reject,
                                            .prepare = norm_prepare,
                                            .configure = norm_shape,
                                            .run = norm_run};

// ---- batch normalization by given statistics ----

typedef struct batch_norm_state {
  CUfunction function;
  carnot_cuda_batch_norm params;
} batch_norm_state;

static const char* batch_norm_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_BATCH_NORM)) return "";
  const carnot_plan_node* node = &problem->region->nodes[0];
  carnot_cuda_want_row_major(problem);
  if (carnot_attr_int(carnot_op_get(node->op), &node->attrs, "training_mode") ||
      problem->output_count > 1)
    return "statistics of the batch";
  for (uint32_t i = 0; i < problem->input_count; i++)
    if (problem->inputs[i].format.dtype != problem->inputs[0].format.dtype)
      return "operands of several types";
  for (uint32_t i = 0; i < 5; i++)
    if (i >= problem->input_count || problem->inputs[i].kind != CARNOT_VALUE_TENSOR)
      return "an operand is absent";
  return carnot_cuda_not_real(&problem->inputs[0], reason, size);
}

static carnot_status* batch_norm_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_CHECK(step->input_count == 5, INVALID_MODEL, "%u operands", step->input_count);
  CARNOT_TRY(carnot_cuda_on_device(inputs, 5));
  CARNOT_TRY(carnot_cuda_on_device(outputs, 1));
  batch_norm_state* s = state;
  int64_t channels = x->rank > 1 ? x->dims[1] : 1;
  for (int i = 1; i < 5; i++)
    CARNOT_CHECK(carnot_dims_count(inputs[i].dims, inputs[i].rank) == channels &&
                     inputs[i].format.dtype == x->format.dtype,
                 INVALID_ARGUMENT, "operand %d has other than %lld elements", i,
                 (long long)channels);
  *s = (batch_norm_state){
      .params = {
          .count = carnot_dims_count(x->dims, x->rank),
          .channels = channels,
          .spatial = x->rank > 1 ? carnot_dims_count(x->dims + 2, x->rank - 2) : 1,
          .eps = (float)carnot_attr_float(carnot_op_get(node->op), &node->attrs, "epsilon")}};
  return kernel_for(step, "batch_norm", x->format.dtype, &s->function);
}

static carnot_status* batch_norm_run(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  batch_norm_state* s = state;
  s->params.x = inputs[0].data, s->params.scale = inputs[1].data, s->params.bias = inputs[2].data;
  s->params.mean = inputs[3].data, s->params.var = inputs[4].data, s->params.y = outputs[0].data;
  return carnot_cuda_launch_each(step, s->function, s->params.count, &s->params);
}

const carnot_tactic carnot_cuda_batch_norm_row = {.name = "cuda_batch_norm",
                                                  .anchor = CARNOT_OP_BATCH_NORM,
                                                  .numerics = CARNOT_NUMERICS_EXACT,
                                                  .device = true,
                                                  .reject = batch_norm_reject,
                                                  .configure = batch_norm_shape,
                                                  .run = batch_norm_run};

// ---- reduce ----

typedef struct reduce_state {
  CUfunction function;
  carnot_cuda_reduce params;
  bool by_block;
  bool by_columns;
  unsigned threads;  // by columns
  int64_t blocks;
} reduce_state;

static int reduction_of(const carnot_plan_node* node) {
  static const char* const kNames[] = {"sum", "mean", "max",     "min",         "prod",
                                       "l1",  "l2",   "log_sum", "log_sum_exp", "sum_square"};
  for (int i = 0; i < 10; i++)
    if (carnot_attr_is(carnot_op_get(node->op), &node->attrs, "fn", kNames[i])) return i;
  return -1;
}

static const char* reduce_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_REDUCE)) return "";
  const carnot_operand_desc* x = &problem->inputs[0];
  if (reduction_of(&problem->region->nodes[0]) < 0) return "no kernel for this reduction";
  if (x->kind != CARNOT_VALUE_TENSOR || x->rank < 0) return "the input has no known rank";
  carnot_dtype t = x->format.dtype;
  if (t == CARNOT_DTYPE_I16 || t == CARNOT_DTYPE_U16 || !carnot_cuda_type(t))
    return carnot_cuda_because(reason, size, "no kernel for %s", carnot_dtype_name(t));
  carnot_cuda_keep_on_host(problem, 1);
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;  // the input is read as it stands
  return NULL;
}

static carnot_status* reduced_axes(const carnot_step_view* step, const carnot_operand* inputs,
                                   unsigned* out_mask) {
  const carnot_operand* x = &inputs[0];
  const carnot_plan_node* node = &step->region->nodes[0];
  int64_t axes[CARNOT_MAX_RANK];
  int count = -1;
  if (step->input_count > 1)
    CARNOT_TRY(carnot_cuda_ints(&inputs[1], axes, CARNOT_MAX_RANK, &count));
  bool none = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "noop_with_empty_axes") != 0;
  *out_mask = count > 0 || none ? 0 : (1u << x->rank) - 1;
  for (int i = 0; i < count; i++) {
    int64_t axis = axes[i] < 0 ? axes[i] + x->rank : axes[i];
    CARNOT_CHECK(axis >= 0 && axis < x->rank, INVALID_MODEL, "axis %lld of rank %d",
                 (long long)axes[i], x->rank);
    *out_mask |= 1u << axis;
  }
  return NULL;
}

// Adds an axis, joined with the one before where the distances allow.
static void add_axis(int64_t dim, int64_t stride, int* rank, long long* dims, long long* strides) {
  if (dim == 1) return;
  if (*rank && strides[*rank - 1] == stride * dim) {
    dims[*rank - 1] *= dim;
    strides[*rank - 1] = stride;
    return;
  }
  dims[*rank] = dim;
  strides[(*rank)++] = stride;
}

// Sums, means and ends of floats whose neighbours are read by 16 bytes.
static bool takes_pieces(const carnot_operand* x, const carnot_cuda_reduce* p) {
  if (!carnot_cuda_is_float(x->format.dtype) || p->fn > CARNOT_CUDA_MIN) return false;
  int64_t bits = p->kept_dims[p->kept_rank - 1];
  for (int d = 0; d + 1 < p->kept_rank; d++) bits |= p->kept[d];
  for (int d = 0; d < p->reduced_rank; d++) bits |= p->reduced[d];
  return bits % (16 / carnot_cuda_bytes(x)) == 0 && (uintptr_t)x->data % 16 == 0;
}

// Blocks enough for the whole device: first several share what a long reduction reads, then slices
// of fewer neighbours.
static void share_columns(const carnot_cuda* cuda, const carnot_operand* x, reduce_state* s) {
  enum { kSlice = 8, kLeastSlice = 2, kAtOnce = 4, kLeastSteps = 8 };
  carnot_cuda_reduce* p = &s->params;
  bool wide = takes_pieces(x, p);
  int64_t piece = wide ? 16 / carnot_cuda_bytes(x) : 1, pieces = p->kept_count / piece;
  // A line of 128 bytes.
  int64_t least = wide ? kLeastSlice : 32, slice = wide ? kSlice : 32, parts = 1, lanes, blocks;
  for (;;) {
    lanes = piece;
    while (kAtOnce * lanes < p->reduced_count && 2 * lanes * slice <= CARNOT_CUDA_COLUMN_THREADS)
      lanes *= 2;
    blocks = carnot_ceildiv(pieces, slice) * parts;
    if (blocks >= cuda->base.multiprocessor_count) break;
    if (parts < carnot_cuda_cluster_limit(cuda) &&
        p->reduced_count >= kLeastSteps * 2 * parts * lanes)
      parts *= 2;
    else if (slice > least)
      slice /= 2;
    else
      break;
  }
  p->slice = (int)slice, p->parts = (int)parts;
  s->threads = (unsigned)(slice * lanes), s->blocks = blocks;
}

static carnot_status* reduce_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  CARNOT_TRY(carnot_cuda_on_device(inputs, 1));
  CARNOT_TRY(carnot_cuda_on_device(outputs, 1));
  reduce_state* s = state;
  *s = (reduce_state){.params = {.fn = reduction_of(&step->region->nodes[0])}};
  unsigned mask;
  CARNOT_TRY(reduced_axes(step, inputs, &mask));
  carnot_cuda_reduce* p = &s->params;
  p->kept_count = p->reduced_count = 1;
  for (int d = 0; d < x->rank; d++) {
    bool reduced = mask >> d & 1;
    *(reduced ? &p->reduced_count : &p->kept_count) *= x->dims[d];
    if (reduced)
      add_axis(x->dims[d], x->strides[d], &p->reduced_rank, p->reduced_dims, p->reduced);
    else
      add_axis(x->dims[d], x->strides[d], &p->kept_rank, p->kept_dims, p->kept);
  }
  CARNOT_CHECK(p->kept_count == carnot_dims_count(outputs[0].dims, outputs[0].rank) &&
                   x->format.dtype == outputs[0].format.dtype,
               INVALID_ARGUMENT, "the result has another size or type");
  if (!p->reduced_rank) p->reduced_rank = 1, p->reduced_dims[0] = p->reduced_count;
  // Neighbours that read neighbours, else a block each, or a thread where there is little to join.
  bool neighbours = p->kept_rank && p->kept[p->kept_rank - 1] == 1;
  s->by_columns = neighbours && p->kept_count >= 32 && p->reduced_count >= 8 &&
                  p->fn != CARNOT_CUDA_LOG_SUM_EXP;
  s->by_block =
      !s->by_columns && p->reduced_count >= 64 && !(neighbours && p->kept_count >= 1 << 14);
  if (s->by_columns) share_columns(carnot_cuda_of_step(step), x, s);
  const char* kernel = s->by_columns ? takes_pieces(x, p) ? "reduce_wide" : "reduce_columns"
                       : s->by_block ? "reduce_block"
                                     : "reduce_thread";
  return kernel_for(step, kernel, x->format.dtype, &s->function);
}

static carnot_status* reduce_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  reduce_state* s = state;
  s->params.x = inputs[0].data, s->params.y = outputs[0].data;
  const int64_t grid[3] = {s->params.kept_count, 1, 1}, columns[3] = {s->blocks, 1, 1},
                cluster[3] = {s->params.parts, 1, 1};
  if (s->by_columns)
    return carnot_cuda_launch_clusters(step, s->function, columns, s->threads, cluster,
                                       /*shared_bytes=*/0, &s->params);
  if (!s->by_block)
    return carnot_cuda_launch_each(step, s->function, s->params.kept_count, &s->params);
  return carnot_cuda_launch(step, s->function, grid, threads_for(s->params.reduced_count),
                            &s->params);
}

const carnot_tactic carnot_cuda_reduce_row = {.name = "cuda_reduce",
                                              .anchor = CARNOT_OP_REDUCE,
                                              .numerics = CARNOT_NUMERICS_EXACT,
                                              .device = true,
                                              .reject = reduce_reject,
                                              .configure = reduce_shape,
                                              .run = reduce_run};
