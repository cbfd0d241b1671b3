// TensorProto and SparseTensorProto as tensors: typed fields, raw data, external data.
#include "import/onnx/tensor_proto.h"

#include <stdlib.h>
#include <string.h>

enum { kMaxDenseBytes = 1 << 30 };  // of a sparse tensor made dense: its file may be tiny

static const carnot_dtype kTypes[] = {
    [1] = CARNOT_DTYPE_F32,     [2] = CARNOT_DTYPE_U8,          [3] = CARNOT_DTYPE_I8,
    [4] = CARNOT_DTYPE_U16,     [5] = CARNOT_DTYPE_I16,         [6] = CARNOT_DTYPE_I32,
    [7] = CARNOT_DTYPE_I64,     [8] = CARNOT_DTYPE_STRING,      [9] = CARNOT_DTYPE_BOOL,
    [10] = CARNOT_DTYPE_F16,    [11] = CARNOT_DTYPE_F64,        [12] = CARNOT_DTYPE_U32,
    [13] = CARNOT_DTYPE_U64,    [14] = CARNOT_DTYPE_C64,        [15] = CARNOT_DTYPE_C128,
    [16] = CARNOT_DTYPE_BF16,   [17] = CARNOT_DTYPE_F8E4M3FN,   [18] = CARNOT_DTYPE_F8E4M3FNUZ,
    [19] = CARNOT_DTYPE_F8E5M2, [20] = CARNOT_DTYPE_F8E5M2FNUZ, [21] = CARNOT_DTYPE_U4,
    [22] = CARNOT_DTYPE_I4,     [23] = CARNOT_DTYPE_F4E2M1,     [24] = CARNOT_DTYPE_F8E8M0,
    [25] = CARNOT_DTYPE_U2,     [26] = CARNOT_DTYPE_I2,         [27] = CARNOT_DTYPE_F6E2M3,
    [28] = CARNOT_DTYPE_F6E3M2,
};
enum { kTypeCount = sizeof(kTypes) / sizeof(kTypes[0]) };

carnot_dtype carnot_onnx_dtype(int64_t data_type) {
  return data_type > 0 && data_type < kTypeCount ? kTypes[data_type] : CARNOT_DTYPE_INVALID;
}

int64_t carnot_onnx_data_type(carnot_dtype dtype) {
  for (int i = 1; i < kTypeCount; i++) {
    if (kTypes[i] == dtype) return i;
  }
  return 0;
}

static carnot_status* read_dims(const onnx_tensor* proto, carnot_tensor* tensor,
                                size_t* out_bytes) {
  tensor->dtype = carnot_onnx_dtype(proto->data_type);
  CARNOT_CHECK(tensor->dtype != CARNOT_DTYPE_INVALID, INVALID_MODEL,
               "data type %lld does not exist", (long long)proto->data_type);
  CARNOT_CHECK(proto->dims.count <= CARNOT_MAX_RANK, UNSUPPORTED,
               "%zu dimensions where at most %d are supported", proto->dims.count, CARNOT_MAX_RANK);
  tensor->rank = (int)proto->dims.count;
  for (int i = 0; i < tensor->rank; i++) tensor->dims[i] = proto->dims.items[i];
  return carnot_dims_bytes(tensor->dtype, tensor->dims, tensor->rank, out_bytes);
}

static size_t alignment_of(carnot_dtype dtype) {
  size_t bytes = (size_t)carnot_dtype_bits(dtype) / 8;
  return bytes == 0 ? 1 : bytes > 8 ? 8 : bytes;
}

// Data that stand in memory as Carnot wants them, but perhaps not aligned.
static carnot_status* take_raw(carnot_strview raw, size_t bytes, import_files* files,
                               carnot_arena* arena, carnot_tensor* tensor) {
  CARNOT_CHECK(raw.size == bytes, INVALID_MODEL,
               "%zu bytes of data where the dimensions ask for %zu", raw.size, bytes);
  return import_files_take(files, raw, alignment_of(tensor->dtype), arena, &tensor->data);
}

static bool parse_size(carnot_strview text, size_t* out) {
  size_t value = 0;
  if (text.size == 0 || text.size > 19) return false;
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] < '0' || text.data[i] > '9') return false;
    value = value * 10 + (size_t)(text.data[i] - '0');
  }
  *out = value;
  return true;
}

