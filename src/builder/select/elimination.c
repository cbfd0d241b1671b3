// Reductions R0, RI and RII, and nodes of the cutset in between.
#include "builder/select/elimination.h"

#include <math.h>
#include <string.h>

typedef carnot_elimination_step step;

void carnot_elimination_deinit(carnot_elimination* e) { carnot_arena_deinit(&e->arena); }

static uint32_t neighbour(const carnot_elimination* e, const step* t, uint32_t i) {
  const carnot_pbqp_edge* edge = &e->problem->edges[t->edges[i]];
  return edge->nodes[!carnot_pbqp_end(edge, t->node)];
}

// ---- the order ----

static carnot_status* new_array(carnot_elimination* e, size_t count, size_t size, void** out) {
  return carnot_arena_try(&e->arena, count + 1, size, "an order of elimination", out);
}

static void push_if_ready(carnot_elimination* e, uint32_t node) {
  if (e->problem->nodes[node].degree > 2 || e->is_ready[node]) return;
  e->is_ready[node] = true;
  e->ready[e->ready_count++] = node;
}

// The node to leave next: the newest that is ready, else the one with most neighbours.
static uint32_t next_node(carnot_elimination* e, bool* out_in_cutset) {
  const carnot_pbqp* p = e->problem;
  *out_in_cutset = false;
  while (e->ready_count) {
    const uint32_t node = e->ready[--e->ready_count];
    e->is_ready[node] = false;
    if (!e->is_gone[node] && p->nodes[node].degree <= 2) return node;
  }
  *out_in_cutset = true;
  uint32_t most = p->node_count;
  for (uint32_t i = 0; i < p->node_count; i++)
    if (!e->is_gone[i] && (most == p->node_count || p->nodes[i].degree > p->nodes[most].degree))
      most = i;
  return most;
}

static carnot_status* list_edges(carnot_elimination* e, step* t) {
  const carnot_pbqp* p = e->problem;
  void* list;
  CARNOT_TRY(new_array(e, p->nodes[t->node].degree, sizeof(uint32_t), &list));
  uint32_t* edges = list;
  for (uint32_t i = p->nodes[t->node].first_edge; i;) {
    const carnot_pbqp_edge* edge = &p->edges[i - 1];
    const int end = carnot_pbqp_end(edge, t->node);
    if (!e->is_gone[edge->nodes[!end]]) edges[t->edge_count++] = i - 1;
    i = edge->next[end];
  }
  t->edges = edges;
  return NULL;
}

static carnot_status* leave(carnot_elimination* e, step* t) {
  CARNOT_TRY(list_edges(e, t));
  e->is_gone[t->node] = true;
  if (t->in_cutset) e->cutset[e->cutset_count++] = t->node;
  if (!t->in_cutset && t->edge_count == 2)
    CARNOT_TRY(carnot_pbqp_get_edge(e->problem, neighbour(e, t, 0), neighbour(e, t, 1), &t->into));
  for (uint32_t i = 0; i < t->edge_count; i++) {
    e->problem->nodes[neighbour(e, t, i)].degree--;
    push_if_ready(e, neighbour(e, t, i));
  }
  return NULL;
}

static carnot_status* find_order(carnot_elimination* e) {
  const uint32_t count = e->problem->node_count;
  void *steps, *gone, *is_ready, *ready, *cutset;
  CARNOT_TRY(new_array(e, count, sizeof(step), &steps));
  CARNOT_TRY(new_array(e, count, sizeof(bool), &gone));
  CARNOT_TRY(new_array(e, count, sizeof(bool), &is_ready));
  CARNOT_TRY(new_array(e, count, sizeof(uint32_t), &ready));
  CARNOT_TRY(new_array(e, count, sizeof(uint32_t), &cutset));
  e->steps = steps, e->is_gone = gone, e->is_ready = is_ready, e->ready = ready, e->cutset = cutset;
  for (uint32_t i = count; i-- > 0;) push_if_ready(e, i);
  for (uint32_t i = 0; i < count; i++) {
    e->steps[i].node = next_node(e, &e->steps[i].in_cutset);
    CARNOT_TRY(leave(e, &e->steps[i]));
  }
  return NULL;
}

// ---- working copies ----

static size_t edge_size(const carnot_pbqp* p, const carnot_pbqp_edge* edge) {
  return (size_t)p->nodes[edge->nodes[0]].count * p->nodes[edge->nodes[1]].count;
}

static carnot_status* make_copies(carnot_elimination* e) {
  const carnot_pbqp* p = e->problem;
  void *of_nodes, *of_edges, *copy;
  CARNOT_TRY(new_array(e, p->node_count, sizeof(double*), &of_nodes));
  CARNOT_TRY(new_array(e, p->edge_count, sizeof(double*), &of_edges));
  e->node_costs = of_nodes, e->edge_costs = of_edges;
  for (uint32_t i = 0; i < p->node_count; i++) {
    CARNOT_TRY(new_array(e, p->nodes[i].count, sizeof(double), &copy));
    e->node_costs[i] = copy;
  }
  for (uint32_t i = 0; i < p->edge_count; i++) {
    CARNOT_TRY(new_array(e, edge_size(p, &p->edges[i]), sizeof(double), &copy));
    e->edge_costs[i] = copy;
  }
  return NULL;
}

