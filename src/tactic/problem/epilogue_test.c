// The epilogue matcher: what a mask admits, where the rest begins, and the facts of operands.
// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tactic/problem/epilogue.h"

enum { kInputs = 6, kMaxNodes = 5 };

// A chain of nodes behind a GEMM of inputs 0 and 1; node n makes local value kInputs + n.
typedef struct chain {
  carnot_arena arena;
  carnot_region region;
  carnot_plan_node nodes[kMaxNodes];
  uint32_t inputs[kMaxNodes][2], outputs[kMaxNodes];
  carnot_operand_facts facts[CARNOT_EPILOGUE_MAX_INPUTS];
} chain;

static carnot_plan_node* add_node(chain* c, carnot_op op, uint32_t a, uint32_t b) {
  uint32_t n = c->region.node_count++;
  c->inputs[n][0] = a, c->inputs[n][1] = b, c->outputs[n] = kInputs + n;
  c->nodes[n] = (carnot_plan_node){.op = op,
                                   .input_count = op == CARNOT_OP_UNARY ? 1 : 2,
                                   .output_count = 1,
                                   .inputs = c->inputs[n],
                                   .outputs = &c->outputs[n]};
  return &c->nodes[n];
}

static void init(chain* c) {
  memset(c, 0, sizeof(*c));
  c->region.nodes = c->nodes;
  carnot_arena_init(&c->arena);
  add_node(c, CARNOT_OP_MATMUL, 0, 1);
}

static uint32_t last_value(const chain* c) { return c->outputs[c->region.node_count - 1]; }

static void append_binary(chain* c, carnot_fn fn, uint32_t input, bool input_first) {
  uint32_t acc = last_value(c);
  carnot_plan_node* node =
      add_node(c, CARNOT_OP_BINARY, input_first ? input : acc, input_first ? acc : input);
  carnot_attrs_set_int(&node->attrs, &c->arena, "fn", (int64_t)fn);
}

static void append_unary(chain* c, carnot_fn fn, double alpha, double beta) {
  carnot_plan_node* node = add_node(c, CARNOT_OP_UNARY, last_value(c), CARNOT_PLAN_NONE);
  carnot_attrs_set_int(&node->attrs, &c->arena, "fn", (int64_t)fn);
  carnot_attrs_set_float(&node->attrs, &c->arena, "alpha", alpha);
  carnot_attrs_set_float(&node->attrs, &c->arena, "beta", beta);
}

static carnot_epilogue match(const chain* c, uint32_t bias, carnot_epilogue_mask mask) {
  carnot_epilogue e;
  carnot_epilogue_match(&c->region, 0, bias, c->facts, kInputs, &mask, &e);
  return e;
}

static const carnot_epilogue_mask kAll = {CARNOT_EPILOGUE_ONE_BIAS, true, ~0u};

static void matches_bias_residual_activation(void** state) {
  (void)state;
  chain c;
  init(&c);
  c.facts[2] = CARNOT_FACT_CHANNEL, c.facts[3] = CARNOT_FACT_FULL;
  append_binary(&c, CARNOT_FN_ADD, 2, /*input_first=*/false);
  append_binary(&c, CARNOT_FN_ADD, 3, /*input_first=*/true);
  append_unary(&c, CARNOT_FN_RELU, 0, 0);
  append_binary(&c, CARNOT_FN_MUL, 3, /*input_first=*/false);
  carnot_epilogue e = match(&c, CARNOT_PLAN_NONE, kAll);
  assert_int_equal(carnot_epilogue_bias(&e), 2);
  assert_int_equal(e.residual, 3);
  assert_int_equal(e.activation.kind, CARNOT_FUSED_RELU);
  assert_int_equal(e.rest, 4);
  assert_int_equal(e.acc, kInputs + 3);
  // Nothing is left where the multiplication is missing.
  c.region.node_count = 4;
  assert_int_equal(match(&c, CARNOT_PLAN_NONE, kAll).rest, 4);
  carnot_arena_deinit(&c.arena);
}

