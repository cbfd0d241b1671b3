// Nodes that a plugin computes: attributes are its fields, plugin_version (absent: "1") and
// plugin_namespace say which. TensorRT's GraphSurgeon writes such nodes into frozen graphs.
#include "import/tensorflow/plugin.h"

#include "import/common/plugin_fields.h"
#include "plugin/front.h"

static const char* text_attr(const tf_node* node, carnot_arena* arena, const char* name,
                             const char* absent) {
  const tf_attr_value* attr = tf_attr_find(node, name);
  if (!attr) return absent;
  if (attr->present & TF_HAS_I) return carnot_arena_print(arena, "%lld", (long long)attr->i);
  return carnot_arena_text(arena, attr->s.data, attr->s.size);
}

static const carnot_plugin_entry* find_entry(const tf_node* node, carnot_arena* arena) {
  const char* name = carnot_arena_text(arena, node->op.data, node->op.size);
  const char* version = text_attr(node, arena, "plugin_version", "1");
  const char* name_space = text_attr(node, arena, "plugin_namespace", "");
  return arena->failed ? NULL : carnot_registry_lookup(name, version, name_space);
}

static import_numbers ints_of(tf_import* n, const int64_t* values, size_t count) {
  (void)n;
  return (import_numbers){.count = (int64_t)count, .ints = values};
}

static import_numbers shape_of(tf_import* n, const tf_shape* shape) {
  int64_t* dims = CARNOT_NEW_ARRAY(n->node.arena, int64_t, shape->dim.count + 1);
  if (!import_has_memory(&n->node)) return (import_numbers){0};
  for (size_t i = 0; i < shape->dim.count; i++) dims[i] = shape->dim.items[i].size;
  return ints_of(n, dims, shape->dim.count);
}

static import_numbers list_of(tf_import* n, const tf_attr_list* list) {
  if (list->i.count) return ints_of(n, list->i.items, list->i.count);
  if (list->f.count) return import_numbers_of_floats(&n->node, list->f.items, list->f.count);
  if (list->b.count) return ints_of(n, list->b.items, list->b.count);
  return ints_of(n, list->type.items, list->type.count);
}

// The numbers of an attribute; an error where it has none.
static import_numbers numbers_of(tf_import* n, const char* name, const tf_attr_value* attr) {
  carnot_tensor tensor;
  if (attr->tensor) {
    n->node.status = tf_tensor_read(attr->tensor, tf_files(n), n->node.arena, &tensor);
    return n->node.status ? (import_numbers){0} : import_numbers_of_tensor(&n->node, &tensor);
  }
  if (attr->present & TF_HAS_I) return ints_of(n, &attr->i, 1);
  if (attr->present & TF_HAS_F) return import_numbers_of_floats(&n->node, &attr->f, 1);
  if (attr->present & TF_HAS_B) return ints_of(n, &attr->b, 1);
  if (attr->present & TF_HAS_TYPE) return ints_of(n, &attr->type, 1);
  if (attr->shape) return shape_of(n, attr->shape);
  if (attr->list && !attr->list->s.count && !attr->list->shape.count && !attr->list->func.count)
    return list_of(n, attr->list);
  TF_FAIL(n, UNSUPPORTED, "attribute %s holds neither a text nor numbers, and no field can be that",
          name);
  return (import_numbers){0};
}

// As in ONNX, only attributes that the creator lists are taken; where it lists none, all but those
// that TensorFlow adds for itself (_output_shapes …).
static carnot_fields fields_of(tf_import* n, const carnot_plugin_creator* creator) {
  const tf_node* node = n->proto;
  carnot_fields fields = {
      CARNOT_NEW_ARRAY(n->node.arena, carnot_plugin_field, node->attr.count + 1), 0};
  if (!import_has_memory(&n->node)) return (carnot_fields){0};
  for (size_t i = 0; i < node->attr.count && !n->node.status; i++) {
    const carnot_strview key = node->attr.items[i].key;
    const tf_attr_value* attr = node->attr.items[i].value;
    const char* name = carnot_arena_text(n->node.arena, key.data, key.size);
    if (!import_has_memory(&n->node)) break;
    const carnot_plugin_field* known =
        carnot_field_find(creator->fields, creator->field_count, name);
    if (!attr || import_names_plugin(name) || name[0] == '_') continue;
    if (!known && creator->field_count) continue;
    carnot_plugin_field* field = &fields.items[fields.count];
    if (attr->present & TF_HAS_S) {
      *field = (carnot_plugin_field){name, attr->s.data ? attr->s.data : "", CARNOT_FIELD_CHAR,
                                     (int32_t)attr->s.size};
    } else {
      const import_numbers values = numbers_of(n, name, attr);
      import_number_field(&n->node, name, known ? known->type : CARNOT_FIELD_UNKNOWN, &values,
                          field);
    }
    if (field->name) fields.count++;
  }
  return fields;
}

static void import_plugin(tf_import* n) {
  const carnot_plugin_entry* entry = find_entry(n->proto, n->node.arena);
  if (!import_has_memory(&n->node) || !entry) return;
  const carnot_fields fields = fields_of(n, &entry->creator);
  carnot_plugin* plugin;
  if (n->node.status) return;
  n->node.status =
      carnot_plugin_create(&entry->creator, n->node.name, fields.items, fields.count, &plugin);
  if (n->node.status) return;
  n->output_count = plugin->output_count;
  if (n->output_count > TF_MOST_OUTPUTS)
    TF_FAIL(n, UNSUPPORTED, "plugin %s has %d outputs; at most %d are supported", plugin->name,
            n->output_count, TF_MOST_OUTPUTS);
  else
    n->node.status = carnot_plugin_add_made(n->node.block, plugin, n->node.name, n->inputs,
                                            n->input_count, n->outputs);
  carnot_plugin_destroy(plugin);
}

const tf_row* tf_plugin_row(const tf_node* node, carnot_arena* arena) {
  static const tf_row kRow = {"plugin", import_plugin, 0, -1, 0, NULL, NULL};
  return find_entry(node, arena) ? &kRow : NULL;
}

const char* tf_plugin_missing(carnot_strview op, carnot_arena* arena) {
  char nearest[1000];
  carnot_registry_nearest(carnot_arena_text(arena, op.data, op.size), nearest, sizeof(nearest));
  return carnot_arena_print(
      arena, "no such operator is known, and no plugin of that name is registered%s%s",
      nearest[0] ? "; the nearest are: " : "", nearest);
}
