// File → engine. Nothing of the file is trusted: metadata are copied before they are looked at.
#include <lz4.h>
#include <stdlib.h>

#include "base/hash.h"
#include "engine/codec.h"
#include "engine/engine.h"
#include "engine/header.h"
#include "engine/plugins.h"
#include "engine/read_weights.h"

static carnot_status* check_section(const carnot_section* section, uint64_t size,
                                    const char* name) {
  CARNOT_CHECK(section->offset <= size && section->bytes <= size - section->offset, INVALID_MODEL,
               "the engine's %s lie at [%llu, +%llu), outside its %llu bytes", name,
               (unsigned long long)section->offset, (unsigned long long)section->bytes,
               (unsigned long long)size);
  return NULL;
}

static carnot_status* check_header(const void* data, size_t size, carnot_header* out) {
  CARNOT_CHECK(size >= sizeof(*out), INVALID_MODEL,
               "an engine has a header of %zu bytes, the file has %zu", sizeof(*out), size);
  memcpy(out, data, sizeof(*out));
  CARNOT_CHECK(memcmp(out->magic, CARNOT_ENGINE_MAGIC, 8) == 0, INVALID_MODEL,
               "this is no Carnot engine");
  CARNOT_CHECK(out->version == CARNOT_ENGINE_VERSION, VERSION_MISMATCH,
               "the engine has format version %u, this runtime reads %d: build it again",
               out->version, CARNOT_ENGINE_VERSION);
  CARNOT_CHECK(out->hash == carnot_hash(out, offsetof(carnot_header, hash), 0), INVALID_MODEL,
               "the engine's header is damaged: its checksum is wrong");
  CARNOT_CHECK(out->file_bytes == size, INVALID_MODEL,
               "the engine states %llu bytes and has %zu: it was cut or grew",
               (unsigned long long)out->file_bytes, size);
  CARNOT_TRY(check_section(&out->metadata, size, "metadata"));
  CARNOT_TRY(check_section(&out->weights, size, "weights"));
  // A byte makes at most 255.
  CARNOT_CHECK(out->metadata_bytes / 256 <= out->metadata.bytes &&
                   out->metadata_bytes >= out->metadata.bytes,
               INVALID_MODEL, "the engine's metadata have %llu bytes for %llu compressed ones",
               (unsigned long long)out->metadata_bytes, (unsigned long long)out->metadata.bytes);
  CARNOT_CHECK(out->weights.offset % CARNOT_BLOB_ALIGNMENT == 0, INVALID_MODEL,
               "the engine's weights are not aligned");
  CARNOT_CHECK(
      out->metadata_bytes == out->metadata.bytes || out->metadata_bytes <= LZ4_MAX_INPUT_SIZE,
      INVALID_MODEL, "the engine's metadata have %llu bytes, compressed ones up to %d",
      (unsigned long long)out->metadata_bytes, LZ4_MAX_INPUT_SIZE);
  return NULL;
}

static carnot_status* place_text(carnot_plan* plan, carnot_plan_blob* blob, const char* at) {
  uint64_t left = blob->bytes;
  size_t count = (size_t)carnot_tensor_count(&blob->tensor);
  CARNOT_CHECK(count <= left / 4, INVALID_MODEL, "text constant of %zu items in %llu bytes", count,
               (unsigned long long)left);
  void* memory;
  CARNOT_TRY(
      carnot_arena_try(&plan->arena, count + 1, sizeof(carnot_strview), "text constants", &memory));
  carnot_strview* views = memory;
  for (size_t i = 0; i < count; i++) {
    uint32_t size = 0;
    if (left >= 4) memcpy(&size, at, 4);
    CARNOT_CHECK(left >= 4 && size <= left - 4, INVALID_MODEL, "text constant: item %zu is cut", i);
    views[i] = (carnot_strview){carnot_arena_text(&plan->arena, at + 4, size), size};
    at += 4 + size;
    left -= 4 + size;
  }
  blob->tensor.data = views;
  return NULL;
}

