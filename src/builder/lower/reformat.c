// Plan values: each value of the graph in the layouts and memory spaces that its readers want.
#include "backend/device.h"
#include "builder/lower/lower.h"

// Finds the plan value of |value| in a layout and memory space.
static bool find(const carnot_lowering* l, const carnot_value* value, carnot_layout layout,
                 carnot_memory_space memory, uint32_t* out) {
  for (uint32_t i = l->first_of[value->id]; i; i = l->values[i - 1].next) {
    const carnot_format* format = &l->values[i - 1].plan.format;
    *out = i - 1;
    if (format->layout == layout && format->memory == memory) return true;
  }
  return false;
}

// ---- constants ----

static carnot_status* add_constant(carnot_lowering* l, const carnot_value* value,
                                   carnot_memory_space memory, uint32_t blob, uint32_t* out) {
  CARNOT_TRY(
      carnot_lowering_add_value(l, value, value->name, CARNOT_LAYOUT_ROW_MAJOR, memory, out));
  l->values[*out].plan.storage = CARNOT_STORAGE_CONSTANT;
  l->values[*out].plan.index = blob;
  return NULL;
}

carnot_status* carnot_lowering_constant(carnot_lowering* l, const carnot_value* value,
                                        uint32_t* out_blob) {
  uint32_t index;
  if (find(l, value, CARNOT_LAYOUT_ROW_MAJOR, CARNOT_MEMORY_HOST, &index)) {
    *out_blob = l->values[index].plan.index;
    return NULL;
  }
  carnot_plan_blob blob = {.name = value->constant->name ? value->constant->name : "",
                           .packing = "",
                           .tensor = value->constant->tensor,
                           .refit_expr = CARNOT_PLAN_NONE};
  if (l->builder->config->refit) CARNOT_TRY(carnot_lowering_refit_expr(l, value, &blob.refit_expr));
  CARNOT_TRY(carnot_lowering_add_blob(l, &blob, out_blob));
  return add_constant(l, value, CARNOT_MEMORY_HOST, *out_blob, &index);
}

static carnot_status* constant_value(carnot_lowering* l, const carnot_value* value,
                                     carnot_memory_space memory, uint32_t* out) {
  uint32_t blob;
  if (find(l, value, CARNOT_LAYOUT_ROW_MAJOR, memory, out)) return NULL;
  CARNOT_TRY(carnot_lowering_constant(l, value, &blob));
  if (find(l, value, CARNOT_LAYOUT_ROW_MAJOR, memory, out)) return NULL;
  return add_constant(l, value, memory, blob, out);
}

// ---- copies and reformats ----

static const char* reformat_tactic(const carnot_value* value, bool copies,
                                   carnot_memory_space memory) {
  bool to_device = carnot_memory_is_device(memory);
  if (copies) return to_device ? CARNOT_UPLOAD_TACTIC : CARNOT_DOWNLOAD_TACTIC;
  if (carnot_layouts_are_same(&value->type)) return CARNOT_VIEW_TACTIC;
  return to_device ? CARNOT_DEVICE_REFORMAT_TACTIC : CARNOT_HOST_REFORMAT_TACTIC;
}

// A step that copies |source|, a plan value of |value|, to the other memory space or into another
// layout, not both at once.
static carnot_status* add_reformat(carnot_lowering* l, uint32_t source, const carnot_value* value,
                                   carnot_layout layout, carnot_memory_space memory,
                                   uint32_t* out) {
  carnot_arena* arena = &l->plan->arena;
  bool copies = l->values[source].plan.format.memory != memory;
  const char* form = !copies                           ? carnot_layout_name(layout)
                     : carnot_memory_is_device(memory) ? "on the device"
                                                       : "on the host";
  const char* name = carnot_arena_print(arena, copies ? "%s %s" : "%s as %s", value->name, form);
  CARNOT_TRY(carnot_lowering_add_value(l, value, name, layout, memory, out));
  l->values[*out].waits = l->values[source].waits;
  uint32_t* locals = CARNOT_NEW_ARRAY(arena, uint32_t, 2);
  CARNOT_TRY(carnot_arena_status(arena));
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
  CARNOT_TRY(carnot_arena_status(arena));
  step.variants[0].tactic = reformat_tactic(value, copies, memory);
  carnot_step_note note = {.layer_type = "REFORMAT", .rejected = ""};
  return carnot_lowering_add_step(l, &step, &note);
}

carnot_status* carnot_lowering_value(carnot_lowering* l, const carnot_value* value,
                                     carnot_layout layout, carnot_memory_space memory,
                                     uint32_t* out) {
  if (value->constant) return constant_value(l, value, memory, out);
  if (find(l, value, layout, memory, out)) return NULL;
  const carnot_format* produced = &l->assignment->formats[value->id];
  uint32_t source;
  // Across memory spaces the value is copied as it is stored, then converted to the other layout.
  if (produced->memory != memory && produced->layout != layout) {
    CARNOT_TRY(carnot_lowering_value(l, value, produced->layout, memory, &source));
  } else {
    bool found = find(l, value, produced->layout, produced->memory, &source);
    CARNOT_CHECK(found, INTERNAL, "value %s is read before a step makes it", value->name);
  }
  return add_reformat(l, source, value, layout, memory, out);
}
