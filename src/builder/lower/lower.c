// Graph → plan: steps in order of execution, block after block.
#include "builder/lower/lower.h"

#include <stdlib.h>
#include <string.h>

// ---- regions ----

static carnot_status* lower_block(carnot_lowering* l, uint32_t block);

// Copies one captured value to host memory.
static carnot_status* capture(carnot_lowering* l, const carnot_value* value) {
  uint32_t plan_value;
  if (!value || value->constant ||
      !carnot_memory_is_device(l->assignment->formats[value->id].memory))
    return NULL;
  return carnot_lowering_value(l, value, CARNOT_LAYOUT_ROW_MAJOR, CARNOT_MEMORY_HOST, &plan_value);
}

// Bodies run on the CPU: what they read from outside is copied to host memory before they begin.
static carnot_status* capture_inputs(carnot_lowering* l, const carnot_block* body) {
  for (const carnot_node* node = body->first; node; node = node->next) {
    for (int i = 0; i < node->input_count; i++) CARNOT_TRY(capture(l, node->inputs[i]));
    for (size_t a = 0; a < node->attrs.count; a++)
      if (node->attrs.items[a].type == CARNOT_ATTR_BLOCK)
        CARNOT_TRY(capture_inputs(l, node->attrs.items[a].block));
  }
  for (size_t i = 0; i < body->output_count; i++) CARNOT_TRY(capture(l, body->outputs[i]));
  return NULL;
}

static carnot_status* lower_bodies(carnot_lowering* l, const carnot_region_facts* f) {
  for (uint32_t b = 0; b < f->body_count; b++) {
    CARNOT_TRY(capture_inputs(l, l->analysis->blocks[f->bodies[b]].block));
    CARNOT_TRY(lower_block(l, f->bodies[b]));
    l->block = f->block;
  }
  return NULL;
}

// ---- originals of packed weights ----

// True when nothing is lowered after this and refit will not ask for the originals.
static bool keeps_packed_alone(const carnot_builder* builder) {
  return builder->is_last_lowering && !builder->config->refit && !builder->config->strip;
}

// Counts the constants of the graph that lie in each of the sources' copies.
static carnot_status* count_readers(const carnot_lowering* l) {
  carnot_source_memory* sources = l->builder->graph->sources;
  if (!keeps_packed_alone(l->builder) || !sources) return NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(l->analysis->value_count, sizeof(bool), "constants", &memory));
  bool* seen = memory;
  for (uint32_t r = 0; r < l->analysis->region_count; r++)
    for (uint32_t i = 0; i < l->analysis->regions[r].input_count; i++) {
      const carnot_value* value = l->analysis->regions[r].inputs[i];
      if (!value || !value->constant || seen[value->id]) continue;
      seen[value->id] = true;
      for (carnot_source_memory* m = sources; m; m = m->next)
        carnot_source_memory_count_reader(m, value->constant->tensor.data);
    }
  free(seen);
  return NULL;
}

// An input that this region alone reads, and only packed, is not needed any more. Its data are set
// to NULL here and in the plan: no reader can take what is gone for the weight.
static void release_input(carnot_lowering* l, uint32_t region, uint32_t input,
                          uint32_t plan_value) {
  const carnot_value* value = l->analysis->regions[region].inputs[input];
  if (!keeps_packed_alone(l->builder) || !value || !value->constant || value->use_count != 1 ||
      value->block_output_count || !carnot_lowering_is_packed_away(l, region, input))
    return;
  carnot_tensor* tensor = &value->constant->tensor;
  for (carnot_source_memory* m = l->builder->graph->sources; m; m = m->next) {
    if (!carnot_source_memory_release(m, tensor->data, carnot_tensor_bytes(tensor))) continue;
    l->blobs[l->values[plan_value].plan.index].tensor.data = NULL;
    tensor->data = NULL;
    return;
  }
}

