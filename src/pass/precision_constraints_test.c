// Requests of types by layer name, and the types of a network's inputs and results.
#include "pass/precision_constraints.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>

#include "ir/graph_text_test.h"

typedef struct fixture {
  carnot_graph* graph;
  carnot_precision_constraints constraints;
  int warnings;
} fixture;

static void count_warning(void* user, int severity, const char* message) {
  assert_int_equal(severity, 1);
  assert_non_null(message);
  ((fixture*)user)->warnings++;
}

static int set_up(void** state) {
  graph_text reader;
  fixture* f = test_calloc(1, sizeof(*f));
  f->graph = graph_text_read(&reader,
                             "input %0 \"x\" : float32[2,4]\n"
                             "%1 = matmul(%0, %2:const float32[4,4])\n"
                             "%3 = relu(%1)\n"
                             "%4 = shape(%3)\n"
                             "output %3 %4\n");
  if (!f->graph) fail_msg("%s", reader.error);
  f->graph->main->first->name = "product";
  f->constraints =
      (carnot_precision_constraints){.f16 = true, .constraints = CARNOT_CONSTRAINTS_PREFER};
  *state = f;
  return 0;
}

static int tear_down(void** state) {
  fixture* f = *state;
  carnot_graph_destroy(f->graph);
  test_free(f);
  return 0;
}

static carnot_code apply(fixture* f) {
  carnot_status* status =
      carnot_precision_constraints_apply(f->graph, &f->constraints, count_warning, f);
  carnot_code code = carnot_status_code(status);
  carnot_status_free(status);
  return code;
}

static carnot_precision_request request(const char* pattern, carnot_dtype dtype) {
  return (carnot_precision_request){.pattern = pattern, .types = {dtype}, .type_count = 1};
}

static void a_request_reaches_its_layer(void** state) {
  fixture* f = *state;
  const carnot_precision_request layers[] = {request("product", CARNOT_DTYPE_F16)};
  f->constraints.layers = layers, f->constraints.layer_count = 1;
  assert_int_equal(apply(f), CARNOT_OK);
  assert_int_equal(f->graph->main->first->precision, CARNOT_DTYPE_F16);
  assert_int_equal(f->graph->main->first->next->precision, CARNOT_DTYPE_INVALID);
  assert_int_equal(f->warnings, 0);
}

static void a_pattern_leaves_integers_alone(void** state) {
  fixture* f = *state;
  const carnot_precision_request layers[] = {request("*", CARNOT_DTYPE_F16)};
  f->constraints.layers = layers, f->constraints.layer_count = 1;
  assert_int_equal(apply(f), CARNOT_OK);
  assert_int_equal(f->graph->main->first->next->precision, CARNOT_DTYPE_F16);
  assert_int_equal(f->graph->main->last->op, CARNOT_OP_SHAPE);
  assert_int_equal(f->graph->main->last->precision, CARNOT_DTYPE_INVALID);
}

static void what_is_not_allowed_is_left_out_or_refused(void** state) {
  fixture* f = *state;
  const carnot_precision_request layers[] = {request("product", CARNOT_DTYPE_BF16),
                                             request("missing", CARNOT_DTYPE_F16)};
  f->constraints.layers = layers, f->constraints.layer_count = 2;
  assert_int_equal(apply(f), CARNOT_OK);
  assert_int_equal(f->graph->main->first->precision, CARNOT_DTYPE_INVALID);
  assert_int_equal(f->warnings, 2);
  f->constraints.constraints = CARNOT_CONSTRAINTS_OBEY;
  assert_int_equal(apply(f), CARNOT_INVALID_ARGUMENT);
}

static void strong_typing_contradicts_requests(void** state) {
  fixture* f = *state;
  f->constraints.strong = true;
  assert_int_equal(apply(f), CARNOT_INVALID_ARGUMENT);
}

static void inputs_and_results_are_cast(void** state) {
  fixture* f = *state;
  const carnot_dtype in[] = {CARNOT_DTYPE_F16}, out[] = {CARNOT_DTYPE_BF16, CARNOT_DTYPE_INVALID};
  f->constraints.input_types = in, f->constraints.input_type_count = 1;
  f->constraints.result_types = out, f->constraints.result_type_count = 2;
  assert_int_equal(apply(f), CARNOT_OK);
  const carnot_block* main = f->graph->main;
  assert_int_equal(main->params[0]->type.dtype, CARNOT_DTYPE_F16);
  assert_int_equal(main->first->op, CARNOT_OP_CAST);
  assert_int_equal(main->outputs[0]->type.dtype, CARNOT_DTYPE_BF16);
  assert_int_equal(main->outputs[1]->type.dtype, CARNOT_DTYPE_I64);
  assert_null(carnot_graph_verify(f->graph));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_request_reaches_its_layer, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_pattern_leaves_integers_alone, set_up, tear_down),
      cmocka_unit_test_setup_teardown(what_is_not_allowed_is_left_out_or_refused, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(strong_typing_contradicts_requests, set_up, tear_down),
      cmocka_unit_test_setup_teardown(inputs_and_results_are_cast, set_up, tear_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
