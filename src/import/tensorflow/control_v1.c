// Control flow of TensorFlow 1: loops of Enter, Merge, Switch, NextIteration and Exit become LOOP,
// Merge of two Switch outside of loops becomes IF. Source: Yu et al., Dynamic Control Flow in
// Large-Scale Machine Learning (EuroSys 2018), section 4.
#include <string.h>

#include "import/tensorflow/rows.h"
#include "import/tensorflow/scope.h"

enum { kMostVariables = 128 };

static tf_slot* slot_named(const tf_scope* scope, carnot_strview text) {
  if (text.size && text.data[0] == '^') text.data++, text.size--;
  const char* colon = text.size ? memchr(text.data, ':', text.size) : NULL;
  if (colon) text.size = (size_t)(colon - text.data);
  const import_name_slot* found = import_name_map_find(&scope->nodes, text);
  return found ? found->item : NULL;
}

static tf_slot* input_slot(const tf_scope* scope, const tf_slot* slot, size_t input) {
  return slot && input < slot->proto->input.count
             ? slot_named(scope, slot->proto->input.items[input])
             : NULL;
}

static bool is_op(const tf_slot* slot, const char* op) {
  if (!slot) return false;
  carnot_strview name = slot->proto->op;
  // The forms for references are the same.
  if (name.size > 3 && memcmp(name.data, "Ref", 3) == 0) name.data += 3, name.size -= 3;
  return carnot_view_is(name, op);
}

// Gives a node its results, so that what it is computed from is not imported.
static carnot_status* preset(tf_importer* importer, tf_slot* slot, carnot_value* first,
                             carnot_value* second) {
  void* outputs;
  CARNOT_TRY(
      carnot_arena_try(&importer->state.arena, 2, sizeof(carnot_value*), "results", &outputs));
  slot->outputs = outputs;
  slot->outputs[0] = first;
  slot->outputs[1] = second;
  slot->output_count = first == &import_poison ? 1 : 2;
  slot->state = TF_DONE;
  return NULL;
}

// The same nodes again, to be imported into |block|.
static carnot_status* inner_scope(tf_import* n, carnot_block* block, tf_scope* out) {
  const tf_scope* outer = n->scope;
  CARNOT_CHECK(outer->depth < TF_MOST_DEPTH, INVALID_MODEL,
               "loops and conditionals nested more than %d deep", TF_MOST_DEPTH);
  *out = (tf_scope){.function = outer->function, .depth = outer->depth + 1, .outer = n->scope};
  out->prefix = outer->prefix;
  CARNOT_TRY(tf_scope_init(n->importer, out, outer->node_list, block));
  // Arguments of a function are values of the block around: they are captured when asked for.
  return NULL;
}

static carnot_value* new_param(tf_import* n, carnot_block* block, const carnot_type* type) {
  const char* name = import_unique_name(
      n->node.state, "", carnot_view(carnot_arena_print(n->node.arena, "%s/arg", n->node.name)));
  return carnot_block_add_param(block, name, type);
}

static void poison(tf_import* n) {
  n->output_count = 1;
  n->outputs[0] = &import_poison;
}

static void fail(tf_import* n, carnot_status* status) {
  if (!status) return;
  if (n->node.status)
    carnot_status_free(status);
  else
    n->node.status = status, n->node.placed = true;
}

// ---- loops ----

typedef struct variable {
  tf_slot *enter, *merge, *branch, *next, *exit;  // of the scope around; exit may be NULL
} variable;

typedef struct frame {
  tf_slot* condition;  // LoopCond
  variable variables[kMostVariables];
  int count;
  tf_slot* constants[kMostVariables];  // Enter of values that stay the same
  int constant_count;
  carnot_strview name;
} frame;

static carnot_strview frame_name(const tf_slot* enter) {
  const tf_attr_value* value = tf_attr_find(enter->proto, "frame_name");
  return value ? value->s : (carnot_strview){NULL, 0};
}

