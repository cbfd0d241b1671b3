// Reads tensor bundles. Source: tensorflow/core/protobuf/tensor_bundle.proto,
// tensorflow/core/util/tensor_bundle.
#include "import/tensorflow/bundle.h"

#include <string.h>

#include "import/tensorflow/importer.h"
#include "import/tensorflow/sorted_table.h"

typedef struct bundle_header {
  uint64_t present;
  int64_t shard_count, endianness;
} bundle_header;
static const carnot_pb_field kHeader[] = {CARNOT_PB_ONE(bundle_header, shard_count, 1, INT),
                                          CARNOT_PB_ONE(bundle_header, endianness, 2, INT)};
static const carnot_pb_message kHeaderMessage = {"BundleHeaderProto", sizeof(bundle_header),
                                                 kHeader, sizeof(kHeader) / sizeof(kHeader[0])};

typedef struct bundle_entry {
  uint64_t present;
  int64_t dtype;
  tf_shape* shape;
  int64_t shard, offset, size, checksum;
  tf_text_list slices;  // of a variable that is kept in parts
} bundle_entry;
static const carnot_pb_field kEntry[] = {
    CARNOT_PB_ONE(bundle_entry, dtype, 1, INT),
    CARNOT_PB_SUB(bundle_entry, shape, 2, &carnot_tf_shape_message),
    CARNOT_PB_ONE(bundle_entry, shard, 3, INT),
    CARNOT_PB_ONE(bundle_entry, offset, 4, INT),
    CARNOT_PB_ONE(bundle_entry, size, 5, INT),
    CARNOT_PB_ONE(bundle_entry, checksum, 6, INT),
    CARNOT_PB_MANY(bundle_entry, slices, 7, TEXT)};
static const carnot_pb_message kEntryMessage = {"BundleEntryProto", sizeof(bundle_entry), kEntry,
                                                sizeof(kEntry) / sizeof(kEntry[0])};

static carnot_status* take_header(tf_bundle* bundle, carnot_strview value) {
  bundle_header header = {0};
  CARNOT_TRY(carnot_pb_read_wire(&kHeaderMessage, value.data, value.size, bundle->arena, &header));
  CARNOT_CHECK(header.shard_count >= 1 && header.shard_count <= 99999, INVALID_MODEL,
               "%lld shards; 1 to 99999 are possible", (long long)header.shard_count);
  CARNOT_CHECK(header.endianness == 0, UNSUPPORTED, "the bundle is big-endian");
  bundle->shard_count = header.shard_count;
  return NULL;
}

// The header has the empty key, which comes first.
static carnot_status* take_entry(void* context, carnot_strview key, carnot_strview value) {
  tf_bundle* bundle = context;
  void* entry;
  if (!key.size) return take_header(bundle, value);
  CARNOT_CHECK(key.size <= bundle->key_bytes, OUT_OF_RANGE,
               "keys take more than 64 times the table's size");
  bundle->key_bytes -= key.size;
  CARNOT_TRY(carnot_arena_try(bundle->arena, 1, sizeof(bundle_entry), "an entry", &entry));
  CARNOT_TRY_AT(carnot_pb_read_wire(&kEntryMessage, value.data, value.size, bundle->arena, entry),
                "entry \"" CARNOT_VIEW_FMT "\"", CARNOT_VIEW_ARG(key));
  const char* kept = carnot_arena_text(bundle->arena, key.data, key.size);
  CARNOT_TRY(carnot_arena_status(bundle->arena));
  import_name_map_set(&bundle->entries, (carnot_strview){kept, key.size}, entry);
  return carnot_arena_status(bundle->arena);
}

carnot_status* tf_bundle_read_index(tf_bundle* bundle, carnot_strview bytes) {
  bundle->entries.arena = bundle->arena;
  bundle->key_bytes = bytes.size <= SIZE_MAX / 64 ? 64 * bytes.size : SIZE_MAX;
  CARNOT_TRY(tf_table_each(bytes, take_entry, bundle));
  CARNOT_CHECK(bundle->shard_count, INVALID_MODEL, "the bundle has no header");
  return NULL;
}

