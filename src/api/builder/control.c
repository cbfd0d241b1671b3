// Loops and conditionals: bodies are collected between begin and end, then become one node.
#include "api/builder/network.h"
#include "carnot/control_flow.h"

typedef struct recurrence {
  carnot_value *initial, *param, *next;
  carnot_value** out_last;
} recurrence;

struct carnot_loop {
  carnot_network* network;
  carnot_scope* scope;
  carnot_value *trip_count, *condition, *iteration, *go, *next_go;
  recurrence recurrences[CARNOT_MAX_LOOP_VALUES];
  int recurrence_count;
  carnot_value* stacked[CARNOT_MAX_LOOP_VALUES];
  carnot_value** out_stacked[CARNOT_MAX_LOOP_VALUES];
  int stacked_count;
};

static carnot_status* check_open(const carnot_network* network, const carnot_scope* scope,
                                 const char* what) {
  CARNOT_CHECK(network->scope == scope, FAILED_PRECONDITION,
               "the body of this %s is not the innermost open one", what);
  return NULL;
}

carnot_status* carnot_network_begin_loop(carnot_network* network, carnot_value* trip_count,
                                         carnot_value* condition, carnot_loop** out_loop) {
  *out_loop = NULL;
  CARNOT_CHECK(trip_count || condition, INVALID_ARGUMENT, "a loop without count and condition");
  CARNOT_TRY(carnot_graph_status(network->graph));
  carnot_loop* loop = CARNOT_NEW(&network->graph->arena, carnot_loop);
  loop->network = network;
  if (trip_count)
    CARNOT_TRY(carnot_network_reach(network, network->scope, trip_count, &loop->trip_count));
  if (condition)
    CARNOT_TRY(carnot_network_reach(network, network->scope, condition, &loop->condition));
  loop->scope = carnot_network_open(network);
  carnot_type number = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_I64};
  carnot_type flag = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_BOOL};
  loop->iteration = carnot_block_add_param(loop->scope->block, NULL, &number);
  loop->go = carnot_block_add_param(loop->scope->block, NULL, &flag);
  *out_loop = loop;
  return NULL;
}

carnot_value* carnot_loop_iteration(carnot_loop* loop) { return loop->iteration; }

carnot_status* carnot_loop_add_recurrence(carnot_loop* loop, carnot_value* initial,
                                          carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_TRY(check_open(loop->network, loop->scope, "loop"));
  CARNOT_CHECK(initial && loop->recurrence_count < CARNOT_MAX_LOOP_VALUES, INVALID_ARGUMENT,
               "a recurrence needs an initial value; at most %d", CARNOT_MAX_LOOP_VALUES);
  recurrence* r = &loop->recurrences[loop->recurrence_count];
  CARNOT_TRY(carnot_network_reach(loop->network, loop->scope->parent, initial, &r->initial));
  r->param = carnot_block_add_param(loop->scope->block, NULL, &r->initial->type);
  loop->recurrence_count++;
  *out_value = r->param;
  return NULL;
}

static carnot_status* find_recurrence(carnot_loop* loop, const carnot_value* value,
                                      recurrence** out) {
  for (int i = 0; i < loop->recurrence_count; i++)
    if (loop->recurrences[i].param == value) {
      *out = &loop->recurrences[i];
      return NULL;
    }
  return CARNOT_ERROR(INVALID_ARGUMENT, "value %s is no recurrence of this loop",
                      value ? value->name : "NULL");
}

carnot_status* carnot_loop_set_next(carnot_loop* loop, carnot_value* recurrence_value,
                                    carnot_value* next) {
  recurrence* r = NULL;
  CARNOT_TRY(check_open(loop->network, loop->scope, "loop"));
  CARNOT_TRY(find_recurrence(loop, recurrence_value, &r));
  return carnot_network_reach(loop->network, loop->scope, next, &r->next);
}

