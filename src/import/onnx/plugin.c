// Nodes that name a plugin: attributes are its fields; plugin_version (absent: "1") and
// plugin_namespace say which. Source: TensorRT, ONNX parser, fallback importer of plugins.
#include "import/onnx/plugin.h"

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
typedef struct numbers {
  int64_t count;
  bool is_float;
  const double* floats;
  const int64_t* ints;
} numbers;

static numbers numbers_of(onnx_import* n, const char* name, const onnx_attribute* attr) {
  numbers out = {0};
  carnot_tensor tensor;
  switch (attr->type) {
    case ONNX_ATTRIBUTE_INT: return (numbers){.count = 1, .ints = &attr->i};
    case ONNX_ATTRIBUTE_INTS:
      return (numbers){.count = (int64_t)attr->ints.count, .ints = attr->ints.items};
    case ONNX_ATTRIBUTE_FLOAT:
    case ONNX_ATTRIBUTE_FLOATS: {
      const float* from = attr->type == ONNX_ATTRIBUTE_FLOAT ? NULL : attr->floats.items;
      out.count = from ? (int64_t)attr->floats.count : attr->type == ONNX_ATTRIBUTE_FLOAT;
      double* wide = CARNOT_NEW_ARRAY(n->node.arena, double, (size_t)out.count + 1);
      if (!import_has_memory(&n->node)) return (numbers){0};
      for (int64_t i = 0; i < out.count; i++) wide[i] = from ? (double)from[i] : (double)attr->f;
      out.is_float = true;
      out.floats = wide;
      return out;
    }
    case ONNX_ATTRIBUTE_TENSOR: {
      if (!onnx_attr_tensor(n, name, &tensor)) return out;
      out.count = carnot_tensor_count(&tensor);
      double* wide = CARNOT_NEW_ARRAY(n->node.arena, double, (size_t)out.count + 1);
      int64_t* whole = CARNOT_NEW_ARRAY(n->node.arena, int64_t, (size_t)out.count + 1);
      if (!import_has_memory(&n->node)) return (numbers){0};
      out.is_float = carnot_dtype_is_float(tensor.dtype);
      for (int64_t i = 0; i < out.count; i++) {
        if (out.is_float)
          wide[i] = carnot_load_f64(tensor.dtype, tensor.data, (size_t)i);
        else
          whole[i] = carnot_load_i64(tensor.dtype, tensor.data, (size_t)i);
      }
      out.floats = wide;
      out.ints = whole;
      return out;
    }
    default: return out;
  }
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

static void dims_field(onnx_import* n, const char* name, const numbers* values,
                       carnot_plugin_field* out) {
  if (values->is_float || values->count > CARNOT_MAX_RANK) {
    ONNX_FAIL(n, INVALID_MODEL, "attribute %s is no list of at most %d integers", name,
              CARNOT_MAX_RANK);
    return;
  }
  carnot_dims* dims = CARNOT_NEW(n->node.arena, carnot_dims);
  dims->rank = (int32_t)values->count;
  for (int32_t d = 0; d < dims->rank; d++) dims->d[d] = values->ints[d];
  *out = (carnot_plugin_field){name, dims, CARNOT_FIELD_DIMS, 1};
}

// Numbers in the type that the creator wants; UNKNOWN: as the file has them.
static void number_field(onnx_import* n, const char* name, carnot_field_type type,
                         const numbers* values, carnot_plugin_field* out) {
  if (type == CARNOT_FIELD_UNKNOWN)
    type = values->is_float ? CARNOT_FIELD_FLOAT32 : CARNOT_FIELD_INT64;
  carnot_dtype dtype = dtype_of(type);
  if (dtype == CARNOT_DTYPE_INVALID || values->count > INT32_MAX ||
      (values->is_float && !carnot_dtype_is_float(dtype))) {
    ONNX_FAIL(n, INVALID_MODEL, "attribute %s does not fit the field's type %s", name,
              carnot_field_type_name(type));
    return;
  }
  void* data =
      carnot_arena_alloc(n->node.arena, carnot_field_bytes(type, (int32_t)values->count) + 1, 1);
  if (!import_has_memory(&n->node)) return;
  for (int64_t i = 0; i < values->count; i++) {
    if (values->is_float || carnot_dtype_is_float(dtype))
      carnot_store_f64(dtype, data, (size_t)i,
                       values->is_float ? values->floats[i] : (double)values->ints[i]);
    else
      carnot_store_i64(dtype, data, (size_t)i, values->ints[i]);
    if (carnot_dtype_is_integer(dtype) &&
        carnot_load_i64(dtype, data, (size_t)i) != values->ints[i])
      ONNX_FAIL(n, OUT_OF_RANGE, "attribute %s: element %lld is %lld, which field type %s lacks",
                name, (long long)i, (long long)values->ints[i], carnot_field_type_name(type));
  }
  *out = (carnot_plugin_field){name, data, type, (int32_t)values->count};
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
  numbers values = numbers_of(n, name, attr);
  if (n->node.status) return;
  if (type == CARNOT_FIELD_DIMS)
    dims_field(n, name, &values, out);
  else
    number_field(n, name, type, &values, out);
}

// Attributes that say which plugin is meant, and how, are no fields.
static bool is_about_plugin(const char* name) {
  return strcmp(name, "plugin_version") == 0 || strcmp(name, "plugin_namespace") == 0;
}

// As TensorRT does, only attributes that the creator lists are taken; all where it lists none.
static carnot_fields fields_of(onnx_import* n, const carnot_plugin_creator* creator) {
  const onnx_attribute_list* list = &n->proto->attribute;
  carnot_fields fields = {CARNOT_NEW_ARRAY(n->node.arena, carnot_plugin_field, list->count + 1), 0};
  if (!import_has_memory(&n->node)) return (carnot_fields){0};
  for (size_t i = 0; i < list->count && !n->node.status; i++) {
    carnot_strview view = list->items[i].name;
    const char* name = carnot_arena_text(n->node.arena, view.data, view.size);
    if (is_about_plugin(name)) continue;
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
