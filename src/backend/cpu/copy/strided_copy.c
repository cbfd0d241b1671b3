// Transpose, concatenation, slice, split, expand and tile as strided copies, in any layout and any
// type of whole bytes.
#include "backend/cpu/common/cpu.h"
#include "tactic/problem/depth_space.h"

// ---- a copy, cut in parts along its longest outer axis ----

typedef struct copy_run {
  const carnot_cpu_kernels* kernels;
  carnot_copy_desc copy;
  const char* src;
  char* dst;
  int axis;
  int64_t per_part;
} copy_run;

static void copy_part(void* argument, int64_t part) {
  const copy_run* run = argument;
  carnot_copy_desc copy = run->copy;
  int64_t first = part * run->per_part;
  copy.sizes[run->axis] = carnot_min_i64(run->per_part, run->copy.sizes[run->axis] - first);
  run->kernels->copy_strided(&copy,
                             run->src + first * copy.src_strides[run->axis] * copy.element_bytes,
                             run->dst + first * copy.dst_strides[run->axis] * copy.element_bytes);
}

void carnot_cpu_copy(const carnot_step_view* step, carnot_executor* executor, int rank,
                     const int64_t* dims, int element_bytes, const void* src,
                     const int64_t* src_strides, void* dst, const int64_t* dst_strides) {
  copy_run run = {.kernels = carnot_cpu_kernels_of(step->machine_isa), .src = src, .dst = dst};
  run.copy = (carnot_copy_desc){.element_bytes = element_bytes,
                                .rank = rank ? rank : 1,
                                .sizes = {1},
                                .src_strides = {1},
                                .dst_strides = {1}};
  int64_t count = 1, longest = 0;
  for (int d = 0; d < rank; d++) {
    run.copy.sizes[d] = dims[d];
    run.copy.src_strides[d] = src_strides[d];
    run.copy.dst_strides[d] = dst_strides[d];
    count *= dims[d];
    // The axis that the result is densest in stays whole.
    if (dst_strides[d] > 1 && dims[d] > longest) longest = dims[d], run.axis = d;
  }
  int64_t parts = carnot_min_i64(longest, count * element_bytes >> 16);
  run.per_part =
      parts > 1 ? carnot_ceildiv(run.copy.sizes[run.axis], parts) : run.copy.sizes[run.axis];
  if (run.per_part > 0)
    carnot_executor_parallel(executor, carnot_ceildiv(run.copy.sizes[run.axis], run.per_part),
                             copy_part, &run);
}

static int bytes_of(const carnot_operand* t) { return carnot_dtype_bits(t->format.dtype) / 8; }

const char* carnot_cpu_whole_bytes(const carnot_operand_desc* t, char* reason, size_t size) {
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0) return "an operand has no known rank";
  if (!carnot_cpu_is_whole(t->format.dtype))
    return carnot_because(reason, size, "no copy for %s", carnot_dtype_name(t->format.dtype));
  return NULL;
}

static const char* single(const carnot_problem* problem, carnot_op op) {
  return problem->region->node_count == 1 && problem->region->nodes[0].op == op ? NULL : "";
}

static carnot_status* same_types(const carnot_operand* a, const carnot_operand* b) {
  CARNOT_CHECK(a->format.dtype == b->format.dtype && a->rank == b->rank, INVALID_ARGUMENT,
               "operands of %s and %s, ranks %d and %d", carnot_dtype_name(a->format.dtype),
               carnot_dtype_name(b->format.dtype), a->rank, b->rank);
  return NULL;
}

// ---- transpose ----

static const char* transpose_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = single(problem, CARNOT_OP_TRANSPOSE);
  if (!why) why = carnot_cpu_whole_bytes(&problem->inputs[0], reason, size);
  if (!why)
    problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;  // the input is read in any layout
  return why;
}

static void read_permutation(const carnot_step_view* step, int rank, int* perm) {
  size_t count;
  const int64_t* given = carnot_attr_ints(&step->region->nodes[0].attrs, "perm", &count);
  for (int d = 0; d < rank; d++)
    perm[d] = given && count == (size_t)rank ? (int)given[d] : rank - 1 - d;
}

