// Tensor Memory Accelerator (sm_90a): bulk tensor copies by tensor maps, tiled and im2col, with
// multicast to the blocks of a cluster.
#pragma once

#include "kernel/cuda/common/mbarrier.cuh"

#if HAS_WGMMA

// The box of |map| at |column| and |row| to shared address |to| of all blocks in |blocks|.
DEVICE void tma_load_tiled(u32 to, const void* map, int column, int row, u32 barrier, u32 blocks,
                           bool many) {
  if (many)
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
        "cluster "
        "[%0], [%1, {%2,%3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier), "h"((u16)blocks)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
        "{%2,%3}], [%4];" ::"r"(to),
        "l"(map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}
// The box of a map [outer, inner, rows, columns] at |column| and |row| of a matrix.
DEVICE void tma_load_matrix(u32 to, const void* map, int column, int row, int inner, int outer,
                            u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2,%3,%4,%5}], [%6];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(inner), "r"(outer), "r"(barrier)
      : "memory");
}
// The same of pixels: at[] is column, row and image of the first result's window, tap[] a column
// and row in it.
DEVICE void tma_load_im2col(u32 to, const void* map, int channel, const int* at, const u16* tap,
                            u32 barrier, u32 blocks, bool many) {
  if (many)
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes."
        "multicast::cluster "
        "[%0], [%1, {%2,%3,%4,%5}], [%6], {%7,%8}, %9;" ::"r"(to),
        "l"(map), "r"(channel), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(barrier), "h"(tap[0]),
        "h"(tap[1]), "h"((u16)blocks)
        : "memory");
  else
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2,%3,%4,%5}], [%6], {%7,%8};" ::"r"(to),
        "l"(map), "r"(channel), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(barrier), "h"(tap[0]),
        "h"(tap[1])
        : "memory");
}

// |bytes| of this block's shared memory to another block's.
DEVICE void dsmem_copy(u32 to, u32 from, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(to),
      "r"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

#endif
