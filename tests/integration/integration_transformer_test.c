// Attention as single operators, concat, and the refit of an embedding that two operators share.
#include "net.h"

enum { WIDTH = 32, HEADS = 4, DEPTH = 8, TOKENS = 64 };

static double weight(uint32_t seed, int i) { return net_number(seed, (size_t)i); }

// The rounding that GEMM applies to its operands.
typedef struct rounding {
  bool weights, rows;  // to bf16
} rounding;

static double to_bf16(bool really, double x) {
  return really ? carnot_bfloat_to_float(carnot_bfloat_from_float((float)x)) : x;
}

static void project(rounding r, const float* x, int tokens, uint32_t seed, double* out) {
  for (int t = 0; t < tokens; t++)
    for (int j = 0; j < WIDTH; j++) {
      double sum = 0;
      for (int k = 0; k < WIDTH; k++)
        sum += to_bf16(r.rows, x[t * WIDTH + k]) * to_bf16(r.weights, weight(seed, k * WIDTH + j));
      out[t * WIDTH + j] = to_bf16(r.rows, sum);
    }
}

static void attend(const double* q, const double* k, const double* v, int tokens, int head, int t,
                   double* out) {
  double p[TOKENS], top = -1e300, sum = 0;
  for (int s = 0; s < tokens; s++) {
    p[s] = 0;
    for (int d = 0; d < DEPTH; d++)
      p[s] += q[t * WIDTH + head * DEPTH + d] * k[s * WIDTH + head * DEPTH + d];
    p[s] *= 0.35355339;
    top = fmax(top, p[s]);
  }
  for (int s = 0; s < tokens; s++) sum += p[s] = exp(p[s] - top);
  for (int d = 0; d < DEPTH; d++) {
    out[head * DEPTH + d] = 0;
    for (int s = 0; s < tokens; s++)
      out[head * DEPTH + d] += p[s] / sum * v[s * WIDTH + head * DEPTH + d];
  }
}

static void wanted_attention(rounding r, const float* x, int tokens, double* y) {
  static double q[TOKENS * WIDTH], k[TOKENS * WIDTH], v[TOKENS * WIDTH];
  project(r, x, tokens, 11, q);
  project(r, x, tokens, 12, k);
  project(r, x, tokens, 13, v);
  for (int t = 0; t < tokens; t++) {
    double row[WIDTH], mean = 0, variance = 0;
    for (int h = 0; h < HEADS; h++) attend(q, k, v, tokens, h, t, row);
    for (int i = 0; i < WIDTH; i++) mean += (row[i] += x[t * WIDTH + i]) / WIDTH;
    for (int i = 0; i < WIDTH; i++) variance += (row[i] - mean) * (row[i] - mean) / WIDTH;
    for (int i = 0; i < WIDTH; i++)
      y[t * WIDTH + i] = (row[i] - mean) / sqrt(variance + 1e-5) * weight(14, i) + weight(15, i);
  }
}

static void test_attention(void** state) {
  (void)state;
  static float x[TOKENS * WIDTH];
  static double wanted[TOKENS * WIDTH];
  for (int i = 0; i < TOKENS * WIDTH; i++) x[i] = net_number(5, (size_t)i);
  for (int fixed = 0; fixed < 2; fixed++) {
    carnot_graph* g = attention_net(fixed ? 17 : -1);
    carnot_engine* engine = net_engine(g, NULL);
    carnot_context* context = net_context(engine, -1);
    static const int kTokens[] = {1, 3, 17, 64, 5};
    for (int i = 0; i < 5; i++) {
      int tokens = fixed ? 17 : kTokens[i];
      wanted_attention((rounding){false, false}, x, tokens, wanted);
      net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(tokens, WIDTH));
      net_ok(carnot_context_run_now(context));
      net_near(net_get(context, "y")->data, wanted, (size_t)(tokens * WIDTH), 1e-4, 1e-4);
    }
    carnot_context_free(context);
    carnot_engine_release(engine);
    carnot_graph_destroy(g);
  }
}

// The tolerance covers softmax's weights in bfloat16 and one rounding in the other direction.
static void test_attention_in_bf16(void** state) {
  (void)state;
  if (net_device()) {
    print_message("skipped: the rounding expected here is that of the CPU tactics\n");
    skip();
  }
  static float x[TOKENS * WIDTH];
  static double wanted[TOKENS * WIDTH];
  for (int i = 0; i < TOKENS * WIDTH; i++) x[i] = net_number(5, (size_t)i);
  carnot_graph* g = attention_net(TOKENS);
  for (int isa = 0; isa < CARNOT_ISA_COUNT; isa++) {
    if (!carnot_isa_includes(carnot_isa_of_machine(), (carnot_isa)isa)) continue;
    bool native = carnot_isa_includes((carnot_isa)isa, CARNOT_ISA_AVX512_BF16);
    carnot_build_config config;
    carnot_build_config_init(&config);
    config.level = 0;
    config.isa = isa;
    config.typing.bf16 = true;
    carnot_engine* engine = net_engine(g, &config);
    int rows = 0;
    for (uint32_t i = 0; i < engine->plan->step_count; i++)
      rows += strstr(engine->plan->steps[i].variants[0].tactic, "attention_bf16") != NULL;
    assert_int_equal(rows, native);
    carnot_context* context = net_context(engine, isa);
    wanted_attention((rounding){true, native}, x, TOKENS, wanted);
    net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(TOKENS, WIDTH));
    net_ok(carnot_context_run_now(context));
    net_near(net_get(context, "y")->data, wanted, TOKENS * WIDTH, 0, native ? 0x1p-7 : 1e-4);
    carnot_context_free(context);
    carnot_engine_release(engine);
  }
  carnot_graph_destroy(g);
}

