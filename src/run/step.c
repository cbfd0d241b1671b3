// Runs one step whose dimensions, addresses and state are ready: by its tactic, or by the reference
// kernels.
#include <stdlib.h>
#include <time.h>

#include "run/context.h"

static carnot_status* size_outputs(const carnot_call* call) {
  for (int i = 0; i < call->output_count; i++) {
    if (!call->outputs[i] || !carnot_rt_value_is_sized(call->outputs[i])) continue;
    carnot_tensor* t = &call->outputs[i]->tensor;
    CARNOT_TRY(carnot_call_size_output(call, i, t->dtype, t->rank, t->dims));
  }
  return NULL;
}

static carnot_status* run_node(carnot_context* context, const carnot_plan_node* node,
                               const carnot_rt_value* const* inputs,
                               carnot_rt_value* const* outputs, bool infer) {
  const carnot_op_row* row = carnot_op_get(node->op);
  if (infer)
    CARNOT_TRY(carnot_infer_values(&context->scratch, row, &node->attrs, NULL,
                                   (int)node->input_count, inputs, (int)node->output_count,
                                   outputs));
  context->host.executor = context->run_executor;
  carnot_host_next_draw(&context->host, row);
  carnot_call call = {.row = row,
                      .attrs = &node->attrs,
                      .input_count = (int)node->input_count,
                      .output_count = (int)node->output_count,
                      .inputs = inputs,
                      .outputs = outputs,
                      .host = &context->host};
  CARNOT_TRY(size_outputs(&call));
  CARNOT_TRY(row->reference(&call));
  for (int i = 0; i < call.output_count; i++) {
    const carnot_rt_value* cell = outputs[i];
    if (!cell || cell->kind != CARNOT_VALUE_TENSOR) continue;
    CARNOT_CHECK(carnot_rt_value_is_sized(cell) &&
                     (cell->tensor.data || carnot_tensor_count(&cell->tensor) == 0),
                 INVALID_MODEL, "%s gave no size for its output %d", row->name, i);
  }
  return NULL;
}

// Interprets a region of several operators. |outputs| may hold planned storage, into which results
// are copied.
static carnot_status* run_region(carnot_context* context, const carnot_plan_step* step,
                                 const carnot_rt_value* const* inputs,
                                 carnot_rt_value* const* outputs) {
  const carnot_region* region = &step->region;
  void* memory;
  CARNOT_TRY(context->host.alloc(&context->host,
                                 (region->value_count + 1) * sizeof(carnot_rt_value), &memory));
  carnot_rt_value* locals = memory;
  memset(locals, 0, (region->value_count + 1) * sizeof(carnot_rt_value));
  for (uint32_t n = 0; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    void* table;
    CARNOT_TRY(context->host.alloc(
        &context->host, (node->input_count + node->output_count + 1) * sizeof(void*), &table));
    const carnot_rt_value** in = table;
    carnot_rt_value** out = (carnot_rt_value**)table + node->input_count;
    for (uint32_t i = 0; i < node->input_count; i++) {
      uint32_t local = node->inputs[i];
      in[i] = local == CARNOT_PLAN_NONE   ? NULL
              : local < step->input_count ? inputs[local]
                                          : &locals[local];
    }
    for (uint32_t i = 0; i < node->output_count; i++)
      out[i] = node->outputs[i] == CARNOT_PLAN_NONE ? NULL : &locals[node->outputs[i]];
    CARNOT_TRY_AT(run_node(context, node, in, out, true), "node %s", node->name);
  }
  for (uint32_t i = 0; i < region->output_count; i++) {
    if (!outputs[i]) continue;
    const carnot_rt_value* from = &locals[region->outputs[i]];
    void* data = outputs[i]->tensor.data;
    bool planned = outputs[i]->kind == CARNOT_VALUE_TENSOR && data;
    *outputs[i] = *from;
    if (!planned) continue;
    memcpy(data, from->tensor.data, carnot_tensor_bytes(&from->tensor));
    outputs[i]->tensor.data = data;
  }
  return NULL;
}

