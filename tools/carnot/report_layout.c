// The layout of the report's graph by Graphviz's program `dot`.
//
// dot takes minutes for a graph of thousands of nodes and tens of milliseconds for some hundred,
// and networks are long and narrow. So the nodes, in order of execution, are cut into chunks where
// the fewest tensors cross; dot lays out all chunks in one call, and they are put below one
// another.
#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "log.h"
#include "report.h"

enum { CHUNK_MIN = 120, CHUNK_MAX = 320, CHUNK_GAP = 44 };

typedef enum node_kind { NODE_LAYER, NODE_INPUT, NODE_OUTPUT } node_kind;

typedef struct node {
  node_kind kind;
  json_int_t index;  // of a layer, else of a value
  size_t chunk;
  double x, y;
} node;

typedef struct edge {
  size_t from, to;
  json_int_t value;
  json_t* points;  // NULL: the page draws it
} edge;

typedef struct graph {
  cli_arena arena;
  node* nodes;
  edge* edges;
  size_t node_count, edge_count, chunk_count;
  size_t* chunk_end;  // by chunk: past its last node
  double width, height;
} graph;

// ---- the graph: layers in order of execution, with inputs before and outputs after ----

static json_int_t at(const json_t* list, size_t i) {
  return json_integer_value(json_array_get(list, i));
}

static void add_node(graph* g, node_kind kind, json_int_t index) {
  g->nodes[g->node_count++] = (node){.kind = kind, .index = index};
}

// |makers| [values]: node + 1 that makes a value, 0 while there is none.
static void add_inputs(graph* g, const json_t* layer, const bool* is_binding, size_t* makers) {
  const json_t* inputs = json_object_get(layer, "in");
  for (size_t i = 0; i < json_array_size(inputs); i++) {
    json_int_t value = at(inputs, i);
    if (makers[value] || !is_binding[value]) continue;
    add_node(g, NODE_INPUT, value);
    makers[value] = g->node_count;
  }
}

static void add_edges(graph* g, const json_t* layer, size_t to, const size_t* makers) {
  const json_t* inputs = json_object_get(layer, "in");
  for (size_t i = 0; i < json_array_size(inputs); i++) {
    json_int_t value = at(inputs, i);
    bool again = false;
    for (size_t k = 0; k < i; k++) again |= at(inputs, k) == value;
    if (makers[value] && !again)
      g->edges[g->edge_count++] = (edge){.from = makers[value] - 1, .to = to, .value = value};
  }
}

static void add_outputs(graph* g, const json_t* layer, const bool* is_binding, size_t* makers) {
  const json_t* outputs = json_object_get(layer, "out");
  size_t maker = g->node_count;
  for (size_t i = 0; i < json_array_size(outputs); i++) makers[at(outputs, i)] = maker;
  for (size_t i = 0; i < json_array_size(outputs); i++) {
    json_int_t value = at(outputs, i);
    if (!is_binding[value]) continue;
    add_node(g, NODE_OUTPUT, value);
    g->edges[g->edge_count++] = (edge){.from = maker - 1, .to = g->node_count - 1, .value = value};
  }
}

static void make_graph(const json_t* engine, graph* g) {
  const json_t *layers = json_object_get(engine, "layers"),
               *values = json_object_get(engine, "values");
  size_t layer_count = json_array_size(layers), value_count = json_array_size(values), operands = 0;
  for (size_t i = 0; i < layer_count; i++) {
    const json_t* layer = json_array_get(layers, i);
    operands += json_array_size(json_object_get(layer, "in"));
    operands += json_array_size(json_object_get(layer, "out"));
  }
  g->nodes = CLI_NEW_ARRAY(&g->arena, node, layer_count + operands + 1);
  g->edges = CLI_NEW_ARRAY(&g->arena, edge, operands + 1);
  g->chunk_end = CLI_NEW_ARRAY(&g->arena, size_t, layer_count + operands + 1);
  size_t* makers = CLI_NEW_ARRAY(&g->arena, size_t, value_count + 1);
  bool* is_binding = CLI_NEW_ARRAY(&g->arena, bool, value_count + 1);
  const json_t* bindings = json_object_get(engine, "bindings");
  for (size_t i = 0; i < value_count; i++) {
    const char* name = json_string_value(json_array_get(json_array_get(values, i), 0));
    for (size_t b = 0; name && b < json_array_size(bindings); b++)
      is_binding[i] |= strcmp(name, json_string_value(json_array_get(bindings, b))) == 0;
  }
  for (size_t i = 0; i < layer_count; i++) {
    const json_t* layer = json_array_get(layers, i);
    add_inputs(g, layer, is_binding, makers);
    add_node(g, NODE_LAYER, (json_int_t)i);
    add_edges(g, layer, g->node_count - 1, makers);
    add_outputs(g, layer, is_binding, makers);
  }
}