static carnot_status* transpose_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* state,
                                          size_t* out_workspace_bytes) {
  (void)state;
  *out_workspace_bytes = 0;
  int perm[CARNOT_MAX_RANK];
  CARNOT_CHECK(
      inputs[0].format.dtype == outputs[0].format.dtype && inputs[0].rank == outputs[0].rank,
      INVALID_ARGUMENT, "a transpose between types or ranks");
  read_permutation(step, inputs[0].rank, perm);
  for (int d = 0; d < inputs[0].rank; d++)
    CARNOT_CHECK(
        perm[d] >= 0 && perm[d] < inputs[0].rank && outputs[0].dims[d] == inputs[0].dims[perm[d]],
        INVALID_ARGUMENT, "axis %d of a transpose is axis %d of its input", d, perm[d]);
  return NULL;
}

static carnot_status* transpose_run(const carnot_step_view* step, void* state,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  (void)state, (void)workspace;
  int perm[CARNOT_MAX_RANK];
  int64_t strides[CARNOT_MAX_RANK];
  read_permutation(step, inputs[0].rank, perm);
  for (int d = 0; d < inputs[0].rank; d++) strides[d] = inputs[0].strides[perm[d]];
  carnot_cpu_copy(step, executor, outputs[0].rank, outputs[0].dims, bytes_of(&inputs[0]),
                  inputs[0].data, strides, outputs[0].data, outputs[0].strides);
  return NULL;
}

const carnot_tactic carnot_tactic_transpose = {.name = "cpu_transpose",
                                               .anchor = CARNOT_OP_TRANSPOSE,
                                               .isa = CARNOT_ISA_SCALAR,
                                               .numerics = CARNOT_NUMERICS_EXACT,
                                               .strided_outputs = true,
                                               .reject = transpose_reject,
                                               .configure = transpose_configure,
                                               .run = transpose_run};

// ---- depth to space and back ----

static const char* blocks_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_is_blocks(problem->region)) return "";
  problem->outputs[0].format.layout = problem->inputs[0].format.layout;
  return carnot_cpu_whole_bytes(&problem->inputs[0], reason, size);
}

static carnot_status* blocks_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  return carnot_blocks_of(&step->region->nodes[0], &inputs[0], &outputs[0], state);
}

static carnot_status* blocks_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  (void)workspace;
  const carnot_blocks* b = state;
  carnot_cpu_copy(step, executor, 6, b->dims, bytes_of(&inputs[0]), inputs[0].data, b->src,
                  outputs[0].data, b->dst);
  return NULL;
}

const carnot_tactic carnot_tactic_blocks = {.name = "cpu_blocks",
                                            .anchor = CARNOT_OP_COUNT,
                                            .isa = CARNOT_ISA_SCALAR,
                                            .numerics = CARNOT_NUMERICS_EXACT,
                                            .reject = blocks_reject,
                                            .configure = blocks_configure,
                                            .run = blocks_run};

// ---- concat: inputs that were written in place are skipped ----

static const char* concat_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = single(problem, CARNOT_OP_CONCAT);
  if (why) return why;
  int last = 0;
  for (uint32_t i = 0; i < problem->input_count; i++) {
    why = carnot_cpu_whole_bytes(&problem->inputs[i], reason, size);
    if (why) return why;
    if (problem->inputs[i].rank < 1) return "an operand is a scalar";
    last += problem->inputs[i].format.layout == CARNOT_LAYOUT_CHANNELS_LAST &&
            !problem->inputs[i].is_constant;
  }
  bool channels_last = problem->outputs[0].rank > 2 && last * 2 > (int)problem->input_count;
  for (uint32_t i = 0; i < problem->input_count; i++)
    if (channels_last && !problem->inputs[i].is_constant)
      problem->inputs[i].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  problem->outputs[0].format.layout =
      channels_last ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* axis_of(const carnot_step_view* step, int rank, int* out_axis) {
  const carnot_plan_node* node = &step->region->nodes[0];
  return carnot_axis(carnot_attr_int(carnot_op_get(node->op), &node->attrs, "axis"), rank, "axis",
                     out_axis);
}

