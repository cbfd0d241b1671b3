// Inputs and outputs that the user gave the same memory: a cache and its result.
#include "run/context.h"

static uint32_t index_in(const uint32_t* list, uint32_t count, uint32_t value) {
  uint32_t i = 0;
  while (i < count && list[i] != value) i++;
  return i;
}

// On the host or on the device; NULL before it is known.
static const void* memory_of(const carnot_context* context, const carnot_plan_binding* b) {
  const carnot_run_value* value = &context->values[b->value];
  return context->plan->values[b->value].format.memory == CARNOT_MEMORY_DEVICE
             ? value->device_data
             : value->cell.tensor.data;
}

// The step that writes |output| reads |input| there, and its tactic takes both in one place.
static bool is_updated(const carnot_context* context, uint32_t step, uint32_t input,
                       uint32_t output) {
  const carnot_plan_step* s = &context->plan->steps[step];
  const carnot_run_step* run = &context->steps[step];
  const carnot_tactic* tactic = run->tactics[run->variant];
  const uint32_t from = index_in(s->inputs, s->input_count, input),
                 to = index_in(s->outputs, s->output_count, output);
  return from < s->input_count && to < s->output_count && !run->fallback && tactic->may_share &&
         tactic->may_share(&run->views[run->variant], from, to);
}

static carnot_status* check_pair(const carnot_context* context, const carnot_plan_binding* in,
                                 const carnot_plan_binding* out) {
  const carnot_plan_value *from = &context->plan->values[in->value],
                          *to = &context->plan->values[out->value];
  const carnot_tensor *x = &context->values[in->value].cell.tensor,
                      *y = &context->values[out->value].cell.tensor;
  size_t x_bytes, y_bytes;
  CARNOT_TRY(carnot_stored_bytes(from, x, &x_bytes));
  CARNOT_TRY(carnot_stored_bytes(to, y, &y_bytes));
  const uintptr_t a = (uintptr_t)memory_of(context, in), b = (uintptr_t)memory_of(context, out);
  if (!x_bytes || !y_bytes || a + x_bytes <= b || b + y_bytes <= a) return NULL;
  if (from->last_step < to->first_step) return NULL;  // was read before
  if (a == b && x_bytes == y_bytes && from->last_step == to->first_step &&
      is_updated(context, to->first_step, in->value, out->value))
    return NULL;
  return CARNOT_ERROR(INVALID_ARGUMENT,
                      "output %s (%zu bytes) shares memory with input %s (%zu bytes); step %u (%s) "
                      "cannot write one over the other",
                      out->name, y_bytes, in->name, x_bytes, to->first_step,
                      context->plan->steps[to->first_step].name);
}

// The steps work in the user's memory. An output that is an input as it is gets copied at the end.
static bool is_in_place(const carnot_context* context, uint32_t index) {
  const carnot_plan_binding* b = &context->plan->bindings[index];
  const carnot_plan_value* v = &context->plan->values[b->value];
  const carnot_run_value* value = &context->values[b->value];
  return v->storage == CARNOT_STORAGE_BINDING && v->index == index && value->known &&
         value->cell.kind == CARNOT_VALUE_TENSOR && memory_of(context, b);
}

carnot_status* carnot_check_shared_buffers(const carnot_context* context) {
  const carnot_plan* plan = context->plan;
  for (uint32_t o = 0; o < plan->binding_count; o++) {
    const carnot_plan_binding* out = &plan->bindings[o];
    if (out->is_input || !context->bindings[o].address || !is_in_place(context, o)) continue;
    for (uint32_t i = 0; i < plan->binding_count; i++)
      if (plan->bindings[i].is_input && is_in_place(context, i))
        CARNOT_TRY(check_pair(context, &plan->bindings[i], out));
  }
  return NULL;
}
