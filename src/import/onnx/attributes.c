// Attributes of nodes: found through the frames of functions, brought to the operators' own.
#include "import/onnx/importer_state.h"

const onnx_attribute* onnx_attr(onnx_import* n, const char* name) {
  const onnx_attribute_list* list = &n->proto->attribute;
  const onnx_attribute* found = NULL;
  for (size_t i = 0; i < list->count && !found; i++) {
    if (carnot_view_is(list->items[i].name, name)) found = &list->items[i];
  }
  if (!found || found->ref_attr_name.size == 0) return found;
  const onnx_frame* frame = n->scope->frame;
  if (!frame) {
    ONNX_FAIL(n, INVALID_MODEL, "attribute %s refers to \"" CARNOT_VIEW_FMT "\" outside a function",
              name, CARNOT_VIEW_ARG(found->ref_attr_name));
    return NULL;
  }
  for (size_t i = 0; i < frame->given.count; i++) {
    if (carnot_view_equal(frame->given.items[i].name, found->ref_attr_name))
      return &frame->given.items[i];
  }
  const onnx_attribute_list* defaults = &frame->function->attribute_proto;
  for (size_t i = 0; i < defaults->count; i++) {
    if (carnot_view_equal(defaults->items[i].name, found->ref_attr_name))
      return &defaults->items[i];
  }
  return NULL;
}

// The attribute when it has the type wanted; files before IR version 2 tell no types.
static const onnx_attribute* typed(onnx_import* n, const char* name, int64_t type) {
  const onnx_attribute* attr = onnx_attr(n, name);
  if (!attr || attr->type == type || attr->type == ONNX_ATTRIBUTE_UNDEFINED) return attr;
  ONNX_FAIL(n, INVALID_MODEL, "attribute %s has type %lld, must be %lld", name,
            (long long)attr->type, (long long)type);
  return NULL;
}

int64_t onnx_attr_int(onnx_import* n, const char* name, int64_t absent) {
  const onnx_attribute* attr = typed(n, name, ONNX_ATTRIBUTE_INT);
  return attr ? attr->i : absent;
}

double onnx_attr_float(onnx_import* n, const char* name, double absent) {
  const onnx_attribute* attr = typed(n, name, ONNX_ATTRIBUTE_FLOAT);
  return attr ? attr->f : absent;
}

carnot_strview onnx_attr_text(onnx_import* n, const char* name, const char* absent) {
  const onnx_attribute* attr = typed(n, name, ONNX_ATTRIBUTE_STRING);
  return attr ? attr->s : carnot_view(absent);
}

const int64_t* onnx_attr_ints(onnx_import* n, const char* name, size_t* out_count) {
  static const int64_t kEmpty = 0;
  const onnx_attribute* attr = typed(n, name, ONNX_ATTRIBUTE_INTS);
  *out_count = attr ? attr->ints.count : 0;
  return !attr ? NULL : attr->ints.count ? attr->ints.items : &kEmpty;
}

const float* onnx_attr_floats(onnx_import* n, const char* name, size_t* out_count) {
  static const float kEmpty = 0;
  const onnx_attribute* attr = typed(n, name, ONNX_ATTRIBUTE_FLOATS);
  *out_count = attr ? attr->floats.count : 0;
  return !attr ? NULL : attr->floats.count ? attr->floats.items : &kEmpty;
}

carnot_dtype onnx_attr_dtype(onnx_import* n, const char* name, carnot_dtype absent) {
  int64_t number = onnx_attr_int(n, name, 0);
  if (number == 0) return absent;
  carnot_dtype dtype = carnot_onnx_dtype(number);
  if (dtype == CARNOT_DTYPE_INVALID) {
    ONNX_FAIL(n, INVALID_MODEL, "attribute %s: data type %lld does not exist", name,
              (long long)number);
  }
  return dtype;
}

import_files* onnx_files(onnx_import* n) { return n->importer->files; }

bool onnx_attr_tensor(onnx_import* n, const char* name, carnot_tensor* out_tensor) {
  const onnx_attribute* attr = typed(n, name, ONNX_ATTRIBUTE_TENSOR);
  if (!attr || n->node.status) return false;
  if (!attr->t) {
    ONNX_FAIL(n, INVALID_MODEL, "attribute %s holds no tensor", name);
    return false;
  }
  n->node.status = carnot_status_annotate(
      carnot_onnx_tensor_read(attr->t, n->importer->files, n->node.arena, out_tensor),
      "attribute %s", name);
  return !n->node.status;
}

// Attributes that ONNX gives as a number of TensorProto.DataType.
static bool names_dtype(const char* name) {
  static const char* const kNames[] = {
      "to",       "dtype", "output_dtype", "output_datatype", "stash_type", "softmax_precision",
      "precision"};
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); i++) {
    if (strcmp(name, kNames[i]) == 0) return true;
  }
  return false;
}