// The frame of |exit|: every Switch of its condition is a variable.
static bool find_frame(tf_import* n, tf_slot* exit, frame* f) {
  tf_scope* scope = n->scope;
  tf_slot* branch = input_slot(scope, exit, 0);
  *f = (frame){.condition = input_slot(scope, branch, 1)};
  if (!is_op(branch, "Switch") || !is_op(f->condition, "LoopCond")) {
    TF_FAIL(n, INVALID_MODEL, "it does not belong to a loop");
    return false;
  }
  for (size_t i = 0; i < scope->slot_count; i++) {
    tf_slot* slot = &scope->slots[i];
    if (!is_op(slot, "Switch") || input_slot(scope, slot, 1) != f->condition) continue;
    variable v = {.branch = slot, .merge = input_slot(scope, slot, 0)};
    v.enter = input_slot(scope, v.merge, 0);
    v.next = input_slot(scope, v.merge, 1);
    if (is_op(v.enter, "NextIteration")) {
      tf_slot* other = v.enter;
      v.enter = v.next, v.next = other;
    }
    if (!is_op(v.merge, "Merge") || !is_op(v.enter, "Enter") || !is_op(v.next, "NextIteration") ||
        f->count == kMostVariables) {
      TF_FAIL(n, UNSUPPORTED, "a loop of another form, or of more than %d variables",
              kMostVariables);
      return false;
    }
    f->name = frame_name(v.enter);
    f->variables[f->count++] = v;
  }
  for (size_t i = 0; i < scope->slot_count; i++) {
    tf_slot* slot = &scope->slots[i];
    if (is_op(slot, "Exit"))
      for (int k = 0; k < f->count; k++)
        if (input_slot(scope, slot, 0) == f->variables[k].branch) f->variables[k].exit = slot;
    const tf_attr_value* constant = tf_attr_find(slot->proto, "is_constant");
    if (!is_op(slot, "Enter") || !constant || !constant->b ||
        !carnot_view_equal(frame_name(slot), f->name))
      continue;
    if (f->constant_count == kMostVariables) {
      TF_FAIL(n, UNSUPPORTED, "a loop of more than %d invariants", kMostVariables);
      return false;
    }
    f->constants[f->constant_count++] = slot;
  }
  return f->count > 0;
}

static bool is_read(const tf_scope* scope, const tf_slot* slot) {
  for (size_t i = 0; i < scope->slot_count; i++)
    for (size_t k = 0; k < scope->slots[i].proto->input.count; k++)
      if (slot_named(scope, scope->slots[i].proto->input.items[k]) == slot) return true;
  return false;
}

// The variable that |slot| is the Merge or the Switch of; -1: none.
static int variable_of(const frame* f, const tf_slot* slot) {
  for (int i = 0; i < f->count; i++)
    if (slot == f->variables[i].merge || slot == f->variables[i].branch) return i;
  return -1;
}

typedef struct walk {
  tf_slot** stack;
  size_t depth;
  bool* seen;  // by slot
} walk;

static void visit(const tf_scope* scope, walk* w, tf_slot* slot) {
  if (!slot || w->seen[slot - scope->slots]) return;
  w->seen[slot - scope->slots] = true;
  w->stack[w->depth++] = slot;
}

// Leaves out variables that neither the condition nor a result that is read depends on.
static carnot_status* keep_needed(tf_import* n, frame* f, const tf_slot* own) {
  const tf_scope* scope = n->scope;
  void *stack, *seen;
  bool needed[kMostVariables] = {false};
  const size_t total = scope->slot_count + 1;
  CARNOT_TRY(carnot_arena_try(&n->node.state->arena, total, sizeof(tf_slot*), "a walk", &stack));
  CARNOT_TRY(carnot_arena_try(&n->node.state->arena, total, sizeof(bool), "a walk", &seen));
  walk w = {.stack = stack, .seen = seen};
  visit(scope, &w, input_slot(scope, f->condition, 0));
  for (int i = 0; i < f->count; i++) {
    const tf_slot* exit = f->variables[i].exit;
    if (exit && (exit == own || is_read(scope, exit))) visit(scope, &w, f->variables[i].branch);
  }
  while (w.depth) {
    tf_slot* slot = w.stack[--w.depth];
    const int variable = variable_of(f, slot);
    if (variable >= 0) {
      needed[variable] = true;
      visit(scope, &w, input_slot(scope, f->variables[variable].next, 0));
    } else if (!is_op(slot, "Enter") || !carnot_view_equal(frame_name(slot), f->name)) {
      for (size_t i = 0; i < slot->proto->input.count; i++)
        if (slot->proto->input.items[i].size && slot->proto->input.items[i].data[0] != '^')
          visit(scope, &w, input_slot(scope, slot, i));
    }
  }
  int kept = 0;
  for (int i = 0; i < f->count; i++)
    if (needed[i]) f->variables[kept++] = f->variables[i];
  f->count = kept;
  return NULL;
}