static carnot_status* concat_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  (void)state;
  *out_workspace_bytes = 0;
  int axis;
  CARNOT_TRY(axis_of(step, outputs[0].rank, &axis));
  int64_t sum = 0;
  for (uint32_t i = 0; i < step->input_count; i++) {
    CARNOT_TRY(same_types(&inputs[i], &outputs[0]));
    for (int d = 0; d < outputs[0].rank; d++)
      CARNOT_CHECK(d == axis || inputs[i].dims[d] == outputs[0].dims[d], INVALID_ARGUMENT,
                   "part %u has %lld at dimension %d, must have %lld", i,
                   (long long)inputs[i].dims[d], d, (long long)outputs[0].dims[d]);
    sum += inputs[i].dims[axis];
  }
  CARNOT_CHECK(sum == outputs[0].dims[axis], INVALID_ARGUMENT,
               "parts of %lld in all, must have %lld", (long long)sum,
               (long long)outputs[0].dims[axis]);
  return NULL;
}

static carnot_status* concat_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  (void)state, (void)workspace;
  int axis;
  CARNOT_TRY(axis_of(step, outputs[0].rank, &axis));
  int bytes = bytes_of(&outputs[0]);
  char* dst = outputs[0].data;
  for (uint32_t i = 0; i < step->input_count; i++) {
    if (inputs[i].data != dst)
      carnot_cpu_copy(step, executor, inputs[i].rank, inputs[i].dims, bytes, inputs[i].data,
                      inputs[i].strides, dst, outputs[0].strides);
    dst += inputs[i].dims[axis] * outputs[0].strides[axis] * bytes;
  }
  return NULL;
}

const carnot_tactic carnot_tactic_concat = {.name = CARNOT_CONCAT_TACTIC,
                                            .anchor = CARNOT_OP_CONCAT,
                                            .isa = CARNOT_ISA_SCALAR,
                                            .numerics = CARNOT_NUMERICS_EXACT,
                                            .reject = concat_reject,
                                            .configure = concat_configure,
                                            .run = concat_run};

// ---- split ----

static const char* split_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = single(problem, CARNOT_OP_SPLIT);
  if (!why) why = carnot_cpu_whole_bytes(&problem->inputs[0], reason, size);
  if (why) return why;
  for (uint32_t i = 0; i < problem->output_count; i++)
    problem->outputs[i].format.layout = problem->inputs[0].format.layout;
  return NULL;
}

static carnot_status* split_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  (void)state;
  *out_workspace_bytes = 0;
  int axis;
  CARNOT_TRY(axis_of(step, inputs[0].rank, &axis));
  CARNOT_CHECK(step->region->nodes[0].output_count == step->output_count, UNSUPPORTED,
               "a split some of whose parts nobody reads");
  int64_t sum = 0;
  for (uint32_t i = 0; i < step->output_count; i++) {
    CARNOT_CHECK(
        outputs[i].format.dtype == inputs[0].format.dtype && outputs[i].rank == inputs[0].rank,
        INVALID_ARGUMENT, "part %u has another type or rank", i);
    for (int d = 0; d < inputs[0].rank; d++)
      CARNOT_CHECK(d == axis || outputs[i].dims[d] == inputs[0].dims[d], INVALID_ARGUMENT,
                   "part %u has other dimensions", i);
    sum += outputs[i].dims[axis];
  }
  CARNOT_CHECK(sum == inputs[0].dims[axis], INVALID_ARGUMENT,
               "parts of %lld in all, must have %lld", (long long)sum,
               (long long)inputs[0].dims[axis]);
  return NULL;
}

static carnot_status* split_run(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)state, (void)workspace;
  int axis;
  CARNOT_TRY(axis_of(step, inputs[0].rank, &axis));
  const char* src = inputs[0].data;
  for (uint32_t i = 0; i < step->output_count; i++) {
    carnot_cpu_copy(step, executor, outputs[i].rank, outputs[i].dims, bytes_of(&inputs[0]), src,
                    inputs[0].strides, outputs[i].data, outputs[i].strides);
    src += outputs[i].dims[axis] * inputs[0].strides[axis] * bytes_of(&inputs[0]);
  }
  return NULL;
}

const carnot_tactic carnot_tactic_split = {.name = "cpu_split",
                                           .anchor = CARNOT_OP_SPLIT,
                                           .isa = CARNOT_ISA_SCALAR,
                                           .numerics = CARNOT_NUMERICS_EXACT,
                                           .strided_outputs = true,
                                           .reject = split_reject,
                                           .configure = split_configure,
                                           .run = split_run};

// ---- slice with constant starts, axes and steps ----

typedef struct slice_params {
  int64_t start[CARNOT_MAX_RANK],
      step[CARNOT_MAX_RANK];  // start as given: negative counts from the end
} slice_params;

