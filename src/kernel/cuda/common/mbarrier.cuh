// Transaction barriers in shared memory (mbarrier, sm_90), which count arrivals and bytes.
#pragma once

#include "kernel/cuda/common/wgmma.cuh"

#if HAS_WGMMA

DEVICE void barrier_init(u32 at, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(at), "r"(arrivals) : "memory");
}
DEVICE void barrier_expect(u32 at, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
               : "memory");
}
// |at|: of any block of the cluster.
DEVICE void barrier_arrive(u32 at) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(at) : "memory");
}
DEVICE void barrier_wait(u32 at, u32 parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}" ::"r"(at),
      "r"(parity)
      : "memory");
}

#endif
