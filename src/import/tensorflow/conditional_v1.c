// Conditionals of TensorFlow 1: a Merge of what two results of a Switch lead to becomes IF. Source:
// Yu et al., Dynamic Control Flow in Large-Scale Machine Learning (EuroSys 2018), section 4.
#include <string.h>

#include "import/tensorflow/case.h"
#include "import/tensorflow/control.h"

// What a Switch decides by, past the Identity nodes that TensorFlow gives conditions.
static const tf_slot* condition_slot(const tf_scope* scope, const tf_slot* branch) {
  const tf_slot* slot = tf_slot_input(scope, branch, 1);
  for (size_t i = 0; i < scope->root->slot_count && tf_slot_is(slot, "Identity"); i++) {
    const tf_slot* before = tf_slot_input(scope, slot, 0);
    if (!before) break;
    slot = before;
  }
  return slot;
}

static bool is_switch(const tf_slot* slot) {
  return tf_slot_is(slot, "Switch") || tf_slot_is(slot, "_SwitchN") ||
         tf_slot_is(slot, "_SwitchRefN");
}

// The Switch that decides which input of a Merge there is: back along one path, past conditionals
// and loops in the branch. |side| is the result of the Switch that the path comes from.
static tf_slot* deciding_switch(const tf_scope* scope, const tf_slot* merge, carnot_strview from,
                                int64_t* out_side) {
  int inner = 0;
  carnot_strview text = from;
  for (size_t steps = 0; steps <= 4 * scope->root->slot_count; steps++) {
    const tf_slot* slot = tf_slot_named(scope, text);
    tf_reference r;
    if (!slot || slot == merge) return NULL;
    if (is_switch(slot) && inner == 0) {
      *out_side = tf_reference_read(text, &r) ? tf_output_number(slot, &r) : -1;
      return (tf_slot*)(uintptr_t)slot;
    }
    if (is_switch(slot)) inner--;
    if (tf_slot_is(slot, "Merge")) inner++;
    const tf_slot* at = slot;
    if (tf_slot_is(slot, "Exit")) {  // to what the loop begins with
      at = tf_slot_input(scope, tf_slot_input(scope, slot, 0), 0);
      at = tf_slot_input(scope, at, 0);
      if (tf_slot_is(at, "NextIteration")) return NULL;
    }
    if (!at || at->proto->input.count == 0) return NULL;
    text = at->proto->input.items[0];
  }
  return NULL;
}

// Which input of a Merge there is for each result of the Switch that decides.
typedef struct decision {
  tf_slot* by;
  int count;
  int inputs[TF_MOST_OUTPUTS];  // by result of the Switch
} decision;

// The number of results of a Switch; 0 where there are too many.
static int side_count(const tf_slot* by) {
  const tf_attr_value* outs = tf_attr_find(by->proto, "num_outs");
  if (tf_slot_is(by, "Switch")) return 2;
  return outs && outs->i > 0 && outs->i <= TF_MOST_OUTPUTS ? (int)outs->i : 0;
}

// False where the form is another. Of one input the side may be unknown.
static bool find_decision(const tf_scope* scope, const tf_slot* merge, decision* out) {
  const int count = (int)merge->proto->input.count;
  int unknown = -1;
  *out = (decision){.by = NULL, .count = count};
  for (int i = 0; i < count; i++) out->inputs[i] = -1;
  for (int i = 0; i < count; i++) {
    int64_t side = -1;
    tf_slot* by = deciding_switch(scope, merge, merge->proto->input.items[i], &side);
    if (!by && unknown >= 0) return false;
    if (!by) {
      unknown = i;
      continue;
    }
    if (!out->by) out->by = by;
    if (side_count(by) != count || side < 0 || side >= count || out->inputs[side] >= 0)
      return false;
    out->inputs[side] = i;
  }
  for (int k = 0; k < count && unknown >= 0; k++)
    if (out->inputs[k] < 0) out->inputs[k] = unknown, unknown = -1;
  return out->by != NULL;
}

// In a branch a Switch of its condition gives what it is given outside, as a parameter.
static carnot_status* capture(tf_import* n, tf_scope* scope, const tf_slot* slot,
                              carnot_value** given, int* count) {
  carnot_value* value = NULL;
  CARNOT_CHECK(*count + 1 < TF_MOST_VARIABLES, UNSUPPORTED, "a branch reads more than %d values",
               TF_MOST_VARIABLES);
  CARNOT_TRY(tf_scope_value(n->importer, n->scope, slot->proto->input.items[0], &value));
  if (value == &import_poison)
    return tf_slot_preset(n->importer, tf_scope_slot(scope, slot->proto->name), &import_poison, 1);
  carnot_value* inside = tf_capture(n, scope->block, value, given, count);
  CARNOT_TRY(carnot_graph_status(n->node.state->graph));
  CARNOT_TRY(tf_slot_preset(n->importer, tf_scope_slot(scope, slot->proto->name), inside,
                            side_count(slot)));
  return NULL;
}

