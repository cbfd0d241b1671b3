// Fuzz target: any bytes as a tensor of text in Triton's form; what is read is written as it came.
// The first byte says the dimensions: three of up to 3, 7 and 3 elements.
#include "triton/text.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (!size) return 0;
  const carnot_dims dims = {.rank = 3, .d = {data[0] & 3, data[0] >> 2 & 7, data[0] >> 5 & 3}};
  const size_t count = (size_t)(dims.d[0] * dims.d[1] * dims.d[2]);
  const char* text = (const char*)data + 1;
  carnot_data* value = NULL;
  carnot_status* status = carnot_triton_text_read(&dims, text, size - 1, &value);
  if (status) {
    carnot_status_free(status);
    return 0;
  }
  const size_t bytes = carnot_triton_text_bytes(value, 0, count);
  char* written = malloc(bytes + 1);
  if (!written || bytes != size - 1) abort();
  carnot_triton_text_write(value, 0, count, written);
  if (memcmp(written, text, bytes) != 0) abort();
  free(written);
  carnot_data_destroy(value);
  return 0;
}
