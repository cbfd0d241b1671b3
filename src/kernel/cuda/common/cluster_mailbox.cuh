// Exchange of floats between the blocks of a cluster by st.async, counted by an mbarrier in each
// block's shared memory.
#pragma once

#include "kernel/cuda/common/cluster.cuh"

// Messages between the blocks of a cluster, counted in bytes by an mbarrier in each block's
// shared memory. All threads call open, then ready before the first send, then wait for the
// bytes of all blocks.
struct cluster_mailbox {
  u64* counter;
  int blocks;  // a block alone writes to itself
  DEVICE_ONLY void open() const {
#if __CUDA_ARCH__ >= 900
    if (blocks == 1) return;
    if (threadIdx.x == 0)
      asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(
                       (u32)__cvta_generic_to_shared(counter))
                   : "memory");
    cluster_arrive();
#endif
  }
  // Expects |bytes|; some of them may have arrived already.
  DEVICE_ONLY void ready(u32 bytes) const {
#if __CUDA_ARCH__ >= 900
    if (blocks == 1) return;
    cluster_wait();
    if (threadIdx.x == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(
                       (u32)__cvta_generic_to_shared(counter)),
                   "r"(bytes)
                   : "memory");
#endif
  }
  // Stores |value| to address |mine| of block |rank|.
  DEVICE_ONLY void send(f32* mine, u32 rank, f32 value) const {
#if __CUDA_ARCH__ >= 900
    u32 to, there;
    if (blocks > 1) {
      asm("mapa.shared::cluster.u32 %0, %1, %2;"
          : "=r"(to)
          : "r"((u32)__cvta_generic_to_shared(mine)), "r"(rank));
      asm("mapa.shared::cluster.u32 %0, %1, %2;"
          : "=r"(there)
          : "r"((u32)__cvta_generic_to_shared(counter)), "r"(rank));
      asm volatile(
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
              to),
          "f"(value), "r"(there)
          : "memory");
      return;
    }
#endif
    *mine = value;
  }
  DEVICE_ONLY void wait() const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      asm volatile(
          "{\n.reg .pred done;\nagain:\n"
          "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n@!done bra "
          "again;\n}" ::"r"((u32)__cvta_generic_to_shared(counter))
          : "memory");
      return;
    }
#endif
    __syncthreads();
  }
};
