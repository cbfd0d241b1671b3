// The user's selector of tactics: candidates in the public form, and what it keeps of them.
#include "builder/select/selector.h"

#include <stdlib.h>
#include <string.h>

static bool is_shown(const carnot_operand_desc* operand) {
  return operand->kind == CARNOT_VALUE_TENSOR && !operand->is_constant;
}

static uint32_t count_shown(const carnot_operand_desc* operands, uint32_t count) {
  uint32_t shown = 0;
  for (uint32_t i = 0; i < count; i++) shown += is_shown(&operands[i]);
  return shown;
}

static carnot_tactic_tensor* put_tensors(const carnot_operand_desc* operands, uint32_t count,
                                         carnot_tactic_tensor* out) {
  for (uint32_t i = 0; i < count; i++) {
    const carnot_operand_desc* from = &operands[i];
    if (!is_shown(from)) continue;
    *out = (carnot_tactic_tensor){.dtype = from->format.dtype, .dims = {.rank = from->rank}};
    bool known = from->rank >= 0;
    for (int d = 0; d < from->rank; d++) {
      out->dims.d[d] = from->dims[d];
      known = known && from->dims[d] >= 0;
    }
    if (known) carnot_format_strides(&from->format, from->rank, from->dims, out->strides);
    out++;
  }
  return out;
}

// The candidates [count] of a set, in arrays of |arena|.
static carnot_layer_tactics describe(carnot_arena* arena, const char* node,
                                     const carnot_candidate* candidates, uint32_t count) {
  const carnot_problem* p = &candidates->problem;
  uint32_t inputs = count_shown(p->inputs, p->input_count);
  uint32_t outputs = count_shown(p->outputs, p->output_count);
  carnot_tactic_choice* choices = CARNOT_NEW_ARRAY(arena, carnot_tactic_choice, count);
  carnot_tactic_tensor* tensors =
      CARNOT_NEW_ARRAY(arena, carnot_tactic_tensor, (size_t)count * (inputs + outputs) + 1);
  if (arena->failed) return (carnot_layer_tactics){.layer = node};
  for (uint32_t i = 0; i < count; i++) {
    const carnot_candidate* c = &candidates[i];
    bool timed = c->ns != UINT64_MAX;
    choices[i] =
        (carnot_tactic_choice){c->tactic->name, timed ? (double)c->ns * 1e-6 : -1, tensors};
    tensors = put_tensors(c->problem.inputs, c->problem.input_count, tensors);
    tensors = put_tensors(c->problem.outputs, c->problem.output_count, tensors);
  }
  return (carnot_layer_tactics){node, inputs, outputs, count, choices};
}

static carnot_status* cancelled(void) {
  return CARNOT_ERROR(CANCELLED, "the selector of tactics ended the build");
}

static carnot_status* filter(const carnot_tactic_selector* selector, carnot_arena* arena,
                             const char* node, carnot_candidate_set* set) {
  carnot_layer_tactics layer = describe(arena, node, set->items, set->count);
  bool* keep = CARNOT_NEW_ARRAY(arena, bool, set->count);
  CARNOT_TRY(carnot_arena_status(arena));
  for (uint32_t i = 0; i < set->count; i++) keep[i] = true;
  if (!selector->select(selector->user, &layer, keep)) return cancelled();
  uint32_t kept = 0;
  for (uint32_t i = 0; i < set->count; i++) kept += keep[i];
  if (!kept) return NULL;
  uint32_t at = 0;
  for (uint32_t i = 0; i < set->count; i++)
    if (keep[i]) set->items[at++] = set->items[i];
  set->count = at;
  return NULL;
}

carnot_status* carnot_selector_filter(carnot_builder* builder, const char* node,
                                      carnot_candidate_set* set) {
  const carnot_tactic_selector* selector = &builder->config->selector;
  if (!selector->select || set->situation.is_shape_step) return NULL;
  carnot_arena arena;
  carnot_arena_init(&arena);
  carnot_status* status = filter(selector, &arena, node, set);
  carnot_arena_deinit(&arena);
  return status;
}

carnot_status* carnot_selector_report(carnot_builder* builder, const carnot_analysis* analysis,
                                      const carnot_candidates* candidates,
                                      const carnot_assignment* assignment) {
  const carnot_tactic_selector* selector = &builder->config->selector;
  if (!selector->report) return NULL;
  carnot_arena arena;
  carnot_arena_init(&arena);
  carnot_layer_tactics* layers =
      CARNOT_NEW_ARRAY(&arena, carnot_layer_tactics, analysis->region_count + 1);
  uint32_t count = 0;
  for (uint32_t i = 0; layers && i < analysis->region_count; i++) {
    const carnot_candidate* chosen = carnot_assigned_candidate(assignment, candidates, i);
    const carnot_assigned_region* region = &assignment->regions[i];
    if (candidates->sets[region->set]->situation.is_shape_step) continue;
    layers[count++] = describe(&arena, analysis->regions[i].name, chosen, 1);
  }
  carnot_status* status = carnot_arena_status(&arena);
  if (!status && !selector->report(selector->user, layers, count)) status = cancelled();
  carnot_arena_deinit(&arena);
  return status;
}
