#include "mutation.h"

#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "engine/header.h"
#include "run/context.h"

enum { MEMORY_LIMIT = 64 << 20, INPUT_LIMIT = 1 << 20 };

void mutation_fix_hashes(uint8_t* data, size_t size) {
  carnot_header header;
  if (size < sizeof(header)) return;
  memcpy(&header, data, sizeof(header));
  const carnot_section* m = &header.metadata;
  if (m->offset <= size && m->bytes <= size - m->offset)
    header.metadata.hash = carnot_hash(data + m->offset, m->bytes, 0);
  header.file_bytes = size;
  header.hash = carnot_hash(&header, offsetof(carnot_header, hash), 0);
  memcpy(data, &header, sizeof(header));
}

void mutation_decompress(void** data, size_t* size) {
  carnot_header header;
  memcpy(&header, *data, sizeof(header));
  const carnot_section metadata = header.metadata, weights = header.weights;
  const size_t bytes = header.metadata_bytes,
               begin = (sizeof(header) + bytes + CARNOT_PAGE_BYTES - 1) / CARNOT_PAGE_BYTES *
                       CARNOT_PAGE_BYTES;
  if (metadata.bytes == bytes) return;
  uint8_t* plain = calloc(1, begin + weights.bytes);
  const uint8_t* packed = *data;
  LZ4_decompress_safe((const char*)packed + metadata.offset, (char*)plain + sizeof(header),
                      (int)metadata.bytes, (int)bytes);
  memcpy(plain + begin, packed + weights.offset, weights.bytes);
  header.metadata = (carnot_section){sizeof(header), bytes, 0};
  header.weights.offset = begin;
  memcpy(plain, &header, sizeof(header));
  free(*data);
  *data = plain, *size = begin + weights.bytes;
  mutation_fix_hashes(plain, *size);
}

static bool is_late(void* user) {
  const clock_t* end = user;
  return clock() > *end;
}

// Dimensions at the profile's optimum; small ones without a profile.
static bool choose_dims(const carnot_plan_binding* b, uint32_t profile, carnot_tensor* t) {
  uint64_t count = 16;
  for (int d = 0; d < b->rank; d++) {
    int64_t dim =
        b->dims[d] >= 0 ? b->dims[d] : b->ranges[profile * (uint32_t)b->rank + (uint32_t)d].opt;
    if (dim < 0 || dim > INPUT_LIMIT) return false;
    t->dims[d] = dim;
    count *= (uint64_t)dim ? (uint64_t)dim : 1;
    if (count > INPUT_LIMIT) return false;
  }
  return true;
}

static carnot_status* set_inputs(carnot_context* context, void* data) {
  for (uint32_t i = 0; i < context->plan->binding_count; i++) {
    const carnot_plan_binding* b = &context->plan->bindings[i];
    if (!b->is_input) continue;
    carnot_rt_value cell = {.kind = CARNOT_VALUE_TENSOR,
                            .tensor = {.dtype = b->dtype, .rank = b->rank, .data = data}};
    CARNOT_CHECK(b->rank >= 0 && b->dtype != CARNOT_DTYPE_STRING &&
                     choose_dims(b, context->profile, &cell.tensor),
                 UNSUPPORTED, "input %u is not tried", i);
    CARNOT_TRY(carnot_context_set_input_cell(context, i, &cell));
  }
  return NULL;
}

bool mutation_try(const uint8_t* data, size_t size) {
  carnot_engine* engine = NULL;
  carnot_context* context = NULL;
  clock_t end = clock() + CLOCKS_PER_SEC / 2;
  carnot_context_options options = {.isa = -1,
                                    .memory_limit_bytes = MEMORY_LIMIT,
                                    .host_io = getenv("CARNOT_TEST_DEVICE") != NULL};
  uint8_t* input = calloc(1, INPUT_LIMIT);
  for (size_t i = 0; i < 64; i++) input[i * 8] = 3;
  carnot_status* status = carnot_engine_load_memory(data, size, NULL, NULL, &engine);
  if (!status) status = carnot_context_create_on(engine, &options, &context);
  if (context) {
    context->hooks.cancel = is_late;
    context->hooks.cancel_user = &end;
  }
  if (!status) status = set_inputs(context, input);
  if (!status) status = carnot_context_run_now(context);
  bool ran = !status;
  carnot_status_free(status);
  carnot_context_free(context);
  carnot_engine_release(engine);
  free(input);
  return ran;
}
