// Reads vocabularies and sorts tables. Source: tensorflow/core/kernels/lookup_util.cc.
#include "import/tensorflow/table_entries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t item_bytes(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_STRING ? sizeof(carnot_strview)
                                      : (size_t)carnot_dtype_bits(dtype) / 8;
}

static carnot_status* make_list(carnot_dtype dtype, size_t count, carnot_arena* arena,
                                carnot_tensor* out) {
  *out = (carnot_tensor){.dtype = dtype, .rank = 1, .dims = {(int64_t)count}};
  return carnot_arena_try(arena, count + 1, item_bytes(dtype), "a table", &out->data);
}

// ---- vocabularies ----

// Takes the next line off |rest|, without the characters that end it; false at the end.
static bool next_line(carnot_strview* rest, carnot_strview* out) {
  if (!rest->size) return false;
  const char* end = memchr(rest->data, '\n', rest->size);
  const size_t size = end ? (size_t)(end - rest->data) : rest->size, taken = size + (end != NULL);
  *out = (carnot_strview){rest->data, size};
  if (out->size && out->data[out->size - 1] == '\r') out->size--;
  *rest = (carnot_strview){rest->data + taken, rest->size - taken};
  return true;
}

static bool find_column(carnot_strview line, int64_t column, char delimiter, carnot_strview* out) {
  *out = line;
  if (column == TF_WHOLE_LINE) return true;
  for (;; column--) {
    const char* end = line.size ? memchr(line.data, delimiter, line.size) : NULL;
    const size_t size = end ? (size_t)(end - line.data) : line.size;
    *out = (carnot_strview){line.data, size};
    if (column == 0) return true;
    if (!end) return false;
    line = (carnot_strview){end + 1, line.size - size - 1};
  }
}

// Element |at| of |list| from a column of a line.
static carnot_status* take(const carnot_tensor* list, size_t at, carnot_strview line,
                           int64_t column, int64_t number, char delimiter) {
  carnot_strview text;
  char buffer[64], *end;
  if (column == TF_LINE_NUMBER) {
    CARNOT_CHECK(carnot_dtype_is_integer(list->dtype), INVALID_MODEL,
                 "line numbers as %s; integers are required", carnot_dtype_name(list->dtype));
    carnot_store_i64(list->dtype, list->data, at, number);
    return NULL;
  }
  CARNOT_CHECK(find_column(line, column, delimiter, &text), INVALID_MODEL,
               "line %lld has no column %lld", (long long)number, (long long)column);
  if (list->dtype == CARNOT_DTYPE_STRING) {
    ((carnot_strview*)list->data)[at] = text;
    return NULL;
  }
  const size_t size = text.size < sizeof(buffer) ? text.size : 0;
  memcpy(buffer, text.size ? text.data : "", size);
  buffer[size] = 0;
  errno = 0;
  if (carnot_dtype_is_integer(list->dtype))
    carnot_store_i64(list->dtype, list->data, at, strtoll(buffer, &end, 10));
  else
    carnot_store_f64(list->dtype, list->data, at, strtod(buffer, &end));
  CARNOT_CHECK(size && !*end && !errno, INVALID_MODEL, "line %lld: \"%s\" is no number",
               (long long)number, buffer);
  return NULL;
}

static bool is_value_type(carnot_dtype t) {
  return t == CARNOT_DTYPE_STRING || t == CARNOT_DTYPE_I32 || t == CARNOT_DTYPE_I64 ||
         t == CARNOT_DTYPE_F32 || t == CARNOT_DTYPE_F64;
}

carnot_status* tf_vocabulary_read(carnot_strview bytes, const tf_vocabulary* form,
                                  carnot_arena* arena, carnot_tensor* out_keys,
                                  carnot_tensor* out_values) {
  carnot_strview rest = bytes, line;
  int64_t lines = 0;
  CARNOT_CHECK(is_value_type(form->key_type) && is_value_type(form->value_type), UNSUPPORTED,
               "a table from %s to %s", carnot_dtype_name(form->key_type),
               carnot_dtype_name(form->value_type));
  CARNOT_CHECK(
      form->key_column >= TF_WHOLE_LINE && form->value_column >= TF_WHOLE_LINE && form->offset >= 0,
      INVALID_MODEL, "columns %lld and %lld, from line %lld", (long long)form->key_column,
      (long long)form->value_column, (long long)form->offset);
  while (next_line(&rest, &line)) lines++;
  int64_t count = lines > form->offset ? lines - form->offset : 0;
  CARNOT_CHECK(form->size < 0 || form->size <= count, INVALID_MODEL,
               "%lld lines; %lld are required", (long long)count, (long long)form->size);
  if (form->size >= 0) count = form->size;
  CARNOT_TRY(make_list(form->key_type, (size_t)count, arena, out_keys));
  CARNOT_TRY(make_list(form->value_type, (size_t)count, arena, out_values));
  rest = bytes;
  for (int64_t i = 0; i < form->offset; i++) (void)next_line(&rest, &line);
  for (int64_t i = 0; i < count && next_line(&rest, &line); i++) {
    CARNOT_TRY(take(out_keys, (size_t)i, line, form->key_column, i, form->delimiter));
    CARNOT_TRY(take(out_values, (size_t)i, line, form->value_column, i, form->delimiter));
  }
  return NULL;
}

