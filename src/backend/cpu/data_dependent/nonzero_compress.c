// Operators whose output size depends on data: NonZero-13 and Compress-28. infer_output_sizes
// counts the selected elements, run writes them.
#include "backend/cpu/common/cpu.h"

static const char* select_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_single(problem, problem->tactic->anchor);
  if (!why) why = carnot_cpu_whole_bytes(&problem->inputs[0], reason, size);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

// ---- NonZero: x → coordinates [rank, selected] of the elements that are not zero ----

static const char* non_zero_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = select_reject(problem, reason, size);
  if (why) return why;
  // Zeros of floats of a byte and of complex numbers are not one pattern of bits.
  carnot_dtype dtype = problem->inputs[0].format.dtype;
  bool plain = carnot_dtype_is_float(dtype)
                   ? carnot_dtype_bits(dtype) >= 16
                   : carnot_dtype_is_integer(dtype) || dtype == CARNOT_DTYPE_BOOL;
  return plain ? NULL : carnot_because(reason, size, "not for %s", carnot_dtype_name(dtype));
}

enum { kUnit = 4096, kParts = 16 };  // a unit: neighbours in the last axis

typedef struct non_zero_state {
  int64_t rows, columns;  // lanes of the last axis
  int64_t row_units, units, per_part;
  int64_t starts[kParts + 1];  // of the parts: the number of elements selected before
} non_zero_state;
_Static_assert(sizeof(non_zero_state) <= CARNOT_STATE_BYTES, "the state has its size");

static carnot_status* non_zero_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* memory,
                                         size_t* out_workspace_bytes) {
  non_zero_state* s = memory;
  const carnot_operand* x = &inputs[0];
  (void)step;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(carnot_cpu_is_whole(x->format.dtype) && outputs[0].format.dtype == CARNOT_DTYPE_I64,
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(outputs[0].format.dtype));
  s->columns = x->rank ? x->dims[x->rank - 1] : 1;
  s->rows = x->rank ? carnot_dims_count(x->dims, x->rank - 1) : 1;
  s->row_units = carnot_ceildiv(s->columns, kUnit);
  s->units = s->rows * s->row_units;
  s->per_part = carnot_max_i64(carnot_ceildiv(s->units, kParts),
                               carnot_rows_per_part(s->units, carnot_min_i64(s->columns, kUnit)));
  return NULL;
}

