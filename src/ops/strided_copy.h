// Copying elements between strided arrays: what operators that only move data are made of.
#ifndef CARNOT_OPS_STRIDED_COPY_H_
#define CARNOT_OPS_STRIDED_COPY_H_

#include "ops/util.h"

enum { CARNOT_STRIDED_COPY_RANK = 2 * CARNOT_MAX_RANK };

// dst[dst_offset + sum i*dst_strides] = src[src_offset + sum i*src_strides] for every index i below
// |dims|; all in elements; strides may be 0 or negative. The arrays may not overlap.
typedef struct carnot_strided_copy {
  carnot_dtype dtype;
  int rank;
  int64_t dims[CARNOT_STRIDED_COPY_RANK];
  int64_t src_strides[CARNOT_STRIDED_COPY_RANK], dst_strides[CARNOT_STRIDED_COPY_RANK];
  int64_t src_offset, dst_offset;
} carnot_strided_copy;

// Any thread. Every element named must lie inside its array.
void carnot_strided_copy_run(const carnot_strided_copy* move, void* dst, const void* src);

// |count| elements that lie side by side.
void carnot_copy_elements(carnot_dtype dtype, void* dst, int64_t dst_index, const void* src,
                          int64_t src_index, int64_t count);
// |count| copies of the element |src_index|.
void carnot_fill_elements(carnot_dtype dtype, void* dst, int64_t dst_index, const void* src,
                          int64_t src_index, int64_t count);

#endif  // CARNOT_OPS_STRIDED_COPY_H_
