// Plan values: each value of the graph in the layouts and memories that its readers want.
#include "backend/device.h"
#include "builder/lower/lower.h"

// Keeps the first failure.
static uint32_t refused(carnot_lowering* l, carnot_status* status) {
  if (!l->status)
    l->status = status;
  else
    carnot_status_free(status);
  return 0;
}

uint32_t carnot_lowering_add_value(carnot_lowering* l, const carnot_value* from, const char* name,
                                   carnot_layout layout, carnot_memory_space place) {
  if (l->value_count == l->value_capacity) {
    size_t capacity = l->value_capacity;
    void* values = l->values;
    carnot_status* status =
        carnot_grow(&values, &capacity, l->value_count + 1, sizeof(*l->values), "plan values");
    l->values = values;
    l->value_capacity = (uint32_t)capacity;
    if (status) {
      return refused(l, status);
    }
  }
  carnot_value_builder* v = &l->values[l->value_count];
  *v = (carnot_value_builder){.from = from, .first = UINT32_MAX, .last = 0};
  v->plan.name = name;
  v->plan.kind = from->type.kind;
  v->plan.format.dtype =
      from->type.kind == CARNOT_VALUE_TENSOR ? from->type.dtype : CARNOT_DTYPE_INVALID;
  v->plan.format.layout = layout;
  v->plan.format.memory = place;
  v->plan.storage = CARNOT_STORAGE_HEAP;
  return l->value_count++;
}

uint32_t carnot_lowering_add_blob(carnot_lowering* l, const carnot_plan_blob* blob) {
  size_t capacity = l->blob_capacity;
  void* blobs = l->blobs;
  carnot_status* status =
      carnot_grow(&blobs, &capacity, l->blob_count + 1, sizeof(*l->blobs), "weights");
  l->blobs = blobs;
  l->blob_capacity = (uint32_t)capacity;
  if (status) {
    return refused(l, status);
  }
  l->blobs[l->blob_count] = *blob;
  return l->blob_count++;
}

static carnot_status* add_constant(carnot_lowering* l, const carnot_value* value,
                                   carnot_memory_space place, uint32_t blob) {
  uint32_t index = carnot_lowering_add_value(l, value, value->name, CARNOT_LAYOUT_ROW_MAJOR, place);
  CARNOT_TRY(l->status);
  l->values[index].plan.storage = CARNOT_STORAGE_CONSTANT;
  l->values[index].plan.index = blob;
  *carnot_lowering_slot(l, value, place, CARNOT_LAYOUT_ROW_MAJOR) = index + 1;
  return NULL;
}

carnot_status* carnot_lowering_constant(carnot_lowering* l, const carnot_value* value,
                                        uint32_t* out_blob) {
  uint32_t* slot = carnot_lowering_slot(l, value, CARNOT_MEMORY_HOST, CARNOT_LAYOUT_ROW_MAJOR);
  if (*slot) {
    *out_blob = l->values[*slot - 1].plan.index;
    return NULL;
  }
  carnot_plan_blob blob = {.name = value->constant->name ? value->constant->name : "",
                           .packing = "",
                           .tensor = value->constant->tensor,
                           .recipe = CARNOT_PLAN_NONE};
  if (l->builder->config->refit) CARNOT_TRY(carnot_lowering_refit_expr(l, value, &blob.recipe));
  *out_blob = carnot_lowering_add_blob(l, &blob);
  return add_constant(l, value, CARNOT_MEMORY_HOST, *out_blob);
}

// One channel, or one element a channel: the elements stand alike in both layouts.
static bool stands_in_both(const carnot_type* type) {
  bool one[CARNOT_MAX_RANK], spatial = true;
  if (type->kind != CARNOT_VALUE_TENSOR || type->rank < 3) return false;
  for (int d = 0; d < type->rank; d++)
    one[d] = carnot_sym_is_const(type->dims[d]) && type->dims[d].bits == 1;
  for (int d = 2; d < type->rank; d++) spatial = spatial && one[d];
  return spatial || one[1];
}

