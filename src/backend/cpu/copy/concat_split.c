// Concat and Split as strided copies.
#include "backend/cpu/copy/strided_copy.h"

// ---- concat: inputs that were written in place are skipped ----

static const char* concat_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_alone(problem, CARNOT_OP_CONCAT);
  if (why) return why;
  int last = 0;
  for (uint32_t i = 0; i < problem->input_count; i++) {
    why = carnot_cpu_whole_bytes(&problem->inputs[i], reason, size);
    if (why) return why;
    if (problem->inputs[i].rank < 1) return "an operand is a scalar";
    if (problem->inputs[i].format.dtype != problem->outputs[0].format.dtype)
      return "an operand and the result are stored in different types";
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
    CARNOT_TRY(carnot_cpu_check_types(&inputs[i], &outputs[0]));
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

typedef struct concat_copy {
  const carnot_step_view* step;
  const carnot_operand *inputs, *y;
  int axis, cut;  // the axis that grows; the dimension that is cut into parts, or -1
  int64_t parts;
} concat_copy;

enum { kMostParts = 32 };

// A share of |cut|, which may be the axis, of every input.
static void concat_part(void* argument, int64_t part) {
  const concat_copy* run = argument;
  const carnot_operand* y = run->y;
  const int bytes = carnot_cpu_bytes(y);
  const int cut = run->cut;
  char* whole = y->data;
  for (uint32_t i = 0; i < run->step->input_count; i++) {
    const carnot_operand* x = &run->inputs[i];
    const int64_t size = cut < 0 ? 0 : x->dims[cut], begin = size * part / run->parts,
                  end = size * (part + 1) / run->parts;
    int64_t dims[CARNOT_MAX_RANK];
    memcpy(dims, x->dims, sizeof dims);
    if (cut >= 0) dims[cut] = end - begin;
    const char* src = (const char*)x->data + (cut < 0 ? 0 : begin * x->strides[cut] * bytes);
    char* dst = whole + (cut < 0 ? 0 : begin * y->strides[cut] * bytes);
    if (src != dst && (cut < 0 || begin < end))
      carnot_cpu_copy(run->step, NULL, x->rank, dims, bytes, src, x->strides, dst, y->strides);
    whole += x->dims[run->axis] * y->strides[run->axis] * bytes;
  }
}

// The dimension to cut: of those with a share for each part the one whose elements lie farthest
// apart, so that a share is few long runs; else the largest. -1: none.
static int cut_of(const concat_copy* run, int64_t parts) {
  const carnot_operand* y = run->y;
  int cut = -1;
  int64_t most = 0;
  for (int d = 0; d < y->rank; d++) {
    if (y->strides[d] <= 1) continue;
    const int64_t size = d == run->axis ? y->dims[d] / run->step->input_count : y->dims[d];
    const bool enough = size >= parts, had_enough = most >= parts;
    const bool better = enough && had_enough ? y->strides[d] > y->strides[cut] : size > most;
    if (!better) continue;
    cut = d;
    most = size;
  }
  return cut;
}

static carnot_status* concat_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  (void)state, (void)workspace;
  concat_copy run = {.step = step, .inputs = inputs, .y = &outputs[0], .cut = -1, .parts = 1};
  CARNOT_TRY(axis_of(step, outputs[0].rank, &run.axis));
  const int64_t bytes = carnot_dims_count(run.y->dims, run.y->rank) * carnot_cpu_bytes(&outputs[0]);
  run.parts = carnot_max_i64(1, carnot_min_i64(kMostParts, bytes >> 16));
  run.cut = cut_of(&run, run.parts);
  run.parts = run.cut < 0 ? 1 : carnot_min_i64(run.parts, run.y->dims[run.cut]);
  carnot_executor_parallel(executor, run.parts, concat_part, &run);
  return NULL;
}

const carnot_tactic carnot_tactic_concat = {.name = "cpu_concat",
                                            .anchor = CARNOT_OP_CONCAT,
                                            .isa = CARNOT_ISA_SCALAR,
                                            .numerics = CARNOT_NUMERICS_EXACT,
                                            .reject = concat_reject,
                                            .configure = concat_configure,
                                            .strided_outputs = true,
                                            .parts_in_place = true,
                                            .takes_bf16 = true,
                                            .run = concat_run};

// ---- split ----

static const char* split_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_alone(problem, CARNOT_OP_SPLIT);
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
    carnot_cpu_copy(step, executor, outputs[i].rank, outputs[i].dims, carnot_cpu_bytes(&inputs[0]),
                    src, inputs[0].strides, outputs[i].data, outputs[i].strides);
    src += outputs[i].dims[axis] * inputs[0].strides[axis] * carnot_cpu_bytes(&inputs[0]);
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
