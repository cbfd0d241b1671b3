// For unit tests of plans: a small valid plan that uses every kind of object.
#ifndef CARNOT_PLAN_PLAN_TEST_H_
#define CARNOT_PLAN_PLAN_TEST_H_

// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan.h"

// Indices of the plan's values.
enum { PLAN_X, PLAN_Y, PLAN_W, PLAN_T, PLAN_VIEW, PLAN_PART, PLAN_HEAP, PLAN_DYNAMIC, PLAN_VALUES };

static inline uint32_t* plan_test_list(carnot_plan* plan, uint32_t a, uint32_t b) {
  const uint32_t items[] = {a, b};
  return carnot_arena_copy(&plan->arena, items, sizeof(items));
}

// A step that computes |op| of |input_count| inputs (|fn| is its function; COUNT: it has none).
static inline carnot_plan_step plan_test_step(carnot_plan* plan, const char* name,
                                              const char* tactic, carnot_op op, carnot_fn fn,
                                              uint32_t input_count, uint32_t a, uint32_t b,
                                              uint32_t output) {
  carnot_plan_node* node = CARNOT_NEW(&plan->arena, carnot_plan_node);
  *node = (carnot_plan_node){.op = op,
                             .name = name,
                             .input_count = input_count,
                             .output_count = 1,
                             .inputs = plan_test_list(plan, 0, 1),
                             .outputs = plan_test_list(plan, input_count, 0)};
  if (fn < CARNOT_FN_COUNT) carnot_attrs_set_int(&node->attrs, &plan->arena, "fn", fn);
  return (carnot_plan_step){.name = name,
                            .region = {.node_count = 1,
                                       .value_count = input_count + 1,
                                       .nodes = node,
                                       .output_count = 1,
                                       .outputs = plan_test_list(plan, input_count, 0)},
                            .input_count = input_count,
                            .output_count = 1,
                            .inputs = plan_test_list(plan, a, b),
                            .outputs = plan_test_list(plan, output, 0),
                            .variant_count = 1,
                            .variants = {{.tactic = tactic}}};
}

static inline void plan_test_add_values(carnot_plan* plan) {
  static const uint64_t kOffsets[] = {64, 128};
  const carnot_format f32 = {.dtype = CARNOT_DTYPE_F32};
  const carnot_plan_value values[PLAN_VALUES] = {
      [PLAN_X] = {.name = "x", .storage = CARNOT_STORAGE_BINDING, .index = 0, .last_step = 1},
      [PLAN_Y] = {.name = "y", .storage = CARNOT_STORAGE_BINDING, .index = 1, .last_step = 2},
      [PLAN_W] = {.name = "w", .storage = CARNOT_STORAGE_CONSTANT, .index = 0},
      [PLAN_T] = {.name = "t",
                  .storage = CARNOT_STORAGE_ARENA,
                  .max_bytes = 60,
                  .offsets = kOffsets,
                  .first_step = 0,
                  .last_step = 2},
      [PLAN_VIEW] = {.name = "view", .storage = CARNOT_STORAGE_ALIAS, .index = PLAN_T},
      [PLAN_PART] = {.name = "part",
                     .storage = CARNOT_STORAGE_SUBVIEW,
                     .index = PLAN_HEAP,
                     .axis = 1,
                     .before = plan_test_list(plan, PLAN_T, 0),
                     .before_count = 1},
      [PLAN_HEAP] = {.name = "heap", .storage = CARNOT_STORAGE_HEAP},
      [PLAN_DYNAMIC] = {.name = "dynamic", .storage = CARNOT_STORAGE_DYNAMIC_ARENA}};
  plan->value_count = PLAN_VALUES;
  plan->values = carnot_arena_copy(&plan->arena, values, sizeof(values));
  for (uint32_t i = 0; i < PLAN_VALUES; i++) {
    plan->values[i].kind = CARNOT_VALUE_TENSOR;
    plan->values[i].format = f32;
  }
  plan->dynamic_count = 1;
  plan->arena_bytes = 256;
  plan->arena_bound = 60;
  plan->workspace_bytes = 512;
}

