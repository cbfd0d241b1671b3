// Tensor Memory Accelerator (sm_90a): bulk tensor copies by tensor maps, tiled and im2col, with
// multicast to the blocks of a cluster, and the cursor of a producer thread along K.
#pragma once

#include "kernel/cuda/common/mbarrier.cuh"
#include "kernel/cuda/gemm/gemm_stage.cuh"
#include "kernel/cuda/gemm/gemm_tile_params.h"

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

// Coordinates of the next step along K: of the weights, and of rows of x or of im2col windows.
// P: carnot_cuda_gemm_tma_params or carnot_cuda_gemm_pingpong_params. A step has |depth| channels.
template <class P>
struct tma_cursor {
  const P& p;
  int depth;
  int row, w_column, channel, at[3];  // at: column, row and image of the first window
  u16 tap[2];

  // Rows of x from |m| on, step |first|.
  DEVICE_ONLY void aim(u32 m, int first) {
    const carnot_cuda_gemm_tile_params& t = p.gemm;
    u32 line = m / t.out_columns, image = line / t.out_rows;
    at[0] = (int)(m - line * t.out_columns) * t.step[1] - t.begin[1];
    at[1] = (int)(line - image * t.out_rows) * t.step[0] - t.begin[0];
    at[2] = (int)image;
    int place = first / p.chunks, down = place / t.kernel_columns;
    row = (int)m, channel = (first - place * p.chunks) * depth, w_column = first * depth;
    tap[0] = (u16)((place - down * t.kernel_columns) * t.dilation[1]),
    tap[1] = (u16)(down * t.dilation[0]);
  }
  DEVICE_ONLY void fetch_weights(u32 to, int n, u32 barrier, u32 blocks, bool many) {
    tma_load_tiled(to, &p.w, w_column, n, barrier, blocks, many);
    w_column += depth;
  }
  DEVICE_ONLY void fetch_x(u32 to, u32 barrier, u32 blocks, bool many) {
    if (p.is_window)
      tma_load_im2col(to, &p.x, channel, at, tap, barrier, blocks, many);
    else
      tma_load_tiled(to, &p.x, channel, row, barrier, blocks, many);
    channel += depth;
    if (channel < p.chunks * depth) return;
    channel = 0;
    tap[0] += p.gemm.dilation[1];
    if (tap[0] < p.gemm.kernel_columns * p.gemm.dilation[1]) return;
    tap[0] = 0, tap[1] += p.gemm.dilation[0];
  }
};

#endif
