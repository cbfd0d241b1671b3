// Transpose, Slice, Expand, Tile, DepthToSpace and SpaceToDepth, each as one strided copy.
#include <string.h>

#include "backend/cuda/common/generic.h"
#include "backend/cuda/copy/strided_copy.h"
#include "tactic/problem/depth_space.h"

// ---- transpose ----

static const char* transpose_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_TRANSPOSE)) return "";
  problem->outputs[0].format.layout =
      CARNOT_LAYOUT_ROW_MAJOR;  // the input is read with its strides
  return carnot_cuda_whole_bytes(&problem->inputs[0], reason, size);
}

static carnot_status* transpose_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_TRY(carnot_cuda_check_copy(x, y));
  size_t count;
  const int64_t* perm = carnot_attr_ints(&step->region->nodes[0].attrs, "perm", &count);
  int64_t strides[CARNOT_MAX_RANK];
  for (int d = 0; d < x->rank; d++) {
    int64_t axis = perm && count == (size_t)x->rank ? perm[d] : x->rank - 1 - d;
    if (axis < 0) axis += x->rank;
    CARNOT_CHECK(axis >= 0 && axis < x->rank && y->rank == x->rank && y->dims[d] == x->dims[axis],
                 INVALID_ARGUMENT, "axis %d of a transpose is axis %lld of its input", d,
                 (long long)axis);
    strides[d] = x->strides[axis];
  }
  return carnot_cuda_strided_copy_make(step, y->rank, y->dims, strides, 0, y->strides, 0,
                                       carnot_cuda_bytes(x), state);
}

const carnot_tactic carnot_cuda_transpose = {.name = "cuda_transpose",
                                             .anchor = CARNOT_OP_TRANSPOSE,
                                             .numerics = CARNOT_NUMERICS_EXACT,
                                             .device = true,
                                             .strided_outputs = true,
                                             .reject = transpose_reject,
                                             .configure = transpose_shape,
                                             .run = carnot_cuda_strided_copy_tactic_run};

// ---- slice ----

static const char* list_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, problem->tactic->anchor)) return "";
  carnot_cuda_keep_on_host(problem, 1);
  problem->outputs[0].format.layout = problem->inputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return carnot_cuda_whole_bytes(&problem->inputs[0], reason, size);
}

// Any layout: what is read and written is said by strides.
static const char* slice_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_SLICE)) return "";
  carnot_cuda_keep_on_host(problem, 1);
  problem->outputs[0].format.layout = problem->inputs[0].format.layout;
  return carnot_cuda_whole_bytes(&problem->inputs[0], reason, size);
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
  return carnot_max_i64(low, carnot_min_i64(x, high));
}

static carnot_status* slice_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* outputs, void* state,
                                  size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_TRY(carnot_cuda_check_copy(x, y));
  int64_t starts[CARNOT_MAX_RANK], axes[CARNOT_MAX_RANK], steps[CARNOT_MAX_RANK];
  int count, axis_count, step_count;
  CARNOT_TRY(carnot_cuda_ints(&inputs[1], starts, CARNOT_MAX_RANK, &count));
  CARNOT_TRY(
      carnot_cuda_ints(carnot_cuda_optional(step, inputs, 3), axes, CARNOT_MAX_RANK, &axis_count));
  CARNOT_TRY(
      carnot_cuda_ints(carnot_cuda_optional(step, inputs, 4), steps, CARNOT_MAX_RANK, &step_count));
  int64_t strides[CARNOT_MAX_RANK], offset = 0;
  memcpy(strides, x->strides, sizeof(strides));
  for (int i = 0; i < count; i++) {
    int64_t axis = axis_count > i ? axes[i] : i, by = step_count > i ? steps[i] : 1;
    if (axis < 0) axis += x->rank;
    CARNOT_CHECK(axis >= 0 && axis < x->rank, INVALID_MODEL, "axis %lld", (long long)axis);
    int64_t d = x->dims[axis], start = starts[i] < 0 ? starts[i] + d : starts[i];
    offset += clamp(start, 0, by > 0 ? d : d - 1) * x->strides[axis];
    strides[axis] = y->dims[axis] > 1 ? x->strides[axis] * by : 0;
  }
  return carnot_cuda_strided_copy_make(step, y->rank, y->dims, strides, offset, y->strides, 0,
                                       carnot_cuda_bytes(x), state);
}