static carnot_status* take_external(const onnx_tensor* proto, import_files* files, size_t bytes,
                                    carnot_arena* arena, carnot_tensor* tensor) {
  carnot_strview location = {NULL, 0}, file = {NULL, 0};
  size_t offset = 0, length = bytes;
  for (size_t i = 0; i < proto->external_data.count; i++) {
    const onnx_string_entry* entry = &proto->external_data.items[i];
    if (carnot_view_is(entry->key, "location")) location = entry->value;
    size_t* number = carnot_view_is(entry->key, "offset")   ? &offset
                     : carnot_view_is(entry->key, "length") ? &length
                                                            : NULL;
    CARNOT_CHECK(!number || parse_size(entry->value, number), INVALID_MODEL,
                 "external data: " CARNOT_VIEW_FMT " \"" CARNOT_VIEW_FMT "\" is no number",
                 CARNOT_VIEW_ARG(entry->key), CARNOT_VIEW_ARG(entry->value));
  }
  CARNOT_CHECK(files, INVALID_ARGUMENT, "external data are not available here");
  CARNOT_CHECK(tensor->dtype != CARNOT_DTYPE_STRING, INVALID_MODEL,
               "external data cannot hold text");
  CARNOT_TRY(import_files_external(files, location, &file));
  CARNOT_CHECK(offset <= file.size && length <= file.size - offset, INVALID_MODEL,
               "external data: bytes %zu to %zu + %zu of a file of %zu", offset, offset, length,
               file.size);
  return take_raw((carnot_strview){file.data + offset, length}, bytes, files, arena, tensor);
}

static carnot_status* check_count(const char* list, size_t found, size_t wanted) {
  CARNOT_CHECK(found == wanted, INVALID_MODEL, "%zu items in %s where the dimensions ask for %zu",
               found, list, wanted);
  return NULL;
}

// int32_data: one element an item; under six bits an item is a whole byte of packed elements.
static carnot_status* take_int32(const onnx_tensor* proto, size_t bytes, carnot_tensor* tensor) {
  size_t count = (size_t)carnot_tensor_count(tensor);
  int bits = carnot_dtype_bits(tensor->dtype);
  const int64_t* items = proto->int32_data.items;
  uint8_t* out = tensor->data;
  if (bits < 6) {
    // Writers before the packed rule put each element into an item of its own.
    if (proto->int32_data.count == bytes) {
      for (size_t i = 0; i < bytes; i++) out[i] = (uint8_t)items[i];
      return NULL;
    }
    CARNOT_TRY(check_count("int32_data", proto->int32_data.count, count));
  }
  CARNOT_TRY(check_count("int32_data", proto->int32_data.count, count));
  if (bits < 8) {
    for (size_t i = 0; i < count; i++) {
      for (int b = 0; b < bits; b++) {
        size_t at = i * (size_t)bits + (size_t)b;
        if (items[i] >> b & 1) out[at / 8] |= (uint8_t)(1u << (at % 8));
      }
    }
    return NULL;
  }
  for (size_t i = 0; i < count; i++) {
    uint32_t value = (uint32_t)items[i];
    if (tensor->dtype == CARNOT_DTYPE_BOOL) value = items[i] != 0;
    memcpy(out + i * (size_t)bits / 8, &value, (size_t)bits / 8);
  }
  return NULL;
}

static carnot_status* take_typed(const onnx_tensor* proto, import_files* files, size_t bytes,
                                 carnot_arena* arena, carnot_tensor* tensor) {
  size_t count = (size_t)carnot_tensor_count(tensor);
  switch (tensor->dtype) {
    case CARNOT_DTYPE_STRING:
      CARNOT_TRY(check_count("string_data", proto->string_data.count, count));
      tensor->data = proto->string_data.items;
      if (!count)
        return carnot_arena_try(arena, 1, sizeof(carnot_strview), "a tensor's data", &tensor->data);
      return NULL;
    case CARNOT_DTYPE_F32:
    case CARNOT_DTYPE_C64: return take_raw(proto->float_data, bytes, files, arena, tensor);
    case CARNOT_DTYPE_F64:
    case CARNOT_DTYPE_C128: return take_raw(proto->double_data, bytes, files, arena, tensor);
    case CARNOT_DTYPE_I64:
      return take_raw((carnot_strview){(char*)proto->int64_data.items, proto->int64_data.count * 8},
                      bytes, NULL, arena, tensor);
    case CARNOT_DTYPE_U64:
      return take_raw(
          (carnot_strview){(char*)proto->uint64_data.items, proto->uint64_data.count * 8}, bytes,
          NULL, arena, tensor);
    default: break;
  }
  // The count is held against the items before memory is taken, so that dimensions alone cost
  // nothing.
  size_t items =
      tensor->dtype == CARNOT_DTYPE_U32 ? proto->uint64_data.count : proto->int32_data.count;
  CARNOT_CHECK(items >= count || items == bytes, INVALID_MODEL,
               "%zu items of data where the dimensions ask for %zu", items, count);
  CARNOT_TRY(carnot_arena_try(arena, bytes ? bytes : 1, 1, "a tensor's data", &tensor->data));
  if (tensor->dtype != CARNOT_DTYPE_U32) return take_int32(proto, bytes, tensor);
  CARNOT_TRY(check_count("uint64_data", proto->uint64_data.count, count));
  for (size_t i = 0; i < count; i++)
    ((uint32_t*)tensor->data)[i] = (uint32_t)proto->uint64_data.items[i];
  return NULL;
}

