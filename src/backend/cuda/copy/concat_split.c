// Concat and Split: one strided copy a part, planned when it is recorded.
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
    if (place == part->data) continue;  // the operand is a view of the whole: nothing to copy
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
                                              .reject = parts_reject,            \
                                              .configure = parts_shape,          \
                                              .run = parts_run};
PARTS_TACTIC(concat, CONCAT)
PARTS_TACTIC(split, SPLIT)
