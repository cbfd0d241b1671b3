// Parameters of the kernels that copy elements.
#ifndef CARNOT_KERNEL_CUDA_COPY_COPY_PARAMS_H_
#define CARNOT_KERNEL_CUDA_COPY_COPY_PARAMS_H_

#include "kernel/cuda/common/params.h"

// y[i·dst] = x[i·src] for every position i of |dims|; kernels copy_<bytes of an element>.
typedef struct carnot_cuda_copy_params {
  const void* x;
  void* y;
  long long count;
  int rank;
  long long dims[CARNOT_CUDA_RANK], src[CARNOT_CUDA_RANK], dst[CARNOT_CUDA_RANK];
} carnot_cuda_copy_params;

enum { CARNOT_CUDA_CONCAT_PARTS = 32 };

// Parts of |rows| rows of the whole, which are |pitch| apart: part k has ends[k] - ends[k - 1]
// elements of each row, from starts[k] on; its own rows are pitches[k] apart. Kernels
// concat_<bytes>, which write the whole, or with |splits| the parts.
typedef struct carnot_cuda_concat_params {
  void* parts[CARNOT_CUDA_CONCAT_PARTS];
  void* whole;
  long long rows, pitch;
  int starts[CARNOT_CUDA_CONCAT_PARTS], ends[CARNOT_CUDA_CONCAT_PARTS],
      pitches[CARNOT_CUDA_CONCAT_PARTS];
  int count, splits;
} carnot_cuda_concat_params;

// As a copy along |rank| dimensions of y, but positions outside x (shifted by |begin|) give |value|
// (mode 0), the nearest (1), the mirrored (2) or the wrapped (3) element.
typedef struct carnot_cuda_pad_params {
  const void* x;
  void* y;
  const void* value;  // NULL: zero bits
  int value_bytes;    // which an element may hold several times
  long long count;
  int rank, mode;
  long long dims[CARNOT_CUDA_RANK], begin[CARNOT_CUDA_RANK], size[CARNOT_CUDA_RANK],
      src[CARNOT_CUDA_RANK];
} carnot_cuda_pad_params;

#endif  // CARNOT_KERNEL_CUDA_COPY_COPY_PARAMS_H_
