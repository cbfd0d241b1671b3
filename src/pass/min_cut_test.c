// Minimum cuts against the cheapest of all divisions of small random problems.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>

#include "pass/min_cut.h"

enum { kVertices = 8, kEdges = 20 };

typedef struct edge {
  int32_t from, to;
  int64_t cost;
} edge;

static uint32_t next_random(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static int64_t cost_of(const edge* edges, unsigned side) {
  int64_t cost = 0;
  for (int i = 0; i < kEdges; i++)
    if ((side >> edges[i].from & 1) && !(side >> edges[i].to & 1)) cost += edges[i].cost;
  return cost;
}

static void cuts_are_cheapest_and_smallest(void** state) {
  (void)state;
  uint32_t seed = 7;
  for (int round = 0; round < 500; round++) {
    edge edges[kEdges];
    carnot_min_cut cut = {0};
    assert_null(carnot_min_cut_init(&cut));
    for (int32_t v = 2; v < kVertices; v++) {
      int32_t vertex;
      assert_null(carnot_min_cut_add_vertex(&cut, &vertex));
      assert_int_equal(vertex, v);
    }
    for (int i = 0; i < kEdges; i++) {
      edges[i] = (edge){(int32_t)(next_random(&seed) % kVertices),
                        (int32_t)(next_random(&seed) % kVertices), next_random(&seed) % 10};
      assert_null(carnot_min_cut_add_edge(&cut, edges[i].from, edges[i].to, edges[i].cost));
    }
    bool on_source_side[kVertices];
    assert_null(carnot_min_cut_solve(&cut, on_source_side));
    unsigned found = 0, smallest = ~0u;
    for (int v = 0; v < kVertices; v++) found |= (unsigned)on_source_side[v] << v;
    int64_t least = CARNOT_MIN_CUT_INFINITE;
    for (unsigned side = 0; side < 1u << kVertices; side++) {
      if (!(side & 1) || side & 2) continue;
      const int64_t cost = cost_of(edges, side);
      if (cost < least) least = cost, smallest = side;
      if (cost == least) smallest &= side;
    }
    assert_int_equal(cost_of(edges, found), least);
    assert_int_equal(found, smallest);
    carnot_min_cut_deinit(&cut);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(cuts_are_cheapest_and_smallest)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
