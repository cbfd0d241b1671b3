// The reader of normalization problems: kinds, operands, and extents by row, axis and channel.
// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <string.h>

#include "tactic/problem/norm.h"

typedef struct fixture {
  carnot_arena arena;
  carnot_region region;
  carnot_plan_node node;
  uint32_t inputs[3], output;
} fixture;

static void init(fixture* f, carnot_op op, uint32_t input_count) {
  memset(f, 0, sizeof(*f));
  carnot_arena_init(&f->arena);
  for (uint32_t i = 0; i < input_count; i++) f->inputs[i] = i;
  f->output = input_count;
  f->node = (carnot_plan_node){.op = op,
                               .input_count = input_count,
                               .output_count = 1,
                               .inputs = f->inputs,
                               .outputs = &f->output};
  f->region = (carnot_region){.nodes = &f->node, .node_count = 1};
}

static carnot_norm_extents extents(const fixture* f, int rank, const int64_t* dims) {
  carnot_norm_problem p;
  carnot_norm_extents e;
  assert_true(carnot_norm_read(&f->region, &p));
  assert_null(carnot_norm_extents_of(&p, rank, dims, &e));
  return e;
}

static const int64_t kDims[] = {2, 6, 4, 5};

static void reads_layer_norm(void** state) {
  (void)state;
  fixture f;
  carnot_norm_problem p;
  init(&f, CARNOT_OP_LAYER_NORM, 3);
  carnot_attrs_set_int(&f.node.attrs, &f.arena, "axis", -2);
  carnot_attrs_set_float(&f.node.attrs, &f.arena, "epsilon", 0.5);
  f.inputs[2] = 1;  // one value as scale and bias
  assert_true(carnot_norm_read(&f.region, &p));
  assert_true(p.kind == CARNOT_NORM_LAYER && carnot_norm_is_by_row(&p));
  assert_true(p.scale == 1 && p.bias == 1 && p.epsilon == 0.5);
  assert_int_equal(carnot_norm_axis(&p, 4), 2);
  carnot_norm_extents e = extents(&f, 4, kDims);
  assert_true(e.outer == 12 && e.size == 20 && e.inner == 1);
  f.inputs[1] = CARNOT_PLAN_NONE;
  assert_true(carnot_norm_read(&f.region, &p));
  assert_int_equal(p.scale, CARNOT_PLAN_NONE);
  f.node.op = CARNOT_OP_MATMUL;
  assert_false(carnot_norm_read(&f.region, &p));
  carnot_arena_deinit(&f.arena);
}

static void reads_softmax(void** state) {
  (void)state;
  fixture f;
  carnot_norm_problem p;
  init(&f, CARNOT_OP_LOG_SOFTMAX, 1);
  carnot_attrs_set_int(&f.node.attrs, &f.arena, "axis", 1);
  assert_true(carnot_norm_read(&f.region, &p));
  assert_true(p.kind == CARNOT_NORM_LOG_SOFTMAX && p.scale == CARNOT_PLAN_NONE);
  carnot_norm_extents e = extents(&f, 4, kDims);
  assert_true(e.outer == 2 && e.size == 6 && e.inner == 20);
  e = extents(&f, 0, NULL);
  assert_true(e.outer == 1 && e.size == 1 && e.inner == 1);
  carnot_status* status = carnot_norm_extents_of(&p, 1, kDims, &e);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_MODEL);
  carnot_status_free(status);
  carnot_arena_deinit(&f.arena);
}

static void reads_group_and_instance_norm(void** state) {
  (void)state;
  fixture f;
  carnot_norm_problem p;
  init(&f, CARNOT_OP_GROUP_NORM, 3);
  carnot_attrs_set_int(&f.node.attrs, &f.arena, "num_groups", 3);
  carnot_norm_extents e = extents(&f, 4, kDims);
  assert_true(e.outer == 6 && e.size == 40 && e.inner == 1);
  assert_true(e.channels == 6 && e.groups == 3 && e.spatial == 20);
  carnot_attrs_set_int(&f.node.attrs, &f.arena, "num_groups", 4);
  assert_true(carnot_norm_read(&f.region, &p));
  carnot_status* status = carnot_norm_extents_of(&p, 4, kDims, &e);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_MODEL);
  carnot_status_free(status);
  f.node.op = CARNOT_OP_INSTANCE_NORM;
  e = extents(&f, 4, kDims);
  assert_true(e.groups == 6 && e.size == 20);
  assert_true(carnot_norm_read(&f.region, &p));
  assert_int_equal(carnot_norm_groups(&p, 6), 6);
  carnot_arena_deinit(&f.arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_layer_norm),
      cmocka_unit_test(reads_softmax),
      cmocka_unit_test(reads_group_and_instance_norm),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
