// Shape resolution: computes every dimension, address and tactic state that the inputs' shapes
// decide.
#include "run/context.h"

// ---- inference of a step ----

// Gathers the cells of local operands; a local beyond the inputs is in context->locals.
static void gather(carnot_context* context, const carnot_plan_node* node,
                   const carnot_rt_value* const* step_inputs, uint32_t input_count,
                   const carnot_rt_value** inputs, carnot_rt_value** outputs) {
  for (uint32_t i = 0; i < node->input_count; i++) {
    uint32_t local = node->inputs[i];
    inputs[i] = local == CARNOT_PLAN_NONE ? NULL
                : local < input_count     ? step_inputs[local]
                                          : &context->locals[local];
  }
  for (uint32_t i = 0; i < node->output_count; i++)
    outputs[i] = node->outputs[i] == CARNOT_PLAN_NONE ? NULL : &context->locals[node->outputs[i]];
}

carnot_status* carnot_infer_step(carnot_context* context, uint32_t index,
                                 const carnot_rt_value* const* inputs,
                                 carnot_rt_value* const* outputs) {
  const carnot_plan_step* step = &context->plan->steps[index];
  const carnot_region* region = &step->region;
  for (uint32_t n = 0; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    const carnot_rt_value* small_in[16];
    carnot_rt_value* small_out[16];
    const carnot_rt_value** in = small_in;
    carnot_rt_value** out = small_out;
    if (node->input_count > 16 || node->output_count > 16) {
      // Variadic operators of many operands: tables from the scratch of the shapes being set.
      void* memory;
      CARNOT_TRY(carnot_run_memory_alloc(
          &context->memory, (node->input_count + node->output_count) * sizeof(void*), &memory));
      in = memory;
      out = (carnot_rt_value**)memory + node->input_count;
    }
    gather(context, node, inputs, step->input_count, in, out);
    CARNOT_TRY_AT(
        carnot_infer_values(&context->scratch, carnot_op_get(node->op), &node->attrs, NULL,
                            (int)node->input_count, in, (int)node->output_count, out),
        "node %s (%s)", node->name, carnot_op_get(node->op)->name);
  }
  for (uint32_t i = 0; i < region->output_count; i++)
    if (outputs[i]) *outputs[i] = context->locals[region->outputs[i]];
  return NULL;
}

// ---- dimensions ----

// The elements of a shape input, within what the profile allows.
static carnot_status* take_elements(const carnot_context* context, const carnot_plan_binding* b,
                                    carnot_run_binding* run) {
  const carnot_tensor* t = &run->cell.tensor;
  int64_t count = carnot_tensor_count(t);
  CARNOT_CHECK(count <= CARNOT_MAX_SHAPE_ELEMENTS && carnot_dtype_is_integer(t->dtype) &&
                   (!b->value_count || b->value_count == count),
               INVALID_MODEL, "shape input %s has %lld elements of type %s", b->name,
               (long long)count, carnot_dtype_name(t->dtype));
  run->element_count = (uint32_t)count;
  for (uint32_t i = 0; i < run->element_count; i++) {
    int64_t element = carnot_load_i64(t->dtype, t->data, i);
    run->elements[i] = element;
    if (!b->value_count) continue;
    const carnot_dim_range* range = &b->value_ranges[context->profile * b->value_count + i];
    CARNOT_CHECK(element >= range->min && element <= range->max, INVALID_ARGUMENT,
                 "shape input %s: element %u is %lld, profile %u allows [%lld, %lld]", b->name, i,
                 (long long)element, context->profile, (long long)range->min,
                 (long long)range->max);
  }
  return NULL;
}

// The user may write other elements to the same memory.
static bool elements_changed(const carnot_context* context) {
  for (uint32_t b = 0; b < context->plan->binding_count; b++) {
    const carnot_run_binding* run = &context->bindings[b];
    const carnot_tensor* t = &run->cell.tensor;
    if (!context->plan->bindings[b].is_input || !context->plan->bindings[b].is_shape || !t->data)
      continue;
    for (uint32_t i = 0; i < run->element_count; i++)
      if (carnot_load_i64(t->dtype, t->data, i) != run->elements[i]) return true;
  }
  return false;
}

