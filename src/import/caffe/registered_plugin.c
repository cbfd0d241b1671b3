// Layers whose type is the name of a registered plugin. The fields are those of the layer's own
// parameter messages: `my_param { alpha: 0.5 }`; the blobs are inputs behind the bottoms.
#include <string.h>

#include "import/caffe/net.h"
#include "import/common/plugin_fields.h"
#include "plugin/front.h"

enum { MOST_FIELDS = 256 };

// A message with a list for each field that a creator names.
typedef struct own_message {
  carnot_pb_message message;
  carnot_pb_field fields[MOST_FIELDS];
} own_message;
typedef struct own_fields {
  uint64_t present[MOST_FIELDS / 64];
  carnot_pb_any_list lists[MOST_FIELDS];
} own_fields;

static carnot_pb_kind kind_of(carnot_field_type type) {
  switch (type) {
    case CARNOT_FIELD_CHAR: return CARNOT_PB_TEXT;
    case CARNOT_FIELD_INT8:
    case CARNOT_FIELD_INT16:
    case CARNOT_FIELD_INT32:
    case CARNOT_FIELD_INT64:
    case CARNOT_FIELD_DIMS: return CARNOT_PB_INT;
    default: return CARNOT_PB_DOUBLE;
  }
}

static void set_message(own_message* own, const char* name, const carnot_plugin_field* fields,
                        int32_t count) {
  for (int32_t i = 0; i < count; i++)
    own->fields[i] =
        (carnot_pb_field){0,
                          kind_of(fields[i].type),
                          true,
                          false,
                          offsetof(own_fields, lists) + (size_t)i * sizeof(carnot_pb_any_list),
                          fields[i].name,
                          NULL,
                          NULL};
  own->message =
      (carnot_pb_message){name, sizeof(own_fields), own->fields, (size_t)count, NULL, NULL};
}

// The text between the braces of a parameter message; empty for the other fields of a layer.
static carnot_strview message_text(const carnot_pb_unknown* field) {
  static const char kSuffix[] = "_param";
  const carnot_strview name = field->name, value = field->value;
  const size_t suffix = sizeof(kSuffix) - 1;
  const bool is_param =
      name.size > suffix && memcmp(name.data + name.size - suffix, kSuffix, suffix) == 0;
  if (!is_param || carnot_view_is(name, "loss_param") || carnot_view_is(name, "transform_param") ||
      value.size < 2 || (value.data[0] != '{' && value.data[0] != '<'))
    return (carnot_strview){NULL, 0};
  return (carnot_strview){value.data + 1, value.size - 2};
}

static void set_field(caffe_import* n, const carnot_plugin_field* known, carnot_pb_any_list list,
                      carnot_plugin_field* out) {
  import_numbers values = {.count = (int64_t)list.count};
  switch (kind_of(known->type)) {
    case CARNOT_PB_TEXT: {
      const carnot_strview text = *(const carnot_strview*)list.items;
      *out = (carnot_plugin_field){known->name, text.data ? text.data : "", CARNOT_FIELD_CHAR,
                                   (int32_t)text.size};
      return;
    }
    case CARNOT_PB_INT: values.ints = list.items; break;
    default: values.is_float = true; values.floats = list.items;
  }
  import_number_field(&n->node, known->name, known->type, &values, out);
}

