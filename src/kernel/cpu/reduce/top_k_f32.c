// A heap of the best so far, its worst on top. Vectors of which nothing goes before that are passed
// over; the others' elements go in one by one. Where few are wanted, a first pass finds a bound
// that only few elements reach; where most are, a radix sort.
#include "kernel/cpu/reduce/top_k_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd.h"

// Orders as the elements do, the lower position before the higher of equal ones: larger goes first.
static int64_t entry_of(float x, int64_t position, bool largest) {
  uint32_t bits = x == 0 ? 0 : bits_of_f32(x);
  if (x != x) bits = 0x7fffffff;
  // As a signed integer: the magnitude bits of negative numbers turned.
  uint32_t key = bits & 0x80000000 ? bits ^ 0x7fffffff : bits;
  if (!largest) key = ~key;
  return (int64_t)((uint64_t)key << 32 | (uint32_t) ~(uint32_t)position);
}

static int64_t position_of(int64_t entry) { return (uint32_t) ~(uint32_t)entry; }

static void sink_top(int64_t* heap, int64_t count) {
  const int64_t moved = heap[0];
  int64_t at = 0;
  for (int64_t child = 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count && heap[child + 1] < heap[child]) ++child;
    if (moved <= heap[child]) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
}

static void rise_last(int64_t* heap, int64_t at) {
  const int64_t moved = heap[at];
  for (; at > 0 && moved < heap[(at - 1) / 2]; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = moved;
}

static void offer(const carnot_top_k_f32* p, const float* x, int64_t from, int64_t to,
                  int64_t* heap) {
  float worst = x[position_of(heap[0])];
  for (int64_t i = from; i < to; ++i) {
    if (p->largest ? x[i] <= worst : x[i] >= worst) continue;
    const int64_t entry = entry_of(x[i], i, p->largest);
    if (entry <= heap[0]) continue;
    heap[0] = entry;
    sink_top(heap, p->k);
    worst = x[position_of(heap[0])];
  }
}

static bool has_better(const carnot_top_k_f32* p, vf32 x, vf32 worst) {
  // NaN goes before all numbers or behind them.
  return p->largest ? v_m_any(v_m_not(v_le(x, worst))) : v_m_any(v_m_not(v_le(worst, x)));
}

// A number that |k| elements or more are not behind: the |k|-th of the best of each lane. False:
// one is not a number, or there are fewer lanes.
static bool find_bound(const carnot_top_k_f32* p, const float* x, float* out_bound) {
  enum { kChains = 4 };
  const int64_t step = kChains * V_LANES;
  if (p->k > V_LANES || p->n < 2 * step) return false;
  vf32 best[kChains];
  for (int c = 0; c < kChains; ++c) best[c] = v_load(x + c * V_LANES);
  vmask nan = v_is_nan(v_zero());
  for (int64_t i = 0; i + step <= p->n; i += step) CARNOT_UNROLL
  for (int c = 0; c < kChains; ++c) {
    const vf32 y = v_load(x + i + c * V_LANES);
    nan = v_m_or(nan, v_is_nan(y));
    best[c] = p->largest ? v_max_to(best[c], y) : v_min_to(best[c], y);
  }
  if (v_m_any(nan)) return false;
  for (int c = 1; c < kChains; ++c)
    best[0] = p->largest ? v_max_to(best[0], best[c]) : v_min_to(best[0], best[c]);
  float lanes[V_LANES];
  v_store(lanes, best[0]);
  for (int i = 1; i < V_LANES; ++i) {  // the best first
    const float moved = lanes[i];
    int at = i;
    for (; at > 0 && (p->largest ? moved > lanes[at - 1] : moved < lanes[at - 1]); --at)
      lanes[at] = lanes[at - 1];
    lanes[at] = moved;
  }
  *out_bound = lanes[p->k - 1];
  return true;
}

static int64_t offer_bounded(const carnot_top_k_f32* p, const float* x, int64_t from, int64_t to,
                             float bound, int64_t* heap, int64_t count) {
  for (int64_t i = from; i < to; ++i) {
    if (p->largest ? x[i] < bound : x[i] > bound) continue;
    const int64_t entry = entry_of(x[i], i, p->largest);
    if (count < p->k) {
      heap[count] = entry;
      rise_last(heap, count++);
    } else if (entry > heap[0]) {
      heap[0] = entry;
      sink_top(heap, p->k);
    }
  }
  return count;
}

// Of the elements that are not behind |bound| alone.
static void choose_bounded(const carnot_top_k_f32* p, const float* x, float bound, int64_t* heap) {
  const vf32 b = v_set(bound);
  int64_t i = 0, count = 0;
  for (; i + V_LANES <= p->n; i += V_LANES) {
    const vf32 y = v_load(x + i);
    if (v_m_any(v_m_not(p->largest ? v_lt(y, b) : v_lt(b, y))))
      count = offer_bounded(p, x, i, i + V_LANES, bound, heap, count);
  }
  offer_bounded(p, x, i, p->n, bound, heap, count);
}

static void choose(const carnot_top_k_f32* p, const float* x, int64_t* heap) {
  float bound;
  if (find_bound(p, x, &bound)) {
    choose_bounded(p, x, bound, heap);
    return;
  }
  for (int64_t i = 0; i < p->k; ++i) {
    heap[i] = entry_of(x[i], i, p->largest);
    rise_last(heap, i);
  }
  int64_t i = p->k;
  for (; i + V_LANES <= p->n; i += V_LANES) {
    const vf32 worst = v_set(x[(uint32_t) ~(uint32_t)heap[0]]);
    if (has_better(p, v_load(x + i), worst)) offer(p, x, i, i + V_LANES, heap);
  }
  offer(p, x, i, p->n, heap);
}

// Sorts |n| entries so that greater ones go first, by the bytes of their keys, the least first;
// |other| has room for as many. Returns which of both holds them.
static int64_t* sort_entries(int64_t* entries, int64_t* other, int64_t n) {
  enum { kDigits = 4, kValues = 256 };
  uint32_t begin[kDigits][kValues] = {{0}};
  for (int64_t i = 0; i < n; ++i)
    for (int d = 0; d < kDigits; ++d) ++begin[d][(uint64_t)entries[i] >> (32 + 8 * d) & 0xff];
  for (int d = 0; d < kDigits; ++d) {
    uint32_t total = 0;
    bool is_one = false;  // all entries have the same digit
    // The last digit holds the sign: values from 128 on are negative, the others go before them.
    for (int i = 0; i < kValues; ++i) {
      const int value = (d == kDigits - 1 ? kValues / 2 - 1 - i : kValues - 1 - i) & 0xff;
      const uint32_t count = begin[d][value];
      is_one |= count == n;
      begin[d][value] = total;
      total += count;
    }
    if (is_one) continue;
    for (int64_t i = 0; i < n; ++i)
      other[begin[d][(uint64_t)entries[i] >> (32 + 8 * d) & 0xff]++] = entries[i];
    int64_t* sorted = other;
    other = entries, entries = sorted;
  }
  return entries;
}

static void write_entry(const carnot_top_k_f32* p, const float* x, int64_t entry, int64_t to) {
  const int64_t position = position_of(entry);
  if (p->values) p->values[to] = x[position];
  if (p->index) p->index[to] = position;
}

static void sort_lane(const carnot_top_k_f32* p, const float* x, int64_t to, int64_t* entries) {
  for (int64_t i = 0; i < p->n; ++i) entries[i] = entry_of(x[i], i, p->largest);
  const int64_t* sorted = sort_entries(entries, entries + p->n, p->n);
  for (int64_t i = 0; i < p->k; ++i) write_entry(p, x, sorted[i], to + i * p->inner);
}

static void choose_lane(const carnot_top_k_f32* p, const float* x, int64_t to, int64_t* heap) {
  choose(p, x, heap);
  for (int64_t i = p->k - 1; i >= 0; --i) {  // the worst leaves first
    write_entry(p, x, heap[0], to + i * p->inner);
    heap[0] = heap[i];
    sink_top(heap, i);
  }
}

void CARNOT_KERNEL(top_k_f32)(const carnot_top_k_f32* p, int64_t l0, int64_t l1, void* work) {
  const bool sorts = carnot_top_k_f32_sorts(p->n, p->k);
  int64_t* entries = work;
  float* lane = (float*)(entries + (sorts ? 2 * p->n : p->k));
  for (int64_t l = l0; l < l1; ++l) {
    const float* x = p->src + l / p->inner * p->n * p->inner + l % p->inner;
    for (int64_t i = 0; i < p->n && p->inner > 1; ++i) lane[i] = x[i * p->inner];
    if (p->inner > 1) x = lane;
    (sorts ? sort_lane : choose_lane)(p, x, l / p->inner * p->k * p->inner + l % p->inner, entries);
  }
}
