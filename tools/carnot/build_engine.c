// Building an engine file from a model through the public interface.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_options.h"
#include "carnot/edit.h"
#include "carnot/network.h"
#include "carnot/plugin.h"
#include "log.h"

// ---- profiles from shapes ----

static bool has_shapes(const cli_shapes* shapes) { return shapes && shapes->count; }

// The shape of input |name| in a profile: fixed dimensions are the model's; dynamic ones come from
// |shapes|, else from |otherwise|, else they are 1 and *out_missing is set.
static carnot_dims fill_dims(const char* name, const carnot_dims* dims, const cli_shapes* shapes,
                             const carnot_dims* otherwise, bool* out_missing) {
  const carnot_dims* given = cli_shapes_find(shapes, name);
  carnot_dims out = *dims;
  for (int d = 0; d < dims->rank; d++) {
    if (dims->d[d] >= 0) continue;
    if (given && given->rank == dims->rank && given->d[d] >= 0) {
      out.d[d] = given->d[d];
    } else if (otherwise) {
      out.d[d] = otherwise->d[d];
    } else {
      out.d[d] = 1;
      *out_missing = true;
    }
  }
  return out;
}

static carnot_status* check_shape(const char* name, const carnot_dims* dims,
                                  const carnot_dims* given) {
  CLI_CHECK(dims->rank == given->rank, INVALID_ARGUMENT,
            "input %s has %d dimensions, the shape given has %d", name, dims->rank, given->rank);
  for (int d = 0; d < dims->rank; d++)
    CLI_CHECK(dims->d[d] < 0 || dims->d[d] == given->d[d], INVALID_ARGUMENT,
              "input %s: dimension %d is %lld in the model, %lld was given", name, d,
              (long long)dims->d[d], (long long)given->d[d]);
  return NULL;
}

// True where the entry gives the elements of |input|, whose elements decide shapes, and not its
// dimensions: as many numbers as it has elements.
static carnot_status* gives_values(const carnot_network* network, const carnot_value* input,
                                   const carnot_dims* given, bool* out) {
  carnot_dims dims = carnot_value_dims(input);
  *out = false;
  if (!given || dims.rank > 1 || (dims.rank == 1 && dims.d[0] < 0)) return NULL;
  CLI_TRY(carnot_network_is_shape_input(network, input, out));
  *out &= given->rank == (dims.rank ? dims.d[0] : 1);
  return NULL;
}

static carnot_status* check_shapes(const carnot_network* network, const cli_shapes* shapes) {
  for (size_t i = 0; shapes && i < shapes->count; i++) {
    char names[512] = "";
    size_t at = 0;
    bool found = false;
    for (size_t k = 0; k < carnot_network_input_count(network); k++) {
      const carnot_value* input = carnot_network_input(network, k);
      const char* name = carnot_value_name(input);
      carnot_dims dims = carnot_value_dims(input);
      if (cli_shape_matches(&shapes->items[i], name)) {
        found = true;
        bool values;
        CLI_TRY(gives_values(network, input, &shapes->items[i].dims, &values));
        if (!values) CLI_TRY(check_shape(name, &dims, &shapes->items[i].dims));
      }
      if (at < sizeof(names))
        at += (size_t)snprintf(names + at, sizeof(names) - at, at ? ", %s" : "%s", name);
    }
    CLI_CHECK(found, INVALID_ARGUMENT, "the model has no input %s; it has %s",
              shapes->items[i].name, names);
  }
  return NULL;
}

// The bounds of the elements of a shape input, where the shapes give them.
static carnot_status* add_values(const carnot_network* network, const carnot_value* input,
                                 uint32_t profile, const cli_shapes* const lists[3],
                                 carnot_config* config) {
  const char* name = carnot_value_name(input);
  const carnot_dims* given[3];
  for (int k = 0; k < 3; k++) {
    bool values;
    given[k] = cli_shapes_find(lists[k], name);
    CLI_TRY(gives_values(network, input, given[k], &values));
    if (!values) return NULL;
  }
  return carnot_config_set_profile_values(config, profile, name, given[0]->d, given[1]->d,
                                          given[2]->d, (size_t)given[1]->rank);
}

