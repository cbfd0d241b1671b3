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
  static const char* const kSame[][2] = {
      {"Name", "name"},         {"LayerType", "type"},      {"TacticName", "tactic"},
      {"Numerics", "numerics"}, {"Precision", "precision"}, {"Flops", "flops"},
      {"Bytes", "bytes"},       {"TimeUs", "build_us"},     {"MeasuredUs", "us"},
      {"LimitUs", "limit_us"},  {"Error", "error"}};
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

// ---- profiles and errors: entries that name a layer ----

// The next layer called |name| in order of execution from |*at| on, or NULL; *at is behind it.
static json_t* next_layer(const json_t* root, const char* name, size_t* at) {
  const json_t* layers = json_object_get(root, "Layers");
  size_t count = json_array_size(layers);
  for (size_t k = 0; k < count; k++) {
    json_t* layer = json_array_get(layers, (*at + k) % count);
    if (strcmp(text_of(layer, "Name"), name) != 0) continue;
    *at = (*at + k + 1) % count;
    return layer;
  }
  return NULL;
}

static size_t take_times(const json_t* entries, const char* name_key, const char* key, double scale,
                         json_t* root) {
  json_t *entry, *layer;
  size_t i, at = 0, taken = 0;
  json_array_foreach(entries, i, entry) {
    json_t* time = json_object_get(entry, key);
    if (!json_is_number(time)) continue;
    if (!(layer = next_layer(root, text_of(entry, name_key), &at))) continue;
    json_object_set_new(layer, "MeasuredUs", json_real(json_number_value(time) * scale));
    if (json_object_get(entry, "LimitUs"))
      json_object_set(layer, "LimitUs", json_object_get(entry, "LimitUs"));
    taken++;
  }
  return taken;
}

static size_t take_profile(const json_t* profile, json_t* root) {
  if (json_is_array(profile)) return take_times(profile, "name", "averageMs", 1e3, root);
  json_t* events = json_object_get(profile, "traceEvents");
  if (!events) return take_times(json_object_get(profile, "Layers"), "Name", "MeasuredUs", 1, root);
  json_t *layers = json_array(), *event;
  size_t i;
  json_array_foreach(events, i, event) {
    if (strcmp(text_of(event, "cat"), "layer") == 0) json_array_append(layers, event);
  }
  size_t taken = take_times(layers, "name", "dur", 1, root);
  json_decref(layers);
  return taken;
}

static carnot_status* read_json(const char* what, const char* path, json_t** out) {
  json_error_t error;
  *out = json_load_file(path, 0, &error);
  CLI_CHECK(*out, INVALID_ARGUMENT, "%s %s is no JSON: line %d: %s", what, path, error.line,
            error.text);
  return NULL;
}

carnot_status* report_read_errors(const char* path, json_t* root) {
  json_t *file, *entry, *layer;
  CLI_TRY(read_json("file of errors", path, &file));
  size_t i, at = 0, taken = 0;
  json_array_foreach(json_object_get(file, "layers"), i, entry) {
    if (!json_is_number(json_object_get(entry, "max_abs"))) continue;
    if (!(layer = next_layer(root, text_of(entry, "name"), &at))) continue;
    json_object_set(layer, "Error", entry);
    taken++;
  }
  json_decref(file);
  CLI_CHECK(taken, INVALID_ARGUMENT,
            "%s has no error of a layer of this engine; it must be the JSON of `carnot debug "
            "compare MODEL --json` with the flags of the engine's build",
            path);
  return NULL;
}

carnot_status* report_read_profile(const char* path, json_t* root, json_t** out_trace) {
  *out_trace = NULL;
  json_t* profile;
  CLI_TRY(read_json("profile", path, &profile));
  size_t taken = take_profile(profile, root);
  json_t* machine = json_object_get(profile, "Machine");
  if (machine) json_object_set(root, "Machine", machine);
  if (machine) json_object_set(root, "Threads", json_object_get(profile, "Threads"));
  if (taken && json_object_get(profile, "traceEvents")) *out_trace = json_incref(profile);
  json_decref(profile);
  CLI_CHECK(taken, INVALID_ARGUMENT,
            "profile %s has no time of a layer of this engine; it must be the JSON of `carnot exec "
            "--exportProfile`, `carnot inspect --peaks --json` or --exportTimeline",
            path);
  return NULL;
}

// ---- the timeline ----

// The lane of thread |tid|, -1 where the trace names none.
static int lane_of(const json_t* threads, json_int_t tid) {
  size_t i;
  json_t* thread;
  json_array_foreach(threads, i, thread) if (json_integer_value(thread) == tid) return (int)i;
  return -1;
}

void report_add_timeline(const json_t* trace, json_t* engine) {
  json_t *lanes = json_array(), *threads = json_array(), *spans = json_array(), *event;
  const json_t* events = json_object_get(trace, "traceEvents");
  size_t i;
  json_array_foreach(events, i, event) {
    if (strcmp(text_of(event, "name"), "thread_name") != 0) continue;
    json_array_append(lanes, json_object_get(json_object_get(event, "args"), "name"));
    json_array_append(threads, json_object_get(event, "tid"));
  }
  json_array_foreach(events, i, event) {
    bool is_whole = strcmp(text_of(event, "cat"), "run") == 0 ||
                    strcmp(text_of(event, "cat"), "graph") == 0;  // the lane's layers fill it
    int lane = lane_of(threads, json_integer_value(json_object_get(event, "tid")));
    if (is_whole || lane < 0 || strcmp(text_of(event, "ph"), "X") != 0) continue;
    json_t* layer = json_object_get(json_object_get(event, "args"), "layer");
    json_array_append_new(
        spans, json_pack("[i,f,f,I,s]", lane, json_number_value(json_object_get(event, "ts")),
                         json_number_value(json_object_get(event, "dur")),
                         layer ? json_integer_value(layer) : (json_int_t)-1,
                         layer ? "" : text_of(event, "name")));
  }
  json_decref(threads);
  json_object_set_new(engine, "timeline", json_pack("{s:o,s:o}", "lanes", lanes, "events", spans));
}
