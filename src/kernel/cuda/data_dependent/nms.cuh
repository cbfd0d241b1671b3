// NonMaxSuppression (generic kernels): one block per image and class selects boxes, the counts are
// scanned as in nonzero.cuh, and blocks write their boxes in order. Formula as in ops/detection.c.
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/data_dependent/list_scan.cuh"
#include "kernel/cuda/reduce/arg_max.cuh"

struct corners {
  f64 y0, x0, y1, x1;
};
DEVICE corners* corners_of(const carnot_cuda_data_dependent_params& p) {
  return (corners*)(counts_of(p) + p.lists + 1);
}
DEVICE u32* candidates_of(const carnot_cuda_data_dependent_params& p, i64 list) {
  return (u32*)(corners_of(p) + p.lists / p.classes * p.boxes) + list * p.room;
}
DEVICE u32* kept_of(const carnot_cuda_data_dependent_params& p, i64 list) {
  return candidates_of(p, p.lists) + list * p.most;
}

DEVICE void nms_corners(const carnot_cuda_data_dependent_params& p, i64 i) {
  f64 v[4];
  for (int d = 0; d < 4; d++) v[d] = real_of(p.io.in_type[0], p.io.in[0], i * 4 + d);
  bool flip_y = v[0] > v[2], flip_x = v[1] > v[3];
  corners_of(p)[i] =
      p.centre ? corners{v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2}
               : corners{flip_y ? v[2] : v[0], flip_x ? v[3] : v[1], flip_y ? v[0] : v[2],
                         flip_x ? v[1] : v[3]};
}

// Intersection over union, each step rounded as the processor does.
DEVICE f64 overlap(const corners& a, const corners& b) {
  f64 height = (a.y1 < b.y1 ? a.y1 : b.y1) - (a.y0 > b.y0 ? a.y0 : b.y0);
  f64 width = (a.x1 < b.x1 ? a.x1 : b.x1) - (a.x0 > b.x0 ? a.x0 : b.x0);
  if (height <= 0 || width <= 0) return 0;
  f64 common = __dmul_rn(height, width);
  f64 areas = __dadd_rn(__dmul_rn(a.y1 - a.y0, a.x1 - a.x0), __dmul_rn(b.y1 - b.y0, b.x1 - b.x0));
  f64 both = __dadd_rn(areas, -common);
  return both > 0 ? common / both : 0;
}

DEVICE i64 most_of(const carnot_cuda_data_dependent_params& p) {
  f64 most = p.io.in[2] ? real_of(p.io.in_type[2], p.io.in[2], 0) : (f64)p.most;
  return most > 0 ? (most < (f64)p.most ? (i64)most : p.most) : 0;
}
DEVICE f64 limit_of(const carnot_cuda_data_dependent_params& p, int input, f64 absent) {
  return p.io.in[input] ? real_of(p.io.in_type[input], p.io.in[input], 0) : absent;
}

// The boxes of one class of one image: the best is kept and all that it covers are dropped, until
// none is left. A thread has candidates of its own, blockDim.x apart, which it moves together as
// some are dropped.
template <class T>
DEVICE void nms_of(const carnot_cuda_data_dependent_params& p, i64 list) {
  const T* scores = (const T*)p.io.in[1] + list * p.boxes;
  const corners* boxes = corners_of(p) + list / p.classes * p.boxes;
  u32 *candidates = candidates_of(p, list) + threadIdx.x, *kept = kept_of(p, list);
  const f64 covered = limit_of(p, 3, p.overlap), least = limit_of(p, 4, p.score);
  i64 most = most_of(p), count = 0, left = 0;
  found best = {0, -1};
  for (i64 i = threadIdx.x; i < p.boxes; i += blockDim.x) {
    f64 score = load(scores[i]);
    if (!(score > least)) continue;
    candidates[left++ * blockDim.x] = (u32)i;
    found here = {order_of_real(score), i};
    if (is_better(here, best, false)) best = here;
  }
  while (count < most) {
    const found top = block_reduce_best(best, false);
    if (top.at < 0) break;
    if (threadIdx.x == 0) kept[count] = (u32)top.at;
    if (++count == most) break;
    const corners taken = boxes[top.at];
    const i64 all = left;
    left = 0;
    best.at = -1;
    for (i64 first = 0; first < all; first += AT_A_TIME) {
      i64 at[AT_A_TIME];
      corners box[AT_A_TIME];
      f64 score[AT_A_TIME];
      // Beyond the end: the box just kept, which is dropped.
      for (int j = 0; j < AT_A_TIME; j++)
        at[j] = first + j < all ? (i64)candidates[(first + j) * blockDim.x] : top.at;
      for (int j = 0; j < AT_A_TIME; j++) box[j] = boxes[at[j]], score[j] = load(scores[at[j]]);
      for (int j = 0; j < AT_A_TIME; j++) {
        if (at[j] == top.at || overlap(box[j], taken) > covered) continue;
        candidates[left++ * blockDim.x] = (u32)at[j];
        found here = {order_of_real(score[j]), at[j]};
        if (is_better(here, best, false)) best = here;
      }
    }
  }
  if (threadIdx.x == 0) counts_of(p)[list] = count;
}

DEVICE void nms(const carnot_cuda_data_dependent_params& p, i64 list) {
  switch (p.io.in_type[1]) {
    case CARNOT_CUDA_F32: return nms_of<f32>(p, list);
    case CARNOT_CUDA_F64: return nms_of<f64>(p, list);
    case CARNOT_CUDA_F16: return nms_of<f16>(p, list);
    case CARNOT_CUDA_BF16: return nms_of<bf16>(p, list);
  }
}

// Batch, class and box.
DEVICE void nms_write(const carnot_cuda_data_dependent_params& p, i64 list) {
  i64 before = counts_of(p)[list], last = lo(counts_of(p)[list + 1], p.found);
  for (i64 row = before + threadIdx.x; row < last; row += blockDim.x) {
    i64* y = (i64*)p.io.out[0] + row * 3;
    y[0] = list / p.classes;
    y[1] = list % p.classes;
    y[2] = kept_of(p, list)[row - before];
  }
}