static void copy_ints(onnx_import* n, const char* name, carnot_attrs* attrs) {
  size_t count = 0;
  const int64_t* values = onnx_attr_ints(n, name, &count);
  if (values) carnot_attrs_set_ints(attrs, n->node.arena, name, values, count);
}

static void copy_floats(onnx_import* n, const char* name, carnot_attrs* attrs) {
  size_t count = 0;
  const float* values = onnx_attr_floats(n, name, &count);
  if (!values) return;
  double* wide = CARNOT_NEW_ARRAY(n->node.arena, double, count + 1);
  if (!import_has_memory(&n->node)) return;
  for (size_t i = 0; i < count; i++) wide[i] = values[i];
  carnot_attrs_set_floats(attrs, n->node.arena, name, wide, count);
}

static void copy_strings(onnx_import* n, const char* name, carnot_attrs* attrs) {
  const onnx_attribute* attr = typed(n, name, ONNX_ATTRIBUTE_STRINGS);
  if (!attr) return;
  carnot_strview* copy = CARNOT_NEW_ARRAY(n->node.arena, carnot_strview, attr->strings.count + 1);
  if (!import_has_memory(&n->node)) return;
  for (size_t i = 0; i < attr->strings.count; i++) {
    carnot_strview s = attr->strings.items[i];
    copy[i] = (carnot_strview){carnot_arena_text(n->node.arena, s.data, s.size), s.size};
  }
  carnot_attrs_set(attrs, n->node.arena,
                   (carnot_attr){.name = name,
                                 .type = CARNOT_ATTR_STRINGS,
                                 .count = attr->strings.count,
                                 .strings = copy});
}

static void copy_attr(onnx_import* n, const carnot_attr_spec* spec, carnot_attrs* attrs) {
  const char* name = spec->name;
  switch (spec->type) {
    case CARNOT_ATTR_INT:
      if (!names_dtype(name)) {
        carnot_attrs_set_int(attrs, n->node.arena, name, onnx_attr_int(n, name, 0));
      } else if (onnx_attr_int(n, name, 0) != 0) {
        carnot_attrs_set_int(attrs, n->node.arena, name,
                             onnx_attr_dtype(n, name, CARNOT_DTYPE_INVALID));
      }
      return;
    case CARNOT_ATTR_FLOAT:
      carnot_attrs_set_float(attrs, n->node.arena, name, onnx_attr_float(n, name, 0));
      return;
    case CARNOT_ATTR_STRING: {
      carnot_strview text = onnx_attr_text(n, name, "");
      carnot_attrs_set_text(attrs, n->node.arena, name,
                            carnot_arena_text(n->node.arena, text.data, text.size));
      return;
    }
    case CARNOT_ATTR_INTS: copy_ints(n, name, attrs); return;
    case CARNOT_ATTR_FLOATS: copy_floats(n, name, attrs); return;
    case CARNOT_ATTR_STRINGS: copy_strings(n, name, attrs); return;
    case CARNOT_ATTR_TENSOR: {
      carnot_tensor* tensor = CARNOT_NEW(n->node.arena, carnot_tensor);
      if (!onnx_attr_tensor(n, name, tensor)) return;
      carnot_attrs_set(attrs, n->node.arena,
                       (carnot_attr){.name = name, .type = CARNOT_ATTR_TENSOR, .tensor = tensor});
      return;
    }
    default: ONNX_FAIL(n, UNSUPPORTED, "attribute %s has a type that does not fit here", name);
  }
}

static carnot_attrs collect(onnx_import* n, carnot_op op, bool all) {
  carnot_attrs attrs = {0};
  const carnot_attr_spec* specs = carnot_op_get(op)->attrs;
  const onnx_attribute_list* list = &n->proto->attribute;
  for (size_t i = 0; i < list->count && !n->node.status; i++) {
    const carnot_attr_spec* spec = specs;
    while (spec && spec->name && !carnot_view_is(list->items[i].name, spec->name)) spec++;
    if (spec && spec->name) {
      if (onnx_attr(n, spec->name)) copy_attr(n, spec, &attrs);
    } else if (all && !carnot_view_is(list->items[i].name, "consumed_inputs") &&
               !(n->row->text && carnot_view_is(list->items[i].name, n->row->text))) {
      ONNX_FAIL(n, UNSUPPORTED, "attribute " CARNOT_VIEW_FMT " is not known",
                CARNOT_VIEW_ARG(list->items[i].name));
    }
  }
  return attrs;
}

carnot_attrs onnx_attrs_for(onnx_import* n, carnot_op op) { return collect(n, op, /*all=*/true); }

carnot_attrs onnx_attrs_known_to(onnx_import* n, carnot_op op) {
  return collect(n, op, /*all=*/false);
}
