// Parameters of the kernels whose output size depends on values.
#ifndef CARNOT_KERNEL_CUDA_DATA_DEPENDENT_DATA_DEPENDENT_PARAMS_H_
#define CARNOT_KERNEL_CUDA_DATA_DEPENDENT_DATA_DEPENDENT_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// A list is what one block selects: elements of one chunk, or boxes of one class. The workspace
// begins with |lists| + 1 int64: the count of each list, then their exclusive prefix sums. After
// them come one bit per element of the chunks; or the corners of all boxes, four float64 each,
// and uint32 indices of boxes: |room| candidates for each list, then |most| that are kept.
enum { CARNOT_CUDA_CHUNK = 4096, CARNOT_CUDA_CHUNK_BYTES = CARNOT_CUDA_CHUNK / 8 };

typedef struct carnot_cuda_data_dependent_params {
  carnot_cuda_generic_io io;
  long long lists, found;  // found: total over all lists, known when they are written
  // Selected are those of the |size| elements of input |tested| that have a bit of |mask| set.
  int tested, tested_bytes;
  unsigned long long mask;
  long long size;
  int rank;  // non_zero: of x
  long long dims[CARNOT_CUDA_RANK];
  long long outer, axis, inner;  // compress: x [outer, axis, inner]
  long long parts;               // compress: blocks that share the elements of one list
  long long boxes, classes, room, most;
  int centre;             // boxes by centre and size, x first
  double overlap, score;  // limits where inputs 3 and 4 are absent
} carnot_cuda_data_dependent_params;

#endif  // CARNOT_KERNEL_CUDA_DATA_DEPENDENT_DATA_DEPENDENT_PARAMS_H_
