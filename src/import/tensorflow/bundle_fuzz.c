// Fuzz target: any bytes as the index of a tensor bundle.
#include "import/tensorflow/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carnot_arena arena = {0};
  tf_bundle bundle = {.arena = &arena, .prefix = "variables"};
  carnot_status_free(tf_bundle_read_index(&bundle, (carnot_strview){(const char*)data, size}));
  carnot_arena_deinit(&arena);
  return 0;
}
