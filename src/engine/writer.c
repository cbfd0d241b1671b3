// Plan → file.
#include <lz4hc.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/codec.h"
#include "engine/engine.h"
#include "engine/header.h"

typedef struct image {
  carnot_header header;
  void *metadata, *packed;  // |packed|: the metadata and the inspector's text, or NULL
  carnot_piece* pieces;
  size_t piece_count;
  uint64_t bytes;
} image;

static const char kZeros[CARNOT_PAGE_BYTES];

// Text as lengths and bytes, since pointers cannot be stored.
static carnot_status* flatten_text(carnot_plan_blob* blob, carnot_arena* arena) {
  const carnot_strview* views = blob->tensor.data;
  size_t count = (size_t)carnot_tensor_count(&blob->tensor), bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += 4 + views[i].size;
  void* memory;
  CARNOT_TRY(carnot_arena_try(arena, bytes + 1, 1, "text constants", &memory));
  char* at = memory;
  for (size_t i = 0; i < count; i++) {
    uint32_t size = (uint32_t)views[i].size;
    memcpy(at, &size, 4);
    if (size) memcpy(at + 4, views[i].data, size);
    at += 4 + size;
  }
  blob->tensor.data = memory;
  blob->bytes = bytes;
  return NULL;
}

// Places the blobs and hashes them.
static carnot_status* place_blobs(carnot_plan* plan, uint64_t* out_bytes) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < plan->blob_count; i++) {
    carnot_plan_blob* blob = &plan->blobs[i];
    if (blob->dropped) blob->tensor.data = NULL;
    bool absent = blob->dropped || (plan->stripped && !blob->tensor.data);
    blob->bytes = absent ? 0 : carnot_tensor_bytes(&blob->tensor);
    if (blob->tensor.dtype == CARNOT_DTYPE_STRING && !absent)
      CARNOT_TRY(flatten_text(blob, &plan->arena));
    blob->offset = at;
    blob->hash = carnot_hash(blob->tensor.data, blob->bytes, 0);
    at = carnot_align_up(at + blob->bytes, CARNOT_BLOB_ALIGNMENT);
  }
  *out_bytes = at;
  return NULL;
}

static void add_piece(image* out, const void* data, size_t size) {
  if (!size) return;
  out->pieces[out->piece_count++] = (carnot_piece){data, size};
  out->bytes += size;
}

// The metadata and the text behind them, compressed (LZ4), to out->packed, where that makes them
// smaller.
static carnot_status* compress(const void* metadata, size_t bytes, const char* text,
                               size_t text_bytes, image* out, size_t* out_bytes) {
  void *both, *packed;
  const size_t all = *out_bytes = bytes + text_bytes;
  if (all > LZ4_MAX_INPUT_SIZE) return NULL;
  CARNOT_TRY(carnot_calloc(all, 1, "metadata", &both));
  carnot_status* status = carnot_calloc(all, 1, "compressed metadata", &packed);
  if (!status) {
    memcpy(both, metadata, bytes);
    if (text_bytes) memcpy((char*)both + bytes, text, text_bytes);
    const int size = LZ4_compress_HC(both, packed, (int)all, (int)all - 1, LZ4HC_CLEVEL_DEFAULT);
    if (size > 0)  // else there is no room
      out->packed = packed, *out_bytes = (size_t)size;
    else
      free(packed);
  }
  free(both);
  return status;
}

// Places the header, the metadata and the text.
static carnot_status* add_metadata(carnot_plan* plan, uint64_t weight_bytes, image* out) {
  size_t metadata_bytes, stored;
  CARNOT_TRY(carnot_plan_encode(plan, &out->metadata, &metadata_bytes));
  const char* text = plan->inspector ? plan->inspector : "";
  const size_t text_bytes = strlen(text);
  CARNOT_TRY(compress(out->metadata, metadata_bytes, text, text_bytes, out, &stored));
  const size_t weights_at = carnot_align_up(sizeof(carnot_header) + stored, CARNOT_PAGE_BYTES);
  const uint64_t hash = out->packed
                            ? carnot_hash(out->packed, stored, 0)
                            : carnot_hash_pair(out->metadata, metadata_bytes, text, text_bytes, 0);
  out->header = (carnot_header){.magic = CARNOT_ENGINE_MAGIC,
                                .version = CARNOT_ENGINE_VERSION,
                                .file_bytes = weights_at + weight_bytes,
                                .metadata = {sizeof(carnot_header), stored, hash},
                                .weights = {weights_at, weight_bytes, 0},
                                .metadata_bytes = metadata_bytes + text_bytes};
  out->header.hash = carnot_hash(&out->header, offsetof(carnot_header, hash), 0);
  add_piece(out, &out->header, sizeof(out->header));
  if (out->packed) {
    add_piece(out, out->packed, stored);
  } else {
    add_piece(out, out->metadata, metadata_bytes);
    add_piece(out, text, text_bytes);
  }
  add_piece(out, kZeros, weights_at - out->bytes);
  return NULL;
}

static void free_image(image* out) {
  free(out->metadata);
  free(out->packed);
  free(out->pieces);
}

// The pieces point into |out|, which stays where it is.
static carnot_status* make_image(carnot_plan* plan, image* out) {
  *out = (image){0};
  uint64_t weight_bytes;
  void* pieces;
  CARNOT_TRY(place_blobs(plan, &weight_bytes));
  CARNOT_TRY(
      carnot_calloc(plan->blob_count * 2 + 5, sizeof(carnot_piece), "the engine's parts", &pieces));
  out->pieces = pieces;
  carnot_status* status = add_metadata(plan, weight_bytes, out);
  if (status) {
    free_image(out);
    return status;
  }
  for (uint32_t i = 0; i < plan->blob_count; i++) {
    const carnot_plan_blob* blob = &plan->blobs[i];
    add_piece(out, blob->tensor.data, blob->bytes);
    add_piece(out, kZeros, carnot_align_up(blob->bytes, CARNOT_BLOB_ALIGNMENT) - blob->bytes);
  }
  return NULL;
}

carnot_status* carnot_plan_write_file(carnot_plan* plan, const char* path) {
  image file;
  CARNOT_TRY(make_image(plan, &file));
  carnot_status* status = carnot_write_file(path, file.pieces, file.piece_count);
  free_image(&file);
  return status;
}

carnot_status* carnot_plan_write_memory(carnot_plan* plan, void** out_data, size_t* out_size) {
  *out_data = NULL;
  *out_size = 0;
  image file;
  CARNOT_TRY(make_image(plan, &file));
  char* data =
      aligned_alloc(CARNOT_BLOB_ALIGNMENT, carnot_align_up(file.bytes, CARNOT_BLOB_ALIGNMENT));
  if (data) {
    *out_data = data;
    *out_size = file.bytes;
    for (size_t i = 0; i < file.piece_count; i++) {
      memcpy(data, file.pieces[i].data, file.pieces[i].size);
      data += file.pieces[i].size;
    }
  }
  free_image(&file);
  return *out_data ? NULL : CARNOT_NO_MEMORY(file.bytes, "the engine");
}