const carnot_tactic carnot_cuda_slice = {.name = "cuda_slice",
                                         .anchor = CARNOT_OP_SLICE,
                                         .numerics = CARNOT_NUMERICS_EXACT,
                                         .device = true,
                                         .strided_outputs = true,
                                         .reject = slice_reject,
                                         .configure = slice_shape,
                                         .run = carnot_cuda_strided_copy_tactic_run};

// ---- expand and tile ----

static const char* tile_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = list_reject(problem, reason, size);
  if (why) return why;
  const carnot_operand_desc *x = &problem->inputs[0], *y = &problem->outputs[0];
  int axes = x->rank;
  for (int d = 0; d < x->rank; d++)
    axes += x->dims[d] != y->dims[d] || x->min[d] != x->max[d] || y->min[d] != y->max[d];
  return axes <= CARNOT_MAX_RANK ? NULL : "too many axes";
}

static carnot_status* expand_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_TRY(carnot_cuda_check_copy(x, y));
  int64_t strides[CARNOT_MAX_RANK] = {0};
  for (int d = 0; d < x->rank; d++)
    if (x->dims[d] > 1) strides[d + y->rank - x->rank] = x->strides[d];
  return carnot_cuda_strided_copy_make(step, y->rank, y->dims, strides, 0, y->strides, 0,
                                       carnot_cuda_bytes(x), state);
}

// Each axis that repeats as two: the repetition, which reads with stride 0, and the axis itself.
static carnot_status* tile_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_TRY(carnot_cuda_check_copy(x, y));
  CARNOT_CHECK(y->rank == x->rank, INVALID_MODEL, "ranks %d and %d", x->rank, y->rank);
  int64_t dims[2 * CARNOT_MAX_RANK], src[2 * CARNOT_MAX_RANK], dst[2 * CARNOT_MAX_RANK];
  int axes = 0;
  for (int d = 0; d < x->rank; d++) {
    int64_t times = y->dims[d] / carnot_max_i64(1, x->dims[d]);
    if (times != 1) dims[axes] = times, src[axes] = 0, dst[axes++] = y->strides[d] * x->dims[d];
    dims[axes] = x->dims[d], src[axes] = x->strides[d], dst[axes++] = y->strides[d];
  }
  CARNOT_CHECK(axes <= CARNOT_MAX_RANK, UNSUPPORTED, "a repetition over %d axes", axes);
  return carnot_cuda_strided_copy_make(step, axes, dims, src, 0, dst, 0, carnot_cuda_bytes(x),
                                       state);
}

#define LIST_TACTIC(symbol, family, OP, reject_fn)                               \
  const carnot_tactic carnot_cuda_##symbol = {.name = "cuda_" #family,           \
                                              .anchor = CARNOT_OP_##OP,          \
                                              .numerics = CARNOT_NUMERICS_EXACT, \
                                              .device = true,                    \
                                              .strided_outputs = true,           \
                                              .reject = reject_fn,               \
                                              .configure = family##_shape,       \
                                              .run = carnot_cuda_strided_copy_tactic_run};
LIST_TACTIC(expand, expand, EXPAND, list_reject)
LIST_TACTIC(tile_op, tile, TILE, tile_reject)

// ---- depth to space and back ----

static const char* depth_space_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_is_depth_space(problem->region)) return "";
  problem->outputs[0].format.layout = problem->inputs[0].format.layout;
  return carnot_cuda_whole_bytes(&problem->inputs[0], reason, size);
}

static carnot_status* depth_space_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  carnot_depth_space_copy b;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_cuda_check_copy(&inputs[0], &outputs[0]));
  CARNOT_TRY(carnot_depth_space_copy_of(&step->region->nodes[0], &inputs[0], &outputs[0], &b));
  return carnot_cuda_strided_copy_make(step, 6, b.dims, b.src, 0, b.dst, 0,
                                       carnot_cuda_bytes(&inputs[0]), state);
}

const carnot_tactic carnot_cuda_depth_space = {.name = "cuda_depth_space",
                                               .anchor = CARNOT_OP_COUNT,
                                               .numerics = CARNOT_NUMERICS_EXACT,
                                               .device = true,
                                               .reject = depth_space_reject,
                                               .configure = depth_space_shape,
                                               .run = carnot_cuda_strided_copy_tactic_run};
