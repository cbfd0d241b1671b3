// The parameters of a layer by the names of their fields.
#include <assert.h>
#include <string.h>

#include "import/caffe/caffe_params.h"

caffe_fields caffe_fields_of(const caffe_layer* layer, const char* name) {
  for (size_t i = 0; i < carnot_caffe_layer_text.field_count; i++) {
    const carnot_pb_field* field = &carnot_caffe_layer_text.fields[i];
    if (field->kind == CARNOT_PB_MESSAGE && !field->repeated && strcmp(field->name, name) == 0)
      return (caffe_fields){*(caffe_params* const*)((const char*)layer + field->offset),
                            field->message};
  }
  assert(!"a parameter message that the table has");
  return (caffe_fields){NULL, NULL};
}

// The member of the field |name| where it is there, else NULL.
static const void* member(caffe_fields f, const char* name, carnot_pb_kind kind, bool repeated) {
  for (size_t i = 0; f.message && i < f.message->field_count; i++) {
    const carnot_pb_field* field = &f.message->fields[i];
    if (strcmp(field->name, name) != 0) continue;
    assert(field->kind == kind && field->repeated == repeated);
    (void)kind, (void)repeated;
    const bool is_there = f.params && (f.params->present >> i & 1);
    return is_there ? (const char*)f.params + field->offset : NULL;
  }
  assert(!f.message && "a field that the message has");
  return NULL;
}

caffe_fields caffe_fields_in(caffe_fields f, const char* name) {
  const void* nested = member(f, name, CARNOT_PB_MESSAGE, false);
  return (caffe_fields){nested ? *(caffe_params* const*)nested : NULL, &carnot_caffe_nms_text};
}

bool caffe_has(caffe_fields f, const char* name) {
  for (size_t i = 0; f.params && i < f.message->field_count; i++)
    if (strcmp(f.message->fields[i].name, name) == 0) return f.params->present >> i & 1;
  return false;
}

int64_t caffe_int(caffe_fields f, const char* name, int64_t absent) {
  const int64_t* value = member(f, name, CARNOT_PB_INT, false);
  return value ? *value : absent;
}

double caffe_float(caffe_fields f, const char* name, double absent) {
  const float* value = member(f, name, CARNOT_PB_FLOAT, false);
  return value ? (double)*value : absent;
}

caffe_int_list caffe_ints(caffe_fields f, const char* name) {
  const caffe_int_list* list = member(f, name, CARNOT_PB_INT, true);
  return list ? *list : (caffe_int_list){NULL, 0};
}

caffe_float_list caffe_floats(caffe_fields f, const char* name) {
  const caffe_float_list* list = member(f, name, CARNOT_PB_FLOAT, true);
  return list ? *list : (caffe_float_list){NULL, 0};
}

caffe_shape_list caffe_shapes(caffe_fields f) {
  return f.params ? f.params->shape : (caffe_shape_list){NULL, 0};
}

const char* caffe_filler_value(caffe_fields f, size_t i, float* out_value) {
  *out_value = 0;
  if (!f.params || !f.params->data_filler.count) return NULL;
  const caffe_filler_list* list = &f.params->data_filler;
  const caffe_filler* filler = &list->items[list->count == 1 ? 0 : i];
  if (list->count != 1 && i >= list->count)
    return "data_filler: one, or one for each top, required";
  if (filler->type.size && !carnot_view_is(filler->type, "constant"))
    return "data_filler: only constants are supported";
  *out_value = filler->value;
  return NULL;
}
