// Indices that are data: checked where they are used.
#ifndef CARNOT_OPS_INDICES_H_
#define CARNOT_OPS_INDICES_H_

#include "ir/op.h"

// |index| in [-limit, limit) made non-negative; INVALID_ARGUMENT naming |which| of the indices, it
// and the limit.
static inline carnot_status* carnot_index(int64_t index, int64_t limit, int64_t which,
                                          int64_t* out_index) {
  *out_index = index < 0 ? index + limit : index;
  CARNOT_CHECK(index >= -limit && index < limit, INVALID_ARGUMENT,
               "index %lld (number %lld) is outside [-%lld, %lld)", (long long)index,
               (long long)which, (long long)limit, (long long)limit);
  return NULL;
}

// |depth| indices from element |at| of |indices| on as one position in an array of the first
// |depth| |dims|.
static inline carnot_status* carnot_index_row(const carnot_tensor* indices, int64_t at, int depth,
                                              const int64_t* dims, int64_t* out_position) {
  int64_t position = 0;
  *out_position = 0;
  for (int k = 0; k < depth; k++) {
    int64_t index;
    CARNOT_TRY(carnot_index(carnot_load_i64(indices->dtype, indices->data, (size_t)(at + k)),
                            dims[k], at + k, &index));
    position = position * dims[k] + index;
  }
  *out_position = position;
  return NULL;
}

#endif  // CARNOT_OPS_INDICES_H_