static carnot_status* run_declared(carnot_context* context, uint32_t index,
                                   const carnot_rt_value* const* inputs,
                                   carnot_rt_value* const* outputs) {
  const carnot_plan_step* step = &context->plan->steps[index];
  if (step->region.node_count > 1) return run_region(context, step, inputs, outputs);
  const carnot_plan_node* node = &step->region.nodes[0];
  // The common case: the node's operands are the step's.
  bool direct = node->input_count == step->input_count && node->output_count == step->output_count;
  for (uint32_t i = 0; direct && i < node->input_count; i++)
    direct = node->inputs[i] == i || (node->inputs[i] == CARNOT_PLAN_NONE && !inputs[i]);
  for (uint32_t i = 0; direct && i < node->output_count; i++)
    direct = node->outputs[i] == step->region.outputs[i];
  if (!direct) return run_region(context, step, inputs, outputs);
  bool planned = true;
  for (uint32_t i = 0; i < step->output_count; i++)
    planned = planned &&
              (!outputs[i] || (outputs[i]->kind == CARNOT_VALUE_TENSOR && outputs[i]->tensor.data));
  return run_node(context, node, inputs, outputs, !planned);
}

// The type of a step's operand in memory where that is not its declared type, else INVALID.
static carnot_dtype other_type(const carnot_context* context, uint32_t id,
                               const carnot_rt_value* cell) {
  if (id == CARNOT_PLAN_NONE || !cell || cell->kind != CARNOT_VALUE_TENSOR || !cell->tensor.data)
    return CARNOT_DTYPE_INVALID;
  const carnot_dtype stored =
      carnot_plan_stored_dtype(&context->plan->values[id], cell->tensor.dtype);
  return stored == cell->tensor.dtype ? CARNOT_DTYPE_INVALID : stored;
}

// |cell| in float32 memory of its own; what |stored| says lies in its memory is converted.
static carnot_status* widen(carnot_context* context, const carnot_rt_value* cell,
                            carnot_dtype stored, bool reads, carnot_rt_value* out) {
  const int64_t count = carnot_tensor_count(&cell->tensor);
  *out = *cell;
  CARNOT_TRY(
      context->host.alloc(&context->host, ((size_t)count + 1) * sizeof(float), &out->tensor.data));
  float* wide = out->tensor.data;
  for (int64_t i = 0; i < count && reads; i++)
    wide[i] = (float)carnot_load_f64(stored, cell->tensor.data, (size_t)i);
  return NULL;
}

// Reference kernels take tensors in their declared types: others are converted around them.
carnot_status* carnot_run_reference(carnot_context* context, uint32_t index,
                                    const carnot_rt_value* const* inputs,
                                    carnot_rt_value* const* outputs) {
  const carnot_plan_step* step = &context->plan->steps[index];
  const uint32_t count = step->input_count + step->output_count;
  bool any = false;
  for (uint32_t i = 0; i < count; i++)
    any = any || (i < step->input_count
                      ? other_type(context, step->inputs[i], inputs[i])
                      : other_type(context, step->outputs[i - step->input_count],
                                   outputs[i - step->input_count])) != CARNOT_DTYPE_INVALID;
  if (!any) return run_declared(context, index, inputs, outputs);
  void* memory;
  CARNOT_TRY(context->host.alloc(&context->host, count * (sizeof(carnot_rt_value) + sizeof(void*)),
                                 &memory));
  carnot_rt_value* cells = memory;
  const carnot_rt_value** in = (const carnot_rt_value**)(void*)(cells + count);
  carnot_rt_value** out = (carnot_rt_value**)(void*)(in + step->input_count);
  for (uint32_t i = 0; i < step->input_count; i++) {
    const carnot_dtype stored = other_type(context, step->inputs[i], inputs[i]);
    in[i] = stored == CARNOT_DTYPE_INVALID ? inputs[i] : &cells[i];
    if (in[i] != inputs[i])
      CARNOT_TRY(widen(context, inputs[i], stored, /*reads=*/true, &cells[i]));
  }
  for (uint32_t i = 0; i < step->output_count; i++) {
    const carnot_dtype stored = other_type(context, step->outputs[i], outputs[i]);
    out[i] = stored == CARNOT_DTYPE_INVALID ? outputs[i] : &cells[step->input_count + i];
    if (out[i] != outputs[i])
      CARNOT_TRY(widen(context, outputs[i], stored, /*reads=*/false, out[i]));
  }
  CARNOT_TRY(run_declared(context, index, in, out));
  for (uint32_t i = 0; i < step->output_count; i++) {
    if (out[i] == outputs[i]) continue;
    const carnot_dtype stored = other_type(context, step->outputs[i], outputs[i]);
    const float* wide = out[i]->tensor.data;
    for (int64_t k = 0; k < carnot_tensor_count(&outputs[i]->tensor); k++)
      carnot_store_f64(stored, outputs[i]->tensor.data, (size_t)k, wide[k]);
  }
  return NULL;
}

