// Loops and conditionals in flat form: their layers are added to the network like any others, on
// placeholders that hold the values of the first iteration or of the condition's inputs. Closing
// the form finds the layers that depend on the placeholders and adds them again to bodies.
#include <stdlib.h>

#include "api/builder/flat_form.h"

// Closes bodies that an error left open.
static void close_bodies(carnot_network* network, const carnot_scope* scope) {
  while (network->scope != scope) carnot_network_close(network);
}

static carnot_status* as_scalar(carnot_network* network, carnot_value* value, carnot_dtype dtype,
                                carnot_value** out_value) {
  *out_value = value;
  if (!value) return NULL;
  if (value->type.dtype != dtype)
    CARNOT_TRY(carnot_network_add_cast(network, value, dtype, &value));
  *out_value = value;
  if (value->type.rank == 0) return NULL;
  const int64_t none = 0;
  return carnot_network_add_shuffle(network, value, NULL, carnot_network_ints(network, &none, 0),
                                    NULL, out_value);
}

static carnot_status* check_placeholder(const carnot_network* network, const carnot_value* value,
                                        carnot_op op, const char* what) {
  CARNOT_CHECK(value && value->block == network->scope->block && value->producer &&
                   value->producer->op == op,
               INVALID_ARGUMENT, "value %s is not a placeholder of a %s",
               value ? value->name : "NULL", what);
  return NULL;
}

// ---- loops ----

carnot_status* carnot_network_add_loop_recurrence(carnot_network* network, carnot_value* initial,
                                                  carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(initial, INVALID_ARGUMENT, "a recurrence without initial value");
  return carnot_network_add_identity(network, initial, out_value);
}

carnot_status* carnot_network_add_loop_iterator(carnot_network* network, carnot_value* tensor,
                                                int axis, bool reverse, carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(tensor, INVALID_ARGUMENT, "an iterator without tensor");
  const int64_t first = reverse ? -1 : 0;
  return carnot_network_add_gather(network, tensor, carnot_network_ints(network, &first, -1),
                                   CARNOT_GATHER_DEFAULT, axis, 0, out_value);
}

static carnot_status* add_placeholders(carnot_flat_form* form, const carnot_flat_loop* flat,
                                       carnot_loop* loop) {
  for (int i = 0; i < flat->recurrence_count; i++) {
    carnot_value* value = flat->recurrences[i].value;
    CARNOT_TRY(carnot_loop_add_recurrence(loop, value->producer->inputs[0], &form->in[value->id]));
  }
  for (int i = 0; i < flat->iterator_count; i++) {
    carnot_value* value = flat->iterators[i];
    const carnot_node* gather = value->producer;
    bool reverse =
        carnot_load_i64(CARNOT_DTYPE_I64, gather->inputs[1]->constant->tensor.data, 0) < 0;
    int axis = (int)carnot_attr_int(carnot_node_row(gather), &gather->attrs, "axis");
    CARNOT_TRY(
        carnot_loop_add_iterator(loop, gather->inputs[0], axis, reverse, &form->in[value->id]));
  }
  return NULL;
}

// The condition is computed twice, and before an iteration has slices of its iterators.
static carnot_status* check_condition(const carnot_flat_form* form, const carnot_flat_loop* flat) {
  bool* needed;
  CARNOT_TRY(carnot_flat_form_find_needed(form, &flat->condition, 1, &needed));
  carnot_status* status = NULL;
  for (int j = 0; j < flat->iterator_count && !status; j++)
    if (flat->condition == flat->iterators[j])
      status = CARNOT_ERROR(UNSUPPORTED, "the condition of a loop is its iterator %s",
                            flat->condition->name);
  for (size_t k = 0; k < form->member_count && !status; k++) {
    const carnot_node* node = form->members[k];
    if (!needed[k]) continue;
    for (int i = 0; i < node->input_count && !status; i++)
      for (int j = 0; j < flat->iterator_count && !status; j++)
        if (node->inputs[i] == flat->iterators[j])
          status = CARNOT_ERROR(UNSUPPORTED, "the condition of a loop depends on its iterator %s",
                                node->inputs[i]->name);
  }
  free(needed);
  return status;
}

// The condition with the state of the next iteration.
static carnot_status* set_condition(carnot_flat_form* form, const carnot_flat_loop* flat,
                                    carnot_loop* loop) {
  carnot_value* next[CARNOT_MAX_LOOP_VALUES];
  for (int i = 0; i < flat->recurrence_count; i++)
    next[i] = carnot_flat_form_inside(form, flat->recurrences[i].next);
  for (int i = 0; i < flat->recurrence_count; i++)
    form->in[flat->recurrences[i].value->id] = next[i];
  CARNOT_TRY(carnot_flat_form_add_needed(form, &flat->condition, 1));
  carnot_value* condition;
  CARNOT_TRY(as_scalar(form->network, carnot_flat_form_inside(form, flat->condition),
                       CARNOT_DTYPE_BOOL, &condition));
  return carnot_loop_set_condition(loop, condition);
}