// ---- chunks ----

static carnot_status* cut(graph* g) {
  // crossing[i]: edges from before node i to it or behind.
  long* crossing = CLI_NEW_ARRAY(&g->arena, long, g->node_count + 2);
  for (size_t i = 0; i < g->edge_count; i++) {
    crossing[g->edges[i].from + 1]++;
    crossing[g->edges[i].to + 1]--;
  }
  for (size_t i = 1; i <= g->node_count; i++) crossing[i] += crossing[i - 1];
  for (size_t start = 0; start < g->node_count;) {
    size_t end = g->node_count;
    if (end - start > CHUNK_MAX) {
      end = start + CHUNK_MAX;
      for (size_t i = end; i >= start + CHUNK_MIN; i--)
        if (crossing[i] < crossing[end]) end = i;
    }
    for (size_t i = start; i < end; i++) g->nodes[i].chunk = g->chunk_count;
    g->chunk_end[g->chunk_count++] = end;
    start = end;
  }
  return NULL;
}

static void write_dot(const graph* g, FILE* file) {
  size_t start = 0;
  for (size_t c = 0; c < g->chunk_count; c++) {
    fprintf(
        file,
        "digraph {nodesep=0.3;ranksep=0.5;splines=spline;node[shape=box,fixedsize=true,label=\"\","
        "width=%g,height=%g];edge[arrowhead=none];\n",
        REPORT_NODE_WIDTH / 72.0, REPORT_NODE_HEIGHT / 72.0);
    for (size_t i = start; i < g->chunk_end[c]; i++) fprintf(file, "n%zu;\n", i);
    for (size_t i = 0; i < g->edge_count; i++)
      if (g->nodes[g->edges[i].to].chunk == c && g->nodes[g->edges[i].from].chunk == c)
        fprintf(file, "n%zu->n%zu;\n", g->edges[i].from, g->edges[i].to);
    fputs("}\n", file);
    start = g->chunk_end[c];
  }
}

// ---- dot ----

