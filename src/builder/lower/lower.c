// Graph → plan: steps in order, block after block.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/device.h"
#include "builder/lower/lower.h"
#include "builder/select/tune_end_to_end.h"

// ---- steps ----

carnot_status* carnot_lowering_add_step(carnot_lowering* l, const carnot_plan_step* step,
                                        const carnot_step_note* note) {
  carnot_step_list* list = &l->blocks[l->block].steps;
  void *items = list->items, *notes = list->notes;
  carnot_status* status =
      carnot_grow(&items, &list->capacity, list->count + 1, sizeof(*list->items), "steps");
  list->items = items;
  if (!status)
    status =
        carnot_grow(&notes, &list->note_capacity, list->count + 1, sizeof(*list->notes), "steps");
  list->notes = notes;
  if (status) return status;
  list->items[list->count] = *step;
  list->notes[list->count++] = *note;
  return NULL;
}

static carnot_status* lower_block(carnot_lowering* l, carnot_block* block, uint32_t* out_index);

// Bodies run on the processor: what they read from outside is brought there before they begin.
static carnot_status* bring_captured(carnot_lowering* l, const carnot_block* body) {
  uint32_t plan_value;
  for (const carnot_node* node = body->first; node; node = node->next) {
    for (int i = 0; i < node->input_count; i++) {
      const carnot_value* value = node->inputs[i];
      if (!value || value->constant || l->builder->places[value->id] == CARNOT_MEMORY_HOST)
        continue;
      CARNOT_TRY(carnot_lowering_value(l, value, CARNOT_LAYOUT_ROW_MAJOR, CARNOT_MEMORY_HOST,
                                       &plan_value));
    }
    for (size_t a = 0; a < node->attrs.count; a++)
      if (node->attrs.items[a].type == CARNOT_ATTR_BLOCK)
        CARNOT_TRY(bring_captured(l, node->attrs.items[a].block));
  }
  for (size_t i = 0; i < body->output_count; i++) {
    const carnot_value* value = body->outputs[i];
    if (value->constant || l->builder->places[value->id] == CARNOT_MEMORY_HOST) continue;
    CARNOT_TRY(
        carnot_lowering_value(l, value, CARNOT_LAYOUT_ROW_MAJOR, CARNOT_MEMORY_HOST, &plan_value));
  }
  return NULL;
}

// Bodies become blocks; the attributes that hold them name the block.
static carnot_status* lower_bodies(carnot_lowering* l, carnot_region* region) {
  carnot_arena* arena = &l->builder->plan->arena;
  for (uint32_t n = 0; n < region->node_count; n++) {
    carnot_attrs* attrs = &region->nodes[n].attrs;
    bool copied = false;
    for (size_t a = 0; a < attrs->count; a++) {
      if (attrs->items[a].type != CARNOT_ATTR_BLOCK) continue;
      if (!copied)
        attrs->items = carnot_arena_copy(arena, attrs->items, attrs->count * sizeof(*attrs->items));
      copied = true;
      uint32_t index;
      uint32_t saved = l->block;
      CARNOT_TRY(bring_captured(l, attrs->items[a].block));
      CARNOT_TRY(lower_block(l, attrs->items[a].block, &index));
      l->block = saved;
      attrs->items[a].block_index = index;
    }
  }
  return NULL;
}

// The blob of a packed constant; one that an earlier variant of the step packed alike is shared.
static uint32_t packed_blob(carnot_lowering* l, const carnot_plan_step* step, const char* packing,
                            void* data, size_t bytes) {
  for (uint32_t k = 0; k < step->variant_count; k++)
    for (uint32_t c = 0; c < step->variants[k].constant_count; c++) {
      const carnot_plan_blob* other = &l->blobs[step->variants[k].constants[c]];
      if (strcmp(other->packing, packing) == 0 && other->tensor.dims[0] == (int64_t)bytes &&
          memcmp(other->tensor.data, data, bytes) == 0)
        return step->variants[k].constants[c];
    }
  carnot_plan_blob blob = {.name = "", .packing = packing, .recipe = CARNOT_PLAN_NONE};
  blob.tensor =
      (carnot_tensor){.dtype = CARNOT_DTYPE_U8, .rank = 1, .dims = {(int64_t)bytes}, .data = data};
  return carnot_lowering_add_blob(l, &blob);
}