static carnot_status* write_body(carnot_flat_form* form, const carnot_flat_loop* flat,
                                 carnot_loop* loop, carnot_value** out_values) {
  carnot_value* results[2 * CARNOT_MAX_LOOP_VALUES];
  int count = 0;
  for (int i = 0; i < flat->recurrence_count; i++) results[count++] = flat->recurrences[i].next;
  for (int i = 0; i < flat->output_count; i++) results[count++] = flat->outputs[i].value;
  CARNOT_TRY(carnot_flat_form_add_needed(form, results, count));
  for (int i = 0; i < flat->recurrence_count; i++)
    CARNOT_TRY(carnot_loop_set_next(loop, carnot_flat_form_inside(form, flat->recurrences[i].value),
                                    carnot_flat_form_inside(form, flat->recurrences[i].next)));
  for (int i = 0; i < flat->output_count; i++) {
    carnot_value* value = carnot_flat_form_inside(form, flat->outputs[i].value);
    CARNOT_TRY(flat->outputs[i].kind == CARNOT_LOOP_LAST_VALUE
                   ? carnot_loop_add_last_output(loop, value, &out_values[i])
                   : carnot_loop_add_stacked_output(loop, value, &out_values[i]));
  }
  return NULL;
}

static carnot_status* write_loop(carnot_flat_form* form, const carnot_flat_loop* flat,
                                 carnot_value** out_values) {
  carnot_network* network = form->network;
  carnot_loop* loop;
  carnot_value *count, *first;
  if (flat->condition) CARNOT_TRY(check_condition(form, flat));
  CARNOT_TRY(as_scalar(network, flat->trip_count, CARNOT_DTYPE_I64, &count));
  CARNOT_TRY(as_scalar(network, flat->condition, CARNOT_DTYPE_BOOL, &first));
  CARNOT_TRY(carnot_network_begin_loop(network, count, first, &loop));
  CARNOT_TRY(add_placeholders(form, flat, loop));
  CARNOT_TRY(write_body(form, flat, loop, out_values));
  if (flat->condition) CARNOT_TRY(set_condition(form, flat, loop));
  return carnot_loop_end(loop);
}

// The stacked values of all iterations, reversed or along another axis as requested.
static carnot_status* arrange(carnot_network* network, const carnot_loop_output* output,
                              carnot_value** value) {
  if (output->kind == CARNOT_LOOP_LAST_VALUE) return NULL;
  if (output->kind == CARNOT_LOOP_REVERSE) {
    const int64_t start = -1, end = INT64_MIN / 2, axis = 0, step = -1;
    CARNOT_TRY(carnot_network_add_slice_dynamic(
        network, *value, carnot_network_ints(network, &start, 1),
        carnot_network_ints(network, &end, 1), carnot_network_ints(network, &axis, 1),
        carnot_network_ints(network, &step, 1), value));
  }
  int rank = (*value)->type.rank, at = 0;
  if (output->axis == 0) return NULL;
  CARNOT_CHECK(output->axis > 0 && output->axis < rank, INVALID_ARGUMENT,
               "a loop output along axis %d of %d dimensions", output->axis, rank);
  int64_t order[CARNOT_MAX_RANK];
  for (int d = 0; d < rank; d++) order[d] = d == output->axis ? 0 : ++at;
  return carnot_network_add_shuffle(network, *value, order, NULL, NULL, value);
}

static carnot_status* check_loop(const carnot_network* network, const carnot_flat_loop* flat) {
  CARNOT_CHECK(flat->recurrence_count >= 0 && flat->recurrence_count <= CARNOT_MAX_LOOP_VALUES &&
                   flat->output_count >= 1 && flat->output_count <= CARNOT_MAX_LOOP_VALUES,
               INVALID_ARGUMENT,
               "a loop of %d recurrences and %d outputs; 0 and 1 to %d are possible",
               flat->recurrence_count, flat->output_count, CARNOT_MAX_LOOP_VALUES);
  for (int i = 0; i < flat->recurrence_count; i++) {
    const carnot_loop_recurrence* r = &flat->recurrences[i];
    CARNOT_TRY(check_placeholder(network, r->value, CARNOT_OP_IDENTITY, "recurrence"));
    CARNOT_CHECK(r->next, INVALID_ARGUMENT, "recurrence %s has no next value", r->value->name);
  }
  for (int i = 0; i < flat->iterator_count; i++) {
    CARNOT_TRY(check_placeholder(network, flat->iterators[i], CARNOT_OP_GATHER, "iterator"));
    CARNOT_CHECK(flat->iterators[i]->producer->inputs[1]->constant, INVALID_ARGUMENT,
                 "value %s is not a placeholder of an iterator", flat->iterators[i]->name);
  }
  for (int i = 0; i < flat->output_count; i++) {
    const carnot_loop_output* output = &flat->outputs[i];
    CARNOT_CHECK(output->value && (unsigned)output->kind <= CARNOT_LOOP_REVERSE, INVALID_ARGUMENT,
                 "output %d of a loop: value %s, kind %d", i,
                 output->value ? output->value->name : "NULL", (int)output->kind);
    bool is_recurrence = false;
    for (int k = 0; k < flat->recurrence_count; k++)
      is_recurrence = is_recurrence || flat->recurrences[k].value == output->value;
    CARNOT_CHECK(is_recurrence || output->kind != CARNOT_LOOP_LAST_VALUE, INVALID_ARGUMENT,
                 "output %d of a loop is the last value of %s, which is not a recurrence", i,
                 output->value->name);
  }
  return NULL;
}