static carnot_status* take_inputs(carnot_context* context) {
  const carnot_plan* plan = context->plan;
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    const carnot_plan_binding* b = &plan->bindings[i];
    if (!b->is_input) continue;
    carnot_run_binding* run = &context->bindings[i];
    CARNOT_CHECK(run->is_set, FAILED_PRECONDITION, "input %s has no shape yet", b->name);
    carnot_run_value* value = &context->values[b->value];
    value->cell = carnot_stored_cell(b, &run->cell);
    // Only the elements of shape tensors may decide shapes; others may change from run to run.
    if (!b->is_shape) value->cell.tensor.data = NULL;
    value->known = run->cell.kind == CARNOT_VALUE_TENSOR && (!b->is_shape || run->cell.tensor.data);
    run->element_count = 0;
    if (value->known && b->is_shape) CARNOT_TRY(take_elements(context, b, run));
    carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, value->cell.tensor.rank, value->cell.tensor.dims,
                          value->strides);
  }
  return NULL;
}

// Cells of the step's inputs; false when one is not known.
static bool known_inputs(carnot_context* context, const carnot_plan_step* step,
                         const carnot_rt_value** inputs) {
  bool known = true;
  for (uint32_t i = 0; i < step->input_count; i++) {
    if (step->inputs[i] == CARNOT_PLAN_NONE) {
      inputs[i] = NULL;
      continue;
    }
    carnot_run_value* value = &context->values[step->inputs[i]];
    inputs[i] = &value->cell;
    known = known && value->known;
  }
  return known;
}

// A result without a planned offset on the device, or an alias of one, gets its memory while
// running, whatever decides its size.
static bool all_sized(const carnot_context* context, const carnot_plan_step* step,
                      carnot_rt_value* const* outputs) {
  for (uint32_t i = 0; i < step->output_count; i++) {
    if (!outputs[i]) continue;
    const carnot_plan_value* v = &context->plan->values[step->outputs[i]];
    bool unplanned =
        (v->format.memory == CARNOT_MEMORY_DEVICE && v->storage == CARNOT_STORAGE_HEAP) ||
        (v->storage == CARNOT_STORAGE_ALIAS && !context->values[v->index].known);
    if (unplanned || !carnot_rt_value_is_sized(outputs[i])) return false;
  }
  return true;
}

// Elements that decide shapes must be there before the run; only dimensions of other tensors may be
// asked for.
static carnot_status* check_elements(const carnot_plan_step* step,
                                     const carnot_rt_value* const* inputs) {
  for (uint32_t n = 0; n < step->region.node_count; n++) {
    const carnot_plan_node* node = &step->region.nodes[n];
    if (carnot_op_wants_dims(node->op)) continue;
    for (uint32_t i = 0; i < node->input_count; i++) {
      uint32_t local = node->inputs[i];
      if (local >= step->input_count || !inputs[local] ||
          inputs[local]->kind != CARNOT_VALUE_TENSOR)
        continue;
      CARNOT_CHECK(inputs[local]->tensor.data || carnot_tensor_count(&inputs[local]->tensor) == 0,
                   INVALID_MODEL,
                   "step %s decides shapes by elements of input %u that only the run has",
                   step->name, local);
    }
  }
  return NULL;
}

static carnot_status* run_shape_step(carnot_context* context, uint32_t index,
                                     const carnot_rt_value* const* inputs,
                                     carnot_rt_value* const* outputs) {
  CARNOT_TRY(check_elements(&context->plan->steps[index], inputs));
  CARNOT_TRY(carnot_run_reference(context, index, inputs, outputs));
  const carnot_plan_step* step = &context->plan->steps[index];
  for (uint32_t i = 0; i < step->output_count; i++)
    if (step->outputs[i] != CARNOT_PLAN_NONE) context->values[step->outputs[i]].known = true;
  return NULL;
}

// A late step may have results whose sizes do not wait: what reads them alone is not late.
static carnot_status* infer_what_can_be(carnot_context* context, uint32_t index,
                                        const carnot_rt_value* const* inputs,
                                        carnot_rt_value* const* outputs) {
  const carnot_plan_step* step = &context->plan->steps[index];
  carnot_status* status = carnot_infer_step(context, index, inputs, outputs);
  for (uint32_t i = 0; status && i < step->output_count; i++)
    if (outputs[i]) *outputs[i] = (carnot_rt_value){0};
  carnot_status_free(status);  // the run reports it
  return NULL;
}

