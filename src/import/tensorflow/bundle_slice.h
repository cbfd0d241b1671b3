// Parts of variables: as restore graphs and bundles write them, and the keys that parts have in a
// bundle. Source: tensorflow/core/framework/tensor_slice.proto, tensorflow/core/util/tensor_slice*.
#ifndef CARNOT_IMPORT_TENSORFLOW_BUNDLE_SLICE_H_
#define CARNOT_IMPORT_TENSORFLOW_BUNDLE_SLICE_H_

#include "base/arena.h"
#include "base/strview.h"
#include "ir/tensor.h"

// The elements start .. start + size - 1 of each dimension; size -1: the whole dimension.
typedef struct tf_slice {
  int rank;
  int64_t start[CARNOT_MAX_RANK], size[CARNOT_MAX_RANK];
} tf_slice;

// Reads "10 4 0,5:-": the dimensions of the variable, then the start and size of the part in each,
// "-" for all of it. INVALID_MODEL.
carnot_status* tf_slice_read_text(carnot_strview text, tf_slice* out) CARNOT_MUST_USE;
// Reads a TensorSliceProto.
carnot_status* tf_slice_read_wire(carnot_strview bytes, carnot_arena* arena,
                                  tf_slice* out) CARNOT_MUST_USE;
// The key of a part of the variable |name|, in |arena|; empty when out of memory.
carnot_strview tf_slice_key(carnot_strview name, const tf_slice* slice, carnot_arena* arena);
// Puts sizes in place of -1. INVALID_MODEL where the part does not lie in a tensor of |dims|.
carnot_status* tf_slice_fit(tf_slice* slice, const int64_t* dims, int rank) CARNOT_MUST_USE;
bool tf_slice_equal(const tf_slice* a, const tf_slice* b);
// Copies what the parts |from| and |to| of one tensor share, elements of |item| bytes; returns how
// many elements that are. Both have sizes.
int64_t tf_slice_copy(const tf_slice* from, const char* src, const tf_slice* to, char* dst,
                      size_t item);

#endif  // CARNOT_IMPORT_TENSORFLOW_BUNDLE_SLICE_H_