carnot_status* carnot_elimination_init(carnot_pbqp* problem, carnot_elimination* out) {
  *out = (carnot_elimination){.problem = problem};
  CARNOT_TRY(find_order(out));
  return make_copies(out);
}

static void reset_copies(const carnot_elimination* e) {
  const carnot_pbqp* p = e->problem;
  for (uint32_t i = 0; i < p->node_count; i++)
    memcpy(e->node_costs[i], p->nodes[i].costs, p->nodes[i].count * sizeof(double));
  for (uint32_t i = 0; i < p->edge_count; i++)
    memcpy(e->edge_costs[i], p->edges[i].costs, edge_size(p, &p->edges[i]) * sizeof(double));
}

// ---- evaluation ----

// The cost of edge |i| of a step where its node has alternative |own| and the neighbour |other|.
static double cost_at(const carnot_elimination* e, const step* t, uint32_t i, uint32_t own,
                      uint32_t other) {
  const uint32_t edge = t->edges[i];
  return e
      ->edge_costs[edge][carnot_pbqp_at(e->problem, &e->problem->edges[edge], t->node, own, other)];
}

// The alternative of a node of the cutset that looks best, each neighbour taking its best.
static uint32_t guess(const carnot_elimination* e, const step* t) {
  const carnot_pbqp* p = e->problem;
  uint32_t best = 0;
  double least = INFINITY;
  for (uint32_t x = 0; x < p->nodes[t->node].count; x++) {
    double cost = e->node_costs[t->node][x];
    for (uint32_t i = 0; i < t->edge_count; i++) {
      const uint32_t other = neighbour(e, t, i);
      double of_edge = INFINITY;
      for (uint32_t y = 0; y < p->nodes[other].count; y++)
        of_edge = fmin(of_edge, e->node_costs[other][y] + cost_at(e, t, i, x, y));
      cost += of_edge;
    }
    if (cost < least) least = cost, best = x;
  }
  return best;
}

static void condition(const carnot_elimination* e, const step* t, uint32_t x) {
  for (uint32_t i = 0; i < t->edge_count; i++) {
    const uint32_t other = neighbour(e, t, i);
    for (uint32_t y = 0; y < e->problem->nodes[other].count; y++)
      e->node_costs[other][y] += cost_at(e, t, i, x, y);
  }
}

// The best alternative of a node whose neighbours have |others|, and its cost.
static uint32_t best_of(const carnot_elimination* e, const step* t, const uint32_t* others,
                        double* out_cost) {
  uint32_t best = 0;
  *out_cost = INFINITY;
  for (uint32_t x = 0; x < e->problem->nodes[t->node].count; x++) {
    double cost = e->node_costs[t->node][x];
    for (uint32_t i = 0; i < t->edge_count; i++) cost += cost_at(e, t, i, x, others[i]);
    if (cost < *out_cost) *out_cost = cost, best = x;
  }
  return best;
}

static void reduce(const carnot_elimination* e, const step* t) {
  const carnot_pbqp* p = e->problem;
  if (!t->edge_count) return;
  const uint32_t a = neighbour(e, t, 0);
  uint32_t others[2] = {0};
  double cost;
  for (others[0] = 0; others[0] < p->nodes[a].count; others[0]++) {
    if (t->edge_count == 1) {
      best_of(e, t, others, &cost);
      e->node_costs[a][others[0]] += cost;
      continue;
    }
    for (others[1] = 0; others[1] < p->nodes[neighbour(e, t, 1)].count; others[1]++) {
      best_of(e, t, others, &cost);
      e->edge_costs[t->into][carnot_pbqp_at(p, &p->edges[t->into], a, others[0], others[1])] +=
          cost;
    }
  }
}

double carnot_elimination_evaluate(const carnot_elimination* e, uint32_t* choices) {
  const carnot_pbqp* p = e->problem;
  reset_copies(e);
  for (uint32_t i = 0; i < p->node_count; i++) {
    const step* t = &e->steps[i];
    if (t->in_cutset && choices[t->node] == CARNOT_PBQP_OPEN) choices[t->node] = guess(e, t);
    if (t->in_cutset)
      condition(e, t, choices[t->node]);
    else
      reduce(e, t);
  }
  for (uint32_t i = p->node_count; i-- > 0;) {
    const step* t = &e->steps[i];
    uint32_t others[2] = {0};
    double cost;
    for (uint32_t k = 0; k < t->edge_count && !t->in_cutset; k++)
      others[k] = choices[neighbour(e, t, k)];
    if (!t->in_cutset) choices[t->node] = best_of(e, t, others, &cost);
  }
  return carnot_pbqp_cost(p, choices);
}
