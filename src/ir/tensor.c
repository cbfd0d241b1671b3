// Tensors, types and attribute lists.
#include "ir/tensor.h"

#include <stdio.h>

carnot_status* carnot_dims_bytes(carnot_dtype dtype, const int64_t* dims, int rank,
                                 size_t* out_bytes) {
  *out_bytes = 0;
  CARNOT_CHECK(carnot_dtype_valid(dtype), INVALID_MODEL, "data type %d is not one of the %d known",
               (int)dtype, CARNOT_DTYPE_COUNT - 1);
  CARNOT_CHECK(rank >= 0 && rank <= CARNOT_MAX_RANK, OUT_OF_RANGE, "rank %d is outside [0, %d]",
               rank, CARNOT_MAX_RANK);
  int64_t count = 1;
  for (int i = 0; i < rank; i++) {
    CARNOT_CHECK(dims[i] >= 0, INVALID_MODEL, "dimension %d is %lld, must be 0 or more", i,
                 (long long)dims[i]);
    // The product without zeros must fit too, so that partial products never overflow.
    CARNOT_CHECK(carnot_mul_i64(count, dims[i] ? dims[i] : 1, &count) && count < ((int64_t)1 << 48),
                 OUT_OF_RANGE, "a tensor of %lld and more elements is too large", (long long)count);
  }
  count = carnot_dims_count(dims, rank);
  *out_bytes = dtype == CARNOT_DTYPE_STRING ? (size_t)count * sizeof(carnot_strview)
                                            : carnot_dtype_bytes(dtype, (size_t)count);
  return NULL;
}

void carnot_dims_print(const int64_t* dims, int rank, char* text, size_t size) {
  size_t at = (size_t)snprintf(text, size, "[");
  for (int i = 0; i < rank && at < size; i++)
    at += (size_t)snprintf(text + at, size - at, i ? ",%lld" : "%lld", (long long)dims[i]);
  if (at < size) snprintf(text + at, size - at, "]");
}

const carnot_type* carnot_type_copy(carnot_arena* arena, const carnot_type* type) {
  if (!type) return NULL;
  carnot_type* copy = carnot_arena_copy(arena, type, sizeof(*type));
  if (copy) copy->element = carnot_type_copy(arena, type->element);
  return copy;
}

void carnot_type_print(const carnot_syms* syms, const carnot_type* type, char* text, size_t size) {
  if (type->kind == CARNOT_VALUE_SEQUENCE || type->kind == CARNOT_VALUE_OPTIONAL) {
    const char* kind = type->kind == CARNOT_VALUE_SEQUENCE ? "sequence" : "optional";
    char inner[160] = "?";
    if (type->element) carnot_type_print(syms, type->element, inner, sizeof(inner));
    snprintf(text, size, "%s(%s)", kind, inner);
    return;
  }
  if (type->kind == CARNOT_VALUE_UNKNOWN) {
    snprintf(text, size, "unknown");
    return;
  }
  size_t at = (size_t)snprintf(text, size, "%s[", carnot_dtype_name(type->dtype));
  if (type->rank < 0 && at < size) at += (size_t)snprintf(text + at, size - at, "...");
  for (int i = 0; i < type->rank && at < size; i++) {
    char dim[96];
    carnot_sym_print(syms, type->dims[i], dim, sizeof(dim));
    at += (size_t)snprintf(text + at, size - at, i ? ",%s" : "%s", dim);
  }
  if (at < size) snprintf(text + at, size - at, "]");
}

const carnot_attr* carnot_attrs_find(const carnot_attrs* attrs, const char* name) {
  for (size_t i = 0; i < attrs->count; i++)
    if (strcmp(attrs->items[i].name, name) == 0) return &attrs->items[i];
  return NULL;
}

void carnot_attrs_set(carnot_attrs* attrs, carnot_arena* arena, carnot_attr attr) {
  for (size_t i = 0; i < attrs->count; i++) {
    if (strcmp(attrs->items[i].name, attr.name) != 0) continue;
    attrs->items[i] = attr;
    return;
  }
  carnot_attr* grown = CARNOT_NEW_ARRAY(arena, carnot_attr, attrs->count + 1);
  if (!grown) return;
  if (attrs->count) memcpy(grown, attrs->items, attrs->count * sizeof(*grown));
  grown[attrs->count++] = attr;
  attrs->items = grown;
}

void carnot_attrs_set_int(carnot_attrs* attrs, carnot_arena* arena, const char* name,
                          int64_t value) {
  carnot_attrs_set(attrs, arena, (carnot_attr){.name = name, .type = CARNOT_ATTR_INT, .i = value});
}
void carnot_attrs_set_float(carnot_attrs* attrs, carnot_arena* arena, const char* name,
                            double value) {
  carnot_attrs_set(attrs, arena,
                   (carnot_attr){.name = name, .type = CARNOT_ATTR_FLOAT, .f = value});
}
void carnot_attrs_set_text(carnot_attrs* attrs, carnot_arena* arena, const char* name,
                           const char* value) {
  size_t size = strlen(value);
  carnot_strview view = {carnot_arena_text(arena, value, size), size};
  carnot_attrs_set(attrs, arena,
                   (carnot_attr){.name = name, .type = CARNOT_ATTR_STRING, .s = view});
}
void carnot_attrs_set_ints(carnot_attrs* attrs, carnot_arena* arena, const char* name,
                           const int64_t* values, size_t count) {
  const int64_t* copy = carnot_arena_copy(arena, values, count * sizeof(*values));
  if (!copy) return;
  carnot_attrs_set(
      attrs, arena,
      (carnot_attr){.name = name, .type = CARNOT_ATTR_INTS, .count = count, .ints = copy});
}
void carnot_attrs_set_floats(carnot_attrs* attrs, carnot_arena* arena, const char* name,
                             const double* values, size_t count) {
  const double* copy = carnot_arena_copy(arena, values, count * sizeof(*values));
  if (!copy) return;
  carnot_attrs_set(
      attrs, arena,
      (carnot_attr){.name = name, .type = CARNOT_ATTR_FLOATS, .count = count, .floats = copy});
}
