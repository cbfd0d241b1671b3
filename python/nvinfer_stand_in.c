// Stands in for libnvinfer.so and its sister libraries, which scripts open by name to load
// TensorRT's plugins, its lean runtime or to ask for a version. The alias has all of them built in:
// opening a stand-in loads nothing more. See carnot/alias.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

// The version that the package reports: 10.3.0 is 100300, 8.6.3 is 8603.
static int version(void) {
  const char* text = getenv("CARNOT_TRT_VERSION");
  int major = 10, minor = 3, patch = 0;
  if (text) sscanf(text, "%d.%d.%d", &major, &minor, &patch);
  return major >= 10 ? major * 10000 + minor * 100 + patch : major * 1000 + minor * 100 + patch;
}

EXPORT int getInferLibVersion(void);
EXPORT int getNvOnnxParserVersion(void);
EXPORT bool initLibNvInferPlugins(void* logger, const char* plugin_namespace);

int getInferLibVersion(void) { return version(); }
int getNvOnnxParserVersion(void) { return version(); }

bool initLibNvInferPlugins(void* logger, const char* plugin_namespace) {
  (void)logger;
  (void)plugin_namespace;
  return true;
}