// The last step makes |source|, which nothing has read, and can write it in another layout: it
// does where there are so few channels that gathering them costs little.
static bool writes_it_so(carnot_lowering* l, uint32_t source, carnot_layout layout) {
  enum { kFewChannels = 8 };
  carnot_value_builder* v = &l->values[source];
  const carnot_type* type = &v->from->type;
  const carnot_step_list* list = &l->blocks[l->block].steps;
  if (v->uses || type->rank < 3 || !carnot_sym_is_const(type->dims[1]) ||
      type->dims[1].bits > kFewChannels)
    return false;
  const carnot_plan_step* step = list->count ? &list->items[list->count - 1] : NULL;
  if (!step || step->output_count != 1 || step->outputs[0] != source || step->variant_count != 1)
    return false;
  const carnot_tactic* row = carnot_tactic_find(step->variants[0].tactic);
  if (!row || !row->output_layout_agnostic) return false;
  v->plan.format.layout = layout;
  return true;
}

carnot_status* carnot_lowering_add_reformat(carnot_lowering* l, uint32_t source,
                                            const carnot_value* value, carnot_layout layout,
                                            carnot_memory_space place, uint32_t* out) {
  carnot_arena* arena = &l->builder->plan->arena;
  bool moves = l->values[source].plan.format.memory != place;
  const char* form = moves ? place == CARNOT_MEMORY_DEVICE ? "on the device" : "on the host"
                           : carnot_layout_name(layout);
  const char* name = carnot_arena_print(arena, moves ? "%s %s" : "%s as %s", value->name, form);
  *out = carnot_lowering_add_value(l, value, name, layout, place);
  CARNOT_TRY(l->status);
  l->values[*out].waits = l->values[source].waits;
  uint32_t* locals = CARNOT_NEW_ARRAY(arena, uint32_t, 2);
  locals[1] = 1;
  carnot_plan_node* node = CARNOT_NEW(arena, carnot_plan_node);
  *node = (carnot_plan_node){
      .op = CARNOT_OP_IDENTITY, .name = name, .input_count = 1, .output_count = 1};
  node->inputs = locals;
  node->outputs = locals + 1;
  carnot_plan_step step = {.name = name, .input_count = 1, .output_count = 1, .variant_count = 1};
  step.region = (carnot_region){
      .node_count = 1, .value_count = 2, .nodes = node, .output_count = 1, .outputs = locals + 1};
  step.inputs = carnot_arena_copy(arena, &source, sizeof(source));
  step.outputs = carnot_arena_copy(arena, out, sizeof(*out));
  step.variants[0].tactic =
      moves ? place == CARNOT_MEMORY_DEVICE ? CARNOT_UPLOAD_TACTIC : CARNOT_DOWNLOAD_TACTIC
      : stands_in_both(&value->type)  ? CARNOT_VIEW_TACTIC
      : place == CARNOT_MEMORY_DEVICE ? CARNOT_DEVICE_REFORMAT_TACTIC
                                      : "cpu_reformat";
  carnot_step_note note = {.layer_type = "REFORMAT", .rejected = ""};
  return carnot_lowering_add_step(l, &step, &note);
}

carnot_status* carnot_lowering_value(carnot_lowering* l, const carnot_value* value,
                                     carnot_layout layout, carnot_memory_space place,
                                     uint32_t* out) {
  if (value->constant) layout = CARNOT_LAYOUT_ROW_MAJOR;
  uint32_t* slot = carnot_lowering_slot(l, value, place, layout);
  if (!*slot && value->constant) {
    uint32_t blob;
    CARNOT_TRY(carnot_lowering_constant(l, value, &blob));
    if (!*slot) CARNOT_TRY(add_constant(l, value, place, blob));
  }
  if (*slot) {
    *out = *slot - 1;
    return NULL;
  }
  carnot_layout standing = l->builder->layouts[value->id];
  carnot_memory_space from = l->builder->places[value->id];
  uint32_t source;
  // Copied as it stands, then brought into the other layout.
  if (from != place && standing != layout) {
    CARNOT_TRY(carnot_lowering_value(l, value, standing, place, &source));
  } else {
    source = *carnot_lowering_slot(l, value, from, standing);
    CARNOT_CHECK(source--, INTERNAL, "value %s is read before a step makes it", value->name);
  }
  if (from == place && writes_it_so(l, source, layout)) {
    *carnot_lowering_slot(l, value, place, standing) = 0;
    l->builder->layouts[value->id] = layout;
    *out = source;
  } else {
    CARNOT_TRY(carnot_lowering_add_reformat(l, source, value, layout, place, out));
  }
  *slot = *out + 1;
  return NULL;
}