static carnot_status* resolve_step(carnot_context* context, uint32_t index) {
  const carnot_plan_step* step = &context->plan->steps[index];
  carnot_run_step* run = &context->steps[index];
  void* memory;
  CARNOT_TRY(carnot_run_arena_alloc(&context->memory.shapes,
                                    (step->input_count + step->output_count + 1) * sizeof(void*),
                                    &memory));
  const carnot_rt_value** inputs = memory;
  carnot_rt_value** outputs = (carnot_rt_value**)memory + step->input_count;
  for (uint32_t i = 0; i < step->output_count; i++) {
    outputs[i] =
        step->outputs[i] == CARNOT_PLAN_NONE ? NULL : &context->values[step->outputs[i]].cell;
    if (!outputs[i]) continue;
    context->values[step->outputs[i]].known = false;
    *outputs[i] = (carnot_rt_value){0};
  }
  bool known = known_inputs(context, step, inputs);
  run->late = !known;
  for (uint32_t i = 0; i < step->region.node_count; i++)
    if (carnot_op_get(step->region.nodes[i].op)->flags & CARNOT_OP_CONTROL) {
      run->late = true;
      return NULL;
    }
  if (step->is_shape) return known ? run_shape_step(context, index, inputs, outputs) : NULL;
  CARNOT_TRY(known ? carnot_infer_step(context, index, inputs, outputs)
                   : infer_what_can_be(context, index, inputs, outputs));
  bool sized = all_sized(context, step, outputs);
  if (!sized) run->late = true;
  for (uint32_t i = 0; sized && i < step->output_count; i++) {
    if (!outputs[i]) continue;
    // What is known is a size that can be: those who read it multiply without looking.
    const carnot_tensor* t = &outputs[i]->tensor;
    size_t bytes;
    if (outputs[i]->kind == CARNOT_VALUE_TENSOR)
      CARNOT_TRY_AT(carnot_dims_bytes(t->dtype, t->dims, t->rank, &bytes), "step %u (%s)", index,
                    step->name);
    context->values[step->outputs[i]].known = true;
  }
  return NULL;
}

// ---- everything ----

static carnot_status* place_all(carnot_context* context) {
  for (uint32_t i = 0; i < context->plan->value_count; i++)
    CARNOT_TRY(carnot_place_value(context, i, 0));
  CARNOT_TRY(carnot_check_shared_buffers(context));
  const carnot_plan_block* main = &context->plan->blocks[0];
  for (uint32_t i = main->first_step; i < main->first_step + main->step_count; i++)
    if (!context->steps[i].late) carnot_fill_operands(context, i);
  context->addresses_changed = false;
  if (context->device.stream) carnot_note_graph_key(context);
  return NULL;
}

static carnot_status* resolve(carnot_context* context) {
  const carnot_plan_block* main = &context->plan->blocks[0];
  carnot_run_arena_reset(&context->memory.shapes);
  CARNOT_TRY(take_inputs(context));
  for (uint32_t i = 0; i < main->step_count; i++)
    CARNOT_TRY(resolve_step(context, main->first_step + i));
  CARNOT_TRY(carnot_place_dynamic(context, CARNOT_MEMORY_HOST));
  if (context->device.stream) CARNOT_TRY(carnot_place_dynamic(context, CARNOT_MEMORY_DEVICE));
  CARNOT_TRY(place_all(context));
  size_t most = 0, most_on_device = 0;
  for (uint32_t i = main->first_step; i < main->first_step + main->step_count; i++) {
    carnot_run_step* run = &context->steps[i];
    if (run->late || context->plan->steps[i].is_shape) continue;
    size_t bytes;
    CARNOT_TRY(carnot_shape_step(context, i, run->state, &bytes));
    size_t* largest = run->tactics[run->variant]->device ? &most_on_device : &most;
    if (bytes > *largest) *largest = bytes;
  }
  CARNOT_TRY(carnot_run_memory_grow_workspace(&context->memory, most));
  if (context->device.stream) {
    CARNOT_TRY(carnot_device_session_grow(&context->device, most_on_device,
                                          (void**)&context->device.workspace,
                                          &context->device.workspace_bytes));
    carnot_note_graph_key(context);
  }
  for (uint32_t i = 0; i < context->plan->binding_count; i++) {
    const carnot_plan_binding* b = &context->plan->bindings[i];
    if (b->is_input) continue;
    const carnot_run_value* value = &context->values[b->value];
    context->bindings[i].cell = (carnot_rt_value){.kind = value->cell.kind, .tensor.rank = -1};
    if (value->known) CARNOT_TRY(carnot_shown_cell(b, &value->cell, &context->bindings[i].cell));
    context->bindings[i].cell.tensor.data = NULL;
  }
  return NULL;
}

carnot_status* carnot_context_resolve(carnot_context* context) {
  if (context->resolved && !elements_changed(context))
    return context->addresses_changed ? place_all(context) : NULL;
  context->memory.in_resolve = true;
  carnot_status* status = resolve(context);
  if (context->device.stream)  // after an error too: no thread works on when the process ends
    carnot_session_backend(&context->device)->settle(context->device.stream->device);
  context->memory.in_resolve = false;
  context->resolved = status == NULL;
  return status;
}
