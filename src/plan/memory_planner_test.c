// Placement of values in an arena: no overlap, alignment, bounds, the same result every time.
#include "plan/memory_planner.h"

// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
//
#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { kSteps = 40, kMost = 200 };

static uint32_t next_random(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void make_random(carnot_interval* items, uint32_t count, uint32_t seed) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t first = next_random(&seed) % kSteps;
    items[i] = (carnot_interval){.id = i,
                                 .first = first,
                                 .last = first + next_random(&seed) % (kSteps - first),
                                 .bytes = next_random(&seed) % 5000};
  }
}

static bool overlap_in_time(const carnot_interval* a, const carnot_interval* b) {
  return a->first <= b->last && b->first <= a->last;
}

static void check_placement(const carnot_interval* items, uint32_t count, uint64_t bytes) {
  for (uint32_t i = 0; i < count; i++) {
    const carnot_interval* a = &items[i];
    assert_int_equal(a->offset % 64, 0);
    assert_true(a->offset + a->bytes <= bytes);
    for (uint32_t j = 0; j < i; j++) {
      const carnot_interval* b = &items[j];
      if (!overlap_in_time(a, b)) continue;
      assert_true(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
    }
  }
}

static void test_random_intervals(void** state) {
  (void)state;
  carnot_interval items[kMost];
  for (uint32_t seed = 1; seed <= 50; seed++) {
    uint32_t count = 1 + seed * 7 % kMost;
    uint64_t bytes, sum = 0;
    make_random(items, count, seed);
    uint64_t bound;
    assert_null(carnot_memory_bound(items, count, kSteps, &bound));
    for (uint32_t i = 0; i < count; i++) sum += (items[i].bytes + 63) / 64 * 64;
    assert_null(carnot_memory_plan(items, count, &bytes));
    check_placement(items, count, bytes);
    assert_true(bytes >= bound);
    assert_true(bytes <= sum);
  }
}

static void test_order_of_items_is_irrelevant(void** state) {
  (void)state;
  carnot_interval forward[kMost], backward[kMost];
  uint64_t bytes, bytes_backward;
  make_random(forward, kMost, 5);
  for (uint32_t i = 0; i < kMost; i++) backward[i] = forward[kMost - 1 - i];
  assert_null(carnot_memory_plan(forward, kMost, &bytes));
  assert_null(carnot_memory_plan(backward, kMost, &bytes_backward));
  assert_int_equal(bytes, bytes_backward);
  for (uint32_t i = 0; i < kMost; i++)
    for (uint32_t j = 0; j < kMost; j++)
      if (forward[i].id == backward[j].id) assert_int_equal(forward[i].offset, backward[j].offset);
}

// A chain needs two values at a time: the plan reaches the bound.
static void test_chain_is_optimal(void** state) {
  (void)state;
  carnot_interval items[kSteps];
  uint64_t bytes;
  for (uint32_t i = 0; i < kSteps; i++)
    items[i] = (carnot_interval){.id = i, .first = i, .last = i + 1, .bytes = 640};
  uint64_t bound;
  assert_null(carnot_memory_bound(items, kSteps, kSteps, &bound));
  assert_int_equal(bound, 2 * 640);
  assert_null(carnot_memory_plan(items, kSteps, &bytes));
  assert_int_equal(bytes, 2 * 640);
}

// The middle value leaves a gap of its size when it dies; the later one fits there exactly.
static void test_smallest_gap_is_taken(void** state) {
  (void)state;
  carnot_interval items[] = {{.id = 0, .first = 0, .last = 9, .bytes = 6400},
                             {.id = 1, .first = 0, .last = 1, .bytes = 3200},
                             {.id = 2, .first = 0, .last = 9, .bytes = 1600},
                             {.id = 3, .first = 2, .last = 9, .bytes = 3200}};
  uint64_t bytes;
  assert_null(carnot_memory_plan(items, 4, &bytes));
  check_placement(items, 4, bytes);
  assert_int_equal(bytes, 6400 + 3200 + 1600);
}

// The same algorithm in its plainest form: every placed item is looked at.
static uint64_t plan_plainly(carnot_interval* items, uint32_t count) {
  uint64_t total = 0;
  bool* is_placed = calloc(count, sizeof(bool));
  for (uint32_t placed = 0; placed < count; placed++) {
    carnot_interval* item = NULL;  // the largest that is left, then the earliest
    for (uint32_t i = 0; i < count; i++) {
      carnot_interval* other = &items[i];
      if (is_placed[i]) continue;
      if (!item || other->bytes > item->bytes ||
          (other->bytes == item->bytes &&
           (other->first < item->first || (other->first == item->first && other->id < item->id))))
        item = other;
    }
    uint64_t best = UINT64_MAX, best_gap = UINT64_MAX, bytes = (item->bytes + 63) / 64 * 64;
    // Where it may begin: at 0 or behind a neighbour; the room there ends at the next neighbour.
    for (uint32_t i = 0; i <= count; i++) {
      if (i < count && (!is_placed[i] || !overlap_in_time(&items[i], item))) continue;
      uint64_t at = i < count ? items[i].offset + (items[i].bytes + 63) / 64 * 64 : 0;
      uint64_t next = UINT64_MAX;
      for (uint32_t j = 0; j < count; j++) {
        if (!is_placed[j] || !overlap_in_time(&items[j], item)) continue;
        uint64_t end = items[j].offset + (items[j].bytes + 63) / 64 * 64;
        if (end > at && items[j].offset < next) next = items[j].offset;
      }
      uint64_t gap = next == UINT64_MAX ? UINT64_MAX - 1 : next > at ? next - at : 0;
      if (gap >= bytes && (gap < best_gap || (gap == best_gap && at < best))) {
        best = at;
        best_gap = gap;
      }
    }
    item->offset = best;
    is_placed[item - items] = true;
    if (best + bytes > total) total = best + bytes;
  }
  free(is_placed);
  return total;
}

// Short and long lives, so that both ways to find neighbours are taken.
static void test_result_is_that_of_the_plain_algorithm(void** state) {
  (void)state;
  static carnot_interval items[kMost], plain[kMost];
  for (uint32_t seed = 1; seed <= 40; seed++) {
    uint64_t bytes;
    make_random(items, kMost, seed);
    for (uint32_t i = 0; i < kMost; i++) {
      items[i].bytes += 1;
      if (seed % 2) items[i].first = i, items[i].last = i + 1 + i % (seed % 4 + 1);
    }
    memcpy(plain, items, sizeof(items));
    assert_null(carnot_memory_plan(items, kMost, &bytes));
    assert_int_equal(bytes, plan_plainly(plain, kMost));
    for (uint32_t i = 0; i < kMost; i++)
      assert_int_equal(items[i].offset, plain[items[i].id].offset);
  }
}

static void test_no_items(void** state) {
  (void)state;
  uint64_t bytes = 1;
  carnot_interval empty = {.first = 0, .last = 3};
  assert_null(carnot_memory_plan(NULL, 0, &bytes));
  assert_int_equal(bytes, 0);
  assert_null(carnot_memory_plan(&empty, 1, &bytes));
  assert_int_equal(bytes, 0);
  uint64_t bound;
  assert_null(carnot_memory_bound(NULL, 0, 3, &bound));
  assert_int_equal(bound, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_intervals),
                                     cmocka_unit_test(test_order_of_items_is_irrelevant),
                                     cmocka_unit_test(test_chain_is_optimal),
                                     cmocka_unit_test(test_smallest_gap_is_taken),
                                     cmocka_unit_test(test_result_is_that_of_the_plain_algorithm),
                                     cmocka_unit_test(test_no_items)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
