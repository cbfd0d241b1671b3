// Layers that read or write at places that are data, or that depend on the place alone.
#include <string.h>

#include "backend/cuda/each.h"

static const carnot_plan_node* node_of(const carnot_step_view* step) {
  return &step->region->nodes[0];
}
static int64_t attr(const carnot_step_view* step, const char* name) {
  return carnot_attr_int(carnot_op_get(node_of(step)->op), &node_of(step)->attrs, name);
}
static int64_t count_of(const carnot_operand* t) { return carnot_dims_count(t->dims, t->rank); }

static carnot_status* check_index(const carnot_operand* t) {
  CARNOT_TRY(carnot_cuda_on_device(t, 1));
  CARNOT_CHECK(carnot_dtype_is_integer(t->format.dtype), INVALID_MODEL, "indices of %s",
               carnot_dtype_name(t->format.dtype));
  return NULL;
}

// ---- gather and scatter along an axis ----

static const char* gather_elements_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_GATHER_ELEMENTS, 0, reason, size);
}
static const char* scatter_elements_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_SCATTER_ELEMENTS, 0, reason, size);
}
static const char* scatter_nd_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_SCATTER_ND, 0, reason, size);
}
static const char* tensor_scatter_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_TENSOR_SCATTER, 0, reason, size);
}

static carnot_status* set_elements(const carnot_step_view* step, const carnot_operand* x,
                                   const carnot_operand* index, carnot_cuda_elements* out) {
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(check_index(index));
  CARNOT_CHECK(x->rank == index->rank && x->rank > 0 && x->rank <= CARNOT_CUDA_RANK, INVALID_MODEL,
               "indices of rank %d, the input's is %d", index->rank, x->rank);
  out->rank = x->rank;
  out->io.bytes = carnot_cuda_bytes(x);
  CARNOT_TRY(carnot_cuda_axis(step, "axis", x->rank, &out->axis));
  out->size = x->dims[out->axis];
  int64_t stride = 1;
  for (int d = x->rank - 1; d >= 0; d--) {
    CARNOT_CHECK(d == out->axis || index->dims[d] <= x->dims[d], INVALID_ARGUMENT,
                 "dimension %d of the indices is %lld, the input has %lld", d,
                 (long long)index->dims[d], (long long)x->dims[d]);
    out->dims[d] = index->dims[d];
    out->stride[d] = stride;
    stride *= x->dims[d];
  }
  return NULL;
}

static carnot_status* gather_elements_shape(const carnot_step_view* step,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs, void* state,
                                            size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_elements p = {0};
  CARNOT_TRY(set_elements(step, &inputs[0], &inputs[1], &p));
  CARNOT_CHECK(count_of(&outputs[0]) == count_of(&inputs[1]) &&
                   outputs[0].format.dtype == inputs[0].format.dtype,
               INVALID_ARGUMENT, "the result of a gather has another size or type");
  return carnot_cuda_each_shape(step, inputs, outputs, "gather_elements", count_of(&outputs[0]), &p,
                                sizeof(p), state);
}

static carnot_status* read_reduction(const carnot_step_view* step, int* out) {
  static const char* const kNames[] = {"none", "add", "mul", "max", "min"};
  const carnot_op_row* row = carnot_op_get(node_of(step)->op);
  for (*out = 0; *out < 5; ++*out)
    if (carnot_attr_is(row, &node_of(step)->attrs, "reduction", kNames[*out])) return NULL;
  return CARNOT_ERROR(INVALID_MODEL, "reduction must be none, add, mul, max or min");
}

// The result begins as a copy of the input.
static carnot_status* check_copied(const carnot_operand* x, const carnot_operand* updates,
                                   const carnot_operand* y) {
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(carnot_cuda_on_device(updates, 1));
  CARNOT_CHECK(x->format.dtype == y->format.dtype && x->format.dtype == updates->format.dtype &&
                   count_of(x) == count_of(y),
               INVALID_ARGUMENT, "input, updates and result differ in type or size");
  return NULL;
}

static carnot_status* shape_copied(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, const char* kernel, int64_t count,
                                   const void* params, size_t bytes, carnot_cuda_each* state) {
  CARNOT_TRY(carnot_cuda_each_shape(step, inputs, outputs, kernel, count, params, bytes, state));
  state->copied = (size_t)(count_of(&inputs[0]) * carnot_cuda_bytes(&inputs[0]));
  return NULL;
}

