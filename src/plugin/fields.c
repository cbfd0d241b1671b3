// Fields of plugins: types, packing into bytes and back, access by name.
#include "plugin/fields.h"

#include <string.h>

#include "base/dtype.h"

// X(TYPE, "name", bits an element, the data type of its numbers)
// clang-format off
#define FIELD_TYPES(X)               \
  X(FLOAT16, "FLOAT16", 16, F16)     \
  X(FLOAT32, "FLOAT32", 32, F32)     \
  X(FLOAT64, "FLOAT64", 64, F64)     \
  X(INT8, "INT8", 8, I8)             \
  X(INT16, "INT16", 16, I16)         \
  X(INT32, "INT32", 32, I32)         \
  X(CHAR, "CHAR", 8, INVALID)        \
  X(DIMS, "DIMS", 8 * sizeof(carnot_dims), INVALID) \
  X(UNKNOWN, "UNKNOWN", 8, INVALID)  \
  X(BF16, "BF16", 16, BF16)          \
  X(INT64, "INT64", 64, I64)         \
  X(FP8, "FP8", 8, F8E4M3FN)         \
  X(INT4, "INT4", 4, I4)             \
  X(FP4, "FP4", 4, F4E2M1)
// clang-format on

static const struct {
  const char* name;
  size_t bits;
  carnot_dtype dtype;
} kTypes[CARNOT_FIELD_TYPE_COUNT] = {
#define ROW(TYPE, name, bits, DTYPE) [CARNOT_FIELD_##TYPE] = {name, bits, CARNOT_DTYPE_##DTYPE},
    FIELD_TYPES(ROW)
#undef ROW
};

static bool known(carnot_field_type type) { return (unsigned)type < CARNOT_FIELD_TYPE_COUNT; }

const char* carnot_field_type_name(carnot_field_type type) {
  return known(type) ? kTypes[type].name : "invalid";
}

size_t carnot_field_bytes(carnot_field_type type, int32_t length) {
  return known(type) && length > 0 ? (kTypes[type].bits * (size_t)length + 7) / 8 : 0;
}

// A field's place in the bytes: these numbers, then its name, then its data.
typedef struct head {
  uint32_t name_bytes, type, length;
} head;

static carnot_status* check_field(const carnot_plugin_field* f, int32_t index) {
  CARNOT_CHECK(f->name && f->name[0], INVALID_ARGUMENT, "field %d has no name", index);
  CARNOT_CHECK(known(f->type), INVALID_ARGUMENT, "field %s has type %d, must be below %d", f->name,
               (int)f->type, CARNOT_FIELD_TYPE_COUNT);
  CARNOT_CHECK(f->length >= 0 && (f->data || !f->length), INVALID_ARGUMENT,
               "field %s has length %d and %s data", f->name, f->length, f->data ? "some" : "no");
  return NULL;
}

carnot_status* carnot_fields_pack(const carnot_plugin_field* fields, int32_t count,
                                  carnot_arena* arena, carnot_strview* out_bytes) {
  *out_bytes = (carnot_strview){NULL, 0};
  CARNOT_CHECK(count >= 0 && (fields || !count), INVALID_ARGUMENT, "%d fields", count);
  size_t bytes = 0;
  for (int32_t i = 0; i < count; i++) {
    CARNOT_TRY(check_field(&fields[i], i));
    bytes += sizeof(head) + strlen(fields[i].name) +
             carnot_field_bytes(fields[i].type, fields[i].length);
  }
  void* memory;
  CARNOT_TRY(carnot_arena_try(arena, bytes + 1, 1, "plugin fields", &memory));
  char* at = memory;
  for (int32_t i = 0; i < count; i++) {
    const carnot_plugin_field* f = &fields[i];
    head h = {(uint32_t)strlen(f->name), (uint32_t)f->type, (uint32_t)f->length};
    size_t data_bytes = carnot_field_bytes(f->type, f->length);
    memcpy(at, &h, sizeof(h));
    memcpy(at + sizeof(h), f->name, h.name_bytes);
    if (data_bytes) memcpy(at + sizeof(h) + h.name_bytes, f->data, data_bytes);
    at += sizeof(h) + h.name_bytes + data_bytes;
  }
  *out_bytes = (carnot_strview){memory, bytes};
  return NULL;
}

static carnot_status* unpack_field(const char** at, size_t* left, carnot_arena* arena,
                                   carnot_plugin_field* out) {
  head h;
  CARNOT_CHECK(*left >= sizeof(h), INVALID_MODEL, "a plugin field is cut after %zu bytes", *left);
  memcpy(&h, *at, sizeof(h));
  *at += sizeof(h);
  *left -= sizeof(h);
  CARNOT_CHECK(h.name_bytes <= *left && known((carnot_field_type)h.type) && h.length <= INT32_MAX,
               INVALID_MODEL, "a plugin field has a name of %u bytes, type %u, length %u",
               h.name_bytes, h.type, h.length);
  size_t bytes = carnot_field_bytes((carnot_field_type)h.type, (int32_t)h.length);
  CARNOT_CHECK(bytes <= *left - h.name_bytes, INVALID_MODEL,
               "a plugin field takes %zu bytes, %zu are left", bytes, *left - h.name_bytes);
  *out = (carnot_plugin_field){.name = carnot_arena_text(arena, *at, h.name_bytes),
                               .type = (carnot_field_type)h.type,
                               .length = (int32_t)h.length};
  // Data end with a zero, so that text may be read as a C string.
  char* data = carnot_arena_alloc(arena, bytes + 1, 1);
  CARNOT_TRY(carnot_arena_status(arena));
  if (bytes) memcpy(data, *at + h.name_bytes, bytes);
  out->data = data;
  *at += h.name_bytes + bytes;
  *left -= h.name_bytes + bytes;
  return NULL;
}

carnot_status* carnot_fields_unpack(carnot_strview bytes, carnot_arena* arena,
                                    carnot_fields* out_fields) {
  *out_fields = (carnot_fields){0};
  void* items;
  CARNOT_TRY(carnot_arena_try(arena, bytes.size / sizeof(head) + 1, sizeof(carnot_plugin_field),
                              "plugin fields", &items));
  out_fields->items = items;
  const char* at = bytes.data;
  size_t left = bytes.size;
  while (left) CARNOT_TRY(unpack_field(&at, &left, arena, &out_fields->items[out_fields->count++]));
  return NULL;
}

const carnot_plugin_field* carnot_field_find(const carnot_plugin_field* fields, int32_t count,
                                             const char* name) {
  for (int32_t i = 0; i < count; i++)
    if (strcmp(fields[i].name, name) == 0) return &fields[i];
  return NULL;
}

double carnot_field_number(const carnot_plugin_field* field, int32_t index) {
  carnot_dtype dtype = known(field->type) ? kTypes[field->type].dtype : CARNOT_DTYPE_INVALID;
  if (dtype == CARNOT_DTYPE_INVALID || index >= field->length) return 0;
  return carnot_dtype_is_float(dtype) ? carnot_load_f64(dtype, field->data, (size_t)index)
                                      : (double)carnot_load_i64(dtype, field->data, (size_t)index);
}
