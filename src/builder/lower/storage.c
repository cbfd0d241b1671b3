// Storage: bindings, aliases, the arena.
#include <stdlib.h>

#include "backend/device.h"
#include "builder/lower/lower.h"
#include "plan/memory_planner.h"

carnot_status* carnot_lowering_drop_packed(carnot_lowering* l) {
  // The shape of a packed constant is still needed by infer, so the value stays; its bytes go. A
  // blob without bytes keeps type and dimensions.
  if (l->builder->config->refit) return NULL;
  for (uint32_t i = 0; i < l->value_count; i++) {
    carnot_value_builder* v = &l->values[i];
    if (v->plan.storage == CARNOT_STORAGE_CONSTANT && v->uses && v->uses == v->packed_uses)
      l->blobs[v->plan.index].dropped = true;
  }
  // A blob may be in both memory spaces: one of its values may be read as it is.
  for (uint32_t i = 0; i < l->value_count; i++) {
    carnot_value_builder* v = &l->values[i];
    if (v->plan.storage == CARNOT_STORAGE_CONSTANT && v->uses != v->packed_uses)
      l->blobs[v->plan.index].dropped = false;
  }
  for (uint32_t i = 0; i < l->blob_count; i++)
    CARNOT_CHECK(
        l->blobs[i].tensor.data || l->blobs[i].dropped || !carnot_tensor_count(&l->blobs[i].tensor),
        INTERNAL, "weight %s was released and is still read", l->blobs[i].name);
  return NULL;
}

// ---- the user's tensors ----

static const carnot_profile_input* profile_of(const carnot_builder* builder, uint32_t profile,
                                              const carnot_value* value) {
  const carnot_build_config* config = builder->config;
  return profile < config->profile_count
             ? carnot_profile_find(&config->profiles[profile], value->name)
             : NULL;
}

// The bounds that each profile gives the elements of a shape input.
static carnot_status* bound_elements(carnot_lowering* l, const carnot_value* value,
                                     carnot_plan_binding* out) {
  const carnot_builder* builder = l->builder;
  uint32_t profile_count = l->plan->profile_count;
  const carnot_profile_input* first = profile_of(builder, 0, value);
  out->is_shape = true;
  out->value_count = first ? first->value_count : 0;
  carnot_dim_range* ranges = CARNOT_NEW_ARRAY(&l->plan->arena, carnot_dim_range,
                                              (size_t)profile_count * out->value_count + 1);
  CARNOT_TRY(carnot_arena_status(&l->plan->arena));
  for (uint32_t p = 0; p < profile_count; p++) {
    const carnot_profile_input* given = profile_of(builder, p, value);
    for (uint32_t i = 0; i < out->value_count; i++)
      ranges[p * out->value_count + i] =
          given && given->value_count
              ? (carnot_dim_range){given->values[0][i], given->values[1][i], given->values[2][i]}
              : (carnot_dim_range){INT64_MIN, 1, INT64_MAX};
  }
  out->value_ranges = ranges;
  return NULL;
}

static carnot_status* add_binding(carnot_lowering* l, const carnot_value* value,
                                  const carnot_io_tensor* io, uint32_t plan_value, bool is_input,
                                  carnot_plan_binding* out) {
  carnot_builder* builder = l->builder;
  carnot_plan* plan = l->plan;
  // In memory the tensor may have other dimensions than the user sees.
  const carnot_type* type = io->format == CARNOT_TENSOR_LINEAR ? &value->type : &io->type;
  *out = (carnot_plan_binding){
      .name = value->name, .is_input = is_input, .format = io->format, .value = plan_value};
  out->rank = type->kind == CARNOT_VALUE_TENSOR ? type->rank : -1;
  out->dtype = value->type.kind == CARNOT_VALUE_TENSOR ? value->type.dtype : CARNOT_DTYPE_INVALID;
  carnot_dim_range* ranges = CARNOT_NEW_ARRAY(&plan->arena, carnot_dim_range,
                                              (size_t)plan->profile_count * CARNOT_MAX_RANK);
  CARNOT_TRY(carnot_arena_status(&plan->arena));
  for (int d = 0; d < out->rank; d++) {
    carnot_sym dim = type->dims[d];
    out->dims[d] = carnot_sym_is_const(dim) ? dim.bits : -1;
    out->dim_names[d] = "";
    if (!carnot_sym_is_const(dim) && carnot_sym_get(&builder->graph->syms, dim)->name)
      out->dim_names[d] = carnot_sym_get(&builder->graph->syms, dim)->name;
  }
  for (uint32_t p = 0; is_input && p < plan->profile_count; p++) {
    const carnot_profile_input* profile = profile_of(builder, p, value);
    for (int d = 0; d < out->rank; d++) {
      carnot_dim_range* range = &ranges[p * (uint32_t)out->rank + (uint32_t)d];
      if (profile && !profile->no_shape) {
        *range = (carnot_dim_range){profile->min.d[d], profile->opt.d[d], profile->max.d[d]};
      } else {
        carnot_sym_range(&builder->graph->syms, type->dims[d], &range->min, &range->max);
        range->opt = carnot_max_i64(range->min, carnot_min_i64(range->max, 1));
      }
    }
  }
  out->ranges = ranges;
  return NULL;
}