static carnot_status* scatter_elements_shape(const carnot_step_view* step,
                                             const carnot_operand* inputs,
                                             const carnot_operand* outputs, void* state,
                                             size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_elements p = {0};
  CARNOT_TRY(check_copied(&inputs[0], &inputs[2], &outputs[0]));
  CARNOT_TRY(set_elements(step, &inputs[0], &inputs[1], &p));
  CARNOT_TRY(read_reduction(step, &p.reduction));
  CARNOT_CHECK(count_of(&inputs[2]) == count_of(&inputs[1]), INVALID_ARGUMENT,
               "%lld updates for %lld indices", (long long)count_of(&inputs[2]),
               (long long)count_of(&inputs[1]));
  int64_t lanes = count_of(&inputs[1]) / carnot_max_i64(1, p.dims[p.axis]);
  return shape_copied(step, inputs, outputs, "scatter_elements", lanes, &p, sizeof(p), state);
}

// ---- scatter by several indices ----

static carnot_status* scatter_nd_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *index = &inputs[1];
  CARNOT_TRY(check_copied(x, &inputs[2], &outputs[0]));
  CARNOT_TRY(check_index(index));
  int64_t depth = index->rank > 0 ? index->dims[index->rank - 1] : -1;
  CARNOT_CHECK(depth >= 0 && depth <= x->rank && depth <= CARNOT_CUDA_RANK, INVALID_MODEL,
               "%lld indices for rank %d", (long long)depth, x->rank);
  carnot_cuda_scatter_nd p = {.depth = (int)depth,
                              .rows = carnot_dims_count(index->dims, index->rank - 1),
                              .inner = carnot_dims_count(x->dims + depth, x->rank - (int)depth)};
  p.io.bytes = carnot_cuda_bytes(x);
  for (int k = 0; k < (int)depth; k++) p.dims[k] = x->dims[k];
  CARNOT_TRY(read_reduction(step, &p.reduction));
  CARNOT_CHECK(count_of(&inputs[2]) == p.rows * p.inner, INVALID_ARGUMENT,
               "%lld updates where %lld belong", (long long)count_of(&inputs[2]),
               (long long)(p.rows * p.inner));
  int64_t count = p.reduction == CARNOT_CUDA_KEEP ? p.rows * p.inner : p.rows ? p.inner : 0;
  return shape_copied(step, inputs, outputs, "scatter_nd", count, &p, sizeof(p), state);
}

static carnot_status* tensor_scatter_shape(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *u = &inputs[1],
                       *places = carnot_cuda_optional(step, inputs, 2);
  CARNOT_TRY(check_copied(x, u, &outputs[0]));
  if (places->format.dtype) CARNOT_TRY(check_index(places));
  int axis;
  CARNOT_TRY(carnot_cuda_axis(step, "axis", x->rank, &axis));
  CARNOT_CHECK(axis > 0 && u->rank == x->rank && x->dims[0] > 0, INVALID_MODEL,
               "axis %d of ranks %d and %d", axis, x->rank, u->rank);
  for (int d = 0; d < x->rank; d++)
    CARNOT_CHECK(u->dims[d] == x->dims[d] || (d == axis && u->dims[d] <= x->dims[d]),
                 INVALID_ARGUMENT, "dimension %d: cache %lld, update %lld", d,
                 (long long)x->dims[d], (long long)u->dims[d]);
  CARNOT_CHECK(!places->format.dtype || count_of(places) == x->dims[0], INVALID_ARGUMENT,
               "%lld places for %lld samples", (long long)count_of(places), (long long)x->dims[0]);
  carnot_cuda_tensor_scatter p = {
      .size = x->dims[axis],
      .steps = u->dims[axis],
      .inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1),
      .per_sample = carnot_dims_count(x->dims + 1, axis - 1),
      .circular = carnot_attr_is(carnot_op_get(node_of(step)->op), &node_of(step)->attrs, "mode",
                                 "circular")};
  p.io.bytes = carnot_cuda_bytes(x);
  return shape_copied(step, inputs, outputs, "tensor_scatter", count_of(u), &p, sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(gather_elements_row, "cuda_gather_elements", CARNOT_OP_GATHER_ELEMENTS,
                     gather_elements_reject, gather_elements_shape);
CARNOT_CUDA_EACH_ROW(scatter_elements_row, "cuda_scatter_elements", CARNOT_OP_SCATTER_ELEMENTS,
                     scatter_elements_reject, scatter_elements_shape);
CARNOT_CUDA_EACH_ROW(scatter_nd_row, "cuda_scatter_nd", CARNOT_OP_SCATTER_ND, scatter_nd_reject,
                     scatter_nd_shape);
CARNOT_CUDA_EACH_ROW(tensor_scatter_row, "cuda_tensor_scatter", CARNOT_OP_TENSOR_SCATTER,
                     tensor_scatter_reject, tensor_scatter_shape);

// ---- the same bits as another type ----

static const char* bit_cast_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_BIT_CAST, 0, reason, size);
}