static void add_variant(carnot_lowering* l, const carnot_tactic* row,
                        const carnot_prepared* prepared, const carnot_guard* guard,
                        carnot_plan_step* step) {
  carnot_variant variant = {.tactic = row->name,
                            .params = prepared->params,
                            .param_bytes = prepared->param_bytes,
                            .constant_count = prepared->constant_count};
  if (guard) variant.guards[variant.guard_count++] = *guard;
  uint32_t* constants =
      CARNOT_NEW_ARRAY(&l->builder->plan->arena, uint32_t, prepared->constant_count + 1);
  for (uint32_t i = 0; i < prepared->constant_count; i++)
    constants[i] = packed_blob(l, step, prepared->constants[i].packing, prepared->constants[i].data,
                               prepared->constants[i].bytes);
  variant.constants = constants;
  step->variants[step->variant_count++] = variant;
}

static void take_variants(carnot_lowering* l, const carnot_choice* choice, carnot_plan_step* step) {
  for (uint32_t i = 0; i < choice->guarded_count && !step->is_shape; i++)
    add_variant(l, choice->guarded[i].row, &choice->guarded[i].prepared, &choice->guarded[i].guard,
                step);
  add_variant(l, choice->row, &choice->prepared, NULL, step);
}

// An input whose packed form the tactics hold is not needed as a tensor at run time.
static bool is_packed_away(const carnot_choice* choice, uint32_t input) {
  uint64_t packed = choice->prepared.packed_inputs;
  for (uint32_t i = 0; i < choice->guarded_count; i++)
    packed &= choice->guarded[i].prepared.packed_inputs;
  return choice->problem.inputs[input].is_constant && packed >> input & 1;
}

static double operand_bytes(const carnot_operand_desc* t) {
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0) return 0;
  double bytes = carnot_dtype_bits(t->format.dtype) / 8.0;
  for (int d = 0; d < t->rank; d++) bytes *= (double)carnot_max_i64(0, t->dims[d]);
  return bytes;
}

static void measure_work(const carnot_choice* choice, carnot_step_note* note) {
  if (choice->row->work) {
    choice->row->work(&choice->problem, &note->flops, &note->bytes);
    return;
  }
  for (uint32_t i = 0; i < choice->problem.input_count; i++)
    note->bytes += operand_bytes(&choice->problem.inputs[i]);
  for (uint32_t i = 0; i < choice->problem.output_count; i++)
    note->bytes += operand_bytes(&choice->problem.outputs[i]);
}

// What prepare was asked with, for refit.
static void keep_types(carnot_arena* arena, const carnot_choice* choice, carnot_plan_step* step) {
  const carnot_problem* p = &choice->problem;
  uint32_t inner = choice->region.value_count - p->input_count;
  step->type_count = p->input_count + p->output_count + inner;
  step->types = CARNOT_NEW_ARRAY(arena, carnot_operand_desc, step->type_count + 1);
  if (p->input_count) memcpy(step->types, p->inputs, p->input_count * sizeof(*step->types));
  if (p->output_count)
    memcpy(step->types + p->input_count, p->outputs, p->output_count * sizeof(*step->types));
  if (inner)
    memcpy(step->types + p->input_count + p->output_count, p->inner, inner * sizeof(*step->types));
}

// What the layer computes in: the tactic's half type, unless it holds the weights as they are, the
// type whose rounding was asked for, or that of its result.
static carnot_dtype precision_of(const carnot_choice* choice) {
  const carnot_problem* p = &choice->problem;
  bool exact = p->exact_f16 && choice->row->precision == CARNOT_DTYPE_F16;
  if (choice->row->precision && !exact) return choice->row->precision;
  carnot_dtype dtype = p->output_count ? p->outputs[0].format.dtype : CARNOT_DTYPE_INVALID;
  return carnot_dtype_is_half(p->requested_precision) && carnot_dtype_is_float(dtype)
             ? p->requested_precision
             : dtype;
}

// The operator that a region is about.
static carnot_op main_op(const carnot_choice* choice) {
  const carnot_region* region = &choice->region;
  return region->nodes[region->node_count > 1 && region->nodes[0].op == CARNOT_OP_CAST].op;
}

static void tell(const carnot_lowering* l, const carnot_plan_step* step,
                 const carnot_step_note* note) {
  const carnot_build_config* config = l->builder->config;
  if (!config->log || l->builder->phase == CARNOT_LOWER_TRIAL) return;
  char text[512];
  snprintf(text, sizeof(text), "Layer(%s): %s, Precision: %s, Tactic: %s, %.2f us",
           note->layer_type, step->name, carnot_dtype_name(note->precision),
           step->variants[0].tactic, note->time_us);
  config->log(config->user, 3, text);
}