carnot_status* carnot_lowering_bind(carnot_lowering* l) {
  carnot_builder* builder = l->builder;
  carnot_plan* plan = l->plan;
  carnot_block* main = builder->graph->main;
  plan->profile_count =
      builder->config->profile_count ? (uint32_t)builder->config->profile_count : 1;
  plan->bindings = CARNOT_NEW_ARRAY(&plan->arena, carnot_plan_binding,
                                    main->param_count + main->output_count + 1);
  CARNOT_TRY(carnot_arena_status(&plan->arena));
  for (size_t i = 0; i < main->param_count; i++) {
    uint32_t value = plan->blocks[0].params[i];
    l->values[value].plan.storage = CARNOT_STORAGE_BINDING;
    l->values[value].plan.index = plan->binding_count;
    CARNOT_TRY(add_binding(l, main->params[i], &builder->input_io[i], value, true,
                           &plan->bindings[plan->binding_count++]));
    if (builder->shape_inputs[i])
      CARNOT_TRY(bound_elements(l, main->params[i], &plan->bindings[plan->binding_count - 1]));
  }
  for (size_t i = 0; i < main->output_count; i++) {
    carnot_plan_binding* b = &plan->bindings[plan->binding_count++];
    CARNOT_TRY(add_binding(l, main->outputs[i], &builder->output_io[i], plan->blocks[0].outputs[i],
                           false, b));
    if (builder->output_names) b->name = builder->output_names[i];
  }
  return NULL;
}

// ---- storage ----

static bool is_view(const carnot_plan_step* step) {
  return strcmp(step->variants[0].tactic, CARNOT_VIEW_TACTIC) == 0;
}

static void place_step_output(carnot_lowering* l, const carnot_plan_step* step, uint32_t value) {
  carnot_plan_value* v = &l->values[value].plan;
  if (is_view(step)) {
    v->storage = CARNOT_STORAGE_ALIAS;
    v->index = step->inputs[0];
    return;
  }
  const carnot_type* type = &l->values[value].from->type;
  if (step->is_shape || !carnot_type_is_static(l->builder, type) ||
      type->dtype == CARNOT_DTYPE_STRING)
    return;
  carnot_type stored = *type;
  stored.dtype = v->format.dtype;
  v->max_bytes = carnot_type_max_bytes(l->builder, &stored);
  v->storage = v->max_bytes == UINT64_MAX ? CARNOT_STORAGE_DYNAMIC_ARENA : CARNOT_STORAGE_ARENA;
  if (v->storage == CARNOT_STORAGE_DYNAMIC_ARENA) v->max_bytes = 0;
}

static void live_at(carnot_lowering* l, uint32_t value, uint32_t step) {
  carnot_value_builder* v = &l->values[carnot_lowering_root(l, value)];
  if (step < v->first) v->first = step;
  if (step > v->last) v->last = step;
}

// Results that a step writes whole go to the user's memory directly.
static void write_outputs_in_place(carnot_lowering* l) {
  carnot_plan* plan = l->plan;
  for (uint32_t b = 0; b < plan->binding_count; b++) {
    if (plan->bindings[b].is_input) continue;
    uint32_t root = carnot_lowering_root(l, plan->bindings[b].value);
    carnot_plan_value* v = &l->values[root].plan;
    bool planned = v->storage == CARNOT_STORAGE_ARENA || v->storage == CARNOT_STORAGE_DYNAMIC_ARENA;
    carnot_memory_space users =
        l->builder->config->device ? CARNOT_MEMORY_DEVICE : CARNOT_MEMORY_HOST;
    if (root != plan->bindings[b].value || !planned || v->format.memory != users ||
        v->format.layout != CARNOT_LAYOUT_ROW_MAJOR)
      continue;
    v->storage = CARNOT_STORAGE_BINDING;
    v->index = b;
  }
}

