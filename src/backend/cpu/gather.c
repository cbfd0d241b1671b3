// Gather along an axis: runs of elements copied by index.
//   dst[o, i.., :] = src[o, index[i..], :]
#include "backend/cpu/cpu.h"

static const char* gather_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (problem->region->node_count != 1 || node->op != CARNOT_OP_GATHER) return "";
  if (node->inputs[0] != 0 || node->inputs[1] != 1) return "data and indices are one value";
  const carnot_operand_type *x = &problem->inputs[0], *index = &problem->inputs[1];
  int bits = carnot_dtype_bits(x->dtype);
  if (x->kind != CARNOT_VALUE_TENSOR || x->rank < 1 || index->kind != CARNOT_VALUE_TENSOR ||
      index->rank < 0)
    return "an operand has no known rank";
  if (x->dtype == CARNOT_DTYPE_STRING || (bits != 8 && bits != 16 && bits != 32 && bits != 64))
    return carnot_because(reason, size, "no copy for %s", carnot_dtype_name(x->dtype));
  if (index->dtype != CARNOT_DTYPE_I64 && index->dtype != CARNOT_DTYPE_I32)
    return carnot_because(reason, size, "indices of %s", carnot_dtype_name(index->dtype));
  problem->inputs[0].layout = problem->inputs[1].layout = problem->outputs[0].layout =
      CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* gather_check(const carnot_step_view* step) {
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_CHECK(node->op == CARNOT_OP_GATHER && step->input_count == 2 && step->output_count == 1 &&
                   node->inputs[0] == 0 && node->inputs[1] == 1,
               INVALID_MODEL, "the step holds no gather");
  return NULL;
}

typedef struct gather_state {
  int64_t outer, n, count, per_part;
  size_t run_bytes;  // of what lies behind the axis
} gather_state;

static bool is_dense(const carnot_operand* t) {
  int64_t strides[CARNOT_MAX_RANK];
  carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, t->rank, t->dims, strides);
  for (int i = 0; i < t->rank; i++)
    if (t->dims[i] > 1 && t->strides[i] != strides[i]) return false;
  return true;
}

static carnot_status* gather_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* memory,
                                   size_t* out_workspace_bytes) {
  gather_state* s = memory;
  const carnot_operand *x = &inputs[0], *index = &inputs[1], *y = &outputs[0];
  *out_workspace_bytes = 0;
  const carnot_plan_node* node = &step->region->nodes[0];
  int axis;
  CARNOT_TRY(carnot_axis(carnot_attr_int(carnot_op_get(node->op), &node->attrs, "axis"), x->rank,
                         "axis", &axis));
  CARNOT_CHECK(x->dtype == y->dtype && x->dtype != CARNOT_DTYPE_STRING &&
                   carnot_dtype_bits(x->dtype) >= 8 &&
                   (index->dtype == CARNOT_DTYPE_I64 || index->dtype == CARNOT_DTYPE_I32) &&
                   is_dense(x) && is_dense(index) && is_dense(y),
               INVALID_ARGUMENT, "a gather of %s by %s into %s", carnot_dtype_name(x->dtype),
               carnot_dtype_name(index->dtype), carnot_dtype_name(y->dtype));
  s->outer = carnot_dims_count(x->dims, axis);
  s->n = x->dims[axis];
  s->count = carnot_dims_count(index->dims, index->rank);
  int64_t inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1);
  s->run_bytes = (size_t)inner * (size_t)carnot_dtype_bits(x->dtype) / 8;
  CARNOT_CHECK(carnot_dims_count(y->dims, y->rank) == s->outer * s->count * inner, INVALID_ARGUMENT,
               "a gather of %lld runs of %lld elements gives others",
               (long long)(s->outer * s->count), (long long)inner);
  s->per_part = carnot_rows_per_part(s->outer * s->count, (int64_t)s->run_bytes / 4);
  return NULL;
}

static int64_t index_at(const carnot_operand* index, int64_t i) {
  return index->dtype == CARNOT_DTYPE_I64 ? ((const int64_t*)index->data)[i]
                                          : ((const int32_t*)index->data)[i];
}

typedef struct gather_run {
  const gather_state* state;
  const carnot_operand *x, *index, *y;
} gather_run;

static void gather_part(void* argument, int64_t part) {
  const gather_run* run = argument;
  const gather_state* s = run->state;
  int64_t first = part * s->per_part,
          last = carnot_min_i64(first + s->per_part, s->outer * s->count);
  for (int64_t i = first; i < last; i++) {
    int64_t at = index_at(run->index, i % s->count);
    if (at < 0) at += s->n;
    memcpy((char*)run->y->data + (size_t)i * s->run_bytes,
           (const char*)run->x->data + (size_t)(i / s->count * s->n + at) * s->run_bytes,
           s->run_bytes);
  }
}

static carnot_status* gather_run_all(const carnot_step_view* step, void* state,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  (void)step, (void)workspace;
  gather_run run = {state, &inputs[0], &inputs[1], &outputs[0]};
  const gather_state* s = run.state;
  for (int64_t i = 0; i < s->count; i++) {
    int64_t at = index_at(run.index, i);
    CARNOT_CHECK(at >= -s->n && at < s->n, INVALID_ARGUMENT,
                 "index %lld is %lld, must be in [%lld, %lld)", (long long)i, (long long)at,
                 (long long)-s->n, (long long)s->n);
  }
  carnot_executor_parallel(executor, carnot_ceildiv(s->outer * s->count, s->per_part), gather_part,
                           &run);
  return NULL;
}

const carnot_tactic_row carnot_tactic_gather = {.name = "cpu_gather",
                                                .anchor = CARNOT_OP_GATHER,
                                                .isa = CARNOT_ISA_SCALAR,
                                                .numerics = "exact",
                                                .reject = gather_reject,
                                                .check = gather_check,
                                                .shape = gather_shape,
                                                .run = gather_run_all};
