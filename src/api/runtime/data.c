// Text, sequences and optionals as users see them: cells.
#include "carnot/data.h"

#include <stdlib.h>

#include "ops/execute.h"
#include "run/context.h"

static carnot_status* new_cell(size_t extra_bytes, carnot_value_kind kind, carnot_data** out) {
  *out = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_rt_value) + extra_bytes, "data", &memory));
  *out = memory;
  (*out)->kind = kind;
  return NULL;
}

static carnot_status* set_dims(carnot_data* data, carnot_dtype dtype, const carnot_dims* dims) {
  CARNOT_CHECK(dims && dims->rank >= 0 && dims->rank <= CARNOT_MAX_RANK, INVALID_ARGUMENT,
               "%d dimensions, 0 to %d are taken", dims ? dims->rank : -1, CARNOT_MAX_RANK);
  data->tensor.dtype = dtype;
  data->tensor.rank = dims->rank;
  for (int d = 0; d < dims->rank; d++) {
    CARNOT_CHECK(dims->d[d] >= 0, INVALID_ARGUMENT, "dimension %d is %lld", d,
                 (long long)dims->d[d]);
    data->tensor.dims[d] = dims->d[d];
  }
  size_t bytes;
  return carnot_dims_bytes(dtype, data->tensor.dims, dims->rank, &bytes);
}

// Frees what was made so far when |status| says that the rest failed.
static carnot_status* finish(carnot_status* status, carnot_data** out_data) {
  if (!status) return NULL;
  carnot_data_destroy(*out_data);
  *out_data = NULL;
  return status;
}

carnot_status* carnot_data_create_tensor(carnot_dtype dtype, const carnot_dims* dims,
                                         const void* data, carnot_data** out_data) {
  CARNOT_CHECK(dtype > CARNOT_DTYPE_INVALID && dtype < CARNOT_DTYPE_STRING, INVALID_ARGUMENT,
               "type %d is no type of numbers", (int)dtype);
  CARNOT_TRY(new_cell(0, CARNOT_VALUE_TENSOR, out_data));
  (*out_data)->tensor.data = (void*)(uintptr_t)data;
  CARNOT_TRY(finish(set_dims(*out_data, dtype, dims), out_data));
  bool there = data || carnot_tensor_count(&(*out_data)->tensor) == 0;
  return finish(there ? NULL : CARNOT_ERROR(INVALID_ARGUMENT, "a tensor's data is NULL"), out_data);
}

carnot_status* carnot_data_create_text(const carnot_dims* dims, const char* const* texts,
                                       const size_t* sizes, carnot_data** out_data) {
  carnot_data shape = {.kind = CARNOT_VALUE_TENSOR};
  *out_data = NULL;
  CARNOT_TRY(set_dims(&shape, CARNOT_DTYPE_STRING, dims));
  int64_t count = carnot_tensor_count(&shape.tensor);
  CARNOT_CHECK(count == 0 || texts, INVALID_ARGUMENT, "a tensor's text is NULL");
  CARNOT_CHECK((uint64_t)count < SIZE_MAX / sizeof(carnot_strview) / 2, OUT_OF_RANGE,
               "%lld pieces of text", (long long)count);
  CARNOT_TRY(new_cell((size_t)count * sizeof(carnot_strview), CARNOT_VALUE_TENSOR, out_data));
  carnot_strview* views = (carnot_strview*)(*out_data + 1);
  (*out_data)->tensor = shape.tensor;
  (*out_data)->tensor.data = views;
  for (int64_t i = 0; i < count; i++) {
    if (!texts[i])
      return finish(CARNOT_ERROR(INVALID_ARGUMENT, "text %lld is NULL", (long long)i), out_data);
    views[i] = (carnot_strview){texts[i], sizes ? sizes[i] : strlen(texts[i])};
  }
  return NULL;
}

carnot_status* carnot_data_create_sequence(const carnot_data* const* items, size_t count,
                                           carnot_data** out_data) {
  *out_data = NULL;
  CARNOT_CHECK(count < SIZE_MAX / sizeof(void*) / 2 && (items || !count), INVALID_ARGUMENT,
               "a sequence of %zu items", count);
  CARNOT_TRY(new_cell(count * sizeof(void*), CARNOT_VALUE_SEQUENCE, out_data));
  (*out_data)->items = (const carnot_rt_value**)(*out_data + 1);
  (*out_data)->item_count = count;
  for (size_t i = 0; i < count; i++) {
    if (!items[i]) return finish(CARNOT_ERROR(INVALID_ARGUMENT, "item %zu is NULL", i), out_data);
    (*out_data)->items[i] = items[i];
  }
  return NULL;
}

carnot_status* carnot_data_create_optional(const carnot_data* item, carnot_data** out_data) {
  CARNOT_TRY(carnot_data_create_sequence(&item, item ? 1 : 0, out_data));
  (*out_data)->kind = CARNOT_VALUE_OPTIONAL;
  return NULL;
}

void carnot_data_destroy(carnot_data* data) { free(data); }

carnot_data_kind carnot_data_kind_of(const carnot_data* data) {
  switch (data->kind) {
    case CARNOT_VALUE_TENSOR: return CARNOT_DATA_TENSOR;
    case CARNOT_VALUE_SEQUENCE: return CARNOT_DATA_SEQUENCE;
    case CARNOT_VALUE_OPTIONAL: return CARNOT_DATA_OPTIONAL;
    default: return CARNOT_DATA_UNKNOWN;
  }
}

carnot_dtype carnot_data_dtype(const carnot_data* data) {
  return data->kind == CARNOT_VALUE_TENSOR ? data->tensor.dtype : CARNOT_DTYPE_INVALID;
}

