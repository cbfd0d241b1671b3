// The reader of GEMM problems: operands and scales of MatMul and Gemm, sizes with transposes and
// vectors, and which epilogues a C operand leaves.
// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <string.h>

#include "tactic/problem/gemm.h"

enum { kInputs = 4 };

// A GEMM of inputs 0, 1 and maybe 2, with a ReLU behind it.
typedef struct fixture {
  carnot_arena arena;
  carnot_region region;
  carnot_plan_node nodes[2];
  uint32_t inputs[3], output, relu_output;
} fixture;

static void init(fixture* f, carnot_op op, uint32_t input_count) {
  memset(f, 0, sizeof(*f));
  carnot_arena_init(&f->arena);
  for (uint32_t i = 0; i < input_count; i++) f->inputs[i] = i;
  f->output = kInputs, f->relu_output = kInputs + 1;
  f->nodes[0] = (carnot_plan_node){.op = op,
                                   .input_count = input_count,
                                   .output_count = 1,
                                   .inputs = f->inputs,
                                   .outputs = &f->output};
  f->nodes[1] = (carnot_plan_node){.op = CARNOT_OP_UNARY,
                                   .input_count = 1,
                                   .output_count = 1,
                                   .inputs = &f->output,
                                   .outputs = &f->relu_output};
  carnot_attrs_set_int(&f->nodes[1].attrs, &f->arena, "fn", CARNOT_FN_RELU);
  f->region = (carnot_region){.nodes = f->nodes, .node_count = 2};
}

static carnot_gemm_problem read(const fixture* f) {
  carnot_gemm_problem p;
  assert_null(carnot_gemm_read(&f->region, kInputs, &p));
  return p;
}

static void reads_matmul(void** state) {
  (void)state;
  fixture f;
  init(&f, CARNOT_OP_MATMUL, 2);
  carnot_gemm_problem p = read(&f);
  assert_int_equal(p.a, 0);
  assert_int_equal(p.b, 1);
  assert_int_equal(p.c, CARNOT_PLAN_NONE);
  assert_false(p.trans_a || p.trans_b);
  assert_true(p.alpha == 1 && p.beta == 1);
  assert_false(carnot_gemm_adds_c(&p));
  // A matrix that the region itself computes, and a region of another operator.
  f.inputs[1] = kInputs + 1;
  assert_string_not_equal(carnot_gemm_read(&f.region, kInputs, &p), "");
  f.nodes[0].op = CARNOT_OP_SOFTMAX;
  assert_string_equal(carnot_gemm_read(&f.region, kInputs, &p), "");
  carnot_arena_deinit(&f.arena);
}

static void reads_gemm(void** state) {
  (void)state;
  fixture f;
  init(&f, CARNOT_OP_GEMM, 3);
  carnot_attrs_set_int(&f.nodes[0].attrs, &f.arena, "transB", 1);
  carnot_attrs_set_float(&f.nodes[0].attrs, &f.arena, "alpha", 2);
  carnot_attrs_set_float(&f.nodes[0].attrs, &f.arena, "beta", 0.5);
  carnot_gemm_problem p = read(&f);
  assert_int_equal(p.c, 2);
  assert_true(!p.trans_a && p.trans_b && p.alpha == 2 && p.beta == 0.5F);
  assert_true(carnot_gemm_adds_c(&p));
  p.beta = 0;
  assert_false(carnot_gemm_adds_c(&p));
  // An absent C.
  f.inputs[2] = CARNOT_PLAN_NONE;
  assert_int_equal(read(&f).c, CARNOT_PLAN_NONE);
  carnot_arena_deinit(&f.arena);
}

static void sizes_follow_transposes(void** state) {
  (void)state;
  const int64_t a[] = {7, 2, 3}, at[] = {7, 3, 2}, b[] = {3, 5}, bt[] = {5, 3}, v[] = {3};
  carnot_gemm_problem p = {.a = 0, .b = 1};
  carnot_gemm_sizes s;
  assert_int_equal(carnot_gemm_sizes_of(&p, 3, a, 2, b, &s), 3);
  assert_true(s.m == 2 && s.n == 5 && s.k == 3 && s.a_axes == 2 && s.y_axes == 2);
  p.trans_a = p.trans_b = true;
  assert_int_equal(carnot_gemm_sizes_of(&p, 3, at, 2, bt, &s), 3);
  assert_true(s.m == 2 && s.n == 5 && s.k == 3);
  // Vectors are not transposed and leave no axis in the result.
  assert_int_equal(carnot_gemm_sizes_of(&p, 1, v, 1, v, &s), 3);
  assert_true(s.m == 1 && s.n == 1 && s.k == 3 && s.a_axes == 1 && s.y_axes == 0);
}

static void a_matrix_c_leaves_no_epilogue(void** state) {
  (void)state;
  static const carnot_epilogue_mask kAll = {CARNOT_EPILOGUE_ONE_BIAS, true, ~0u};
  carnot_operand_facts facts[CARNOT_EPILOGUE_MAX_INPUTS] = {0};
  fixture f;
  carnot_epilogue e;
  init(&f, CARNOT_OP_GEMM, 3);
  carnot_gemm_problem p = read(&f);
  carnot_gemm_match_epilogue(&p, &f.region, facts, kInputs, &kAll, &e);
  assert_int_equal(e.rest, 1);
  assert_int_equal(carnot_epilogue_bias(&e), CARNOT_PLAN_NONE);
  // One number per column is a bias, but not when it is scaled; unread it does not matter.
  facts[2] = CARNOT_FACT_CHANNEL;
  carnot_gemm_match_epilogue(&p, &f.region, facts, kInputs, &kAll, &e);
  assert_int_equal(carnot_epilogue_bias(&e), 2);
  assert_int_equal(e.activation.kind, CARNOT_FUSED_RELU);
  p.beta = 2;
  assert_false(carnot_gemm_c_is_bias(&p, facts));
  carnot_gemm_match_epilogue(&p, &f.region, facts, kInputs, &kAll, &e);
  assert_int_equal(e.rest, 1);
  p.beta = 0;
  carnot_gemm_match_epilogue(&p, &f.region, facts, kInputs, &kAll, &e);
  assert_int_equal(e.rest, 2);
  assert_int_equal(carnot_epilogue_bias(&e), CARNOT_PLAN_NONE);
  carnot_arena_deinit(&f.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_matmul),
      cmocka_unit_test(reads_gemm),
      cmocka_unit_test(sizes_follow_transposes),
      cmocka_unit_test(a_matrix_c_leaves_no_epilogue),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