static inline void plan_test_add_bindings(carnot_plan* plan) {
  static const carnot_dim_range kRanges[] = {{1, 2, 3}, {5, 5, 5}, {2, 4, 8}, {5, 5, 5}};
  const carnot_plan_binding bindings[] = {{.name = "x",
                                           .is_input = true,
                                           .value = PLAN_X,
                                           .dtype = CARNOT_DTYPE_F32,
                                           .rank = 2,
                                           .dims = {-1, 5},
                                           .dim_names = {"batch", ""},
                                           .ranges = kRanges},
                                          {.name = "y",
                                           .value = PLAN_Y,
                                           .dtype = CARNOT_DTYPE_F32,
                                           .rank = 2,
                                           .dims = {-1, 5},
                                           .dim_names = {"batch", ""}}};
  plan->binding_count = 2;
  plan->bindings = carnot_arena_copy(&plan->arena, bindings, sizeof(bindings));
}

// x [batch,5] -> relu -> t; t viewed -> view; view + w -> y. Two profiles; a weight that refit
// makes from a second one. Values part, heap and dynamic are in no step.
static inline carnot_plan* plan_test_make(void) {
  carnot_plan* plan;
  assert_null(carnot_plan_create(&plan));
  plan->name = "plan";
  plan->device = "cpu";
  plan->isa = 1;
  plan->profile_count = 2;
  plan->refittable = true;
  plan_test_add_values(plan);
  plan_test_add_bindings(plan);
  const carnot_plan_blob blobs[] = {{.name = "w",
                                     .packing = "",
                                     .tensor = {.dtype = CARNOT_DTYPE_F32, .rank = 1, .dims = {5}},
                                     .bytes = 20,
                                     .hash = 77,
                                     .refit_expr = CARNOT_PLAN_NONE},
                                    {.name = "",
                                     .packing = "k1n16 f32",
                                     .tensor = {.dtype = CARNOT_DTYPE_U8, .rank = 1, .dims = {320}},
                                     .offset = 64,
                                     .bytes = 320,
                                     .hash = 78,
                                     .refit_expr = 0,
                                     .dropped = true}};
  plan->blob_count = 2;
  plan->blobs = carnot_arena_copy(&plan->arena, blobs, sizeof(blobs));
  const carnot_plan_step steps[] = {
      plan_test_step(plan, "relu", "cpu_pointwise_f32_scalar", CARNOT_OP_UNARY, CARNOT_FN_RELU, 1,
                     PLAN_X, 0, PLAN_T),
      plan_test_step(plan, "view", "view", CARNOT_OP_IDENTITY, CARNOT_FN_COUNT, 1, PLAN_T, 0,
                     PLAN_VIEW),
      plan_test_step(plan, "add", "reference", CARNOT_OP_BINARY, CARNOT_FN_ADD, 2, PLAN_VIEW,
                     PLAN_W, PLAN_Y)};
  plan->step_count = 3;
  plan->steps = carnot_arena_copy(&plan->arena, steps, sizeof(steps));
  const carnot_plan_block block = {.param_count = 1,
                                   .output_count = 1,
                                   .params = plan_test_list(plan, PLAN_X, 0),
                                   .outputs = plan_test_list(plan, PLAN_Y, 0),
                                   .step_count = 3};
  plan->block_count = 1;
  plan->blocks = carnot_arena_copy(&plan->arena, &block, sizeof(block));
  const carnot_plan_step negate =
      plan_test_step(plan, "neg", "", CARNOT_OP_UNARY, CARNOT_FN_NEG, 1, 0, 0, 0);
  const carnot_refit_expr expr = {
      .region = negate.region, .input_count = 1, .inputs = plan_test_list(plan, 0, 0)};
  plan->refit_expr_count = 1;
  plan->refit_exprs = carnot_arena_copy(&plan->arena, &expr, sizeof(expr));
  return plan;
}

#endif  // CARNOT_PLAN_PLAN_TEST_H_
