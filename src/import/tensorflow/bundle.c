// Reads tensor bundles. Source: tensorflow/core/protobuf/tensor_bundle.proto,
// tensorflow/core/util/tensor_bundle.
#include "import/tensorflow/bundle.h"

#include <string.h>

#include "import/tensorflow/bundle_slice.h"
#include "import/tensorflow/importer.h"
#include "import/tensorflow/sorted_table.h"

typedef struct bundle_header {
  uint64_t present;
  int64_t shard_count, endianness;
} bundle_header;
static const carnot_pb_field kHeader[] = {CARNOT_PB_ONE(bundle_header, shard_count, 1, INT),
                                          CARNOT_PB_ONE(bundle_header, endianness, 2, INT)};
static const carnot_pb_message kHeaderMessage = {"BundleHeaderProto",
                                                 sizeof(bundle_header),
                                                 kHeader,
                                                 sizeof(kHeader) / sizeof(kHeader[0]),
                                                 NULL,
                                                 NULL};

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
static const carnot_pb_message kEntryMessage = {"BundleEntryProto",
                                                sizeof(bundle_entry),
                                                kEntry,
                                                sizeof(kEntry) / sizeof(kEntry[0]),
                                                NULL,
                                                NULL};

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

// The dimensions and the type of an entry, and the bytes that its elements take.
static carnot_status* read_type(const bundle_entry* e, carnot_tensor* t, size_t* out_bytes) {
  t->dtype = tf_dtype(e->dtype);
  CARNOT_CHECK(t->dtype != CARNOT_DTYPE_INVALID && t->dtype != CARNOT_DTYPE_STRING, UNSUPPORTED,
               "elements of %s are not supported", tf_dtype_name(e->dtype));
  const size_t rank = e->shape ? e->shape->dim.count : 0;
  CARNOT_CHECK(rank <= CARNOT_MAX_RANK, UNSUPPORTED, "%zu dimensions; at most %d are supported",
               rank, CARNOT_MAX_RANK);
  t->rank = (int)rank;
  for (size_t i = 0; i < rank; i++) t->dims[i] = e->shape->dim.items[i].size;
  return carnot_dims_bytes(t->dtype, t->dims, t->rank, out_bytes);
}

static carnot_status* read_tensor(tf_bundle* bundle, const bundle_entry* e, carnot_arena* arena,
                                  carnot_tensor* t) {
  carnot_strview bytes;
  size_t needed = 0;
  CARNOT_TRY(read_type(e, t, &needed));
  CARNOT_CHECK(e->size >= 0 && (uint64_t)e->size == needed, INVALID_MODEL,
               "%lld bytes where the dimensions ask for %zu", (long long)e->size, needed);
  CARNOT_TRY(find_bytes(bundle, e, &bytes));
  CARNOT_CHECK(
      !bundle->is_verified || tf_masked_checksum(bytes.data, bytes.size) == (uint32_t)e->checksum,
      INVALID_MODEL, "the checksum of its elements differs");
  return import_files_take(bundle->files, bytes, (size_t)carnot_dtype_bits(t->dtype) / 8, arena,
                           &t->data);
}

// ---- variables in parts ----

// Each element lies in the files once, so what is joined takes about as much as they do; a part
// that several variables share takes more.
static carnot_status* take_memory(tf_bundle* bundle, size_t bytes, carnot_arena* arena,
                                  void** out) {
  size_t most = 0;
  for (size_t i = 0; i < bundle->files->count; i++) most += bundle->files->maps[i].size;
  most = most <= SIZE_MAX / 16 ? 16 * most : SIZE_MAX;
  CARNOT_CHECK(bytes <= most && bundle->joined_bytes <= most - bytes, INVALID_MODEL,
               "its %zu bytes are more than the files hold", bytes);
  bundle->joined_bytes += bytes;
  return carnot_arena_try(arena, bytes + 1, 1, "a variable in parts", out);
}

