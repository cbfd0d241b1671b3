// The search over alternatives of the cutset.
#include <string.h>

#include "builder/select/elimination.h"

enum { kMostEvaluations = 256 };

typedef struct search {
  const carnot_elimination* order;
  const carnot_pbqp* problem;
  uint32_t* trial;
  uint32_t* best;
  carnot_pbqp_result* result;
} search;

// Evaluates |trial| and keeps it where it costs less.
static bool try_combination(const search* s) {
  const double cost = carnot_elimination_evaluate(s->order, s->trial);
  s->result->evaluations++;
  if (!(cost < s->result->cost)) return false;
  s->result->cost = cost;
  memcpy(s->best, s->trial, s->problem->node_count * sizeof(uint32_t));
  return true;
}

static bool combinations_are_few(const search* s) {
  double combinations = 1;
  for (uint32_t i = 0; i < s->order->cutset_count; i++)
    combinations *= s->problem->nodes[s->order->cutset[i]].count;
  return combinations <= kMostEvaluations;
}

// Counts up, the first of the cutset fastest; false after the last combination.
static bool next_combination(const search* s) {
  for (uint32_t i = 0; i < s->order->cutset_count; i++) {
    const uint32_t node = s->order->cutset[i];
    if (++s->trial[node] < s->problem->nodes[node].count) return true;
    s->trial[node] = 0;
  }
  return false;
}

static void try_all(const search* s) {
  for (uint32_t i = 0; i < s->order->cutset_count; i++) s->trial[s->order->cutset[i]] = 0;
  do try_combination(s);
  while (next_combination(s));
  s->result->is_exact = true;
}

static void use_best(const search* s) {
  memcpy(s->trial, s->best, s->problem->node_count * sizeof(uint32_t));
}

// Every node of the cutset in turn takes each alternative, until nothing costs less.
static void descend(const search* s) {
  const carnot_elimination* order = s->order;
  use_best(s);
  try_combination(s);  // the start's cutset with the best of the rest
  for (uint32_t i = 0; i < order->cutset_count; i++) s->trial[order->cutset[i]] = CARNOT_PBQP_OPEN;
  try_combination(s);
  for (bool better = true; better;) {
    better = false;
    for (uint32_t i = 0; i < order->cutset_count; i++)
      for (uint32_t x = 0; x < s->problem->nodes[order->cutset[i]].count; x++) {
        if (s->result->evaluations >= kMostEvaluations) return;
        use_best(s);
        if (s->trial[order->cutset[i]] == x) continue;
        s->trial[order->cutset[i]] = x;
        better |= try_combination(s);
      }
  }
}

static carnot_status* solve(carnot_pbqp* p, carnot_elimination* order, uint32_t* choices,
                            carnot_pbqp_result* out) {
  void* trial;
  CARNOT_TRY(carnot_elimination_init(p, order));
  CARNOT_TRY(carnot_arena_try(&order->arena, p->node_count, sizeof(uint32_t), "choices", &trial));
  const search s = {order, p, trial, choices, out};
  out->cutset = order->cutset_count;
  if (combinations_are_few(&s))
    try_all(&s);
  else
    descend(&s);
  return NULL;
}

carnot_status* carnot_pbqp_solve(carnot_pbqp* p, uint32_t* choices, carnot_pbqp_result* out) {
  carnot_elimination order = {.problem = p};
  *out = (carnot_pbqp_result){.cost = carnot_pbqp_cost(p, choices)};
  if (!p->node_count) return NULL;
  carnot_status* status = solve(p, &order, choices, out);
  carnot_elimination_deinit(&order);
  return status;
}
