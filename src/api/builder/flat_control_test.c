// Unit tests of loops and conditionals in flat form: bodies, nesting, conditions, errors.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <string.h>

#include "carnot/builder.h"
#include "carnot/reference.h"

static void ok(carnot_status* status) {
  if (status) fail_msg("%s", carnot_status_message(status));
}
static void fails_with(carnot_code code, const char* words, carnot_status* status) {
  assert_int_equal(code, carnot_status_code(status));
  assert_non_null(strstr(carnot_status_message(status), words));
  carnot_status_free(status);
}

typedef struct net {
  carnot_network* network;
  carnot_value* x;  // float32 [3,2]
} net;

static net make_net(void) {
  net n;
  const carnot_dims dims = {.rank = 2, .d = {3, 2}};
  ok(carnot_network_create(&n.network));
  ok(carnot_network_add_input(n.network, "x", CARNOT_DTYPE_F32, &dims, NULL, &n.x));
  return n;
}
static carnot_value* integer(net* n, int64_t number) {
  carnot_value* value;
  ok(carnot_network_add_int64s(n->network, &number, -1, &value));
  return value;
}
static carnot_value* binary(net* n, carnot_elementwise fn, carnot_value* a, carnot_value* b) {
  carnot_value* value;
  ok(carnot_network_add_elementwise(n->network, a, b, fn, &value));
  return value;
}
static carnot_value* recurrence(net* n, carnot_value* initial) {
  carnot_value* value;
  ok(carnot_network_add_loop_recurrence(n->network, initial, &value));
  return value;
}
static carnot_value* number(net* n, double v) {
  carnot_value* value;
  ok(carnot_network_add_scalar(n->network, CARNOT_DTYPE_F32, v, &value));
  return value;
}

// Output |i| for x = 1 .. 6.
static const float* run(net* n, size_t i, carnot_reference** reference, carnot_data** data) {
  static const float kX[6] = {1, 2, 3, 4, 5, 6};
  const carnot_dims dims = {.rank = 2, .d = {3, 2}};
  ok(carnot_data_create_tensor(CARNOT_DTYPE_F32, &dims, kX, data));
  ok(carnot_reference_create(n->network, (const carnot_data* const[]){*data}, 1, reference));
  return carnot_data_numbers(
      carnot_reference_value(*reference, carnot_network_output(n->network, i)));
}
static void expect(net* n, size_t i, const float* wanted, int count) {
  carnot_reference* reference;
  carnot_data* data;
  const float* y = run(n, i, &reference, &data);
  for (int k = 0; k < count; k++)
    if (y[k] != wanted[k]) fail_msg("element %d is %g, %g is required", k, y[k], wanted[k]);
  carnot_reference_destroy(reference);
  carnot_data_destroy(data);
}

// sum += x[i] for every row i; the sums, also backwards along axis 1, and the last one.
static void recurrence_and_iterator(void** state) {
  (void)state;
  net n = make_net();
  carnot_value *row, *pair, *outs[3];
  ok(carnot_network_add_loop_iterator(n.network, n.x, 0, false, &row));
  const int64_t axis = 0;
  ok(carnot_network_add_reduce(n.network, n.x, CARNOT_REDUCE_SUM, &axis, 1, false, &pair));
  carnot_value* sum = recurrence(&n, binary(&n, CARNOT_ELEMENTWISE_PROD, pair, number(&n, 0)));
  carnot_value* next = binary(&n, CARNOT_ELEMENTWISE_SUM, sum, row);
  const carnot_loop_output outputs[] = {{next, CARNOT_LOOP_CONCATENATE, 0},
                                        {next, CARNOT_LOOP_REVERSE, 1},
                                        {sum, CARNOT_LOOP_LAST_VALUE, 0}};
  const carnot_flat_loop loop = {.trip_count = integer(&n, 3),
                                 .recurrences = &(carnot_loop_recurrence){sum, next},
                                 .recurrence_count = 1,
                                 .iterators = &row,
                                 .iterator_count = 1,
                                 .outputs = outputs,
                                 .output_count = 3};
  ok(carnot_network_close_flat_loop(n.network, &loop, outs));
  for (int i = 0; i < 3; i++) ok(carnot_network_mark_output(n.network, outs[i], NULL));
  expect(&n, 0, (const float[]){1, 2, 4, 6, 9, 12}, 6);
  expect(&n, 1, (const float[]){9, 4, 1, 12, 6, 2}, 6);
  expect(&n, 2, (const float[]){9, 12}, 2);
  // Nothing of the flat form is left but the loop, what it reads and what arranges its outputs.
  for (carnot_layer* l = carnot_network_first_layer(n.network); l; l = carnot_layer_next(l))
    assert_string_not_equal("GATHER", carnot_layer_type(l));
  carnot_network_destroy(n.network);
}