static void find_lives(carnot_lowering* l) {
  carnot_plan* plan = l->plan;
  const carnot_plan_block* main = &plan->blocks[0];
  for (uint32_t s = main->first_step; s < main->first_step + main->step_count; s++) {
    const carnot_plan_step* step = &plan->steps[s];
    for (uint32_t i = 0; i < step->input_count; i++)
      if (step->inputs[i] != CARNOT_PLAN_NONE) live_at(l, step->inputs[i], s);
    for (uint32_t i = 0; i < step->output_count; i++)
      if (step->outputs[i] != CARNOT_PLAN_NONE) live_at(l, step->outputs[i], s);
  }
  for (uint32_t i = 0; i < main->output_count; i++) live_at(l, main->outputs[i], main->step_count);
}

static carnot_status* plan_arena(carnot_lowering* l, carnot_memory_space place, uint64_t* out_bytes,
                                 uint64_t* out_bound) {
  carnot_plan* plan = l->plan;
  carnot_interval* items = CARNOT_NEW_ARRAY(&plan->arena, carnot_interval, l->value_count + 1);
  CARNOT_TRY(carnot_arena_status(&plan->arena));
  uint32_t count = 0;
  for (uint32_t i = 0; i < l->value_count; i++) {
    carnot_value_builder* v = &l->values[i];
    if (v->plan.format.memory != place) continue;
    v->plan.first_step = v->first == UINT32_MAX ? 0 : v->first;
    v->plan.last_step = v->last;
    plan->dynamic_count += v->plan.storage == CARNOT_STORAGE_DYNAMIC_ARENA;
    if (v->plan.storage != CARNOT_STORAGE_ARENA) continue;
    items[count++] = (carnot_interval){
        .id = i, .first = v->plan.first_step, .last = v->last, .bytes = v->plan.max_bytes};
  }
  CARNOT_TRY(carnot_memory_plan(items, count, out_bytes));
  uint64_t bound;
  CARNOT_TRY(carnot_memory_bound(items, count, plan->step_count, &bound));
  *out_bound += bound;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t* offsets = CARNOT_NEW_ARRAY(&plan->arena, uint64_t, plan->profile_count);
    CARNOT_TRY(carnot_arena_status(&plan->arena));
    for (uint32_t p = 0; p < plan->profile_count; p++) offsets[p] = items[i].offset;
    l->values[items[i].id].plan.offsets = offsets;
  }
  return NULL;
}

// Blobs without bytes leave holes: only the shape is kept.
static carnot_status* take_blobs(carnot_lowering* l) {
  carnot_plan* plan = l->plan;
  plan->blobs = CARNOT_NEW_ARRAY(&plan->arena, carnot_plan_blob, l->blob_count + 1);
  CARNOT_TRY(carnot_arena_status(&plan->arena));
  plan->blob_count = l->blob_count;
  if (l->blob_count) memcpy(plan->blobs, l->blobs, l->blob_count * sizeof(*l->blobs));
  free(l->blobs);
  l->blobs = NULL;
  plan->refit_exprs = carnot_arena_copy(&plan->arena, l->refit_exprs,
                                        l->refit_expr_count * sizeof(*l->refit_exprs));
  plan->refit_expr_count = l->refit_expr_count;
  plan->refittable = l->builder->config->refit;
  return carnot_arena_status(&plan->arena);
}

carnot_status* carnot_lowering_assign_storage(carnot_lowering* l) {
  carnot_plan* plan = l->plan;
  for (uint32_t s = 0; s < plan->step_count; s++) {
    const carnot_plan_step* step = &plan->steps[s];
    bool in_main = s < plan->blocks[0].step_count;
    for (uint32_t i = 0; i < step->output_count; i++)
      if (step->outputs[i] != CARNOT_PLAN_NONE && (in_main || is_view(step)))
        place_step_output(l, step, step->outputs[i]);
  }
  write_outputs_in_place(l);
  CARNOT_TRY(carnot_lowering_join_parts(l));
  find_lives(l);
  carnot_lowering_share_memory(l);
  CARNOT_TRY(plan_arena(l, CARNOT_MEMORY_HOST, &plan->arena_bytes, &plan->arena_bound));
  CARNOT_TRY(plan_arena(l, CARNOT_MEMORY_DEVICE, &plan->device_arena_bytes, &plan->arena_bound));
  plan->values = CARNOT_NEW_ARRAY(&plan->arena, carnot_plan_value, l->value_count + 1);
  CARNOT_TRY(carnot_arena_status(&plan->arena));
  plan->value_count = l->value_count;
  for (uint32_t i = 0; i < l->value_count; i++) plan->values[i] = l->values[i].plan;
  CARNOT_TRY(take_blobs(l));
  plan->name = l->builder->graph->name;
  const carnot_device* device = l->builder->config->device;
  plan->device =
      device ? carnot_arena_print(&plan->arena, "%s:%s", device->backend->name, device->arch)
             : "cpu";
  plan->isa = l->builder->isa;
  return NULL;
}
