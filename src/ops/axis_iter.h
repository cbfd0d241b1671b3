// Operators that work on one dimension of a tensor at a time.
#ifndef CARNOT_OPS_AXIS_ITER_H_
#define CARNOT_OPS_AXIS_ITER_H_

#include "ops/util.h"

// |length| numbers of lane |lane| in |x|; the results go to |y|.
typedef void (*carnot_axis_slice_fn)(const void* context, int64_t lane, const double* x, double* y,
                                     int64_t length);

// Calls |fn| for every lane of |x| along |axis| and stores its results in the same place of |y|,
// which has the dimensions of |x|. Lanes are spread over the threads of the call.
carnot_status* carnot_for_each_axis_slice(const carnot_call* call, const carnot_tensor* x,
                                          carnot_tensor* y, int axis, carnot_axis_slice_fn fn,
                                          const void* context) CARNOT_MUST_USE;
// The same for lanes that are the last |count| / |length| numbers of the tensors seen as [count /
// length, length].
carnot_status* carnot_for_each_row(const carnot_call* call, const carnot_tensor* x,
                                   carnot_tensor* y, int64_t length, carnot_axis_slice_fn fn,
                                   const void* context) CARNOT_MUST_USE;

// Sorts |items| by |less|, equal ones staying in order. |scratch| has room for |count|.
void carnot_sort_stable(int64_t* items, int64_t* scratch, int64_t count,
                        bool (*less)(const void* context, int64_t a, int64_t b),
                        const void* context);

#endif  // CARNOT_OPS_AXIS_ITER_H_
