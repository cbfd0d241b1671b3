// Creation and destruction of contexts, and what reference kernels ask of them.
#include "run/context.h"

#include <stdlib.h>

#include "carnot/machine.h"

static carnot_status* host_alloc(const carnot_call_host* host, size_t bytes, void** out_memory) {
  return carnot_run_memory_alloc(&((carnot_context*)host)->memory, bytes, out_memory);
}

static void host_loop(const carnot_call_host* host, carnot_loop_phase phase) {
  carnot_run_memory_loop(&((carnot_context*)host)->memory, phase);
}

static bool host_is_passing(const carnot_call_host* host, const void* data) {
  return carnot_run_memory_is_passing(&((const carnot_context*)host)->memory, data);
}

static carnot_status* host_run_block(const carnot_call_host* host, const carnot_attr* body,
                                     int input_count, const carnot_rt_value* const* inputs,
                                     int output_count, carnot_rt_value* outputs) {
  carnot_context* context = (carnot_context*)host;
  const carnot_plan_block* block = &context->plan->blocks[body->block_index];
  CARNOT_CHECK(
      (uint32_t)input_count == block->param_count && (uint32_t)output_count <= block->output_count,
      INVALID_MODEL, "a body takes %u inputs and gives %u outputs, called with %d and %d",
      block->param_count, block->output_count, input_count, output_count);
  for (int i = 0; i < input_count; i++) {
    carnot_run_value* value = &context->values[block->params[i]];
    value->cell = inputs[i] ? *inputs[i] : (carnot_rt_value){0};
    carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, value->cell.tensor.rank, value->cell.tensor.dims,
                          value->strides);
  }
  CARNOT_TRY(carnot_run_block_steps(context, (uint32_t)body->block_index));
  for (int i = 0; i < output_count; i++) {
    outputs[i] = context->values[block->outputs[i]].cell;
    const carnot_tensor* t = &outputs[i].tensor;
    CARNOT_CHECK(outputs[i].kind != CARNOT_VALUE_TENSOR || t->data || carnot_tensor_count(t) == 0,
                 INVALID_MODEL, "result %s of a body has no memory",
                 context->plan->values[block->outputs[i]].name);
  }
  return NULL;
}

static carnot_status* check_weights_present(const carnot_context* context) {
  for (uint32_t i = 0; i < context->plan->blob_count; i++)
    CARNOT_CHECK(
        context->weights->data[i] || context->plan->blobs[i].dropped || !context->plan->stripped,
        FAILED_PRECONDITION, "weight %s was stripped from the engine: refit it first",
        context->plan->blobs[i].name);
  return NULL;
}

static carnot_status* bind_step(carnot_context* context, uint32_t index, char* states) {
  const carnot_plan_step* step = &context->plan->steps[index];
  carnot_run_step* run = &context->steps[index];
  run->state = states + (size_t)index * CARNOT_STATE_BYTES;
  size_t operand_count = (size_t)step->input_count + step->output_count;
  run->operands = CARNOT_NEW_ARRAY(&context->tables, carnot_operand, operand_count + 1);
  CARNOT_TRY(carnot_arena_status(&context->tables));
  if (step->region.value_count + 1 > context->max_locals)
    context->max_locals = step->region.value_count + 1;
  for (uint32_t i = 0; i < step->variant_count; i++) {
    const carnot_variant* variant = &step->variants[i];
    const carnot_tactic* tactic = carnot_tactic_find(variant->tactic);
    CARNOT_CHECK(tactic, VERSION_MISMATCH,
                 "step %u (%s) needs tactic %s, which this runtime lacks: build the engine again",
                 index, step->name, variant->tactic);
    CARNOT_CHECK(carnot_isa_includes(context->isa, tactic->isa), UNSUPPORTED,
                 "step %u (%s) needs a processor with %s, this one has %s", index, step->name,
                 carnot_isa_name(tactic->isa), carnot_isa_name(context->isa));
    run->tactics[i] = tactic;
    run->views[i] = (carnot_step_view){.tactic = tactic,
                                       .region = &step->region,
                                       .input_count = step->input_count,
                                       .output_count = step->output_count,
                                       .params = variant->params,
                                       .param_bytes = variant->param_bytes,
                                       .constant_count = variant->constant_count,
                                       .machine_isa = context->isa,
                                       .threads = carnot_executor_thread_count(context->executor),
                                       .stream = context->device.stream};
    CARNOT_CHECK(!tactic->device || context->device.stream, INVALID_MODEL,
                 "step %u (%s) has tactic %s in an engine for %s", index, step->name, tactic->name,
                 context->plan->device);
  }
  return NULL;
}

