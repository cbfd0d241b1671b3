// What an engine needs of plugins: asked for when it is loaded, not when it runs.
#include "engine/plugins.h"

#include "plugin/call.h"

// Libraries that the engine carries are opened where a plugin is missing.
static carnot_status* open_carried(const carnot_plan* plan) {
  for (uint32_t i = 0; i < plan->library_count; i++) {
    const carnot_plan_library* library = &plan->libraries[i];
    CARNOT_TRY(carnot_plugin_library_load_bytes(library->name, library->data, library->bytes));
  }
  return NULL;
}

static carnot_status* check_node(const carnot_plan* plan, const carnot_plan_node* node,
                                 bool* opened) {
  carnot_arena arena = {0};
  carnot_plugin_key key;
  carnot_plugin_entry* entry;
  carnot_status* status = carnot_plugin_key_of(&node->attrs, &arena, &key);
  if (!status) status = carnot_registry_find(&key, &entry);
  bool missing = status && carnot_status_code(status) != CARNOT_OUT_OF_MEMORY;
  if (missing && plan->library_count && !*opened) {
    *opened = true;
    carnot_status* refusal = open_carried(plan);
    carnot_status_free(status);
    status = refusal ? refusal : carnot_registry_find(&key, &entry);
  }
  carnot_arena_deinit(&arena);
  return carnot_status_annotate(status, "node %s", node->name);
}

carnot_status* carnot_plan_check_plugins(const carnot_plan* plan) {
  bool opened = false;
  for (uint32_t s = 0; s < plan->step_count; s++) {
    const carnot_region* region = &plan->steps[s].region;
    for (uint32_t n = 0; n < region->node_count; n++)
      if (region->nodes[n].op == CARNOT_OP_PLUGIN)
        CARNOT_TRY_AT(check_node(plan, &region->nodes[n], &opened), "step %u (%s)", s,
                      plan->steps[s].name);
  }
  return NULL;
}
