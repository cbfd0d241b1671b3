// Verification of plans: the valid plan passes, and each rule has a plan that breaks it.
#include "plan/plan_test.h"

typedef struct breakage {
  const char* message;  // a part of the refusal
  void (*apply)(carnot_plan* plan);
} breakage;

static void set_node_attr(carnot_plan* p, const char* name, int64_t value) {
  carnot_attrs_set_int(&p->steps[0].region.nodes[0].attrs, &p->arena, name, value);
}

// ---- values ----

static void break_kind(carnot_plan* p) { p->values[PLAN_T].kind = (carnot_value_kind)9; }
static void break_dtype(carnot_plan* p) { p->values[PLAN_T].format.dtype = CARNOT_DTYPE_COUNT; }
static void break_layout(carnot_plan* p) { p->values[PLAN_T].format.layout = CARNOT_LAYOUT_COUNT; }
static void break_memory(carnot_plan* p) {
  p->values[PLAN_T].format.memory = CARNOT_MEMORY_SPACE_COUNT;
}
static void break_device(carnot_plan* p) { p->values[PLAN_T].format.memory = CARNOT_MEMORY_DEVICE; }
static void quantize(carnot_plan* p, uint32_t scales, uint32_t zero_points) {
  p->values[PLAN_T].format.dtype = CARNOT_DTYPE_I8;
  p->values[PLAN_T].format.quant = (carnot_quantization){
      .scheme = CARNOT_QUANT_PER_AXIS, .axis = 0, .scales = scales, .zero_points = zero_points};
}
static void break_scales(carnot_plan* p) { quantize(p, PLAN_VALUES, CARNOT_PLAN_NONE); }
static void break_no_scales(carnot_plan* p) { quantize(p, CARNOT_PLAN_NONE, CARNOT_PLAN_NONE); }
static void break_zero_points(carnot_plan* p) { quantize(p, PLAN_W, PLAN_VALUES); }
static void break_constant(carnot_plan* p) { p->values[PLAN_W].index = 2; }
static void break_packed(carnot_plan* p) { p->values[PLAN_W].index = 1; }
static void break_binding_index(carnot_plan* p) { p->values[PLAN_Y].index = 2; }
static void break_arena_end(carnot_plan* p) { p->values[PLAN_T].max_bytes = 129; }
static void break_arena_size(carnot_plan* p) { p->values[PLAN_T].max_bytes = UINT64_MAX; }
static void break_alignment(carnot_plan* p) {
  static const uint64_t kOffsets[] = {64, 72};
  p->values[PLAN_T].offsets = kOffsets;
}
static void break_axis(carnot_plan* p) { p->values[PLAN_PART].axis = CARNOT_MAX_RANK; }
static void break_part(carnot_plan* p) {
  p->values[PLAN_PART].before = plan_test_list(p, PLAN_VALUES, 0);
}
static void break_alias(carnot_plan* p) { p->values[PLAN_VIEW].index = PLAN_VALUES; }
static void break_alias_memory(carnot_plan* p) {
  p->device = "cuda:sm_90";
  p->values[PLAN_VIEW].format.memory = CARNOT_MEMORY_DEVICE;
}
static void break_storage(carnot_plan* p) { p->values[PLAN_HEAP].storage = CARNOT_STORAGE_COUNT; }
static void break_circle(carnot_plan* p) {
  p->values[PLAN_PART].index = PLAN_VIEW;
  p->values[PLAN_VIEW].index = PLAN_PART;
}
static void break_dynamic_count(carnot_plan* p) { p->dynamic_count = 0; }
static void break_arena_multiple(carnot_plan* p) { p->arena_bytes += 2; }
static void break_arena_total(carnot_plan* p) { p->arena_bytes = UINT64_C(1) << 48; }

// ---- bindings ----

static void break_binding_value(carnot_plan* p) { p->bindings[1].value = PLAN_VALUES; }
static void break_binding_storage(carnot_plan* p) {
  p->bindings[1].dtype = CARNOT_DTYPE_F32;
  p->values[p->bindings[1].value].format.dtype = CARNOT_DTYPE_BF16;
}
static void break_binding_type(carnot_plan* p) { p->bindings[1].dtype = CARNOT_DTYPE_COUNT; }
static void break_binding_format(carnot_plan* p) { p->bindings[1].format = CARNOT_TENSOR_HWC; }
static void break_binding_dim(carnot_plan* p) { p->bindings[1].dims[1] = -2; }
static void break_input_storage(carnot_plan* p) { p->bindings[0].value = PLAN_T; }
static void break_holders(carnot_plan* p) {
  p->values[PLAN_HEAP].storage = CARNOT_STORAGE_BINDING;
  p->values[PLAN_HEAP].index = 1;
}

