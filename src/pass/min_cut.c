// Minimum cuts by Dinic's algorithm: blocking flows along shortest paths, without recursion.
#include "pass/min_cut.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

carnot_status* carnot_min_cut_init(carnot_min_cut* cut) {
  int32_t vertex;
  CARNOT_TRY(carnot_min_cut_add_vertex(cut, &vertex));
  return carnot_min_cut_add_vertex(cut, &vertex);
}

void carnot_min_cut_deinit(carnot_min_cut* cut) {
  free(cut->edges);
  free(cut->first);
  memset(cut, 0, sizeof(*cut));
}

carnot_status* carnot_min_cut_add_vertex(carnot_min_cut* cut, int32_t* out_vertex) {
  CARNOT_CHECK(cut->vertex_count < INT32_MAX, OUT_OF_RANGE, "a minimum cut of too many vertices");
  CARNOT_TRY(carnot_grow((void**)&cut->first, &cut->vertex_capacity, cut->vertex_count + 1,
                         sizeof(*cut->first), "a minimum cut"));
  cut->first[cut->vertex_count] = -1;
  *out_vertex = (int32_t)cut->vertex_count++;
  return NULL;
}

static void put_edge(carnot_min_cut* cut, int32_t from, int32_t to, int64_t left) {
  cut->edges[cut->edge_count] = (carnot_min_cut_edge){to, cut->first[from], left};
  cut->first[from] = (int32_t)cut->edge_count++;
}

carnot_status* carnot_min_cut_add_edge(carnot_min_cut* cut, int32_t from, int32_t to,
                                       int64_t cost) {
  CARNOT_CHECK(cut->edge_count + 2 < INT32_MAX, OUT_OF_RANGE, "a minimum cut of too many edges");
  CARNOT_TRY(carnot_grow((void**)&cut->edges, &cut->edge_capacity, cut->edge_count + 2,
                         sizeof(*cut->edges), "a minimum cut"));
  put_edge(cut, from, to, cost);
  put_edge(cut, to, from, 0);
  return NULL;
}

typedef struct search {
  carnot_min_cut* cut;
  int32_t* level;  // distance from the source; -1: not reached
  int32_t* queue;
  int32_t* at;    // the next edge of each vertex to be tried
  int32_t* path;  // edges from the source to where the search stands
} search;

static bool measure_levels(search* s) {
  carnot_min_cut* cut = s->cut;
  for (size_t v = 0; v < cut->vertex_count; v++) s->level[v] = -1;
  size_t begin = 0, end = 0;
  s->level[CARNOT_MIN_CUT_SOURCE] = 0;
  s->queue[end++] = CARNOT_MIN_CUT_SOURCE;
  while (begin < end) {
    const int32_t v = s->queue[begin++];
    for (int32_t e = cut->first[v]; e >= 0; e = cut->edges[e].next) {
      const int32_t to = cut->edges[e].to;
      if (cut->edges[e].left <= 0 || s->level[to] >= 0) continue;
      s->level[to] = s->level[v] + 1;
      s->queue[end++] = to;
    }
  }
  return s->level[CARNOT_MIN_CUT_SINK] >= 0;
}

// Sends what the path of |length| edges takes; the number of edges before the first full one.
static int32_t send(search* s, int32_t length) {
  carnot_min_cut_edge* edges = s->cut->edges;
  int64_t flow = CARNOT_MIN_CUT_INFINITE;
  int32_t full = 0;
  for (int32_t i = 0; i < length; i++)
    if (edges[s->path[i]].left < flow) flow = edges[s->path[i]].left, full = i;
  for (int32_t i = 0; i < length; i++) {
    edges[s->path[i]].left -= flow;
    edges[s->path[i] ^ 1].left += flow;
  }
  return full;
}

// The next edge of |v| that leads one level on; -1: none is left.
static int32_t next_edge(search* s, int32_t v) {
  const carnot_min_cut_edge* edges = s->cut->edges;
  while (s->at[v] >= 0 &&
         (edges[s->at[v]].left <= 0 || s->level[edges[s->at[v]].to] != s->level[v] + 1))
    s->at[v] = edges[s->at[v]].next;
  return s->at[v];
}

static void block_flow(search* s) {
  carnot_min_cut* cut = s->cut;
  memcpy(s->at, cut->first, cut->vertex_count * sizeof(*s->at));
  int32_t length = 0, v = CARNOT_MIN_CUT_SOURCE;
  for (;;) {
    if (v == CARNOT_MIN_CUT_SINK) {
      length = send(s, length);
      v = cut->edges[s->path[length] ^ 1].to;
      continue;
    }
    const int32_t edge = next_edge(s, v);
    if (edge >= 0) {
      s->path[length++] = edge;
      v = cut->edges[edge].to;
    } else if (length == 0) {
      return;
    } else {
      const int32_t last = s->path[--length];
      v = cut->edges[last ^ 1].to;
      s->at[v] = cut->edges[s->at[v]].next;
    }
  }
}

carnot_status* carnot_min_cut_solve(carnot_min_cut* cut, bool* on_source_side) {
  void* memory = NULL;
  const size_t n = cut->vertex_count;
  CARNOT_TRY(carnot_calloc(n, 4 * sizeof(int32_t), "a minimum cut", &memory));
  int32_t* lists = memory;
  search s = {cut, lists, lists + n, lists + 2 * n, lists + 3 * n};
  while (measure_levels(&s)) block_flow(&s);
  for (size_t v = 0; v < n; v++) on_source_side[v] = s.level[v] >= 0;
  free(memory);
  return NULL;
}