// Points the blobs at their bytes.
static carnot_status* place_blobs(carnot_plan* plan, const carnot_header* header,
                                  const char* base) {
  for (uint32_t i = 0; i < plan->blob_count; i++) {
    carnot_plan_blob* blob = &plan->blobs[i];
    CARNOT_CHECK(blob->offset <= header->weights.bytes &&
                     blob->bytes <= header->weights.bytes - blob->offset,
                 INVALID_MODEL, "weight %u (%s) lies outside the weights", i, blob->name);
    CARNOT_CHECK(blob->offset % CARNOT_BLOB_ALIGNMENT == 0, INVALID_MODEL,
                 "weight %u (%s) is not aligned", i, blob->name);
    const char* data = base + header->weights.offset + blob->offset;
    size_t bytes;
    CARNOT_TRY_AT(
        carnot_dims_bytes(blob->tensor.dtype, blob->tensor.dims, blob->tensor.rank, &bytes),
        "weight %u (%s)", i, blob->name);
    if (blob->dropped || (plan->stripped && blob->bytes == 0)) {
      blob->tensor.data = NULL;
    } else if (blob->tensor.dtype == CARNOT_DTYPE_STRING) {
      CARNOT_TRY(place_text(plan, blob, data));
    } else {
      CARNOT_CHECK(bytes == blob->bytes, INVALID_MODEL,
                   "weight %u (%s) has %llu bytes, its shape takes %zu", i, blob->name,
                   (unsigned long long)blob->bytes, bytes);
      blob->tensor.data = (void*)data;
    }
  }
  return NULL;
}

static carnot_status* first_weights(const carnot_plan* plan, carnot_weights** out_weights) {
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_weights), "weights", &memory));
  carnot_weights* weights = memory;
  weights->references = 1;
  carnot_status* status = carnot_calloc(plan->blob_count, sizeof(void*), "weights", &memory);
  if (status) {
    free(weights);
    return status;
  }
  weights->data = memory;
  for (uint32_t i = 0; i < plan->blob_count; i++) weights->data[i] = plan->blobs[i].tensor.data;
  *out_weights = weights;
  return NULL;
}

static carnot_status* finish(carnot_engine* engine) {
  CARNOT_TRY(carnot_plan_verify(engine->plan));
  CARNOT_TRY(carnot_plan_check_plugins(engine->plan));
  return first_weights(engine->plan, &engine->weights);
}

static carnot_status* create(carnot_engine** out_engine) {
  *out_engine = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_engine), "an engine", &memory));
  *out_engine = memory;
  (*out_engine)->references = 1;
  pthread_mutex_init(&(*out_engine)->mutex, NULL);
  return NULL;
}

static carnot_status* decode(const carnot_header* header, const void* metadata,
                             carnot_plan** out_plan) {
  const size_t stored = header->metadata.bytes, size = header->metadata_bytes;
  if (stored == size) return carnot_plan_decode(metadata, size, out_plan);
  void* memory;
  CARNOT_TRY(carnot_calloc(size, 1, "decompressed metadata", &memory));
  const int made = LZ4_decompress_safe(metadata, memory, (int)stored, (int)size);
  carnot_status* status =
      made == (int)size
          ? carnot_plan_decode(memory, size, out_plan)
          : carnot_status_make(CARNOT_INVALID_MODEL, __FILE__, __LINE__,
                               "the engine's metadata are damaged: %zu compressed bytes do not "
                               "make %zu",
                               stored, size);
  free(memory);
  return status;
}

// Reads the engine at |data|, which stays where it is.
static carnot_status* read_engine(carnot_engine* engine, const void* data, size_t size) {
  carnot_header header;
  CARNOT_TRY(check_header(data, size, &header));
  const char* base = data;
  const void* metadata = base + header.metadata.offset;
  CARNOT_CHECK(carnot_hash(metadata, header.metadata.bytes, 0) == header.metadata.hash,
               INVALID_MODEL, "the engine's metadata are damaged: their checksum is wrong");
  CARNOT_TRY(decode(&header, metadata, &engine->plan));
  engine->file_bytes = size;
  CARNOT_TRY(place_blobs(engine->plan, &header, base));
  return finish(engine);
}

static carnot_status* conclude(carnot_engine** engine, carnot_status* status) {
  if (!status) return NULL;
  carnot_engine_release(*engine);
  *engine = NULL;
  return status;
}

static carnot_status* read_mapping(carnot_engine* engine, const char* path) {
  return carnot_status_annotate(read_engine(engine, engine->mapping.data, engine->mapping.size),
                                "%s", path);
}

carnot_status* carnot_engine_load_file(const char* path, carnot_engine** out_engine) {
  CARNOT_TRY(create(out_engine));
  carnot_engine* engine = *out_engine;
  carnot_status* status = carnot_lease_file(path, &engine->mapping, &engine->lease);
  if (!status) status = read_mapping(engine, path);
  if (!status && engine->lease) status = carnot_engine_want_weights(engine);
  return conclude(out_engine, status);
}

