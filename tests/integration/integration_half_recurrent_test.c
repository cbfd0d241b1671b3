// Recurrent layers with weights in float16 and bfloat16 on every ISA level of this machine,
// compared with double precision.
#include "half.h"

enum { TIME = 5, BATCH = 3, INPUT = 13, HIDDEN = 19 };

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static double product(const float* row, const double* x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += row[i] * x[i];
  return sum;
}

// Gate |k| of unit |j| at input |x| and state |h|.
static double gate_at(const float* w, const float* r, int k, int j, const double* x,
                      const double* h) {
  return product(w + (k * HIDDEN + j) * INPUT, x, INPUT) +
         product(r + (k * HIDDEN + j) * HIDDEN, h, HIDDEN);
}

static void lstm_step(const float* w, const float* r, const double* x, double* h, double* c) {
  double next[HIDDEN];
  for (int j = 0; j < HIDDEN; j++) {
    double i = sigmoid(gate_at(w, r, 0, j, x, h)), o = sigmoid(gate_at(w, r, 1, j, x, h));
    double f = sigmoid(gate_at(w, r, 2, j, x, h)), g = tanh(gate_at(w, r, 3, j, x, h));
    c[j] = f * c[j] + i * g;
    next[j] = o * tanh(c[j]);
  }
  memcpy(h, next, sizeof(next));
}

static void gru_step(const float* w, const float* r, const double* x, double* h, double* c) {
  double reset[HIDDEN], next[HIDDEN];
  (void)c;
  for (int j = 0; j < HIDDEN; j++) reset[j] = sigmoid(gate_at(w, r, 1, j, x, h)) * h[j];
  for (int j = 0; j < HIDDEN; j++) {
    double z = sigmoid(gate_at(w, r, 0, j, x, h)), n = tanh(gate_at(w, r, 2, j, x, reset));
    next[j] = (1 - z) * n + z * h[j];
  }
  memcpy(h, next, sizeof(next));
}

static void check_recurrent(const carnot_build_config* config, const char* name, double cost,
                            carnot_op op) {
  int gates = op == CARNOT_OP_LSTM ? 4 : 3;
  carnot_arena arena = {0};
  float *w = net_numbers(&arena, 21, (size_t)(gates * HIDDEN * INPUT)),
        *r = net_numbers(&arena, 22, (size_t)(gates * HIDDEN * HIDDEN)),
        *x = net_numbers(&arena, 23, TIME * BATCH * INPUT);
  for (int i = 0; i < gates * HIDDEN * HIDDEN; i++) r[i] *= 0.3f;
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* in = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(TIME, BATCH, INPUT));
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &g->arena, "hidden_size", HIDDEN);
  net_output(g,
             net_node(g, op, &attrs,
                      NET_VALUES(in, net_weight(g, "w", 0, w, NET_LIST(1, gates * HIDDEN, INPUT)),
                                 net_weight(g, "r", 0, r, NET_LIST(1, gates * HIDDEN, HIDDEN)))),
             "y");
  carnot_engine* engine = net_engine(g, config);
  assert_int_equal(half_steps(engine, name), 1);
  carnot_context* context = net_context(engine, config->isa);
  net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(TIME, BATCH, INPUT));
  net_ok(carnot_context_run_now(context));
  double wanted[TIME * BATCH * HIDDEN], bound[TIME * BATCH * HIDDEN];
  for (int b = 0; b < BATCH; b++) {
    double h[HIDDEN] = {0}, c[HIDDEN] = {0}, xt[INPUT];
    for (int t = 0; t < TIME; t++) {
      for (int i = 0; i < INPUT; i++) xt[i] = x[(t * BATCH + b) * INPUT + i];
      (op == CARNOT_OP_LSTM ? lstm_step : gru_step)(w, r, xt, h, c);
      memcpy(wanted + (t * BATCH + b) * HIDDEN, h, sizeof(h));
    }
  }
  // The magnitudes of a gate's products sum to about 4, its slope is at most 1, and a state
  // accumulates a few gates.
  for (int i = 0; i < TIME * BATCH * HIDDEN; i++) bound[i] = 5 * cost;
  half_within(net_get(context, "y")->data, wanted, bound, TIME * BATCH * HIDDEN);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

static void check_cells(const carnot_build_config* config, const char* name, double cost) {
  check_recurrent(config, name, cost, CARNOT_OP_LSTM);
  check_recurrent(config, name, cost, CARNOT_OP_GRU);
}

static void test_recurrent(void** state) { (void)state, half_each_tactic(check_cells); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_recurrent)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