// Doubles while the value is below 20; the condition is computed from the recurrence.
static void condition_before_each_iteration(void** state) {
  (void)state;
  for (double initial = 3; initial < 50; initial += 40) {
    net n = make_net();
    carnot_value *out, *v = recurrence(&n, number(&n, initial));
    carnot_value* next = binary(&n, CARNOT_ELEMENTWISE_PROD, v, number(&n, 2));
    const carnot_flat_loop loop = {
        .condition = binary(&n, CARNOT_ELEMENTWISE_LESS, v, number(&n, 20)),
        .recurrences = &(carnot_loop_recurrence){v, next},
        .recurrence_count = 1,
        .outputs = &(carnot_loop_output){v, CARNOT_LOOP_LAST_VALUE, 0},
        .output_count = 1};
    ok(carnot_network_close_flat_loop(n.network, &loop, &out));
    ok(carnot_network_mark_output(n.network, out, "y"));
    expect(&n, 0, (const float[]){initial == 3 ? 24 : 43}, 1);
    carnot_network_destroy(n.network);
  }
}

// A loop of 2 iterations, which adds 1, inside a loop of 3, which doubles: ((0*2+2)*2+2)*2+2. The
// inner loop is also the condition's operand, so its body is copied.
static void loops_inside_loops(void** state) {
  (void)state;
  net n = make_net();
  carnot_value *inner_out, *out, *outer = recurrence(&n, number(&n, 0));
  carnot_value* inner = recurrence(&n, binary(&n, CARNOT_ELEMENTWISE_PROD, outer, number(&n, 2)));
  carnot_value* inner_next = binary(&n, CARNOT_ELEMENTWISE_SUM, inner, number(&n, 1));
  const carnot_flat_loop inner_loop = {
      .trip_count = integer(&n, 2),
      .recurrences = &(carnot_loop_recurrence){inner, inner_next},
      .recurrence_count = 1,
      .outputs = &(carnot_loop_output){inner, CARNOT_LOOP_LAST_VALUE, 0},
      .output_count = 1};
  ok(carnot_network_close_flat_loop(n.network, &inner_loop, &inner_out));
  const carnot_flat_loop outer_loop = {
      .trip_count = integer(&n, 3),
      .condition = binary(&n, CARNOT_ELEMENTWISE_LESS, inner_out, number(&n, 1000)),
      .recurrences = &(carnot_loop_recurrence){outer, inner_out},
      .recurrence_count = 1,
      .outputs = &(carnot_loop_output){outer, CARNOT_LOOP_LAST_VALUE, 0},
      .output_count = 1};
  ok(carnot_network_close_flat_loop(n.network, &outer_loop, &out));
  ok(carnot_network_mark_output(n.network, out, "y"));
  expect(&n, 0, (const float[]){14}, 1);
  carnot_network_destroy(n.network);
}

