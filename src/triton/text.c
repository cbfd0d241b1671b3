#include "triton/text.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { kLengthBytes = 4 };

static uint32_t length_at(const char* data) {
  const unsigned char* b = (const unsigned char*)data;
  return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static carnot_status* find_elements(const char* data, size_t size, size_t count, const char** texts,
                                    size_t* sizes) {
  size_t at = 0;
  for (size_t i = 0; i < count; i++) {
    CARNOT_CHECK(size - at >= kLengthBytes, INVALID_ARGUMENT,
                 "the data end in element %zu, must have %zu elements", i, count);
    sizes[i] = length_at(data + at);
    at += kLengthBytes;
    CARNOT_CHECK(sizes[i] <= size - at, INVALID_ARGUMENT,
                 "element %zu has %zu bytes, %zu are there", i, sizes[i], size - at);
    texts[i] = data + at;
    at += sizes[i];
  }
  CARNOT_CHECK(at == size, INVALID_ARGUMENT, "%zu bytes follow the %zu elements", size - at, count);
  return NULL;
}

carnot_status* carnot_triton_text_read(const carnot_dims* dims, const char* data, size_t size,
                                       carnot_data** out_value) {
  size_t count = 1;
  bool is_too_large = false;
  for (int d = 0; d < dims->rank; d++)
    is_too_large |= __builtin_mul_overflow(count, (size_t)dims->d[d], &count);
  // Each element takes its length at least: no more are looked for than can be there.
  CARNOT_CHECK(!is_too_large && count <= size / kLengthBytes, INVALID_ARGUMENT,
               "%zu bytes cannot hold the elements of its shape", size);
  const char** texts = malloc((count + 1) * sizeof *texts);
  size_t* sizes = malloc((count + 1) * sizeof *sizes);
  carnot_status* status = texts && sizes ? find_elements(data, size, count, texts, sizes)
                                         : CARNOT_NO_MEMORY(count * sizeof *texts, "text");
  if (!status) status = carnot_data_create_text(dims, texts, sizes, out_value);
  free(texts);
  free(sizes);
  return status;
}

size_t carnot_triton_text_bytes(const carnot_data* value, size_t first, size_t count) {
  size_t bytes = 0;
  for (size_t i = first; i < first + count; i++) {
    size_t size;
    carnot_data_text(value, i, &size);
    bytes += kLengthBytes + size;
  }
  return bytes;
}

void carnot_triton_text_write(const carnot_data* value, size_t first, size_t count, char* data) {
  for (size_t i = first; i < first + count; i++) {
    size_t size;
    const char* text = carnot_data_text(value, i, &size);
    for (int b = 0; b < kLengthBytes; b++) *data++ = (char)(size >> (8 * b));
    if (size) memcpy(data, text, size);
    data += size;
  }
}
