// Fuzz target: any text as the text form of a protobuf message, read by the tables of ONNX.
#include "import/onnx/onnx_proto.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  carnot_arena arena;
  carnot_arena_init(&arena);
  onnx_model model = {0};
  carnot_status_free(
      carnot_pb_read_text(&carnot_onnx_model_message, (const char*)data, size, &arena, &model));
  carnot_arena_deinit(&arena);
  return 0;
}
