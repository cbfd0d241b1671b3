// Element-wise functions (fn_RELU, fn_GELU_ERF, ...) and casts. Part of every generated program,
// like types.cuh.
#pragma once

#include "kernel/cuda/common/types.cuh"

#include "kernel/cuda/common/prelude_functions.inl"