static tf_slot* twin(const tf_scope* scope, const tf_slot* slot) {
  return slot_named(scope, slot->proto->name);
}

// Values of the frame in |scope|: of the variables, and of the invariants.
static carnot_status* bind_frame(tf_import* n, tf_scope* scope, const frame* f,
                                 carnot_value* const* variables, carnot_value* const* constants) {
  for (int i = 0; i < f->count; i++) {
    CARNOT_TRY(preset(n->importer, twin(scope, f->variables[i].merge), variables[i], NULL));
    CARNOT_TRY(
        preset(n->importer, twin(scope, f->variables[i].branch), variables[i], variables[i]));
  }
  for (int i = 0; i < f->constant_count; i++)
    if (constants[i])
      CARNOT_TRY(preset(n->importer, twin(scope, f->constants[i]), constants[i], NULL));
  return NULL;
}

// Whether the loop goes on with these values.
static carnot_status* condition_of(tf_import* n, carnot_block* block, const frame* f,
                                   carnot_value* const* variables, carnot_value* const* constants,
                                   carnot_value** out) {
  tf_scope scope;
  CARNOT_TRY(inner_scope(n, block, &scope));
  CARNOT_TRY(bind_frame(n, &scope, f, variables, constants));
  return tf_scope_value(n->importer, &scope, f->condition->proto->input.items[0], out);
}

static bool widen(tf_import* n, carnot_type* type, const carnot_type* next) {
  bool changed = false;
  if (type->kind != CARNOT_VALUE_TENSOR || next->kind != CARNOT_VALUE_TENSOR || type->rank < 0)
    return false;
  if (next->rank != type->rank) {
    type->rank = -1;
    return true;
  }
  for (int i = 0; i < type->rank; i++) {
    if (carnot_sym_same(type->dims[i], next->dims[i]) || !carnot_sym_is_const(type->dims[i]))
      continue;
    type->dims[i] = carnot_sym_new(&n->node.state->graph->syms, NULL, 0, CARNOT_DIM_UNBOUNDED);
    changed = true;
  }
  return changed;
}

typedef struct loop_body {
  carnot_block* block;
  carnot_value* results[kMostVariables];
  bool is_poisoned;
} loop_body;

static carnot_status* make_body(tf_import* n, const frame* f, const carnot_type* types,
                                carnot_value* const* constants, loop_body* out) {
  carnot_value *variables[kMostVariables], *inner[kMostVariables], *again = NULL;
  tf_scope scope;
  *out = (loop_body){.block = carnot_block_create(n->node.state->graph)};
  const carnot_type iteration = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_I64},
                    condition = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_BOOL};
  new_param(n, out->block, &iteration);
  new_param(n, out->block, &condition);
  for (int i = 0; i < f->count; i++) variables[i] = new_param(n, out->block, &types[i]);
  for (int i = 0; i < f->constant_count; i++)
    inner[i] = new_param(n, out->block, &constants[i]->type);
  CARNOT_TRY(inner_scope(n, out->block, &scope));
  CARNOT_TRY(bind_frame(n, &scope, f, variables, inner));
  for (int i = 0; i < f->count; i++) {
    CARNOT_TRY(tf_scope_value(n->importer, &scope, f->variables[i].next->proto->input.items[0],
                              &out->results[i]));
    out->is_poisoned |= out->results[i] == &import_poison;
  }
  if (out->is_poisoned) return NULL;
  CARNOT_TRY(condition_of(n, out->block, f, out->results, inner, &again));
  out->is_poisoned = again == &import_poison;
  if (out->is_poisoned) return NULL;
  carnot_block_add_output(out->block, again);
  for (int i = 0; i < f->count; i++) carnot_block_add_output(out->block, out->results[i]);
  return NULL;
}

