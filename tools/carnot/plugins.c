// The flags of plugins.
#include "carnot/plugin.h"

#include <string.h>

#include "build_options.h"

// TensorRT's own libraries, by any path: scripts load them for its plugins.
static bool is_builtin(const char* path) {
  const char* slash = strrchr(path, '/');
  const char* file = slash ? slash + 1 : path;
  return strncmp(file, "libnvinfer", 10) == 0 || strncmp(file, "libnvonnxparser", 15) == 0;
}

static carnot_status* load(const cli_build_options* options, const char* name, const char* path) {
  carnot_plugin_library* library;  // stays until the process ends
  CLI_CHECK(path[0], INVALID_ARGUMENT, "--%s needs the path of a library", name);
  if (is_builtin(path)) {
    cli_build_warn(options, "--%s=%s has no effect: TensorRT's plugins are built in", name, path);
    return NULL;
  }
  return carnot_status_annotate(carnot_plugin_library_load(path, NULL, &library), "--%s", name);
}

carnot_status* cli_plugin_flags(const cli_flags* flags, cli_build_options* options) {
  static const char* const kLibraries[] = {"plugins", "staticPlugins", "dynamicPlugins",
                                           "setPluginsToSerialize"};
  enum { kCarried = 3 };
  for (size_t k = 0; k < CLI_COUNT(kLibraries); k++) {
    const char* path;
    for (int i = 0; (path = cli_flag_each(flags, kLibraries[k], i)) != NULL; i++) {
      CLI_TRY(load(options, kLibraries[k], path));
      if (k != kCarried || is_builtin(path)) continue;
      CLI_CHECK(options->carried_count < CLI_MAX_LIBRARIES, OUT_OF_RANGE,
                "more than %d --setPluginsToSerialize", CLI_MAX_LIBRARIES);
      options->carried[options->carried_count++] = path;
    }
  }
  if (cli_flag_set(flags, "allowEngineCode")) carnot_plugin_allow_engine_code(true);
  if (cli_flag_set(flags, "pluginInstanceNorm") || cli_flag_set(flags, "pi"))
    options->onnx_flags &= ~(uint32_t)CARNOT_ONNX_NATIVE_INSTANCENORM;
  if (cli_flag_set(flags, "enablePluginOverride"))
    options->onnx_flags |= CARNOT_ONNX_ENABLE_PLUGIN_OVERRIDE;
  return NULL;
}