static void stops_at_what_the_mask_lacks(void** state) {
  (void)state;
  chain c;
  init(&c);
  c.facts[2] = CARNOT_FACT_CHANNEL, c.facts[3] = CARNOT_FACT_FULL;
  append_binary(&c, CARNOT_FN_ADD, 2, /*input_first=*/false);
  append_binary(&c, CARNOT_FN_ADD, 3, /*input_first=*/false);
  append_unary(&c, CARNOT_FN_TANH, 0, 0);
  carnot_epilogue e = match(&c, CARNOT_PLAN_NONE, (carnot_epilogue_mask){0});
  assert_int_equal(e.rest, 1);
  assert_int_equal(e.acc, kInputs);
  assert_int_equal(carnot_epilogue_bias(&e), CARNOT_PLAN_NONE);
  carnot_epilogue_mask mask = {CARNOT_EPILOGUE_ONE_BIAS, false, ~0u};
  e = match(&c, CARNOT_PLAN_NONE, mask);
  assert_int_equal(e.rest, 2);
  assert_int_equal(e.residual, CARNOT_PLAN_NONE);
  mask = (carnot_epilogue_mask){CARNOT_EPILOGUE_ONE_BIAS, true, CARNOT_FUSED_BIT(RELU)};
  e = match(&c, CARNOT_PLAN_NONE, mask);
  assert_int_equal(e.rest, 3);
  assert_int_equal(e.activation.kind, CARNOT_FUSED_NONE);
  // The anchor's own bias leaves no room for another.
  e = match(&c, 4, kAll);
  assert_int_equal(carnot_epilogue_bias(&e), 4);
  assert_int_equal(e.rest, 1);
  carnot_arena_deinit(&c.arena);
}

static void sums_known_constants(void** state) {
  (void)state;
  chain c;
  init(&c);
  c.facts[2] = CARNOT_FACT_FULL;
  c.facts[3] = CARNOT_FACT_CHANNEL | CARNOT_FACT_KNOWN;
  c.facts[4] = CARNOT_FACT_SCALAR | CARNOT_FACT_KNOWN;
  c.facts[5] = CARNOT_FACT_CHANNEL;
  for (uint32_t i = 2; i < 6; i++) append_binary(&c, CARNOT_FN_ADD, i, /*input_first=*/i % 2);
  carnot_epilogue e =
      match(&c, CARNOT_PLAN_NONE, (carnot_epilogue_mask){CARNOT_EPILOGUE_SUM_BIASES, true, 0});
  assert_int_equal(e.residual, 2);
  assert_int_equal(e.bias_count, 2);
  assert_int_equal(e.biases[0], 3);
  assert_int_equal(e.biases[1], 4);
  assert_int_equal(e.rest, 4);  // the elements of input 5 are unknown
  // A kernel that adds one vector adds it before the residual.
  e = match(&c, CARNOT_PLAN_NONE, kAll);
  assert_int_equal(e.residual, 2);
  assert_int_equal(e.bias_count, 0);
  assert_int_equal(e.rest, 2);
  carnot_arena_deinit(&c.arena);
}

static carnot_epilogue_activation activation_of(carnot_fn fn, double alpha, double beta) {
  chain c;
  init(&c);
  append_unary(&c, fn, alpha, beta);
  carnot_epilogue_activation a = carnot_epilogue_activation_of(&c.nodes[1]);
  carnot_arena_deinit(&c.arena);
  return a;
}

static void reads_activations(void** state) {
  (void)state;
  assert_int_equal(activation_of(CARNOT_FN_SWISH, 1, 0).kind, CARNOT_FUSED_SILU);
  assert_int_equal(activation_of(CARNOT_FN_SWISH, 2, 0).kind, CARNOT_FUSED_NONE);
  assert_int_equal(activation_of(CARNOT_FN_SQRT, 0, 0).kind, CARNOT_FUSED_NONE);
  assert_int_equal(activation_of(CARNOT_FN_GELU_TANH, 0, 0).kind, CARNOT_FUSED_GELU_TANH);
  carnot_epilogue_activation a = activation_of(CARNOT_FN_CLAMP, -1, 6);
  assert_int_equal(a.kind, CARNOT_FUSED_CLAMP);
  assert_true(a.a == -1 && a.b == 6);
}

