// Gather along an axis: runs of elements copied by index, or converted from a constant table that
// is stored in FP16 or BF16.
//   dst[o, i.., :] = src[o, index[i..], :]
#include "backend/cpu/common/packed_weights.h"

static const char* gather_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_single(problem, CARNOT_OP_GATHER);
  if (why) return why;
  const carnot_operand_desc *x = &problem->inputs[0], *index = &problem->inputs[1];
  int bits = carnot_dtype_bits(x->format.dtype);
  if (x->kind != CARNOT_VALUE_TENSOR || x->rank < 1 || index->kind != CARNOT_VALUE_TENSOR ||
      index->rank < 0)
    return "an operand has no known rank";
  if (x->format.dtype == CARNOT_DTYPE_STRING ||
      (bits != 8 && bits != 16 && bits != 32 && bits != 64))
    return carnot_because(reason, size, "no copy for %s", carnot_dtype_name(x->format.dtype));
  if (!carnot_cpu_is_index(index->format.dtype))
    return carnot_because(reason, size, "indices of %s", carnot_dtype_name(index->format.dtype));
  problem->inputs[0].format.layout = problem->inputs[1].format.layout =
      problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

typedef struct gather_state {
  int64_t outer, n, count, per_part;
  int64_t inner;     // elements behind the axis
  size_t run_bytes;  // of them
} gather_state;

static carnot_status* gather_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* memory,
                                       size_t* out_workspace_bytes) {
  gather_state* s = memory;
  const carnot_operand *x = &inputs[0], *index = &inputs[1], *y = &outputs[0];
  *out_workspace_bytes = 0;
  const carnot_plan_node* node = &step->region->nodes[0];
  int axis;
  CARNOT_TRY(carnot_axis(carnot_attr_int(carnot_op_get(node->op), &node->attrs, "axis"), x->rank,
                         "axis", &axis));
  CARNOT_CHECK(x->format.dtype == y->format.dtype && x->format.dtype != CARNOT_DTYPE_STRING &&
                   carnot_dtype_bits(x->format.dtype) >= 8 &&
                   carnot_cpu_is_index(index->format.dtype) && carnot_cpu_is_dense(x) &&
                   carnot_cpu_is_dense(index) && carnot_cpu_is_dense(y),
               INVALID_ARGUMENT, "a gather of %s by %s into %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(index->format.dtype), carnot_dtype_name(y->format.dtype));
  s->outer = carnot_dims_count(x->dims, axis);
  s->n = x->dims[axis];
  s->count = carnot_dims_count(index->dims, index->rank);
  int64_t inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1);
  s->inner = inner;
  s->run_bytes = (size_t)inner * (size_t)carnot_dtype_bits(x->format.dtype) / 8;
  CARNOT_CHECK(carnot_dims_count(y->dims, y->rank) == s->outer * s->count * inner, INVALID_ARGUMENT,
               "a gather of %lld runs of %lld elements gives others",
               (long long)(s->outer * s->count), (long long)inner);
  s->per_part = carnot_rows_per_part(s->outer * s->count, (int64_t)s->run_bytes / 4);
  return NULL;
}

typedef struct gather_run {
  const gather_state* state;
  const carnot_operand *x, *index, *y;
  const uint16_t* table;        // in a half type, else NULL
  carnot_f32_of_f16_fn* widen;  // its way to float32
} gather_run;

// Single elements of |bytes|, a constant: |count| of one row by the indices from |first| on.
CARNOT_CPU_INLINE void gather_elements(const carnot_operand* index, int64_t n, int64_t first,
                                       int64_t count, const char* row, size_t bytes, char* dst) {
  const bool wide = index->format.dtype == CARNOT_DTYPE_I64;
  const int64_t* wide_index = (const int64_t*)index->data + first;
  const int32_t* narrow_index = (const int32_t*)index->data + first;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = wide ? wide_index[i] : narrow_index[i];
    at += at < 0 ? n : 0;
    memcpy(dst + (size_t)i * bytes, row + (size_t)at * bytes, bytes);
  }
}

// Results [first, last), of one element each.
static void gather_single(const gather_run* run, int64_t first, int64_t last) {
  const gather_state* s = run->state;
  while (first < last) {
    const int64_t o = first / s->count, i = first % s->count,
                  count = carnot_min_i64(s->count - i, last - first);
    const char* row = (const char*)run->x->data + (size_t)(o * s->n) * s->run_bytes;
    char* dst = (char*)run->y->data + (size_t)first * s->run_bytes;
    switch (s->run_bytes) {
      case 1: gather_elements(run->index, s->n, i, count, row, 1, dst); break;
      case 2: gather_elements(run->index, s->n, i, count, row, 2, dst); break;
      case 4: gather_elements(run->index, s->n, i, count, row, 4, dst); break;
      default: gather_elements(run->index, s->n, i, count, row, 8, dst);
    }
    first += count;
  }
}

static void gather_part(void* argument, int64_t part) {
  const gather_run* run = argument;
  const gather_state* s = run->state;
  int64_t first = part * s->per_part,
          last = carnot_min_i64(first + s->per_part, s->outer * s->count);
  if (s->inner == 1 && !run->table) {
    gather_single(run, first, last);
    return;
  }
  for (int64_t i = first; i < last; i++) {
    int64_t at = carnot_cpu_index_at(run->index, i % s->count);
    if (at < 0) at += s->n;
    if (run->table) {
      run->widen(s->inner, run->table + (i / s->count * s->n + at) * s->inner,
                 (float*)run->y->data + i * s->inner);
      continue;
    }
    memcpy((char*)run->y->data + (size_t)i * s->run_bytes,
           (const char*)run->x->data + (size_t)(i / s->count * s->n + at) * s->run_bytes,
           s->run_bytes);
  }
}

