// Partitioned Boolean quadratic programming: each node takes one of its alternatives so that the
// sum of the costs of nodes and edges is least.
//
//   cost(x) = sum_i node_i[x_i] + sum_(i,j) edge_ij[x_i][x_j]
//
// Costs are finite or INFINITY, which forbids. Nodes with at most two neighbours are eliminated
// exactly (reductions R0, RI and RII), so chains, trees and series-parallel graphs are solved
// exactly. Where every node left has three neighbours or more, the one with most joins the cutset:
// for given alternatives of the cutset the rest is exact. All combinations of the cutset are tried
// where they are few, else a bounded coordinate descent improves on the start.
// Sources: Scholz and Eckstein, "Register allocation for irregular architectures" (2002), for the
// reductions; Anderson and Gregg, "Optimal DNN primitive selection with PBQP" (2018), for the use;
// Dechter, "Constraint Processing" (2003), for cutset conditioning.
#ifndef CARNOT_BUILDER_SELECT_PBQP_H_
#define CARNOT_BUILDER_SELECT_PBQP_H_

#include "base/arena.h"

typedef struct carnot_pbqp_node {
  uint32_t count;  // alternatives
  uint32_t degree;
  uint32_t first_edge;  // index + 1 of its newest edge; 0: none
  double* costs;        // [count]
} carnot_pbqp_node;

typedef struct carnot_pbqp_edge {
  uint32_t nodes[2], next[2];  // next: as first_edge, by end
  double* costs;               // [count of nodes[0]][count of nodes[1]]
} carnot_pbqp_edge;

// Zero-initialised it is an empty problem. One thread at a time.
typedef struct carnot_pbqp {
  carnot_arena arena;
  carnot_pbqp_node* nodes;
  carnot_pbqp_edge* edges;
  uint32_t node_count, edge_count;
  size_t node_capacity, edge_capacity;
} carnot_pbqp;

typedef struct carnot_pbqp_result {
  double cost;
  bool is_exact;         // no choice costs less
  uint32_t cutset;       // nodes that reductions did not eliminate
  uint32_t evaluations;  // combinations of the cutset that were tried
} carnot_pbqp_result;

void carnot_pbqp_deinit(carnot_pbqp* pbqp);
// A node with |count| >= 1 alternatives; copies |costs|. OUT_OF_MEMORY.
carnot_status* carnot_pbqp_add_node(carnot_pbqp* pbqp, uint32_t count, const double* costs,
                                    uint32_t* out_node) CARNOT_MUST_USE;
// Adds |costs| [count of a][count of b] to the edge between two different nodes. OUT_OF_MEMORY.
carnot_status* carnot_pbqp_add_edge(carnot_pbqp* pbqp, uint32_t a, uint32_t b,
                                    const double* costs) CARNOT_MUST_USE;
// The cost of |choices|, by node.
double carnot_pbqp_cost(const carnot_pbqp* pbqp, const uint32_t* choices);

// The index of |edge|'s costs where its end |node| has alternative |own| and the other |other|.
size_t carnot_pbqp_at(const carnot_pbqp* pbqp, const carnot_pbqp_edge* edge, uint32_t node,
                      uint32_t own, uint32_t other);
// Which end of |edge| |node| is, 0 or 1.
static inline int carnot_pbqp_end(const carnot_pbqp_edge* edge, uint32_t node) {
  return edge->nodes[1] == node;
}
// The edge between two nodes, added with costs of zero where there is none. OUT_OF_MEMORY.
carnot_status* carnot_pbqp_get_edge(carnot_pbqp* pbqp, uint32_t a, uint32_t b,
                                    uint32_t* out_edge) CARNOT_MUST_USE;

// ---- pbqp_solve.c ----

// Improves |choices|, a start by node, which is kept where nothing costs less. Deterministic. Adds
// edges to the problem, so that it is solved once. OUT_OF_MEMORY.
carnot_status* carnot_pbqp_solve(carnot_pbqp* pbqp, uint32_t* choices,
                                 carnot_pbqp_result* out) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_SELECT_PBQP_H_
