// Layers that choose by value: elements that are not zero, slices whose condition holds, boxes that no
// better one covers. Blocks find lists and count them (mark, nms), one block adds the counts up (starts),
// the host reads their sum, and blocks write the lists one behind the other. The formulas are those of
// ops/nonzero.c and ops/detection.c.

enum { MARK_WORDS = CARNOT_CUDA_CHUNK / 16, AT_A_TIME = 4 };

DEVICE i64* starts_of(const carnot_cuda_chosen& p) { return (i64*)p.io.scratch; }
DEVICE u16* marks_of(const carnot_cuda_chosen& p, i64 list) {
  return (u16*)(starts_of(p) + p.lists + 1) + list * MARK_WORDS;
}

// The sum of |v| over the threads before this one, and over all.
DEVICE i64 sum_before(i64 v, i64* total) {
  __shared__ i64 sums[CARNOT_CUDA_THREADS];
  __syncthreads();
  sums[threadIdx.x] = v;
  for (u32 step = 1; step < blockDim.x; step *= 2) {
    __syncthreads();
    i64 more = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
    __syncthreads();
    sums[threadIdx.x] += more;
  }
  __syncthreads();
  *total = sums[blockDim.x - 1];
  return sums[threadIdx.x] - v;
}

// Counts become the number of all that stand in lists before; one block.
DEVICE void starts(const carnot_cuda_chosen& p, i64) {
  i64 *counts = starts_of(p), each = (p.lists + blockDim.x - 1) / blockDim.x, sum = 0, total;
  i64 first = lo(threadIdx.x * each, p.lists), last = lo(first + each, p.lists);
  for (i64 k = first; k < last; k++) sum += counts[k];
  i64 before = sum_before(sum, &total);
  for (i64 k = first; k < last; k++) {
    i64 here = counts[k];
    counts[k] = before;
    before += here;
  }
  if (threadIdx.x == 0) counts[p.lists] = total;
}

// ---- elements ----

// flags[k]: element |start| + k is chosen. Zeros of both signs have no bit of the mask.
template <class W> DEVICE void flag(const carnot_cuda_chosen& p, i64 start, i64 count, u8* flags) {
  const W *x = (const W*)p.io.in[p.tested] + start, mask = (W)p.mask;
  for (i64 first = threadIdx.x; first < CARNOT_CUDA_CHUNK; first += AT_A_TIME * blockDim.x) {
    W v[AT_A_TIME];
    for (int j = 0; j < AT_A_TIME; j++) {
      i64 k = first + j * blockDim.x;
      v[j] = k < count ? x[k] & mask : 0;
    }
    for (int j = 0; j < AT_A_TIME; j++) flags[first + j * blockDim.x] = v[j] != 0;
  }
}

DEVICE void mark(const carnot_cuda_chosen& p, i64 list) {
  __shared__ u8 flags[CARNOT_CUDA_CHUNK];
  i64 start = list * CARNOT_CUDA_CHUNK, count = lo(p.size - start, (i64)CARNOT_CUDA_CHUNK), sum = 0, total;
  int type = p.io.in_type[p.tested];
  if (is_mini(type)) {
    for (i64 k = threadIdx.x; k < CARNOT_CUDA_CHUNK; k += blockDim.x)
      flags[k] = k < count && real_of(type, p.io.in[p.tested], start + k) != 0;
  } else {
    if (p.tested_bytes == 1) flag<u8>(p, start, count, flags);
    if (p.tested_bytes == 2) flag<u16>(p, start, count, flags);
    if (p.tested_bytes == 4) flag<u32>(p, start, count, flags);
    if (p.tested_bytes == 8) flag<u64>(p, start, count, flags);
  }
  __syncthreads();
  for (int w = threadIdx.x; w < MARK_WORDS; w += blockDim.x) {
    u32 word = 0;
    for (int b = 0; b < 16; b++) word |= (u32)flags[w * 16 + b] << b;
    marks_of(p, list)[w] = (u16)word;
    sum += __popc(word);
  }
  sum_before(sum, &total);
  if (threadIdx.x == 0) starts_of(p)[list] = total;
}

// places[k]: where in the chunk the k-th chosen element stands; gives how many there are.
DEVICE i64 places_of(const carnot_cuda_chosen& p, i64 list, u16* places) {
  const u16* words = marks_of(p, list);
  int each = MARK_WORDS / blockDim.x, first = threadIdx.x * each;
  i64 sum = 0, total;
  for (int w = first; w < first + each; w++) sum += __popc(words[w]);
  i64 to = sum_before(sum, &total);
  for (int w = first; w < first + each; w++)
    for (u32 word = words[w], b = 0; word; word >>= 1, b++)
      if (word & 1) places[to++] = (u16)(w * 16 + b);
  __syncthreads();
  return total;
}

// 32-bit arithmetic where places fit.
template <class I> DEVICE void write_place(const carnot_cuda_chosen& p, I place, i64 to) {
  for (int d = p.rank - 1; d >= 0; d--) {
    I size = (I)p.dims[d], next = place / size;
    ((i64*)p.io.out[0])[d * p.found + to] = (i64)(place - next * size);
    place = next;
  }
}

DEVICE void non_zero(const carnot_cuda_chosen& p, i64 list) {
  __shared__ u16 places[CARNOT_CUDA_CHUNK];
  i64 total = places_of(p, list, places), before = starts_of(p)[list];
  for (i64 k = threadIdx.x; k < total && before + k < p.found; k += blockDim.x) {
    i64 at = list * CARNOT_CUDA_CHUNK + places[k];
    if (p.size <= 0xffffffffll) write_place<u32>(p, (u32)at, before + k);
    else write_place<u64>(p, (u64)at, before + k);
  }
}

