// The memory planner: greedy by size, best fit among the gaps.
#include "plan/memory_planner.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"

enum { kAlignment = 64 };

static int by_size(const void* left, const void* right) {
  const carnot_interval *a = left, *b = right;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

// ---- the placed items that live at the same time as another ----

// The items by first step, under a binary tree: entry |i| of |last| is 1 + the last step of any
// placed item below node |i|, 0 without one; the leaf of item |k| is node |leaf_count| + k. An item
// is found in the logarithm of their number, so that chains of any length are planned in about
// linear time.
typedef struct lives {
  carnot_interval** by_first;
  uint32_t count, leaf_count;  // |leaf_count|: a power of two
  uint64_t* last;
  carnot_interval** placed;  // by offset
  uint32_t placed_count;
  carnot_interval** found;  // by the last query
  uint32_t found_count, most_found;
} lives;

static int by_first_step(const void* left, const void* right) {
  const carnot_interval *a = *(carnot_interval*const*)left, *b = *(carnot_interval*const*)right;
  if (a->first != b->first) return a->first < b->first ? -1 : 1;
  return a < b ? -1 : a > b;
}

static int by_offset(const void* left, const void* right) {
  const carnot_interval *a = *(carnot_interval*const*)left, *b = *(carnot_interval*const*)right;
  return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static void lives_deinit(lives* l) {
  free(l->by_first);
  free(l->last);
  free(l->placed);
  free(l->found);
}

static carnot_status* lives_init(lives* l, carnot_interval* items, uint32_t count) {
  *l = (lives){.count = count, .leaf_count = 1};
  while (l->leaf_count < count) l->leaf_count *= 2;
  l->by_first = malloc(count * sizeof(*l->by_first));
  l->placed = malloc(count * sizeof(*l->placed));
  l->found = malloc(count * sizeof(*l->found));
  l->last = calloc(2 * (size_t)l->leaf_count, sizeof(*l->last));
  if (!l->by_first || !l->placed || !l->found || !l->last) {
    lives_deinit(l);
    return CARNOT_NO_MEMORY(count * 5 * sizeof(void*), "the memory plan");
  }
  for (uint32_t i = 0; i < count; i++) l->by_first[i] = &items[i];
  qsort(l->by_first, count, sizeof(*l->by_first), by_first_step);
  return NULL;
}

// The number of items that begin before |step|, and of those that begin with it and are before
// |item|.
static uint32_t count_before(const lives* l, uint64_t step, const carnot_interval* item) {
  uint32_t low = 0, high = l->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    const carnot_interval* other = l->by_first[middle];
    if (other->first < step || (other->first == step && other < item))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void add_placed(lives* l, carnot_interval* item) {
  uint32_t low = 0, high = l->placed_count;  // the first that is not below it
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (l->placed[middle]->offset < item->offset)
      low = middle + 1;
    else
      high = middle;
  }
  memmove(l->placed + low + 1, l->placed + low, (l->placed_count - low) * sizeof(*l->placed));
  l->placed[low] = item;
  l->placed_count++;
  const uint32_t at = count_before(l, item->first, item);
  const uint64_t last = (uint64_t)item->last + 1;
  for (uint32_t node = l->leaf_count + at; node && l->last[node] < last; node /= 2)
    l->last[node] = last;
}

// Adds the placed items among the first |count| that do not end before |item| begins. |node| covers
// |width| items from |begin| on.
static void collect(lives* l, uint32_t node, uint32_t begin, uint32_t width, uint32_t count,
                    const carnot_interval* item) {
  if (begin >= count || l->last[node] <= item->first || l->found_count > l->most_found) return;
  if (width == 1) {
    l->found[l->found_count++] = l->by_first[begin];
    return;
  }
  collect(l, 2 * node, begin, width / 2, count, item);
  collect(l, 2 * node + 1, begin + width / 2, width / 2, count, item);
}

// Finds the placed items that live at a step of |item|'s life, by offset: few are sorted, many are
// taken out of all.
static void find_neighbours(lives* l, const carnot_interval* item) {
  l->found_count = 0;
  l->most_found = l->placed_count / 16;
  collect(l, 1, 0, l->leaf_count, count_before(l, (uint64_t)item->last + 1, NULL), item);
  if (l->found_count <= l->most_found) {
    qsort(l->found, l->found_count, sizeof(*l->found), by_offset);
    return;
  }
  l->found_count = 0;
  for (uint32_t i = 0; i < l->placed_count; i++)
    if (l->placed[i]->first <= item->last && l->placed[i]->last >= item->first)
      l->found[l->found_count++] = l->placed[i];
}

// ---- placement ----

// Puts |item| into the smallest gap between its neighbours that takes it.
static void place(lives* l, carnot_interval* item) {
  uint64_t end = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
  uint64_t bytes = carnot_align_up(item->bytes, kAlignment);
  find_neighbours(l, item);
  for (uint32_t i = 0; i < l->found_count; i++) {
    const carnot_interval* other = l->found[i];
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
  add_placed(l, item);
}

carnot_status* carnot_memory_plan(carnot_interval* items, uint32_t count, uint64_t* out_bytes) {
  *out_bytes = 0;
  if (!count) return NULL;
  qsort(items, count, sizeof(*items), by_size);
  lives placed;
  CARNOT_TRY(lives_init(&placed, items, count));
  for (uint32_t i = 0; i < count; i++) {
    place(&placed, &items[i]);
    uint64_t end = items[i].offset + carnot_align_up(items[i].bytes, kAlignment);
    if (end > *out_bytes) *out_bytes = end;
  }
  lives_deinit(&placed);
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