static bool holds_text(const carnot_choice* choice) {
  const carnot_problem* p = &choice->problem;
  for (uint32_t i = 0; i < p->input_count + p->output_count; i++) {
    const carnot_operand_desc* t =
        i < p->input_count ? &p->inputs[i] : &p->outputs[i - p->input_count];
    if (t->format.dtype == CARNOT_DTYPE_STRING) return true;
  }
  return false;
}

// What an accelerator could compute, as nothing of it waits for values, and has no row for.
static void tell_missing(const carnot_lowering* l, const carnot_choice* choice) {
  const carnot_build_config* config = l->builder->config;
  const carnot_tactic* row = choice->row;
  bool has_row = row->device || row->cross_memory || strcmp(row->name, CARNOT_VIEW_TACTIC) == 0;
  if (!config->log || !config->device || !choice->on_device || has_row || holds_text(choice))
    return;
  char text[512];
  snprintf(text, sizeof(text), "%s runs on the processor: %s has no row for it (%s)",
           carnot_op_get(main_op(choice))->name, config->device->name, choice->node->name);
  config->log(config->user, 3, text);
}

static carnot_status* lower_node(carnot_lowering* l, carnot_node* node) {
  carnot_builder* builder = l->builder;
  carnot_arena* arena = &builder->plan->arena;
  carnot_choice choice;
  CARNOT_TRY(carnot_make_problem(builder, node, false, &choice));
  bool is_shape = carnot_lowering_is_shape_step(l, &choice),
       late = carnot_lowering_is_late(l, &choice),
       stays = late && carnot_lowering_stays_on_device(l, &choice);
  if (stays) CARNOT_TRY(carnot_make_problem(builder, node, true, &choice));
  choice.on_device = late ? stays : !carnot_lowering_is_list(l, &choice);
  if (late) choice.problem.allow_timing = false;
  if (!choice.on_device) choice.problem.device = NULL;
  CARNOT_TRY(carnot_configure_plugin(builder, &choice));
  if (is_shape || (stays && carnot_lowering_wants_dims(&choice)))
    carnot_lowering_choose_shape_step(&choice);
  else
    CARNOT_TRY(carnot_select_tactic(builder, &choice));
  if (!is_shape && !late) tell_missing(l, &choice);
  carnot_problem* problem = &choice.problem;
  CARNOT_TRY(lower_bodies(l, &choice.region));
  carnot_plan_step step = {.name = node->name, .region = choice.region};
  step.input_count = problem->input_count;
  step.output_count = problem->output_count;
  uint32_t* inputs = CARNOT_NEW_ARRAY(arena, uint32_t, step.input_count + 1);
  uint32_t* outputs = CARNOT_NEW_ARRAY(arena, uint32_t, step.output_count + 1);
  bool waits = late;
  for (uint32_t i = 0; i < step.input_count; i++) {
    inputs[i] = CARNOT_PLAN_NONE;
    if (choice.inputs[i])
      CARNOT_TRY(carnot_lowering_value(l, choice.inputs[i], problem->inputs[i].format.layout,
                                       problem->inputs[i].format.memory, &inputs[i]));
    if (choice.inputs[i] && is_packed_away(&choice, i)) l->values[inputs[i]].packed_uses++;
    if (choice.inputs[i]) l->values[inputs[i]].uses++;
    waits |= choice.inputs[i] && l->values[inputs[i]].waits;
  }
  for (uint32_t i = 0; i < step.output_count; i++) {
    carnot_value* value = choice.outputs[i];
    carnot_layout layout = problem->outputs[i].format.layout;
    carnot_memory_space place = problem->outputs[i].format.memory;
    builder->layouts[value->id] = layout;
    builder->places[value->id] = place;
    builder->late[value->id] = late && !carnot_lowering_is_sized(l, &choice, value);
    outputs[i] = carnot_lowering_add_value(l, value, value->name, layout, place);
    CARNOT_TRY(l->status);
    l->values[outputs[i]].waits = waits;
    *carnot_lowering_slot(l, value, place, layout) = outputs[i] + 1;
  }
  step.inputs = inputs;
  step.outputs = outputs;
  step.is_shape = is_shape;
  if (builder->config->refit) keep_types(arena, &choice, &step);
  take_variants(l, &choice, &step);
  CARNOT_TRY(l->status);
  carnot_step_note note = {.layer_type = carnot_op_get(main_op(&choice))->layer_type,
                           .rejected = choice.rejected,
                           .time_us = choice.time_us};
  note.precision = precision_of(&choice);
  measure_work(&choice, &note);
  tell(l, &step, &note);
  CARNOT_TRY(carnot_lowering_add_step(l, &step, &note));
  carnot_contest* contest = carnot_contest_find(builder, node);
  if (contest) contest->step = (uint32_t)l->blocks[l->block].steps.count - 1;
  return NULL;
}

