// Steps that move elements: copies between processor and accelerator, reformats, transposes, parts
// of tensors, repetitions.
#include <stdio.h>
#include <string.h>

#include "backend/cuda/each.h"
#include "tactic/problem/depth_space.h"

// ---- strided copies ----

typedef struct walk {
  int rank;
  int64_t dims[CARNOT_MAX_RANK], src[CARNOT_MAX_RANK], dst[CARNOT_MAX_RANK];
} walk;

// Axes of one element dropped, neighbours joined that both sides let.
static void collapse(walk* w) {
  int rank = 0;
  for (int d = 0; d < w->rank; d++) {
    if (w->dims[d] == 1) continue;
    bool joins = rank > 0 && w->src[rank - 1] == w->src[d] * w->dims[d] &&
                 w->dst[rank - 1] == w->dst[d] * w->dims[d];
    int to = joins ? rank - 1 : rank++;
    w->dims[to] = joins ? w->dims[to] * w->dims[d] : w->dims[d];
    w->src[to] = w->src[d], w->dst[to] = w->dst[d];
  }
  w->rank = rank;
}

// The widest element that both sides can be cut into: up to 16 bytes.
static int widen(walk* w, int bytes, int64_t src_offset, int64_t dst_offset) {
  int last = w->rank - 1;
  while (w->rank && bytes < 16 && w->src[last] == 1 && w->dst[last] == 1 &&
         w->dims[last] % 2 == 0) {
    bool even = src_offset % (2 * bytes) == 0 && dst_offset % (2 * bytes) == 0;
    for (int d = 0; d < last; d++) even = even && w->src[d] % 2 == 0 && w->dst[d] % 2 == 0;
    if (!even) break;
    for (int d = 0; d < last; d++) w->src[d] /= 2, w->dst[d] /= 2;
    w->dims[last] /= 2;
    bytes *= 2;
  }
  return bytes;
}

// Two axes swapped, with at most one of batches around them.
static bool is_swap(const walk* w, carnot_cuda_move* out) {
  if (w->rank != 2 && w->rank != 3) return false;
  int r = w->rank - 2, c = w->rank - 1;
  if (w->dst[c] != 1 || w->src[r] != 1 || w->dims[r] < 8 || w->dims[c] < 8) return false;
  carnot_cuda_copy* p = &out->params;
  p->rank = 3;
  p->dims[0] = w->rank == 3 ? w->dims[0] : 1, p->dims[1] = w->dims[r], p->dims[2] = w->dims[c];
  p->src[0] = w->rank == 3 ? w->src[0] : 0, p->src[1] = 1, p->src[2] = w->src[c];
  p->dst[0] = w->rank == 3 ? w->dst[0] : 0, p->dst[1] = w->dst[r], p->dst[2] = 1;
  out->grid[0] = carnot_ceildiv(w->dims[c], 32), out->grid[1] = carnot_ceildiv(w->dims[r], 32);
  out->grid[2] = p->dims[0];
  p->count = 0;  // the mark of tiles
  return out->grid[1] <= 65535 && out->grid[2] <= 65535;
}

const char* carnot_cuda_sized_name(const char* family, int bytes, char* name, size_t size) {
  snprintf(name, size, "%s_%d", family, bytes);
  return name;
}

carnot_status* carnot_cuda_move_make(const carnot_step_view* step, int rank, const int64_t* dims,
                                     const int64_t* src, int64_t src_offset, const int64_t* dst,
                                     int64_t dst_offset, int bytes, carnot_cuda_move* out) {
  *out = (carnot_cuda_move){.src_offset = src_offset * bytes, .dst_offset = dst_offset * bytes};
  walk w = {.rank = rank};
  memcpy(w.dims, dims, (size_t)rank * sizeof(*dims));
  memcpy(w.src, src, (size_t)rank * sizeof(*src));
  memcpy(w.dst, dst, (size_t)rank * sizeof(*dst));
  out->params.count = carnot_dims_count(dims, rank);
  if (!out->params.count) return NULL;
  collapse(&w);
  char name[32];
  if (is_swap(&w, out))
    return carnot_cuda_kernel(carnot_cuda_of_step(step),
                              carnot_cuda_sized_name("transpose", bytes, name, 32), &out->function);
  *out = (carnot_cuda_move){.src_offset = src_offset * bytes, .dst_offset = dst_offset * bytes};
  bytes = widen(&w, bytes, out->src_offset, out->dst_offset);
  out->params.rank = w.rank;
  out->params.count = carnot_dims_count(w.dims, w.rank);
  CARNOT_CHECK(w.rank <= CARNOT_CUDA_RANK, UNSUPPORTED, "a copy over %d axes, %d are taken", w.rank,
               CARNOT_CUDA_RANK);
  for (int d = 0; d < w.rank; d++) {
    out->params.dims[d] = w.dims[d];
    out->params.src[d] = w.src[d];
    out->params.dst[d] = w.dst[d];
  }
  out->grid[0] = carnot_ceildiv(out->params.count, CARNOT_CUDA_THREADS);
  out->grid[1] = out->grid[2] = 1;
  return carnot_cuda_kernel(carnot_cuda_of_step(step),
                            carnot_cuda_sized_name("copy", bytes, name, 32), &out->function);
}