static carnot_status* lower_region(carnot_lowering* l, uint32_t region) {
  carnot_arena* arena = &l->plan->arena;
  const carnot_region_facts* f = &l->analysis->regions[region];
  const carnot_problem* problem =
      &carnot_assigned_candidate(l->assignment, l->candidates, region)->problem;
  CARNOT_TRY(lower_bodies(l, f));
  CARNOT_TRY(carnot_lowering_prepare(l, region));
  uint32_t* inputs = CARNOT_NEW_ARRAY(arena, uint32_t, f->input_count + 1);
  uint32_t* outputs = CARNOT_NEW_ARRAY(arena, uint32_t, f->output_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  bool waits = l->assignment->regions[region].is_late;
  for (uint32_t i = 0; i < f->input_count; i++) {
    const carnot_format* wanted = &problem->inputs[i].format;
    inputs[i] = CARNOT_PLAN_NONE;
    if (!f->inputs[i]) continue;
    CARNOT_TRY(carnot_lowering_value(l, f->inputs[i], wanted->layout, wanted->memory, &inputs[i]));
    carnot_value_builder* value = &l->values[inputs[i]];
    value->packed_uses += carnot_lowering_is_packed_away(l, region, i);
    value->uses++;
    waits |= value->waits;
  }
  for (uint32_t i = 0; i < f->output_count; i++) {
    const carnot_value* value = f->outputs[i];
    const carnot_format* format = &l->assignment->formats[value->id];
    CARNOT_TRY(carnot_lowering_add_value(l, value, value->name, format->layout, format->memory,
                                         &outputs[i]));
    l->values[outputs[i]].waits = waits;
  }
  CARNOT_TRY(carnot_lowering_add_region_step(l, region, inputs, outputs));
  for (uint32_t i = 0; i < f->input_count; i++) release_input(l, region, i, inputs[i]);
  if (l->builder->is_last_lowering) carnot_candidates_forget(l->candidates, region);
  return NULL;
}

// ---- blocks ----

static carnot_status* lower_block(carnot_lowering* l, uint32_t block) {
  carnot_arena* arena = &l->plan->arena;
  const carnot_block_facts* facts = &l->analysis->blocks[block];
  const carnot_block* b = facts->block;
  carnot_plan_block* out = &l->blocks[block].plan;
  l->block = block;
  out->param_count = (uint32_t)b->param_count;
  uint32_t* params = CARNOT_NEW_ARRAY(arena, uint32_t, b->param_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  for (size_t i = 0; i < b->param_count; i++) {
    const carnot_value* value = b->params[i];
    const carnot_format* format = &l->assignment->formats[value->id];
    CARNOT_TRY(carnot_lowering_add_value(l, value, value->name, format->layout, format->memory,
                                         &params[i]));
  }
  out->params = params;
  for (uint32_t i = 0; i < facts->region_count; i++)
    CARNOT_TRY_AT(lower_region(l, facts->regions[i]), "node %s",
                  l->analysis->regions[facts->regions[i]].name);
  uint32_t* outputs = CARNOT_NEW_ARRAY(arena, uint32_t, b->output_count + 1);
  CARNOT_TRY(carnot_arena_status(arena));
  for (size_t i = 0; i < b->output_count; i++) {
    const carnot_value* value = b->outputs[i];
    carnot_memory_space memory =
        value->constant || block ? CARNOT_MEMORY_HOST : l->assignment->formats[value->id].memory;
    CARNOT_TRY(carnot_lowering_value(l, value, CARNOT_LAYOUT_ROW_MAJOR, memory, &outputs[i]));
  }
  out->output_count = (uint32_t)b->output_count;
  out->outputs = outputs;
  return NULL;
}

// The steps of all blocks in one array, block after block.
static carnot_status* join_steps(carnot_lowering* l) {
  carnot_plan* plan = l->plan;
  const uint32_t block_count = l->analysis->block_count;
  size_t total = 0;
  for (uint32_t b = 0; b < block_count; b++) total += l->blocks[b].steps.count;
  plan->steps = CARNOT_NEW_ARRAY(&plan->arena, carnot_plan_step, total + 1);
  l->notes = CARNOT_NEW_ARRAY(&plan->arena, carnot_step_note, total + 1);
  plan->blocks = CARNOT_NEW_ARRAY(&plan->arena, carnot_plan_block, block_count);
  CARNOT_TRY(carnot_arena_status(&plan->arena));
  plan->block_count = block_count;
  for (uint32_t b = 0; b < block_count; b++) {
    carnot_step_list* list = &l->blocks[b].steps;
    plan->blocks[b] = l->blocks[b].plan;
    plan->blocks[b].first_step = plan->step_count;
    plan->blocks[b].step_count = (uint32_t)list->count;
    if (list->count)
      memcpy(&plan->steps[plan->step_count], list->items, list->count * sizeof(*list->items));
    if (list->count)
      memcpy(&l->notes[plan->step_count], list->notes, list->count * sizeof(*list->notes));
    plan->step_count += (uint32_t)list->count;
    free(list->items);
    free(list->notes);
    *list = (carnot_step_list){.count = list->count};
  }
  return NULL;
}

// All steps are made: neither candidates nor pages of the model's files are read any more, but for
// the weights that the plan holds as they are.
static void end_candidates(carnot_builder* builder) {
  carnot_arena_deinit(&builder->problems);
  carnot_builder_drop_pages(builder);
}

static carnot_status* lower_all(carnot_lowering* l) {
  CARNOT_TRY(carnot_lowering_carry_libraries(l->builder, l->plan));
  CARNOT_TRY(count_readers(l));
  CARNOT_TRY(lower_block(l, 0));
  CARNOT_TRY(join_steps(l));
  if (l->builder->is_last_lowering) end_candidates(l->builder);
  CARNOT_TRY(carnot_lowering_drop_packed(l));
  CARNOT_TRY(carnot_lowering_bind(l));
  CARNOT_TRY(carnot_lowering_assign_storage(l));
  return carnot_lowering_inspect(l);
}

// ---- one lowering ----

static carnot_status* open_lowering(carnot_lowering* l) {
  void *blocks, *first_of, *step_of;
  CARNOT_TRY(carnot_plan_create(&l->plan));
  CARNOT_TRY(carnot_calloc(l->analysis->block_count, sizeof(*l->blocks), "blocks", &blocks));
  l->blocks = blocks;
  CARNOT_TRY(carnot_calloc(l->analysis->value_count, sizeof(uint32_t), "values", &first_of));
  l->first_of = first_of;
  CARNOT_TRY(carnot_calloc(l->analysis->region_count + 1, sizeof(uint32_t), "steps", &step_of));
  l->step_of = step_of;
  return NULL;
}

static void close_lowering(carnot_lowering* l) {
  for (uint32_t b = 0; l->blocks && b < l->analysis->block_count; b++) {
    free(l->blocks[b].steps.items);
    free(l->blocks[b].steps.notes);
  }
  free(l->blocks);
  free(l->values);
  free(l->blobs);
  free(l->refit_exprs);
  free(l->first_of);
  free(l->step_of);
}

carnot_status* carnot_lower(carnot_builder* builder, const carnot_analysis* analysis,
                            const carnot_candidates* candidates,
                            const carnot_assignment* assignment,
                            const carnot_alternatives* alternatives, carnot_plan** out_plan,
                            uint32_t* out_steps) {
  carnot_lowering l = {.builder = builder,
                       .analysis = analysis,
                       .candidates = candidates,
                       .assignment = assignment,
                       .alternatives = alternatives};
  carnot_status* status = open_lowering(&l);
  if (!status) status = lower_all(&l);
  if (l.plan) status = carnot_arena_end(&l.plan->arena, status);
  for (uint32_t r = 0; out_steps && !status && r < analysis->region_count; r++)
    out_steps[r] = l.plan->blocks[analysis->regions[r].block].first_step + l.step_of[r];
  close_lowering(&l);
  if (status) carnot_plan_destroy(l.plan);
  *out_plan = status ? NULL : l.plan;
  return status;
}