// ---- blocks ----

// Numbers enter and leave on the accelerator, where there is one; what only the processor can hold
// what decides shapes and what bodies are given stays there.
static carnot_memory_space param_place(const carnot_lowering* l, const carnot_value* value) {
  const carnot_type* type = &value->type;
  bool on_device = l->builder->config->device && l->block == 0 &&
                   type->kind == CARNOT_VALUE_TENSOR && type->dtype != CARNOT_DTYPE_STRING &&
                   carnot_type_is_static(l->builder, type) && !l->is_shape_value[value->id];
  return on_device ? CARNOT_MEMORY_DEVICE : CARNOT_MEMORY_HOST;
}

static carnot_memory_space result_place(const carnot_lowering* l, const carnot_value* value) {
  return value->constant || l->block ? CARNOT_MEMORY_HOST : l->builder->places[value->id];
}

static carnot_status* lower_block(carnot_lowering* l, carnot_block* block, uint32_t* out_index) {
  carnot_arena* arena = &l->builder->plan->arena;
  uint32_t index = l->block_count++;
  *out_index = index;
  l->block = index;
  CARNOT_CHECK(index < l->block_capacity, INTERNAL, "more bodies than were counted");
  carnot_plan_block* out = &l->blocks[index].plan;
  out->param_count = (uint32_t)block->param_count;
  uint32_t* params = CARNOT_NEW_ARRAY(arena, uint32_t, block->param_count + 1);
  for (size_t i = 0; i < block->param_count; i++) {
    if (index == 0) l->is_shape_value[block->params[i]->id] = l->builder->shape_inputs[i];
    carnot_value* value = block->params[i];
    carnot_memory_space place = param_place(l, value);
    params[i] = carnot_lowering_add_value(l, value, value->name, CARNOT_LAYOUT_ROW_MAJOR, place);
    CARNOT_TRY(l->status);
    l->builder->places[value->id] = place;
    l->builder->late[value->id] = !carnot_type_is_static(l->builder, &value->type);
    *carnot_lowering_slot(l, value, place, CARNOT_LAYOUT_ROW_MAJOR) = params[i] + 1;
  }
  out->params = params;
  int total = 0, done = 0;
  bool tells = index == 0 && l->builder->phase == CARNOT_LOWER_FIRST;
  for (carnot_node* node = block->first; node; node = node->next) total++;
  for (carnot_node* node = block->first; node; node = node->next) {
    if (tells) CARNOT_TRY(carnot_builder_progress(l->builder, "tactics", done++, total));
    CARNOT_TRY_AT(lower_node(l, node), "node %s", node->name);
    l->block = index;
  }
  if (tells) CARNOT_TRY(carnot_builder_progress(l->builder, "tactics", total, total));
  uint32_t* outputs = CARNOT_NEW_ARRAY(arena, uint32_t, block->output_count + 1);
  for (size_t i = 0; i < block->output_count; i++)
    CARNOT_TRY(carnot_lowering_value(l, block->outputs[i], CARNOT_LAYOUT_ROW_MAJOR,
                                     result_place(l, block->outputs[i]), &outputs[i]));
  out->output_count = (uint32_t)block->output_count;
  out->outputs = outputs;
  return NULL;
}

static uint32_t count_blocks(const carnot_block* block) {
  uint32_t count = 1;
  for (const carnot_node* node = block->first; node; node = node->next)
    for (size_t i = 0; i < node->attrs.count; i++)
      if (node->attrs.items[i].type == CARNOT_ATTR_BLOCK)
        count += count_blocks(node->attrs.items[i].block);
  return count;
}

