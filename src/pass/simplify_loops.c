// Loops of known length: what does not change is read, counters are the number of the iteration,
// lists and tensors that grow become stacked results. A loop that is then a recurrent cell becomes
// LSTM, GRU or RNN. Nodes behind a loop whose results got known sizes are inferred again.
#include "ops/control.h"
#include "pass/loop_lists.h"

enum { kMostHoisted = 256 };

// A loop being rewritten.
typedef struct rewrite {
  carnot_loop loop;
  carnot_emitter e;     // before the loop
  carnot_value* trips;  // int64
  carnot_arena* arena;
  carnot_value** params;  // of the body, as they will be
  carnot_value** inputs;  // of the node, as they will be
  carnot_value** results;
  carnot_value** items;  // by carried value: the element of a list; NULL: no list
  carnot_loop_list* lists;
  int *states, *stacks;  // by carried value: the result that it will be, or -1
  int param_count, result_count, state_count, room;
} rewrite;

static carnot_status* start(rewrite* r) {
  const size_t carried = (size_t)r->loop.carried + 1;
  r->arena = &r->loop.node->block->graph->arena;
  r->room = r->loop.node->input_count + kMostHoisted;
  r->params = CARNOT_NEW_ARRAY(r->arena, carnot_value*, (size_t)r->room + 1);
  r->inputs = CARNOT_NEW_ARRAY(r->arena, carnot_value*, (size_t)r->room + 1);
  r->results = CARNOT_NEW_ARRAY(r->arena, carnot_value*, r->loop.body->output_count + 1);
  r->items = CARNOT_NEW_ARRAY(r->arena, carnot_value*, carried);
  r->lists = CARNOT_NEW_ARRAY(r->arena, carnot_loop_list, carried);
  r->states = CARNOT_NEW_ARRAY(r->arena, int, carried);
  r->stacks = CARNOT_NEW_ARRAY(r->arena, int, carried);
  return carnot_arena_status(r->arena);
}

static void add_input(rewrite* r, carnot_value* param, carnot_value* input) {
  r->params[r->param_count] = param;
  r->inputs[r->param_count++] = input;
}

// Readers of a counter read the number of the iteration.
static void count_by_iteration(rewrite* r, int k, int64_t first) {
  carnot_value *counter = r->loop.body->params[2 + k], *result = r->loop.node->outputs[k];
  const carnot_dtype dtype = counter->type.dtype;
  if (counter->use_count) {
    carnot_emitter inner = {.at = r->loop.body->first, .status = r->e.status};
    carnot_value* y = r->loop.body->params[0];
    if (first) y = carnot_emit_binary(&inner, CARNOT_FN_ADD, y, carnot_emit_int(&inner, first));
    y = carnot_emit_cast(&inner, y, dtype);
    r->e.status = inner.status;
    if (y) carnot_value_replace(counter, y);
  }
  if (!carnot_value_used(result)) return;
  // A loop that does not begin leaves its counters as they are.
  carnot_value* y = carnot_emit_binary(&r->e, CARNOT_FN_MAX, r->trips, carnot_emit_int(&r->e, 0));
  if (first) y = carnot_emit_binary(&r->e, CARNOT_FN_ADD, y, carnot_emit_int(&r->e, first));
  y = carnot_emit_cast(&r->e, y, dtype);
  if (y) carnot_value_replace(result, y);
}

// Neither an iteration nor a node behind the loop reads carried value |k|.
static bool is_unread(const carnot_loop* loop, int k) {
  return !carnot_value_used(loop->body->params[2 + k]) &&
         !carnot_value_used(loop->node->outputs[k]);
}

// |item| of a tensor that grows, as an element of a stack: without the dimension that grows, and
// with the tensor's other dimensions.
static carnot_value* element_of(rewrite* r, carnot_value* item, const carnot_value* grown) {
  int64_t dims[CARNOT_MAX_RANK];
  carnot_emitter inner = {.at = grown->producer, .status = r->e.status};
  for (int d = 1; d < grown->type.rank; d++) dims[d - 1] = grown->type.dims[d].bits;
  carnot_value* element = carnot_emit_reshape(&inner, item, dims, grown->type.rank - 1);
  r->e.status = inner.status;
  return element;
}

