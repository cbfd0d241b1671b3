// Linear recurrences along one axis of float32.
//   y[o,t,j] = a[o,t,j] * y[o,t-1,j] + b[o,t,j];  y[o,-1,j] is initial[o,j]
// where o and j are what lies in memory before and behind the axis, row-major or channels last.
// Several lanes run side by side: neighbours behind the axis or, where it is the last, rows.
#include "backend/cpu/common/cpu.h"

enum { kA, kB, kInitial, kOperands };
enum { kInnerLanes = 256, kRowLanes = 8 };

static carnot_status* axis_of(const carnot_plan_node* node, int rank, int* out_axis) {
  return carnot_axis(carnot_attr_int(carnot_op_get(CARNOT_OP_LINEAR_SCAN), &node->attrs, "axis"),
                     rank, "axis", out_axis);
}

// Channels last where the terms are and there is an axis behind the channels.
static carnot_layout layout_of(const carnot_problem* problem) {
  const carnot_operand_desc* b = &problem->inputs[kB];
  int axis = 0;
  carnot_status* status = axis_of(&problem->region->nodes[0], b->rank, &axis);
  carnot_status_free(status);
  return b->format.layout == CARNOT_LAYOUT_CHANNELS_LAST && b->rank > 3 && axis > 1
             ? CARNOT_LAYOUT_CHANNELS_LAST
             : CARNOT_LAYOUT_ROW_MAJOR;
}

static const char* scan_reject(carnot_problem* problem, char* reason, size_t size) {
  static const char* const kWhat[] = {"the factors", "the terms", "the first state"};
  const char* why = carnot_cpu_single(problem, CARNOT_OP_LINEAR_SCAN);
  for (int i = 0; i < kOperands && !why; i++)
    why = carnot_not_f32(&problem->inputs[i], kWhat[i], i == kInitial ? 0 : 1, CARNOT_MAX_RANK,
                         reason, size);
  if (why) return why;
  const carnot_layout layout = layout_of(problem);
  problem->inputs[kA].format.layout = problem->inputs[kB].format.layout = layout;
  problem->inputs[kInitial].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = layout;
  return NULL;
}

typedef struct scan_state {
  int64_t steps, inner, outer;
  int64_t groups, group_lanes, group_count;  // of lanes that run side by side; in a block, in all
  int64_t per_part;                          // groups
  bool last;                                 // channels
} scan_state;

static carnot_status* check_operand(const carnot_operand* t, carnot_layout layout, int64_t count) {
  int64_t strides[CARNOT_MAX_RANK];
  carnot_layout_strides(layout, t->rank, t->dims, strides);
  bool dense = t->format.dtype == CARNOT_DTYPE_F32 && carnot_dims_count(t->dims, t->rank) == count;
  for (int d = 0; d < t->rank; d++)
    dense = dense && (t->dims[d] < 2 || t->strides[d] == strides[d]);
  CARNOT_CHECK(
      dense, INVALID_ARGUMENT,
      "an operand of a recurrence has %lld elements of %s; %lld of float32 in the layout of "
      "the result are required",
      (long long)carnot_dims_count(t->dims, t->rank), carnot_dtype_name(t->format.dtype),
      (long long)count);
  return NULL;
}

