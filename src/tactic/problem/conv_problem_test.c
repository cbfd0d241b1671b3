// The readers of convolution and pooling problems: operands by operator, sizes and window, a cast
// in front, and what they reject. cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <string.h>

#include "tactic/problem/conv.h"
#include "tactic/problem/pool.h"

enum { kInputs = 9, kNodes = 3 };

// A region of up to three nodes over |kInputs| inputs of float32; node n makes local kInputs + n.
typedef struct fixture {
  carnot_arena arena;
  carnot_region region;
  carnot_plan_node nodes[kNodes];
  uint32_t node_inputs[kNodes][kInputs], node_outputs[kNodes][2];
  carnot_operand_desc inputs[kInputs], output;
  carnot_problem problem;
  char reason[256];
} fixture;

static carnot_operand_desc desc(int rank, const int64_t* dims, bool is_constant) {
  carnot_operand_desc t = {.kind = CARNOT_VALUE_TENSOR,
                           .format.dtype = CARNOT_DTYPE_F32,
                           .rank = rank,
                           .is_constant = is_constant};
  for (int d = 0; d < rank; d++) t.dims[d] = t.min[d] = t.max[d] = dims[d];
  return t;
}

static void init(fixture* f) {
  memset(f, 0, sizeof(*f));
  carnot_arena_init(&f->arena);
  f->region.nodes = f->nodes;
  f->problem = (carnot_problem){.region = &f->region,
                                .input_count = kInputs,
                                .output_count = 1,
                                .inputs = f->inputs,
                                .outputs = &f->output};
}

static carnot_plan_node* add_node(fixture* f, carnot_op op, uint32_t input_count,
                                  const uint32_t* inputs) {
  uint32_t n = f->region.node_count++;
  memcpy(f->node_inputs[n], inputs, input_count * sizeof(*inputs));
  f->node_outputs[n][0] = kInputs + n, f->node_outputs[n][1] = CARNOT_PLAN_NONE;
  f->nodes[n] = (carnot_plan_node){.op = op,
                                   .input_count = input_count,
                                   .output_count = 1,
                                   .inputs = f->node_inputs[n],
                                   .outputs = f->node_outputs[n]};
  return &f->nodes[n];
}

// x [2,8,9,9], weights [6,4,3,3] of two groups.
static void add_conv(fixture* f, uint32_t x) {
  const int64_t x_dims[] = {2, 8, 9, 9}, w_dims[] = {6, 4, 3, 3}, y_dims[] = {2, 6, 7, 7},
                bias_dims[] = {6};
  f->inputs[0] = desc(4, x_dims, /*is_constant=*/false);
  f->inputs[1] = desc(4, w_dims, /*is_constant=*/true);
  f->inputs[2] = desc(1, bias_dims, /*is_constant=*/true);
  f->output = desc(4, y_dims, /*is_constant=*/false);
  carnot_plan_node* node = add_node(f, CARNOT_OP_CONV, 3, (uint32_t[]){x, 1, 2});
  carnot_attrs_set_int(&node->attrs, &f->arena, "group", 2);
}

static const char* read_conv(fixture* f, carnot_conv_problem* out) {
  return carnot_conv_problem_read(&f->problem, out, f->reason, sizeof(f->reason));
}

static void reads_conv(void** state) {
  (void)state;
  fixture f;
  carnot_conv_problem c;
  init(&f);
  add_conv(&f, 0);
  assert_null(read_conv(&f, &c));
  assert_ptr_equal(c.node, &f.nodes[0]);
  assert_false(c.casts);
  assert_int_equal(c.weights, 1);
  assert_int_equal(c.bias, 2);
  assert_int_equal(c.group, 2);
  assert_int_equal(c.channels, 8);
  assert_int_equal(c.filters, 6);
  assert_int_equal(c.window.rank, 2);
  assert_int_equal(c.window.kernel[1], 3);
  carnot_arena_deinit(&f.arena);
}

static void matches_epilogue(void** state) {
  (void)state;
  fixture f;
  carnot_conv_problem c;
  init(&f);
  add_conv(&f, 0);
  f.inputs[3] = f.output;
  carnot_plan_node* node = add_node(&f, CARNOT_OP_BINARY, 2, (uint32_t[]){kInputs, 3});
  carnot_attrs_set_int(&node->attrs, &f.arena, "fn", CARNOT_FN_ADD);
  node = add_node(&f, CARNOT_OP_UNARY, 1, (uint32_t[]){kInputs + 1});
  carnot_attrs_set_int(&node->attrs, &f.arena, "fn", CARNOT_FN_RELU);
  assert_null(read_conv(&f, &c));
  const carnot_epilogue_mask mask = {CARNOT_EPILOGUE_ONE_BIAS, true, CARNOT_FUSED_BIT(RELU)};
  assert_null(carnot_conv_problem_match(&f.problem, &mask, &c));
  assert_int_equal(carnot_epilogue_bias(&c.epilogue), 2);
  assert_int_equal(c.epilogue.residual, 3);
  assert_int_equal(c.epilogue.activation.kind, CARNOT_FUSED_RELU);
  assert_int_equal(c.epilogue.rest, 3);
  // The operands of a step give the same.
  carnot_operand operands[kInputs] = {{0}}, y = {.format = f.output.format, .rank = 4};
  memcpy(y.dims, f.output.dims, sizeof(y.dims));
  operands[3] = y;
  const carnot_step_view step = {.region = &f.region, .input_count = kInputs};
  carnot_conv_problem again;
  assert_null(carnot_conv_problem_of_region(step.region, step.input_count, &again));
  assert_null(carnot_conv_problem_match_operands(&step, operands, &y, &mask, &again));
  assert_int_equal(again.epilogue.residual, 3);
  assert_int_equal(again.epilogue.rest, 3);
  carnot_arena_deinit(&f.arena);
}

