// Lists of values.
// Positions in [-n, n) (for insertion [-n, n]) count from the end when negative; any other is
// INVALID_ARGUMENT. Source: ONNX SequenceEmpty-11, SequenceConstruct-11, SequenceInsert-11,
// SequenceErase-11, SequenceAt-11, SequenceLength-11, SplitToSequence-24, ConcatFromSequence-11.
#include "ops/infer_help.h"
#include "ops/rt_value.h"
#include "ops/strided_copy.h"

// The sequence at input |i|.
static carnot_status* sequence_input(const carnot_infer* infer, int i,
                                     const carnot_type** out_type) {
  *out_type = NULL;
  CARNOT_CHECK(carnot_infer_has(infer, i), INVALID_MODEL, "input %d is missing", i);
  *out_type = infer->inputs[i].type;
  CARNOT_CHECK(
      (*out_type)->kind == CARNOT_VALUE_SEQUENCE || (*out_type)->kind == CARNOT_VALUE_UNKNOWN,
      INVALID_MODEL, "input %d is no sequence", i);
  return NULL;
}

static carnot_status* sequence_cell(const carnot_call* call, int i,
                                    const carnot_rt_value** out_cell) {
  *out_cell = call->inputs[i];
  CARNOT_CHECK((*out_cell)->kind == CARNOT_VALUE_SEQUENCE, INVALID_ARGUMENT,
               "input %d is no sequence", i);
  return NULL;
}

// An integer input as a position among |count| items.
static carnot_status* read_position(const carnot_call* call, int i, int64_t count, bool end_too,
                                    int64_t* out) {
  const carnot_tensor* t = carnot_call_in(call, i);
  CARNOT_CHECK(carnot_tensor_count(t) == 1, INVALID_ARGUMENT, "the position is no single number");
  int64_t at = carnot_load_i64(t->dtype, t->data, 0), limit = count + end_too;
  CARNOT_CHECK(at >= -count && at < limit, INVALID_ARGUMENT,
               "position %lld is outside [-%lld, %lld)", (long long)at, (long long)count,
               (long long)limit);
  *out = at < 0 ? at + count : at;
  return NULL;
}

// ---- making and changing ----

static carnot_status* infer_empty(carnot_infer* infer) {
  carnot_type element = {.kind = CARNOT_VALUE_TENSOR,
                         .dtype = (carnot_dtype)carnot_infer_int(infer, "dtype"),
                         .rank = -1};
  carnot_infer_set_list(infer, 0, CARNOT_VALUE_SEQUENCE, &element);
  return NULL;
}

static carnot_status* run_empty(carnot_call* call) {
  return carnot_call_set_items(call, 0, CARNOT_VALUE_SEQUENCE, NULL, 0);
}

static carnot_status* infer_construct(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  carnot_type element = *x;
  for (int i = 1; i < infer->input_count; i++) {
    CARNOT_TRY(carnot_infer_tensor(infer, i, &x));
    CARNOT_CHECK(x->dtype == element.dtype, INVALID_MODEL, "input %d has type %s, input 0 has %s",
                 i, carnot_dtype_name(x->dtype), carnot_dtype_name(element.dtype));
    element = carnot_infer_join(infer, &element, x);
  }
  carnot_infer_set_list(infer, 0, CARNOT_VALUE_SEQUENCE, &element);
  return NULL;
}

static carnot_status* run_construct(carnot_call* call) {
  carnot_rt_value_list list = {0};
  for (int i = 0; i < call->input_count; i++) {
    const carnot_rt_value* kept;
    CARNOT_TRY(carnot_call_keep(call, call->inputs[i], &kept));
    CARNOT_TRY(carnot_rt_value_list_add(call, &list, kept));
  }
  return carnot_call_set_items(call, 0, CARNOT_VALUE_SEQUENCE, list.items, list.count);
}

static carnot_status* infer_insert(carnot_infer* infer) {
  const carnot_type *list, *x;
  CARNOT_TRY(sequence_input(infer, 0, &list));
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &x));
  carnot_type element = list->element ? carnot_infer_join(infer, list->element, x) : *x;
  carnot_infer_set_list(infer, 0, CARNOT_VALUE_SEQUENCE, &element);
  return NULL;
}

