// Puts the plugin libraries that the configuration names into the plan.
#include <string.h>

#include "base/file.h"
#include "builder/lower/lower.h"

static carnot_status* carry(carnot_arena* arena, const char* path, carnot_plan_library* out) {
  carnot_mapping file;
  CARNOT_TRY_AT(carnot_map_file(path, &file), "plugin library %s", path);
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

carnot_status* carnot_lowering_carry_libraries(const carnot_builder* builder, carnot_plan* plan) {
  size_t count = builder->config->plugin_library_count;
  plan->libraries = CARNOT_NEW_ARRAY(&plan->arena, carnot_plan_library, count + 1);
  CARNOT_TRY(carnot_arena_status(&plan->arena));
  for (size_t i = 0; i < count; i++)
    CARNOT_TRY(carry(&plan->arena, builder->config->plugin_libraries[i], &plan->libraries[i]));
  plan->library_count = (uint32_t)count;
  return NULL;
}
