// The cheapest way to divide vertices into two sides: a minimum cut between a source and a sink.
#ifndef CARNOT_PASS_MIN_CUT_H_
#define CARNOT_PASS_MIN_CUT_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

// An edge that is never cut. Sums of costs stay below it.
#define CARNOT_MIN_CUT_INFINITE (INT64_MAX / 4)

enum { CARNOT_MIN_CUT_SOURCE, CARNOT_MIN_CUT_SINK };  // the first two vertices

typedef struct carnot_min_cut_edge {
  int32_t to, next;  // |next| edge of the same vertex; -1: none
  int64_t left;      // what may still flow
} carnot_min_cut_edge;

// Zeroed, then carnot_min_cut_init.
typedef struct carnot_min_cut {
  carnot_min_cut_edge* edges;  // an edge and its reverse are neighbours
  size_t edge_count, edge_capacity;
  int32_t* first;  // edge of each vertex
  size_t vertex_count, vertex_capacity;
} carnot_min_cut;

// A problem of source and sink alone. OUT_OF_MEMORY.
carnot_status* carnot_min_cut_init(carnot_min_cut* cut) CARNOT_MUST_USE;
void carnot_min_cut_deinit(carnot_min_cut* cut);

carnot_status* carnot_min_cut_add_vertex(carnot_min_cut* cut, int32_t* out_vertex) CARNOT_MUST_USE;
// Dividing so that |from| is on the source's side and |to| on the sink's costs |cost| >= 0.
carnot_status* carnot_min_cut_add_edge(carnot_min_cut* cut, int32_t from, int32_t to,
                                       int64_t cost) CARNOT_MUST_USE;

// Sets on_source_side[v] of every vertex, for a cheapest division with the fewest vertices on the
// source's side. To be called once. Source: Dinic's algorithm (E. A. Dinic, Soviet Math. Doklady
// 11, 1970).
carnot_status* carnot_min_cut_solve(carnot_min_cut* cut, bool* on_source_side) CARNOT_MUST_USE;

#endif  // CARNOT_PASS_MIN_CUT_H_
