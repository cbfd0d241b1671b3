// Parameters of the kernels whose output size depends on values.
#ifndef CARNOT_KERNEL_CUDA_DATA_DEPENDENT_DATA_DEPENDENT_PARAMS_H_
#define CARNOT_KERNEL_CUDA_DATA_DEPENDENT_DATA_DEPENDENT_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// What values choose. A list is what one block finds: among a chunk of elements, or the boxes of a
// class. The scratch begins with |lists| + 1 int64 numbers: how many each list holds, then how many
// stand before it. Behind them lie a bit for each element of the chunks; or the corners of all
// boxes, four float64 numbers each, and uint32 places of boxes: |room| candidates of each list,
// then |most| that are kept.
enum { CARNOT_CUDA_CHUNK = 4096, CARNOT_CUDA_CHUNK_BYTES = CARNOT_CUDA_CHUNK / 8 };

typedef struct carnot_cuda_data_dependent_params {
  carnot_cuda_generic_io io;
  long long lists, found;  // found: in all lists, known when they are written
  // Chosen are those of |size| elements of input |tested| that have a bit of |mask|.
  int tested, tested_bytes;
  unsigned long long mask;
  long long size;
  int rank;  // non_zero: of x
  long long dims[CARNOT_CUDA_RANK];
  long long outer, axis, inner;  // compress: x [outer, axis, inner]
  long long parts;               // compress: blocks that share what one list chose
  long long boxes, classes, room, most;
  int centre;             // boxes by centre and size, x first
  double overlap, score;  // limits where inputs 3 and 4 are absent
} carnot_cuda_data_dependent_params;

#endif  // CARNOT_KERNEL_CUDA_DATA_DEPENDENT_DATA_DEPENDENT_PARAMS_H_
