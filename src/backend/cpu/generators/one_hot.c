// OneHot of a constant depth: the result is filled with the one value, then the other is set.
//   y[i.., k, j..] = indices[i.., j..] == k ? values[1] : values[0]; indices outside set nothing
#include "backend/cpu/common/cpu.h"

enum { kIndices, kDepth, kValues };

static const char* one_hot_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_single(problem, CARNOT_OP_ONE_HOT);
  if (!why) why = carnot_cpu_whole_bytes(&problem->inputs[kIndices], reason, size);
  if (!why) why = carnot_cpu_whole_bytes(&problem->inputs[kValues], reason, size);
  if (why) return why;
  if (!carnot_cpu_is_index(problem->inputs[kIndices].format.dtype))
    return carnot_because(reason, size, "indices of %s",
                          carnot_dtype_name(problem->inputs[kIndices].format.dtype));
  if (!problem->inputs[kDepth].is_constant) return "the depth is not constant";
  problem->inputs[kIndices].format.layout = problem->outputs[0].format.layout =
      CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

typedef struct one_hot_state {
  int64_t depth, inner, count, per_part;  // count: of indices
} one_hot_state;

static carnot_status* one_hot_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  one_hot_state* s = state;
  const carnot_operand *index = &inputs[kIndices], *values = &inputs[kValues], *y = &outputs[0];
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_ONE_HOT);
  int axis;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(values->format.dtype == y->format.dtype && carnot_cpu_is_whole(y->format.dtype) &&
                   carnot_dims_count(values->dims, values->rank) == 2 &&
                   carnot_cpu_is_dense(values) && carnot_cpu_is_dense(y) &&
                   carnot_cpu_is_index(index->format.dtype) && carnot_cpu_is_dense(index) &&
                   y->rank == index->rank + 1,
               INVALID_MODEL, "indices of %s and values of %s into %s",
               carnot_dtype_name(index->format.dtype), carnot_dtype_name(values->format.dtype),
               carnot_dtype_name(y->format.dtype));
  CARNOT_TRY(carnot_axis(carnot_attr_int(row, &step->region->nodes[0].attrs, "axis"), y->rank,
                         "axis", &axis));
  for (int d = 0; d < index->rank; d++)
    CARNOT_CHECK(y->dims[d < axis ? d : d + 1] == index->dims[d], INVALID_MODEL,
                 "dimension %d of the indices is %lld, not the result's", d,
                 (long long)index->dims[d]);
  s->depth = y->dims[axis];
  s->inner = carnot_dims_count(y->dims + axis + 1, y->rank - axis - 1);
  s->count = carnot_dims_count(index->dims, index->rank);
  s->per_part = carnot_rows_per_part(s->count, 4);
  return NULL;
}

typedef struct one_hot_run {
  const one_hot_state* s;
  const carnot_operand* index;
  const char* on;
  char* y;
  size_t bytes;
} one_hot_run;

static void one_hot_part(void* argument, int64_t part) {
  const one_hot_run* run = argument;
  const one_hot_state* s = run->s;
  int64_t first = part * s->per_part, last = carnot_min_i64(first + s->per_part, s->count);
  for (int64_t i = first; i < last; i++) {
    int64_t at = carnot_cpu_index_at(run->index, i);
    if (at < -s->depth || at >= s->depth) continue;
    if (at < 0) at += s->depth;
    int64_t place = (i / s->inner * s->depth + at) * s->inner + i % s->inner;
    memcpy(run->y + (size_t)place * run->bytes, run->on, run->bytes);
  }
}

static carnot_status* one_hot_run_all(const carnot_step_view* step, void* state,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  (void)workspace;
  static const int64_t kStill[CARNOT_MAX_RANK] = {0};
  const carnot_operand* y = &outputs[0];
  int bytes = carnot_dtype_bits(y->format.dtype) / 8;
  const char* values = inputs[kValues].data;
  one_hot_run run = {.s = state,
                     .index = &inputs[kIndices],
                     .on = values + bytes,
                     .y = y->data,
                     .bytes = (size_t)bytes};
  carnot_cpu_copy(step, executor, y->rank, y->dims, bytes, values, kStill, y->data, y->strides);
  carnot_executor_parallel(executor, carnot_ceildiv(run.s->count, run.s->per_part), one_hot_part,
                           &run);
  return NULL;
}

const carnot_tactic carnot_tactic_one_hot = {.name = "cpu_one_hot",
                                             .anchor = CARNOT_OP_ONE_HOT,
                                             .isa = CARNOT_ISA_SCALAR,
                                             .numerics = CARNOT_NUMERICS_EXACT,
                                             .reject = one_hot_reject,
                                             .validate = carnot_cpu_check_single,
                                             .configure = one_hot_configure,
                                             .run = one_hot_run_all};
