// Running the steps.
#include <stdlib.h>

#include "run/context.h"

// ---- the reference tactic: operators one by one, with their inner values in the store ----

// Memory that lasts as long as the run, in which the tactics of the step work.
static carnot_status* late_memory(carnot_context* context, bool on_device, size_t bytes,
                                  void** out_memory) {
  return carnot_run_arena_alloc(on_device ? &context->device.run_arena : context->memory.current,
                                bytes, out_memory);
}

// Where a result of the processor goes that is an output of the network; NULL for others.
static carnot_status* output_memory(carnot_context* context, uint32_t id, size_t bytes,
                                    void** out_memory) {
  *out_memory = NULL;
  for (uint32_t i = 0; i < context->plan->binding_count && !context->device.stream; i++) {
    const carnot_plan_binding* b = &context->plan->bindings[i];
    carnot_run_binding* binding = &context->bindings[i];
    if (b->is_input || b->value != id || binding->allocate ||
        context->plan->values[id].format.layout != CARNOT_LAYOUT_ROW_MAJOR)
      continue;
    // Too little capacity is an error when the result is delivered.
    if (binding->address && bytes > binding->capacity_bytes) return NULL;
    if (!binding->address) CARNOT_TRY(carnot_own_output(context, binding, bytes));
    *out_memory = binding->address ? binding->address : binding->own;
    return NULL;
  }
  return NULL;
}

static carnot_status* place_late(carnot_context* context, const carnot_plan_step* step) {
  for (uint32_t i = 0; i < step->output_count; i++) {
    if (step->outputs[i] == CARNOT_PLAN_NONE) continue;
    const carnot_plan_value* v = &context->plan->values[step->outputs[i]];
    carnot_run_value* value = &context->values[step->outputs[i]];
    if (value->known) continue;
    carnot_tensor* t = &value->cell.tensor;
    carnot_layout_strides(v->format.layout, t->rank, t->dims, value->strides);
    size_t bytes;
    CARNOT_TRY_AT(carnot_dims_bytes(t->dtype, t->dims, t->rank, &bytes), "value %s", v->name);
    bool on_device = carnot_is_on_device(context, step->outputs[i]);
    t->data = value->device_data = NULL;
    if (v->storage == CARNOT_STORAGE_ALIAS) {
      const carnot_tensor* other = &context->values[v->index].cell.tensor;
      size_t other_bytes;
      CARNOT_TRY(carnot_stored_bytes(v, t, &bytes));
      CARNOT_TRY(carnot_stored_bytes(&context->plan->values[v->index], other, &other_bytes));
      CARNOT_CHECK(other_bytes == bytes, INVALID_MODEL,
                   "value %s takes %zu bytes, its storage has %zu", v->name, bytes, other_bytes);
      t->data = other->data;
      value->device_data = context->values[v->index].device_data;
    } else {
      CARNOT_TRY(output_memory(context, step->outputs[i], bytes, &t->data));
      if (!t->data)
        CARNOT_TRY(
            late_memory(context, on_device, bytes, on_device ? &value->device_data : &t->data));
    }
  }
  return NULL;
}

// Types of the results of a late step. Those that were known before keep their memory.
static carnot_status* infer_late(carnot_context* context, uint32_t index,
                                 const carnot_rt_value* const* inputs,
                                 carnot_rt_value* const* outputs, bool* out_sized) {
  const carnot_plan_step* step = &context->plan->steps[index];
  void* memory;
  CARNOT_TRY(carnot_run_arena_alloc(context->memory.current,
                                    step->output_count * sizeof(carnot_rt_value), &memory));
  carnot_rt_value* before = memory;
  for (uint32_t i = 0; i < step->output_count; i++)
    if (outputs[i]) before[i] = *outputs[i];
  CARNOT_TRY(carnot_infer_step(context, index, inputs, outputs));
  *out_sized = true;
  for (uint32_t i = 0; i < step->output_count; i++) {
    if (!outputs[i]) continue;
    *out_sized = *out_sized && carnot_rt_value_is_sized(outputs[i]);
    if (!context->values[step->outputs[i]].known) continue;
    const carnot_tensor *t = &before[i].tensor, *found = &outputs[i]->tensor;
    bool same = outputs[i]->kind == CARNOT_VALUE_TENSOR && t->dtype == found->dtype &&
                t->rank == found->rank &&
                memcmp(t->dims, found->dims, (size_t)t->rank * sizeof(*t->dims)) == 0;
    CARNOT_CHECK(same, INVALID_MODEL, "value %s has another size than its planned memory",
                 context->plan->values[step->outputs[i]].name);
    *outputs[i] = before[i];
  }
  return NULL;
}