// Sorts the carried values into states, what is only read, counters and lists.
static void sort_carried(rewrite* r) {
  carnot_block* body = r->loop.body;
  const carnot_node* node = r->loop.node;
  add_input(r, body->params[0], r->trips);
  add_input(r, body->params[1], NULL);
  r->results[r->result_count++] = body->params[1];
  for (int k = 0; k < r->loop.carried; k++) {
    r->lists[k] = carnot_loop_list_of(&r->loop, k, &r->items[k]);
    if (r->lists[k] == CARNOT_LIST_JOINS)
      r->items[k] = element_of(r, r->items[k], body->outputs[1 + k]);
  }
  for (int k = 0; k < r->loop.carried; k++) {
    int64_t first;
    r->states[k] = r->stacks[k] = -1;
    if (is_unread(&r->loop, k)) continue;
    if (body->outputs[1 + k] == body->params[2 + k] || r->lists[k] != CARNOT_LIST_OTHER ||
        carnot_loop_counts(&r->loop, k, &first))
      continue;
    r->states[k] = r->state_count++;
    add_input(r, body->params[2 + k], node->inputs[2 + k]);
    r->results[r->result_count++] = body->outputs[1 + k];
  }
  for (int i = 2 + r->loop.carried; i < node->input_count; i++)
    add_input(r, body->params[i], node->inputs[i]);
  for (int k = 0; k < r->loop.carried; k++)
    if (body->outputs[1 + k] == body->params[2 + k]) {
      add_input(r, body->params[2 + k], node->inputs[2 + k]);
      carnot_value_replace(node->outputs[k], node->inputs[2 + k]);
    }
}

// ---- nodes that do not change ----

static bool may_move(const carnot_node* node) {
  switch (node->op) {
    case CARNOT_OP_SPLIT:
    case CARNOT_OP_SQUEEZE:
    case CARNOT_OP_UNSQUEEZE:
    case CARNOT_OP_RESHAPE:
    case CARNOT_OP_SLICE:
    case CARNOT_OP_TRANSPOSE:
    case CARNOT_OP_CAST:
    case CARNOT_OP_IDENTITY: return true;
    default: return carnot_node_fn(node) != CARNOT_FN_COUNT;
  }
}

static carnot_value* moved_input(rewrite* r, carnot_value* value, bool* out_moves) {
  if (!value) return NULL;
  if (value->constant) return carnot_loop_outer(&r->loop, value);
  for (int i = 2 + r->state_count; i < r->param_count; i++)
    if (r->params[i] == value) return r->inputs[i];
  *out_moves = false;
  return NULL;
}

// Moves |node| out of the body where all it reads is the same in every iteration.
static carnot_status* move_out(rewrite* r, carnot_node* node) {
  enum { kMostInputs = 8 };
  carnot_value* inputs[kMostInputs];
  bool moves = may_move(node) && node->input_count <= kMostInputs &&
               r->param_count + node->output_count <= r->room,
       reads = false;
  for (int i = 0; i < node->input_count && moves; i++) {
    reads |= node->inputs[i] && !node->inputs[i]->constant;
    inputs[i] = moved_input(r, node->inputs[i], &moves);
  }
  for (int i = 0; i < node->output_count; i++) moves &= node->outputs[i] != NULL;
  if (!moves || !reads) return NULL;
  carnot_node* outside;
  CARNOT_TRY(carnot_node_insert_before(r->loop.node, node->op, node->name, &node->attrs, inputs,
                                       node->input_count, node->output_count, &outside));
  for (int i = 0; i < node->output_count; i++) {
    carnot_value* param = carnot_block_add_param(r->loop.body, NULL, &node->outputs[i]->type);
    CARNOT_TRY(carnot_graph_status(node->block->graph));
    carnot_value_replace(node->outputs[i], param);
    add_input(r, param, outside->outputs[i]);
  }
  carnot_node_remove(node);
  return NULL;
}

// ---- the new loop ----

// Each list is a stacked result, but for one that keeps the last value of a state.
static void add_stacks(rewrite* r) {
  const carnot_loop* loop = &r->loop;
  for (size_t i = 1 + (size_t)loop->carried; i < loop->body->output_count; i++)
    r->results[r->result_count++] = loop->body->outputs[i];
  for (int k = 0; k < loop->carried; k++) {
    if (r->lists[k] == CARNOT_LIST_OTHER) continue;
    for (int s = 0; s < loop->carried && r->lists[k] == CARNOT_LIST_LAST; s++)
      if (r->states[s] >= 0 && loop->body->outputs[1 + s] == r->items[k]) r->states[k] = s;
    if (r->states[k] >= 0) continue;
    r->stacks[k] = r->result_count - 1;
    r->results[r->result_count++] = r->items[k];
  }
}

static void change_body(rewrite* r) {
  carnot_block* body = r->loop.body;
  for (size_t i = 0; i < body->output_count; i++) body->outputs[i]->block_output_count--;
  body->params = r->params;
  body->param_count = body->param_capacity = (size_t)r->param_count;
  body->outputs = r->results;
  body->output_count = body->output_capacity = (size_t)r->result_count;
  for (int i = 0; i < r->result_count; i++) r->results[i]->block_output_count++;
  for (carnot_node *node = body->last, *previous; node; node = previous) {
    previous = node->previous;
    bool read = (carnot_node_row(node)->flags & CARNOT_OP_SIDE_EFFECT) != 0;
    for (int i = 0; i < node->output_count; i++)
      read |= node->outputs[i] && carnot_value_used(node->outputs[i]);
    if (!read) carnot_node_remove(node);
  }
}

