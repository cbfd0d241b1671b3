// Tactic rows of the CUDA module.
#ifndef CARNOT_BACKEND_CUDA_ROWS_H_
#define CARNOT_BACKEND_CUDA_ROWS_H_

#include "backend/cuda/driver.h"
#include "backend/tactic.h"

extern const carnot_tactic_row carnot_cuda_conv_f32;
extern const carnot_tactic_row carnot_cuda_gemm_f32;

#endif  // CARNOT_BACKEND_CUDA_ROWS_H_