// A step whose sizes are known only now, by its row.
static carnot_status* run_sized(carnot_context* context, uint32_t index) {
  carnot_run_step* run = &context->steps[index];
  CARNOT_TRY(place_late(context, &context->plan->steps[index]));
  carnot_fill_operands(context, index);
  size_t bytes;
  void* workspace = NULL;
  CARNOT_TRY(carnot_shape_step(context, index, run->state, &bytes));
  if (bytes) CARNOT_TRY(late_memory(context, run->tactics[0]->device, bytes, &workspace));
  return carnot_run_ready(context, index, run->state, workspace);
}

// A step whose row counts its results.
static carnot_status* run_counted(carnot_context* context, uint32_t index,
                                  carnot_rt_value* const* outputs) {
  const carnot_plan_step* step = &context->plan->steps[index];
  carnot_run_step* run = &context->steps[index];
  const carnot_tactic* tactic = run->tactics[0];
  const carnot_step_view* view = &run->views[0];
  carnot_operand* results = run->operands + step->input_count;
  carnot_fill_operands(context, index);
  size_t bytes;
  void* workspace = NULL;
  CARNOT_TRY_AT(tactic->configure(view, run->operands, results, run->state, &bytes), "tactic %s",
                tactic->name);
  if (bytes) CARNOT_TRY(late_memory(context, tactic->device, bytes, &workspace));
  for (uint32_t i = 0; i < step->input_count; i++) {
    const carnot_operand* x = &run->operands[i];
    CARNOT_CHECK(
        step->inputs[i] == CARNOT_PLAN_NONE || x->data || !carnot_dims_count(x->dims, x->rank),
        INVALID_MODEL, "value %s has no memory", context->plan->values[step->inputs[i]].name);
  }
  CARNOT_TRY_AT(tactic->infer_output_sizes(view, run->state, run->operands, results, workspace),
                "tactic %s", tactic->name);
  bool empty = true;
  for (uint32_t i = 0; i < step->output_count; i++) {
    if (!outputs[i]) continue;
    carnot_tensor* t = &outputs[i]->tensor;
    t->rank = results[i].rank;
    memcpy(t->dims, results[i].dims, sizeof(t->dims));
    empty = empty && carnot_tensor_count(t) == 0;
  }
  CARNOT_TRY(place_late(context, step));
  if (empty) return NULL;
  carnot_fill_operands(context, index);
  return tactic->run(view, run->state, run->operands, results, workspace, context->run_executor);
}

// A step that is resolved only now, because its sizes depend on values.
static carnot_status* run_late(carnot_context* context, uint32_t index) {
  const carnot_plan_step* step = &context->plan->steps[index];
  carnot_run_step* run = &context->steps[index];
  const carnot_rt_value** inputs;
  carnot_rt_value** outputs;
  CARNOT_TRY(carnot_gather_values(context, step, &inputs, &outputs));
  const carnot_tactic* tactic = run->tactics[0];
  bool reference = step->variant_count == 1 && !tactic->run;
  if (!reference) {
    bool sized;
    CARNOT_TRY(infer_late(context, index, inputs, outputs, &sized));
    if (sized) return run_sized(context, index);
    if (tactic->infer_output_sizes && step->variant_count == 1)
      return run_counted(context, index, outputs);
    CARNOT_CHECK(!tactic->device, INVALID_MODEL,
                 "no sizes for the results of a step on the device");
  }
  for (uint32_t i = 0; i < step->output_count; i++)
    if (outputs[i] && !context->values[step->outputs[i]].known) *outputs[i] = (carnot_rt_value){0};
  CARNOT_TRY(carnot_check_step_memory(context, index, NULL, NULL));
  CARNOT_TRY(carnot_run_reference(context, index, inputs, outputs));
  for (uint32_t i = 0; i < step->output_count; i++) {
    if (!outputs[i] || outputs[i]->kind != CARNOT_VALUE_TENSOR ||
        context->values[step->outputs[i]].known)
      continue;
    carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, outputs[i]->tensor.rank, outputs[i]->tensor.dims,
                          context->values[step->outputs[i]].strides);
  }
  return NULL;
}