carnot_status* carnot_cuda_move_run(const carnot_step_view* step, carnot_cuda_move* move,
                                    const void* x, void* y) {
  if (!move->function) return NULL;
  move->params.x = (const char*)x + move->src_offset;
  move->params.y = (char*)y + move->dst_offset;
  return carnot_cuda_launch(step, move->function, move->grid, CARNOT_CUDA_THREADS, &move->params);
}

const char* carnot_cuda_whole_bytes(const carnot_operand_desc* t, char* reason, size_t size) {
  int bits = carnot_dtype_bits(t->format.dtype);
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0) return "an operand has no known rank";
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    return carnot_cuda_because(reason, size, "no copy for %s", carnot_dtype_name(t->format.dtype));
  return NULL;
}

// One move of input 0 to output 0.
static carnot_status* run_move(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  return carnot_cuda_move_run(step, state, inputs[0].data, outputs[0].data);
}

carnot_status* carnot_cuda_check_move(const carnot_operand* x, const carnot_operand* y) {
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(carnot_cuda_on_device(y, 1));
  CARNOT_CHECK(x->format.dtype == y->format.dtype, INVALID_ARGUMENT, "a move from %s to %s",
               carnot_dtype_name(x->format.dtype), carnot_dtype_name(y->format.dtype));
  return NULL;
}

// ---- between the memories ----

static const char* only_the_builder(carnot_problem* problem, char* reason, size_t size) {
  (void)problem, (void)reason, (void)size;
  return "";
}

static carnot_status* cross_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* outputs, void* state,
                                  size_t* out_workspace_bytes) {
  (void)step;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(inputs[0].format.memory != outputs[0].format.memory &&
                   inputs[0].format.dtype == outputs[0].format.dtype,
               INVALID_MODEL, "a copy between processor and device stays where it is");
  *(size_t*)state = carnot_dtype_bytes(inputs[0].format.dtype,
                                       (size_t)carnot_dims_count(inputs[0].dims, inputs[0].rank));
  return NULL;
}

static carnot_status* cross_run(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  carnot_copy_kind kind =
      outputs[0].format.memory == CARNOT_MEMORY_DEVICE ? CARNOT_COPY_UPLOAD : CARNOT_COPY_DOWNLOAD;
  return carnot_cuda_backend.copy(step->stream, outputs[0].data, inputs[0].data, *(size_t*)state,
                                  kind);
}

#define CROSS_ROW(variable, text)                                                  \
  const carnot_tactic carnot_cuda_##variable = {.name = text,                      \
                                                .anchor = CARNOT_OP_COUNT,         \
                                                .numerics = CARNOT_NUMERICS_EXACT, \
                                                .device = true,                    \
                                                .cross_memory = true,              \
                                                .reject = only_the_builder,        \
                                                .configure = cross_shape,          \
                                                .run = cross_run};
CROSS_ROW(upload, CARNOT_UPLOAD_TACTIC)
CROSS_ROW(download, CARNOT_DOWNLOAD_TACTIC)

// ---- reformat ----

static carnot_status* reformat_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_cuda_check_move(&inputs[0], &outputs[0]));
  return carnot_cuda_move_make(step, outputs[0].rank, outputs[0].dims, inputs[0].strides, 0,
                               outputs[0].strides, 0, carnot_cuda_bytes(&inputs[0]), state);
}

const carnot_tactic carnot_cuda_reformat = {.name = CARNOT_DEVICE_REFORMAT_TACTIC,
                                            .anchor = CARNOT_OP_COUNT,
                                            .numerics = CARNOT_NUMERICS_EXACT,
                                            .device = true,
                                            .strided_outputs = true,
                                            .reject = only_the_builder,
                                            .configure = reformat_shape,
                                            .run = run_move};

// ---- transpose ----

static const char* transpose_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_TRANSPOSE)) return "";
  problem->outputs[0].format.layout =
      CARNOT_LAYOUT_ROW_MAJOR;  // the input is read however it stands
  return carnot_cuda_whole_bytes(&problem->inputs[0], reason, size);
}

static carnot_status* transpose_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_TRY(carnot_cuda_check_move(x, y));
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
  return carnot_cuda_move_make(step, y->rank, y->dims, strides, 0, y->strides, 0,
                               carnot_cuda_bytes(x), state);
}

