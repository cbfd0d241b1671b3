// Concat and Split: one kernel for all parts whose rows are those of the whole, else one strided
// copy a part; planned when it is recorded.
#include "backend/cuda/copy/strided_copy.h"

static const char* parts_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_op op = problem->tactic->anchor;
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

// ---- all parts by one kernel ----

// A tensor as |rows| rows of |inner| elements for each position of an axis, |pitch| apart.
typedef struct row_view {
  int64_t rows, inner, pitch;
} row_view;

// False where the axes inside |axis| are not dense, or those outside are no rows at one distance.
static bool view_rows(const carnot_operand* t, int64_t axis, row_view* out) {
  *out = (row_view){.rows = 1, .inner = 1};
  int64_t outer[CARNOT_MAX_RANK], dims[CARNOT_MAX_RANK];
  int count = 0;
  for (int d = 0; d < t->rank; d++) {
    if (d == axis || t->dims[d] == 1) continue;
    if (t->strides[d] < t->strides[axis]) {
      out->inner *= t->dims[d];
      continue;
    }
    int at = count++;  // by distance, the nearest last
    for (; at && outer[at - 1] < t->strides[d]; at--)
      outer[at] = outer[at - 1], dims[at] = dims[at - 1];
    outer[at] = t->strides[d], dims[at] = t->dims[d];
    out->rows *= t->dims[d];
  }
  for (int i = 0; i + 1 < count; i++)
    if (outer[i] != outer[i + 1] * dims[i + 1]) return false;
  out->pitch = count ? outer[count - 1] : t->dims[axis] * out->inner;
  return t->strides[axis] == out->inner;
}

// The widest element, up to 16 bytes, that all of |p| can be cut into.
static int widen(carnot_cuda_concat_params* p, int bytes) {
  for (; bytes < 16; bytes *= 2) {
    uintptr_t bits = (uintptr_t)p->whole | (uintptr_t)(p->pitch * bytes);
    for (int k = 0; k < p->count; k++)
      bits |=
          (uintptr_t)p->parts[k] | (uintptr_t)((p->starts[k] | p->ends[k] | p->pitches[k]) * bytes);
    if (bits % (2 * (uintptr_t)bytes)) break;
    p->pitch /= 2;
    for (int k = 0; k < p->count; k++) p->starts[k] /= 2, p->ends[k] /= 2, p->pitches[k] /= 2;
  }
  return bytes;
}

static const carnot_cuda_kernel_id kConcat[] = CARNOT_CUDA_BY_BYTES(concat);

static carnot_status* launch_parts(const carnot_step_view* step, carnot_cuda_concat_params* p,
                                   int bytes) {
  CUfunction function;
  bytes = widen(p, bytes);
  CARNOT_TRY(carnot_cuda_kernel(carnot_cuda_of_step(step), kConcat[bytes], &function));
  const int64_t units = p->rows * p->ends[p->count - 1],
                grid[3] = {carnot_ceildiv(units, CARNOT_CUDA_THREADS), 1, 1};
  return carnot_cuda_launch(step, function, grid, CARNOT_CUDA_THREADS, p);
}

// Where part |at| of the axis begins in the whole.
static const char* place_of(const carnot_operand* whole, int64_t axis, int64_t at) {
  return (const char*)whole->data + at * whole->strides[axis] * carnot_cuda_bytes(whole);
}

// True where the rows of all parts that are to be moved are those of the whole.
static bool are_rows(const carnot_operand* whole, const carnot_operand* parts, uint32_t count,
                     int64_t axis, row_view* out) {
  if (!view_rows(whole, axis, out) || out->pitch > INT32_MAX) return false;
  int64_t at = 0;
  for (uint32_t i = 0; i < count; i++) {
    row_view v;
    if (parts[i].format.dtype == CARNOT_DTYPE_INVALID) continue;
    const bool in_place = place_of(whole, axis, at) == parts[i].data;
    at += parts[i].dims[axis];
    if (in_place || !parts[i].dims[axis]) continue;
    if (parts[i].format.layout != whole->format.layout || !view_rows(&parts[i], axis, &v) ||
        v.rows != out->rows || v.inner != out->inner || v.pitch > INT32_MAX)
      return false;
  }
  return true;
}

static carnot_status* move_rows(const carnot_step_view* step, const carnot_operand* whole,
                                const carnot_operand* parts, uint32_t count, int64_t axis,
                                const row_view* v, bool joins) {
  row_view rows;
  carnot_cuda_concat_params p = {
      .whole = whole->data, .rows = v->rows, .pitch = v->pitch, .splits = !joins};
  const int bytes = carnot_cuda_bytes(whole);
  int64_t at = 0;
  for (uint32_t i = 0; i < count; i++) {
    const carnot_operand* part = &parts[i];
    if (part->format.dtype == CARNOT_DTYPE_INVALID) continue;
    const int64_t start = at * v->inner, length = part->dims[axis] * v->inner;
    const bool in_place = place_of(whole, axis, at) == part->data;
    at += part->dims[axis];
    if (in_place || !length) continue;
    p.parts[p.count] = part->data, p.starts[p.count] = (int)start;
    p.pitches[p.count] = view_rows(part, axis, &rows) ? (int)rows.pitch : 0;
    p.ends[p.count] = (int)length + (p.count ? p.ends[p.count - 1] : 0);
    if (++p.count < CARNOT_CUDA_CONCAT_PARTS || !p.rows) continue;
    carnot_cuda_concat_params full = p;
    CARNOT_TRY(launch_parts(step, &full, bytes));
    p.count = 0;
  }
  return p.count && p.rows ? launch_parts(step, &p, bytes) : NULL;
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
  row_view rows;
  if (count > 1 && are_rows(whole, parts, count, axis, &rows))
    return move_rows(step, whole, parts, count, axis, &rows, joins);
  for (uint32_t i = 0; i < count; i++) {
    const carnot_operand* part = &parts[i];
    if (part->format.dtype == CARNOT_DTYPE_INVALID) continue;
    int64_t offset = at * whole->strides[axis];
    at += part->dims[axis];
    const bool in_place =
        (const char*)whole->data + offset * carnot_cuda_bytes(whole) == part->data;
    if (in_place) continue;  // the operand is a view of the whole: nothing to copy
    carnot_cuda_strided_copy move;
    CARNOT_TRY(carnot_cuda_strided_copy_make(
        step, part->rank, part->dims, joins ? part->strides : whole->strides, joins ? 0 : offset,
        joins ? whole->strides : part->strides, joins ? offset : 0, carnot_cuda_bytes(whole),
        &move));
    CARNOT_TRY(carnot_cuda_strided_copy_run(step, &move, joins ? part->data : whole->data,
                                            joins ? whole->data : part->data));
  }
  return NULL;
}

#define PARTS_TACTIC(family, OP)                                                 \
  const carnot_tactic carnot_cuda_##family = {.name = "cuda_" #family,           \
                                              .anchor = CARNOT_OP_##OP,          \
                                              .numerics = CARNOT_NUMERICS_EXACT, \
                                              .device = true,                    \
                                              .strided_outputs = true,           \
                                              .pitched_inputs = ~(uint64_t)0,    \
                                              .parts_in_place = true,            \
                                              .reject = parts_reject,            \
                                              .configure = parts_shape,          \
                                              .run = parts_run};
PARTS_TACTIC(concat, CONCAT)
PARTS_TACTIC(split, SPLIT)