carnot_status* carnot_run_block_steps(carnot_context* context, uint32_t block_index) {
  const carnot_plan_block* block = &context->plan->blocks[block_index];
  uint32_t end = block->first_step + block->step_count;
  for (uint32_t i = block->first_step; i < end; i++) {
    if (context->device.stream && block_index == 0) {
      CARNOT_TRY(carnot_device_steps(context, i, end, &i));
      if (i == end) break;
      CARNOT_TRY(carnot_device_pause(context, i));
    }
    const carnot_plan_step* step = &context->plan->steps[i];
    if (context->hooks.cancel && context->hooks.cancel(context->hooks.cancel_user))
      return CARNOT_ERROR(CANCELLED, "the run was cancelled before step %u (%s)", i, step->name);
    bool late = block_index > 0 || context->steps[i].late;
    if (step->is_shape && !late) continue;
    uint64_t start = context->profiler.times ? carnot_run_now_ns() : 0;
    carnot_status* status =
        late ? run_late(context, i)
             : carnot_run_ready(context, i, context->steps[i].state, context->memory.workspace);
    if (status) return carnot_status_annotate(status, "step %u (%s)", i, step->name);
    bool on_device = late && context->steps[i].tactics[0]->device;
    if (context->profiler.times && on_device) CARNOT_TRY(carnot_device_wait(context));
    if (context->profiler.times)
      carnot_run_profiler_add_host(&context->profiler, i, step->name, start);
    if (context->hooks.watch)
      CARNOT_TRY(on_device ? carnot_device_show(context, i)
                           : context->hooks.watch(context->hooks.watch_user, context, i));
  }
  return NULL;
}

// ---- the run ----

static carnot_status* deliver_output(carnot_context* context, uint32_t index) {
  const carnot_plan_binding* b = &context->plan->bindings[index];
  carnot_run_binding* binding = &context->bindings[index];
  const carnot_rt_value* cell = &context->values[b->value].cell;
  CARNOT_TRY(carnot_shown_cell(b, cell, &binding->cell));
  if (cell->kind != CARNOT_VALUE_TENSOR) return NULL;
  const carnot_plan_value* v = &context->plan->values[b->value];
  if (context->device.stream &&
      (v->format.memory == CARNOT_MEMORY_DEVICE || !context->device.host_io))
    return carnot_device_deliver(context, index);
  bool in_place =
      v->storage == CARNOT_STORAGE_BINDING && v->index == index && context->values[b->value].known;
  carnot_dims dims = {.rank = binding->cell.tensor.rank};
  memcpy(dims.d, binding->cell.tensor.dims, sizeof(dims.d));
  if (!in_place) {
    CARNOT_CHECK(v->format.layout == CARNOT_LAYOUT_ROW_MAJOR, INTERNAL,
                 "output %s is not row-major", b->name);
    size_t bytes = carnot_tensor_bytes(&cell->tensor);
    CARNOT_CHECK(cell->tensor.data || !bytes, INVALID_MODEL, "output %s has no memory", b->name);
    void* data = binding->address;
    if (binding->allocate && !binding->asked) {
      CARNOT_TRY(carnot_ask_allocator(context, index, bytes, &data));
    } else if (data) {
      CARNOT_CHECK(bytes <= binding->capacity_bytes, OUT_OF_RANGE,
                   "output %s takes %zu bytes, its memory holds %zu", b->name, bytes,
                   binding->capacity_bytes);
    } else {
      CARNOT_TRY(carnot_own_output(context, binding, bytes));
      data = binding->own;
    }
    if (bytes && data != cell->tensor.data) memcpy(data, cell->tensor.data, bytes);
    binding->cell.tensor.data = data;
  }
  if (binding->notify) binding->notify(binding->allocate_user, b->name, &dims);
  return NULL;
}

static carnot_status* refresh_weights(carnot_context* context);

