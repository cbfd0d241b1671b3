// From the inputs' shapes to every dimension, address and tactic state that they decide.
#include <stdlib.h>

#include "run/context.h"

// ---- inference of a step ----

// Gathers the cells of local operands; a local beyond the inputs stands in context->locals.
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
    value->cell = run->cell;
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

// A result without a planned place on the device, or that stands in what has none yet, is placed
// while running, whatever decides its size.
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
  carnot_status_free(status);  // the run tells
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

// ---- storage ----

carnot_status* carnot_own_output(carnot_run_binding* binding, size_t bytes) {
  if (binding->own_bytes >= bytes && binding->own) return NULL;
  free(binding->own);
  size_t size = carnot_align_up(bytes ? bytes : 1, 64);
  binding->own = aligned_alloc(64, size);
  binding->own_bytes = binding->own ? size : 0;
  return binding->own ? NULL : CARNOT_NO_MEMORY(size, "an output");
}

static carnot_status* place_output(carnot_context* context, uint32_t index, size_t bytes,
                                   void** out_data) {
  carnot_run_binding* binding = &context->bindings[index];
  const char* name = context->plan->bindings[index].name;
  if (binding->address) {
    CARNOT_CHECK(bytes <= binding->capacity_bytes, OUT_OF_RANGE,
                 "output %s takes %zu bytes, its memory holds %zu", name, bytes,
                 binding->capacity_bytes);
    *out_data = binding->address;
    return NULL;
  }
  CARNOT_TRY(carnot_own_output(binding, bytes));
  *out_data = binding->own;
  return NULL;
}

// Where the address of a value stands.
static void** address_of(const carnot_plan_value* v, carnot_run_value* value) {
  return v->format.memory == CARNOT_MEMORY_DEVICE ? &value->device_data : &value->cell.tensor.data;
}

static carnot_status* place_part(carnot_context* context, uint32_t index) {
  const carnot_plan_value* v = &context->plan->values[index];
  carnot_run_value* value = &context->values[index];
  carnot_run_value* whole = &context->values[v->index];
  carnot_tensor* t = &value->cell.tensor;
  CARNOT_CHECK(whole->known && whole->cell.tensor.rank == t->rank && v->axis < t->rank &&
                   whole->cell.tensor.dtype == t->dtype && carnot_dtype_bits(t->dtype) >= 8,
               INVALID_MODEL, "value %s is no part of %s", v->name,
               context->plan->values[v->index].name);
  int64_t before = 0;
  for (uint32_t i = 0; i < v->before_count; i++) {
    const carnot_run_value* other = &context->values[v->before[i]];
    CARNOT_CHECK(other->known && other->cell.tensor.rank == t->rank, INVALID_MODEL,
                 "value %s is no part of %s", context->plan->values[v->before[i]].name,
                 context->plan->values[v->index].name);
    before += other->cell.tensor.dims[v->axis];
  }
  for (int d = 0; d < t->rank; d++) {
    int64_t limit = whole->cell.tensor.dims[d] - (d == v->axis ? before : 0);
    CARNOT_CHECK(t->dims[d] <= limit, INVALID_MODEL,
                 "value %s does not fit in %s: dimension %d is %lld of %lld", v->name,
                 context->plan->values[v->index].name, d, (long long)t->dims[d], (long long)limit);
    value->strides[d] = whole->strides[d];
  }
  size_t element = (size_t)carnot_dtype_bits(t->dtype) / 8;
  *address_of(v, value) = (char*)*address_of(&context->plan->values[v->index], whole) +
                          (size_t)(before * whole->strides[v->axis]) * element;
  return NULL;
}