const carnot_tactic carnot_cuda_transpose = {.name = "cuda_transpose",
                                             .anchor = CARNOT_OP_TRANSPOSE,
                                             .numerics = CARNOT_NUMERICS_EXACT,
                                             .device = true,
                                             .strided_outputs = true,
                                             .reject = transpose_reject,
                                             .configure = transpose_shape,
                                             .run = run_move};

// ---- concat and split: one copy a part, planned when it is recorded ----

static const char* parts_reject(carnot_problem* problem, carnot_op op, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, op)) return "";
  bool joins = op == CARNOT_OP_CONCAT;
  carnot_operand_desc* whole = joins ? &problem->outputs[0] : &problem->inputs[0];
  const char* why = carnot_cuda_whole_bytes(whole, reason, size);
  if (why) return why;
  carnot_layout layout = problem->inputs[0].format.layout;
  if (joins)
    for (uint32_t i = 0; i < problem->input_count; i++)
      if (problem->inputs[i].is_constant) layout = CARNOT_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; joins && i < problem->input_count; i++)
    problem->inputs[i].format.layout = layout;
  if (!joins) carnot_cuda_keep_on_host(problem, 1);
  for (uint32_t i = 0; i < problem->output_count; i++) problem->outputs[i].format.layout = layout;
  return NULL;
}
static const char* concat_reject(carnot_problem* problem, char* reason, size_t size) {
  return parts_reject(problem, CARNOT_OP_CONCAT, reason, size);
}
static const char* split_reject(carnot_problem* problem, char* reason, size_t size) {
  return parts_reject(problem, CARNOT_OP_SPLIT, reason, size);
}

static carnot_status* parts_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* outputs, void* state,
                                  size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_plan_node* node = &step->region->nodes[0];
  bool joins = node->op == CARNOT_OP_CONCAT;
  const carnot_operand* whole = joins ? &outputs[0] : &inputs[0];
  const carnot_operand* parts = joins ? inputs : outputs;
  uint32_t count = joins ? step->input_count : step->output_count;
  CARNOT_TRY(carnot_cuda_on_device(parts, count));
  CARNOT_TRY(carnot_cuda_on_device(whole, 1));
  int64_t axis = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "axis"), total = 0;
  if (axis < 0) axis += whole->rank;
  CARNOT_CHECK(axis >= 0 && axis < whole->rank, INVALID_MODEL, "axis %lld", (long long)axis);
  for (uint32_t i = 0; i < count; i++) {
    if (parts[i].format.dtype == CARNOT_DTYPE_INVALID) continue;
    CARNOT_CHECK(parts[i].rank == whole->rank && parts[i].format.dtype == whole->format.dtype,
                 INVALID_ARGUMENT, "part %u has another rank or type", i);
    total += parts[i].dims[axis];
  }
  CARNOT_CHECK(total <= whole->dims[axis], INVALID_ARGUMENT, "parts of %lld in %lld",
               (long long)total, (long long)whole->dims[axis]);
  *(int64_t*)state = axis;
  return NULL;
}

static carnot_status* parts_run(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  bool joins = step->region->nodes[0].op == CARNOT_OP_CONCAT;
  const carnot_operand* whole = joins ? &outputs[0] : &inputs[0];
  const carnot_operand* parts = joins ? inputs : outputs;
  uint32_t count = joins ? step->input_count : step->output_count;
  int64_t axis = *(int64_t*)state, at = 0;
  for (uint32_t i = 0; i < count; i++) {
    const carnot_operand* part = &parts[i];
    if (part->format.dtype == CARNOT_DTYPE_INVALID) continue;
    int64_t offset = at * whole->strides[axis];
    at += part->dims[axis];
    const char* place = (const char*)whole->data + offset * carnot_cuda_bytes(whole);
    if (place == part->data) continue;  // written in place
    carnot_cuda_move move;
    CARNOT_TRY(carnot_cuda_move_make(step, part->rank, part->dims,
                                     joins ? part->strides : whole->strides, joins ? 0 : offset,
                                     joins ? whole->strides : part->strides, joins ? offset : 0,
                                     carnot_cuda_bytes(whole), &move));
    CARNOT_TRY(carnot_cuda_move_run(step, &move, joins ? part->data : whole->data,
                                    joins ? whole->data : part->data));
  }
  return NULL;
}

#define PARTS_ROW(family, OP)                                                    \
  const carnot_tactic carnot_cuda_##family = {.name = "cuda_" #family,           \
                                              .anchor = CARNOT_OP_##OP,          \
                                              .numerics = CARNOT_NUMERICS_EXACT, \
                                              .device = true,                    \
                                              .strided_outputs = true,           \
                                              .reject = family##_reject,         \
                                              .configure = parts_shape,          \
                                              .run = parts_run};
