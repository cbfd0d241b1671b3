// The PBQP problem of joint selection: what the explored regions and the values around them cost.
#include <math.h>

#include "builder/select/joint.h"

// Alternatives of a value: the layouts in which it is kept.
typedef enum value_form { kRowMajor, kChannelsLast, kBoth, kForms } value_form;

static value_form only_in(carnot_layout layout) {
  return layout == CARNOT_LAYOUT_CHANNELS_LAST ? kChannelsLast : kRowMajor;
}

// ---- values ----

// What it costs that the value is made in |made|: it is kept so, or also in the other layout after
// a change.
static void cost_to_make(const carnot_joint_value* v, carnot_layout made, bool in_any_layout,
                         double* costs) {
  for (int form = 0; form < kForms; form++) costs[form] = INFINITY;
  costs[only_in(made)] = 0;
  costs[kBoth] = in_any_layout ? 0 : v->change_ns[only_in(made)];
}

static void cost_to_read(carnot_layout wanted, double* costs) {
  for (int form = 0; form < kForms; form++) costs[form] = INFINITY;
  costs[only_in(wanted)] = costs[kBoth] = 0;
}

static carnot_status* add_value(carnot_joint* j, const carnot_value* value,
                                const carnot_problem* problem, const carnot_operand_desc* operand) {
  double costs[kForms] = {0};
  if (!carnot_joint_has_layouts(value) || j->values[value->id].node) return NULL;
  carnot_joint_value* v = &j->values[value->id];
  for (int from = 0; from < 2; from++)
    CARNOT_TRY(carnot_time_layout_change(j->builder, problem, operand, (carnot_layout)from,
                                         &v->change_ns[from]));
  if (!j->producers[value->id]) {
    const carnot_layout made = j->greedy->formats[value->id].layout;
    cost_to_make(v, made, /*in_any_layout=*/false, costs);
    v->used |= 1u << only_in(made);
  }
  // Results of a network are row-major.
  if (value->block_output_count) {
    costs[kChannelsLast] = INFINITY;
    v->used |= 1u << kRowMajor;
  }
  CARNOT_TRY(carnot_pbqp_add_node(&j->pbqp, kForms, costs, &v->node));
  v->node++;
  return NULL;
}

static carnot_status* add_values(carnot_joint* j, uint32_t region) {
  const carnot_region_facts* f = &j->analysis->regions[region];
  const carnot_problem* p = &carnot_joint_candidate(j, &j->regions[region].items[0])->problem;
  for (uint32_t i = 0; i < f->input_count; i++)
    CARNOT_TRY(add_value(j, f->inputs[i], p, &p->inputs[i]));
  for (uint32_t i = 0; i < f->output_count; i++)
    CARNOT_TRY(add_value(j, f->outputs[i], p, &p->outputs[i]));
  return NULL;
}

// ---- regions ----

static carnot_status* add_region(carnot_joint* j, carnot_joint_region* r) {
  double costs[CARNOT_JOINT_ALTERNATIVES];
  for (uint32_t i = 0; i < r->count; i++) costs[i] = (double)r->items[i].ns;
  return carnot_pbqp_add_node(&j->pbqp, r->count, costs, &r->node);
}

// The costs of operand |i| of a region for each of its alternatives; one that was not explored has
// its greedy choice. Operands are inputs, then outputs.
static carnot_status* add_operand(carnot_joint* j, uint32_t region, uint32_t i) {
  const carnot_region_facts* f = &j->analysis->regions[region];
  const carnot_joint_region* r = &j->regions[region];
  const bool is_read = i < f->input_count;
  const uint32_t at = is_read ? i : i - f->input_count;
  const carnot_value* value = is_read ? f->inputs[at] : f->outputs[at];
  double costs[CARNOT_JOINT_ALTERNATIVES][kForms];
  if (!value || !j->values[value->id].node) return NULL;
  carnot_joint_value* v = &j->values[value->id];
  for (uint32_t k = 0; k < r->count || k == 0; k++) {
    const carnot_candidate* c = r->count
                                    ? carnot_joint_candidate(j, &r->items[k])
                                    : carnot_assigned_candidate(j->greedy, j->candidates, region);
    const carnot_operand_desc* t = is_read ? &c->problem.inputs[at] : &c->problem.outputs[at];
    const carnot_layout layout =
        is_read || k > 0 ? t->format.layout : j->greedy->formats[value->id].layout;
    if (is_read)
      cost_to_read(layout, costs[k]);
    else
      cost_to_make(v, layout, carnot_stores_in_any_layout(c, value), costs[k]);
    if (k == 0) v->used |= 1u << only_in(layout);
  }
  if (r->count) return carnot_pbqp_add_edge(&j->pbqp, r->node, v->node - 1, costs[0]);
  for (int form = 0; form < kForms; form++)
    j->pbqp.nodes[v->node - 1].costs[form] += costs[0][form];
  return NULL;
}

static carnot_status* make_problem(carnot_joint* j) {
  const carnot_block_facts* main = &j->analysis->blocks[0];
  for (uint32_t i = 0; i < j->queue_count; i++) {
    CARNOT_TRY(add_region(j, &j->regions[j->queue[i]]));
    CARNOT_TRY(add_values(j, j->queue[i]));
  }
  for (uint32_t i = 0; i < main->region_count; i++) {
    const carnot_region_facts* f = &j->analysis->regions[main->regions[i]];
    for (uint32_t k = 0; k < f->input_count + f->output_count; k++)
      CARNOT_TRY(add_operand(j, main->regions[i], k));
  }
  return NULL;
}

// ---- the solution ----

// The forms of values that greedy choices lead to.
static void set_start(const carnot_joint* j, uint32_t* choices) {
  for (uint32_t i = 0; i < j->analysis->value_count; i++) {
    const carnot_joint_value* v = &j->values[i];
    if (!v->node) continue;
    const bool both = v->used == (1u << kRowMajor | 1u << kChannelsLast);
    choices[v->node - 1] = both                             ? kBoth
                           : v->used == 1u << kChannelsLast ? kChannelsLast
                                                            : kRowMajor;
  }
}

carnot_status* carnot_joint_solve(carnot_joint* j, double out_ns[2]) {
  void* memory;
  carnot_pbqp_result result;
  CARNOT_TRY(make_problem(j));
  CARNOT_TRY(carnot_arena_try(&j->builder->facts, j->pbqp.node_count, sizeof(uint32_t), "choices",
                              &memory));
  uint32_t* choices = memory;
  set_start(j, choices);
  out_ns[0] = carnot_pbqp_cost(&j->pbqp, choices);
  CARNOT_TRY(carnot_pbqp_solve(&j->pbqp, choices, &result));
  out_ns[1] = result.cost;
  for (uint32_t i = 0; i < j->queue_count; i++) {
    carnot_joint_region* r = &j->regions[j->queue[i]];
    r->items[0] = r->items[choices[r->node]];
  }
  return NULL;
}
