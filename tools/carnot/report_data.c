// The data of the report's page, from what the inspector and profiles hold.
#include <string.h>

#include "report.h"

// ---- tables: each text and tensor is written once ----

typedef struct table {
  json_t* index;  // text -> number
  json_t* rows;
} table;

static table table_make(void) { return (table){json_object(), json_array()}; }

// The number of |key|, which is added with |row| (taken) when it is new.
static json_int_t table_add(table* t, const char* key, json_t* row) {
  json_t* found = json_object_get(t->index, key);
  if (found) {
    json_decref(row);
    return json_integer_value(found);
  }
  json_int_t number = (json_int_t)json_array_size(t->rows);
  json_object_set_new(t->index, key, json_integer(number));
  json_array_append_new(t->rows, row);
  return number;
}

// The rows; the table is empty then.
static json_t* table_take(table* t) {
  json_decref(t->index);
  return t->rows;
}

static const char* text_of(const json_t* object, const char* key) {
  const char* text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

// ---- layers ----

static json_t* value_numbers(const json_t* layer, const char* key, table* values) {
  json_t *list = json_array(), *value;
  size_t i;
  json_array_foreach(json_object_get(layer, key), i, value) {
    const char* name = text_of(value, "Name");
    json_t* row = json_pack("[s,O,s]", name, json_object_get(value, "Dimensions"),
                            text_of(value, "Format/Datatype"));
    json_array_append_new(list, json_integer(table_add(values, name, row)));
  }
  return list;
}

// "tactic: reason; tactic: reason" as numbers of texts, which many layers share.
static json_t* reasons(const json_t* layer, table* texts) {
  json_t* list = json_array();
  const char* text = text_of(layer, "Rejected");
  while (*text) {
    const char* end = strstr(text, "; ");
    size_t length = end ? (size_t)(end - text) : strlen(text);
    json_t* row = json_stringn(text, length);
    if (row)
      json_array_append_new(list, json_integer(table_add(texts, json_string_value(row), row)));
    text += length + (end ? 2 : 0);
  }
  return list;
}

static json_t* operators(const json_t* layer) {
  json_t *list = json_array(), *node;
  size_t i;
  json_array_foreach(json_object_get(layer, "Operators"), i, node) {
    json_t* inputs = json_object_get(node, "Inputs");
    json_t* row = json_pack("[s,s]", text_of(node, "Name"), text_of(node, "Operator"));
    if (inputs) json_array_append(row, inputs);
    json_array_append_new(list, row);
  }
  return list;
}

static json_t* compact_layer(const json_t* layer, table* values, table* texts) {
  static const char* const kSame[][2] = {{"Name", "name"},           {"LayerType", "type"},
                                         {"TacticName", "tactic"},   {"Numerics", "numerics"},
                                         {"Precision", "precision"}, {"Flops", "flops"},
                                         {"Bytes", "bytes"},         {"TimeUs", "build_us"},
                                         {"MeasuredUs", "us"},       {"LimitUs", "limit_us"}};
  json_t* out = json_object();
  for (size_t i = 0; i < CLI_COUNT(kSame); i++) {
    json_t* field = json_object_get(layer, kSame[i][0]);
    if (field) json_object_set(out, kSame[i][1], field);
  }
  json_object_set_new(out, "in", value_numbers(layer, "Inputs", values));
  json_object_set_new(out, "out", value_numbers(layer, "Outputs", values));
  json_object_set_new(out, "constants", value_numbers(layer, "Constants", values));
  json_object_set_new(out, "operators", operators(layer));
  json_object_set_new(out, "why", reasons(layer, texts));
  return out;
}

static json_t* memory(const json_t* root) {
  json_t *list = json_array(), *item;
  size_t i;
  json_array_foreach(json_object_get(root, "Memory"), i, item) json_array_append_new(
      list, json_pack("[s,O,O,O,O,s]", text_of(item, "Name"), json_object_get(item, "Offset"),
                      json_object_get(item, "Bytes"), json_object_get(item, "FirstLayer"),
                      json_object_get(item, "LastLayer"), text_of(item, "Memory")));
  return list;
}

json_t* report_compact(const json_t* root) {
  static const char* const kSame[][2] = {{"Name", "name"},
                                         {"Bindings", "bindings"},
                                         {"Libraries", "libraries"},
                                         {"Machine", "machine"},
                                         {"Threads", "threads"},
                                         {"ActivationBytes", "activation_bytes"},
                                         {"ActivationBoundBytes", "activation_bound_bytes"}};
  json_t *out = json_object(), *layers = json_array(), *layer;
  table values = table_make(), texts = table_make();
  size_t i;
  for (i = 0; i < CLI_COUNT(kSame); i++) {
    json_t* field = json_object_get(root, kSame[i][0]);
    if (field) json_object_set(out, kSame[i][1], field);
  }
  json_array_foreach(json_object_get(root, "Layers"), i, layer)
      json_array_append_new(layers, compact_layer(layer, &values, &texts));
  json_object_set_new(out, "layers", layers);
  json_object_set_new(out, "values", table_take(&values));
  json_object_set_new(out, "texts", table_take(&texts));
  json_object_set_new(out, "memory", memory(root));
  return out;
}

// ---- profiles ----

// The time of each entry of |entries| goes to the next layer of its name in order of execution.
static size_t take_times(const json_t* entries, const char* name_key, const char* key, double scale,
                         json_t* root) {
  json_t *layers = json_object_get(root, "Layers"), *entry;
  size_t i, at = 0, taken = 0, count = json_array_size(layers);
  json_array_foreach(entries, i, entry) {
    json_t* time = json_object_get(entry, key);
    if (!json_is_number(time)) continue;
    for (size_t k = 0; k < count; k++) {
      json_t* layer = json_array_get(layers, (at + k) % count);
      if (strcmp(text_of(layer, "Name"), text_of(entry, name_key)) != 0) continue;
      json_object_set_new(layer, "MeasuredUs", json_real(json_number_value(time) * scale));
      if (json_object_get(entry, "LimitUs"))
        json_object_set(layer, "LimitUs", json_object_get(entry, "LimitUs"));
      at = (at + k + 1) % count;
      taken++;
      break;
    }
  }
  return taken;
}

carnot_status* report_read_profile(const char* path, json_t* root) {
  json_error_t error;
  json_t* profile = json_load_file(path, 0, &error);
  CLI_CHECK(profile, INVALID_ARGUMENT, "--profile: %s is no JSON: line %d: %s", path, error.line,
            error.text);
  size_t taken = json_is_array(profile) ? take_times(profile, "name", "averageMs", 1e3, root)
                                        : take_times(json_object_get(profile, "Layers"), "Name",
                                                     "MeasuredUs", 1, root);
  json_t* machine = json_object_get(profile, "Machine");
  if (machine) json_object_set(root, "Machine", machine);
  if (machine) json_object_set(root, "Threads", json_object_get(profile, "Threads"));
  json_decref(profile);
  CLI_CHECK(taken, INVALID_ARGUMENT,
            "--profile: %s has no time of a layer of this engine; it must be the JSON of `carnot "
            "exec --exportProfile` or of `carnot inspect --peaks --json`",
            path);
  return NULL;
}
