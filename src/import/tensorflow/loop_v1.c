// Loops of TensorFlow 1: Enter, Merge, Switch, NextIteration and Exit of a frame become LOOP.
// Source: Yu et al., Dynamic Control Flow in Large-Scale Machine Learning (EuroSys 2018),
// section 4.
#include "import/tensorflow/complex.h"
#include "import/tensorflow/control.h"

typedef struct variable {
  tf_slot *enter, *merge, *branch, *next, *exit;  // of the scope around; exit may be NULL
} variable;

typedef struct frame {
  tf_slot* condition;  // LoopCond
  variable variables[TF_MOST_VARIABLES];
  int count;
  tf_slot* constants[TF_MOST_VARIABLES];  // Enter of values that stay the same
  int constant_count;
  carnot_strview name;
} frame;

static carnot_strview frame_name(const tf_slot* enter) {
  const tf_attr_value* value = tf_attr_find(enter->proto, "frame_name");
  return value ? value->s : (carnot_strview){NULL, 0};
}

// The variable whose Switch is |branch|; false where the form is another.
static bool read_variable(const tf_scope* scope, tf_slot* branch, variable* out) {
  variable v = {.branch = branch, .merge = tf_slot_input(scope, branch, 0)};
  v.enter = tf_slot_input(scope, v.merge, 0);
  v.next = tf_slot_input(scope, v.merge, 1);
  if (tf_slot_is(v.enter, "NextIteration")) {
    tf_slot* other = v.enter;
    v.enter = v.next, v.next = other;
  }
  *out = v;
  return tf_slot_is(v.merge, "Merge") && tf_slot_is(v.enter, "Enter") &&
         tf_slot_is(v.next, "NextIteration");
}

static bool is_invariant(const frame* f, const tf_slot* slot) {
  const tf_attr_value* constant = tf_attr_find(slot->proto, "is_constant");
  return tf_slot_is(slot, "Enter") && constant && constant->b &&
         carnot_view_equal(frame_name(slot), f->name);
}

// The frame of |exit|: every Switch of its condition is a variable. Returns why it is none, or
// NULL.
static const char* find_frame(const tf_scope* scope, const tf_slot* exit, frame* f) {
  const tf_scope* root = scope->root;
  tf_slot* branch = tf_slot_input(scope, exit, 0);
  *f = (frame){.condition = tf_slot_input(scope, branch, 1)};
  if (!tf_slot_is(branch, "Switch") || !tf_slot_is(f->condition, "LoopCond"))
    return "it does not belong to a loop";
  for (size_t i = 0; i < root->slot_count; i++) {
    tf_slot* slot = &root->slots[i];
    variable v;
    if (!tf_slot_is(slot, "Switch") || tf_slot_input(scope, slot, 1) != f->condition) continue;
    if (!read_variable(scope, slot, &v)) return "a loop of another form";
    if (f->count == TF_MOST_VARIABLES) return "a loop of more than 128 variables";
    f->name = frame_name(v.enter);
    f->variables[f->count++] = v;
  }
  for (size_t i = 0; i < root->slot_count; i++) {
    tf_slot* slot = &root->slots[i];
    if (tf_slot_is(slot, "Exit"))
      for (int k = 0; k < f->count; k++)
        if (tf_slot_input(scope, slot, 0) == f->variables[k].branch) f->variables[k].exit = slot;
    if (!is_invariant(f, slot)) continue;
    if (f->constant_count == TF_MOST_VARIABLES) return "a loop of more than 128 invariants";
    f->constants[f->constant_count++] = slot;
  }
  return f->count > 0 ? NULL : "a loop of no variables";
}

// Marks the nodes that others read.
static void mark_reads(tf_scope* root) {
  for (size_t i = 0; i < root->slot_count && !root->reads_known; i++)
    for (size_t k = 0; k < root->slots[i].proto->input.count; k++) {
      tf_slot* read = tf_slot_named(root, root->slots[i].proto->input.items[k]);
      if (read) read->is_read = true;
    }
  root->reads_known = true;
}

// The variable that |slot| is the Merge or the Switch of; -1: none.
static int variable_of(const frame* f, const tf_slot* slot) {
  for (int i = 0; i < f->count; i++)
    if (slot == f->variables[i].merge || slot == f->variables[i].branch) return i;
  return -1;
}

// Leaves out variables that neither the condition nor a result that is read depends on.
static void keep_needed(tf_importer* importer, const tf_scope* scope, frame* f,
                        const tf_slot* own) {
  bool needed[TF_MOST_VARIABLES] = {false};
  mark_reads(scope->root);
  tf_walk w = tf_walk_begin(importer, scope);
  tf_walk_visit(&w, tf_slot_input(scope, f->condition, 0));
  for (int i = 0; i < f->count; i++) {
    const tf_slot* exit = f->variables[i].exit;
    if (exit && (exit == own || exit->is_read)) tf_walk_visit(&w, f->variables[i].branch);
  }
  for (tf_slot* slot; (slot = tf_walk_next(&w)) != NULL;) {
    const int variable = variable_of(f, slot);
    if (variable >= 0) {
      needed[variable] = true;
      tf_walk_visit(&w, tf_slot_input(scope, f->variables[variable].next, 0));
    } else if (!tf_slot_is(slot, "Enter") || !carnot_view_equal(frame_name(slot), f->name)) {
      tf_walk_visit_inputs(&w, slot);
    }
  }
  int kept = 0;
  for (int i = 0; i < f->count; i++)
    if (needed[i]) f->variables[kept++] = f->variables[i];
  f->count = kept;
}

