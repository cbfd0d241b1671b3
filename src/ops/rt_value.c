// Values of any kind in reference kernels: passing on, keeping, stacking.
#include "ops/rt_value.h"

#include "ops/strided_copy.h"

// True when the data are in the memory of an input, which may be reused when the inputs have
// been read.
static bool stands_in_input(const carnot_call* call, const carnot_tensor* t) {
  for (int i = 0; i < call->input_count; i++) {
    const carnot_tensor* x = carnot_call_in(call, i);
    if (x && x->data == t->data) return true;
  }
  return false;
}

carnot_status* carnot_call_give(const carnot_call* call, int i, const carnot_rt_value* cell) {
  if (i >= call->output_count || !call->outputs[i]) return NULL;
  carnot_rt_value* out = call->outputs[i];
  if (cell->kind != CARNOT_VALUE_TENSOR)
    return carnot_call_set_items(call, i, cell->kind, cell->items, cell->item_count);
  const carnot_tensor* t = &cell->tensor;
  bool placed = out->kind == CARNOT_VALUE_TENSOR && out->tensor.data;
  if (!placed && !stands_in_input(call, t)) {
    *out = *cell;
    return NULL;
  }
  CARNOT_TRY(carnot_call_size_output(call, i, t->dtype, t->rank, t->dims));
  carnot_copy_elements(t->dtype, out->tensor.data, 0, t->data, 0, carnot_tensor_count(t));
  return NULL;
}

carnot_status* carnot_call_keep(const carnot_call* call, const carnot_rt_value* cell,
                                const carnot_rt_value** out_cell) {
  *out_cell = NULL;
  if (cell->kind != CARNOT_VALUE_TENSOR) {
    // The items are in the store already; only the list itself may go.
    void* memory;
    CARNOT_TRY(carnot_call_alloc(
        call, sizeof(carnot_rt_value) + (cell->item_count + 1) * sizeof(*cell->items), &memory));
    carnot_rt_value* copy = memory;
    *copy = *cell;
    copy->items = (const carnot_rt_value**)(copy + 1);
    for (size_t i = 0; i < cell->item_count; i++) copy->items[i] = cell->items[i];
    *out_cell = copy;
    return NULL;
  }
  const carnot_tensor* t = &cell->tensor;
  carnot_rt_value* copy;
  CARNOT_TRY(carnot_call_new_tensor(call, t->dtype, t->rank, t->dims, &copy));
  carnot_copy_elements(t->dtype, copy->tensor.data, 0, t->data, 0, carnot_tensor_count(t));
  *out_cell = copy;
  return NULL;
}

carnot_status* carnot_call_stack(const carnot_call* call, int i,
                                 const carnot_rt_value* const* cells, size_t count, int64_t axis,
                                 bool backwards, const carnot_tensor* none) {
  if (i >= call->output_count || !call->outputs[i]) return NULL;
  int64_t dims[CARNOT_MAX_RANK] = {0};
  const carnot_tensor* first = count ? &cells[0]->tensor : none;
  const int rank = first->rank + 1;
  const carnot_dtype dtype = first->dtype;
  CARNOT_CHECK(rank >= 1 && rank <= CARNOT_MAX_RANK, UNSUPPORTED,
               "%d dimensions where at most %d are supported", rank, CARNOT_MAX_RANK);
  int at;
  CARNOT_TRY(carnot_axis(axis, rank, "axis", &at));
  for (int d = 0, from = 0; d < rank; d++) dims[d] = d == at ? (int64_t)count : first->dims[from++];
  CARNOT_TRY(carnot_call_size_output(call, i, dtype, rank, dims));
  carnot_tensor* y = &call->outputs[i]->tensor;
  int64_t outer = carnot_dims_count(dims, at),
          inner = carnot_dims_count(dims + at + 1, rank - at - 1);
  for (size_t c = 0; c < count; c++) {
    const carnot_tensor* x = &cells[c]->tensor;
    bool same =
        cells[c]->kind == CARNOT_VALUE_TENSOR && x->rank == first->rank && x->dtype == dtype;
    for (int d = 0; same && d < x->rank; d++) same = x->dims[d] == first->dims[d];
    CARNOT_CHECK(same, INVALID_ARGUMENT,
                 "output %d: item %zu has another shape or type than item 0", i, c);
    int64_t place = (int64_t)(backwards ? count - 1 - c : c);
    carnot_strided_copy move = {.dtype = dtype,
                                .rank = 2,
                                .dims = {outer, inner},
                                .src_strides = {inner, 1},
                                .dst_strides = {(int64_t)count * inner, 1},
                                .dst_offset = place * inner};
    carnot_strided_copy_run(&move, y->data, x->data);
  }
  return NULL;
}

carnot_status* carnot_rt_value_list_add(const carnot_call* call, carnot_rt_value_list* list,
                                        const carnot_rt_value* cell) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? list->capacity * 2 : 16;
    void* memory;
    CARNOT_TRY(carnot_call_alloc(call, capacity * sizeof(*list->items), &memory));
    if (list->count) memcpy(memory, list->items, list->count * sizeof(*list->items));
    list->items = memory;
    list->capacity = capacity;
  }
  list->items[list->count++] = cell;
  return NULL;
}

carnot_type carnot_infer_join(carnot_infer* infer, const carnot_type* a, const carnot_type* b) {
  carnot_type joined = *a;
  if (a->kind != b->kind) return (carnot_type){.kind = CARNOT_VALUE_UNKNOWN, .rank = -1};
  if (a->kind != CARNOT_VALUE_TENSOR) {
    if (!a->element) return *b;
    if (!b->element || a->element == b->element) return *a;
    carnot_type* element = CARNOT_NEW(infer->arena, carnot_type);
    *element = carnot_infer_join(infer, a->element, b->element);
    joined.element = element;
    return joined;
  }
  if (!a->dtype) joined.dtype = b->dtype;
  if (a->rank != b->rank) joined.rank = -1;
  for (int d = 0; d < joined.rank; d++) {
    if (!carnot_sym_same(a->dims[d], b->dims[d]))
      joined.dims[d] = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  }
  return joined;
}

void carnot_infer_set_list(carnot_infer* infer, int i, carnot_value_kind kind,
                           const carnot_type* element) {
  if (i >= infer->output_count) return;
  infer->outputs[i].type = (carnot_type){.kind = kind, .rank = -1};
  if (element && element->kind != CARNOT_VALUE_UNKNOWN) {
    infer->outputs[i].type.element = carnot_arena_copy(infer->arena, element, sizeof(*element));
  }
}