carnot_status* carnot_engine_map_file(const char* path, carnot_engine** out_engine) {
  CARNOT_TRY(create(out_engine));
  carnot_engine* engine = *out_engine;
  carnot_status* status = carnot_map_file(path, &engine->mapping);
  if (!status) status = read_mapping(engine, path);
  return conclude(out_engine, status);
}

void carnot_engine_settle(carnot_engine* engine) { carnot_lease_settle(engine->lease); }

carnot_status* carnot_engine_load_memory(const void* data, size_t size,
                                         void (*release)(void* user, const void* data), void* user,
                                         carnot_engine** out_engine) {
  CARNOT_TRY(create(out_engine));
  carnot_engine* engine = *out_engine;
  carnot_status* status = NULL;
  if (release && (uintptr_t)data % CARNOT_BLOB_ALIGNMENT == 0) {
    engine->release = release;
    engine->release_user = user;
    engine->lent = data;
  } else {
    engine->memory =
        aligned_alloc(CARNOT_BLOB_ALIGNMENT, carnot_align_up(size + 1, CARNOT_BLOB_ALIGNMENT));
    if (!engine->memory) status = CARNOT_NO_MEMORY(size, "the engine");
    if (!status && size) memcpy(engine->memory, data, size);
    if (!status && release) release(user, data);
  }
  if (!status) status = read_engine(engine, engine->memory ? engine->memory : data, size);
  return conclude(out_engine, status);
}

carnot_status* carnot_engine_adopt(carnot_plan* plan, carnot_engine** out_engine) {
  carnot_status* status = create(out_engine);
  if (status) {
    carnot_plan_destroy(plan);
    return status;
  }
  carnot_engine* engine = *out_engine;
  engine->plan = plan;
  for (uint32_t i = 0; i < plan->blob_count; i++)
    plan->blobs[i].bytes = carnot_tensor_bytes(&plan->blobs[i].tensor);
  return conclude(out_engine, finish(engine));
}

// Frees a generation that nobody uses, and those before it that it alone kept. The engine's mutex
// is held.
static void free_weights(carnot_weights* weights) {
  while (weights && --weights->references == 0) {
    carnot_weights* previous = weights->previous;
    for (uint32_t i = 0; i < weights->owned_count; i++) free(weights->owned[i]);
    free(weights->owned);
    while (weights->uploads) {
      carnot_device_weights* upload = weights->uploads;
      weights->uploads = upload->next;
      upload->free(upload->device, upload->memory);
      free(upload->data);
      free(upload);
    }
    free(weights->data);
    free(weights);
    weights = previous;
  }
}

void carnot_engine_retain(carnot_engine* engine) {
  pthread_mutex_lock(&engine->mutex);
  engine->references++;
  pthread_mutex_unlock(&engine->mutex);
}

void carnot_engine_release(carnot_engine* engine) {
  if (!engine) return;
  pthread_mutex_lock(&engine->mutex);
  int left = --engine->references;
  pthread_mutex_unlock(&engine->mutex);
  if (left) return;
  free_weights(engine->weights);
  carnot_plan_destroy(engine->plan);
  carnot_lease_end(engine->lease);
  carnot_unmap(&engine->mapping);
  free(engine->memory);
  if (engine->release) engine->release(engine->release_user, engine->lent);
  pthread_mutex_destroy(&engine->mutex);
  free(engine);
}

carnot_weights* carnot_engine_take_weights(carnot_engine* engine) {
  pthread_mutex_lock(&engine->mutex);
  carnot_weights* weights = engine->weights;
  weights->references++;
  pthread_mutex_unlock(&engine->mutex);
  return weights;
}

void carnot_engine_drop_weights(carnot_engine* engine, carnot_weights* weights) {
  pthread_mutex_lock(&engine->mutex);
  free_weights(weights);
  pthread_mutex_unlock(&engine->mutex);
}

void carnot_engine_publish(carnot_engine* engine, carnot_weights* weights) {
  pthread_mutex_lock(&engine->mutex);
  carnot_weights* old = engine->weights;
  engine->weights = weights;
  free_weights(old);
  pthread_mutex_unlock(&engine->mutex);
}

carnot_status* carnot_engine_verify(carnot_engine* engine) {
  for (uint32_t i = 0; i < engine->plan->blob_count; i++) {
    const carnot_plan_blob* blob = &engine->plan->blobs[i];
    if (!blob->tensor.data || blob->tensor.dtype == CARNOT_DTYPE_STRING) continue;
    CARNOT_CHECK(carnot_hash(blob->tensor.data, blob->bytes, 0) == blob->hash, INVALID_MODEL,
                 "weight %u (%s) is damaged: its checksum is wrong", i, blob->name);
  }
  return NULL;
}
