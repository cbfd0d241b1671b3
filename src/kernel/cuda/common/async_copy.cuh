// L2 prefetch, and copies of 16 bytes to shared memory by cp.async (a plain copy below sm_80).
#pragma once

#include "kernel/cuda/common/half8.cuh"

DEVICE void prefetch_line(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }

// Asynchronous copy of 16 bytes to shared memory, complete after copy_async_wait of the same
// thread.
DEVICE void copy_async(void* to_shared, const void* from) {
#if __CUDA_ARCH__ >= 800
  u32 to = (u32)__cvta_generic_to_shared(to_shared);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
#else
  *(half8*)to_shared = *(const half8*)from;
#endif
}
DEVICE void copy_async_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