carnot_status* carnot_onnx_tensor_read(const onnx_tensor* proto, import_files* files,
                                       carnot_arena* arena, carnot_tensor* out_tensor) {
  size_t bytes = 0;
  carnot_tensor tensor = {0};
  memset(out_tensor, 0, sizeof(*out_tensor));
  CARNOT_TRY(read_dims(proto, &tensor, &bytes));
  if (proto->data_location == 1) {
    CARNOT_TRY(take_external(proto, files, bytes, arena, &tensor));
  } else if (proto->raw_data.data && tensor.dtype != CARNOT_DTYPE_STRING) {
    CARNOT_TRY(take_raw(proto->raw_data, bytes, files, arena, &tensor));
  } else {
    CARNOT_TRY(take_typed(proto, files, bytes, arena, &tensor));
  }
  *out_tensor = tensor;
  return NULL;
}

// Where item |i| of the values goes, from linear or from coordinate indices.
static carnot_status* sparse_place(const carnot_tensor* indices, const carnot_tensor* dense,
                                   int64_t i, int64_t* out_place) {
  const int64_t* at = indices->data;
  int64_t count = carnot_tensor_count(dense), place = 0;
  if (indices->rank == 1) {
    place = at[i];
  } else {
    for (int d = 0; d < dense->rank; d++) {
      int64_t index = at[i * dense->rank + d];
      CARNOT_CHECK(index >= 0 && index < dense->dims[d], INVALID_MODEL,
                   "index %lld of item %lld is outside [0, %lld)", (long long)index, (long long)i,
                   (long long)dense->dims[d]);
      place = place * dense->dims[d] + index;
    }
  }
  CARNOT_CHECK(place >= 0 && place < count, INVALID_MODEL,
               "index %lld of item %lld is outside [0, %lld)", (long long)place, (long long)i,
               (long long)count);
  *out_place = place;
  return NULL;
}

carnot_status* carnot_onnx_sparse_read(const onnx_sparse_tensor* proto, import_files* files,
                                       carnot_arena* arena, carnot_tensor* out_tensor) {
  memset(out_tensor, 0, sizeof(*out_tensor));
  CARNOT_CHECK(proto->values && proto->indices, INVALID_MODEL,
               "a sparse tensor without values or indices");
  carnot_tensor values, indices, dense = {0};
  CARNOT_TRY(carnot_onnx_tensor_read(proto->values, files, arena, &values));
  CARNOT_TRY(carnot_onnx_tensor_read(proto->indices, files, arena, &indices));
  CARNOT_CHECK(proto->dims.count <= CARNOT_MAX_RANK, UNSUPPORTED,
               "%zu dimensions where at most %d are supported", proto->dims.count, CARNOT_MAX_RANK);
  dense.dtype = values.dtype;
  dense.rank = (int)proto->dims.count;
  for (int i = 0; i < dense.rank; i++) dense.dims[i] = proto->dims.items[i];
  size_t bytes = 0;
  CARNOT_TRY(carnot_dims_bytes(dense.dtype, dense.dims, dense.rank, &bytes));
  CARNOT_CHECK(bytes <= kMaxDenseBytes, OUT_OF_RANGE,
               "a sparse tensor of %zu bytes where at most %d are allowed", bytes, kMaxDenseBytes);
  int64_t count = carnot_tensor_count(&values);
  int64_t wide = indices.rank == 2 ? dense.rank : 1;
  CARNOT_CHECK(values.rank == 1 && indices.dtype == CARNOT_DTYPE_I64 &&
                   (indices.rank == 1 || indices.rank == 2) && indices.dims[0] == count &&
                   (indices.rank == 1 || indices.dims[1] == wide),
               INVALID_MODEL, "the indices of a sparse tensor do not fit its %lld values",
               (long long)count);
  CARNOT_TRY(
      carnot_arena_try(arena, bytes ? bytes : 1, 1, "a sparse tensor made dense", &dense.data));
  for (int64_t i = 0; i < count; i++) {
    int64_t place = 0;
    CARNOT_TRY(sparse_place(&indices, &dense, i, &place));
    carnot_copy_element(dense.dtype, dense.data, (size_t)place, values.data, (size_t)i);
  }
  *out_tensor = dense;
  return NULL;
}

carnot_status* carnot_onnx_tensor_size(const onnx_tensor* proto, size_t* out_bytes) {
  carnot_tensor tensor = {0};
  return read_dims(proto, &tensor, out_bytes);
}

carnot_status* carnot_onnx_tensor_read_from(const onnx_tensor* proto, carnot_strview data,
                                            carnot_arena* arena, carnot_tensor* out_tensor) {
  *out_tensor = (carnot_tensor){0};
  size_t bytes;
  CARNOT_TRY(read_dims(proto, out_tensor, &bytes));
  CARNOT_CHECK(out_tensor->dtype != CARNOT_DTYPE_STRING, UNSUPPORTED,
               "text cannot be given in place of the elements in the file");
  CARNOT_CHECK(data.size == bytes, INVALID_ARGUMENT,
               "%zu bytes were given, its dimensions and type need %zu", data.size, bytes);
  return take_raw(data, bytes, NULL, arena, out_tensor);
}