static carnot_status* bit_cast_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  int bytes = carnot_cuda_bytes(x);
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_CHECK(count_of(x) * bytes == count_of(y) * carnot_cuda_bytes(y), INVALID_ARGUMENT,
               "%lld bytes as %lld", (long long)(count_of(x) * bytes),
               (long long)(count_of(y) * carnot_cuda_bytes(y)));
  const carnot_cuda_place p = {0};
  return shape_copied(step, inputs, outputs, NULL, /*count=*/0, &p, sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(bit_cast_row, "cuda_bit_cast", CARNOT_OP_BIT_CAST, bit_cast_reject,
                     bit_cast_shape);

// ---- by the place alone ----

static const char* trilu_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_TRILU, 0, reason, size);
}
static const char* fill_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_CONSTANT_OF_SHAPE, 1u, reason, size);
}
static const char* one_hot_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_ONE_HOT, 1u << 1, reason, size);
}
static const char* reverse_sequence_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_REVERSE_SEQUENCE, 0, reason, size);
}
static const char* range_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_RANGE, 7u, reason, size);
}
static const char* eye_like_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_EYE_LIKE, 0, reason, size);
}

static carnot_status* trilu_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* outputs, void* state,
                                  size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *diagonal = carnot_cuda_optional(step, inputs, 1);
  CARNOT_TRY(check_copied(x, x, &outputs[0]));
  CARNOT_CHECK(x->rank >= 2, INVALID_MODEL, "rank %d, must be 2 or more", x->rank);
  CARNOT_TRY(carnot_cuda_on_device(diagonal, 1));
  CARNOT_CHECK(!diagonal->format.dtype || count_of(diagonal) == 1, INVALID_MODEL, "%lld diagonals",
               (long long)count_of(diagonal));
  carnot_cuda_place p = {.rows = x->dims[x->rank - 2],
                         .columns = x->dims[x->rank - 1],
                         .flag = attr(step, "upper") != 0};
  p.io.bytes = carnot_cuda_bytes(x);
  return carnot_cuda_each_shape(step, inputs, outputs, "trilu", count_of(x), &p, sizeof(p), state);
}

static carnot_status* fill_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* y = &outputs[0];
  const carnot_attr* value = carnot_attrs_find(&node_of(step)->attrs, "value");
  const carnot_tensor* given =
      value && value->type == CARNOT_ATTR_TENSOR ? value->tensor : NULL;  // else zero, float32
  carnot_cuda_place p = {.bits = 0};
  p.io.bytes = carnot_cuda_bytes(y);
  CARNOT_CHECK(p.io.bytes <= 8 && (!given || (given->dtype == y->format.dtype && given->data &&
                                              carnot_tensor_count(given) == 1)),
               INVALID_MODEL, "a fill of %s", carnot_dtype_name(y->format.dtype));
  if (given) memcpy(&p.bits, given->data, (size_t)p.io.bytes);
  return carnot_cuda_each_shape(step, inputs, outputs, "fill", count_of(y), &p, sizeof(p), state);
}

// Input |i| is absent or a constant 0.
static bool is_zero(const carnot_problem* problem, uint32_t i) {
  if (i >= problem->input_count || problem->inputs[i].kind != CARNOT_VALUE_TENSOR) return true;
  const carnot_operand_desc* t = &problem->inputs[i];
  return carnot_is_known(t) && carnot_tensor_count(t->tensor) == 1 &&
         carnot_load_f64(t->format.dtype, t->tensor->data, 0) == 0;
}

static const char* dropout_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_DROPOUT) && !is_zero(problem, 2))
    return "it draws by the seed of the run";
  return carnot_cuda_each_reject(problem, CARNOT_OP_DROPOUT, 6u, reason, size);
}

static carnot_status* dropout_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = carnot_cuda_output(step, outputs, 0);
  carnot_cuda_place p = {.k = 0};
  p.io.bytes = carnot_cuda_bytes(x);
  const carnot_operand* mask = carnot_cuda_output(step, outputs, 1);
  CARNOT_CHECK((!y->format.dtype || y->format.dtype == x->format.dtype) &&
                   (!mask->format.dtype || mask->format.dtype == CARNOT_DTYPE_BOOL),
               INVALID_ARGUMENT, "the result or the mask has another type");
  CARNOT_TRY(carnot_cuda_expect(x, "x", count_of(x)));
  CARNOT_TRY(carnot_cuda_expect(y, "the result", count_of(x)));
  CARNOT_TRY(carnot_cuda_expect(mask, "the mask", count_of(x)));
  return carnot_cuda_each_shape(step, inputs, outputs, "dropout", count_of(x), &p, sizeof(p),
                                state);
}