// ---- order ----

typedef struct entry {
  int64_t number;
  carnot_strview text;
  size_t index;
} entry;

static int by_key(const entry* a, const entry* b) {
  const size_t shared = a->text.size < b->text.size ? a->text.size : b->text.size;
  const int order = shared ? memcmp(a->text.data, b->text.data, shared) : 0;
  if (order) return order;
  if (a->text.size != b->text.size) return a->text.size < b->text.size ? -1 : 1;
  return (a->number > b->number) - (a->number < b->number);
}

static int compare(const void* left, const void* right) {
  const entry *a = left, *b = right;
  const int order = by_key(a, b);
  return order ? order : (a->index > b->index) - (a->index < b->index);
}

static bool same_value(const carnot_tensor* values, size_t a, size_t b) {
  const size_t item = item_bytes(values->dtype);
  if (values->dtype != CARNOT_DTYPE_STRING)
    return memcmp((char*)values->data + a * item, (char*)values->data + b * item, item) == 0;
  const carnot_strview* texts = values->data;
  return carnot_view_equal(texts[a], texts[b]);
}

static carnot_status* sorted_entries(const carnot_tensor* keys, size_t count, carnot_arena* arena,
                                     entry** out) {
  void* memory;
  CARNOT_TRY(carnot_arena_try(arena, count + 1, sizeof(entry), "a table", &memory));
  entry* list = *out = memory;
  for (size_t i = 0; i < count; i++) {
    list[i] = (entry){.index = i};
    if (keys->dtype == CARNOT_DTYPE_STRING)
      list[i].text = ((const carnot_strview*)keys->data)[i];
    else
      list[i].number = carnot_load_i64(keys->dtype, keys->data, i);
  }
  qsort(list, count, sizeof(entry), compare);
  return NULL;
}

carnot_status* tf_entries_sort(const carnot_tensor* keys, const carnot_tensor* values,
                               carnot_arena* arena, carnot_tensor* out_keys,
                               carnot_tensor* out_values) {
  const size_t count = (size_t)carnot_tensor_count(keys);
  entry* list;
  size_t kept = 0;
  CARNOT_CHECK(keys->dtype == CARNOT_DTYPE_STRING || carnot_dtype_is_integer(keys->dtype),
               UNSUPPORTED, "keys of %s", carnot_dtype_name(keys->dtype));
  CARNOT_CHECK((size_t)carnot_tensor_count(values) == count, INVALID_MODEL,
               "%zu keys and %lld values", count, (long long)carnot_tensor_count(values));
  CARNOT_TRY(sorted_entries(keys, count, arena, &list));
  CARNOT_TRY(make_list(keys->dtype, count, arena, out_keys));
  CARNOT_TRY(make_list(values->dtype, count, arena, out_values));
  const size_t key_bytes = item_bytes(keys->dtype), value_bytes = item_bytes(values->dtype);
  for (size_t i = 0; i < count; i++) {
    if (i && by_key(&list[i - 1], &list[i]) == 0) {
      CARNOT_CHECK(same_value(values, list[i - 1].index, list[i].index), INVALID_MODEL,
                   "keys %zu and %zu are the same and have two values", list[i - 1].index,
                   list[i].index);
      continue;
    }
    memcpy((char*)out_keys->data + kept * key_bytes,
           (const char*)keys->data + list[i].index * key_bytes, key_bytes);
    memcpy((char*)out_values->data + kept * value_bytes,
           (const char*)values->data + list[i].index * value_bytes, value_bytes);
    kept++;
  }
  out_keys->dims[0] = out_values->dims[0] = (int64_t)kept;
  return NULL;
}
