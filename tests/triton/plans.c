#include "plans.h"

#include <sys/stat.h>
#include <unistd.h>

#include "carnot/file.h"

void plans_folder(char* folder) {
  snprintf(folder, 256, "%s/carnot-triton-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
  assert_non_null(mkdtemp(folder));
}

void plans_remove(const char* folder) {
  char path[300];
  for (int version = 1; version < 10; version++) {
    snprintf(path, sizeof path, "%s/%d/model.plan", folder, version);
    unlink(path);
    snprintf(path, sizeof path, "%s/%d", folder, version);
    rmdir(path);
  }
  rmdir(folder);
}

TRITONSERVER_InstanceGroupKind plans_kind(void) {
  return net_device() ? TRITONSERVER_INSTANCEGROUPKIND_GPU : TRITONSERVER_INSTANCEGROUPKIND_CPU;
}

void plans_write(const char* folder, int version, carnot_graph* graph,
                 const carnot_build_config* config) {
  char path[300];
  snprintf(path, sizeof path, "%s/%d", folder, version);
  mkdir(path, 0777);
  snprintf(path, sizeof path, "%s/%d/model.plan", folder, version);
  carnot_piece piece;
  void* data;
  net_bytes(graph, config, &data, &piece.size);
  piece.data = data;
  net_ok(carnot_write_file(path, &piece, 1));
  free(data);
  carnot_graph_destroy(graph);
}

static carnot_graph* new_graph(void) {
  carnot_graph* graph = NULL;
  net_ok(carnot_graph_create(&graph));
  return graph;
}

static void write_with_profiles(const char* folder, int version, carnot_graph* graph,
                                carnot_profile_input* inputs, size_t count) {
  carnot_profile profiles[2];
  for (size_t p = 0; p < count; p++) profiles[p] = (carnot_profile){&inputs[p], 1};
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.level = 1;
  config.profiles = profiles;
  config.profile_count = count;
  plans_write(folder, version, graph, &config);
}

void plans_write_rows(const char* folder, int version, uint32_t seed) {
  carnot_graph* g = new_graph();
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(-1, ROWS_IN));
  carnot_value* w = net_weight(g, "w", seed, NULL, NET_LIST(ROWS_IN, ROWS_OUT));
  net_output(g, net_node(g, CARNOT_OP_MATMUL, NULL, NET_VALUES(x, w)), "y");
  carnot_profile_input range = {.name = "x",
                                .min = {2, {1, ROWS_IN}},
                                .opt = {2, {ROWS_MOST, ROWS_IN}},
                                .max = {2, {ROWS_MOST, ROWS_IN}}};
  write_with_profiles(folder, version, g, &range, 1);
}

void plans_rows_wanted(uint32_t seed, const float* x, double* y) {
  for (int j = 0; j < ROWS_OUT; j++) {
    y[j] = 0;
    for (int i = 0; i < ROWS_IN; i++)
      y[j] += (double)x[i] * net_number(seed, (size_t)(i * ROWS_OUT + j));
  }
}

void plans_write_lengths(const char* folder, int version) {
  carnot_graph* g = new_graph();
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(-1, -2));
  net_output(g, net_fn(g, CARNOT_OP_BINARY, "add", NET_VALUES(x, x)), "y");
  carnot_profile_input ranges[2] = {
      {.name = "x", .min = {2, {1, 4}}, .opt = {2, {8, 16}}, .max = {2, {8, 16}}},
      {.name = "x", .min = {2, {1, 17}}, .opt = {2, {2, 64}}, .max = {2, {2, 64}}}};
  write_with_profiles(folder, version, g, ranges, 2);
}

void plans_write_lookup(const char* folder, int version) {
  carnot_graph* g = new_graph();
  float numbers[10];
  for (int i = 0; i < 10; i++) numbers[i] = (float)i;
  carnot_value* index = net_input(g, "index", CARNOT_DTYPE_I64, NET_LIST(-1));
  carnot_value* table = net_weight(g, "table", 0, numbers, NET_LIST(10));
  net_output(g, net_node(g, CARNOT_OP_GATHER, NULL, NET_VALUES(table, index)), "y");
  plans_write(folder, version, g, NULL);
}

void plans_write_text(const char* folder, int version) {
  carnot_graph* g = new_graph();
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_STRING, NET_LIST(-1));
  carnot_value* z = net_input(g, "z", CARNOT_DTYPE_STRING, NET_LIST(-1));
  net_output(g, net_node(g, CARNOT_OP_STRING_CONCAT, NULL, NET_VALUES(x, z)), "y");
  plans_write(folder, version, g, NULL);
}

void plans_write_optional(const char* folder, int version) {
  carnot_graph* g = new_graph();
  carnot_type number = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_F32, .rank = 1};
  number.dims[0] = carnot_sym_of(3);
  carnot_type optional = {.kind = CARNOT_VALUE_OPTIONAL, .element = &number};
  carnot_value* maybe = carnot_block_add_param(g->main, "maybe", &optional);
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(3));
  net_output(g, net_node(g, CARNOT_OP_OPTIONAL_HAS_ELEMENT, NULL, NET_VALUES(maybe)), "has");
  net_output(g, net_fn(g, CARNOT_OP_UNARY, "abs", NET_VALUES(x)), "size");
  plans_write(folder, version, g, NULL);
}

void plans_write_nonzero(const char* folder, int version) {
  plans_write(folder, version, nonzero_net(3), NULL);
}
