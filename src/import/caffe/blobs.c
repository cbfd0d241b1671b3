// Weights: BlobProto in its forms as tensors of float32, and their place in layers.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "import/caffe/importer.h"

static carnot_status* read_dims(const caffe_blob* blob, carnot_tensor* tensor, size_t* out_bytes) {
  tensor->dtype = CARNOT_DTYPE_F32;
  if (blob->shape) {
    const caffe_int_list* dims = &blob->shape->dim;
    CARNOT_CHECK(dims->count <= CARNOT_MAX_RANK, UNSUPPORTED,
                 "a blob of %zu dimensions where at most %d are supported", dims->count,
                 CARNOT_MAX_RANK);
    tensor->rank = (int)dims->count;
    for (int i = 0; i < tensor->rank; i++) tensor->dims[i] = dims->items[i];
  } else {
    const int64_t dims[4] = {blob->num, blob->channels, blob->height, blob->width};
    tensor->rank = 4;
    memcpy(tensor->dims, dims, sizeof(dims));
  }
  return carnot_dims_bytes(tensor->dtype, tensor->dims, tensor->rank, out_bytes);
}

// What holds the elements: the bytes and the type of each.
static carnot_strview elements_of(const caffe_blob* blob, carnot_dtype* out_dtype) {
  static const carnot_dtype kRaw[] = {CARNOT_DTYPE_F64, CARNOT_DTYPE_F32, CARNOT_DTYPE_F16};
  *out_dtype = CARNOT_DTYPE_F32;
  if (blob->double_data.size) {
    *out_dtype = CARNOT_DTYPE_F64;
    return blob->double_data;
  }
  if (!blob->raw_data.size) return blob->data;
  *out_dtype = blob->raw_data_type >= 0 && blob->raw_data_type <= CAFFE_RAW_HALF
                   ? kRaw[blob->raw_data_type]
                   : CARNOT_DTYPE_INVALID;
  return blob->raw_data;
}

carnot_status* caffe_blob_read(const caffe_blob* blob, import_files* files, carnot_arena* arena,
                               carnot_tensor* out_tensor) {
  carnot_tensor tensor = {0};
  size_t bytes = 0;
  carnot_dtype dtype;
  CARNOT_TRY(read_dims(blob, &tensor, &bytes));
  const carnot_strview from = elements_of(blob, &dtype);
  CARNOT_CHECK(dtype != CARNOT_DTYPE_INVALID, UNSUPPORTED,
               "raw_data of type %lld; floats of 64, 32 and 16 bits are supported",
               (long long)blob->raw_data_type);
  const size_t count = bytes / sizeof(float), item = (size_t)carnot_dtype_bits(dtype) / 8;
  CARNOT_CHECK(from.size == count * item, INVALID_MODEL,
               "a blob of %zu elements; its dimensions ask for %zu", from.size / item, count);
  *out_tensor = tensor;
  if (dtype == CARNOT_DTYPE_F32)
    return import_files_take(files, from, sizeof(float), arena, &out_tensor->data);
  CARNOT_TRY(carnot_arena_try(arena, count + 1, sizeof(float), "weights", &out_tensor->data));
  float* to = out_tensor->data;
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = 0;  // the bytes may not be aligned
    memcpy(&bits, from.data + i * item, item);
    to[i] = (float)carnot_load_f64(dtype, &bits, 0);
  }
  return NULL;
}

// ---- the weights of a layer ----

bool caffe_has_blob(const caffe_import* n, size_t i) { return n->blobs && i < n->blobs->count; }

void caffe_expect_blobs(caffe_import* n, size_t count) {
  if (n->blobs && n->blobs->count != count)
    CAFFE_FAIL(n, INVALID_MODEL, "the caffemodel holds %zu blobs for the layer; %zu are required",
               n->blobs->count, count);
}

// Equal but for leading ones.
static bool same_dims(const carnot_tensor* t, const int64_t* dims, int rank) {
  int skip = 0, skip_wanted = 0;
  while (skip < t->rank && t->dims[skip] == 1) skip++;
  while (skip_wanted < rank && dims[skip_wanted] == 1) skip_wanted++;
  if (t->rank - skip != rank - skip_wanted) return false;
  return memcmp(t->dims + skip, dims + skip_wanted, (size_t)(rank - skip_wanted) * sizeof(*dims)) ==
         0;
}

static const char* dims_text(caffe_import* n, const int64_t* dims, int rank) {
  char text[256] = "[";
  size_t used = 1;
  for (int i = 0; i < rank && used < sizeof(text) - 24; i++)
    used += (size_t)snprintf(text + used, sizeof(text) - used, i ? ",%lld" : "%lld",
                             (long long)dims[i]);
  snprintf(text + used, sizeof(text) - used, "]");
  return carnot_arena_text(n->node.arena, text, strlen(text));
}

