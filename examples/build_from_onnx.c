// build_from_onnx MODEL.onnx ENGINE: reads a model, builds an engine file, loads it and lists its
// tensors.
#include "carnot/builder.h"
#include "carnot/onnx.h"
#include "example.h"

static bool show_progress(void* user, const char* phase, int done, int total) {
  (void)user;
  fprintf(stderr, "%s %d/%d\n", phase, done, total);
  return true;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: build_from_onnx MODEL.onnx ENGINE\n");
    return 2;
  }
  carnot_network* network;
  OK(carnot_onnx_parse_file(argv[1], &network));
  carnot_config* config;
  OK(carnot_config_create(&config));
  OK(carnot_config_set_level(config, 1));
  carnot_config_set_progress(config, show_progress, NULL);
  OK(carnot_build_file(network, config, argv[2]));
  carnot_config_destroy(config);
  carnot_network_destroy(network);

  carnot_engine* engine;
  OK(carnot_engine_load_file(argv[2], &engine));
  OK(carnot_engine_verify(engine));
  for (uint32_t i = 0; i < carnot_engine_tensor_count(engine); i++) {
    carnot_tensor_info info;
    OK(carnot_engine_tensor_info(engine, i, &info));
    printf("%s %s: %s [", info.is_input ? "input" : "output", info.name,
           carnot_dtype_name(info.dtype));
    for (int d = 0; d < info.dims.rank; d++)
      printf(d ? ",%lld" : "%lld", (long long)info.dims.d[d]);
    printf("]\n");
  }
  carnot_engine_release(engine);
  return 0;
}
