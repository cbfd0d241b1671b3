// The cursor of a producer thread along K, which loads boxes of GEMM operands by TMA (sm_90a).
#pragma once

#include "kernel/cuda/common/stage.cuh"
#include "kernel/cuda/common/tma.cuh"
#include "kernel/cuda/gemm/gemm_tile_params.h"

#if HAS_WGMMA

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