// |columns| NULL: only counts. Else writes the indices of the selected elements; it has room for
// one more than are selected.
#define CHOOSE(bits)                                                                          \
  static int64_t choose_##bits(const void* data, int64_t from, int64_t n, uint64_t wide_mask, \
                               int64_t* columns) {                                            \
    const uint##bits##_t *x = (const uint##bits##_t*)data + from,                             \
                         mask = (uint##bits##_t)wide_mask;                                    \
    int64_t count = 0;                                                                        \
    if (!columns) {                                                                           \
      for (int64_t i = 0; i < n; i++) count += (x[i] & mask) != 0;                            \
      return count;                                                                           \
    }                                                                                         \
    for (int64_t i = 0; i < n; i++) {                                                         \
      columns[count] = i;                                                                     \
      count += (x[i] & mask) != 0;                                                            \
    }                                                                                         \
    return count;                                                                             \
  }
CHOOSE(8)
CHOOSE(16)
CHOOSE(32)
CHOOSE(64)

static int64_t choose(const carnot_operand* x, int64_t from, int64_t n, int64_t* columns) {
  uint64_t mask = UINT64_MAX >> (64 - carnot_dtype_bits(x->format.dtype));
  if (carnot_dtype_is_float(x->format.dtype)) mask >>= 1;  // the sign of a zero
  switch (carnot_dtype_bits(x->format.dtype)) {
    case 8: return choose_8(x->data, from, n, mask, columns);
    case 16: return choose_16(x->data, from, n, mask, columns);
    case 32: return choose_32(x->data, from, n, mask, columns);
    default: return choose_64(x->data, from, n, mask, columns);
  }
}

// Where unit |u| begins, and its length.
static int64_t unit_at(const non_zero_state* s, int64_t u, int64_t* out_n) {
  int64_t column = u % s->row_units * kUnit;
  *out_n = carnot_min_i64(kUnit, s->columns - column);
  return u / s->row_units * s->columns + column;
}

static carnot_status* non_zero_infer_output_sizes(const carnot_step_view* step, void* memory,
                                                  const carnot_operand* inputs,
                                                  carnot_operand* outputs, void* workspace) {
  non_zero_state* s = memory;
  (void)step, (void)workspace;
  int64_t found = 0, n;
  for (int part = 0; part <= kParts; part++) {
    s->starts[part] = found;
    int64_t last = carnot_min_i64((part + 1) * s->per_part, s->units);
    for (int64_t u = part * s->per_part; u < last; u++) {
      int64_t from = unit_at(s, u, &n);
      found += choose(&inputs[0], from, n, NULL);
    }
  }
  outputs[0].rank = 2;
  outputs[0].dims[0] = inputs[0].rank;
  outputs[0].dims[1] = found;
  return NULL;
}

typedef struct non_zero_run {
  const non_zero_state* s;
  const carnot_operand *x, *y;
} non_zero_run;

static void write_part(void* argument, int64_t part) {
  const non_zero_run* run = argument;
  const non_zero_state* s = run->s;
  const carnot_operand* x = run->x;
  int64_t columns[kUnit + 1], n, found = run->y->dims[1], at = s->starts[part];
  int64_t last = carnot_min_i64((part + 1) * s->per_part, s->units);
  for (int64_t u = part * s->per_part; u < last; u++) {
    int64_t from = unit_at(s, u, &n), count = choose(x, from, n, columns), rest = from / s->columns;
    count = carnot_min_i64(count, s->starts[part + 1] - at);  // the input may not change meanwhile
    int64_t* y = (int64_t*)run->y->data + at;
    for (int64_t k = 0; k < count && x->rank; k++)
      y[(x->rank - 1) * found + k] = from % s->columns + columns[k];
    for (int d = x->rank - 2; d >= 0; rest /= x->dims[d--])
      for (int64_t k = 0; k < count; k++) y[d * found + k] = rest % x->dims[d];
    at += count;
  }
}

static carnot_status* non_zero_write(const carnot_step_view* step, void* memory,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)step, (void)workspace;
  non_zero_run run = {memory, &inputs[0], &outputs[0]};
  CARNOT_CHECK(outputs[0].rank == 2 && outputs[0].dims[0] == inputs[0].rank &&
                   outputs[0].dims[1] == run.s->starts[kParts],
               INVALID_ARGUMENT, "the result has another size than what was counted");
  carnot_executor_parallel(executor, carnot_ceildiv(run.s->units, run.s->per_part), write_part,
                           &run);
  return NULL;
}

const carnot_tactic carnot_tactic_non_zero = {.name = "cpu_non_zero",
                                              .anchor = CARNOT_OP_NON_ZERO,
                                              .isa = CARNOT_ISA_SCALAR,
                                              .numerics = CARNOT_NUMERICS_EXACT,
                                              .reject = non_zero_reject,
                                              .validate = carnot_cpu_check_single,
                                              .configure = non_zero_configure,
                                              .infer_output_sizes = non_zero_infer_output_sizes,
                                              .run = non_zero_write};

// ---- Compress: x, condition → elements of x, or slices along an axis, where it holds ----

static const char* compress_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = select_reject(problem, reason, size);
  if (why) return why;
  return problem->inputs[1].format.dtype == CARNOT_DTYPE_BOOL ? NULL : "the condition is not bool";
}

typedef struct compress_state {
  int axis;  // -1: of all elements
  int64_t outer, size, tests, found, per_part;
  size_t slice_bytes;
} compress_state;

