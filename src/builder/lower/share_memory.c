// Results that are written over an operand of the same size which nothing reads afterwards: a
// residual, the operand of an element-wise function. The memory stays in the cache, and the arena
// is smaller.
#include "builder/lower/lower.h"

static bool is_planned(const carnot_value_builder* v) {
  return v->plan.storage == CARNOT_STORAGE_ARENA || v->plan.storage == CARNOT_STORAGE_DYNAMIC_ARENA;
}

// How many operands of |step| lie in the memory of |root|.
static uint32_t count_operands(const carnot_lowering* l, const carnot_plan_step* step,
                               uint32_t root) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < step->input_count; i++)
    count +=
        step->inputs[i] != CARNOT_PLAN_NONE && carnot_lowering_root(l, step->inputs[i]) == root;
  return count;
}

static bool has_same_elements(const carnot_value_builder* a, const carnot_value_builder* b) {
  const carnot_type *x = &a->from->type, *y = &b->from->type;
  if (!carnot_format_equal(&a->plan.format, &b->plan.format) || x->kind != y->kind ||
      x->rank != y->rank)
    return false;
  for (int d = 0; d < x->rank; d++)
    if (!carnot_sym_same(x->dims[d], y->dims[d])) return false;
  return true;
}

static bool takes_both(const carnot_plan_step* step, uint32_t input, uint32_t output) {
  for (uint32_t i = 0; i < step->variant_count; i++) {
    const carnot_variant* v = &step->variants[i];
    const carnot_tactic* tactic = carnot_tactic_find(v->tactic);
    if (!tactic || !tactic->may_share || tactic->open) return false;
    const carnot_step_view view = {.tactic = tactic,
                                   .region = &step->region,
                                   .input_count = step->input_count,
                                   .output_count = step->output_count,
                                   .params = v->params,
                                   .param_bytes = v->param_bytes};
    if (!tactic->may_share(&view, input, output)) return false;
  }
  return true;
}

// The value whose memory output |output| of step |s| may take, or its own.
static uint32_t memory_of(const carnot_lowering* l, uint32_t s, uint32_t output) {
  const carnot_plan_step* step = &l->plan->steps[s];
  const uint32_t own = step->outputs[output];
  const carnot_value_builder* y = &l->values[own];
  if (!is_planned(y) || y->first != s) return own;
  for (uint32_t i = 0; i < step->input_count; i++) {
    if (step->inputs[i] == CARNOT_PLAN_NONE) continue;
    const uint32_t root = carnot_lowering_root(l, step->inputs[i]);
    const carnot_value_builder* x = &l->values[root];
    if (is_planned(x) && x->last == s && x->plan.max_bytes == y->plan.max_bytes &&
        has_same_elements(&l->values[step->inputs[i]], y) && count_operands(l, step, root) == 1 &&
        takes_both(step, i, output))
      return root;
  }
  return own;
}

void carnot_lowering_share_memory(carnot_lowering* l) {
  const carnot_plan_block* main = &l->plan->blocks[0];
  for (uint32_t s = main->first_step; s < main->first_step + main->step_count; s++) {
    const carnot_plan_step* step = &l->plan->steps[s];
    for (uint32_t o = 0; o < step->output_count; o++) {
      if (step->outputs[o] == CARNOT_PLAN_NONE) continue;
      carnot_value_builder* y = &l->values[step->outputs[o]];
      const uint32_t root = memory_of(l, s, o);
      if (root == step->outputs[o]) continue;
      y->plan.storage = CARNOT_STORAGE_ALIAS;
      y->plan.index = root;
      y->plan.max_bytes = 0;
      if (y->last > l->values[root].last) l->values[root].last = y->last;
    }
  }
}
