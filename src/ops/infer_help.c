// Helpers of infer functions: lists of integers, unknown dimensions.
#include "ops/infer_help.h"

void carnot_infer_set_unknown(carnot_infer* infer, int i, carnot_dtype dtype, int rank) {
  carnot_sym dims[CARNOT_MAX_RANK];
  for (int d = 0; d < rank; d++) dims[d] = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  carnot_infer_set(infer, i, dtype, rank, dims);
}

int carnot_infer_list_length(const carnot_infer* infer, int i) {
  const carnot_type* type = infer->inputs[i].type;
  if (type->rank != 1 || !carnot_sym_is_const(type->dims[0])) return -1;
  int64_t count = type->dims[0].bits;
  return count <= CARNOT_MAX_RANK ? (int)count : -1;
}

carnot_status* carnot_infer_plain_ints(carnot_infer* infer, int i, const int64_t** out_values,
                                       size_t* out_count, bool* out_known) {
  *out_values = NULL;
  *out_count = 0;
  *out_known = true;
  if (!carnot_infer_has(infer, i)) return NULL;
  const carnot_sym* syms;
  size_t count;
  CARNOT_TRY(carnot_infer_ints(infer, i, &syms, &count));
  *out_known = false;
  if (!syms) return NULL;
  int64_t* values = CARNOT_NEW_ARRAY(infer->arena, int64_t, count + 1);
  CARNOT_TRY(carnot_arena_status(infer->arena));
  for (size_t k = 0; k < count; k++) {
    if (!carnot_sym_is_const(syms[k])) return NULL;
    values[k] = syms[k].bits;
  }
  *out_values = values;
  *out_count = count;
  *out_known = true;
  return NULL;
}

carnot_status* carnot_call_ints(const carnot_call* call, const carnot_tensor* tensor,
                                const int64_t** out_values, size_t* out_count) {
  *out_values = NULL;
  *out_count = 0;
  if (!tensor) return NULL;
  size_t count = (size_t)carnot_tensor_count(tensor);
  void* memory;
  CARNOT_TRY(carnot_call_alloc(call, (count + 1) * sizeof(int64_t), &memory));
  carnot_load_block_i64(tensor->dtype, tensor->data, 0, 1, count, memory);
  *out_values = memory;
  *out_count = count;
  return NULL;
}

carnot_sym* carnot_infer_room_for_syms(carnot_infer* infer, int i, int64_t count) {
  if (i >= infer->output_count || count < 0 || count > CARNOT_MAX_SYMS) return NULL;
  infer->outputs[i].syms = CARNOT_NEW_ARRAY(infer->arena, carnot_sym, (size_t)count + 1);
  infer->outputs[i].sym_count = infer->outputs[i].syms ? (size_t)count : 0;
  return infer->outputs[i].syms;
}
