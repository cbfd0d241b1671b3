// Which regions choose their layouts together, and between what.
#include "builder/select/joint.h"

#include <string.h>

// What joint choices must save, as a share of the regions' time: less is noise.
static const double kLeastGain = 0.005;
// The least share of the run that changes of layout take where they are looked at.
static const double kLeastShare = 1.0 / 256;

static const carnot_candidate* greedy_of(const carnot_joint* j, uint32_t region) {
  return carnot_assigned_candidate(j->greedy, j->candidates, region);
}

static bool is_view(const carnot_candidate* c) {
  return strcmp(c->tactic->name, CARNOT_VIEW_TACTIC) == 0;
}

// ---- alternatives of a region ----

// The candidate of the greedy set that is |c|: the same tactic for the same layouts.
static const carnot_candidate* timed_twin(const carnot_joint* j, uint32_t region,
                                          const carnot_candidate* c) {
  const carnot_candidate_set* set = j->candidates->sets[j->greedy->regions[region].set];
  for (uint32_t i = 0; i < set->count; i++)
    if (set->items[i].tactic == c->tactic && set->items[i].ns != UINT64_MAX &&
        carnot_candidates_share_layouts(&set->items[i], c))
      return &set->items[i];
  return NULL;
}

// Times the candidates of |set| that have no time. Views take none.
static carnot_status* measure(const carnot_joint* j, uint32_t region, carnot_candidate_set* set) {
  carnot_candidate items[CARNOT_MAX_CANDIDATES];
  uint32_t of[CARNOT_MAX_CANDIDATES], count = 0;
  for (uint32_t i = 0; i < set->count; i++) {
    carnot_candidate* c = &set->items[i];
    const carnot_candidate* twin = timed_twin(j, region, c);
    if (is_view(c))
      c->ns = 0;
    else if (twin)
      c->ns = twin->ns;
    if (c->ns == UINT64_MAX && c->tactic->run && !c->failed && !c->untimed)
      of[count] = i, items[count++] = *c;
  }
  set->is_measured = true;
  if (!count) return NULL;
  CARNOT_TRY(carnot_measure_candidates(j->builder, j->analysis->regions[region].name, &set->problem,
                                       items, count));
  for (uint32_t i = 0; i < count; i++) set->items[of[i]] = items[i];
  return NULL;
}

// Keeps the fastest of candidates with the same layouts; the greedy choice stays that of its kind.
static void add_alternative(const carnot_joint* j, carnot_joint_region* r,
                            const carnot_alternative* a) {
  const carnot_candidate* items = j->candidates->sets[a->set]->items;
  const uint64_t ns = a->ns + carnot_candidate_margin(items, a->candidate);
  uint32_t i = 0;
  while (i < r->count && !carnot_candidates_share_layouts(carnot_joint_candidate(j, &r->items[i]),
                                                          carnot_joint_candidate(j, a)))
    i++;
  if (i == CARNOT_JOINT_ALTERNATIVES || (i < r->count && (i == 0 || r->items[i].ns <= ns))) return;
  r->items[i] = *a;
  if (i == r->count) r->count++;
}

// The set of the region for operands in |layout|.
static carnot_status* enumerate_with(carnot_joint* j, uint32_t region, carnot_layout layout,
                                     uint32_t* out_set) {
  const carnot_region_facts* f = &j->analysis->regions[region];
  carnot_situation situation = j->candidates->sets[j->greedy->regions[region].set]->situation;
  situation.formats = j->formats;
  for (uint32_t i = 0; i < f->input_count; i++)
    if (carnot_joint_has_layouts(f->inputs[i])) j->formats[f->inputs[i]->id].layout = layout;
  carnot_status* status =
      carnot_enumerate(j->builder, j->analysis, j->candidates, region, &situation, out_set);
  for (uint32_t i = 0; i < f->input_count; i++)
    if (f->inputs[i]) j->formats[f->inputs[i]->id] = j->greedy->formats[f->inputs[i]->id];
  return status;
}