static carnot_status* run_insert(carnot_call* call) {
  const carnot_rt_value *list, *item;
  CARNOT_TRY(sequence_cell(call, 0, &list));
  int64_t at = (int64_t)list->item_count;
  if (carnot_call_in(call, 2)) CARNOT_TRY(read_position(call, 2, at, /*end_too=*/true, &at));
  CARNOT_TRY(carnot_call_keep(call, call->inputs[1], &item));
  void* memory;
  CARNOT_TRY(carnot_call_alloc(call, (list->item_count + 1) * sizeof(item), &memory));
  const carnot_rt_value** items = memory;
  for (size_t i = 0; i <= list->item_count; i++) {
    items[i] = (int64_t)i < at ? list->items[i] : (int64_t)i == at ? item : list->items[i - 1];
  }
  return carnot_call_set_items(call, 0, CARNOT_VALUE_SEQUENCE, items, list->item_count + 1);
}

static carnot_status* infer_erase(carnot_infer* infer) {
  const carnot_type* list;
  CARNOT_TRY(sequence_input(infer, 0, &list));
  carnot_infer_set_list(infer, 0, CARNOT_VALUE_SEQUENCE, list->element);
  return NULL;
}

static carnot_status* run_erase(carnot_call* call) {
  const carnot_rt_value* list;
  CARNOT_TRY(sequence_cell(call, 0, &list));
  int64_t at = (int64_t)list->item_count - 1;
  CARNOT_CHECK(at >= 0, INVALID_ARGUMENT, "an empty sequence has nothing to erase");
  if (carnot_call_in(call, 1)) CARNOT_TRY(read_position(call, 1, at + 1, /*end_too=*/false, &at));
  carnot_rt_value_list left = {0};
  for (size_t i = 0; i < list->item_count; i++) {
    if ((int64_t)i != at) CARNOT_TRY(carnot_rt_value_list_add(call, &left, list->items[i]));
  }
  return carnot_call_set_items(call, 0, CARNOT_VALUE_SEQUENCE, left.items, left.count);
}

// ---- reading ----

static carnot_status* infer_at(carnot_infer* infer) {
  const carnot_type* list;
  CARNOT_TRY(sequence_input(infer, 0, &list));
  const carnot_type* element = list->element;
  // While running the element's type is that of the first item, and others may have other
  // dimensions.
  int rank =
      element && element->kind == CARNOT_VALUE_TENSOR && element->rank > 0 ? element->rank : -1;
  carnot_infer_set_unknown(infer, 0, element ? element->dtype : CARNOT_DTYPE_INVALID, rank);
  return NULL;
}

static carnot_status* run_at(carnot_call* call) {
  const carnot_rt_value* list;
  int64_t at;
  CARNOT_TRY(sequence_cell(call, 0, &list));
  CARNOT_TRY(read_position(call, 1, (int64_t)list->item_count, /*end_too=*/false, &at));
  return carnot_call_give(call, 0, list->items[at]);
}

static carnot_status* infer_length(carnot_infer* infer) {
  const carnot_type* list;
  CARNOT_TRY(sequence_input(infer, 0, &list));
  carnot_infer_set(infer, 0, CARNOT_DTYPE_I64, 0, NULL);
  return NULL;
}

static carnot_status* run_length(carnot_call* call) {
  const carnot_rt_value* list;
  CARNOT_TRY(sequence_cell(call, 0, &list));
  carnot_tensor* y = carnot_call_out(call, 0);
  if (y) *(int64_t*)y->data = (int64_t)list->item_count;
  return NULL;
}

// ---- split_to_sequence, concat_from_sequence ----

// Without sizes each part has one element on the axis, and loses it when keepdims is 0.
static bool drops_axis(const carnot_op_row* row, const carnot_attrs* attrs, bool has_sizes) {
  return !has_sizes && carnot_attr_int(row, attrs, "keepdims") == 0;
}

