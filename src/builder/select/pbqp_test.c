// The solver against all combinations of small random problems.
// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <math.h>

#include "builder/select/pbqp.h"

enum { kMostNodes = 9, kMostCount = 4, kLarge = 60 };

static uint32_t next_random(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

// Small integers, so that sums are exact; one in eight is INFINITY where |forbids|.
static double random_cost(uint32_t* state, bool forbids) {
  const uint32_t r = next_random(state);
  return forbids && r % 8 == 0 ? INFINITY : r / 8 % 100;
}

static void add_node(carnot_pbqp* p, uint32_t* state) {
  double costs[kMostCount];
  uint32_t node;
  for (int x = 0; x < kMostCount; x++) costs[x] = random_cost(state, false);
  assert_null(carnot_pbqp_add_node(p, 1 + next_random(state) % kMostCount, costs, &node));
}

// The first alternatives of all nodes are allowed together.
static void add_edge(carnot_pbqp* p, uint32_t a, uint32_t b, uint32_t* state) {
  double costs[kMostCount * kMostCount];
  for (int i = 0; i < kMostCount * kMostCount; i++) costs[i] = random_cost(state, i > 0);
  assert_null(carnot_pbqp_add_edge(p, a, b, costs));
}

static double least_of_all(const carnot_pbqp* p) {
  uint32_t choices[kMostNodes] = {0}, i;
  double least = INFINITY;
  do {
    least = fmin(least, carnot_pbqp_cost(p, choices));
    for (i = 0; i < p->node_count; i++) {
      if (++choices[i] < p->nodes[i].count) break;
      choices[i] = 0;
    }
  } while (i < p->node_count);
  return least;
}

static void check_exact(carnot_pbqp* p, uint32_t cutset) {
  uint32_t choices[kMostNodes] = {0};
  carnot_pbqp_result result;
  const double least = least_of_all(p);
  assert_null(carnot_pbqp_solve(p, choices, &result));
  assert_true(result.is_exact);
  assert_true(result.cutset <= cutset);
  assert_true(result.cost == least);
  assert_true(carnot_pbqp_cost(p, choices) == least);
  carnot_pbqp_deinit(p);
}

static void test_no_nodes_and_one(void** unused) {
  (void)unused;
  carnot_pbqp p = {.node_count = 0};
  carnot_pbqp_result result;
  uint32_t node, choice = 0;
  assert_null(carnot_pbqp_solve(&p, &choice, &result));
  assert_true(result.cost == 0);
  assert_null(carnot_pbqp_add_node(&p, 3, (const double[]){5, 2, 2}, &node));
  assert_null(carnot_pbqp_solve(&p, &choice, &result));
  assert_int_equal(choice, 1);
  assert_true(result.is_exact && result.cost == 2);
  carnot_pbqp_deinit(&p);
}

// Edges that are added twice add up, in either direction.
static void test_edges_add_up(void** unused) {
  (void)unused;
  carnot_pbqp p = {.node_count = 0};
  carnot_pbqp_result result;
  uint32_t node, choices[2] = {0, 0};
  assert_null(carnot_pbqp_add_node(&p, 2, (const double[]){0, 0}, &node));
  assert_null(carnot_pbqp_add_node(&p, 3, (const double[]){0, 0, 0}, &node));
  assert_null(carnot_pbqp_add_edge(&p, 0, 1, (const double[]){9, 9, 9, 9, 1, 0}));
  assert_null(carnot_pbqp_add_edge(&p, 1, 0, (const double[]){9, 9, 9, 0, 9, 8}));
  assert_int_equal(p.edge_count, 1);
  assert_null(carnot_pbqp_solve(&p, choices, &result));
  assert_int_equal(choices[0], 1);
  assert_int_equal(choices[1], 1);
  assert_true(result.cost == 1);
  carnot_pbqp_deinit(&p);
}

static void test_chains_and_trees(void** unused) {
  (void)unused;
  for (uint32_t seed = 1; seed <= 200; seed++) {
    carnot_pbqp p = {.node_count = 0};
    uint32_t state = seed, count = 2 + seed % (kMostNodes - 1);
    for (uint32_t i = 0; i < count; i++) add_node(&p, &state);
    for (uint32_t i = 1; i < count; i++)
      add_edge(&p, i, seed % 2 ? i - 1 : next_random(&state) % i, &state);
    check_exact(&p, 0);
  }
}

// Residual blocks: a chain in which every other node is also read two nodes later.
static void test_series_parallel(void** unused) {
  (void)unused;
  for (uint32_t seed = 1; seed <= 200; seed++) {
    carnot_pbqp p = {.node_count = 0};
    uint32_t state = seed;
    for (uint32_t i = 0; i < kMostNodes; i++) add_node(&p, &state);
    for (uint32_t i = 1; i < kMostNodes; i++) add_edge(&p, i - 1, i, &state);
    for (uint32_t i = 2; i < kMostNodes; i += 2) add_edge(&p, i - 2, i, &state);
    check_exact(&p, 0);
  }
}

// Graphs that reductions do not finish: all combinations of the cutset are tried.
static void test_dense(void** unused) {
  (void)unused;
  for (uint32_t seed = 1; seed <= 60; seed++) {
    carnot_pbqp p = {.node_count = 0};
    uint32_t state = seed;
    for (uint32_t i = 0; i < 6; i++) add_node(&p, &state);
    for (uint32_t a = 0; a < 6; a++)
      for (uint32_t b = 0; b < a; b++) add_edge(&p, a, b, &state);
    check_exact(&p, 4);
  }
}

// Large dense graphs: the effort is bounded, the start is improved, and two runs agree.
static void test_bounded(void** unused) {
  (void)unused;
  for (uint32_t seed = 1; seed <= 10; seed++) {
    uint32_t choices[2][kLarge] = {{0}};
    double costs[2];
    for (int run = 0; run < 2; run++) {
      carnot_pbqp p = {.node_count = 0};
      carnot_pbqp_result result;
      uint32_t state = seed;
      for (uint32_t i = 0; i < kLarge; i++) add_node(&p, &state);
      for (uint32_t i = 1; i < kLarge; i++)
        for (int k = 0; k < 3; k++) {
          const uint32_t other = next_random(&state) % i;
          add_edge(&p, i, other, &state);
        }
      const double start = carnot_pbqp_cost(&p, choices[run]);
      assert_null(carnot_pbqp_solve(&p, choices[run], &result));
      assert_true(result.cost < start);
      assert_true(result.evaluations <= 256);
      assert_true(carnot_pbqp_cost(&p, choices[run]) == result.cost);
      costs[run] = result.cost;
      carnot_pbqp_deinit(&p);
    }
    assert_true(costs[0] == costs[1]);
    assert_memory_equal(choices[0], choices[1], sizeof(choices[0]));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_nodes_and_one),
                                     cmocka_unit_test(test_edges_add_up),
                                     cmocka_unit_test(test_chains_and_trees),
                                     cmocka_unit_test(test_series_parallel),
                                     cmocka_unit_test(test_dense),
                                     cmocka_unit_test(test_bounded)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