// The Switch nodes of |condition| that the input |text| of a Merge is computed from; their number.
static int find_captured(tf_importer* importer, const tf_scope* scope, carnot_strview text,
                         const tf_slot* condition, tf_slot** out) {
  int count = 0;
  tf_walk w = tf_walk_begin(importer, scope);
  tf_walk_visit(&w, tf_slot_named(scope, text));
  for (tf_slot* slot; (slot = tf_walk_next(&w)) != NULL;) {
    if (is_switch(slot) && condition_slot(scope, slot) == condition) {
      if (count < TF_MOST_VARIABLES) out[count++] = slot;
    } else {
      tf_walk_visit_inputs(&w, slot);
    }
  }
  return count;
}

static carnot_status* make_branch(tf_import* n, carnot_strview text, const tf_slot* condition,
                                  tf_branch* b, carnot_value** out_result) {
  tf_slot* captured[TF_MOST_VARIABLES];
  tf_scope scope;
  *b = (tf_branch){.block = carnot_block_create(n->node.state->graph)};
  b->given = CARNOT_NEW_ARRAY(n->node.arena, carnot_value*, TF_MOST_VARIABLES);
  CARNOT_TRY(carnot_graph_status(n->node.state->graph));
  CARNOT_TRY(tf_inner_scope(n, b->block, &scope));
  const int count = find_captured(n->importer, n->scope, text, condition, captured);
  for (int i = 0; i < count; i++) CARNOT_TRY(capture(n, &scope, captured[i], b->given, &b->count));
  CARNOT_TRY(tf_scope_value(n->importer, &scope, text, out_result));
  if (*out_result != &import_poison) carnot_block_add_output(b->block, *out_result);
  return NULL;
}

// The number of the input that |condition| chooses: the Merge's second result.
static carnot_value* chosen_input(tf_import* n, const decision* d, carnot_value* condition) {
  int64_t inputs[TF_MOST_OUTPUTS];
  const int64_t last = d->count - 1;
  for (int i = 0; i < d->count; i++) inputs[i] = d->inputs[i];
  carnot_value* index = import_cast(&n->node, condition, CARNOT_DTYPE_I64);
  // An index outside is that of the last branch: less than 0 becomes a large one.
  carnot_value* below = import_binary(&n->node, CARNOT_FN_LESS, index, import_int(&n->node, 0));
  index = import_ternary(&n->node, CARNOT_FN_SELECT, below, import_int(&n->node, last), index);
  index = import_binary(&n->node, CARNOT_FN_MIN, index, import_int(&n->node, last));
  carnot_value* list = import_ints(&n->node, inputs, (size_t)d->count);
  return import_cast(&n->node, import_gather(&n->node, list, index, 0), CARNOT_DTYPE_I32);
}

static carnot_status* make_if(tf_import* n, const decision* d, const tf_slot* merge) {
  tf_branch branches[TF_MOST_OUTPUTS];
  carnot_value *condition = NULL, *result = NULL;
  const tf_slot* by = condition_slot(n->scope, d->by);
  CARNOT_TRY(tf_scope_value(n->importer, n->scope, d->by->proto->input.items[1], &condition));
  bool poisoned = condition == &import_poison;
  for (int i = 0; i < d->count; i++) {
    const carnot_strview text = merge->proto->input.items[d->inputs[i]];
    CARNOT_TRY(make_branch(n, text, by, &branches[i], &result));
    poisoned |= result == &import_poison;
  }
  if (poisoned) {
    tf_poison(n);
    return NULL;
  }
  if (tf_slot_is(d->by, "Switch")) {
    const tf_branch pair[2] = {branches[1], branches[0]};
    tf_emit_if(&n->node, condition, pair, n->outputs, 1);
  } else {
    tf_emit_case(n, condition, branches, d->count, n->outputs, 1);
  }
  if (!n->node.status) n->outputs[1] = chosen_input(n, d, condition);
  n->output_count = 2;
  return NULL;
}

size_t tf_merge_needs(tf_importer* importer, tf_scope* scope, tf_slot* slot, carnot_strview* out) {
  const tf_slot* merge = tf_slot_named(scope, slot->proto->name);
  tf_slot* captured[TF_MOST_VARIABLES];
  decision d;
  size_t found = 0;
  if (merge->proto->input.count > TF_MOST_OUTPUTS || !find_decision(scope, merge, &d)) return 0;
  out[found++] = d.by->proto->input.items[1];
  const tf_slot* by = condition_slot(scope, d.by);
  for (size_t i = 0; i < merge->proto->input.count; i++) {
    const int count = find_captured(importer, scope, merge->proto->input.items[i], by, captured);
    for (int k = 0; k < count && found < TF_MOST_NEEDS; k++)
      out[found++] = captured[k]->proto->input.items[0];
  }
  return found;
}

void tf_handle_merge(tf_import* n) {
  const tf_slot* merge = tf_slot_named(n->scope, n->proto->name);
  decision d;
  if (n->proto->input.count < 2 || n->proto->input.count > TF_MOST_OUTPUTS) {
    TF_FAIL(n, INVALID_MODEL, "%zu inputs; 2 to %d are possible", n->proto->input.count,
            TF_MOST_OUTPUTS);
    return;
  }
  if (!find_decision(n->scope, merge, &d)) {
    TF_FAIL(n, UNSUPPORTED, "no Switch decides between its inputs");
    return;
  }
  tf_note_placed(n, make_if(n, &d, merge));
}