// What the loop begins with, and its invariants.
static carnot_status* outer_values(tf_import* n, const frame* f, carnot_value** first,
                                   carnot_value** constants, bool* out_poisoned) {
  for (int i = 0; i < f->count + f->constant_count; i++) {
    const tf_slot* enter = i < f->count ? f->variables[i].enter : f->constants[i - f->count];
    carnot_value** to = i < f->count ? &first[i] : &constants[i - f->count];
    CARNOT_TRY(tf_scope_value(n->importer, n->scope, enter->proto->input.items[0], to));
    *out_poisoned |= *to == &import_poison;
  }
  return NULL;
}

static carnot_status* make_loop(tf_import* n, const frame* f, carnot_value** results) {
  enum { kMostAttempts = 4 };
  carnot_value *first[kMostVariables], *constants[kMostVariables], *start = NULL;
  carnot_value* inputs[2 * kMostVariables + 2];
  carnot_type types[kMostVariables];
  bool poisoned = false, changed = true;
  loop_body body = {0};
  results[0] = &import_poison;
  CARNOT_TRY(outer_values(n, f, first, constants, &poisoned));
  if (poisoned) return NULL;
  CARNOT_TRY(condition_of(n, n->node.block, f, first, constants, &start));
  if (start == &import_poison) return NULL;
  for (int i = 0; i < f->count; i++) types[i] = first[i]->type;
  for (int attempt = 0; changed && attempt < kMostAttempts; attempt++) {
    CARNOT_TRY(make_body(n, f, types, constants, &body));
    if (body.is_poisoned) return NULL;
    changed = false;
    for (int i = 0; i < f->count; i++) {
      CARNOT_CHECK(types[i].kind == body.results[i]->type.kind &&
                       types[i].dtype == body.results[i]->type.dtype,
                   INVALID_MODEL,
                   "node \"" CARNOT_VIEW_FMT "\": the loop variable begins as %s and goes on as %s",
                   CARNOT_VIEW_ARG(f->variables[i].next->proto->name),
                   carnot_dtype_name(types[i].dtype),
                   carnot_dtype_name(body.results[i]->type.dtype));
      changed |= widen(n, &types[i], &body.results[i]->type);
    }
  }
  int count = 0;
  inputs[count++] = NULL;
  inputs[count++] = start;
  for (int i = 0; i < f->count; i++) inputs[count++] = first[i];
  for (int i = 0; i < f->constant_count; i++) inputs[count++] = constants[i];
  carnot_attrs attrs = {0};
  carnot_attrs_set(&attrs, n->node.arena,
                   (carnot_attr){.name = "body", .type = CARNOT_ATTR_BLOCK, .block = body.block});
  carnot_attrs_set_int(&attrs, n->node.arena, "carried", f->count);
  import_emit(&n->node, CARNOT_OP_LOOP, &attrs, inputs, count, results, f->count);
  return NULL;
}

static void handle_exit(tf_import* n) {
  frame f;
  carnot_value* results[kMostVariables];
  tf_slot* own = slot_named(n->scope, n->proto->name);
  if (!find_frame(n, own, &f)) return;
  fail(n, keep_needed(n, &f, own));
  if (n->node.status) return;
  fail(n, make_loop(n, &f, results));
  if (n->node.status) return;
  const bool poisoned = results[0] == &import_poison;
  for (int i = 0; i < f.count; i++) {
    tf_slot* exit = f.variables[i].exit;
    carnot_value* value = poisoned ? &import_poison : results[i];
    if (exit == own)
      n->outputs[0] = value;
    else if (exit && exit->state == TF_NEW)
      fail(n, preset(n->importer, exit, value, NULL));
  }
  if (poisoned) poison(n);
}

// ---- conditionals ----

// What a Switch decides by, past the Identity nodes that TensorFlow gives conditions.
static const tf_slot* condition_slot(const tf_scope* scope, const tf_slot* branch) {
  const tf_slot* slot = input_slot(scope, branch, 1);
  for (size_t i = 0; i < scope->slot_count && is_op(slot, "Identity"); i++) {
    const tf_slot* before = input_slot(scope, slot, 0);
    if (!before) break;
    slot = before;
  }
  return slot;
}