size_t tf_exit_needs(tf_importer* importer, tf_scope* scope, tf_slot* slot, carnot_strview* out) {
  frame f;
  size_t count = 0;
  const tf_slot* own = tf_slot_named(scope, slot->proto->name);
  if (find_frame(scope, own, &f)) return 0;
  keep_needed(importer, scope, &f, own);
  for (int i = 0; i < f.count; i++) out[count++] = f.variables[i].enter->proto->input.items[0];
  for (int i = 0; i < f.constant_count; i++) out[count++] = f.constants[i]->proto->input.items[0];
  return count;
}

// Values of the frame in |scope|: of the variables, and of the invariants.
static carnot_status* bind_frame(tf_import* n, tf_scope* scope, const frame* f,
                                 carnot_value* const* variables, carnot_value* const* constants) {
  for (int i = 0; i < f->count; i++) {
    CARNOT_TRY(tf_slot_preset(n->importer, tf_scope_slot(scope, f->variables[i].merge->proto->name),
                              variables[i], 2));
    CARNOT_TRY(tf_slot_preset(
        n->importer, tf_scope_slot(scope, f->variables[i].branch->proto->name), variables[i], 2));
  }
  for (int i = 0; i < f->constant_count; i++)
    if (constants[i])
      CARNOT_TRY(tf_slot_preset(n->importer, tf_scope_slot(scope, f->constants[i]->proto->name),
                                constants[i], 1));
  return NULL;
}

// Whether the loop goes on with these values.
static carnot_status* condition_of(tf_import* n, carnot_block* block, const frame* f,
                                   carnot_value* const* variables, carnot_value* const* constants,
                                   carnot_value** out) {
  tf_scope scope;
  CARNOT_TRY(tf_inner_scope(n, block, &scope));
  CARNOT_TRY(bind_frame(n, &scope, f, variables, constants));
  return tf_scope_value(n->importer, &scope, f->condition->proto->input.items[0], out);
}

typedef struct loop_body {
  carnot_block* block;
  carnot_value* results[TF_MOST_VARIABLES];
  bool is_poisoned;
} loop_body;

static carnot_status* make_body(tf_import* n, const frame* f, const carnot_type* types,
                                carnot_value* const* constants, loop_body* out) {
  carnot_value *variables[TF_MOST_VARIABLES], *inner[TF_MOST_VARIABLES], *again = NULL;
  tf_scope scope;
  *out = (loop_body){.block = carnot_block_create(n->node.state->graph)};
  const carnot_type iteration = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_I64},
                    condition = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_BOOL};
  tf_new_param(n, out->block, &iteration);
  tf_new_param(n, out->block, &condition);
  for (int i = 0; i < f->count; i++) variables[i] = tf_new_param(n, out->block, &types[i]);
  for (int i = 0; i < f->constant_count; i++)
    inner[i] = tf_new_param(n, out->block, &constants[i]->type);
  CARNOT_TRY(tf_inner_scope(n, out->block, &scope));
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
    if (tf_is_handle(*to) || tf_is_complex(*to)) {
      TF_FAIL(n, UNSUPPORTED, "a loop variable is a variable's handle or a complex number");
      return NULL;
    }
  }
  return NULL;
}

// Imports the body of a loop whose values are not supported, so that what is not supported in it is
// named.
static carnot_status* look_into(tf_import* n, const frame* f) {
  carnot_value *values[TF_MOST_VARIABLES], *value;
  tf_scope scope;
  for (int i = 0; i < TF_MOST_VARIABLES; i++) values[i] = &import_poison;
  CARNOT_TRY(tf_inner_scope(n, carnot_block_create(n->node.state->graph), &scope));
  CARNOT_TRY(bind_frame(n, &scope, f, values, values));
  for (int i = 0; i < f->count; i++)
    CARNOT_TRY(
        tf_scope_value(n->importer, &scope, f->variables[i].next->proto->input.items[0], &value));
  return tf_scope_value(n->importer, &scope, f->condition->proto->input.items[0], &value);
}

static carnot_status* make_loop(tf_import* n, const frame* f, carnot_value** results) {
  enum { kMostAttempts = 4 };
  carnot_value *first[TF_MOST_VARIABLES], *constants[TF_MOST_VARIABLES], *start = NULL;
  carnot_value* inputs[2 * TF_MOST_VARIABLES + 2];
  carnot_type types[TF_MOST_VARIABLES];
  bool poisoned = false, changed = true;
  loop_body body = {0};
  results[0] = &import_poison;
  CARNOT_TRY(outer_values(n, f, first, constants, &poisoned));
  if (n->node.status) return NULL;
  if (!poisoned) CARNOT_TRY(condition_of(n, n->node.block, f, first, constants, &start));
  if (poisoned || start == &import_poison) return look_into(n, f);
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
      changed |= tf_widen(n, &types[i], &body.results[i]->type);
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

void tf_handle_exit(tf_import* n) {
  frame f;
  carnot_value* results[TF_MOST_VARIABLES];
  const tf_slot* own = tf_slot_named(n->scope, n->proto->name);
  const char* reason = find_frame(n->scope, own, &f);
  if (reason) {
    TF_FAIL(n, UNSUPPORTED, "%s", reason);
    return;
  }
  keep_needed(n->importer, n->scope, &f, own);
  tf_note_placed(n, make_loop(n, &f, results));
  if (n->node.status) return;
  const bool poisoned = results[0] == &import_poison;
  for (int i = 0; i < f.count; i++) {
    const tf_slot* exit = f.variables[i].exit;
    carnot_value* value = poisoned ? &import_poison : results[i];
    if (exit == own) n->outputs[0] = value;
    tf_slot* other = exit && exit != own ? tf_scope_slot(n->scope, exit->proto->name) : NULL;
    if (other && other->state != TF_DONE)
      tf_note_placed(n, tf_slot_preset(n->importer, other, value, 1));
  }
  if (poisoned) tf_poison(n);
}
