// seeds FOLDER: writes engines of the integration tests' graphs, the first inputs of the engine
// fuzzer.
#include <sys/stat.h>

#include "../integration/net.h"

static void write_seed(const char* folder, const char* name, carnot_graph* g, bool refit) {
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.level = 0;
  config.refit = refit;
  void* data;
  size_t size;
  net_bytes(g, &config, &data, &size);
  char path[4096];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE* file = fopen(path, "wb");
  if (!file || fwrite(data, 1, size, file) != size) exit(1);
  fclose(file);
  free(data);
  carnot_graph_destroy(g);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  mkdir(argv[1], 0777);
  carnot_arena arena = {0};
  conv_net_weights w;
  conv_net_weights_make(&arena, 1, &w);
  write_seed(argv[1], "conv", conv_net(&w, 1, 6, 6), false);
  write_seed(argv[1], "conv_refit", conv_net(&w, -1, 6, -2), true);
  write_seed(argv[1], "attention", attention_net(6), false);
  write_seed(argv[1], "attention_any", attention_net(-1), false);
  write_seed(argv[1], "nonzero", nonzero_net(-1), false);
  write_seed(argv[1], "loop", loop_net(), false);
  write_seed(argv[1], "plugin", plugin_net(-1), false);
  carnot_arena_deinit(&arena);
  return 0;
}
