// What the pooling tactics with one output share: parameters, and reading them from the problem.
#ifndef CARNOT_BACKEND_CPU_POOL_POOL_H_
#define CARNOT_BACKEND_CPU_POOL_POOL_H_

#include "backend/cpu/common/window_geometry.h"
#include "tactic/problem/pool.h"

// Stored in engines.
typedef struct carnot_pool_params {
  carnot_sliding_window window;
  int32_t include_padding;
} carnot_pool_params;

// Reads |op| over float32 of rank |low| to |high|, or the maximum of 8-bit integers. NULL, or why
// the problem is none; "" for other operators.
const char* carnot_pool_params_read(const carnot_problem* problem, carnot_op op, int low, int high,
                                    carnot_pool_params* out, char* reason, size_t size);
// The tactics' prepare: stores carnot_pool_params.
carnot_status* carnot_pool_prepare(const carnot_problem* problem,
                                   carnot_prepared* out) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_POOL_POOL_H_