// Runs `dot -Tplain` on |in|; false when there is no such program or it fails.
static bool run_dot(FILE* in, FILE* out) {
  extern char** environ;
  posix_spawn_file_actions_t actions;
  char* const arguments[] = {"dot", "-Tplain", NULL};
  pid_t child;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(in), 0);
  posix_spawn_file_actions_adddup2(&actions, fileno(out), 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", /*oflag=*/1, /*mode=*/0);
  int failure = posix_spawnp(&child, "dot", &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  int code = -1;
  while (!failure && waitpid(child, &code, 0) < 0 && errno == EINTR) continue;
  return !failure && WIFEXITED(code) && WEXITSTATUS(code) == 0;
}

static edge* find_edge(graph* g, size_t from, size_t to) {
  for (size_t i = 0; i < g->edge_count; i++)
    if (g->edges[i].from == from && g->edges[i].to == to && !g->edges[i].points)
      return &g->edges[i];
  return NULL;
}

// "edge n1 n2 4 x y x y …" in inches from the lower left corner; pixels from the upper left come
// out, relative to the chunk.
static void read_edge(graph* g, char* line, double height) {
  size_t from, to;
  int count, used;
  if (sscanf(line, "edge n%zu n%zu %d%n", &from, &to, &count, &used) != 3) return;
  edge* e = from < g->node_count && to < g->node_count ? find_edge(g, from, to) : NULL;
  if (!e) return;
  e->points = json_array();
  char* text = line + used;
  for (int i = 0; i < count; i++) {
    double x = strtod(text, &text), y = strtod(text, &text);
    json_array_append_new(e->points, json_real(x * 72));
    json_array_append_new(e->points, json_real((height - y) * 72));
  }
}

typedef struct extent {
  double width, height;
} extent;

static bool read_plain(graph* g, FILE* file, extent* chunks) {
  char* line = NULL;
  size_t capacity = 0, chunk = 0, id, placed = 0;
  double x, y, height = 0, width = 0;
  while (getline(&line, &capacity, file) > 0 && chunk < g->chunk_count) {
    if (sscanf(line, "graph %*s %lf %lf", &width, &height) == 2) {
      chunks[chunk] = (extent){width * 72, height * 72};
    } else if (sscanf(line, "node n%zu %lf %lf", &id, &x, &y) == 3 && id < g->node_count) {
      g->nodes[id].x = x * 72, g->nodes[id].y = (height - y) * 72;
      placed++;
    } else if (strncmp(line, "edge", 4) == 0) {
      read_edge(g, line, height);
    } else if (strncmp(line, "stop", 4) == 0) {
      chunk++;
    }
  }
  free(line);
  return placed == g->node_count;
}

// ---- chunks below one another ----

// How far chunk |c| moves right, so that edges from the chunks above run straight down.
static double shift_of(const graph* g, size_t c) {
  double sum = 0;
  size_t count = 0;
  for (size_t i = 0; i < g->edge_count; i++) {
    const node *from = &g->nodes[g->edges[i].from], *to = &g->nodes[g->edges[i].to];
    if (to->chunk != c || from->chunk + 1 != c) continue;
    sum += from->x - to->x;
    count++;
  }
  return count ? sum / (double)count : 0;
}

static void move_edge(edge* e, double x, double y) {
  for (size_t i = 0; i < json_array_size(e->points); i++) {
    json_t* point = json_array_get(e->points, i);
    double moved = json_real_value(point) + (i % 2 ? y : x);
    json_array_set_new(e->points, i, json_integer((json_int_t)lround(moved)));
  }
}

static void stack(graph* g, const extent* chunks) {
  double y = 0, left = 0, right = 0;
  double* shift = CLI_NEW_ARRAY(&g->arena, double, g->chunk_count + 1);
  double* top = CLI_NEW_ARRAY(&g->arena, double, g->chunk_count + 1);
  size_t start = 0;
  for (size_t c = 0; c < g->chunk_count; c++) {
    shift[c] = c ? shift_of(g, c) : 0;
    top[c] = y;
    for (size_t i = start; i < g->chunk_end[c]; i++) {
      g->nodes[i].x += shift[c];
      g->nodes[i].y += y;
    }
    if (shift[c] < left) left = shift[c];
    if (shift[c] + chunks[c].width > right) right = shift[c] + chunks[c].width;
    y += chunks[c].height + CHUNK_GAP;
    start = g->chunk_end[c];
  }
  for (size_t i = 0; i < g->node_count; i++) g->nodes[i].x -= left;
  for (size_t i = 0; i < g->edge_count; i++) {
    size_t c = g->nodes[g->edges[i].to].chunk;
    move_edge(&g->edges[i], shift[c] - left, top[c]);
  }
  g->width = right - left;
  g->height = y;
}

static json_t* layout_json(graph* g) {
  json_t *nodes = json_array(), *edges = json_array();
  for (size_t i = 0; i < g->node_count; i++)
    json_array_append_new(nodes, json_pack("[i,I,i,i]", (int)g->nodes[i].kind, g->nodes[i].index,
                                           (int)lround(g->nodes[i].x), (int)lround(g->nodes[i].y)));
  for (size_t i = 0; i < g->edge_count; i++) {
    edge* e = &g->edges[i];
    json_t* points = e->points ? e->points : json_array();
    e->points = NULL;
    json_array_append_new(edges,
                          json_pack("[i,i,I,o]", (int)e->from, (int)e->to, e->value, points));
  }
  return json_pack("{s:i,s:i,s:i,s:i,s:o,s:o}", "width", (int)g->width, "height", (int)g->height,
                   "node_width", REPORT_NODE_WIDTH, "node_height", REPORT_NODE_HEIGHT, "nodes",
                   nodes, "edges", edges);
}

static bool lay_out(graph* g) {
  FILE *in = tmpfile(), *out = tmpfile();
  extent* chunks = CLI_NEW_ARRAY(&g->arena, extent, g->chunk_count + 1);
  bool done = false;
  if (in && out) {
    write_dot(g, in);
    done = fflush(in) == 0 && fseek(in, 0, SEEK_SET) == 0 && run_dot(in, out) &&
           fseek(out, 0, SEEK_SET) == 0 && read_plain(g, out, chunks);
  }
  if (in) fclose(in);
  if (out) fclose(out);
  if (done) stack(g, chunks);
  return done;
}

carnot_status* report_add_layout(json_t* engine) {
  static const char kMissing[] =
      "the graph is left out: Graphviz's program `dot` was not found or failed; install Debian's "
      "package graphviz and write the report again";
  graph g = {.node_count = 0};
  make_graph(engine, &g);
  CLI_TRY(cut(&g));
  bool done = lay_out(&g);
  if (!done) cli_say(CLI_SAY_WARNING, "%s", kMissing);
  json_object_set_new(engine, "layout",
                      done ? layout_json(&g) : json_pack("{s:s}", "missing", kMissing));
  for (size_t i = 0; i < g.edge_count; i++) json_decref(g.edges[i].points);
  cli_arena_deinit(&g.arena);
  return NULL;
}
