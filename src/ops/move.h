// Copying elements between strided arrays: what operators that only move data are made of.
#ifndef CARNOT_OPS_MOVE_H_
#define CARNOT_OPS_MOVE_H_

#include "ir/op.h"

enum { CARNOT_MOVE_RANK = 2 * CARNOT_MAX_RANK };

// dst[dst_offset + sum i*dst_strides] = src[src_offset + sum i*src_strides] for every index i below
// |dims|; all in elements; strides may be 0 or negative. The arrays may not overlap.
typedef struct carnot_move {
  carnot_dtype dtype;
  int rank;
  int64_t dims[CARNOT_MOVE_RANK];
  int64_t src_strides[CARNOT_MOVE_RANK], dst_strides[CARNOT_MOVE_RANK];
  int64_t src_offset, dst_offset;
} carnot_move;

// Any thread. Every element named must lie inside its array.
void carnot_move_run(const carnot_move* move, void* dst, const void* src);

// Row-major strides of |dims|.
void carnot_dense_strides(const int64_t* dims, int rank, int64_t* out_strides);
// |count| elements that lie side by side.
void carnot_copy_elements(carnot_dtype dtype, void* dst, int64_t dst_index, const void* src,
                          int64_t src_index, int64_t count);
// |count| copies of the element |src_index|.
void carnot_fill_elements(carnot_dtype dtype, void* dst, int64_t dst_index, const void* src,
                          int64_t src_index, int64_t count);

#endif  // CARNOT_OPS_MOVE_H_