// The values that the layer's own messages give |known|; the last message that has one counts.
static carnot_fields read_fields(caffe_import* n, const carnot_plugin_field* known, int32_t count) {
  carnot_arena* arena = n->node.arena;
  own_message* own = CARNOT_NEW(arena, own_message);
  own_fields* found = CARNOT_NEW(arena, own_fields);
  carnot_fields fields = {CARNOT_NEW_ARRAY(arena, carnot_plugin_field, (size_t)count + 1), 0};
  if (!import_has_memory(&n->node)) return (carnot_fields){0};
  carnot_pb_any_list* last = CARNOT_NEW_ARRAY(arena, carnot_pb_any_list, (size_t)count + 1);
  if (!import_has_memory(&n->node)) return (carnot_fields){0};
  for (size_t i = 0; i < n->layer->unknown.count && !n->node.status; i++) {
    const carnot_pb_unknown* field = &n->layer->unknown.items[i];
    const carnot_strview text = message_text(field);
    if (!text.size) continue;
    set_message(own, carnot_arena_text(arena, field->name.data, field->name.size), known, count);
    if (!import_has_memory(&n->node)) break;
    n->node.status = carnot_pb_read_text(&own->message, text.data, text.size, arena, found);
    for (int32_t f = 0; f < count && !n->node.status; f++)
      if (found->lists[f].count) last[f] = found->lists[f];
  }
  for (int32_t f = 0; f < count && !n->node.status; f++)
    if (last[f].count) set_field(n, &known[f], last[f], &fields.items[fields.count++]);
  return fields;
}

// The creator of the layer's type; plugin_version (absent: "1") and plugin_namespace are texts of
// the layer's own messages.
static const carnot_plugin_entry* find_entry(caffe_import* n) {
  static const carnot_plugin_field kIdentity[] = {
      {"plugin_version", NULL, CARNOT_FIELD_CHAR, 0},
      {"plugin_namespace", NULL, CARNOT_FIELD_CHAR, 0},
  };
  const carnot_fields identity = read_fields(n, kIdentity, 2);
  const char* texts[2] = {"1", ""};
  for (int32_t i = 0; i < identity.count; i++)
    texts[strcmp(identity.items[i].name, "plugin_version") != 0] =
        carnot_arena_text(n->node.arena, identity.items[i].data, (size_t)identity.items[i].length);
  const carnot_strview type = n->layer->type;
  const char* name = carnot_arena_text(n->node.arena, type.data, type.size);
  if (!import_has_memory(&n->node)) return NULL;
  const carnot_plugin_entry* entry = carnot_registry_lookup(name, texts[0], texts[1]);
  if (!entry)
    CAFFE_FAIL(n, NOT_FOUND, "no plugin %s version %s%s%s is registered", name, texts[0],
               texts[1][0] ? " in namespace " : "", texts[1]);
  return entry;
}

static void import_registered(caffe_import* n) {
  const carnot_plugin_entry* entry = find_entry(n);
  if (!entry) return;
  const carnot_plugin_creator* creator = &entry->creator;
  if (creator->field_count > MOST_FIELDS) {
    CAFFE_FAIL(n, UNSUPPORTED, "plugin %s has %d fields; at most %d are supported", creator->name,
               creator->field_count, MOST_FIELDS);
    return;
  }
  const carnot_fields fields = read_fields(n, creator->fields, creator->field_count);
  const size_t blob_count = n->blobs ? n->blobs->count : 0;
  const int input_count = n->input_count + (int)blob_count;
  carnot_value** inputs = CARNOT_NEW_ARRAY(n->node.arena, carnot_value*, (size_t)input_count + 1);
  if (!import_has_memory(&n->node)) return;
  memcpy(inputs, n->inputs, (size_t)n->input_count * sizeof(*inputs));
  for (size_t i = 0; i < blob_count && !n->node.status; i++)
    inputs[n->input_count + (int)i] = caffe_blob_constant(n, i);
  if (n->node.status) return;
  carnot_plugin* plugin;
  n->node.status = carnot_plugin_create(creator, n->node.name, fields.items, fields.count, &plugin);
  if (n->node.status) return;
  caffe_add_plugin(n, plugin, inputs, input_count);
  carnot_plugin_destroy(plugin);
}

const caffe_row* caffe_registered_row(const caffe_importer* importer, const caffe_layer* layer) {
  static const caffe_row kRow = {"plugin", import_registered, NULL, 0, -1, 0, NULL};
  (void)importer;
  // Its version is looked at when the layer is imported.
  for (size_t i = 0; carnot_plugin_creator_at(i); i++)
    if (carnot_view_is(layer->type, carnot_plugin_creator_at(i)->name)) return &kRow;
  return NULL;
}
