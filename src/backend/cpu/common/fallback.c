// The fallback tactics: a view, which has nothing to compute, and the reference kernels.
#include <stdio.h>

#include "tactic/tactic.h"

// ---- view: the output is the input's elements under other dimensions ----

static int64_t fixed_dim(const carnot_operand_desc* t, int d) {
  return t->min[d] == t->max[d] ? t->dims[d] : -1;
}

// [n, c, ..] to [n, c, ..]: the pixel dimensions change, channels and images stay.
static bool keeps_channels(const carnot_operand_desc* x, const carnot_operand_desc* y) {
  if (x->rank < 3 || y->rank < 3 || fixed_dim(x, 1) < 0 || fixed_dim(x, 1) != fixed_dim(y, 1))
    return false;
  if (fixed_dim(x, 0) >= 0) return fixed_dim(x, 0) == fixed_dim(y, 0);
  int64_t pixels[2] = {1, 1};
  for (int d = 2; d < x->rank || d < y->rank; d++) {
    if ((d < x->rank && fixed_dim(x, d) < 0) || (d < y->rank && fixed_dim(y, d) < 0)) return false;
    if (d < x->rank) pixels[0] *= x->dims[d];
    if (d < y->rank) pixels[1] *= y->dims[d];
  }
  return pixels[0] == pixels[1];
}

static const char* reshape_layout(carnot_problem* problem) {
  carnot_operand_desc *x = &problem->inputs[0], *y = &problem->outputs[0];
  if (x->format.layout == CARNOT_LAYOUT_CHANNELS_LAST && !keeps_channels(x, y))
    x->format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  y->format.layout = x->format.layout;
  return NULL;
}

// Axes that change their order among those longer than 1 move elements, unless the order is that of
// the other layout.
static const char* transpose_layout(carnot_problem* problem) {
  carnot_operand_desc *x = &problem->inputs[0], *y = &problem->outputs[0];
  size_t count;
  const int64_t* perm = carnot_attr_ints(&problem->region->nodes[0].attrs, "perm", &count);
  int rank = x->rank;
  if (!perm || rank < 1 || count != (size_t)rank) return "Transpose moves elements";
  int64_t last = -1;
  bool ordered = true, to_last = rank > 2 && perm[0] == 0, from_last = rank > 2 && perm[0] == 0;
  for (int d = 0; d < rank; d++) {
    int64_t axis = perm[d] < 0 ? perm[d] + rank : perm[d];
    if (axis < 0 || axis >= rank) return "an axis of Transpose is out of range";
    if (d) to_last = to_last && axis == (d + 1 < rank ? d + 1 : 1);
    if (d) from_last = from_last && axis == (d == 1 ? rank - 1 : d - 1);
    if (fixed_dim(x, (int)axis) == 1) continue;
    ordered = ordered && axis > last;
    last = axis;
  }
  bool is_last = x->format.layout == CARNOT_LAYOUT_CHANNELS_LAST;
  if (is_last ? !to_last : !ordered && !from_last) return "Transpose moves elements";
  y->format.layout = is_last || ordered ? CARNOT_LAYOUT_ROW_MAJOR : CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

static const char* view_reject(carnot_problem* problem, char* reason, size_t size) {
  if (problem->region->node_count != 1) return "a region of several operators is not a view";
  carnot_op op = problem->region->nodes[0].op;
  if (op != CARNOT_OP_RESHAPE && op != CARNOT_OP_SQUEEZE && op != CARNOT_OP_UNSQUEEZE &&
      op != CARNOT_OP_IDENTITY && op != CARNOT_OP_TRANSPOSE) {
    snprintf(reason, size, "%s moves or computes elements", carnot_op_get(op)->name);
    return reason;
  }
  if (problem->inputs[0].kind != CARNOT_VALUE_TENSOR) return "the input is not a tensor";
  if (problem->inputs[0].format.dtype != problem->outputs[0].format.dtype)
    return "the result is stored in another type";
  problem->outputs[0].format.memory = problem->inputs[0].format.memory;
  return op == CARNOT_OP_TRANSPOSE ? transpose_layout(problem) : reshape_layout(problem);
}

static carnot_status* view_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)step, (void)state, (void)workspace, (void)executor;
  CARNOT_CHECK(inputs[0].data == outputs[0].data, INVALID_MODEL,
               "the output of a view has other storage than its input");
  return NULL;
}

const carnot_tactic carnot_tactic_view = {.name = CARNOT_VIEW_TACTIC,
                                          .cross_memory = true,
                                          .anchor = CARNOT_OP_COUNT,
                                          .isa = CARNOT_ISA_SCALAR,
                                          .numerics = CARNOT_NUMERICS_EXACT,
                                          .reject = view_reject,
                                          .run = view_run};

// ---- reference: run by the runtime itself, which has the store ----

static const char* reference_reject(carnot_problem* problem, char* reason, size_t size) {
  (void)reason, (void)size;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < problem->output_count; i++)
    problem->outputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static bool reference_may_share(const carnot_step_view* step, uint32_t input, uint32_t output) {
  return step->region->node_count == 1 && step->region->nodes[0].op == CARNOT_OP_TENSOR_SCATTER &&
         input == 0 && output == 0;
}

const carnot_tactic carnot_tactic_reference = {.name = CARNOT_REFERENCE_TACTIC,
                                               .anchor = CARNOT_OP_COUNT,
                                               .isa = CARNOT_ISA_SCALAR,
                                               .numerics = CARNOT_NUMERICS_EXACT,
                                               .reject = reference_reject,
                                               .may_share = reference_may_share};