static carnot_status* scan_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  scan_state* s = state;
  const carnot_operand* y = &outputs[0];
  int axis;
  *out_workspace_bytes = 0;
  CARNOT_TRY(axis_of(&step->region->nodes[0], y->rank, &axis));
  const bool last = !carnot_cpu_is_dense(y);
  const carnot_layout layout = last ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR;
  *s = (scan_state){.steps = y->dims[axis],
                    .inner = carnot_dims_count(y->dims + axis + 1, y->rank - axis - 1),
                    .outer = carnot_dims_count(y->dims, axis),
                    .last = last};
  CARNOT_CHECK(!last || (axis > 1 && y->rank > 2), INVALID_ARGUMENT,
               "a recurrence along axis %d of channels that are last, must be above 1", axis);
  if (last) s->inner *= y->dims[1], s->outer /= y->dims[1];
  const int64_t lanes = s->outer * s->inner;
  CARNOT_TRY(check_operand(&inputs[kA], layout, lanes * s->steps));
  CARNOT_TRY(check_operand(&inputs[kB], layout, lanes * s->steps));
  CARNOT_TRY(check_operand(&inputs[kInitial], CARNOT_LAYOUT_ROW_MAJOR, lanes));
  CARNOT_TRY(check_operand(y, layout, lanes * s->steps));
  if (last) *out_workspace_bytes = (size_t)lanes * sizeof(float);
  s->group_lanes = s->inner > 1 ? kInnerLanes : kRowLanes;
  s->groups = carnot_ceildiv(s->inner > 1 ? s->inner : s->outer, s->group_lanes);
  s->group_count = s->inner > 1 ? s->groups * s->outer : s->groups;
  s->per_part =
      carnot_rows_per_part(s->group_count, lanes * s->steps / carnot_max_i64(1, s->group_count));
  return NULL;
}

typedef struct scan_run {
  const scan_state* s;
  const float *a, *b, *initial;
  float* y;
} scan_run;

// |lanes| and |lane_stride| are constants at call sites where a specialized loop pays.
CARNOT_CPU_INLINE void scan(const scan_run* run, int64_t start, int64_t first, int64_t lanes,
                            int64_t lane_stride) {
  float state[kInnerLanes];
  const float* restrict a = run->a + start, * restrict b = run->b + start;
  float* restrict y = run->y + start;
  for (int64_t j = 0; j < lanes; j++) state[j] = run->initial[first + j];
  for (int64_t t = 0; t < run->s->steps; t++) {
    const int64_t at = t * run->s->inner;
    for (int64_t j = 0; j < lanes; j++)
      y[at + j * lane_stride] = state[j] =
          a[at + j * lane_stride] * state[j] + b[at + j * lane_stride];
  }
}

static void scan_part(void* argument, int64_t part) {
  const scan_run* run = argument;
  const scan_state* s = run->s;
  const int64_t first = part * s->per_part,
                last = carnot_min_i64(first + s->per_part, s->group_count);
  for (int64_t g = first; g < last; g++) {
    const int64_t block = s->inner > 1 ? g / s->groups : 0, lane = g % s->groups * s->group_lanes,
                  left = (s->inner > 1 ? s->inner : s->outer) - lane,
                  lanes = carnot_min_i64(s->group_lanes, left);
    if (s->inner > 1 && lanes == 16)
      scan(run, block * s->steps * s->inner + lane, block * s->inner + lane, 16, 1);
    else if (s->inner > 1)
      scan(run, block * s->steps * s->inner + lane, block * s->inner + lane, lanes, 1);
    else if (lanes == kRowLanes)
      scan(run, lane * s->steps, lane, kRowLanes, s->steps);
    else
      scan(run, lane * s->steps, lane, lanes, s->steps);
  }
}

static carnot_status* scan_run_all(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  const carnot_operand* initial = &inputs[kInitial];
  scan_run run = {.s = state,
                  .a = inputs[kA].data,
                  .b = inputs[kB].data,
                  .initial = initial->data,
                  .y = outputs[0].data};
  if (run.s->last) {
    int64_t strides[CARNOT_MAX_RANK];
    carnot_layout_strides(CARNOT_LAYOUT_CHANNELS_LAST, initial->rank, initial->dims, strides);
    carnot_cpu_copy(step, executor, initial->rank, initial->dims, sizeof(float), initial->data,
                    initial->strides, workspace, strides);
    run.initial = workspace;
  }
  carnot_executor_parallel(executor, carnot_ceildiv(run.s->group_count, run.s->per_part), scan_part,
                           &run);
  return NULL;
}

const carnot_tactic carnot_tactic_linear_scan = {.name = "cpu_linear_scan",
                                                 .anchor = CARNOT_OP_LINEAR_SCAN,
                                                 .isa = CARNOT_ISA_SCALAR,
                                                 .numerics = CARNOT_NUMERICS_EXACT,
                                                 .reject = scan_reject,
                                                 .validate = carnot_cpu_check_single,
                                                 .configure = scan_configure,
                                                 .run = scan_run_all};