static carnot_status* infer_split_to(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  carnot_type element = *x;
  if (x->rank >= 0) {
    int axis;
    CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
    bool has_sizes = carnot_infer_has(infer, 1);
    element.dims[axis] =
        has_sizes ? carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED) : carnot_sym_of(1);
    if (drops_axis(infer->row, infer->attrs, has_sizes)) {
      element.rank--;
      for (int d = axis; d < element.rank; d++) element.dims[d] = x->dims[d + 1];
    }
  }
  carnot_infer_set_list(infer, 0, CARNOT_VALUE_SEQUENCE, &element);
  return NULL;
}

// How many elements part |i| has; 0 behind the last part of equal ones.
static int64_t part_size(const carnot_tensor* sizes, int64_t i, int64_t left) {
  if (!sizes) return carnot_min_i64(1, left);
  if (sizes->rank == 0) return carnot_min_i64(carnot_load_i64(sizes->dtype, sizes->data, 0), left);
  return carnot_load_i64(sizes->dtype, sizes->data, (size_t)i);
}

static carnot_status* run_split_to(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *sizes = carnot_call_in(call, 1);
  int axis;
  CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  bool drop = drops_axis(call->row, call->attrs, sizes != NULL);
  int64_t outer = carnot_dims_count(x->dims, axis),
          inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1);
  int64_t whole = x->dims[axis], at = 0;
  int64_t given = sizes && sizes->rank ? carnot_tensor_count(sizes) : -1;
  carnot_rt_value_list list = {0};
  for (int64_t i = 0; given >= 0 ? i < given : at < whole; i++) {
    int64_t size = part_size(sizes, i, whole - at), dims[CARNOT_MAX_RANK];
    CARNOT_CHECK(size >= 0 && size <= whole - at && (size > 0 || given >= 0), INVALID_ARGUMENT,
                 "part %lld of size %lld does not fit into %lld", (long long)i, (long long)size,
                 (long long)(whole - at));
    int rank = 0;
    for (int d = 0; d < x->rank; d++) {
      if (d != axis || !drop) dims[rank++] = d == axis ? size : x->dims[d];
    }
    carnot_rt_value* part;
    CARNOT_TRY(carnot_call_new_tensor(call, x->dtype, rank, dims, &part));
    carnot_strided_copy move = {.dtype = x->dtype,
                                .rank = 2,
                                .dims = {outer, size * inner},
                                .src_strides = {whole * inner, 1},
                                .dst_strides = {size * inner, 1},
                                .src_offset = at * inner};
    carnot_strided_copy_run(&move, part->tensor.data, x->data);
    CARNOT_TRY(carnot_rt_value_list_add(call, &list, part));
    at += size;
  }
  CARNOT_CHECK(at == whole, INVALID_ARGUMENT, "the sizes sum to %lld, the axis has %lld",
               (long long)at, (long long)whole);
  return carnot_call_set_items(call, 0, CARNOT_VALUE_SEQUENCE, list.items, list.count);
}

static carnot_status* infer_concat_from(carnot_infer* infer) {
  const carnot_type* list;
  CARNOT_TRY(sequence_input(infer, 0, &list));
  const carnot_type* element = list->element;
  int rank = element && element->rank >= 0
                 ? element->rank + (carnot_infer_int(infer, "new_axis") != 0)
                 : -1;
  carnot_infer_set_unknown(infer, 0, element ? element->dtype : CARNOT_DTYPE_INVALID,
                           rank > CARNOT_MAX_RANK || rank == 0 ? -1 : rank);
  return NULL;
}