static void relu_is_a_clamp(void** state) {
  (void)state;
  const carnot_epilogue_mask mask = {.activations = CARNOT_FUSED_BIT(RELU)};
  for (int bounded = 0; bounded < 2; bounded++) {
    chain c;
    init(&c);
    append_unary(&c, CARNOT_FN_CLAMP, 0, bounded ? 6 : (double)INFINITY);
    assert_int_equal(match(&c, CARNOT_PLAN_NONE, mask).rest, bounded ? 1 : 2);
    carnot_arena_deinit(&c.arena);
  }
}

static carnot_operand_desc desc(int rank, const int64_t* dims, const carnot_tensor* constant) {
  carnot_operand_desc t = {.kind = CARNOT_VALUE_TENSOR,
                           .format.dtype = CARNOT_DTYPE_F32,
                           .rank = rank,
                           .is_constant = constant != NULL,
                           .tensor = constant};
  for (int d = 0; d < rank; d++) t.dims[d] = t.min[d] = t.max[d] = dims[d];
  return t;
}

static void finds_facts(void** state) {
  (void)state;
  float data[4] = {0};
  const carnot_tensor known = {.dtype = CARNOT_DTYPE_F32, .data = data}, unknown = {.data = NULL};
  const int64_t y[] = {2, 4, 3, 3}, channels[] = {4, 1, 1}, one[] = {1, 1}, other[] = {4};
  carnot_operand_desc inputs[] = {desc(4, y, NULL),          desc(3, channels, &known),
                                  desc(2, one, &unknown),    desc(1, other, &known),
                                  desc(3, channels, NULL),   desc(4, y, NULL),
                                  desc(3, channels, &known), desc(3, channels, &known)};
  inputs[5].max[0] = 8;                       // broadcasts at other shapes
  inputs[6].format.dtype = CARNOT_DTYPE_F16;  // another type
  inputs[7].max[1] = 2;                       // 1 only at the optimum
  carnot_operand_desc output = desc(4, y, NULL);
  const carnot_problem problem = {.input_count = 8, .inputs = inputs, .outputs = &output};
  carnot_operand_facts facts[CARNOT_EPILOGUE_MAX_INPUTS];
  assert_null(carnot_epilogue_facts_of_problem(&problem, CARNOT_DTYPE_F32, /*channel_axis=*/3,
                                               /*channels=*/4, facts));
  const int expected[] = {CARNOT_FACT_FULL,
                          CARNOT_FACT_CHANNEL | CARNOT_FACT_KNOWN,
                          CARNOT_FACT_SCALAR,
                          CARNOT_FACT_KNOWN,
                          0,
                          0,
                          0,
                          CARNOT_FACT_KNOWN};
  for (int i = 0; i < 8; i++) assert_int_equal(facts[i], expected[i]);
}

static void finds_facts_of_operands(void** state) {
  (void)state;
  const carnot_operand y = {.format.dtype = CARNOT_DTYPE_F32, .rank = 3, .dims = {1, 4, 1}},
                       inputs[] = {y,
                                   {.format.dtype = CARNOT_DTYPE_F32, .rank = 2, .dims = {4, 1}},
                                   {.format.dtype = CARNOT_DTYPE_F32, .rank = 0},
                                   {.format.dtype = CARNOT_DTYPE_F16, .rank = 0}};
  carnot_operand_facts facts[CARNOT_EPILOGUE_MAX_INPUTS];
  assert_null(carnot_epilogue_facts_of_operands(inputs, 4, &y, 2, 4, facts));
  assert_int_equal(facts[0], CARNOT_FACT_CHANNEL);
  assert_int_equal(facts[1], CARNOT_FACT_CHANNEL);
  assert_int_equal(facts[2], CARNOT_FACT_SCALAR);
  assert_int_equal(facts[3], 0);
  carnot_status* status =
      carnot_epilogue_facts_of_operands(inputs, CARNOT_EPILOGUE_MAX_INPUTS + 1, &y, 2, 4, facts);
  assert_non_null(status);
  carnot_status_free(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(matches_bias_residual_activation),
                                     cmocka_unit_test(stops_at_what_the_mask_lacks),
                                     cmocka_unit_test(sums_known_constants),
                                     cmocka_unit_test(reads_activations),
                                     cmocka_unit_test(relu_is_a_clamp),
                                     cmocka_unit_test(finds_facts),
                                     cmocka_unit_test(finds_facts_of_operands)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