// The Switch that decides which input of a Merge there is: back along one path, past conditionals
// and loops in the branch. |side| is the result of the Switch that the path comes from.
static tf_slot* deciding_switch(const tf_scope* scope, const tf_slot* merge, carnot_strview from,
                                int* out_side) {
  int inner = 0;
  carnot_strview text = from;
  for (size_t steps = 0; steps <= 4 * scope->slot_count; steps++) {
    const tf_slot* slot = slot_named(scope, text);
    if (!slot || slot == merge) return NULL;
    if (is_op(slot, "Switch") && inner == 0) {
      *out_side = text.size > 2 && memcmp(text.data + text.size - 2, ":1", 2) == 0;
      return (tf_slot*)(uintptr_t)slot;
    }
    if (is_op(slot, "Switch")) inner--;
    if (is_op(slot, "Merge")) inner++;
    const tf_slot* at = slot;
    if (is_op(slot, "Exit")) {  // to what the loop begins with
      at = input_slot(scope, input_slot(scope, slot, 0), 0);
      at = input_slot(scope, at, 0);
      if (is_op(at, "NextIteration")) return NULL;
    }
    if (!at || at->proto->input.count == 0) return NULL;
    text = at->proto->input.items[0];
  }
  return NULL;
}

// The side of each input of |merge| and the Switch that decides; NULL where the form is another.
static tf_slot* find_decision(const tf_scope* scope, const tf_slot* merge, int* out_true_input) {
  int sides[2] = {-1, -1};
  tf_slot* found[2];
  for (int i = 0; i < 2; i++)
    found[i] = deciding_switch(scope, merge, merge->proto->input.items[i], &sides[i]);
  tf_slot* decision = found[0] ? found[0] : found[1];
  if (!decision) return NULL;
  if (found[0] && found[1] && sides[0] == sides[1]) return NULL;
  *out_true_input = found[0] ? (sides[0] ? 0 : 1) : (sides[1] ? 1 : 0);
  return decision;
}

// In a branch a Switch of its condition gives what it is given outside, as a parameter.
static carnot_status* capture(tf_import* n, tf_scope* scope, const tf_slot* slot,
                              carnot_value** given, carnot_value** inner, int* count) {
  carnot_value* value = NULL;
  CARNOT_CHECK(*count < kMostVariables, UNSUPPORTED, "a branch reads more than %d values",
               kMostVariables);
  CARNOT_TRY(tf_scope_value(n->importer, n->scope, slot->proto->input.items[0], &value));
  if (value == &import_poison) return preset(n->importer, twin(scope, slot), &import_poison, NULL);
  given[*count] = value;
  inner[*count] = new_param(n, scope->block, &value->type);
  CARNOT_TRY(preset(n->importer, twin(scope, slot), inner[*count], inner[*count]));
  (*count)++;
  return NULL;
}

// Marks what |text| needs, up to Switch nodes of the condition |condition|, which are captured.
static carnot_status* capture_needed(tf_import* n, tf_scope* scope, carnot_strview text,
                                     const tf_slot* condition, carnot_value** given,
                                     carnot_value** inner, int* count) {
  const size_t total = n->scope->slot_count;
  void *stack, *seen;
  size_t depth = 0;
  CARNOT_TRY(
      carnot_arena_try(&n->node.state->arena, total + 1, sizeof(tf_slot*), "a walk", &stack));
  CARNOT_TRY(carnot_arena_try(&n->node.state->arena, total + 1, sizeof(bool), "a walk", &seen));
  tf_slot **path = stack, *first = slot_named(n->scope, text);
  bool* visited = seen;
  if (first) path[depth++] = first, visited[first - n->scope->slots] = true;
  while (depth) {
    tf_slot* slot = path[--depth];
    if (is_op(slot, "Switch") && condition_slot(n->scope, slot) == condition) {
      CARNOT_TRY(capture(n, scope, slot, given, inner, count));
      continue;
    }
    for (size_t i = 0; i < slot->proto->input.count; i++) {
      const carnot_strview input = slot->proto->input.items[i];
      tf_slot* needed = input.size && input.data[0] == '^' ? NULL : slot_named(n->scope, input);
      if (!needed || visited[needed - n->scope->slots]) continue;
      visited[needed - n->scope->slots] = true;
      path[depth++] = needed;
    }
  }
  return NULL;
}

typedef struct branch {
  carnot_block* block;
  carnot_value* given[kMostVariables];
  int count;
  carnot_value* result;
} branch;