static carnot_status* run_concat_from(carnot_call* call) {
  const carnot_rt_value* list;
  CARNOT_TRY(sequence_cell(call, 0, &list));
  CARNOT_CHECK(list->item_count > 0, INVALID_ARGUMENT, "an empty sequence cannot be joined");
  int64_t axis_attr = carnot_call_int(call, "axis");
  if (carnot_call_int(call, "new_axis")) {
    return carnot_call_stack(call, 0, list->items, list->item_count, axis_attr, false, NULL);
  }
  const carnot_tensor* first = &list->items[0]->tensor;
  int axis;
  CARNOT_TRY(carnot_axis(axis_attr, first->rank, "axis", &axis));
  int64_t dims[CARNOT_MAX_RANK], at = 0;
  memcpy(dims, first->dims, sizeof(dims));
  dims[axis] = 0;
  for (size_t i = 0; i < list->item_count; i++) {
    const carnot_tensor* x = &list->items[i]->tensor;
    CARNOT_CHECK(x->rank == first->rank && x->dtype == first->dtype, INVALID_ARGUMENT,
                 "item %zu has another rank or type than item 0", i);
    for (int d = 0; d < x->rank; d++) {
      CARNOT_CHECK(d == axis || x->dims[d] == first->dims[d], INVALID_ARGUMENT,
                   "dimension %d of item %zu is %lld, not %lld", d, i, (long long)x->dims[d],
                   (long long)first->dims[d]);
    }
    dims[axis] += x->dims[axis];
  }
  CARNOT_TRY(carnot_call_size_output(call, 0, first->dtype, first->rank, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  int64_t outer = carnot_dims_count(dims, axis),
          row = carnot_dims_count(dims + axis, first->rank - axis);
  for (size_t i = 0; y && i < list->item_count; i++) {
    const carnot_tensor* x = &list->items[i]->tensor;
    int64_t part = carnot_dims_count(x->dims + axis, x->rank - axis);
    carnot_strided_copy move = {.dtype = x->dtype,
                                .rank = 2,
                                .dims = {outer, part},
                                .src_strides = {part, 1},
                                .dst_strides = {row, 1},
                                .dst_offset = at};
    carnot_strided_copy_run(&move, y->data, x->data);
    at += part;
  }
  return NULL;
}

// ---- rows ----

static const carnot_attr_spec kEmptyAttrs[] = {
    {"dtype", CARNOT_ATTR_INT, false, CARNOT_DTYPE_F32, NULL, NULL}, {0}};
static const carnot_attr_spec kSplitAttrs[] = {{"axis", CARNOT_ATTR_INT, false, 0, NULL, NULL},
                                               {"keepdims", CARNOT_ATTR_INT, false, 1, NULL, NULL},
                                               {0}};
static const carnot_attr_spec kConcatAttrs[] = {{"axis", CARNOT_ATTR_INT, true, 0, NULL, NULL},
                                                {"new_axis", CARNOT_ATTR_INT, false, 0, NULL, NULL},
                                                {0}};
const carnot_op_row carnot_op_sequence_empty = {
    .name = "sequence_empty",
    .min_inputs = 0,
    .max_inputs = 0,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kEmptyAttrs,
    .infer = infer_empty,
    .reference = run_empty,
    .source = "ONNX SequenceEmpty-11",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_sequence_construct = {
    .name = "sequence_construct",
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_construct,
    .reference = run_construct,
    .source = "ONNX SequenceConstruct-11",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_sequence_at = {
    .name = "sequence_at",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = CARNOT_OP_DATA_DEPENDENT,
    .infer = infer_at,
    .reference = run_at,
    .source = "ONNX SequenceAt-11",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_sequence_erase = {
    .name = "sequence_erase",
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_erase,
    .reference = run_erase,
    .source = "ONNX SequenceErase-11",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_sequence_insert = {
    .name = "sequence_insert",
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_insert,
    .reference = run_insert,
    .source = "ONNX SequenceInsert-11",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_sequence_length = {
    .name = "sequence_length",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_length,
    .reference = run_length,
    .source = "ONNX SequenceLength-11",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_split_to_sequence = {
    .name = "split_to_sequence",
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kSplitAttrs,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .infer = infer_split_to,
    .reference = run_split_to,
    .source = "ONNX SplitToSequence-24",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_concat_from_sequence = {
    .name = "concat_from_sequence",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = CARNOT_OP_DATA_DEPENDENT,
    .attrs = kConcatAttrs,
    .infer = infer_concat_from,
    .reference = run_concat_from,
    .source = "ONNX ConcatFromSequence-11",
    .layer_type = "REFERENCE",
};
