// Operands, variant and state of a step for the shapes that are set.
#include "run/context.h"

void carnot_fill_operands(carnot_context* context, uint32_t index) {
  const carnot_plan_step* step = &context->plan->steps[index];
  carnot_operand* operand = context->steps[index].operands;
  for (uint32_t i = 0; i < step->input_count + step->output_count; i++, operand++) {
    uint32_t id = i < step->input_count ? step->inputs[i] : step->outputs[i - step->input_count];
    if (id == CARNOT_PLAN_NONE) {
      *operand = (carnot_operand){0};
      continue;
    }
    const carnot_run_value* value = &context->values[id];
    const carnot_tensor* t = &value->cell.tensor;
    const carnot_tactic* tactic = context->steps[index].tactics[0];
    bool there = carnot_is_on_device(context, id);
    // Host values of a device tactic are lists that decide sizes; it looks at |place|.
    bool reachable = tactic->device || tactic->cross_memory || !there;
    operand->data = !reachable ? NULL : there ? value->device_data : t->data;
    operand->format.memory = context->plan->values[id].format.memory;
    operand->format.dtype = carnot_plan_stored_dtype(&context->plan->values[id], t->dtype);
    operand->rank = t->rank;
    memcpy(operand->dims, t->dims, sizeof(operand->dims));
    memcpy(operand->strides, value->strides, sizeof(operand->strides));
  }
}

static bool guards_hold(const carnot_variant* variant, const carnot_operand* operands) {
  for (uint32_t i = 0; i < variant->guard_count; i++) {
    const carnot_operand* operand = &operands[variant->guards[i].operand];
    if (!carnot_guard_holds(&variant->guards[i], operand->dims, operand->rank)) return false;
  }
  return true;
}

static bool dense(const carnot_operand* operand, carnot_layout layout) {
  int64_t strides[CARNOT_MAX_RANK];
  carnot_layout_strides(layout, operand->rank, operand->dims, strides);
  for (int i = 0; i < operand->rank; i++)
    if (operand->dims[i] > 1 && operand->strides[i] != strides[i]) return false;
  return true;
}

static bool has_empty(const carnot_operand* operands, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    for (int d = 0; d < operands[i].rank; d++)
      if (operands[i].dims[d] == 0) return true;
  return false;
}

static carnot_status* check_stored_types(const carnot_context* context,
                                         const carnot_plan_step* step,
                                         const carnot_operand* operands,
                                         const carnot_tactic* tactic) {
  for (uint32_t i = 0; i < step->input_count + step->output_count && !tactic->takes_bf16; i++) {
    uint32_t id = i < step->input_count ? step->inputs[i] : step->outputs[i - step->input_count];
    if (id == CARNOT_PLAN_NONE) continue;
    const carnot_dtype declared = context->values[id].cell.tensor.dtype;
    CARNOT_CHECK(operands[i].format.dtype == declared, INVALID_MODEL,
                 "step %s: %s of %s is stored as %s, which tactic %s does not take", step->name,
                 context->plan->values[id].name, carnot_dtype_name(declared),
                 carnot_dtype_name(operands[i].format.dtype), tactic->name);
  }
  return NULL;
}

// Parts of a tensor are written and read only by tactics that take their strides.
static carnot_status* check_strides(const carnot_context* context, const carnot_plan_step* step,
                                    const carnot_operand* operands, const carnot_tactic* tactic) {
  const carnot_plan_value* values = context->plan->values;
  for (uint32_t i = 0; i < step->input_count && tactic->device; i++)
    CARNOT_CHECK(step->inputs[i] == CARNOT_PLAN_NONE || carnot_tactic_reads_pitched(tactic, i) ||
                     values[step->inputs[i]].storage != CARNOT_STORAGE_SUBVIEW ||
                     dense(&operands[i], values[step->inputs[i]].format.layout),
                 INVALID_MODEL, "step %s reads %s, a part of a tensor, which tactic %s cannot",
                 step->name, values[step->inputs[i]].name, tactic->name);
  operands += step->input_count;
  for (uint32_t i = 0; i < step->output_count; i++)
    CARNOT_CHECK(step->outputs[i] == CARNOT_PLAN_NONE || tactic->strided_outputs ||
                     tactic->pitched_outputs ||
                     dense(&operands[i], values[step->outputs[i]].format.layout),
                 INVALID_MODEL, "step %s writes %s, a part of a tensor, which tactic %s cannot",
                 step->name, values[step->outputs[i]].name, tactic->name);
  return NULL;
}

carnot_status* carnot_shape_step(carnot_context* context, uint32_t index, void* state,
                                 size_t* out_workspace_bytes) {
  const carnot_plan_step* step = &context->plan->steps[index];
  carnot_run_step* run = &context->steps[index];
  const carnot_operand* outputs = run->operands + step->input_count;
  *out_workspace_bytes = 0;
  run->skip = step->output_count > 0;
  for (uint32_t i = 0; i < step->output_count; i++)
    run->skip = run->skip && has_empty(&outputs[i], 1);
  if (run->skip) return NULL;
  run->variant = 0;
  while (run->variant + 1 < step->variant_count &&
         !guards_hold(&step->variants[run->variant], run->operands))
    run->variant++;
  const carnot_tactic* tactic = run->tactics[run->variant];
  if (!tactic->configure) return NULL;  // the reference, or nothing to do
  CARNOT_TRY(check_stored_types(context, step, run->operands, tactic));
  run->fallback =
      !tactic->device && !tactic->empty_inputs && has_empty(run->operands, step->input_count);
  if (run->fallback) return NULL;
  CARNOT_TRY(check_strides(context, step, run->operands, tactic));
  CARNOT_TRY_AT(tactic->configure(&run->views[run->variant], run->operands, outputs, state,
                                  out_workspace_bytes),
                "step %u (%s), tactic %s", index, step->name, tactic->name);
  return NULL;
}