static carnot_status* compress_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* memory,
                                         size_t* out_workspace_bytes) {
  compress_state* s = memory;
  const carnot_operand *x = &inputs[0], *condition = &inputs[1];
  const carnot_attrs* attrs = &step->region->nodes[0].attrs;
  CARNOT_CHECK(carnot_cpu_is_whole(x->format.dtype) && outputs[0].format.dtype == x->format.dtype &&
                   condition->format.dtype == CARNOT_DTYPE_BOOL,
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(condition->format.dtype));
  *s = (compress_state){.axis = -1, .outer = 1, .size = carnot_dims_count(x->dims, x->rank)};
  int64_t inner = 1;
  if (carnot_attr_has(attrs, "axis")) {
    int64_t axis = carnot_attr_int(carnot_op_get(CARNOT_OP_COMPRESS), attrs, "axis");
    CARNOT_TRY(carnot_axis(axis, x->rank, "axis", &s->axis));
    s->outer = carnot_dims_count(x->dims, s->axis);
    s->size = x->dims[s->axis];
    inner = carnot_dims_count(x->dims + s->axis + 1, x->rank - s->axis - 1);
  }
  s->slice_bytes = (size_t)inner * (size_t)carnot_dtype_bits(x->format.dtype) / 8;
  s->tests = carnot_min_i64(carnot_dims_count(condition->dims, condition->rank), s->size);
  *out_workspace_bytes = (size_t)(s->tests + 1) * sizeof(int64_t);
  return NULL;
}

static carnot_status* compress_infer_output_sizes(const carnot_step_view* step, void* memory,
                                                  const carnot_operand* inputs,
                                                  carnot_operand* outputs, void* workspace) {
  compress_state* s = memory;
  (void)step;
  s->found = choose(&inputs[1], 0, s->tests, workspace);
  s->per_part = carnot_rows_per_part(s->outer * s->found, (int64_t)s->slice_bytes / 4);
  outputs[0].rank = s->axis < 0 ? 1 : inputs[0].rank;
  if (s->axis >= 0) memcpy(outputs[0].dims, inputs[0].dims, sizeof(outputs[0].dims));
  outputs[0].dims[s->axis < 0 ? 0 : s->axis] = s->found;
  return NULL;
}

typedef struct compress_run {
  const compress_state* s;
  const char* x;
  char* y;
  const int64_t* indices;
} compress_run;

static void copy_part(void* argument, int64_t part) {
  const compress_run* run = argument;
  const compress_state* s = run->s;
  int64_t last = carnot_min_i64((part + 1) * s->per_part, s->outer * s->found);
  for (int64_t row = part * s->per_part; row < last; row++) {
    int64_t from = row / s->found * s->size + run->indices[row % s->found];
    memcpy(run->y + (size_t)row * s->slice_bytes, run->x + (size_t)from * s->slice_bytes,
           s->slice_bytes);
  }
}

static carnot_status* compress_write(const carnot_step_view* step, void* memory,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)step;
  const compress_state* s = memory;
  compress_run run = {s, inputs[0].data, outputs[0].data, workspace};
  CARNOT_CHECK((size_t)carnot_dims_count(outputs[0].dims, outputs[0].rank) *
                       (size_t)carnot_dtype_bits(outputs[0].format.dtype) / 8 ==
                   (size_t)(s->outer * s->found) * s->slice_bytes,
               INVALID_ARGUMENT, "the result has another size than what was counted");
  carnot_executor_parallel(executor, carnot_ceildiv(s->outer * s->found, s->per_part), copy_part,
                           &run);
  return NULL;
}

const carnot_tactic carnot_tactic_compress = {.name = "cpu_compress",
                                              .anchor = CARNOT_OP_COMPRESS,
                                              .isa = CARNOT_ISA_SCALAR,
                                              .numerics = CARNOT_NUMERICS_EXACT,
                                              .reject = compress_reject,
                                              .validate = carnot_cpu_check_single,
                                              .configure = compress_configure,
                                              .infer_output_sizes = compress_infer_output_sizes,
                                              .run = compress_write};
