// Thread block clusters (sm_90): rank, barriers, and reads of another block's shared memory
// (DSMEM). Below sm_90 a block is its own cluster.
#pragma once

#include "kernel/cuda/common/types.cuh"

DEVICE u32 cluster_rank() {
  u32 r = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
#endif
  return r;
}
DEVICE void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
DEVICE void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// The value at address |mine| in block |rank| of the cluster.
template <class T>
DEVICE T read_peer(const T* mine, u32 rank) {
#if __CUDA_ARCH__ >= 900
  u32 here = (u32)__cvta_generic_to_shared(mine), there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
  T value;
  if (sizeof(T) == 8)
    asm volatile("ld.shared::cluster.b64 %0, [%1];" : "=l"(*(u64*)&value) : "r"(there) : "memory");
  else
    asm volatile("ld.shared::cluster.b32 %0, [%1];" : "=r"(*(u32*)&value) : "r"(there) : "memory");
  return value;
#else
  return *mine;
#endif
}

DEVICE void cluster_sync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::
                   : "memory");
#endif
}
// Shared address |at| mapped to block |rank| of the cluster.
DEVICE u32 shared_of(u32 at, u32 rank) {
  u32 there = at;
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
#endif
  return there;
}
// Stores |value| at shared address |at| of block |rank|; without clusters, of this block.
DEVICE void write_peer(u32 at, u32 rank, f32 value) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(shared_of(at, rank)), "f"(value)
               : "memory");
#else
  (void)rank;
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(value) : "memory");
#endif
}
