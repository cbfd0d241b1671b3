// Plugins at build: configures them for shapes and formats, and takes over the fields that the
// engine keeps.
#include "backend/cpu/plugin/plugin.h"
#include "builder/select/candidates.h"
#include "plugin/call.h"

static carnot_plugin_range range_of(const carnot_operand_desc* t) {
  carnot_plugin_range r = {.format = {.dtype = t->format.dtype, .rank = t->rank},
                           .min = {.rank = t->rank},
                           .opt = {.rank = t->rank},
                           .max = {.rank = t->rank}};
  if (t->format.layout == CARNOT_LAYOUT_CHANNELS_LAST)
    r.format.layout = CARNOT_PLUGIN_CHANNELS_LAST;
  for (int d = 0; d < t->rank; d++) {
    r.min.d[d] = t->min[d];
    r.opt.d[d] = t->dims[d];
    r.max.d[d] = t->max[d];
  }
  return r;
}

static carnot_status* call_configure(const carnot_plugin* p, const carnot_plugin_instance* instance,
                                     const carnot_problem* problem) {
  carnot_plugin_range inputs[CARNOT_PLUGIN_MAX_OPERANDS], outputs[CARNOT_PLUGIN_MAX_OPERANDS];
  for (uint32_t i = 0; i < problem->input_count; i++) inputs[i] = range_of(&problem->inputs[i]);
  for (uint32_t i = 0; i < problem->output_count; i++) outputs[i] = range_of(&problem->outputs[i]);
  carnot_plugin_error error = {{0}};
  if (p->configure && !p->configure(p->self, inputs, (int32_t)problem->input_count, outputs,
                                    (int32_t)problem->output_count, &error))
    return carnot_plugin_failed(instance, "configure", &error);
  return NULL;
}

// The plugin's timing key becomes an attribute, and so a part of the problem's key.
static void note_timing_key(carnot_builder* builder, const carnot_plugin* p,
                            carnot_plan_node* node) {
  const char* key = p->timing_key ? p->timing_key(p->self) : NULL;
  if (key)
    carnot_attrs_set_text(&node->attrs, builder->memory, "timing_key",
                          carnot_arena_text(builder->memory, key, strlen(key)));
}

static carnot_status* configure(carnot_builder* builder, carnot_problem* problem,
                                carnot_plan_node* node, const carnot_plugin_instance* instance) {
  const carnot_plugin* p = &instance->plugin;
  char reason[256];
  carnot_layout given[CARNOT_PLUGIN_MAX_OPERANDS];
  for (uint32_t i = 0; i < problem->input_count; i++) given[i] = problem->inputs[i].format.layout;
  const char* why = carnot_plugin_pick_layout(instance, problem, reason, sizeof(reason));
  CARNOT_CHECK(!why, UNSUPPORTED, "%s, neither row-major nor channels-last", why);
  CARNOT_TRY(call_configure(p, instance, problem));
  for (uint32_t i = 0; i < problem->input_count; i++) problem->inputs[i].format.layout = given[i];
  carnot_plugin_error error = {{0}};
  const carnot_plugin_field* fields;
  int32_t count;
  if (!p->serialize(p->self, &fields, &count, &error))
    return carnot_plugin_failed(instance, "serialize", &error);
  carnot_arena* arena = builder->memory;
  carnot_attr packed = {.name = "fields", .type = CARNOT_ATTR_STRING};
  CARNOT_TRY(carnot_fields_pack(fields, count, arena, &packed.s));
  node->attrs.items =
      carnot_arena_copy(arena, node->attrs.items, node->attrs.count * sizeof(*node->attrs.items));
  CARNOT_TRY(carnot_arena_status(arena));
  carnot_attrs_set(&node->attrs, arena, packed);
  note_timing_key(builder, p, node);
  return NULL;
}

carnot_status* carnot_configure_plugin(carnot_builder* builder, carnot_region* region,
                                       carnot_problem* problem) {
  if (region->nodes[0].op != CARNOT_OP_PLUGIN) return NULL;
  region->nodes = carnot_arena_copy(builder->memory, region->nodes,
                                    region->node_count * sizeof(*region->nodes));
  CARNOT_TRY(carnot_arena_status(builder->memory));
  carnot_plan_node* node = &region->nodes[0];
  carnot_plugin_instance* instance;
  CARNOT_TRY(carnot_plugin_open_node(&node->attrs, CARNOT_PLUGIN_BUILD, &instance));
  carnot_status* status = configure(builder, problem, node, instance);
  carnot_plugin_close(instance);
  return status;
}