static void warn_of_missing(const cli_build_options* options, const char* name,
                            const carnot_dims* dims) {
  char text[256];
  cli_shape_text(dims, text, sizeof(text));
  cli_build_warn(options,
                 "Dynamic dimensions required for input: %s, but no shapes were provided. "
                 "Automatically overriding shape to: %s",
                 name, text);
}

static carnot_status* add_profile(const carnot_network* network, const cli_build_options* options,
                                  const cli_shapes* min, const cli_shapes* given_opt,
                                  const cli_shapes* max, carnot_config* config) {
  uint32_t profile;
  CLI_TRY(check_shapes(network, min));
  CLI_TRY(check_shapes(network, given_opt));
  CLI_TRY(check_shapes(network, max));
  CLI_TRY(carnot_config_add_profile(config, &profile));
  const cli_shapes* opt = has_shapes(given_opt) ? given_opt : has_shapes(max) ? max : min;
  for (size_t i = 0; i < carnot_network_input_count(network); i++) {
    const carnot_value* input = carnot_network_input(network, i);
    const char* name = carnot_value_name(input);
    carnot_dims dims = carnot_value_dims(input);
    if (dims.rank < 0) continue;  // no tensor, or one of unknown rank
    bool missing = false;
    carnot_dims best = fill_dims(name, &dims, opt, NULL, &missing);
    carnot_dims least = fill_dims(name, &dims, has_shapes(min) ? min : opt, &best, &missing);
    carnot_dims most = fill_dims(name, &dims, has_shapes(max) ? max : opt, &best, &missing);
    CLI_TRY(carnot_config_set_profile_shapes(config, profile, name, &least, &best, &most));
    if (missing) warn_of_missing(options, name, &best);
    const cli_shapes* lists[3] = {has_shapes(min) ? min : opt, opt, has_shapes(max) ? max : opt};
    CLI_TRY(add_values(network, input, profile, lists, config));
  }
  return NULL;
}

static carnot_status* add_profiles(const carnot_network* network, const cli_build_options* o,
                                   carnot_config* config) {
  bool given = has_shapes(o->min) || has_shapes(o->opt) || has_shapes(o->max);
  if (given || o->override_dynamic || o->more_count)
    CLI_TRY(add_profile(network, o, o->min, o->opt, o->max, config));
  for (size_t i = 0; i < o->more_count; i++)
    CLI_TRY_AT(add_profile(network, o, &o->more[i].min, &o->more[i].opt, &o->more[i].max, config),
               "profile %zu", i + 1);
  return NULL;
}

// The layouts of the network's inputs and outputs; one is for all.
static carnot_status* set_layouts(const carnot_network* network, const cli_typing* typing,
                                  carnot_config* config) {
  size_t count = typing->input_type_count;
  carnot_value* value;
  for (size_t i = 0; count && (value = carnot_network_input(network, i)) != NULL; i++)
    if (i < count || count == 1)
      CLI_TRY(carnot_config_set_tensor_formats(config, carnot_value_name(value),
                                               typing->input_layouts[count == 1 ? 0 : i]));
  count = typing->result_type_count;
  for (size_t i = 0; count && (value = carnot_network_output(network, i)) != NULL; i++)
    if (i < count || count == 1)
      CLI_TRY(carnot_config_set_tensor_formats(config, carnot_value_name(value),
                                               typing->result_layouts[count == 1 ? 0 : i]));
  return NULL;
}

// ---- configuration ----

static carnot_status* set_typing(const cli_typing* typing, carnot_config* config) {
  const struct {
    carnot_build_flag flag;
    bool on;
  } kFlags[] = {{CARNOT_BUILD_F16, typing->f16},
                {CARNOT_BUILD_BF16, typing->bf16},
                {CARNOT_BUILD_STRONGLY_TYPED, typing->strong},
                {CARNOT_BUILD_PREFER_TYPES, typing->constraints == CLI_PREFER_TYPES},
                {CARNOT_BUILD_OBEY_TYPES, typing->constraints == CLI_OBEY_TYPES}};
  for (size_t i = 0; i < CLI_COUNT(kFlags); i++)
    CLI_TRY(carnot_config_set_flag(config, kFlags[i].flag, kFlags[i].on));
  for (size_t i = 0; i < typing->layer_count; i++)
    CLI_TRY(carnot_config_add_layer_precision(config, typing->layers[i].pattern,
                                              typing->layers[i].types[0]));
  for (size_t i = 0; i < typing->output_count; i++)
    CLI_TRY(carnot_config_add_layer_output_types(config, typing->outputs[i].pattern,
                                                 typing->outputs[i].types,
                                                 typing->outputs[i].type_count));
  CLI_TRY(carnot_config_set_input_types(config, typing->input_types, typing->input_type_count));
  return carnot_config_set_output_types(config, typing->result_types, typing->result_type_count);
}