// Uniform in +-sqrt(3 / fan_in), the same for the same layer and blob.
static void fill_random(caffe_import* n, size_t blob, int64_t fan_in, float* out, size_t count) {
  uint64_t state = n->importer->options.seed + blob + 1;
  for (size_t i = 0; i < n->layer->name.size; i++)
    state = state * 1099511628211u + (unsigned char)n->layer->name.data[i];
  const float range = sqrtf(3.0f / (float)(fan_in > 0 ? fan_in : 1));
  for (size_t i = 0; i < count; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    out[i] = fan_in ? ((float)(state >> 40) / (float)(1 << 23) - 1) * range : 1;
  }
}

static bool read_blob(caffe_import* n, size_t i, carnot_tensor* out_tensor) {
  carnot_model_source* source = n->importer->source;
  if (n->node.status) return false;
  n->node.status = caffe_blob_read(&n->blobs->items[i], &source->files, &source->arena, out_tensor);
  if (n->node.status) n->node.status = carnot_status_annotate(n->node.status, "blob %zu", i);
  return !n->node.status;
}

// A constant that is called after the layer and the blob's number.
static carnot_value* constant_of(caffe_import* n, size_t i, const carnot_tensor* tensor) {
  const char* name =
      carnot_arena_print(n->node.arena, CARNOT_VIEW_FMT ".%zu", CARNOT_VIEW_ARG(n->layer->name), i);
  name = import_unique_name(&n->importer->state, "", carnot_view(name));
  return carnot_graph_constant(n->node.block, name, tensor);
}

carnot_value* caffe_blob_constant(caffe_import* n, size_t i) {
  carnot_tensor tensor;
  return read_blob(n, i, &tensor) ? constant_of(n, i, &tensor) : NULL;
}

static void read_weights(caffe_import* n, size_t i, size_t bytes, carnot_tensor* tensor) {
  carnot_arena* arena = &n->importer->source->arena;
  if (!n->blobs) {
    enum { kMostBytes = 1 << 30 };  // a text of a few bytes may ask for any amount
    size_t* total = &n->importer->random_bytes;
    if (bytes > kMostBytes || *total + bytes > 4 * (size_t)kMostBytes) {
      CAFFE_FAIL(n, OUT_OF_RANGE,
                 "blob %zu would take %zu bytes of random weights; at most %d are "
                 "made for a blob and four times as many for a network",
                 i, bytes, kMostBytes);
      return;
    }
    *total += bytes;
    n->node.status = carnot_arena_try(arena, bytes + 1, 1, "random weights", &tensor->data);
    return;
  }
  carnot_tensor found;
  if (!read_blob(n, i, &found)) return;
  if (!same_dims(&found, tensor->dims, tensor->rank))
    CAFFE_FAIL(n, INVALID_MODEL, "blob %zu is of dimensions %s; %s are required", i,
               dims_text(n, found.dims, found.rank), dims_text(n, tensor->dims, tensor->rank));
  tensor->data = found.data;
}

carnot_value* caffe_weights(caffe_import* n, size_t i, const int64_t* dims, int rank,
                            int64_t fan_in) {
  carnot_tensor tensor = {.dtype = CARNOT_DTYPE_F32, .rank = rank};
  size_t bytes = 0;
  if (n->node.status) return NULL;
  if (n->blobs && i >= n->blobs->count) {
    CAFFE_FAIL(n, INVALID_MODEL,
               "the caffemodel holds %zu blobs for the layer; blob %zu is missing", n->blobs->count,
               i);
    return NULL;
  }
  for (int d = 0; d < rank; d++) tensor.dims[d] = dims[d];
  n->node.status = carnot_dims_bytes(tensor.dtype, tensor.dims, rank, &bytes);
  if (n->node.status) return NULL;
  read_weights(n, i, bytes, &tensor);
  if (n->node.status) return NULL;
  if (!n->blobs) fill_random(n, i, fan_in, tensor.data, bytes / sizeof(float));
  return constant_of(n, i, &tensor);
}

carnot_value* caffe_floats_constant(caffe_import* n, const float* values, const int64_t* dims,
                                    int rank) {
  carnot_tensor tensor = {.dtype = CARNOT_DTYPE_F32, .rank = rank};
  size_t bytes = 0;
  if (n->node.status) return NULL;
  for (int d = 0; d < rank; d++) tensor.dims[d] = dims[d];
  n->node.status = carnot_dims_bytes(tensor.dtype, tensor.dims, rank, &bytes);
  if (n->node.status) return NULL;
  tensor.data = carnot_arena_copy(n->node.arena, values, bytes);
  return import_has_memory(&n->node) ? carnot_graph_constant(n->node.block, NULL, &tensor) : NULL;
}
