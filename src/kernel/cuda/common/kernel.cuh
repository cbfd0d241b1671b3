// Entry points of the kernels that a family's list (<family>.def) names. A translation unit
// includes this, its kernels and then the list.
#pragma once

#include "kernel/cuda/common/element.cuh"

// clang-format off
// Waits for the previous kernel of the stream first (programmatic dependent launch).
#define KERNEL(name, params, bounds, ...) \
  extern "C" __global__ void bounds name(params p) { wait_for_previous(); __VA_ARGS__; }
// The kernel waits by itself, after work that does not depend on the previous kernel, or not at
// all.
#define KERNEL_SELF_WAITING(name, params, bounds, ...) \
  extern "C" __global__ void bounds name(params p) { __VA_ARGS__; }
// The same with parameters whose address is taken: they stay in constant memory.
#define KERNEL_GRID_CONSTANT(name, params, bounds, ...) \
  extern "C" __global__ void bounds name(const __grid_constant__ params p) { __VA_ARGS__; }
// Of generic kernels: a function (params, item), one thread per item of io.count (or per io.together
// items, which share bytes of a packed type), or one block per item.
#define GENERIC_THREADS(name, params)                                     \
  KERNEL(generic_##name, params, ,                                        \
         i64 first = THREAD * p.io.together, last = first + p.io.together; \
         for (i64 i = first; i < last && i < p.io.count; i++) name(p, i))
#define GENERIC_BLOCKS(name, params) KERNEL(generic_##name, params, , name(p, blockIdx.x))
// Of generic kernels that compute one operator: the line lists the tactic carnot_cuda_<name> too, behind all
// tactics of tactics.def (backend/cuda/registry.c).
#define GENERIC_OP_THREADS GENERIC_THREADS
#define GENERIC_OP_BLOCKS  GENERIC_BLOCKS
// clang-format on
