// The sequential test on made-up times.
// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>

#include "builder/measure/rounds.h"

enum { kMost = 4 };

typedef struct race {
  carnot_contestant contestants[kMost];
  uint64_t times[kMost];
  size_t count;
  uint64_t spent_ns, seed;
  int noise;        // rounds of ten that take twice as long
  bool shows_calm;  // such rounds are known to be disturbed
} race;

static uint64_t random_next(uint64_t* seed) {
  return (*seed = *seed * 6364136223846793005u + 1442695040888963407u) >> 33;
}

static void run_round(race* r, size_t i) {
  const bool first = r->contestants[i].rounds == 0;
  const bool disturbed = (int)(random_next(&r->seed) % 10) < r->noise;
  const uint64_t ns = r->times[i] * (first ? 3 : disturbed ? 2 : 1);
  r->spent_ns += ns;
  carnot_contestant_note(&r->contestants[i], ns, !first && !(disturbed && r->shows_calm));
}

// The rounds of all, the first two of each at once.
static uint32_t run_race(race* r) {
  uint32_t rounds = 2 * (uint32_t)r->count;
  for (size_t i = 0; i < r->count; i++) {
    r->contestants[i] = carnot_contestant_make(0, 0);
    run_round(r, i);
    run_round(r, i);
  }
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < r->count; i++) {
      if (!carnot_contestant_continues(r->contestants, r->count, i, r->spent_ns)) continue;
      run_round(r, i);
      any = true;
      rounds++;
    }
  }
  return rounds;
}

static void test_calm(void** state) {
  (void)state;
  race r = {.times = {100000, 101000, 120000, 900000}, .count = 4};
  const uint32_t rounds = run_race(&r);
  for (size_t i = 0; i < r.count; i++) assert_int_equal(r.contestants[i].least_ns, r.times[i]);
  assert_int_equal(r.contestants[3].rounds, 2);  // far behind
  assert_true(r.contestants[0].rounds >= 3);
  assert_true(rounds <= 16);
}

// Rounds are often disturbed: those that are close run on until they are believed.
static void test_disturbed(void** state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    race r = {.times = {105000, 100000}, .count = 2, .noise = 3, .shows_calm = true, .seed = seed};
    run_race(&r);
    assert_int_equal(r.contestants[0].least_ns, 105000);
    assert_int_equal(r.contestants[1].least_ns, 100000);
  }
}

// Never calm: the number of rounds is bounded, and so is the time of long ones.
static void test_bounds(void** state) {
  (void)state;
  race r = {.times = {100000, 101000}, .count = 2, .noise = 10, .shows_calm = true};
  assert_true(run_race(&r) <= 64);
  race slow = {.times = {100000000, 101000000}, .count = 2, .noise = 10, .shows_calm = true};
  assert_true(run_race(&slow) <= 16);
}

// A long run that is far behind is not repeated.
static void test_long(void** state) {
  (void)state;
  race r = {.times = {100000000, 450000000}, .count = 2};
  run_race(&r);
  assert_int_equal(r.contestants[1].rounds, 2);
  assert_int_equal(r.contestants[0].rounds, 2);
}

// What surrounds a contestant counts where they are compared.
static void test_around(void** state) {
  (void)state;
  carnot_contestant c[2] = {carnot_contestant_make(0, 0), carnot_contestant_make(100000, 0)};
  for (size_t i = 0; i < 2; i++)
    for (int k = 0; k < 5; k++) carnot_contestant_note(&c[i], 100000, k != 1);
  assert_false(carnot_contestant_continues(c, 2, 1, 0));
}

// An instruction set is slowed for its first rounds: it leads in the end, unless it is the older
// one, which is not worth the time.
static void test_slowed_instruction_set(void** state) {
  (void)state;
  for (int newer = 0; newer < 2; newer++) {
    carnot_contestant c[2] = {carnot_contestant_make(0, newer), carnot_contestant_make(0, 0)};
    uint64_t spent_ns = 0;
    for (int k = 0; k < 2; k++) {
      carnot_contestant_note(&c[0], 190000, true), spent_ns += 190000;
      carnot_contestant_note(&c[1], 100000, true), spent_ns += 100000;
    }
    for (int k = 0; k < 4; k++) carnot_contestant_note(&c[1], 100000, true);
    // The leader runs as often as one that challenges it, and not longer than that.
    assert_int_equal(carnot_contestant_continues(c, 2, 1, UINT64_MAX), newer);
    while (carnot_contestant_continues(c, 2, 0, spent_ns)) {
      const uint64_t ns = c[0].rounds < 12 ? 190000 : 70000;
      carnot_contestant_note(&c[0], ns, true), spent_ns += ns;
    }
    assert_int_equal(c[0].least_ns, newer ? 70000 : 190000);
  }
  // Long runs end sooner.
  carnot_contestant slow[2] = {carnot_contestant_make(0, 1), carnot_contestant_make(0, 0)};
  for (int k = 0; k < 2; k++) {
    carnot_contestant_note(&slow[0], 19000000, true);
    carnot_contestant_note(&slow[1], 10000000, true);
  }
  assert_false(carnot_contestant_continues(slow, 2, 0, 58000000));
}

static void test_absent(void** state) {
  (void)state;
  carnot_contestant c[2] = {{.runs = false}, carnot_contestant_make(0, 0)};
  assert_false(carnot_contestant_continues(c, 2, 0, 0));
  assert_true(carnot_contestant_continues(c, 2, 1, 0));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calm),   cmocka_unit_test(test_disturbed),
      cmocka_unit_test(test_bounds), cmocka_unit_test(test_long),
      cmocka_unit_test(test_around), cmocka_unit_test(test_slowed_instruction_set),
      cmocka_unit_test(test_absent)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
