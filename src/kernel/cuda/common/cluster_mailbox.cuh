// Exchange between the blocks of a cluster by st.async, counted by an mbarrier in each block's
// shared memory.
#pragma once

#include "kernel/cuda/common/cluster.cuh"
#include "kernel/cuda/common/half8.cuh"

// Messages between the blocks of a cluster, counted in bytes by an mbarrier in each block's
// shared memory. For one exchange all threads call open, then ready before the first send, then
// wait for the bytes of all blocks. For many, one thread calls init; behind a cluster barrier it
// expects the bytes of the first exchange, and of the next one behind each wait, whose parity
// alternates.
struct cluster_mailbox {
  u64* counter;
  int blocks;  // a block alone writes to itself
  DEVICE_ONLY void init() const {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(
                     (u32)__cvta_generic_to_shared(counter))
                 : "memory");
#endif
  }
  DEVICE_ONLY void expect(u32 bytes) const {
#if __CUDA_ARCH__ >= 900
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(
                     (u32)__cvta_generic_to_shared(counter)),
                 "r"(bytes)
                 : "memory");
#endif
  }
  DEVICE_ONLY void open() const {
    if (blocks == 1) return;
    if (threadIdx.x == 0) init();
    cluster_arrive();
  }
  // Expects |bytes|; some of them may have arrived already.
  DEVICE_ONLY void ready(u32 bytes) const {
    if (blocks == 1) return;
    cluster_wait();
    if (threadIdx.x == 0) expect(bytes);
  }
  // Stores |value| to address |mine| of block |rank|.
  DEVICE_ONLY void send(f32* mine, u32 rank, f32 value) const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      asm volatile(
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
              shared_of((u32)__cvta_generic_to_shared(mine), rank)),
          "f"(value), "r"(shared_of((u32)__cvta_generic_to_shared(counter), rank))
          : "memory");
      return;
    }
#endif
    *mine = value;
  }
  DEVICE_ONLY void send(half8* mine, u32 rank, const half8& value) const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      asm volatile(
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, "
          "%4}, [%5];" ::"r"(shared_of((u32)__cvta_generic_to_shared(mine), rank)),
          "r"(value.two[0]), "r"(value.two[1]), "r"(value.two[2]), "r"(value.two[3]),
          "r"(shared_of((u32)__cvta_generic_to_shared(counter), rank))
          : "memory");
      return;
    }
#endif
    *mine = value;
  }
  DEVICE_ONLY void wait(u32 parity = 0) const {
#if __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      asm volatile(
          "{\n.reg .pred done;\nagain:\n"
          "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n@!done bra "
          "again;\n}" ::"r"((u32)__cvta_generic_to_shared(counter)),
          "r"(parity)
          : "memory");
      return;
    }
#endif
    __syncthreads();
  }
};