static void conditional_runs_one_branch(void** state) {
  (void)state;
  for (int flag = 0; flag < 2; flag++) {
    net n = make_net();
    carnot_value *in, *out;
    carnot_value* condition =
        binary(&n, CARNOT_ELEMENTWISE_EQUAL, integer(&n, flag), integer(&n, 1));
    ok(carnot_network_add_conditional_input(n.network, n.x, &in));
    carnot_value* shared = binary(&n, CARNOT_ELEMENTWISE_SUM, in, number(&n, 1));
    carnot_value* yes = binary(&n, CARNOT_ELEMENTWISE_PROD, shared, number(&n, 10));
    carnot_value* no = binary(&n, CARNOT_ELEMENTWISE_SUB, shared, in);
    const carnot_flat_conditional conditional = {.condition = condition,
                                                 .inputs = &in,
                                                 .input_count = 1,
                                                 .true_values = &yes,
                                                 .false_values = &no,
                                                 .output_count = 1};
    ok(carnot_network_close_flat_conditional(n.network, &conditional, &out));
    ok(carnot_network_mark_output(n.network, out, "y"));
    if (flag)
      expect(&n, 0, (const float[]){20, 30, 40, 50, 60, 70}, 6);
    else
      expect(&n, 0, (const float[]){1, 1, 1, 1, 1, 1}, 6);
    carnot_network_destroy(n.network);
  }
}

static void errors_name_the_value(void** state) {
  (void)state;
  net n = make_net();
  carnot_value *row, *out, *v = recurrence(&n, number(&n, 0));
  ok(carnot_network_add_loop_iterator(n.network, n.x, 0, false, &row));
  carnot_value* next = binary(&n, CARNOT_ELEMENTWISE_SUM, v, number(&n, 1));
  carnot_flat_loop loop = {.trip_count = integer(&n, 2),
                           .recurrences = &(carnot_loop_recurrence){v, NULL},
                           .recurrence_count = 1,
                           .iterators = &row,
                           .iterator_count = 1,
                           .outputs = &(carnot_loop_output){next, CARNOT_LOOP_LAST_VALUE, 0},
                           .output_count = 1};
  fails_with(CARNOT_INVALID_ARGUMENT, "has no next value",
             carnot_network_close_flat_loop(n.network, &loop, &out));
  loop.recurrences = &(carnot_loop_recurrence){v, next};
  fails_with(CARNOT_INVALID_ARGUMENT, "not a recurrence",
             carnot_network_close_flat_loop(n.network, &loop, &out));
  loop.recurrences = &(carnot_loop_recurrence){n.x, next};
  fails_with(CARNOT_INVALID_ARGUMENT, "value x is not a placeholder",
             carnot_network_close_flat_loop(n.network, &loop, &out));
  loop.recurrences = &(carnot_loop_recurrence){v, next};
  loop.outputs = &(carnot_loop_output){next, CARNOT_LOOP_CONCATENATE, 3};
  fails_with(CARNOT_INVALID_ARGUMENT, "axis 3",
             carnot_network_close_flat_loop(n.network, &loop, &out));
  carnot_network_destroy(n.network);

  n = make_net();
  v = recurrence(&n, number(&n, 0));
  ok(carnot_network_add_loop_iterator(n.network, n.x, 0, false, &row));
  carnot_value* pair = binary(&n, CARNOT_ELEMENTWISE_SUM, v, row);
  const int64_t axis = 0;
  ok(carnot_network_add_reduce(n.network, pair, CARNOT_REDUCE_SUM, &axis, 1, false, &next));
  loop = (carnot_flat_loop){.condition = binary(&n, CARNOT_ELEMENTWISE_LESS, next, number(&n, 5)),
                            .recurrences = &(carnot_loop_recurrence){v, next},
                            .recurrence_count = 1,
                            .iterators = &row,
                            .iterator_count = 1,
                            .outputs = &(carnot_loop_output){v, CARNOT_LOOP_LAST_VALUE, 0},
                            .output_count = 1};
  fails_with(CARNOT_UNSUPPORTED, "depends on its iterator",
             carnot_network_close_flat_loop(n.network, &loop, &out));
  loop.condition = NULL;
  loop.trip_count = integer(&n, 3);
  ok(carnot_network_mark_output(n.network, pair, "inner"));
  fails_with(CARNOT_INVALID_MODEL, "value inner belongs to the body",
             carnot_network_close_flat_loop(n.network, &loop, &out));
  carnot_network_destroy(n.network);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(recurrence_and_iterator), cmocka_unit_test(condition_before_each_iteration),
      cmocka_unit_test(loops_inside_loops), cmocka_unit_test(conditional_runs_one_branch),
      cmocka_unit_test(errors_name_the_value)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