// ---- a table in FP16 or BF16 ----

static const char* table_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = gather_reject(problem, reason, size);
  if (why) return why;
  if (!carnot_is_f32_constant(&problem->inputs[0])) return "the table is not constant float32";
  return carnot_packed_weights_reject(problem, problem->inputs[0].tensor,
                                      carnot_packed_weights_type(problem->tactic), reason, size);
}

static carnot_status* table_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_dtype dtype = problem->tactic->precision;
  const carnot_tensor* x = problem->inputs[0].tensor;
  int64_t count = carnot_tensor_count(x);
  void *table, *params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(int32_t), "parameters", &params));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)count + 1, sizeof(uint16_t), "a table", &table));
  *(int32_t*)params = (int32_t)dtype;
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_of(CARNOT_ISA_SCALAR);
  bool is_f16 = dtype == CARNOT_DTYPE_F16;
  (is_f16 ? kernels->f16_of_f32 : kernels->bf16_of_f32)(count, x->data, table);
  out->params = params;
  out->param_bytes = sizeof(int32_t);
  out->constant_count = 1;
  out->constants[0].packing = is_f16 ? "dense f16" : "dense bf16";
  out->constants[0].data = table;
  out->constants[0].bytes = (size_t)count * sizeof(uint16_t);
  out->packed_inputs = 1;
  return NULL;
}

static carnot_status* table_validate(const carnot_step_view* step) {
  CARNOT_TRY(carnot_cpu_check_single(step));
  CARNOT_CHECK(step->param_bytes == sizeof(int32_t) && step->constant_count == 1, INVALID_MODEL,
               "%u bytes of parameters and %u constants, must be %zu and 1", step->param_bytes,
               step->constant_count, sizeof(int32_t));
  int32_t dtype = *(const int32_t*)step->params;
  CARNOT_CHECK(dtype == CARNOT_DTYPE_F16 || dtype == CARNOT_DTYPE_BF16, INVALID_MODEL,
               "a table of type %d", dtype);
  return NULL;
}

static bool table_uses_input(const carnot_step_view* step, uint32_t input) {
  (void)step;
  return input != 0;
}

static carnot_status* table_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* memory,
                                      size_t* out_workspace_bytes) {
  CARNOT_TRY(gather_configure(step, inputs, outputs, memory, out_workspace_bytes));
  const gather_state* s = memory;
  int64_t count = s->outer * s->n * s->inner;
  CARNOT_CHECK(inputs[0].format.dtype == CARNOT_DTYPE_F32 &&
                   step->constant_bytes[0] == (size_t)count * sizeof(uint16_t),
               INVALID_MODEL, "a table of %zu bytes for %lld elements", step->constant_bytes[0],
               (long long)count);
  return NULL;
}

static void set_table(const carnot_step_view* step, gather_run* run) {
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_of(step->machine_isa);
  run->table = step->constants[0];
  run->widen = *(const int32_t*)step->params == CARNOT_DTYPE_F16 ? kernels->f32_of_f16
                                                                 : kernels->f32_of_bf16;
}

static carnot_status* gather_run_all(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)workspace;
  gather_run run = {.state = state, .x = &inputs[0], .index = &inputs[1], .y = &outputs[0]};
  if (step->param_bytes) set_table(step, &run);
  const gather_state* s = run.state;
  for (int64_t i = 0; i < s->count; i++) {
    int64_t at = carnot_cpu_index_at(run.index, i);
    CARNOT_CHECK(at >= -s->n && at < s->n, INVALID_ARGUMENT,
                 "index %lld is %lld, must be in [%lld, %lld)", (long long)i, (long long)at,
                 (long long)-s->n, (long long)s->n);
  }
  carnot_executor_parallel(executor, carnot_ceildiv(s->outer * s->count, s->per_part), gather_part,
                           &run);
  return NULL;
}

const carnot_tactic carnot_tactic_gather = {.name = "cpu_gather",
                                            .anchor = CARNOT_OP_GATHER,
                                            .isa = CARNOT_ISA_SCALAR,
                                            .numerics = CARNOT_NUMERICS_EXACT,
                                            .reject = gather_reject,
                                            .validate = carnot_cpu_check_single,
                                            .configure = gather_configure,
                                            .run = gather_run_all};
// The conversion is exact on every level: one tactic, which uses the machine's best level.
const carnot_tactic carnot_tactic_gather_f16 = {.name = "cpu_gather_f16",
                                                .anchor = CARNOT_OP_GATHER,
                                                .isa = CARNOT_ISA_SCALAR,
                                                .numerics = CARNOT_NUMERICS_HALF,
                                                .precision = CARNOT_DTYPE_F16,
                                                .lossless_f16_weights = true,
                                                .reject = table_reject,
                                                .prepare = table_prepare,
                                                .validate = table_validate,
                                                .uses_input = table_uses_input,
                                                .configure = table_configure,
                                                .run = gather_run_all};
const carnot_tactic carnot_tactic_gather_bf16 = {.name = "cpu_gather_bf16",
                                                 .anchor = CARNOT_OP_GATHER,
                                                 .isa = CARNOT_ISA_SCALAR,
                                                 .numerics = CARNOT_NUMERICS_HALF,
                                                 .precision = CARNOT_DTYPE_BF16,
                                                 .reject = table_reject,
                                                 .prepare = table_prepare,
                                                 .validate = table_validate,
                                                 .uses_input = table_uses_input,
                                                 .configure = table_configure,
                                                 .run = gather_run_all};