carnot_status* carnot_network_close_flat_loop(carnot_network* network, const carnot_flat_loop* flat,
                                              carnot_value** out_values) {
  CARNOT_TRY(check_loop(network, flat));
  const carnot_scope* scope = network->scope;
  carnot_value* placeholders[CARNOT_MAX_LOOP_VALUES * 2];
  int count = 0;
  CARNOT_CHECK(flat->iterator_count >= 0 && flat->iterator_count <= CARNOT_MAX_LOOP_VALUES,
               INVALID_ARGUMENT, "a loop of %d iterators; at most %d are possible",
               flat->iterator_count, CARNOT_MAX_LOOP_VALUES);
  for (int i = 0; i < flat->recurrence_count; i++)
    placeholders[count++] = flat->recurrences[i].value;
  for (int i = 0; i < flat->iterator_count; i++) placeholders[count++] = flat->iterators[i];
  carnot_flat_form form;
  carnot_status* status = carnot_flat_form_open(network, placeholders, count, &form);
  if (!status) status = write_loop(&form, flat, out_values);
  close_bodies(network, scope);
  for (int i = 0; i < flat->output_count && !status; i++)
    status = arrange(network, &flat->outputs[i], &out_values[i]);
  if (!status) carnot_flat_form_remove(&form, placeholders, count);
  carnot_flat_form_close(&form);
  return status;
}

// ---- conditionals ----

carnot_status* carnot_network_add_conditional_input(carnot_network* network, carnot_value* input,
                                                    carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(input, INVALID_ARGUMENT, "a conditional's input is NULL");
  return carnot_network_add_identity(network, input, out_value);
}

// The results of one branch in the innermost open body.
static carnot_status* write_branch(carnot_flat_form* form, carnot_value* const* values, int count,
                                   carnot_value** out_values) {
  CARNOT_TRY(carnot_flat_form_add_needed(form, values, count));
  for (int i = 0; i < count; i++) out_values[i] = carnot_flat_form_inside(form, values[i]);
  return NULL;
}

static carnot_status* write_conditional(carnot_flat_form* form, const carnot_flat_conditional* flat,
                                        carnot_value** out_values) {
  carnot_network* network = form->network;
  carnot_conditional* conditional;
  carnot_value *condition, *results[CARNOT_MAX_LOOP_VALUES];
  CARNOT_TRY(as_scalar(network, flat->condition, CARNOT_DTYPE_BOOL, &condition));
  CARNOT_TRY(carnot_network_begin_if(network, condition, &conditional));
  for (int i = 0; i < flat->input_count; i++)
    form->in[flat->inputs[i]->id] = flat->inputs[i]->producer->inputs[0];
  CARNOT_TRY(write_branch(form, flat->true_values, flat->output_count, results));
  CARNOT_TRY(carnot_conditional_else(conditional, results, flat->output_count));
  CARNOT_TRY(write_branch(form, flat->false_values, flat->output_count, results));
  return carnot_conditional_end(conditional, results, flat->output_count, out_values);
}

carnot_status* carnot_network_close_flat_conditional(carnot_network* network,
                                                     const carnot_flat_conditional* flat,
                                                     carnot_value** out_values) {
  const carnot_scope* scope = network->scope;
  CARNOT_CHECK(flat->condition && flat->output_count >= 1 &&
                   flat->output_count <= CARNOT_MAX_LOOP_VALUES && flat->input_count >= 0,
               INVALID_ARGUMENT,
               "a conditional of %d outputs; a condition and 1 to %d are required",
               flat->output_count, CARNOT_MAX_LOOP_VALUES);
  for (int i = 0; i < flat->input_count; i++)
    CARNOT_TRY(
        check_placeholder(network, flat->inputs[i], CARNOT_OP_IDENTITY, "conditional's input"));
  for (int i = 0; i < flat->output_count; i++)
    CARNOT_CHECK(flat->true_values[i] && flat->false_values[i], INVALID_ARGUMENT,
                 "output %d of a conditional lacks the value of a branch", i);
  carnot_flat_form form;
  carnot_status* status = carnot_flat_form_open(network, flat->inputs, flat->input_count, &form);
  if (!status) status = write_conditional(&form, flat, out_values);
  close_bodies(network, scope);
  if (!status) carnot_flat_form_remove(&form, flat->inputs, flat->input_count);
  carnot_flat_form_close(&form);
  return status;
}