static carnot_status* ask_with(carnot_joint* j, uint32_t region, carnot_layout layout) {
  carnot_alternative a;
  CARNOT_TRY(enumerate_with(j, region, layout, &a.set));
  carnot_candidate_set* set = j->candidates->sets[a.set];
  CARNOT_TRY(measure(j, region, set));
  for (a.candidate = 0; a.candidate < set->count; a.candidate++) {
    const carnot_candidate* c = &set->items[a.candidate];
    a.ns = c->ns;
    // A library must win by a margin, which greedy selection watches.
    if (!c->failed && c->ns != UINT64_MAX && !c->tactic->sources)
      add_alternative(j, &j->regions[region], &a);
  }
  return NULL;
}

// A region that cannot be timed keeps its choice.
static carnot_status* find_alternatives(carnot_joint* j, uint32_t region) {
  const carnot_assigned_region* chosen = &j->greedy->regions[region];
  carnot_joint_region* r = &j->regions[region];
  carnot_candidate_set* set = j->candidates->sets[chosen->set];
  CARNOT_TRY(measure(j, region, set));
  const uint64_t ns = set->items[chosen->candidate].ns;
  r->items[r->count++] =
      (carnot_alternative){chosen->set, chosen->candidate, ns == UINT64_MAX ? 0 : ns};
  if (ns == UINT64_MAX) return NULL;
  CARNOT_TRY(ask_with(j, region, CARNOT_LAYOUT_ROW_MAJOR));
  return ask_with(j, region, CARNOT_LAYOUT_CHANNELS_LAST);
}

// ---- the regions ----

// Regions of the main block that run as usual steps.
static bool may_explore(const carnot_joint* j, uint32_t region) {
  const carnot_region_facts* f = &j->analysis->regions[region];
  const carnot_assigned_region* a = &j->greedy->regions[region];
  return f->block == 0 && !f->has_control_flow && !a->is_late && !f->is_shape_step &&
         a->guarded_count == 0 && j->candidates->sets[a->set]->situation.allow_timing &&
         greedy_of(j, region)->tactic->run;
}

static void push(carnot_joint* j, uint32_t region) {
  if (j->regions[region].is_explored || !may_explore(j, region)) return;
  j->regions[region].is_explored = true;
  j->queue[j->queue_count++] = region;
}

// The region of a node: that which produces its first result.
static void push_node(carnot_joint* j, const carnot_node* node) {
  for (int i = 0; i < node->output_count; i++)
    if (node->outputs[i] && j->producers[node->outputs[i]->id]) {
      push(j, j->producers[node->outputs[i]->id] - 1);
      return;
    }
}

// The producer of |value| and its readers.
static void push_around(carnot_joint* j, const carnot_value* value) {
  if (!carnot_joint_has_layouts(value)) return;
  if (j->producers[value->id]) push(j, j->producers[value->id] - 1);
  for (size_t i = 0; i < value->use_count; i++) push_node(j, value->uses[i].node);
}

// What the run takes by the times of its regions.
static double run_ns(const carnot_joint* j) {
  double ns = 0;
  for (uint32_t r = 0; r < j->analysis->region_count; r++)
    if (greedy_of(j, r)->ns != UINT64_MAX) ns += (double)greedy_of(j, r)->ns;
  return ns;
}

// The changes of layout between regions. No more than they take can be gained: where that is
// little, nothing is explored.
static carnot_status* push_changes(carnot_joint* j) {
  const carnot_block_facts* main = &j->analysis->blocks[0];
  double changes_ns = 0;
  for (uint32_t r = 0; r < main->region_count; r++) {
    const carnot_region_facts* f = &j->analysis->regions[main->regions[r]];
    const carnot_problem* p = &greedy_of(j, main->regions[r])->problem;
    for (uint32_t i = 0; i < f->input_count; i++) {
      const carnot_value* value = f->inputs[i];
      if (carnot_joint_has_layouts(value) && j->producers[value->id] &&
          p->inputs[i].format.layout != j->greedy->formats[value->id].layout) {
        push_around(j, value);
        double ns;
        CARNOT_TRY(carnot_time_layout_change(j->builder, p, &p->inputs[i],
                                             j->greedy->formats[value->id].layout, &ns));
        changes_ns += ns;
      }
    }
  }
  if (changes_ns < kLeastShare * run_ns(j)) j->queue_count = 0;
  return NULL;
}