// y[o, before + k, n] = x[o, start + places[k], n] for a part of all (o, k, n).
template <class W, class I>
DEVICE void copy_chosen(const carnot_cuda_chosen& p, i64 list, i64 part, i64 total, const u16* places) {
  const W* x = (const W*)p.io.in[0];
  W* y = (W*)p.io.out[0];
  i64 count = p.outer * total * p.inner, each = (count + p.parts - 1) / p.parts, last = lo((part + 1) * each, count);
  i64 start = list * CARNOT_CUDA_CHUNK, before = starts_of(p)[list];
  I inner = (I)p.inner, chosen = (I)total;
  for (i64 first = part * each + threadIdx.x; first < last; first += AT_A_TIME * blockDim.x) {
    W v[AT_A_TIME];
    i64 to[AT_A_TIME];
    for (int j = 0; j < AT_A_TIME; j++) {
      i64 i = first + j * blockDim.x;
      if (i >= last) continue;
      I row = (I)i / inner, n = (I)i - row * inner, o = row / chosen, k = row - o * chosen;
      to[j] = ((i64)o * p.found + before + (i64)k) * p.inner + (i64)n;
      v[j] = x[((i64)o * p.axis + start + places[k]) * p.inner + (i64)n];
    }
    for (int j = 0; j < AT_A_TIME; j++)
      if (first + j * blockDim.x < last) y[to[j]] = v[j];
  }
}
template <class W> DEVICE void copy_chosen(const carnot_cuda_chosen& p, i64 list, i64 part, i64 total, const u16* places) {
  if (p.outer * p.axis * p.inner <= 0xffffffffll) copy_chosen<W, u32>(p, list, part, total, places);
  else copy_chosen<W, u64>(p, list, part, total, places);
}

DEVICE void compress(const carnot_cuda_chosen& p, i64 item) {
  __shared__ u16 places[CARNOT_CUDA_CHUNK];
  i64 list = item / p.parts, part = item % p.parts, total = places_of(p, list, places);
  total = lo(total, p.found - starts_of(p)[list]);
  if (total <= 0) return;
  if (p.io.bytes == 1) copy_chosen<u8>(p, list, part, total, places);
  if (p.io.bytes == 2) copy_chosen<u16>(p, list, part, total, places);
  if (p.io.bytes == 4) copy_chosen<u32>(p, list, part, total, places);
  if (p.io.bytes == 8) copy_chosen<u64>(p, list, part, total, places);
}

// ---- boxes ----

struct corners {
  f64 y0, x0, y1, x1;
};
DEVICE corners* corners_of(const carnot_cuda_chosen& p) { return (corners*)(starts_of(p) + p.lists + 1); }
DEVICE u32* candidates_of(const carnot_cuda_chosen& p, i64 list) {
  return (u32*)(corners_of(p) + p.lists / p.classes * p.boxes) + list * p.room;
}
DEVICE u32* kept_of(const carnot_cuda_chosen& p, i64 list) { return candidates_of(p, p.lists) + list * p.most; }

DEVICE void nms_corners(const carnot_cuda_chosen& p, i64 i) {
  f64 v[4];
  for (int d = 0; d < 4; d++) v[d] = real_of(p.io.in_type[0], p.io.in[0], i * 4 + d);
  bool flip_y = v[0] > v[2], flip_x = v[1] > v[3];
  corners_of(p)[i] = p.centre ? corners{v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2}
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

DEVICE i64 most_of(const carnot_cuda_chosen& p) {
  f64 most = p.io.in[2] ? real_of(p.io.in_type[2], p.io.in[2], 0) : (f64)p.most;
  return most > 0 ? (most < (f64)p.most ? (i64)most : p.most) : 0;
}
DEVICE f64 limit_of(const carnot_cuda_chosen& p, int input, f64 absent) {
  return p.io.in[input] ? real_of(p.io.in_type[input], p.io.in[input], 0) : absent;
}

// The boxes of one class of one image: the best is kept and all that it covers are dropped, until none is
// left. A thread has candidates of its own, blockDim.x apart, which it moves together as some are dropped.
template <class T> DEVICE void nms_of(const carnot_cuda_chosen& p, i64 list) {
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
    const found top = over_block_best(best, false);
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
      // Behind the end: the one that is taken, which is dropped.
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
  if (threadIdx.x == 0) starts_of(p)[list] = count;
}

DEVICE void nms(const carnot_cuda_chosen& p, i64 list) {
  switch (p.io.in_type[1]) {
    case CARNOT_CUDA_F32: return nms_of<f32>(p, list);
    case CARNOT_CUDA_F64: return nms_of<f64>(p, list);
    case CARNOT_CUDA_F16: return nms_of<f16>(p, list);
    case CARNOT_CUDA_BF16: return nms_of<bf16>(p, list);
  }
}

// Batch, class and box.
DEVICE void nms_rows(const carnot_cuda_chosen& p, i64 list) {
  i64 before = starts_of(p)[list], last = lo(starts_of(p)[list + 1], p.found);
  for (i64 row = before + threadIdx.x; row < last; row += blockDim.x) {
    i64* y = (i64*)p.io.out[0] + row * 3;
    y[0] = list / p.classes;
    y[1] = list % p.classes;
    y[2] = kept_of(p, list)[row - before];
  }
}

ANY_BLOCK(starts, carnot_cuda_chosen)
ANY_BLOCK(mark, carnot_cuda_chosen)
ANY_BLOCK(non_zero, carnot_cuda_chosen)
ANY_BLOCK(compress, carnot_cuda_chosen)
ANY(nms_corners, carnot_cuda_chosen)
ANY_BLOCK(nms, carnot_cuda_chosen)
ANY_BLOCK(nms_rows, carnot_cuda_chosen)