static void reads_leading_cast(void** state) {
  (void)state;
  fixture f;
  carnot_conv_problem c;
  init(&f);
  add_node(&f, CARNOT_OP_CAST, 1, (uint32_t[]){0});
  add_conv(&f, kInputs);
  assert_null(read_conv(&f, &c));
  assert_true(c.casts);
  assert_int_equal(c.anchor, 1);
  assert_ptr_equal(c.node, &f.nodes[1]);
  // The convolution reads something else than the cast.
  f.node_inputs[1][0] = 4;
  assert_non_null(read_conv(&f, &c));
  carnot_arena_deinit(&f.arena);
}

static void reads_other_operators(void** state) {
  (void)state;
  fixture f;
  carnot_conv_problem c;
  init(&f);
  add_conv(&f, 0);
  f.nodes[0].op = CARNOT_OP_CONV_TRANSPOSE;  // weights [C,K/group,..]
  f.inputs[0].dims[1] = 6;
  assert_null(read_conv(&f, &c));
  assert_int_equal(c.channels, 6);
  assert_int_equal(c.filters, 8);
  f.region.node_count = 0;
  add_node(&f, CARNOT_OP_QLINEAR_CONV, 9, (uint32_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8});
  const int64_t w_dims[] = {5, 6, 1, 1};
  f.inputs[3] = desc(4, w_dims, /*is_constant=*/true);
  assert_null(read_conv(&f, &c));
  assert_int_equal(c.weights, 3);
  assert_int_equal(c.bias, 8);
  assert_int_equal(c.filters, 5);
  f.nodes[0].op = CARNOT_OP_MATMUL;
  assert_string_equal(read_conv(&f, &c), "");
  carnot_arena_deinit(&f.arena);
}

static void rejects_what_does_not_fit(void** state) {
  (void)state;
  fixture f;
  carnot_conv_problem c;
  init(&f);
  add_conv(&f, 0);
  f.inputs[0].dims[1] = 7;
  assert_non_null(strstr(read_conv(&f, &c), "7 channels"));
  f.inputs[0].dims[1] = 8, f.inputs[0].rank = 3;
  assert_non_null(strstr(read_conv(&f, &c), "rank 3"));
  f.inputs[0].rank = 4, f.node_inputs[0][1] = kInputs + 1;
  assert_non_null(read_conv(&f, &c));
  // Weights without fixed sizes have no window.
  f.node_inputs[0][1] = 1, f.inputs[1].max[2] = 5;
  assert_null(read_conv(&f, &c));
  assert_int_equal(c.window.rank, 0);
  assert_int_equal(c.filters, -1);
  carnot_arena_deinit(&f.arena);
}

static void reads_pool(void** state) {
  (void)state;
  fixture f;
  carnot_pool_problem p;
  init(&f);
  const int64_t dims[] = {1, 3, 8, 8}, kernel[] = {2, 3};
  f.inputs[0] = desc(4, dims, /*is_constant=*/false);
  carnot_plan_node* node = add_node(&f, CARNOT_OP_AVERAGE_POOL, 1, (uint32_t[]){0});
  carnot_attrs_set_ints(&node->attrs, &f.arena, "kernel_shape", kernel, 2);
  carnot_attrs_set_int(&node->attrs, &f.arena, "count_include_pad", 1);
  carnot_attrs_set_int(&node->attrs, &f.arena, "ceil_mode", 1);
  assert_null(carnot_pool_problem_read(&f.problem, &p, f.reason, sizeof(f.reason)));
  assert_int_equal(p.op, CARNOT_OP_AVERAGE_POOL);
  assert_true(p.include_padding && p.window.ceil_mode && p.values && !p.indices);
  assert_int_equal(p.window.kernel[1], 3);
  assert_int_equal(p.power, 0);
  node->op = CARNOT_OP_LP_POOL;
  assert_null(carnot_pool_problem_read(&f.problem, &p, f.reason, sizeof(f.reason)));
  assert_int_equal(p.power, 2);
  carnot_attrs_set_int(&node->attrs, &f.arena, "p", 0);
  assert_non_null(carnot_pool_problem_read(&f.problem, &p, f.reason, sizeof(f.reason)));
  node->op = CARNOT_OP_MAX_POOL, f.node_outputs[0][0] = CARNOT_PLAN_NONE;
  node->output_count = 2, f.node_outputs[0][1] = kInputs;
  assert_null(carnot_pool_problem_read(&f.problem, &p, f.reason, sizeof(f.reason)));
  assert_true(!p.values && p.indices);
  f.inputs[0].rank = 2;
  assert_non_null(
      strstr(carnot_pool_problem_read(&f.problem, &p, f.reason, sizeof(f.reason)), "rank 2"));
  node->op = CARNOT_OP_CONV;
  assert_string_equal(carnot_pool_problem_read(&f.problem, &p, f.reason, sizeof(f.reason)), "");
  carnot_arena_deinit(&f.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(reads_conv),
                                     cmocka_unit_test(matches_epilogue),
                                     cmocka_unit_test(reads_leading_cast),
                                     cmocka_unit_test(reads_other_operators),
                                     cmocka_unit_test(rejects_what_does_not_fit),
                                     cmocka_unit_test(reads_pool)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