static const char* read_slice(const carnot_problem* problem, slice_params* out, char* reason,
                              size_t size) {
  const char* why = single(problem, CARNOT_OP_SLICE);
  if (!why) why = carnot_cpu_whole_bytes(&problem->inputs[0], reason, size);
  if (why) return why;
  int rank = problem->inputs[0].rank;
  for (int d = 0; d < rank; d++) out->start[d] = 0, out->step[d] = 1;
  int64_t lists[5][CARNOT_MAX_RANK] = {{0}};
  int64_t counts[5] = {0};
  for (uint32_t i = 1; i < problem->input_count && i < 5; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    if (t->kind != CARNOT_VALUE_TENSOR) continue;
    if (!carnot_is_known(t)) return "starts, ends, axes or steps are not constant";
    counts[i] = carnot_tensor_count(t->tensor);
    if (counts[i] > CARNOT_MAX_RANK) return "too many axes";
    for (int64_t k = 0; k < counts[i]; k++)
      lists[i][k] = carnot_load_i64(t->tensor->dtype, t->tensor->data, (size_t)k);
  }
  for (int64_t k = 0; k < counts[1]; k++) {
    int64_t axis = counts[3] > k ? lists[3][k] : k;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return "an axis is out of range";
    out->start[axis] = lists[1][k];
    if (counts[4] > k) out->step[axis] = lists[4][k];
  }
  return NULL;
}

static const char* slice_reject(carnot_problem* problem, char* reason, size_t size) {
  slice_params p;
  const char* why = read_slice(problem, &p, reason, size);
  if (!why) problem->outputs[0].format.layout = problem->inputs[0].format.layout;
  return why;
}

static carnot_status* slice_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(slice_params), "parameters", &params));
  char reason[256];
  const char* why = read_slice(problem, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = params;
  out->param_bytes = sizeof(slice_params);
  return NULL;
}

static carnot_status* slice_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(slice_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(slice_params));
  return NULL;
}

// The first index of the slice along an axis, ONNX Slice-13's clamping included; the last element
// read must be inside.
static carnot_status* slice_start(const slice_params* p, const carnot_operand* in,
                                  const carnot_operand* out, int axis, int64_t* start) {
  int64_t size = in->dims[axis], step = p->step[axis];
  CARNOT_CHECK(step != 0 && step > INT32_MIN && step < INT32_MAX, INVALID_MODEL,
               "a slice steps by %lld", (long long)step);
  int64_t at = p->start[axis] < 0 && p->start[axis] >= -size ? p->start[axis] + size
               : p->start[axis] < 0                          ? (step > 0 ? 0 : -1)
                                                             : p->start[axis];
  at = carnot_min_i64(at, step > 0 ? size : size - 1);
  *start = at;
  int64_t last = at + (out->dims[axis] - 1) * step;
  CARNOT_CHECK(out->dims[axis] == 0 || (at >= 0 && at < size && last >= 0 && last < size),
               INVALID_ARGUMENT, "a slice reads elements %lld to %lld of %lld", (long long)at,
               (long long)last, (long long)size);
  return NULL;
}

static carnot_status* slice_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  CARNOT_CHECK(
      inputs[0].format.dtype == outputs[0].format.dtype && inputs[0].rank == outputs[0].rank,
      INVALID_ARGUMENT, "a slice between types or ranks");
  int64_t* offset = state;
  *offset = 0;
  for (int d = 0; d < inputs[0].rank; d++) {
    int64_t start = 0;
    CARNOT_TRY(slice_start(step->params, &inputs[0], &outputs[0], d, &start));
    *offset += start * inputs[0].strides[d];
  }
  return NULL;
}

static carnot_status* slice_run(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)workspace;
  const slice_params* p = step->params;
  int64_t strides[CARNOT_MAX_RANK];
  for (int d = 0; d < inputs[0].rank; d++) strides[d] = inputs[0].strides[d] * p->step[d];
  const char* src = (const char*)inputs[0].data + *(int64_t*)state * bytes_of(&inputs[0]);
  carnot_cpu_copy(step, executor, outputs[0].rank, outputs[0].dims, bytes_of(&inputs[0]), src,
                  strides, outputs[0].data, outputs[0].strides);
  return NULL;
}

