// The memory planner: greedy by size, best fit among the gaps.
#include "plan/memory_planner.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/checked.h"

enum { kAlignment = 64 };

static int by_size(const void* left, const void* right) {
  const carnot_interval *a = left, *b = right;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

// Inserts |item| among those placed, which are sorted by offset, into the smallest gap that takes
// it.
static void place(carnot_interval* item, carnot_interval** placed, uint32_t* placed_count) {
  uint64_t end = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
  uint64_t bytes = carnot_align_up(item->bytes, kAlignment);
  for (uint32_t i = 0; i < *placed_count; i++) {
    const carnot_interval* other = placed[i];
    if (other->last < item->first || other->first > item->last) continue;
    if (other->offset > end) {
      uint64_t gap = other->offset - end;
      if (gap >= bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
    }
    uint64_t other_end = other->offset + carnot_align_up(other->bytes, kAlignment);
    if (other_end > end) end = other_end;
  }
  item->offset = best == UINT64_MAX ? end : best;
  uint32_t at = (*placed_count)++;
  for (; at > 0 && placed[at - 1]->offset > item->offset; at--) placed[at] = placed[at - 1];
  placed[at] = item;
}

carnot_status* carnot_memory_plan(carnot_interval* items, uint32_t count, uint64_t* out_bytes) {
  *out_bytes = 0;
  if (!count) return NULL;
  carnot_interval** placed = malloc(count * sizeof(*placed));
  if (!placed) return CARNOT_NO_MEMORY(count * sizeof(*placed), "the memory plan");
  qsort(items, count, sizeof(*items), by_size);
  uint32_t placed_count = 0;
  for (uint32_t i = 0; i < count; i++) {
    place(&items[i], placed, &placed_count);
    uint64_t end = items[i].offset + carnot_align_up(items[i].bytes, kAlignment);
    if (end > *out_bytes) *out_bytes = end;
  }
  free(placed);
  return NULL;
}

carnot_status* carnot_memory_bound(const carnot_interval* items, uint32_t count,
                                   uint32_t step_count, uint64_t* out_bytes) {
  void* memory;
  CARNOT_TRY(carnot_calloc((size_t)step_count + 2, sizeof(int64_t), "the memory bound", &memory));
  int64_t* change = memory;
  for (uint32_t i = 0; i < count; i++) {
    if (items[i].first > step_count || items[i].last > step_count) continue;
    change[items[i].first] += (int64_t)items[i].bytes;
    change[items[i].last + 1] -= (int64_t)items[i].bytes;
  }
  int64_t alive = 0, most = 0;
  for (uint32_t i = 0; i <= step_count; i++) {
    alive += change[i];
    if (alive > most) most = alive;
  }
  free(change);
  *out_bytes = (uint64_t)most;
  return NULL;
}