// The steps of all blocks in one array, block after block.
static void join_steps(carnot_lowering* l) {
  carnot_plan* plan = l->builder->plan;
  size_t total = 0;
  for (uint32_t b = 0; b < l->block_count; b++) total += l->blocks[b].steps.count;
  plan->steps = CARNOT_NEW_ARRAY(&plan->arena, carnot_plan_step, total + 1);
  l->notes = CARNOT_NEW_ARRAY(&plan->arena, carnot_step_note, total + 1);
  plan->blocks = CARNOT_NEW_ARRAY(&plan->arena, carnot_plan_block, l->block_count);
  plan->block_count = l->block_count;
  for (uint32_t b = 0; b < l->block_count; b++) {
    carnot_step_list* list = &l->blocks[b].steps;
    plan->blocks[b] = l->blocks[b].plan;
    plan->blocks[b].first_step = plan->step_count;
    plan->blocks[b].step_count = (uint32_t)list->count;
    if (list->count)
      memcpy(&plan->steps[plan->step_count], list->items, list->count * sizeof(*list->items));
    if (list->count)
      memcpy(&l->notes[plan->step_count], list->notes, list->count * sizeof(*list->notes));
    plan->step_count += (uint32_t)list->count;
  }
}

static void free_lowering(carnot_lowering* l) {
  for (uint32_t b = 0; l->blocks && b < l->block_capacity; b++) {
    free(l->blocks[b].steps.items);
    free(l->blocks[b].steps.notes);
  }
  free(l->blocks);
  free(l->values);
  free(l->blobs);
  free(l->recipes);
  free(l->of_value);
  free(l->is_shape_value);
}

static carnot_status* lower(carnot_lowering* l) {
  carnot_builder* builder = l->builder;
  void *blocks, *of_value, *is_shape;
  uint32_t block_count = count_blocks(builder->graph->main),
           value_count = builder->graph->value_count + 1;
  CARNOT_TRY(carnot_calloc(block_count, sizeof(*l->blocks), "blocks", &blocks));
  l->blocks = blocks;
  l->block_capacity = block_count;
  CARNOT_TRY(carnot_calloc((size_t)value_count * CARNOT_MEMORY_SPACE_COUNT * CARNOT_LAYOUT_COUNT,
                           sizeof(uint32_t), "values", &of_value));
  l->of_value = of_value;
  CARNOT_TRY(carnot_calloc(value_count, sizeof(bool), "values", &is_shape));
  l->is_shape_value = is_shape;
  uint32_t main;
  CARNOT_TRY(lower_block(l, builder->graph->main, &main));
  join_steps(l);
  CARNOT_TRY(carnot_lowering_drop_packed(l));
  CARNOT_TRY(carnot_lowering_bind(l));
  CARNOT_TRY(carnot_lowering_place(l));
  return carnot_lowering_inspect(l);
}

carnot_status* carnot_lower(carnot_builder* builder) {
  carnot_lowering l = {.builder = builder};
  carnot_arena* arena = &builder->plan->arena;
  size_t count = builder->graph->value_count + 1;
  builder->layouts = CARNOT_NEW_ARRAY(arena, carnot_layout, count);
  builder->places = CARNOT_NEW_ARRAY(arena, carnot_memory_space, count);
  builder->late = CARNOT_NEW_ARRAY(arena, bool, count);
  if (builder->phase != CARNOT_LOWER_TRIAL) {
    memset(builder->libraries, 0, sizeof(builder->libraries));
    builder->loaded_count = 0;
  }
  carnot_status* status = carnot_carry_libraries(builder);
  if (!status) status = carnot_preplan(builder);
  if (!status) status = lower(&l);
  if (!status) {
    status = l.status;
  } else {
    carnot_status_free(l.status == status ? NULL : l.status);
  }
  free_lowering(&l);
  return status;
}

carnot_status* carnot_lower_apart(carnot_builder* builder, carnot_lowering_phase phase,
                                  carnot_plan** out_plan) {
  carnot_plan *standing = builder->plan, *plan;
  *out_plan = NULL;
  CARNOT_TRY(carnot_plan_create(&plan));
  builder->plan = plan;
  builder->phase = phase;
  carnot_status* status = carnot_lower(builder);
  builder->plan = standing;
  if (status)
    carnot_plan_destroy(plan);
  else
    *out_plan = plan;
  return status;
}

carnot_status* carnot_lower_again(carnot_builder* builder) {
  carnot_plan* plan;
  carnot_plan_destroy(builder->plan);
  builder->plan = NULL;
  carnot_status* status = carnot_lower_apart(builder, CARNOT_LOWER_LAST, &plan);
  builder->plan = plan;
  return status;
}
