// Attributes of models as fields of plugins.
#include "import/common/plugin_fields.h"

#include <string.h>

import_numbers import_numbers_of_floats(import_node* n, const float* values, size_t count) {
  double* wide = CARNOT_NEW_ARRAY(n->arena, double, count + 1);
  if (!import_has_memory(n)) return (import_numbers){0};
  for (size_t i = 0; i < count; i++) wide[i] = (double)values[i];
  return (import_numbers){.count = (int64_t)count, .is_float = true, .floats = wide};
}

import_numbers import_numbers_of_tensor(import_node* n, const carnot_tensor* tensor) {
  const size_t count = (size_t)carnot_tensor_count(tensor);
  double* wide = CARNOT_NEW_ARRAY(n->arena, double, count + 1);
  int64_t* whole = CARNOT_NEW_ARRAY(n->arena, int64_t, count + 1);
  if (!import_has_memory(n)) return (import_numbers){0};
  const bool is_float = carnot_dtype_is_float(tensor->dtype);
  for (size_t i = 0; i < count; i++) {
    if (is_float)
      wide[i] = carnot_load_f64(tensor->dtype, tensor->data, i);
    else
      whole[i] = carnot_load_i64(tensor->dtype, tensor->data, i);
  }
  return (import_numbers){(int64_t)count, is_float, wide, whole};
}

static carnot_dtype dtype_of(carnot_field_type type) {
  switch (type) {
    case CARNOT_FIELD_FLOAT16: return CARNOT_DTYPE_F16;
    case CARNOT_FIELD_FLOAT32: return CARNOT_DTYPE_F32;
    case CARNOT_FIELD_FLOAT64: return CARNOT_DTYPE_F64;
    case CARNOT_FIELD_BF16: return CARNOT_DTYPE_BF16;
    case CARNOT_FIELD_INT8: return CARNOT_DTYPE_I8;
    case CARNOT_FIELD_INT16: return CARNOT_DTYPE_I16;
    case CARNOT_FIELD_INT32: return CARNOT_DTYPE_I32;
    case CARNOT_FIELD_INT64: return CARNOT_DTYPE_I64;
    default: return CARNOT_DTYPE_INVALID;
  }
}

static void dims_field(import_node* n, const char* name, const import_numbers* values,
                       carnot_plugin_field* out) {
  if (values->is_float || values->count > CARNOT_MAX_RANK) {
    IMPORT_FAIL(n, INVALID_MODEL, "attribute %s is no list of at most %d integers", name,
                CARNOT_MAX_RANK);
    return;
  }
  carnot_dims* dims = CARNOT_NEW(n->arena, carnot_dims);
  dims->rank = (int32_t)values->count;
  for (int32_t d = 0; d < dims->rank; d++) dims->d[d] = values->ints[d];
  *out = (carnot_plugin_field){name, dims, CARNOT_FIELD_DIMS, 1};
}

static void number_field(import_node* n, const char* name, carnot_field_type type,
                         const import_numbers* values, carnot_plugin_field* out) {
  if (type == CARNOT_FIELD_UNKNOWN)
    type = values->is_float ? CARNOT_FIELD_FLOAT32 : CARNOT_FIELD_INT64;
  carnot_dtype dtype = dtype_of(type);
  if (dtype == CARNOT_DTYPE_INVALID || values->count > INT32_MAX ||
      (values->is_float && !carnot_dtype_is_float(dtype))) {
    IMPORT_FAIL(n, INVALID_MODEL, "attribute %s does not fit the field's type %s", name,
                carnot_field_type_name(type));
    return;
  }
  void* data =
      carnot_arena_alloc(n->arena, carnot_field_bytes(type, (int32_t)values->count) + 1, 1);
  if (!import_has_memory(n)) return;
  for (int64_t i = 0; i < values->count; i++) {
    if (values->is_float || carnot_dtype_is_float(dtype))
      carnot_store_f64(dtype, data, (size_t)i,
                       values->is_float ? values->floats[i] : (double)values->ints[i]);
    else
      carnot_store_i64(dtype, data, (size_t)i, values->ints[i]);
    if (carnot_dtype_is_integer(dtype) &&
        carnot_load_i64(dtype, data, (size_t)i) != values->ints[i])
      IMPORT_FAIL(n, OUT_OF_RANGE, "attribute %s: element %lld is %lld, which field type %s lacks",
                  name, (long long)i, (long long)values->ints[i], carnot_field_type_name(type));
  }
  *out = (carnot_plugin_field){name, data, type, (int32_t)values->count};
}

void import_number_field(import_node* n, const char* name, carnot_field_type type,
                         const import_numbers* values, carnot_plugin_field* out) {
  if (n->status) return;
  if (type == CARNOT_FIELD_DIMS)
    dims_field(n, name, values, out);
  else
    number_field(n, name, type, values, out);
}

bool import_names_plugin(const char* attribute) {
  return strcmp(attribute, "plugin_version") == 0 || strcmp(attribute, "plugin_namespace") == 0;
}