const carnot_tactic carnot_tactic_slice = {.name = "cpu_slice",
                                           .anchor = CARNOT_OP_SLICE,
                                           .isa = CARNOT_ISA_SCALAR,
                                           .numerics = CARNOT_NUMERICS_EXACT,
                                           .strided_outputs = true,
                                           .reject = slice_reject,
                                           .prepare = slice_prepare,
                                           .validate = slice_validate,
                                           .configure = slice_configure,
                                           .run = slice_run};

// ---- expand and tile: axes that repeat are read with stride 0 ----

typedef struct repetition {
  int rank;
  int64_t dims[CARNOT_COPY_MAX_RANK], src[CARNOT_COPY_MAX_RANK], dst[CARNOT_COPY_MAX_RANK];
} repetition;
_Static_assert(sizeof(repetition) <= CARNOT_STATE_BYTES, "the state has its size");

static const char* repeat_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = single(problem, problem->tactic->anchor);
  if (!why) why = carnot_cpu_whole_bytes(&problem->inputs[0], reason, size);
  if (!why) problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

static const char* tile_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = repeat_reject(problem, reason, size);
  if (!why && problem->inputs[0].rank * 2 > CARNOT_COPY_MAX_RANK)
    why = carnot_because(reason, size, "rank %d, takes up to %d", problem->inputs[0].rank,
                         CARNOT_COPY_MAX_RANK / 2);
  return why;
}

static carnot_status* expand_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  (void)step;
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  int new_axes = y->rank - x->rank;
  CARNOT_CHECK(x->format.dtype == y->format.dtype && new_axes >= 0, INVALID_ARGUMENT,
               "operands of %s and %s, ranks %d and %d", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(y->format.dtype), x->rank, y->rank);
  repetition* r = state;
  *r = (repetition){.rank = y->rank};
  for (int d = 0; d < y->rank; d++) {
    int64_t size = d < new_axes ? 1 : x->dims[d - new_axes];
    CARNOT_CHECK(size == 1 || size == y->dims[d], INVALID_ARGUMENT,
                 "dimension %d has %lld, must have 1 or %lld", d, (long long)size,
                 (long long)y->dims[d]);
    r->dims[d] = y->dims[d], r->dst[d] = y->strides[d];
    if (size > 1) r->src[d] = x->strides[d - new_axes];
  }
  return NULL;
}

// Each axis as two: how often it repeats, and itself.
static carnot_status* tile_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  (void)step;
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_TRY(same_types(x, y));
  CARNOT_CHECK(x->rank * 2 <= CARNOT_COPY_MAX_RANK, INVALID_ARGUMENT, "rank %d", x->rank);
  repetition* r = state;
  *r = (repetition){.rank = x->rank * 2};
  for (int d = 0; d < x->rank; d++) {
    int64_t size = carnot_max_i64(1, x->dims[d]);
    CARNOT_CHECK(y->dims[d] % size == 0 && (x->dims[d] || !y->dims[d]), INVALID_ARGUMENT,
                 "dimension %d has %lld, no multiple of %lld", d, (long long)y->dims[d],
                 (long long)x->dims[d]);
    r->dims[2 * d] = y->dims[d] / size, r->dst[2 * d] = y->strides[d] * size;
    r->dims[2 * d + 1] = x->dims[d], r->dst[2 * d + 1] = y->strides[d];
    r->src[2 * d + 1] = x->strides[d];
  }
  return NULL;
}

static carnot_status* repeat_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  (void)workspace;
  const repetition* r = state;
  carnot_cpu_copy(step, executor, r->rank, r->dims, bytes_of(&inputs[0]), inputs[0].data, r->src,
                  outputs[0].data, r->dst);
  return NULL;
}

#define REPEAT_TACTIC(family, OP, reject_fn)                                       \
  const carnot_tactic carnot_tactic_##family = {.name = "cpu_" #family,            \
                                                .anchor = OP,                      \
                                                .isa = CARNOT_ISA_SCALAR,          \
                                                .numerics = CARNOT_NUMERICS_EXACT, \
                                                .strided_outputs = true,           \
                                                .reject = reject_fn,               \
                                                .configure = family##_configure,   \
                                                .run = repeat_run}
REPEAT_TACTIC(expand, CARNOT_OP_EXPAND, repeat_reject);
REPEAT_TACTIC(tile, CARNOT_OP_TILE, tile_reject);