carnot_status* tf_bundle_open(tf_bundle* bundle, import_files* files, carnot_arena* arena,
                              const char* prefix) {
  carnot_strview bytes;
  *bundle = (tf_bundle){.files = files, .arena = arena, .prefix = prefix};
  const char* name = carnot_arena_print(arena, "%s.index", prefix);
  CARNOT_TRY(carnot_arena_status(arena));
  CARNOT_TRY(import_files_external(files, carnot_view(name), &bytes));
  CARNOT_TRY_AT(tf_bundle_read_index(bundle, bytes), "%s", name);
  return NULL;
}

bool tf_bundle_has(const tf_bundle* bundle, carnot_strview key) {
  return import_name_map_find(&bundle->entries, key) != NULL;
}

static carnot_status* find_bytes(tf_bundle* bundle, const bundle_entry* e, carnot_strview* out) {
  carnot_strview shard;
  CARNOT_CHECK(e->shard >= 0 && e->shard < bundle->shard_count, INVALID_MODEL, "shard %lld of %lld",
               (long long)e->shard, (long long)bundle->shard_count);
  const char* name = carnot_arena_print(bundle->arena, "%s.data-%05lld-of-%05lld", bundle->prefix,
                                        (long long)e->shard, (long long)bundle->shard_count);
  CARNOT_TRY(carnot_arena_status(bundle->arena));
  CARNOT_TRY(import_files_external(bundle->files, carnot_view(name), &shard));
  CARNOT_CHECK(e->offset >= 0 && e->size >= 0 && (uint64_t)e->offset <= shard.size &&
                   (uint64_t)e->size <= shard.size - (uint64_t)e->offset,
               INVALID_MODEL, "%lld bytes at %lld of %s, which has %zu", (long long)e->size,
               (long long)e->offset, name, shard.size);
  *out = (carnot_strview){shard.data + e->offset, (size_t)e->size};
  return NULL;
}

static carnot_status* read_tensor(tf_bundle* bundle, const bundle_entry* e, carnot_arena* arena,
                                  carnot_tensor* t) {
  carnot_strview bytes;
  size_t needed = 0;
  t->dtype = tf_dtype(e->dtype);
  CARNOT_CHECK(t->dtype != CARNOT_DTYPE_INVALID && t->dtype != CARNOT_DTYPE_STRING, UNSUPPORTED,
               "elements of %s are not supported", tf_dtype_name(e->dtype));
  CARNOT_CHECK(!e->slices.count, UNSUPPORTED, "it is kept in %zu slices", e->slices.count);
  const size_t rank = e->shape ? e->shape->dim.count : 0;
  CARNOT_CHECK(rank <= CARNOT_MAX_RANK, UNSUPPORTED, "%zu dimensions; at most %d are supported",
               rank, CARNOT_MAX_RANK);
  t->rank = (int)rank;
  for (size_t i = 0; i < rank; i++) t->dims[i] = e->shape->dim.items[i].size;
  CARNOT_TRY(carnot_dims_bytes(t->dtype, t->dims, t->rank, &needed));
  CARNOT_CHECK(e->size >= 0 && (uint64_t)e->size == needed, INVALID_MODEL,
               "%lld bytes where the dimensions ask for %zu", (long long)e->size, needed);
  CARNOT_TRY(find_bytes(bundle, e, &bytes));
  CARNOT_CHECK(
      !bundle->is_verified || tf_masked_checksum(bytes.data, bytes.size) == (uint32_t)e->checksum,
      INVALID_MODEL, "the checksum of its elements differs");
  return import_files_take(bundle->files, bytes, (size_t)carnot_dtype_bits(t->dtype) / 8, arena,
                           &t->data);
}

carnot_status* tf_bundle_tensor(tf_bundle* bundle, carnot_strview key, carnot_arena* arena,
                                carnot_tensor* out_tensor) {
  const import_name_slot* found = import_name_map_find(&bundle->entries, key);
  *out_tensor = (carnot_tensor){0};
  CARNOT_CHECK(found, INVALID_MODEL, "%s.index holds no \"" CARNOT_VIEW_FMT "\"", bundle->prefix,
               CARNOT_VIEW_ARG(key));
  return carnot_status_annotate(read_tensor(bundle, found->item, arena, out_tensor),
                                "variable \"" CARNOT_VIEW_FMT "\"", CARNOT_VIEW_ARG(key));
}