static carnot_status* find_part(tf_bundle* bundle, const bundle_entry* whole, carnot_strview key,
                                size_t index, carnot_arena* arena, tf_slice* out_slice,
                                carnot_tensor* out_part) {
  tf_slice stored;
  CARNOT_TRY(tf_slice_read_wire(whole->slices.items[index], bundle->arena, &stored));
  const carnot_strview part_key = tf_slice_key(key, &stored, bundle->arena);
  CARNOT_TRY(carnot_arena_status(bundle->arena));
  const import_name_slot* found = import_name_map_find(&bundle->entries, part_key);
  CARNOT_CHECK(found, INVALID_MODEL, "part %zu of it is no entry", index);
  const bundle_entry* e = found->item;
  CARNOT_CHECK(e->dtype == whole->dtype && !e->slices.count, INVALID_MODEL,
               "part %zu of it has another type", index);
  CARNOT_TRY_AT(read_tensor(bundle, e, arena, out_part), "part %zu", index);
  *out_slice = stored;
  return NULL;
}

// The part |wanted| of a variable of type |t|, from the parts that are stored.
static carnot_status* join(tf_bundle* bundle, const bundle_entry* e, carnot_strview key,
                           const carnot_tensor* whole, const tf_slice* wanted, carnot_arena* arena,
                           carnot_tensor* t) {
  const size_t item = (size_t)carnot_dtype_bits(t->dtype) / 8;
  int64_t found = 0;
  t->data = NULL;
  for (size_t i = 0; i < e->slices.count; i++) {
    tf_slice stored;
    carnot_tensor part = {0};
    void* memory;
    CARNOT_TRY(find_part(bundle, e, key, i, arena, &stored, &part));
    CARNOT_TRY_AT(tf_slice_fit(&stored, whole->dims, whole->rank), "part %zu", i);
    for (int d = 0; d < part.rank; d++)
      CARNOT_CHECK(part.rank == stored.rank && part.dims[d] == stored.size[d], INVALID_MODEL,
                   "part %zu: the dimensions of its entry differ", i);
    if (tf_slice_equal(&stored, wanted)) {
      t->data = part.data;
      return NULL;
    }
    if (!t->data) {
      CARNOT_TRY(take_memory(bundle, (size_t)carnot_tensor_count(t) * item, arena, &memory));
      t->data = memory;
    }
    found += tf_slice_copy(&stored, part.data, wanted, t->data, item);
  }
  CARNOT_CHECK(found == carnot_tensor_count(t), INVALID_MODEL,
               "its parts hold %lld elements of %lld", (long long)found,
               (long long)carnot_tensor_count(t));
  return NULL;
}

static carnot_status* read_part(tf_bundle* bundle, const bundle_entry* e, carnot_strview key,
                                carnot_strview slice, carnot_arena* arena, carnot_tensor* out) {
  carnot_tensor whole = {0};
  size_t bytes = 0;
  tf_slice all, wanted;
  void* memory;
  CARNOT_TRY(read_type(e, &whole, &bytes));
  all = (tf_slice){.rank = whole.rank};
  for (int i = 0; i < whole.rank; i++) all.size[i] = -1;
  wanted = all;
  if (slice.size) CARNOT_TRY(tf_slice_read_text(slice, &wanted));
  CARNOT_TRY(tf_slice_fit(&all, whole.dims, whole.rank));
  CARNOT_TRY(tf_slice_fit(&wanted, whole.dims, whole.rank));
  *out = whole;
  for (int i = 0; i < whole.rank; i++) out->dims[i] = wanted.size[i];
  if (e->slices.count) return join(bundle, e, key, &whole, &wanted, arena, out);
  CARNOT_TRY(read_tensor(bundle, e, arena, &whole));
  out->data = whole.data;
  if (tf_slice_equal(&all, &wanted)) return NULL;
  const size_t item = (size_t)carnot_dtype_bits(whole.dtype) / 8;
  CARNOT_TRY(take_memory(bundle, (size_t)carnot_tensor_count(out) * item, arena, &memory));
  out->data = memory;
  (void)tf_slice_copy(&all, whole.data, &wanted, out->data, item);
  return NULL;
}

carnot_status* tf_bundle_tensor(tf_bundle* bundle, carnot_strview key, carnot_strview slice,
                                carnot_arena* arena, carnot_tensor* out_tensor) {
  const import_name_slot* found = import_name_map_find(&bundle->entries, key);
  *out_tensor = (carnot_tensor){0};
  CARNOT_CHECK(found, INVALID_MODEL, "%s.index holds no \"" CARNOT_VIEW_FMT "\"", bundle->prefix,
               CARNOT_VIEW_ARG(key));
  return carnot_status_annotate(read_part(bundle, found->item, key, slice, arena, out_tensor),
                                "variable \"" CARNOT_VIEW_FMT "\"", CARNOT_VIEW_ARG(key));
}