static carnot_status* place_value(carnot_context* context, uint32_t index, int depth) {
  const carnot_plan_value* v = &context->plan->values[index];
  carnot_run_value* value = &context->values[index];
  if (!value->known || value->cell.kind != CARNOT_VALUE_TENSOR ||
      v->storage == CARNOT_STORAGE_CONSTANT)
    return NULL;
  carnot_tensor* t = &value->cell.tensor;
  size_t bytes;
  CARNOT_TRY_AT(carnot_dims_bytes(t->dtype, t->dims, t->rank, &bytes), "value %s", v->name);
  carnot_layout_strides(v->format.layout, t->rank, t->dims, value->strides);
  void** address = address_of(v, value);
  bool on_device = v->format.memory == CARNOT_MEMORY_DEVICE;
  switch (v->storage) {
    case CARNOT_STORAGE_BINDING:
      if (on_device) return carnot_place_on_device(context, v->index, bytes, address);
      if (!context->plan->bindings[v->index].is_input)
        return place_output(context, v->index, bytes, &t->data);
      t->data = context->bindings[v->index].address;
      return NULL;
    case CARNOT_STORAGE_ARENA:
      CARNOT_CHECK(bytes <= v->max_bytes, INVALID_MODEL,
                   "value %s takes %zu bytes, the plan has room for %llu", v->name, bytes,
                   (unsigned long long)v->max_bytes);
      *address = (on_device ? context->device.arena : context->memory.arena) +
                 v->offsets[context->profile];
      return NULL;
    case CARNOT_STORAGE_DYNAMIC_ARENA:
      *address = on_device ? context->device.arena + context->plan->device_arena_bytes
                           : context->memory.arena + context->plan->arena_bytes;
      *address = (char*)*address + value->dynamic_offset;
      return NULL;
    case CARNOT_STORAGE_HEAP:
      CARNOT_CHECK(!on_device, INVALID_MODEL, "value %s on the device has no fixed place", v->name);
      // A shape step has put its elements there already.
      return t->data ? NULL : carnot_run_arena_alloc(&context->memory.shapes, bytes, &t->data);
    case CARNOT_STORAGE_ALIAS: {
      CARNOT_TRY(place_value(context, v->index, depth + 1));
      const carnot_tensor* other = &context->values[v->index].cell.tensor;
      CARNOT_CHECK(context->values[v->index].known && carnot_tensor_bytes(other) == bytes,
                   INVALID_MODEL, "value %s takes %zu bytes, %s has %zu", v->name, bytes,
                   context->plan->values[v->index].name, carnot_tensor_bytes(other));
      t->data = other->data;
      value->device_data = context->values[v->index].device_data;
      return NULL;
    }
    case CARNOT_STORAGE_SUBVIEW:
      CARNOT_TRY(place_value(context, v->index, depth + 1));
      return place_part(context, index);
    default: return NULL;
  }
}

// ---- tactics ----

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
    const carnot_tactic* row = context->steps[index].rows[0];
    bool there = carnot_is_on_device(context, id);
    // Host values of a device row are lists that decide sizes; it looks at |place|.
    bool reachable = row->device || row->cross_memory || !there;
    operand->data = !reachable ? NULL : there ? value->device_data : t->data;
    operand->format.memory = context->plan->values[id].format.memory;
    operand->format.dtype = t->dtype;
    operand->rank = t->rank;
    memcpy(operand->dims, t->dims, sizeof(operand->dims));
    memcpy(operand->strides, value->strides, sizeof(operand->strides));
  }
}

