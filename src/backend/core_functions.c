// The table of the core's functions for backend modules.
#include "backend/core_functions.h"

#include "base/arena.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "ir/op.h"
#include "ir/tensor.h"
#include "ops/einsum.h"
#include "ops/sliding_window.h"
#include "plan/plan.h"
#include "tactic/problem/attention.h"
#include "tactic/problem/byte_function.h"
#include "tactic/problem/conv.h"
#include "tactic/problem/epilogue.h"
#include "tactic/problem/gemm.h"
#include "tactic/problem/int8_attention.h"
#include "tactic/problem/norm.h"
#include "tactic/problem/pool.h"
#include "tactic/problem/quantized.h"
#include "tactic/problem/quantized_mean.h"
#include "tactic/problem/weight_only.h"

const carnot_core_functions carnot_core = {.count = CARNOT_CORE_FUNCTION_COUNT,
                                           .functions = {
#define CORE_FUNCTION(name) (carnot_core_function*)name,
#include "backend/core_functions.def"
                                           }};
