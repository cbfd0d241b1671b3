// Fuzz target: any bytes as a file of an input; the first byte says of which kind.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const char* const kEndings[] = {"npy", "pb", "png", "jpg", "raw"};
  if (size < 1) return 0;
  char path[64];
  snprintf(path, sizeof(path), "/tmp/input_fuzz.%d.%s", (int)getpid(), kEndings[data[0] % 5]);
  FILE* file = fopen(path, "wb");
  if (!file || fwrite(data + 1, 1, size - 1, file) != size - 1 || fclose(file)) abort();
  carnot_plan_binding binding = {
      .name = "x", .dtype = CARNOT_DTYPE_F32, .rank = 4, .dims = {1, 3, -1, 8}};
  carnot_dims dims = {.rank = 4, .d = {1, 3, 1, 8}};
  cli_image_options image = {0};
  carnot_arena arena;
  carnot_arena_init(&arena);
  carnot_rt_value cell;
  carnot_status* status = cli_read_tensor(path, &binding, &dims, &image, &arena, &cell);
  // What was read is all there, which the address sanitizer sees.
  double sum = 0;
  if (!status && cell.tensor.dtype != CARNOT_DTYPE_STRING)
    for (int64_t i = 0; i < carnot_tensor_count(&cell.tensor); i++)
      sum += carnot_dtype_kind_of(cell.tensor.dtype) == CARNOT_KIND_COMPLEX
                 ? 0
                 : carnot_load_f64(cell.tensor.dtype, cell.tensor.data, (size_t)i);
  static volatile double sink;
  sink = sum;
  (void)sink;
  carnot_status_free(status);
  carnot_arena_deinit(&arena);
  unlink(path);
  return 0;
}
