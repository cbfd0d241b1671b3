// Values of any kind in reference kernels: tensors, sequences, optionals.
#ifndef CARNOT_OPS_RT_VALUE_H_
#define CARNOT_OPS_RT_VALUE_H_

#include "ir/op.h"

// Output |i| becomes the value of |cell|, whose data live in the run's store (or are copied where
// the output has its place already).
carnot_status* carnot_call_give(const carnot_call* call, int i,
                                const carnot_rt_value* cell) CARNOT_MUST_USE;
// A cell of the run's store with the value of |cell|. A tensor's data are copied: the place they
// stand in may be used again before a sequence that holds them is read.
carnot_status* carnot_call_keep(const carnot_call* call, const carnot_rt_value* cell,
                                const carnot_rt_value** out_cell) CARNOT_MUST_USE;
// Joins |count| tensors of equal shape on a new axis, the last one first when |backwards|. Without
// tensors the result is empty, of the type and dimensions of |none|, which may be NULL where there
// are tensors.
carnot_status* carnot_call_stack(const carnot_call* call, int i,
                                 const carnot_rt_value* const* cells, size_t count, int64_t axis,
                                 bool backwards, const carnot_tensor* none) CARNOT_MUST_USE;

// A list of cells that grows in memory of the call.
typedef struct carnot_rt_value_list {
  const carnot_rt_value** items;
  size_t count, capacity;
} carnot_rt_value_list;
carnot_status* carnot_rt_value_list_add(const carnot_call* call, carnot_rt_value_list* list,
                                        const carnot_rt_value* cell) CARNOT_MUST_USE;

// The type that holds values of both types: dimensions that differ become unknown.
carnot_type carnot_infer_join(carnot_infer* infer, const carnot_type* a, const carnot_type* b);
// Output |i|: a sequence or optional of |element| (copied; NULL: unknown).
void carnot_infer_set_list(carnot_infer* infer, int i, carnot_value_kind kind,
                           const carnot_type* element);

#endif  // CARNOT_OPS_RT_VALUE_H_
