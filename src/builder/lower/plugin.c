// Plugins at build: what shapes and formats they are configured for, and the fields that the engine
// keeps.
#include "backend/cpu/plugin.h"
#include "base/file.h"
#include "builder/internal.h"
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

// What distinguishes a plugin's time goes into the problem's key with the other attributes.
static void note_timing_key(carnot_builder* builder, const carnot_plugin* p,
                            carnot_plan_node* node) {
  const char* key = p->timing_key ? p->timing_key(p->self) : NULL;
  if (key)
    carnot_attrs_set_text(&node->attrs, &builder->plan->arena, "timing_key",
                          carnot_arena_text(&builder->plan->arena, key, strlen(key)));
}

static carnot_status* configure(carnot_builder* builder, carnot_problem* problem,
                                carnot_plan_node* node, const carnot_plugin_instance* instance) {
  const carnot_plugin* p = &instance->plugin;
  char reason[256];
  carnot_layout standing[CARNOT_PLUGIN_MAX_OPERANDS];
  for (uint32_t i = 0; i < problem->input_count; i++)
    standing[i] = problem->inputs[i].format.layout;
  const char* why = carnot_plugin_pick_layout(instance, problem, reason, sizeof(reason));
  CARNOT_CHECK(!why, UNSUPPORTED, "%s, neither row-major nor channels-last", why);
  CARNOT_TRY(call_configure(p, instance, problem));
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = standing[i];
  carnot_plugin_error error = {{0}};
  const carnot_plugin_field* fields;
  int32_t count;
  if (!p->serialize(p->self, &fields, &count, &error))
    return carnot_plugin_failed(instance, "serialize", &error);
  carnot_arena* arena = &builder->plan->arena;
  carnot_attr packed = {.name = "fields", .type = CARNOT_ATTR_STRING};
  CARNOT_TRY(carnot_fields_pack(fields, count, arena, &packed.s));
  node->attrs.items =
      carnot_arena_copy(arena, node->attrs.items, node->attrs.count * sizeof(*node->attrs.items));
  carnot_attrs_set(&node->attrs, arena, packed);
  note_timing_key(builder, p, node);
  return NULL;
}

carnot_status* carnot_configure_plugin(carnot_builder* builder, carnot_choice* choice) {
  carnot_plan_node* node = &choice->region.nodes[0];
  if (node->op != CARNOT_OP_PLUGIN) return NULL;
  carnot_plugin_instance* instance;
  CARNOT_TRY(carnot_plugin_open_node(&node->attrs, CARNOT_PLUGIN_BUILD, &instance));
  carnot_status* status = configure(builder, &choice->problem, node, instance);
  carnot_plugin_close(instance);
  return status;
}

static carnot_status* carry(carnot_builder* builder, const char* path, carnot_plan_library* out) {
  carnot_mapping file;
  CARNOT_TRY_AT(carnot_map_file(path, &file), "plugin library %s", path);
  carnot_arena* arena = &builder->plan->arena;
  const char* slash = strrchr(path, '/');
  const char* name = slash ? slash + 1 : path;
  carnot_status* status = NULL;
  void* copy = NULL;
  if (file.size > UINT32_MAX)
    status = CARNOT_ERROR(OUT_OF_RANGE, "plugin library %s has %zu bytes", path, file.size);
  if (!status) status = carnot_arena_try(arena, file.size + 1, 1, "a plugin library", &copy);
  if (!status && file.size) memcpy(copy, file.data, file.size);
  *out = (carnot_plan_library){.name = carnot_arena_text(arena, name, strlen(name)),
                               .data = copy,
                               .bytes = (uint32_t)file.size};
  carnot_unmap(&file);
  return status;
}

carnot_status* carnot_carry_libraries(carnot_builder* builder) {
  size_t count = builder->config->plugin_library_count;
  carnot_plan* plan = builder->plan;
  plan->libraries = CARNOT_NEW_ARRAY(&plan->arena, carnot_plan_library, count + 1);
  for (size_t i = 0; i < count; i++)
    CARNOT_TRY(carry(builder, builder->config->plugin_libraries[i], &plan->libraries[i]));
  plan->library_count = (uint32_t)count;
  return NULL;
}
