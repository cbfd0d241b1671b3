// The outputs and layer information that carnot exec prints, and the JSON files of its --export
// flags.
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec.h"

carnot_status* exec_write_json(const char* path, json_t* root) {
  char* text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
  json_decref(root);
  if (!text) return CLI_NO_MEMORY(0, "a JSON file");
  carnot_status* status =
      carnot_write_file(path, (carnot_piece[]){{text, strlen(text)}, {"\n", 1}}, 2);
  free(text);
  return status;
}

carnot_status* exec_export_times(const char* path, const exec_trace* traces, size_t count) {
  json_t* root = json_array();
  for (size_t i = 0; i < count; i++) {
    double s = traces[i].start, e = traces[i].end;
    double computing = s + traces[i].h2d, computed = computing + traces[i].compute;
    json_array_append_new(
        root,
        json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "startEnqMs", s,
                  "endEnqMs", e, "enqMs", e - s, "startH2dMs", s, "endH2dMs", computing, "h2dMs",
                  traces[i].h2d, "startComputeMs", computing, "endComputeMs", computed, "computeMs",
                  traces[i].compute, "startD2hMs", computed, "endD2hMs", computed + traces[i].d2h,
                  "d2hMs", traces[i].d2h, "latencyMs", e - s));
  }
  return exec_write_json(path, root);
}

// JSON has no infinities: they become null.
static json_t* element(const cli_tensor* t, int64_t i) {
  if (t->dtype == CARNOT_DTYPE_STRING) return json_null();
  if (!cli_dtype_is_float(t->dtype))
    return json_integer(carnot_element_i64(t->dtype, t->data, (size_t)i));
  double v = carnot_element_f64(t->dtype, t->data, (size_t)i);
  return isfinite(v) ? json_real(v) : json_null();
}

// Output |index| where tensor |index| is one; *out_name is NULL elsewhere.
static carnot_status* output_of(const carnot_context* context, uint32_t index,
                                const char** out_name, cli_tensor* out) {
  carnot_tensor_info info;
  const carnot_data* data;
  *out_name = NULL;
  CLI_TRY(carnot_engine_tensor_info(carnot_context_engine(context), index, &info));
  if (info.is_input) return NULL;
  CLI_TRY(carnot_context_output_value(context, info.name, &data));
  if (!data || carnot_data_kind_of(data) != CARNOT_DATA_TENSOR) return NULL;
  *out_name = info.name;
  *out = cli_tensor_of(data);
  return NULL;
}

carnot_status* exec_export_output(const char* path, const carnot_context* context) {
  json_t* root = json_array();
  uint32_t count = carnot_engine_tensor_count(carnot_context_engine(context));
  for (uint32_t i = 0; i < count; i++) {
    const char* name;
    cli_tensor t;
    carnot_status* status = output_of(context, i, &name, &t);
    if (status) {
      json_decref(root);
      return status;
    }
    if (!name) continue;
    char dims[256];
    cli_shape_text(&t.dims, dims, sizeof(dims));
    json_t* values = json_array();
    for (int64_t k = 0; k < cli_tensor_count(&t); k++)
      json_array_append_new(values, element(&t, k));
    json_array_append_new(
        root, json_pack("{s:s,s:s,s:o}", "name", name, "dimensions", dims, "values", values));
  }
  return exec_write_json(path, root);
}

carnot_status* exec_dump_output(const carnot_context* context) {
  exec_log('I', "Output Tensors:");
  uint32_t count = carnot_engine_tensor_count(carnot_context_engine(context));
  for (uint32_t i = 0; i < count; i++) {
    const char* name;
    cli_tensor t;
    CLI_TRY(output_of(context, i, &name, &t));
    if (!name || t.dtype == CARNOT_DTYPE_STRING) continue;
    char dims[256];
    cli_shape_text(&t.dims, dims, sizeof(dims));
    exec_log('I', "%s: (%s)", name, dims);
    int64_t columns = t.dims.rank ? t.dims.d[t.dims.rank - 1] : 1;
    for (int64_t k = 0; k < cli_tensor_count(&t); k++)
      printf((k + 1) % columns ? "%g " : "%g\n", carnot_element_f64(t.dtype, t.data, (size_t)k));
  }
  return NULL;
}

carnot_status* exec_layers(const exec_options* o, const carnot_engine* engine) {
  if (!o->dump_layers && !o->layers) return NULL;
  json_t* root = json_loads(carnot_engine_inspect(engine), 0, NULL);
  CLI_CHECK(root, INVALID_MODEL, "the engine holds no readable inspector data");
  json_t *shown = json_object(), *layers = json_array(), *layer;
  size_t index;
  json_array_foreach(json_object_get(root, "Layers"), index, layer) {
    if (o->verbosity == EXEC_DETAILED)
      json_array_append(layers, layer);
    else if (o->verbosity == EXEC_NAMES)
      json_array_append(layers, json_object_get(layer, "Name"));
  }
  json_object_set_new(shown, "Layers", layers);
  json_object_set(shown, "Bindings", json_object_get(root, "Bindings"));
  json_decref(root);
  if (o->verbosity != EXEC_DETAILED)
    exec_log('I',
             "layer information is short: --profilingVerbosity=detailed adds tactics, shapes and "
             "formats");
  if (o->dump_layers) {
    exec_log('I', "Layer Information:");
    json_dumpf(shown, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    putchar('\n');
  }
  if (o->layers) return exec_write_json(o->layers, shown);
  json_decref(shown);
  return NULL;
}
