// The problem: nodes, edges and what choices cost.
#include "builder/select/pbqp.h"

#include <stdlib.h>
#include <string.h>

void carnot_pbqp_deinit(carnot_pbqp* p) {
  carnot_arena_deinit(&p->arena);
  free(p->nodes);
  free(p->edges);
}

carnot_status* carnot_pbqp_add_node(carnot_pbqp* p, uint32_t count, const double* costs,
                                    uint32_t* out_node) {
  void *nodes = p->nodes, *copy;
  CARNOT_TRY(carnot_grow(&nodes, &p->node_capacity, p->node_count + 1, sizeof(*p->nodes), "nodes"));
  p->nodes = nodes;
  CARNOT_TRY(carnot_arena_try(&p->arena, count, sizeof(double), "costs of a node", &copy));
  memcpy(copy, costs, count * sizeof(double));
  *out_node = p->node_count;
  p->nodes[p->node_count++] = (carnot_pbqp_node){.count = count, .costs = copy};
  return NULL;
}

size_t carnot_pbqp_at(const carnot_pbqp* p, const carnot_pbqp_edge* e, uint32_t node, uint32_t own,
                      uint32_t other) {
  const bool second = carnot_pbqp_end(e, node);
  const uint32_t row = second ? other : own, column = second ? own : other;
  return (size_t)row * p->nodes[e->nodes[1]].count + column;
}

carnot_status* carnot_pbqp_get_edge(carnot_pbqp* p, uint32_t a, uint32_t b, uint32_t* out_edge) {
  for (uint32_t i = p->nodes[a].first_edge; i;
       i = p->edges[i - 1].next[carnot_pbqp_end(&p->edges[i - 1], a)]) {
    const carnot_pbqp_edge* e = &p->edges[i - 1];
    *out_edge = i - 1;
    if (e->nodes[!carnot_pbqp_end(e, a)] == b) return NULL;
  }
  void *edges = p->edges, *costs;
  CARNOT_TRY(carnot_grow(&edges, &p->edge_capacity, p->edge_count + 1, sizeof(*p->edges), "edges"));
  p->edges = edges;
  CARNOT_TRY(carnot_arena_try(&p->arena, (size_t)p->nodes[a].count * p->nodes[b].count,
                              sizeof(double), "costs of an edge", &costs));
  p->edges[p->edge_count] = (carnot_pbqp_edge){
      .nodes = {a, b}, .next = {p->nodes[a].first_edge, p->nodes[b].first_edge}, .costs = costs};
  *out_edge = p->edge_count++;
  p->nodes[a].first_edge = p->nodes[b].first_edge = p->edge_count;
  p->nodes[a].degree++, p->nodes[b].degree++;
  return NULL;
}

carnot_status* carnot_pbqp_add_edge(carnot_pbqp* p, uint32_t a, uint32_t b, const double* costs) {
  uint32_t edge;
  CARNOT_TRY(carnot_pbqp_get_edge(p, a, b, &edge));
  carnot_pbqp_edge* e = &p->edges[edge];
  for (uint32_t x = 0; x < p->nodes[a].count; x++)
    for (uint32_t y = 0; y < p->nodes[b].count; y++)
      e->costs[carnot_pbqp_at(p, e, a, x, y)] += costs[(size_t)x * p->nodes[b].count + y];
  return NULL;
}

double carnot_pbqp_cost(const carnot_pbqp* p, const uint32_t* choices) {
  double cost = 0;
  for (uint32_t i = 0; i < p->node_count; i++) cost += p->nodes[i].costs[choices[i]];
  for (uint32_t i = 0; i < p->edge_count; i++) {
    const carnot_pbqp_edge* e = &p->edges[i];
    const uint32_t a = e->nodes[0], b = e->nodes[1];
    cost += e->costs[carnot_pbqp_at(p, e, a, choices[a], choices[b])];
  }
  return cost;
}