static bool guards_hold(const carnot_variant* variant, const carnot_operand* operands) {
  for (uint32_t i = 0; i < variant->guard_count; i++) {
    const carnot_guard* guard = &variant->guards[i];
    const carnot_operand* operand = &operands[guard->operand];
    if ((int)guard->dim >= operand->rank) return false;
    int64_t dim = operand->dims[guard->dim];
    if (dim < guard->min || dim > guard->max || dim % guard->multiple) return false;
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
  const carnot_tactic* row = run->rows[run->variant];
  if (!row->configure) return NULL;  // the reference, or nothing to do
  run->fallback = !row->device && has_empty(run->operands, step->input_count);
  if (run->fallback) return NULL;
  for (uint32_t i = 0; i < step->output_count && !row->strided_outputs; i++) {
    if (step->outputs[i] == CARNOT_PLAN_NONE) continue;
    CARNOT_CHECK(dense(&outputs[i], context->plan->values[step->outputs[i]].format.layout),
                 INVALID_MODEL, "step %s writes a part of a tensor, which tactic %s cannot",
                 step->name, row->name);
  }
  CARNOT_TRY_AT(
      row->configure(&run->views[run->variant], run->operands, outputs, state, out_workspace_bytes),
      "step %u (%s), tactic %s", index, step->name, row->name);
  return NULL;
}

// Offsets of the values whose size has no bound at build: planned for the shapes that are set.
static carnot_status* place_flexible(carnot_context* context, carnot_memory_space place) {
  const carnot_plan* plan = context->plan;
  if (!plan->dynamic_count) return NULL;
  void* memory;
  CARNOT_TRY(carnot_run_arena_alloc(&context->memory.shapes,
                                    plan->dynamic_count * sizeof(carnot_interval), &memory));
  carnot_interval* intervals = memory;
  uint32_t count = 0;
  for (uint32_t i = 0; i < plan->value_count && count < plan->dynamic_count; i++) {
    const carnot_plan_value* v = &plan->values[i];
    if (v->storage != CARNOT_STORAGE_DYNAMIC_ARENA || v->format.memory != place ||
        !context->values[i].known)
      continue;
    const carnot_tensor* t = &context->values[i].cell.tensor;
    size_t bytes;
    CARNOT_TRY_AT(carnot_dims_bytes(t->dtype, t->dims, t->rank, &bytes), "value %s", v->name);
    intervals[count++] =
        (carnot_interval){.id = i, .bytes = bytes, .first = v->first_step, .last = v->last_step};
  }
  uint64_t total = 0;
  CARNOT_TRY(carnot_memory_plan(intervals, count, &total));
  for (uint32_t i = 0; i < count; i++)
    context->values[intervals[i].id].dynamic_offset = intervals[i].offset;
  if (place == CARNOT_MEMORY_HOST)
    return carnot_run_memory_grow_arena(&context->memory, plan->arena_bytes + total);
  return carnot_device_session_grow(&context->device, plan->device_arena_bytes + total,
                                    (void**)&context->device.arena, &context->device.arena_bytes);
}

static carnot_status* place_all(carnot_context* context) {
  for (uint32_t i = 0; i < context->plan->value_count; i++) CARNOT_TRY(place_value(context, i, 0));
  const carnot_plan_block* main = &context->plan->blocks[0];
  for (uint32_t i = main->first_step; i < main->first_step + main->step_count; i++)
    if (!context->steps[i].late) carnot_fill_operands(context, i);
  context->addresses_changed = false;
  if (context->device.stream) carnot_note_recording(context);
  return NULL;
}

static carnot_status* resolve(carnot_context* context) {
  const carnot_plan_block* main = &context->plan->blocks[0];
  carnot_run_arena_reset(&context->memory.shapes);
  CARNOT_TRY(take_inputs(context));
  for (uint32_t i = 0; i < main->step_count; i++)
    CARNOT_TRY(resolve_step(context, main->first_step + i));
  CARNOT_TRY(place_flexible(context, CARNOT_MEMORY_HOST));
  if (context->device.stream) CARNOT_TRY(place_flexible(context, CARNOT_MEMORY_DEVICE));
  CARNOT_TRY(place_all(context));
  size_t most = 0, most_on_device = 0;
  for (uint32_t i = main->first_step; i < main->first_step + main->step_count; i++) {
    carnot_run_step* run = &context->steps[i];
    if (run->late || context->plan->steps[i].is_shape) continue;
    size_t bytes;
    CARNOT_TRY(carnot_shape_step(context, i, run->state, &bytes));
    size_t* largest = run->rows[run->variant]->device ? &most_on_device : &most;
    if (bytes > *largest) *largest = bytes;
  }
  CARNOT_TRY(carnot_run_memory_grow_workspace(&context->memory, most));
  if (context->device.stream) {
    CARNOT_TRY(carnot_device_session_grow(&context->device, most_on_device,
                                          (void**)&context->device.workspace,
                                          &context->device.workspace_bytes));
    carnot_note_recording(context);
  }
  for (uint32_t i = 0; i < context->plan->binding_count; i++) {
    const carnot_plan_binding* b = &context->plan->bindings[i];
    if (b->is_input) continue;
    context->bindings[i].cell = context->values[b->value].cell;
    context->bindings[i].cell.tensor.data = NULL;
    if (!context->values[b->value].known) context->bindings[i].cell.tensor.rank = -1;
  }
  return NULL;
}

carnot_status* carnot_context_resolve(carnot_context* context) {
  if (context->resolved && !elements_changed(context))
    return context->addresses_changed ? place_all(context) : NULL;
  context->memory.in_resolve = true;
  carnot_status* status = resolve(context);
  context->memory.in_resolve = false;
  context->resolved = status == NULL;
  return status;
}