static carnot_status* make_branch(tf_import* n, carnot_strview text, const tf_slot* condition,
                                  branch* b) {
  carnot_value* inner[kMostVariables];
  tf_scope scope;
  *b = (branch){.block = carnot_block_create(n->node.state->graph)};
  CARNOT_TRY(inner_scope(n, b->block, &scope));
  CARNOT_TRY(capture_needed(n, &scope, text, condition, b->given, inner, &b->count));
  CARNOT_TRY(tf_scope_value(n->importer, &scope, text, &b->result));
  if (b->result != &import_poison) carnot_block_add_output(b->block, b->result);
  return NULL;
}

static carnot_status* make_if(tf_import* n, const tf_slot* decision, const tf_slot* merge,
                              int true_input) {
  branch branches[2];
  carnot_value *condition = NULL, *inputs[2 * kMostVariables + 1];
  const tf_slot* by = condition_slot(n->scope, decision);
  CARNOT_TRY(tf_scope_value(n->importer, n->scope, decision->proto->input.items[1], &condition));
  for (int i = 0; i < 2; i++)
    CARNOT_TRY(make_branch(n, merge->proto->input.items[i ? 1 - true_input : true_input], by,
                           &branches[i]));
  if (condition == &import_poison || branches[0].result == &import_poison ||
      branches[1].result == &import_poison) {
    poison(n);
    return NULL;
  }
  int count = 0;
  inputs[count++] = condition;
  for (int b = 0; b < 2; b++)
    for (int i = 0; i < branches[b].count; i++) inputs[count++] = branches[b].given[i];
  carnot_attrs attrs = {0};
  static const char* const kNames[] = {"then_branch", "else_branch"};
  for (int b = 0; b < 2; b++)
    carnot_attrs_set(
        &attrs, n->node.arena,
        (carnot_attr){.name = kNames[b], .type = CARNOT_ATTR_BLOCK, .block = branches[b].block});
  carnot_attrs_set_int(&attrs, n->node.arena, "then_inputs", branches[0].count);
  import_emit(&n->node, CARNOT_OP_IF, &attrs, inputs, count, n->outputs, 1);
  if (n->node.status) return NULL;
  // The second result says which input it was.
  carnot_value* index = import_cast(&n->node, condition, CARNOT_DTYPE_I32);
  if (true_input == 0)
    index = import_binary(&n->node, CARNOT_FN_SUB, import_number(&n->node, index, 1), index);
  n->outputs[1] = index;
  n->output_count = 2;
  return NULL;
}

static void handle_merge(tf_import* n) {
  const tf_slot* merge = slot_named(n->scope, n->proto->name);
  int true_input = 0;
  if (n->proto->input.count < 2) {
    TF_FAIL(n, INVALID_MODEL, "%zu inputs; 2 are required", n->proto->input.count);
    return;
  }
  const tf_slot* decision = find_decision(n->scope, merge, &true_input);
  if (!decision) {
    TF_FAIL(n, UNSUPPORTED, "no Switch decides between its inputs");
    return;
  }
  fail(n, make_if(n, decision, merge, true_input));
}

// Outside of the branches of its condition a Switch passes its value on: dead branches are not
// asked for.
static void handle_switch(tf_import* n) {
  n->outputs[0] = n->outputs[1] = n->inputs[0];
  n->output_count = 2;
}

static void handle_passed(tf_import* n) { n->outputs[0] = n->inputs[0]; }

#define LAZY TF_INPUTS_ON_DEMAND
static const tf_row kRows[] = {
    {"Exit", handle_exit, LAZY, 1, 0, NULL, NULL},
    {"RefExit", handle_exit, LAZY, 1, 0, NULL, NULL},
    {"Merge", handle_merge, LAZY, 2, 0, NULL, "output value_index"},
    {"RefMerge", handle_merge, LAZY, 2, 0, NULL, "output value_index"},
    {"Switch", handle_switch, 2, 2, 0, NULL, "output_false output_true"},
    {"RefSwitch", handle_switch, 2, 2, 0, NULL, "output_false output_true"},
    {"Enter", handle_passed, 1, 1, 0, NULL, NULL},
    {"RefEnter", handle_passed, 1, 1, 0, NULL, NULL},
    {"LoopCond", handle_passed, 1, 1, 0, NULL, NULL},
};
const tf_row_table tf_rows_control_v1 = TF_ROW_TABLE(kRows);