carnot_status* carnot_loop_add_iterator(carnot_loop* loop, carnot_value* tensor, int axis,
                                        bool reverse, carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_TRY(check_open(loop->network, loop->scope, "loop"));
  carnot_value* index = loop->iteration;
  if (reverse) {
    // -1 - i counts from the end.
    const int64_t last = -1;
    CARNOT_TRY(carnot_network_add_elementwise(loop->network,
                                              carnot_network_ints(loop->network, &last, -1), index,
                                              CARNOT_ELEMENTWISE_SUB, &index));
  }
  return carnot_network_add_gather(loop->network, tensor, index, CARNOT_GATHER_DEFAULT, axis, 0,
                                   out_value);
}

carnot_status* carnot_loop_set_condition(carnot_loop* loop, carnot_value* condition) {
  CARNOT_TRY(check_open(loop->network, loop->scope, "loop"));
  return carnot_network_reach(loop->network, loop->scope, condition, &loop->next_go);
}

carnot_status* carnot_loop_add_last_output(carnot_loop* loop, carnot_value* recurrence_value,
                                           carnot_value** out_value) {
  *out_value = NULL;
  recurrence* r = NULL;
  CARNOT_TRY(find_recurrence(loop, recurrence_value, &r));
  r->out_last = out_value;
  return NULL;
}

carnot_status* carnot_loop_add_stacked_output(carnot_loop* loop, carnot_value* value,
                                              carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_TRY(check_open(loop->network, loop->scope, "loop"));
  CARNOT_CHECK(loop->stacked_count < CARNOT_MAX_LOOP_VALUES, OUT_OF_RANGE,
               "a loop with more than %d stacked outputs", CARNOT_MAX_LOOP_VALUES);
  CARNOT_TRY(
      carnot_network_reach(loop->network, loop->scope, value, &loop->stacked[loop->stacked_count]));
  loop->out_stacked[loop->stacked_count++] = out_value;
  return NULL;
}

// Captured values as inputs, and their parameters behind those of the body's own. Constants stay
// inside.
static int take_captures(carnot_scope* scope, carnot_value** inputs, int at, carnot_value** params,
                         size_t* count) {
  for (size_t i = 0; i < scope->capture_count; i++) {
    if (scope->inner[i]->constant) continue;
    inputs[at++] = scope->outer[i];
    if (params) params[(*count)++] = scope->inner[i];
  }
  return at;
}

static carnot_status* finish_loop(carnot_loop* loop) {
  carnot_network* network = loop->network;
  carnot_arena* arena = &network->graph->arena;
  carnot_scope* scope = loop->scope;
  size_t room = (size_t)loop->recurrence_count + scope->capture_count + 2;
  carnot_value** inputs = CARNOT_NEW_ARRAY(arena, carnot_value*, room);
  carnot_value** params = CARNOT_NEW_ARRAY(arena, carnot_value*, room);
  CARNOT_TRY(carnot_arena_status(arena));
  size_t param_count = 0;
  inputs[0] = loop->trip_count;
  inputs[1] = loop->condition;
  params[param_count++] = loop->iteration;
  params[param_count++] = loop->go;
  carnot_block_add_output(scope->block, loop->next_go ? loop->next_go : loop->go);
  int count = 2;
  for (int i = 0; i < loop->recurrence_count; i++) {
    const recurrence* r = &loop->recurrences[i];
    CARNOT_CHECK(r->next, FAILED_PRECONDITION, "recurrence %d of the loop has no next value", i);
    inputs[count++] = r->initial;
    params[param_count++] = r->param;
    carnot_block_add_output(scope->block, r->next);
  }
  for (int i = 0; i < loop->stacked_count; i++)
    carnot_block_add_output(scope->block, loop->stacked[i]);
  count = take_captures(scope, inputs, count, params, &param_count);
  memcpy(scope->block->params, params, param_count * sizeof(*params));
  carnot_attrs attrs = {0};
  carnot_attrs_set(&attrs, arena,
                   (carnot_attr){.name = "body", .type = CARNOT_ATTR_BLOCK, .block = scope->block});
  carnot_attrs_set_int(&attrs, arena, "carried", loop->recurrence_count);
  carnot_node* node;
  CARNOT_TRY(carnot_network_add(network, CARNOT_OP_LOOP, &attrs, inputs, count,
                                loop->recurrence_count + loop->stacked_count, &node));
  for (int i = 0; i < loop->recurrence_count; i++)
    if (loop->recurrences[i].out_last) *loop->recurrences[i].out_last = node->outputs[i];
  for (int i = 0; i < loop->stacked_count; i++)
    *loop->out_stacked[i] = node->outputs[loop->recurrence_count + i];
  return NULL;
}