static carnot_status* insert_loop(rewrite* r, carnot_node** out_node) {
  const int stacks = r->result_count - 1 - r->state_count;
  carnot_attrs attrs = {0};
  carnot_attrs_set(&attrs, r->arena,
                   (carnot_attr){.name = "body", .type = CARNOT_ATTR_BLOCK, .block = r->loop.body});
  carnot_attrs_set_int(&attrs, r->arena, "carried", r->state_count);
  carnot_attrs_set_int(&attrs, r->arena, "counted", 1);
  carnot_control_note_items(&attrs, r->arena, r->results + 1 + r->state_count, (size_t)stacks);
  return carnot_node_insert_before(r->loop.node, CARNOT_OP_LOOP, r->loop.node->name, &attrs,
                                   r->inputs, r->param_count, r->result_count - 1, out_node);
}

static void take_result(carnot_value* from, carnot_value* to) {
  to->name = from->name;
  carnot_value_replace(from, to);
}

// |first| and the elements behind it.
static carnot_value* grown(carnot_emitter* e, carnot_value* first, carnot_value* stacked) {
  if (carnot_sym_is(first->type.dims[0], 0)) return stacked;
  return carnot_emit_concat(e, 0, (carnot_value*[]){first, stacked}, 2);
}

static carnot_status* move_readers(rewrite* r, carnot_node* loop) {
  carnot_node* old = r->loop.node;
  carnot_emitter e = {.at = old};
  const int carried = r->loop.carried;
  for (int k = 0; k < carried && !e.status; k++) {
    carnot_value* result = old->outputs[k];
    if (r->lists[k] == CARNOT_LIST_OTHER) {
      if (r->states[k] >= 0) take_result(result, loop->outputs[r->states[k]]);
      continue;
    }
    e.at = old;
    carnot_value* stacked = NULL;
    if (r->lists[k] == CARNOT_LIST_JOINS) {
      carnot_value* whole = grown(&e, old->inputs[2 + k], loop->outputs[r->stacks[k]]);
      if (whole) take_result(result, whole);
      continue;
    }
    if (r->stacks[k] < 0)
      stacked = carnot_emit_unsqueeze(&e, loop->outputs[r->states[r->states[k]]], 0);
    else if (r->lists[k] == CARNOT_LIST_LAST)
      stacked = carnot_emit_slice(&e, loop->outputs[r->stacks[k]], 0, -1, INT64_MAX);
    else
      stacked = loop->outputs[r->stacks[k]];
    if (stacked) carnot_loop_list_replace(&e, result, stacked);
  }
  for (int i = carried; i < old->output_count; i++)
    take_result(old->outputs[i], loop->outputs[r->state_count + i - carried]);
  return e.status;
}

carnot_status* carnot_loop_simplify(carnot_node* node, carnot_node** out_node) {
  rewrite r = {.loop = carnot_loop_of(node), .e = {.at = node}};
  *out_node = node;
  for (int i = 2; i < node->input_count; i++)
    if (!node->inputs[i]) return NULL;
  for (int i = 0; i < node->output_count; i++)
    if (!node->outputs[i]) return NULL;
  if (!r.loop.body->first) return NULL;
  r.trips = carnot_loop_trips(&r.loop, &r.e);
  if (r.e.status || !r.trips) return r.e.status;
  CARNOT_TRY(start(&r));
  sort_carried(&r);
  add_stacks(&r);
  for (int k = 0; k < r.loop.carried; k++) {
    int64_t first;
    if (carnot_loop_counts(&r.loop, k, &first)) count_by_iteration(&r, k, first);
  }
  CARNOT_TRY(r.e.status);
  for (carnot_node *inner = r.loop.body->first, *next; inner; inner = next) {
    next = inner->next;
    CARNOT_TRY(move_out(&r, inner));
  }
  if (r.result_count > 1) {
    change_body(&r);
    CARNOT_TRY(insert_loop(&r, out_node));
    CARNOT_TRY(move_readers(&r, *out_node));
  } else {
    *out_node = NULL;
  }
  carnot_node_remove(node);
  return NULL;
}

// ---- the pass ----

static carnot_status* visit(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  bool changed = false;
  for (carnot_node *node = block->first, *next; node; node = next) {
    if (changed) CARNOT_TRY(carnot_node_infer(node));
    next = node->next;
    if (node->op != CARNOT_OP_LOOP) continue;
    bool fused = false;
    carnot_node* simple;
    CARNOT_TRY(carnot_loop_simplify(node, &simple));
    changed |= simple != node;
    if (!simple) continue;
    next = simple->next;
    CARNOT_TRY(carnot_loop_fuse_recurrent(simple, options->refit, &fused));
    changed |= fused;
  }
  return NULL;
}

carnot_status* carnot_pass_simplify_loops(carnot_graph* graph, const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, (void*)(uintptr_t)options));
  return carnot_pass_dce(graph, options);
}