// y = relu(concat(x + x, x * x)) along channels, and the concat itself as a second output.
static void test_concat(void** state) {
  (void)state;
  for (int fixed = 0; fixed < 2; fixed++) {
    carnot_graph* g = NULL;
    net_ok(carnot_graph_create(&g));
    carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(2, fixed ? 3 : -1, 5));
    carnot_value* a = net_fn(g, CARNOT_OP_BINARY, "add", NET_VALUES(x, x));
    carnot_value* b = net_fn(g, CARNOT_OP_BINARY, "mul", NET_VALUES(x, x));
    carnot_attrs axis = {0};
    carnot_attrs_set_int(&axis, &g->arena, "axis", 1);
    carnot_value* both = net_node(g, CARNOT_OP_CONCAT, &axis, NET_VALUES(a, b, x));
    net_output(g, net_fn(g, CARNOT_OP_UNARY, "relu", NET_VALUES(both)), "y");
    net_output(g, both, "all");
    carnot_engine* engine = net_engine(g, NULL);
    carnot_context* context = net_context(engine, -1);
    for (int c = fixed ? 3 : 0; c <= (fixed ? 3 : 4); c++) {
      float in[2 * 4 * 5];
      double all[2 * 12 * 5], y[2 * 12 * 5];
      for (int i = 0; i < 2 * c * 5; i++) in[i] = net_number(6, (size_t)i);
      for (int n = 0; n < 2; n++)
        for (int i = 0; i < 3 * c * 5; i++) {
          double v = in[n * c * 5 + i % (c * 5)];
          all[n * 3 * c * 5 + i] = i < c * 5 ? v + v : i < 2 * c * 5 ? v * v : v;
        }
      for (int i = 0; i < 2 * 3 * c * 5; i++) y[i] = all[i] > 0 ? all[i] : 0;
      net_set(context, "x", CARNOT_DTYPE_F32, in, NET_LIST(2, c, 5));
      net_ok(carnot_context_run_now(context));
      net_near(net_get(context, "all")->data, all, (size_t)(2 * 3 * c * 5), 1e-6, 1e-7);
      net_near(net_get(context, "y")->data, y, (size_t)(2 * 3 * c * 5), 1e-6, 1e-7);
    }
    carnot_context_free(context);
    carnot_engine_release(engine);
    carnot_graph_destroy(g);
  }
}

enum { WORDS = 19, EMBED = 12 };

static void check_tied(carnot_context* context, const float* table) {
  static const int64_t kWords[4] = {3, 0, 18, 7};
  double wanted[4 * WORDS];
  for (int t = 0; t < 4; t++)
    for (int w = 0; w < WORDS; w++) {
      wanted[t * WORDS + w] = 0;
      for (int e = 0; e < EMBED; e++)
        wanted[t * WORDS + w] += (double)table[kWords[t] * EMBED + e] * table[w * EMBED + e];
    }
  net_set(context, "words", CARNOT_DTYPE_I64, kWords, NET_LIST(4));
  net_ok(carnot_context_run_now(context));
  net_near(net_get(context, "y")->data, wanted, 4 * WORDS, 1e-5, 1e-5);
}

static void test_tied_embedding(void** state) {
  (void)state;
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  float* old_table = net_numbers(&g->arena, 31, WORDS * EMBED);
  float* new_table = net_numbers(&g->arena, 32, WORDS * EMBED);
  carnot_value* table = net_weight(g, "embedding", 0, old_table, NET_LIST(WORDS, EMBED));
  carnot_value* words = net_input(g, "words", CARNOT_DTYPE_I64, NET_LIST(-1));
  carnot_value* rows = net_node(g, CARNOT_OP_GATHER, NULL, NET_VALUES(table, words));
  carnot_value* turned = net_node(g, CARNOT_OP_TRANSPOSE, NULL, NET_VALUES(table));
  net_output(g, net_node(g, CARNOT_OP_MATMUL, NULL, NET_VALUES(rows, turned)), "y");
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.level = 1;
  config.refit = true;
  carnot_engine* engine = net_engine(g, &config);
  carnot_context* context = net_context(engine, -1);
  check_tied(context, old_table);
  carnot_refit* refit = NULL;
  net_ok(carnot_refit_begin(engine, &refit));
  carnot_tensor t = {
      .dtype = CARNOT_DTYPE_F32, .rank = 2, .dims = {WORDS, EMBED}, .data = new_table};
  net_ok(carnot_refit_set(refit, "embedding", &t));
  net_ok(carnot_refit_commit(refit));
  carnot_refit_free(refit);
  check_tied(context, new_table);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_attention), cmocka_unit_test(test_attention_in_bf16),
      cmocka_unit_test(test_concat), cmocka_unit_test(test_tied_embedding)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
