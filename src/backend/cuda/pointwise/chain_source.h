// The CUDA C of a chain of pointwise nodes.
#ifndef CARNOT_BACKEND_CUDA_POINTWISE_CHAIN_SOURCE_H_
#define CARNOT_BACKEND_CUDA_POINTWISE_CHAIN_SOURCE_H_

#include "backend/cuda/pointwise/chain.h"

enum { CARNOT_CUDA_CHAIN_LOCALS = 256, CARNOT_CUDA_CHAIN_SOURCE_BYTES = 1 << 16 };

// Writes the source of all kernels (program_four, _flat, _any, _wide, _tiled) over |chain|, or of
// |kernel| alone where it is not NULL, into |text| [CARNOT_CUDA_CHAIN_SOURCE_BYTES]. |types|: by
// local value, those of the chain's inputs are set; those of its nodes are added. NULL, or why
// device code cannot take these nodes.
const char* carnot_cuda_chain_source(const carnot_region* region, const carnot_cuda_chain* chain,
                                     carnot_dtype* types, const char* kernel, char* text);
// The same with the types of |problem|'s operands. |acc_dtype|: of the chain's acc.
const char* carnot_cuda_chain_problem_source(const carnot_problem* problem,
                                             const carnot_cuda_chain* chain, carnot_dtype acc_dtype,
                                             char* text);

#endif  // CARNOT_BACKEND_CUDA_POINTWISE_CHAIN_SOURCE_H_