static carnot_status* one_hot_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *index = &inputs[0], *values = &inputs[2], *y = &outputs[0];
  int axis;
  double depth;
  CARNOT_TRY(carnot_cuda_on_device(index, 1));
  CARNOT_TRY(carnot_cuda_on_device(values, 1));
  CARNOT_TRY(carnot_cuda_axis(step, "axis", index->rank + 1, &axis));
  CARNOT_TRY(carnot_cuda_number_of(&inputs[1], 0, &depth));
  carnot_cuda_place p = {.k = (int64_t)depth,
                         .inner = carnot_dims_count(index->dims + axis, index->rank - axis)};
  CARNOT_CHECK(count_of(values) == 2 && values->format.dtype == y->format.dtype && depth >= 0 &&
                   count_of(y) == count_of(index) * p.k,
               INVALID_ARGUMENT, "%lld values, %lld indices of depth %g, a result of %lld",
               (long long)count_of(values), (long long)count_of(index), depth,
               (long long)count_of(y));
  p.io.bytes = carnot_cuda_bytes(values);
  return carnot_cuda_each_shape(step, inputs, outputs, "one_hot", count_of(y), &p, sizeof(p),
                                state);
}

static carnot_status* reverse_sequence_shape(const carnot_step_view* step,
                                             const carnot_operand* inputs,
                                             const carnot_operand* outputs, void* state,
                                             size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  CARNOT_TRY(check_copied(x, x, &outputs[0]));
  CARNOT_TRY(check_index(&inputs[1]));
  CARNOT_CHECK(x->rank >= 2, INVALID_MODEL, "rank %d, must be 2 or more", x->rank);
  carnot_cuda_place p = {.rows = x->dims[0],
                         .columns = x->dims[1],
                         .inner = carnot_dims_count(x->dims + 2, x->rank - 2),
                         .flag = attr(step, "time_axis") != 0};
  CARNOT_CHECK(count_of(&inputs[1]) == (p.flag ? p.rows : p.columns), INVALID_ARGUMENT,
               "%lld lengths for %lld sequences", (long long)count_of(&inputs[1]),
               (long long)(p.flag ? p.rows : p.columns));
  p.io.bytes = carnot_cuda_bytes(x);
  return carnot_cuda_each_shape(step, inputs, outputs, "reverse_sequence", count_of(x), &p,
                                sizeof(p), state);
}

static carnot_status* range_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* outputs, void* state,
                                  size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *start = &inputs[0], *delta = &inputs[2];
  carnot_cuda_place p = {0};
  CARNOT_TRY(carnot_cuda_number_of(start, 0, &p.start));
  CARNOT_TRY(carnot_cuda_number_of(delta, 0, &p.delta));
  if (carnot_dtype_is_integer(start->format.dtype)) {
    p.start_int = carnot_load_i64(start->format.dtype, start->data, 0);
    p.delta_int = carnot_load_i64(delta->format.dtype, delta->data, 0);
  }
  return carnot_cuda_each_shape(step, inputs, outputs, "range", count_of(&outputs[0]), &p,
                                sizeof(p), state);
}

static carnot_status* eye_like_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* y = &outputs[0];
  CARNOT_CHECK(y->rank == 2, INVALID_MODEL, "rank %d, must be 2", y->rank);
  carnot_cuda_place p = {.columns = y->dims[1]};
  p.k = carnot_max_i64(-y->dims[0], carnot_min_i64(y->dims[1], attr(step, "k")));
  return carnot_cuda_each_shape(step, inputs, outputs, "eye_like", count_of(y), &p, sizeof(p),
                                state);
}
CARNOT_CUDA_EACH_ROW(trilu_row, "cuda_trilu", CARNOT_OP_TRILU, trilu_reject, trilu_shape);
CARNOT_CUDA_EACH_ROW(fill_row, "cuda_fill", CARNOT_OP_CONSTANT_OF_SHAPE, fill_reject, fill_shape);
CARNOT_CUDA_EACH_ROW(dropout_row, "cuda_dropout", CARNOT_OP_DROPOUT, dropout_reject, dropout_shape);
CARNOT_CUDA_EACH_ROW(one_hot_row, "cuda_one_hot", CARNOT_OP_ONE_HOT, one_hot_reject, one_hot_shape);
CARNOT_CUDA_EACH_ROW(reverse_sequence_row, "cuda_reverse_sequence", CARNOT_OP_REVERSE_SEQUENCE,
                     reverse_sequence_reject, reverse_sequence_shape);
CARNOT_CUDA_EACH_ROW(range_row, "cuda_range", CARNOT_OP_RANGE, range_reject, range_shape);
CARNOT_CUDA_EACH_ROW(eye_like_row, "cuda_eye_like", CARNOT_OP_EYE_LIKE, eye_like_reject,
                     eye_like_shape);
