// Nodes that name a plugin: attributes are its fields; plugin_version (absent: "1") and
// plugin_namespace say which. Source: TensorRT, ONNX parser, fallback importer of plugins.
#include "import/onnx/plugin.h"

#include "import/common/plugin_fields.h"
#include "import/onnx/importer_state.h"
#include "plugin/front.h"

static const char* text_attr(onnx_import* n, const char* name, const char* absent) {
  const onnx_attribute* attr = onnx_attr(n, name);
  if (!attr) return absent;
  if (attr->type == ONNX_ATTRIBUTE_INT)
    return carnot_arena_print(n->node.arena, "%lld", (long long)attr->i);
  carnot_strview text = onnx_attr_text(n, name, absent);
  return carnot_arena_text(n->node.arena, text.data, text.size);
}

const carnot_plugin_entry* onnx_plugin_find(onnx_import* n) {
  carnot_strview op = n->proto->op_type;
  return carnot_registry_lookup(carnot_arena_text(n->node.arena, op.data, op.size),
                                text_attr(n, "plugin_version", "1"),
                                text_attr(n, "plugin_namespace", ""));
}

bool onnx_plugin_replaces(onnx_import* n) {
  const carnot_onnx_options* options = &n->importer->options;
  if (options->plugin_instance_norm && carnot_view_is(n->proto->op_type, "InstanceNormalization"))
    return true;
  if (!options->plugin_override) return false;
  const carnot_plugin_entry* entry = onnx_plugin_find(n);
  return entry && !entry->builtin;
}

void onnx_plugin_missing(onnx_import* n) {
  char nearest[1000];
  carnot_strview op = n->proto->op_type;
  carnot_registry_nearest(carnot_arena_text(n->node.arena, op.data, op.size), nearest,
                          sizeof(nearest));
  ONNX_FAIL(n, UNSUPPORTED,
            "no such operator is known at this version, and no plugin " CARNOT_VIEW_FMT
            " version %s%s%s is registered%s%s",
            CARNOT_VIEW_ARG(op), text_attr(n, "plugin_version", "1"),
            onnx_attr(n, "plugin_namespace") ? " in namespace " : "",
            text_attr(n, "plugin_namespace", ""), nearest[0] ? "; the nearest are: " : "", nearest);
}

// ---- attributes as fields ----

// The numbers of an attribute, whatever kind it has.
static import_numbers numbers_of(onnx_import* n, const char* name, const onnx_attribute* attr) {
  import_numbers out = {0};
  carnot_tensor tensor;
  switch (attr->type) {
    case ONNX_ATTRIBUTE_INT: return (import_numbers){.count = 1, .ints = &attr->i};
    case ONNX_ATTRIBUTE_INTS:
      return (import_numbers){.count = (int64_t)attr->ints.count, .ints = attr->ints.items};
    case ONNX_ATTRIBUTE_FLOAT: return import_numbers_of_floats(&n->node, &attr->f, 1);
    case ONNX_ATTRIBUTE_FLOATS:
      return import_numbers_of_floats(&n->node, attr->floats.items, attr->floats.count);
    case ONNX_ATTRIBUTE_TENSOR:
      return onnx_attr_tensor(n, name, &tensor) ? import_numbers_of_tensor(&n->node, &tensor) : out;
    default: return out;
  }
}

static void make_field(onnx_import* n, const char* name, carnot_field_type type,
                       carnot_plugin_field* out) {
  const onnx_attribute* attr = onnx_attr(n, name);
  if (n->node.status || !attr) return;
  if (attr->type == ONNX_ATTRIBUTE_STRING) {
    *out = (carnot_plugin_field){name, attr->s.data ? attr->s.data : "", CARNOT_FIELD_CHAR,
                                 (int32_t)attr->s.size};
    return;
  }
  const import_numbers values = numbers_of(n, name, attr);
  import_number_field(&n->node, name, type, &values, out);
}

// As TensorRT does, only attributes that the creator lists are taken; all where it lists none.
static carnot_fields fields_of(onnx_import* n, const carnot_plugin_creator* creator) {
  const onnx_attribute_list* list = &n->proto->attribute;
  carnot_fields fields = {CARNOT_NEW_ARRAY(n->node.arena, carnot_plugin_field, list->count + 1), 0};
  if (!import_has_memory(&n->node)) return (carnot_fields){0};
  for (size_t i = 0; i < list->count && !n->node.status; i++) {
    carnot_strview view = list->items[i].name;
    const char* name = carnot_arena_text(n->node.arena, view.data, view.size);
    if (import_names_plugin(name)) continue;
    const carnot_plugin_field* known =
        carnot_field_find(creator->fields, creator->field_count, name);
    if (!known && creator->field_count) continue;
    carnot_plugin_field* field = &fields.items[fields.count];
    make_field(n, name, known ? known->type : CARNOT_FIELD_UNKNOWN, field);
    if (field->name) fields.count++;
  }
  return fields;
}

// ---- the node ----

// InstanceNormalization as its plugin: epsilon is the field, scale and bias are inputs.
static const carnot_plugin_entry* instance_norm_plugin(onnx_import* n) {
  return carnot_registry_lookup("InstanceNormalization_TRT", text_attr(n, "plugin_version", "1"),
                                text_attr(n, "plugin_namespace", ""));
}

void onnx_plugin_import(onnx_import* n) {
  const carnot_plugin_entry* entry = carnot_view_is(n->proto->op_type, "InstanceNormalization") &&
                                             n->importer->options.plugin_instance_norm
                                         ? instance_norm_plugin(n)
                                         : onnx_plugin_find(n);
  if (!entry) {
    onnx_plugin_missing(n);
    return;
  }
  carnot_fields fields = fields_of(n, &entry->creator);
  if (n->node.status) return;
  n->node.status = carnot_plugin_add(
      n->node.block, entry, carnot_arena_text(n->node.arena, n->node.name, strlen(n->node.name)),
      fields.items, fields.count, n->inputs, n->input_count, n->outputs, n->output_count);
}
