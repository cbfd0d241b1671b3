// Profiles of build configurations: the shapes and elements that inputs may have.
#include "api/builder/config.h"

carnot_status* carnot_config_add_profile(carnot_config* config, uint32_t* out_profile) {
  void* items = config->profiles;
  CARNOT_TRY(carnot_grow(&items, &config->profile_capacity, config->profile_count + 1,
                         sizeof(carnot_profile), "profiles"));
  config->profiles = items;
  config->profiles[config->profile_count] = (carnot_profile){0};
  *out_profile = (uint32_t)config->profile_count++;
  return NULL;
}

// What profile |index| says of input |name|, added where it says nothing yet.
static carnot_status* profile_input(carnot_config* config, uint32_t index, const char* name,
                                    carnot_profile_input** out_input) {
  CARNOT_CHECK(index < config->profile_count, INVALID_ARGUMENT, "profile %u of %zu", index,
               config->profile_count);
  CARNOT_CHECK(name, INVALID_ARGUMENT, "a profile needs the name of an input");
  carnot_profile* profile = &config->profiles[index];
  size_t at = 0;
  while (at < profile->input_count && strcmp(profile->inputs[at].name, name) != 0) at++;
  if (at == profile->input_count) {
    size_t capacity = at;
    void* items = profile->inputs;
    CARNOT_TRY(carnot_grow(&items, &capacity, at + 1, sizeof(carnot_profile_input), "profile"));
    profile->inputs = items;
    profile->input_count++;
    profile->inputs[at] = (carnot_profile_input){
        .name = carnot_arena_text(&config->arena, name, strlen(name)), .no_shape = true};
  }
  *out_input = &profile->inputs[at];
  return NULL;
}

carnot_status* carnot_config_set_profile_shapes(carnot_config* config, uint32_t index,
                                                const char* name, const carnot_dims* min,
                                                const carnot_dims* opt, const carnot_dims* max) {
  CARNOT_CHECK(min && opt && max, INVALID_ARGUMENT, "a profile needs three shapes");
  carnot_profile_input* input;
  CARNOT_TRY(profile_input(config, index, name, &input));
  input->no_shape = false;
  input->min = *min;
  input->opt = *opt;
  input->max = *max;
  return NULL;
}

carnot_status* carnot_config_set_profile_values(carnot_config* config, uint32_t index,
                                                const char* name, const int64_t* min,
                                                const int64_t* opt, const int64_t* max,
                                                size_t count) {
  const int64_t* values[] = {min, opt, max};
  CARNOT_CHECK(min && opt && max && count >= 1 && count <= CARNOT_MAX_SHAPE_ELEMENTS,
               INVALID_ARGUMENT, "a profile bounds %zu elements, at most %d are allowed", count,
               CARNOT_MAX_SHAPE_ELEMENTS);
  for (size_t i = 0; i < count; i++)
    CARNOT_CHECK(min[i] <= opt[i] && opt[i] <= max[i], INVALID_ARGUMENT,
                 "element %zu: min %lld, opt %lld, max %lld are not in order", i, (long long)min[i],
                 (long long)opt[i], (long long)max[i]);
  carnot_profile_input* input;
  CARNOT_TRY(profile_input(config, index, name, &input));
  input->value_count = (uint32_t)count;
  for (int k = 0; k < 3; k++)
    input->values[k] = carnot_arena_copy(&config->arena, values[k], count * sizeof(int64_t));
  return carnot_arena_status(&config->arena);
}