// ---- steps ----

static void break_step_input(carnot_plan* p) {
  p->steps[0].inputs = plan_test_list(p, PLAN_VALUES, 0);
}
static void break_step_output(carnot_plan* p) {
  p->steps[0].outputs = plan_test_list(p, PLAN_VALUES, 0);
}
static void break_no_node(carnot_plan* p) { p->steps[0].region.node_count = 0; }
static void break_node_inputs(carnot_plan* p) { p->steps[0].region.nodes[0].input_count = 0; }
static void break_node_outputs(carnot_plan* p) { p->steps[0].region.nodes[0].output_count = 0; }
static void break_operand(carnot_plan* p) {
  p->steps[0].region.nodes[0].inputs = plan_test_list(p, 1, 0);
}
static void break_definition(carnot_plan* p) {
  p->steps[0].region.nodes[0].outputs = plan_test_list(p, 0, 0);
}
static void break_attr(carnot_plan* p) { set_node_attr(p, "no_attribute_of_it", 1); }
static void break_value_count(carnot_plan* p) { p->steps[0].region.value_count = 3; }
static void break_region_output(carnot_plan* p) {
  p->steps[0].region.outputs = plan_test_list(p, 2, 0);
}
static void break_output_count(carnot_plan* p) { p->steps[0].output_count = 0; }
static void break_constant_target(carnot_plan* p) {
  p->steps[0].outputs = plan_test_list(p, PLAN_W, 0);
}
static void break_input_target(carnot_plan* p) {
  p->steps[0].outputs = plan_test_list(p, PLAN_X, 0);
}
// Only a view may have an alias of what it must not write as its output.
static void break_alias_target(carnot_plan* p) {
  p->values[PLAN_VIEW].index = PLAN_W;
  p->steps[1].variants[0].tactic = "reference";
}
static void break_types(carnot_plan* p) { p->steps[0].type_count = 1; }
static void break_constants(carnot_plan* p) { p->steps[0].variants[0].constant_count = 5; }
static void break_constant_blob(carnot_plan* p) {
  p->steps[0].variants[0].constant_count = 1;
  p->steps[0].variants[0].constants = plan_test_list(p, 2, 0);
}
static void break_last_guard(carnot_plan* p) {
  p->steps[0].variants[0].guard_count = 1;
  p->steps[0].variants[0].guards[0] = (carnot_guard){.multiple = 1};
}
static void add_guard(carnot_plan* p, carnot_guard guard) {
  p->steps[0].variants[1] = p->steps[0].variants[0];
  p->steps[0].variant_count = 2;
  p->steps[0].variants[0].guard_count = 1;
  p->steps[0].variants[0].guards[0] = guard;
}
static void break_guard_operand(carnot_plan* p) {
  add_guard(p, (carnot_guard){.operand = 2, .multiple = 1});
}
static void break_guard_dim(carnot_plan* p) {
  add_guard(p, (carnot_guard){.dim = CARNOT_MAX_RANK, .multiple = 1});
}
static void break_guard_multiple(carnot_plan* p) { add_guard(p, (carnot_guard){.multiple = 0}); }

// ---- order ----

static void break_no_block(carnot_plan* p) { p->block_count = 0; }
static void break_param(carnot_plan* p) { p->blocks[0].params = plan_test_list(p, PLAN_VALUES, 0); }
static void break_result(carnot_plan* p) {
  p->blocks[0].outputs = plan_test_list(p, PLAN_VALUES, 0);
}
static void break_first_step(carnot_plan* p) { p->blocks[0].first_step = 1; }
static void break_step_count(carnot_plan* p) { p->blocks[0].step_count = 4; }
static void break_param_twice(carnot_plan* p) {
  p->blocks[0].param_count = 2;
  p->blocks[0].params = plan_test_list(p, PLAN_X, PLAN_X);
}
static void break_order(carnot_plan* p) {
  carnot_plan_step first = p->steps[0];
  p->steps[0] = p->steps[2];
  p->steps[2] = first;
}
static void break_second_time(carnot_plan* p) {
  p->steps[2].outputs = plan_test_list(p, PLAN_T, 0);
}
static void break_alias_order(carnot_plan* p) { p->values[PLAN_VIEW].index = PLAN_HEAP; }
static void break_missing_result(carnot_plan* p) {
  p->blocks[0].outputs = plan_test_list(p, PLAN_HEAP, 0);
}
static void break_left_steps(carnot_plan* p) {
  p->blocks[0].step_count = 2;
  p->blocks[0].outputs = plan_test_list(p, PLAN_T, 0);
}