// ---- steps ----

carnot_status* carnot_gather_values(carnot_context* context, const carnot_plan_step* step,
                                    const carnot_rt_value*** out_inputs,
                                    carnot_rt_value*** out_outputs) {
  void* memory;
  CARNOT_TRY(carnot_run_arena_alloc(context->memory.current,
                                    (step->input_count + step->output_count + 1) * sizeof(void*),
                                    &memory));
  *out_inputs = memory;
  *out_outputs = (carnot_rt_value**)memory + step->input_count;
  for (uint32_t i = 0; i < step->input_count; i++) {
    bool present = step->inputs[i] != CARNOT_PLAN_NONE &&
                   context->values[step->inputs[i]].cell.kind != CARNOT_VALUE_UNKNOWN;
    (*out_inputs)[i] = present ? &context->values[step->inputs[i]].cell : NULL;
  }
  for (uint32_t i = 0; i < step->output_count; i++)
    (*out_outputs)[i] =
        step->outputs[i] == CARNOT_PLAN_NONE ? NULL : &context->values[step->outputs[i]].cell;
  return NULL;
}

carnot_status* carnot_check_step_memory(const carnot_context* context, uint32_t index,
                                        const carnot_tactic* tactic, const carnot_step_view* view) {
  const carnot_plan_step* step = &context->plan->steps[index];
  bool dims_only = step->region.node_count == 1 && carnot_op_wants_dims(step->region.nodes[0].op);
  uint32_t count =
      (!tactic && dims_only ? 0 : step->input_count) + (tactic ? step->output_count : 0);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t id = i < step->input_count ? step->inputs[i] : step->outputs[i - step->input_count];
    const carnot_run_value* value = id == CARNOT_PLAN_NONE ? NULL : &context->values[id];
    if (!value || value->cell.kind != CARNOT_VALUE_TENSOR) continue;
    if (tactic ? context->steps[index].operands[i].data : value->cell.tensor.data) continue;
    // Of a host value a device tactic wants the size alone.
    bool sized =
        tactic && tactic->device && !tactic->cross_memory && !carnot_is_on_device(context, id);
    bool unread = tactic && tactic->uses_input && !tactic->uses_input(view, i);
    bool untouched = i < step->input_count && (sized || unread);
    CARNOT_CHECK(untouched || carnot_tensor_count(&value->cell.tensor) == 0, INVALID_MODEL,
                 "value %s has no memory", context->plan->values[id].name);
  }
  return NULL;
}

carnot_status* carnot_run_ready(carnot_context* context, uint32_t index, void* state,
                                void* workspace) {
  const carnot_plan_step* step = &context->plan->steps[index];
  carnot_run_step* run = &context->steps[index];
  if (run->skip) return NULL;
  bool reference = !run->tactics[run->variant]->run || run->fallback;
  const carnot_tactic* tactic = reference ? NULL : run->tactics[run->variant];
  CARNOT_TRY(carnot_check_step_memory(context, index, tactic, &run->views[run->variant]));
  if (reference) {
    const carnot_rt_value** inputs;
    carnot_rt_value** outputs;
    CARNOT_TRY(carnot_gather_values(context, step, &inputs, &outputs));
    return carnot_run_reference(context, index, inputs, outputs);
  }
  return tactic->run(&run->views[run->variant], state, run->operands,
                     run->operands + step->input_count, workspace, context->run_executor);
}