static carnot_status* explore(carnot_joint* j) {
  CARNOT_TRY(push_changes(j));
  for (uint32_t i = 0; i < j->queue_count; i++) {
    const uint32_t region = j->queue[i];
    const carnot_region_facts* f = &j->analysis->regions[region];
    CARNOT_TRY_AT(find_alternatives(j, region), "node %s", f->name);
    if (j->regions[region].count < 2) continue;
    for (uint32_t k = 0; k < f->input_count; k++) push_around(j, f->inputs[k]);
    for (uint32_t k = 0; k < f->output_count; k++) push_around(j, f->outputs[k]);
  }
  return NULL;
}

// ---- the whole ----

static void log_choices(const carnot_joint* j) {
  for (uint32_t i = 0; i < j->queue_count; i++) {
    const uint32_t region = j->queue[i];
    const carnot_joint_region* r = &j->regions[region];
    const carnot_assigned_region* greedy = &j->greedy->regions[region];
    if (r->items[0].set == greedy->set && r->items[0].candidate == greedy->candidate) continue;
    const carnot_candidate* c = carnot_joint_candidate(j, &r->items[0]);
    carnot_builder_log(j->builder, "Layouts: %s runs %s into %s in %.2f us",
                       j->analysis->regions[region].name, c->tactic->name,
                       carnot_layout_name(c->problem.outputs[0].format.layout),
                       (double)r->items[0].ns * 1e-3);
  }
}

static carnot_status* new_table(const carnot_joint* j, size_t count, size_t size, void** out) {
  return carnot_arena_try(&j->builder->facts, count + 1, size, "joint selection", out);
}

static carnot_status* open_tables(carnot_joint* j) {
  const carnot_analysis* a = j->analysis;
  void *formats, *regions, *producers, *queue, *values;
  CARNOT_TRY(new_table(j, a->value_count, sizeof(carnot_format), &formats));
  CARNOT_TRY(new_table(j, a->region_count, sizeof(carnot_joint_region), &regions));
  CARNOT_TRY(new_table(j, a->value_count, sizeof(uint32_t), &producers));
  CARNOT_TRY(new_table(j, a->region_count, sizeof(uint32_t), &queue));
  CARNOT_TRY(new_table(j, a->value_count, sizeof(carnot_joint_value), &values));
  memcpy(formats, j->greedy->formats, a->value_count * sizeof(carnot_format));
  j->formats = formats, j->regions = regions, j->producers = producers;
  j->queue = queue, j->values = values;
  for (uint32_t r = 0; r < a->region_count; r++)
    for (uint32_t i = 0; i < a->regions[r].output_count; i++)
      j->producers[a->regions[r].outputs[i]->id] = r + 1;
  return NULL;
}

carnot_status* carnot_choose_layouts(carnot_builder* builder, const carnot_analysis* analysis,
                                     carnot_candidates* candidates, const carnot_assignment* greedy,
                                     const carnot_joint_region** out_choices) {
  carnot_joint j = {
      .builder = builder, .analysis = analysis, .candidates = candidates, .greedy = greedy};
  double ns[2] = {0, 0};
  *out_choices = NULL;
  CARNOT_TRY(open_tables(&j));
  CARNOT_TRY(explore(&j));
  if (!j.queue_count) return NULL;
  carnot_status* status = carnot_joint_solve(&j, ns);
  carnot_pbqp_deinit(&j.pbqp);
  CARNOT_TRY(status);
  carnot_builder_log(builder,
                     "Layouts: %u regions and their changes take %.1f us one by one, %.1f jointly",
                     j.queue_count, ns[0] * 1e-3, ns[1] * 1e-3);
  if (ns[1] > ns[0] * (1 - kLeastGain)) return NULL;
  log_choices(&j);
  *out_choices = j.regions;
  return NULL;
}