// Constants that only a packed form is left of must not be read otherwise.
static carnot_status* check_dropped(const carnot_context* context, uint32_t index,
                                    uint32_t variant) {
  const carnot_plan_step* step = &context->plan->steps[index];
  const carnot_tactic* tactic = context->steps[index].tactics[variant];
  for (uint32_t i = 0; i < step->input_count; i++) {
    if (step->inputs[i] == CARNOT_PLAN_NONE) continue;
    uint32_t value = step->inputs[i];
    while (context->plan->values[value].storage == CARNOT_STORAGE_ALIAS)
      value = context->plan->values[value].index;
    const carnot_plan_value* v = &context->plan->values[value];
    if (v->storage != CARNOT_STORAGE_CONSTANT || !context->plan->blobs[v->index].dropped) continue;
    bool reads =
        !tactic->uses_input || tactic->uses_input(&context->steps[index].views[variant], i);
    CARNOT_CHECK(tactic->run && !reads, INVALID_MODEL,
                 "step %u (%s) reads weight %s, whose bytes the engine does not hold", index,
                 step->name, v->name);
  }
  return NULL;
}

// Checks what the steps rely on, then opens what the context keeps for them.
static carnot_status* check_step(carnot_context* context, uint32_t index) {
  carnot_run_step* run = &context->steps[index];
  for (uint32_t i = 0; i < context->plan->steps[index].variant_count; i++)
    for (uint32_t c = 0; c < run->views[i].constant_count; c++)
      CARNOT_CHECK(run->views[i].constants[c] || !run->views[i].constant_bytes[c], INVALID_MODEL,
                   "step %u (%s): the engine does not hold the bytes of packed constant %u", index,
                   context->plan->steps[index].name, c);
  for (uint32_t i = 0; i < context->plan->steps[index].variant_count; i++)
    if (run->tactics[i]->validate)
      CARNOT_TRY_AT(run->tactics[i]->validate(&run->views[i]), "step %u (%s), tactic %s", index,
                    context->plan->steps[index].name, run->tactics[i]->name);
  for (uint32_t i = 0; i < context->plan->steps[index].variant_count; i++)
    CARNOT_TRY(check_dropped(context, index, i));
  for (uint32_t i = 0; i < context->plan->steps[index].variant_count; i++)
    if (run->tactics[i]->open)
      CARNOT_TRY_AT(run->tactics[i]->open(&run->views[i], &run->views[i].instance), "step %u (%s)",
                    index, context->plan->steps[index].name);
  return NULL;
}

// While weights are copied.
static void start_libraries(const carnot_context* context) {
  uint32_t sources = 0;
  for (uint32_t s = 0; s < context->plan->step_count; s++)
    for (uint32_t i = 0; i < context->plan->steps[s].variant_count; i++)
      sources |= context->steps[s].tactics[i]->sources;
  if (context->device.stream)
    carnot_session_backend(&context->device)
        ->start_libraries(context->device.stream->device, sources);
}