// ---- refit ----

static void break_refit_input(carnot_plan* p) {
  p->refit_exprs[0].inputs = plan_test_list(p, 2, 0);
}
static void break_refit_of_blob(carnot_plan* p) { p->blobs[1].refit_expr = 1; }
static void break_refit_region(carnot_plan* p) { p->refit_exprs[0].region.value_count = 1; }

static const breakage kBreakages[] = {
    {"has kind 9", break_kind},
    {"has type", break_dtype},
    {"has its scales in value", break_scales},
    {"has its scales in value", break_no_scales},
    {"zero points in value", break_zero_points},
    {"has layout", break_layout},
    {"has memory space", break_memory},
    {"the engine is for cpu", break_device},
    {"names weight 2 of 2", break_constant},
    {"names packed weight 1", break_packed},
    {"names tensor 2 of 2", break_binding_index},
    {"of an arena of 256 bytes", break_arena_end},
    {"of an arena of 256 bytes", break_arena_size},
    {"of an arena of 256 bytes", break_alignment},
    {"along axis", break_axis},
    {"part 0 names", break_part},
    {"refers to value", break_alias},
    {"another memory", break_alias_memory},
    {"has storage", break_storage},
    {"in a cycle", break_circle},
    {"placed at run time", break_dynamic_count},
    {"an arena of", break_arena_total},
    {"must be multiples of 64", break_arena_multiple},
    {"tensor y names value", break_binding_value},
    {"tensor y has type", break_binding_type},
    {"tensor y of float32 is stored as bfloat16", break_binding_storage},
    {"tensor y of rank 2 and type float32 cannot have format 8", break_binding_format},
    {"tensor y has dimension -2", break_binding_dim},
    {"is not its value's storage", break_input_storage},
    {"lie in the memory of tensor y", break_holders},
    {"input 0 names", break_step_input},
    {"output 0 names", break_step_output},
    {"without operators", break_no_node},
    {"has 0 inputs", break_node_inputs},
    {"has 0 outputs", break_node_outputs},
    {"operand 0 names 1", break_operand},
    {"gives value 0, must be 1", break_definition},
    {"no_attribute_of_it", break_attr},
    {"has 3 values, 2 are defined", break_value_count},
    {"result 0 names 2", break_region_output},
    {"0 outputs, its operators give 1", break_output_count},
    {"writes the constant w", break_constant_target},
    {"writes the input x", break_input_target},
    {"writes the constant view", break_alias_target},
    {"1 operand types", break_types},
    {"5 packed constants", break_constants},
    {"packed constant 0 names 2", break_constant_blob},
    {"the last variant has guards", break_last_guard},
    {"names operand 2", break_guard_operand},
    {"guard 0 of variant 0", break_guard_dim},
    {"guard 0 of variant 0", break_guard_multiple},
    {"without blocks", break_no_block},
    {"parameter 0 names", break_param},
    {"result 0 names", break_result},
    {"holds steps [1", break_first_step},
    {"holds steps [0, +4) of 3", break_step_count},
    {"is defined twice", break_param_twice},
    {"before it is made", break_order},
    {"a second time", break_second_time},
    {"that is not made yet", break_alias_order},
    {"is never made", break_missing_result},
    {"1 of 3 steps are in no block", break_left_steps},
    {"refit_expr input 0 names 2", break_refit_input},
    {"names refit_expr 1 of 1", break_refit_of_blob},
    {"a step has 1 values", break_refit_region}};

static void test_valid_plan(void** state) {
  (void)state;
  carnot_plan* plan = plan_test_make();
  assert_null(carnot_plan_verify(plan));
  carnot_plan_destroy(plan);
}

static void test_every_rule(void** state) {
  (void)state;
  for (size_t i = 0; i < sizeof(kBreakages) / sizeof(kBreakages[0]); i++) {
    const char* wanted = kBreakages[i].message;
    carnot_plan* plan = plan_test_make();
    kBreakages[i].apply(plan);
    carnot_status* status = carnot_plan_verify(plan);
    const char* found = status ? carnot_status_message(status) : "the plan passes";
    if (!strstr(found, wanted)) fail_msg("'%s' is required, found: %s", wanted, found);
    assert_int_equal(carnot_status_code(status), CARNOT_INVALID_MODEL);
    carnot_status_free(status);
    carnot_plan_destroy(plan);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_valid_plan),
                                     cmocka_unit_test(test_every_rule)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
