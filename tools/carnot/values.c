// Outputs of a run as text and as JSON.
#include "values.h"

#include <math.h>
#include <stdio.h>

static void print_element(const carnot_data* data, const cli_tensor* t, int64_t index) {
  if (t->dtype == CARNOT_DTYPE_STRING) {
    size_t size;
    const char* text = carnot_data_text(data, (size_t)index, &size);
    printf("\"%.*s\"", (int)size, text ? text : "");
  } else {
    printf("%.6g", carnot_element_f64(t->dtype, t->data, (size_t)index));
  }
}

static void print_summary(const cli_tensor* t, int64_t count) {
  double least = INFINITY, most = -INFINITY, sum = 0;
  int64_t not_finite = 0, finite;
  for (int64_t i = 0; i < count; i++) {
    double value = carnot_element_f64(t->dtype, t->data, (size_t)i);
    if (!isfinite(value)) {
      not_finite++;
      continue;
    }
    least = fmin(least, value), most = fmax(most, value), sum += value;
  }
  finite = count - not_finite;
  if (finite) printf(" min %.6g, max %.6g, mean %.6g", least, most, sum / (double)finite);
  if (not_finite) printf(" %lld not finite", (long long)not_finite);
  putchar('\n');
}

static void print_tensor(const char* name, const carnot_data* data) {
  cli_tensor t = cli_tensor_of(data);
  char dims[128];
  cli_dims_text(&t.dims, dims, sizeof(dims));
  printf("%s: %s %s", name, carnot_dtype_name(t.dtype), dims);
  int64_t count = cli_tensor_count(&t);
  if (count > CLI_MAX_PRINTED && t.dtype != CARNOT_DTYPE_STRING) {
    print_summary(&t, count);
    return;
  }
  int64_t columns = t.dims.rank ? t.dims.d[t.dims.rank - 1] : 1;
  for (int64_t i = 0; i < count && i < CLI_MAX_PRINTED; i++) {
    fputs(i % columns == 0 ? "\n  " : " ", stdout);
    print_element(data, &t, i);
  }
  puts(count > CLI_MAX_PRINTED ? " …" : "");
}

void cli_values_print(const char* name, const carnot_data* data) {
  if (carnot_data_kind_of(data) == CARNOT_DATA_TENSOR) {
    print_tensor(name, data);
    return;
  }
  bool is_sequence = carnot_data_kind_of(data) == CARNOT_DATA_SEQUENCE;
  size_t count = carnot_data_item_count(data);
  if (is_sequence)
    printf("%s: sequence of %zu\n", name, count);
  else
    printf("%s: optional, %s\n", name, count ? "present" : "empty");
  for (size_t i = 0; i < count; i++) {
    char item[1024];
    snprintf(item, sizeof(item), "%s[%zu]", name, i);
    cli_values_print(is_sequence ? item : name, carnot_data_item(data, i));
  }
}

// ---- JSON ----

static json_t* element_json(const carnot_data* data, const cli_tensor* t, size_t index) {
  if (t->dtype == CARNOT_DTYPE_STRING) {
    size_t size;
    const char* text = carnot_data_text(data, index, &size);
    json_t* string = json_stringn(text ? text : "", text ? size : 0);
    return string ? string : json_null();  // no UTF-8
  }
  if (t->dtype == CARNOT_DTYPE_BOOL)
    return json_boolean(carnot_element_i64(t->dtype, t->data, index) != 0);
  if (!cli_dtype_is_float(t->dtype))
    return json_integer((json_int_t)carnot_element_i64(t->dtype, t->data, index));
  double value = carnot_element_f64(t->dtype, t->data, index);
  if (isfinite(value)) return json_real(value);
  return json_string(isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

static void add_tensor(json_t* out, const carnot_data* data) {
  cli_tensor t = cli_tensor_of(data);
  json_t *shape = json_array(), *values = json_null();
  for (int d = 0; d < t.dims.rank; d++) json_array_append_new(shape, json_integer(t.dims.d[d]));
  int64_t count = cli_tensor_count(&t);
  if (count <= CLI_MAX_JSON_VALUES) {
    values = json_array();
    for (int64_t i = 0; i < count; i++)
      json_array_append_new(values, element_json(data, &t, (size_t)i));
  }
  json_object_set_new(out, "dtype", json_string(carnot_dtype_name(t.dtype)));
  json_object_set_new(out, "shape", shape);
  json_object_set_new(out, "values", values);
}

json_t* cli_values_json(const char* name, const carnot_data* data) {
  static const char* const kKinds[] = {[CARNOT_DATA_TENSOR] = "tensor",
                                       [CARNOT_DATA_SEQUENCE] = "sequence",
                                       [CARNOT_DATA_OPTIONAL] = "optional"};
  carnot_data_kind kind = carnot_data_kind_of(data);
  json_t* out = json_pack("{s:s,s:s}", "name", name, "kind", kKinds[kind]);
  if (kind == CARNOT_DATA_TENSOR) {
    add_tensor(out, data);
    return out;
  }
  json_t* items = json_array();
  for (size_t i = 0; i < carnot_data_item_count(data); i++)
    json_array_append_new(items, cli_values_json("", carnot_data_item(data, i)));
  json_object_set_new(out, "items", items);
  return out;
}
