// What the pooling tactics with one output share.
#ifndef CARNOT_BACKEND_CPU_POOL_POOL_H_
#define CARNOT_BACKEND_CPU_POOL_POOL_H_

#include "backend/cpu/common/window_geometry.h"

typedef struct carnot_pool_params {
  carnot_sliding_window window;
  int32_t include_padding;
} carnot_pool_params;

// Whether the problem is |op| over float32 of rank [low, high], or the maximum of bytes: NULL, or
// why not.
const char* carnot_pool_describe(const carnot_problem* problem, carnot_op op, int low, int high,
                                 carnot_pool_params* out, char* reason, size_t size);
// The tactics' prepare: stores carnot_pool_params.
carnot_status* carnot_pool_prepare(const carnot_problem* problem,
                                   carnot_prepared* out) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_POOL_POOL_H_