static carnot_status* build_context(carnot_context* context) {
  const carnot_plan* plan = context->plan;
  void *values, *bindings, *steps, *states, *locals;
  CARNOT_TRY(carnot_arena_try(&context->tables, plan->value_count + 1, sizeof(carnot_run_value),
                              "values", &values));
  CARNOT_TRY(carnot_arena_try(&context->tables, plan->binding_count + 1, sizeof(carnot_run_binding),
                              "tensors", &bindings));
  CARNOT_TRY(carnot_arena_try(&context->tables, plan->step_count + 1, sizeof(carnot_run_step),
                              "steps", &steps));
  CARNOT_TRY(carnot_arena_try(&context->tables, plan->step_count + 1, CARNOT_STATE_BYTES, "steps",
                              &states));
  context->values = values;
  context->bindings = bindings;
  context->steps = steps;
  for (uint32_t i = 0; i < plan->step_count; i++) CARNOT_TRY(bind_step(context, i, states));
  start_libraries(context);
  CARNOT_TRY(carnot_arena_try(&context->tables, context->max_locals + 1, sizeof(carnot_rt_value),
                              "values", &locals));
  context->locals = locals;
  CARNOT_TRY(check_weights_present(context));
  if (context->device.stream) CARNOT_TRY(carnot_context_upload(context));
  carnot_bind_constants(context);
  for (uint32_t i = 0; i < plan->step_count; i++) CARNOT_TRY(check_step(context, i));
  if (context->device.stream)
    CARNOT_TRY(carnot_device_session_grow(&context->device, plan->device_arena_bytes,
                                          (void**)&context->device.arena,
                                          &context->device.arena_bytes));
  return carnot_run_memory_grow_arena(&context->memory, plan->arena_bytes);
}

carnot_status* carnot_context_create_on(carnot_engine* engine,
                                        const carnot_context_options* options,
                                        carnot_context** out_context) {
  *out_context = NULL;
  CARNOT_TRY(carnot_environment_check());
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_context), "a context", &memory));
  carnot_context* context = memory;
  carnot_engine_retain(engine);
  context->engine = engine;
  context->plan = engine->plan;
  context->weights = carnot_engine_take_weights(engine);
  context->executor = options ? options->executor : NULL;
  context->isa = options && options->isa >= 0 ? (carnot_isa)options->isa : carnot_isa_of_machine();
  context->host = (carnot_call_host){.alloc = host_alloc,
                                     .run_block = host_run_block,
                                     .seed = 1,
                                     .loop = host_loop,
                                     .is_passing = host_is_passing};
  carnot_infer_scratch_init(&context->scratch);
  size_t limit = options ? options->memory_limit_bytes : 0;
  carnot_run_memory_init(&context->memory, limit);
  context->device.host_io = options && options->host_io;
  carnot_status* status = carnot_device_session_open(&context->device, engine->plan->device,
                                                     options ? options->device : NULL,
                                                     options && options->allow_code, limit);
  if (!status) status = build_context(context);
  if (status) {
    carnot_context_free(context);
    return status;
  }
  *out_context = context;
  return NULL;
}

static void close_steps(carnot_context* context) {
  for (uint32_t s = 0; context->steps && s < context->plan->step_count; s++)
    for (uint32_t i = 0; i < CARNOT_MAX_VARIANTS; i++)
      if (context->steps[s].views[i].instance)
        context->steps[s].tactics[i]->close(context->steps[s].views[i].instance);
}

// The stream is idle before memory that its work reads is freed.
static void close_bindings(carnot_context* context) {
  carnot_device* device = context->device.stream ? context->device.stream->device : NULL;
  carnot_device_session_close(&context->device, context->plan->step_count);
  for (uint32_t i = 0; context->bindings && i < context->plan->binding_count; i++) {
    free(context->bindings[i].own);
    free(context->bindings[i].linear_memory);
    if (!device) continue;
    device->backend->free(device, context->bindings[i].device_memory);
    device->backend->free_host(device, context->bindings[i].pinned);
  }
}

void carnot_context_free(carnot_context* context) {
  if (!context) return;
  close_steps(context);
  close_bindings(context);
  carnot_infer_scratch_deinit(&context->scratch);
  carnot_run_memory_deinit(&context->memory);
  free(context->profiler.times);
  free(context->profiler.workers);
  carnot_arena_deinit(&context->tables);
  carnot_engine_drop_weights(context->engine, context->weights);
  carnot_engine_release(context->engine);
  free(context);
}