PARTS_ROW(concat, CONCAT)
PARTS_ROW(split, SPLIT)

// ---- slice ----

static const char* list_reject(carnot_problem* problem, carnot_op op, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, op)) return "";
  carnot_cuda_keep_on_host(problem, 1);
  problem->outputs[0].format.layout = problem->inputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return carnot_cuda_whole_bytes(&problem->inputs[0], reason, size);
}
static const char* slice_reject(carnot_problem* problem, char* reason, size_t size) {
  return list_reject(problem, CARNOT_OP_SLICE, reason, size);
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
  return carnot_max_i64(low, carnot_min_i64(x, high));
}

static carnot_status* slice_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* outputs, void* state,
                                  size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_TRY(carnot_cuda_check_move(x, y));
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
  return carnot_cuda_move_make(step, y->rank, y->dims, strides, offset, y->strides, 0,
                               carnot_cuda_bytes(x), state);
}

const carnot_tactic carnot_cuda_slice = {.name = "cuda_slice",
                                         .anchor = CARNOT_OP_SLICE,
                                         .numerics = CARNOT_NUMERICS_EXACT,
                                         .device = true,
                                         .strided_outputs = true,
                                         .reject = slice_reject,
                                         .configure = slice_shape,
                                         .run = run_move};

// ---- expand and tile ----

static const char* expand_reject(carnot_problem* problem, char* reason, size_t size) {
  return list_reject(problem, CARNOT_OP_EXPAND, reason, size);
}
static const char* tile_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = list_reject(problem, CARNOT_OP_TILE, reason, size);
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
  CARNOT_TRY(carnot_cuda_check_move(x, y));
  int64_t strides[CARNOT_MAX_RANK] = {0};
  for (int d = 0; d < x->rank; d++)
    if (x->dims[d] > 1) strides[d + y->rank - x->rank] = x->strides[d];
  return carnot_cuda_move_make(step, y->rank, y->dims, strides, 0, y->strides, 0,
                               carnot_cuda_bytes(x), state);
}

// Each axis that repeats as two: the repetition, which reads with stride 0, and the axis itself.
static carnot_status* tile_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_TRY(carnot_cuda_check_move(x, y));
  CARNOT_CHECK(y->rank == x->rank, INVALID_MODEL, "ranks %d and %d", x->rank, y->rank);
  int64_t dims[2 * CARNOT_MAX_RANK], src[2 * CARNOT_MAX_RANK], dst[2 * CARNOT_MAX_RANK];
  int axes = 0;
  for (int d = 0; d < x->rank; d++) {
    int64_t times = y->dims[d] / carnot_max_i64(1, x->dims[d]);
    if (times != 1) dims[axes] = times, src[axes] = 0, dst[axes++] = y->strides[d] * x->dims[d];
    dims[axes] = x->dims[d], src[axes] = x->strides[d], dst[axes++] = y->strides[d];
  }
  CARNOT_CHECK(axes <= CARNOT_MAX_RANK, UNSUPPORTED, "a repetition over %d axes", axes);
  return carnot_cuda_move_make(step, axes, dims, src, 0, dst, 0, carnot_cuda_bytes(x), state);
}

#define LIST_ROW(family, OP)                                                     \
  const carnot_tactic carnot_cuda_##family = {.name = "cuda_" #family,           \
                                              .anchor = CARNOT_OP_##OP,          \
                                              .numerics = CARNOT_NUMERICS_EXACT, \
                                              .device = true,                    \
                                              .strided_outputs = true,           \
                                              .reject = family##_reject,         \
                                              .configure = family##_shape,       \
                                              .run = run_move};
LIST_ROW(expand, EXPAND)
LIST_ROW(tile, TILE)

// ---- depth to space and back ----

static const char* blocks_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_is_blocks(problem->region)) return "";
  problem->outputs[0].format.layout = problem->inputs[0].format.layout;
  return carnot_cuda_whole_bytes(&problem->inputs[0], reason, size);
}

static carnot_status* blocks_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  carnot_blocks b;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_cuda_check_move(&inputs[0], &outputs[0]));
  CARNOT_TRY(carnot_blocks_of(&step->region->nodes[0], &inputs[0], &outputs[0], &b));
  return carnot_cuda_move_make(step, 6, b.dims, b.src, 0, b.dst, 0, carnot_cuda_bytes(&inputs[0]),
                               state);
}

const carnot_tactic carnot_cuda_blocks = {.name = "cuda_blocks",
                                          .anchor = CARNOT_OP_COUNT,
                                          .numerics = CARNOT_NUMERICS_EXACT,
                                          .device = true,
                                          .reject = blocks_reject,
                                          .configure = blocks_shape,
                                          .run = run_move};
