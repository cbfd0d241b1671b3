// Fuzz target: any bytes as a file of an input; the first byte says of which kind.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tensor.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const char* const kEndings[] = {"npy", "pb", "png", "jpg", "raw"};
  if (size < 1) return 0;
  char path[64];
  snprintf(path, sizeof(path), "/tmp/input_fuzz.%d.%s", (int)getpid(), kEndings[data[0] % 5]);
  FILE* file = fopen(path, "wb");
  if (!file || fwrite(data + 1, 1, size - 1, file) != size - 1 || fclose(file)) abort();
  carnot_tensor_info input = {
      .name = "x", .dtype = CARNOT_DTYPE_F32, .dims = {.rank = 4, .d = {1, 3, -1, 8}}};
  carnot_dims dims = {.rank = 4, .d = {1, 3, 1, 8}};
  cli_image_options image = {0};
  cli_arena arena = {0};
  const carnot_data* read;
  carnot_status* status = cli_tensor_read(path, &input, &dims, &image, &arena, &read);
  // All elements that were read exist, which the address sanitizer checks.
  double sum = 0;
  if (!status) {
    cli_tensor t = cli_tensor_of(read);
    bool is_complex = t.dtype == CARNOT_DTYPE_C64 || t.dtype == CARNOT_DTYPE_C128;
    for (int64_t i = 0; t.data && !is_complex && i < cli_tensor_count(&t); i++)
      sum += carnot_element_f64(t.dtype, t.data, (size_t)i);
  }
  static volatile double sink;
  sink = sum;
  (void)sink;
  carnot_status_free(status);
  cli_arena_deinit(&arena);
  unlink(path);
  return 0;
}
