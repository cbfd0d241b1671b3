// The flags of plugins, the same for every subcommand that builds or runs.
#include "carnot/plugin.h"

#include "cli.h"

static carnot_status* load(const char* name, const char* path) {
  carnot_plugin_library* library;  // stays until the process ends
  CARNOT_CHECK(path[0], INVALID_ARGUMENT, "--%s needs the path of a library", name);
  return carnot_status_annotate(carnot_plugin_library_load(path, NULL, &library), "--%s", name);
}

static carnot_status* carry(const char* path, cli_build_options* options) {
  size_t at = options->config.plugin_library_count++;
  CARNOT_CHECK(at < CLI_MAX_LIBRARIES, OUT_OF_RANGE, "more than %d --setPluginsToSerialize",
               CLI_MAX_LIBRARIES);
  options->carried[at] = path;
  return NULL;
}

carnot_status* cli_plugin_flag(const char* name, const char* value, cli_build_options* options,
                               bool* out_found) {
  static const char* const kLibraries[] = {"plugins", "staticPlugins", "dynamicPlugins",
                                           "setPluginsToSerialize"};
  *out_found = true;
  for (size_t i = 0; i < sizeof(kLibraries) / sizeof(kLibraries[0]); i++) {
    if (strcmp(name, kLibraries[i]) != 0) continue;
    CARNOT_TRY(load(name, value));
    return i == 3 ? carry(value, options) : NULL;
  }
  if (strcmp(name, "allowEngineCode") == 0)
    carnot_plugin_allow_engine_code(true);
  else if (strcmp(name, "pluginInstanceNorm") == 0 || strcmp(name, "pi") == 0)
    options->import.plugin_instance_norm = true;
  else if (strcmp(name, "enablePluginOverride") == 0)
    options->import.plugin_override = true;
  else
    *out_found = false;
  return NULL;
}

carnot_status* cli_plugin_flags(cli_flags* flags, cli_build_options* options) {
  static const char* const kTexts[] = {"plugins", "staticPlugins", "dynamicPlugins",
                                       "setPluginsToSerialize"};
  static const char* const kSwitches[] = {"allowEngineCode", "pluginInstanceNorm",
                                          "enablePluginOverride"};
  bool found;
  for (size_t k = 0; k < sizeof(kTexts) / sizeof(kTexts[0]); k++) {
    const char* value;
    for (int i = 0; (value = cli_flag_each(flags, kTexts[k], i)) != NULL; i++)
      CARNOT_TRY(cli_plugin_flag(kTexts[k], value, options, &found));
  }
  for (size_t k = 0; k < sizeof(kSwitches) / sizeof(kSwitches[0]); k++)
    if (cli_flag_set(flags, kSwitches[k]))
      CARNOT_TRY(cli_plugin_flag(kSwitches[k], "", options, &found));
  return NULL;
}
