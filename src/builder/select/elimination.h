// Elimination of the nodes of a PBQP problem: an order, which depends on the graph alone, and the
// evaluation of given alternatives of the cutset in that order.
#ifndef CARNOT_BUILDER_SELECT_ELIMINATION_H_
#define CARNOT_BUILDER_SELECT_ELIMINATION_H_

#include "builder/select/pbqp.h"

// One node leaves. A reduction has at most two edges; with two its costs go |into| the edge between
// the neighbours.
typedef struct carnot_elimination_step {
  uint32_t node;
  bool in_cutset;
  uint32_t edge_count;
  const uint32_t* edges;
  uint32_t into;
} carnot_elimination_step;

typedef struct carnot_elimination {
  carnot_pbqp* problem;
  carnot_arena arena;
  carnot_elimination_step* steps;  // [node count]
  uint32_t* cutset;                // in the order of leaving
  uint32_t cutset_count;
  bool *is_gone, *is_ready;  // by node, while the order is made
  uint32_t* ready;           // stack of nodes that had at most two neighbours when they were pushed
  uint32_t ready_count;
  double **node_costs, **edge_costs;  // working copies
} carnot_elimination;

// An alternative of the cutset that the evaluation chooses.
#define CARNOT_PBQP_OPEN UINT32_MAX

// Finds an order. Adds edges of no cost to |problem|, which it borrows. OUT_OF_MEMORY.
carnot_status* carnot_elimination_init(carnot_pbqp* problem,
                                       carnot_elimination* out) CARNOT_MUST_USE;
void carnot_elimination_deinit(carnot_elimination* elimination);
// Sets the least expensive |choices| for those of the cutset, which are given or OPEN. Returns
// their cost.
double carnot_elimination_evaluate(const carnot_elimination* elimination, uint32_t* choices);

#endif  // CARNOT_BUILDER_SELECT_ELIMINATION_H_
