// What the operators of control flow share at run time: bodies, counts, iterations.
#include "ops/control.h"

const carnot_attr* carnot_control_body(const carnot_attrs* attrs, const char* name) {
  return carnot_attrs_find(attrs, name);
}

carnot_status* carnot_control_count(const carnot_call* call, const char* name, int most,
                                    int* out_count) {
  int64_t count = carnot_call_int(call, name);
  CARNOT_CHECK(count >= 0 && count <= most, INVALID_MODEL, "%s is %lld, must be 0 to %d", name,
               (long long)count, most);
  *out_count = (int)count;
  return NULL;
}

// ---- iterations ----

static void loop(const carnot_call* call, carnot_loop_phase phase) {
  if (call->host->loop) call->host->loop(call->host, phase);
}

// Text and items of sequences are in memory apart from the values that point to them.
static bool is_plain(const carnot_rt_value* cell) {
  return cell->kind == CARNOT_VALUE_TENSOR && cell->tensor.dtype != CARNOT_DTYPE_STRING;
}

carnot_status* carnot_iterations_init(carnot_iterations* it, carnot_call* call, int input_count,
                                      int output_count, int scanned_count) {
  void* memory;
  *it = (carnot_iterations){.call = call,
                            .body = carnot_control_body(call->attrs, "body"),
                            .input_count = input_count,
                            .output_count = output_count};
  CARNOT_TRY(carnot_call_alloc(call, ((size_t)input_count + 1) * sizeof(*it->inputs), &memory));
  it->inputs = memory;
  CARNOT_TRY(carnot_call_alloc(call, ((size_t)scanned_count + 1) * sizeof(*it->scanned), &memory));
  it->scanned = memset(memory, 0, ((size_t)scanned_count + 1) * sizeof(*it->scanned));
  return NULL;
}

carnot_status* carnot_iterations_step(carnot_iterations* it) {
  void* memory;
  size_t bytes = ((size_t)it->output_count + 1) * sizeof(*it->outputs);
  CARNOT_TRY(carnot_call_alloc(it->call, bytes, &memory));
  it->outputs = memset(memory, 0, bytes);
  return it->call->host->run_block(it->call->host, it->body, it->input_count, it->inputs,
                                   it->output_count, it->outputs);
}

// The first iteration shows whether all values are plain tensors. Then two arenas alternate: a
// value that an iteration only passes on from the one before is copied, since that one's memory is
// reused, and listed values are copied to memory that lasts.
carnot_status* carnot_iterations_turn(carnot_iterations* it, int first, int carried, int to,
                                      int scanned) {
  const carnot_call* call = it->call;
  const carnot_rt_value** next = it->inputs + to;
  bool plain = call->host->loop != NULL;
  for (int i = 0; i < it->output_count; i++) plain = plain && is_plain(&it->outputs[i]);
  CARNOT_CHECK(plain || !it->turns, INVALID_MODEL,
               "an iteration gives values of other kinds than the one before");
  for (int i = 0; i < carried; i++) {
    next[i] = &it->outputs[first + i];
    if (it->turns && call->host->is_passing(call->host, next[i]->tensor.data))
      CARNOT_TRY(carnot_call_keep(call, &it->outputs[first + i], &next[i]));
  }
  if (it->turns) loop(call, CARNOT_LOOP_OUTER);
  for (int i = 0; i < scanned; i++) {
    const carnot_rt_value* cell = &it->outputs[first + carried + i];
    if (it->turns) CARNOT_TRY(carnot_call_keep(call, cell, &cell));
    CARNOT_TRY(carnot_rt_value_list_add(call, &it->scanned[i], cell));
  }
  if (plain) loop(call, it->turns ? CARNOT_LOOP_NEXT : CARNOT_LOOP_BEGIN);
  it->turns = plain;
  return NULL;
}

carnot_status* carnot_iterations_end(carnot_iterations* it, int first_input, int carried) {
  if (it->turns) loop(it->call, CARNOT_LOOP_OUTER);
  for (int i = 0; i < carried; i++) {
    const carnot_rt_value* cell = it->inputs[first_input + i];
    const carnot_rt_value* out = it->call->outputs[i];
    bool placed = out && out->kind == CARNOT_VALUE_TENSOR && out->tensor.data;
    if (it->turns && !placed) CARNOT_TRY(carnot_call_keep(it->call, cell, &cell));
    CARNOT_TRY(carnot_call_give(it->call, i, cell));
  }
  if (it->turns) loop(it->call, CARNOT_LOOP_END);
  return NULL;
}

// ---- items of stacked outputs ----

void carnot_control_note_items(carnot_attrs* attrs, carnot_arena* arena, carnot_value* const* items,
                               size_t count) {
  int64_t* dtypes = CARNOT_NEW_ARRAY(arena, int64_t, count + 1);
  int64_t* ranks = CARNOT_NEW_ARRAY(arena, int64_t, count + 1);
  int64_t* dims = CARNOT_NEW_ARRAY(arena, int64_t, count * CARNOT_MAX_RANK + 1);
  size_t dim_count = 0;
  if (!count || !dtypes || !ranks || !dims) return;
  for (size_t i = 0; i < count; i++) {
    const carnot_type* type = &items[i]->type;
    dtypes[i] = type->dtype;
    ranks[i] = type->rank;
    for (int d = 0; d < type->rank; d++)
      dims[dim_count++] = carnot_sym_is_const(type->dims[d]) ? type->dims[d].bits : 0;
  }
  carnot_attrs_set_ints(attrs, arena, "scan_dtypes", dtypes, count);
  carnot_attrs_set_ints(attrs, arena, "scan_ranks", ranks, count);
  carnot_attrs_set_ints(attrs, arena, "scan_dims", dims, dim_count);
}

carnot_status* carnot_control_empty_item(const carnot_call* call, size_t i,
                                         carnot_tensor* out_item) {
  size_t dtype_count, rank_count, dim_count, first = 0;
  const int64_t* dtypes = carnot_attr_ints(call->attrs, "scan_dtypes", &dtype_count);
  const int64_t* ranks = carnot_attr_ints(call->attrs, "scan_ranks", &rank_count);
  const int64_t* dims = carnot_attr_ints(call->attrs, "scan_dims", &dim_count);
  const int64_t dtype = i < dtype_count ? dtypes[i] : CARNOT_DTYPE_F32;
  const int64_t rank = i < rank_count && ranks[i] >= 0 ? ranks[i] : 0;
  CARNOT_CHECK(dtype >= 0 && dtype < CARNOT_DTYPE_COUNT && rank < CARNOT_MAX_RANK, INVALID_MODEL,
               "stacked output %zu has type %lld and items of rank %lld", i, (long long)dtype,
               (long long)rank);
  *out_item = (carnot_tensor){.dtype = (carnot_dtype)dtype, .rank = (int)rank};
  for (size_t k = 0; k < i && k < rank_count; k++)
    if (ranks[k] > 0 && ranks[k] < CARNOT_MAX_RANK) first += (size_t)ranks[k];
  for (size_t d = 0; d < (size_t)rank && first + d < dim_count; d++) {
    CARNOT_CHECK(dims[first + d] >= 0, INVALID_MODEL, "dimension %zu of stacked output %zu is %lld",
                 d, i, (long long)dims[first + d]);
    out_item->dims[d] = dims[first + d];
  }
  return NULL;
}