static carnot_status* configure(const cli_build_options* o, carnot_config* config) {
  CLI_TRY(carnot_config_set_level(config, o->level));
  CLI_TRY(carnot_config_set_thread_count(config, o->threads));
  CLI_TRY(carnot_config_set_time_budget(config, o->time_budget_s));
  CLI_TRY(carnot_config_set_device(config, o->device));
  CLI_TRY_AT(carnot_config_set_isa(config, o->isa), "--isa");
  CLI_TRY(carnot_config_set_flag(config, CARNOT_BUILD_REFIT, o->refit));
  if (o->strip) CLI_TRY(carnot_config_set_flag(config, CARNOT_BUILD_STRIP, true));
  CLI_TRY(carnot_config_set_flag(config, CARNOT_BUILD_FAST_F32, o->fast_fp32));
  CLI_TRY(carnot_config_set_flag(config, CARNOT_BUILD_QUANTIZED, o->quantized));
  CLI_TRY(carnot_config_set_flag(config, CARNOT_BUILD_NO_PASSES, o->no_passes));
  for (size_t i = 0; i < o->disabled_pass_count; i++)
    CLI_TRY(carnot_config_disable_pass(config, o->disabled_passes[i]));
  for (size_t i = 0; i < o->carried_count; i++)
    CLI_TRY(carnot_config_serialize_plugin_library(config, o->carried[i]));
  carnot_config_set_tactic_sources(config, o->tactic_sources);
  carnot_config_set_graph_dump(config, o->dump_pass);
  carnot_config_set_log(config, o->log, o->log_user);
  carnot_config_set_progress(config, o->progress, NULL);
  return set_typing(&o->typing, config);
}

carnot_status* cli_configure(const carnot_network* network, const cli_build_options* o,
                             carnot_config* config) {
  CLI_TRY(configure(o, config));
  CLI_TRY(add_profiles(network, o, config));
  return set_layouts(network, &o->typing, config);
}

// ---- the build ----

static carnot_status* build(const carnot_network* network, const cli_build_options* o,
                            carnot_config* config, carnot_timing_cache* cache,
                            const char* engine_path) {
  CLI_TRY(cli_configure(network, o, config));
  if (o->timing_cache_path)
    CLI_TRY_AT(carnot_timing_cache_load(cache, o->timing_cache_path), "timing cache %s",
               o->timing_cache_path);
  carnot_config_set_timing_cache(config, o->timing_cache_path ? cache : NULL);
  carnot_ranges* ranges = NULL;
  if (!o->ranges) CLI_TRY(cli_calibrate(network, config, &o->calibration, &ranges));
  carnot_config_set_ranges(config, o->ranges ? o->ranges : ranges);
  carnot_status* status = carnot_build_file(network, config, engine_path);
  carnot_ranges_destroy(ranges);
  cli_end_progress();
  CLI_TRY(status);
  return o->timing_cache_path ? carnot_timing_cache_save(cache, o->timing_cache_path) : NULL;
}

carnot_status* cli_build_file(const char* model, const cli_build_options* options,
                              const char* engine_path) {
  carnot_network* network = NULL;
  carnot_config* config = NULL;
  carnot_timing_cache* cache = NULL;
  // Rewriting is left to the builder, so that --noPasses, --disablePasses and --dumpGraph apply to
  // all of it.
  cli_say_phase("reading the model");
  carnot_status* status = cli_parse_model(model, options, &network);
  if (!status) status = carnot_config_create(&config);
  if (!status) status = carnot_timing_cache_create(&cache);
  if (!status) status = build(network, options, config, cache, engine_path);
  carnot_config_destroy(config);
  carnot_timing_cache_destroy(cache);
  carnot_network_destroy(network);
  return status;
}