carnot_dims carnot_data_dims(const carnot_data* data) {
  carnot_dims dims = {.rank = data->kind == CARNOT_VALUE_TENSOR ? data->tensor.rank : -1};
  for (int d = 0; d < dims.rank; d++) dims.d[d] = data->tensor.dims[d];
  return dims;
}

const void* carnot_data_numbers(const carnot_data* data) {
  return data->kind == CARNOT_VALUE_TENSOR && data->tensor.dtype != CARNOT_DTYPE_STRING
             ? data->tensor.data
             : NULL;
}

const char* carnot_data_text(const carnot_data* data, size_t index, size_t* out_size) {
  *out_size = 0;
  if (data->kind != CARNOT_VALUE_TENSOR || data->tensor.dtype != CARNOT_DTYPE_STRING ||
      !carnot_rt_value_is_sized(data) || index >= (size_t)carnot_tensor_count(&data->tensor))
    return NULL;
  const carnot_strview* view = (const carnot_strview*)data->tensor.data + index;
  *out_size = view->size;
  return view->data ? view->data : "";
}

size_t carnot_data_item_count(const carnot_data* data) {
  return data->kind == CARNOT_VALUE_SEQUENCE || data->kind == CARNOT_VALUE_OPTIONAL
             ? data->item_count
             : 0;
}

const carnot_data* carnot_data_item(const carnot_data* data, size_t index) {
  return index < carnot_data_item_count(data) ? data->items[index] : NULL;
}

// A value is row-major: one of another format is copied to memory of the context.
static carnot_status* set_value(carnot_context* context, uint32_t index, const carnot_data* data) {
  const carnot_plan_binding* b = &context->plan->bindings[index];
  const carnot_tensor* t = &data->tensor;
  if (b->format == CARNOT_TENSOR_LINEAR || !b->is_input || data->kind != CARNOT_VALUE_TENSOR ||
      t->dtype != b->dtype || t->rank != b->rank)
    return carnot_context_set_input_cell(context, index, data);
  carnot_run_binding* binding = &context->bindings[index];
  carnot_dims dims = carnot_data_dims(data);
  carnot_tensor_layout layout;
  carnot_rt_value cell = *data;
  CARNOT_TRY_AT(carnot_tensor_layout_of(b->format, t->dtype, &dims, &layout), "input %s", b->name);
  CARNOT_TRY(carnot_own_output(context, binding, layout.bytes));
  cell.tensor.data = binding->own;
  CARNOT_TRY(carnot_context_set_input_cell(context, index, &cell));
  return carnot_tensor_to_format(b->format, t->dtype, &dims, t->data, binding->own);
}

// The row-major copy of an output of another format.
static carnot_status* output_value(carnot_context* context, uint32_t index,
                                   const carnot_data** out_data) {
  const carnot_plan_binding* b = &context->plan->bindings[index];
  carnot_run_binding* binding = &context->bindings[index];
  *out_data = carnot_context_output(context, index);
  const carnot_tensor* t = &(*out_data)->tensor;
  if (b->format == CARNOT_TENSOR_LINEAR || (*out_data)->kind != CARNOT_VALUE_TENSOR || !t->data)
    return NULL;
  void* memory = realloc(binding->linear_memory, carnot_tensor_bytes(t) + 1);
  if (!memory) return CARNOT_NO_MEMORY(carnot_tensor_bytes(t), "an output");
  binding->linear = **out_data;
  binding->linear.tensor.data = binding->linear_memory = memory;
  carnot_dims dims = carnot_data_dims(*out_data);
  CARNOT_TRY(carnot_tensor_from_format(b->format, t->dtype, &dims, t->data, memory));
  *out_data = &binding->linear;
  return NULL;
}

carnot_status* carnot_context_set_input_value(carnot_context* context, const char* name,
                                              const carnot_data* data) {
  uint32_t index;
  CARNOT_TRY(carnot_plan_find_binding(context->plan, name, &index));
  CARNOT_CHECK(data, INVALID_ARGUMENT, "input %s: the data is NULL", name);
  CARNOT_TRY(carnot_context_enter(context, __func__));
  return carnot_context_leave(context, set_value(context, index, data));
}

carnot_status* carnot_context_output_value(const carnot_context* context, const char* name,
                                           const carnot_data** out_data) {
  uint32_t index;
  *out_data = NULL;
  CARNOT_TRY(carnot_plan_find_binding(context->plan, name, &index));
  bool taken;
  CARNOT_TRY(carnot_context_enter_to_read(context, __func__, &taken));
  carnot_status* status = output_value((carnot_context*)(uintptr_t)context, index, out_data);
  carnot_context_leave_read(context, taken);
  return status;
}

// ---- elements ----

double carnot_element_f64(carnot_dtype dtype, const void* data, size_t index) {
  return dtype == CARNOT_DTYPE_STRING ? 0 : carnot_load_f64(dtype, data, index);
}

int64_t carnot_element_i64(carnot_dtype dtype, const void* data, size_t index) {
  return dtype == CARNOT_DTYPE_STRING ? 0 : carnot_load_i64(dtype, data, index);
}

void carnot_element_set_f64(carnot_dtype dtype, void* data, size_t index, double value) {
  if (dtype != CARNOT_DTYPE_STRING) carnot_store_f64(dtype, data, index, value);
}

void carnot_element_set_i64(carnot_dtype dtype, void* data, size_t index, int64_t value) {
  if (dtype != CARNOT_DTYPE_STRING) carnot_store_i64(dtype, data, index, value);
}