carnot_status* carnot_loop_end(carnot_loop* loop) {
  CARNOT_TRY(check_open(loop->network, loop->scope, "loop"));
  CARNOT_CHECK(loop->recurrence_count + loop->stacked_count > 0, FAILED_PRECONDITION,
               "a loop without results");
  carnot_network_close(loop->network);
  return finish_loop(loop);
}

// ---- conditionals ----

struct carnot_conditional {
  carnot_network* network;
  carnot_value* condition;
  carnot_scope *then_scope, *else_scope;
  int count;
};

carnot_status* carnot_network_begin_if(carnot_network* network, carnot_value* condition,
                                       carnot_conditional** out_conditional) {
  *out_conditional = NULL;
  CARNOT_CHECK(condition, INVALID_ARGUMENT, "a conditional without condition");
  CARNOT_TRY(carnot_graph_status(network->graph));
  carnot_conditional* c = CARNOT_NEW(&network->graph->arena, carnot_conditional);
  c->network = network;
  CARNOT_TRY(carnot_network_reach(network, network->scope, condition, &c->condition));
  c->then_scope = carnot_network_open(network);
  *out_conditional = c;
  return NULL;
}

static carnot_status* close_branch(carnot_conditional* c, carnot_scope* scope,
                                   carnot_value* const* values, int count) {
  CARNOT_TRY(check_open(c->network, scope, "conditional"));
  CARNOT_CHECK(count >= 1, INVALID_ARGUMENT, "a branch without results");
  for (int i = 0; i < count; i++) {
    carnot_value* value;
    CARNOT_TRY(carnot_network_reach(c->network, scope, values[i], &value));
    CARNOT_CHECK(value, INVALID_ARGUMENT, "result %d of a branch is NULL", i);
    carnot_block_add_output(scope->block, value);
  }
  carnot_network_close(c->network);
  return NULL;
}

carnot_status* carnot_conditional_else(carnot_conditional* c, carnot_value* const* values,
                                       int count) {
  CARNOT_TRY(close_branch(c, c->then_scope, values, count));
  c->count = count;
  c->else_scope = carnot_network_open(c->network);
  return NULL;
}

carnot_status* carnot_conditional_end(carnot_conditional* c, carnot_value* const* values, int count,
                                      carnot_value** out_values) {
  CARNOT_CHECK(c->else_scope && count == c->count, INVALID_ARGUMENT,
               "the branches give %d and %d values", c->count, count);
  CARNOT_TRY(close_branch(c, c->else_scope, values, count));
  carnot_arena* arena = &c->network->graph->arena;
  carnot_value** inputs = CARNOT_NEW_ARRAY(
      arena, carnot_value*, 1 + c->then_scope->capture_count + c->else_scope->capture_count);
  CARNOT_TRY(carnot_arena_status(arena));
  inputs[0] = c->condition;
  int then_end = take_captures(c->then_scope, inputs, 1, NULL, NULL);
  int input_count = take_captures(c->else_scope, inputs, then_end, NULL, NULL);
  carnot_attrs attrs = {0};
  carnot_attrs_set(
      &attrs, arena,
      (carnot_attr){
          .name = "then_branch", .type = CARNOT_ATTR_BLOCK, .block = c->then_scope->block});
  carnot_attrs_set(
      &attrs, arena,
      (carnot_attr){
          .name = "else_branch", .type = CARNOT_ATTR_BLOCK, .block = c->else_scope->block});
  carnot_attrs_set_int(&attrs, arena, "then_inputs", then_end - 1);
  carnot_node* node;
  CARNOT_TRY(
      carnot_network_add(c->network, CARNOT_OP_IF, &attrs, inputs, input_count, count, &node));
  memcpy(out_values, node->outputs, (size_t)count * sizeof(*out_values));
  return NULL;
}