static carnot_status* run(carnot_context* context) {
  carnot_run_memory_begin_run(&context->memory);
  if (context->device.stream) carnot_run_arena_reset(&context->device.run_arena);
  context->host.seed++;
  for (uint32_t i = 0; i < context->plan->binding_count; i++) {
    if (!context->plan->bindings[i].is_input) continue;
    CARNOT_CHECK(context->bindings[i].cell.kind != CARNOT_VALUE_TENSOR ||
                     context->bindings[i].address ||
                     carnot_tensor_count(&context->bindings[i].cell.tensor) == 0,
                 FAILED_PRECONDITION, "input %s has no data", context->plan->bindings[i].name);
    uint32_t value = context->plan->bindings[i].value;
    context->values[value].cell =
        carnot_stored_cell(&context->plan->bindings[i], &context->bindings[i].cell);
    if (carnot_is_on_device(context, value)) context->values[value].cell.tensor.data = NULL;
  }
  if (context->device.stream) CARNOT_TRY(carnot_device_begin(context));
  CARNOT_TRY(carnot_run_block_steps(context, 0));
  if (context->device.stream) CARNOT_TRY(carnot_device_computed(context));
  for (uint32_t i = 0; i < context->plan->binding_count; i++)
    if (!context->plan->bindings[i].is_input) CARNOT_TRY(deliver_output(context, i));
  return context->device.stream ? carnot_device_end(context) : NULL;
}

// Memory of outputs whose size is known before the run, so that they are written in place.
static carnot_status* ask_allocators(carnot_context* context) {
  for (uint32_t i = 0; i < context->plan->binding_count; i++) {
    const carnot_plan_binding* b = &context->plan->bindings[i];
    carnot_run_binding* binding = &context->bindings[i];
    const carnot_run_value* value = &context->values[b->value];
    binding->asked = binding->allocate && value->known && value->cell.kind == CARNOT_VALUE_TENSOR;
    if (!binding->asked) continue;
    size_t bytes = carnot_tensor_bytes(&value->cell.tensor);
    void* data;
    CARNOT_TRY(carnot_ask_allocator(context, i, bytes, &data));
  }
  return carnot_context_resolve(context);
}

// The run for the timeline. The copies are where the stream is idle for the host: at both ends.
static void note_run(const carnot_context* context, uint64_t start) {
  const carnot_run_profiler* profiler = &context->profiler;
  uint64_t end = carnot_run_now_ns();
  carnot_run_profiler_span(profiler, CARNOT_SPAN_RUN, CARNOT_SPAN_NO_STEP, start, end);
  if (!context->device.stream || !context->device.time_io) return;
  const uint64_t* ns = context->device.io_ns;
  if (ns[0] && start + ns[0] <= end)
    carnot_run_profiler_span(profiler, CARNOT_SPAN_UPLOAD, CARNOT_SPAN_NO_STEP, start,
                             start + ns[0]);
  if (ns[2] && start + ns[2] <= end)
    carnot_run_profiler_span(profiler, CARNOT_SPAN_DOWNLOAD, CARNOT_SPAN_NO_STEP, end - ns[2], end);
}

carnot_status* carnot_context_run_now(carnot_context* context) {
  CARNOT_TRY(refresh_weights(context));
  CARNOT_TRY(carnot_context_resolve(context));
  CARNOT_TRY(ask_allocators(context));
  bool has_executor = carnot_executor_begin(context->executor);
  context->run_executor = has_executor ? context->executor : NULL;
  if (has_executor) carnot_executor_set_spans(context->executor, context->profiler.workers);
  uint32_t mode = carnot_fp_mode_enter();
  uint64_t start = context->profiler.timeline ? carnot_run_now_ns() : 0;
  carnot_status* status = run(context);
  carnot_fp_mode_leave(mode);
  if (!status && context->profiler.timeline) note_run(context, start);
  if (has_executor) carnot_executor_set_spans(context->executor, NULL);
  if (has_executor) carnot_executor_end(context->executor);
  carnot_lease_copy(context->engine->lease);  // the first result does not wait for it
  return status;
}

// A refit since the last run: take the new generation.
static carnot_status* refresh_weights(carnot_context* context) {
  carnot_weights* newest = carnot_engine_take_weights(context->engine);
  if (newest == context->weights) {
    carnot_engine_drop_weights(context->engine, newest);
    return NULL;
  }
  carnot_engine_drop_weights(context->engine, context->weights);
  context->weights = newest;
  if (context->device.stream) CARNOT_TRY(carnot_context_upload(context));
  carnot_bind_constants(context);
  context->resolved = false;
  return NULL;
}
