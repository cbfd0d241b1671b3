// Groups of regions for end-to-end tuning.
#include "builder/select/tuning.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

// A candidate is close when it takes at most a quarter and a microsecond more than the fastest:
// overlap with neighbours and waiting for them are of that order.
enum { kClose = 4, kCloseNs = 1000 };

typedef struct collector {
  const carnot_builder* builder;
  const carnot_analysis* analysis;
  const carnot_assignment* assignment;
  carnot_tuning* out;
} collector;

// True when the candidate can store the region's outputs in the assigned layouts.
static bool stores_as_assigned(const collector* c, uint32_t region, const carnot_candidate* item) {
  const carnot_region_facts* f = &c->analysis->regions[region];
  bool same = true;
  for (uint32_t i = 0; i < f->output_count; i++)
    same = same && item->problem.outputs[i].format.layout ==
                       c->assignment->formats[f->outputs[i]->id].layout;
  return same || item->tactic->output_layout_agnostic;
}

// The next slower candidate that is close, at equal times the earlier one; |set->count| if there is
// none.
static uint32_t next_close(const collector* c, const carnot_tuning_group* group,
                           const carnot_candidate_set* set) {
  uint64_t most = group->ns[0] + group->ns[0] / kClose + kCloseNs;
  uint32_t next = set->count;
  for (uint32_t i = 0; i < set->count; i++) {
    bool taken = set->items[i].failed || set->items[i].ns > most ||
                 !stores_as_assigned(c, group->region, &set->items[i]);
    for (uint32_t k = 0; k < group->count; k++) taken |= group->candidates[k] == i;
    if (!taken && (next == set->count || set->items[i].ns < set->items[next].ns)) next = i;
  }
  return next;
}

static void add_candidate(carnot_tuning_group* group, const carnot_candidate_set* set,
                          uint32_t candidate) {
  group->candidates[group->count] = candidate;
  group->tactics[group->count] = set->items[candidate].tactic;
  group->ns[group->count++] = set->items[candidate].ns;
}

static carnot_status* add_region(collector* c, uint32_t region, const carnot_candidate_set* set) {
  carnot_tuning* tuning = c->out;
  const uint32_t best = c->assignment->regions[region].candidate;
  const carnot_candidate* chosen = &set->items[best];
  const bool on_target = chosen->tactic->device || !c->builder->config->device;
  if (!on_target || !set->problem.allow_timing) return NULL;
  carnot_tuning_group group = {.region = region,
                               .key = carnot_problem_key(&set->problem, &c->builder->machine)};
  const char* name = chosen->tactic->name;
  tuning->run_hash = carnot_hash(&group.key, sizeof(group.key), tuning->run_hash);
  tuning->run_hash = carnot_hash(name, strlen(name), tuning->run_hash);
  if (chosen->ns == UINT64_MAX) return NULL;
  tuning->run_ns += chosen->ns;
  if (!chosen->tactic->device) return NULL;
  add_candidate(&group, set, best);
  uint32_t next;
  while (group.count < CARNOT_MAX_VARIANTS && (next = next_close(c, &group, set)) < set->count)
    add_candidate(&group, set, next);
  if (group.count == 1) return NULL;
  void* groups = tuning->groups;
  CARNOT_TRY(
      carnot_grow(&groups, &tuning->capacity, tuning->count + 1, sizeof(group), "tuning groups"));
  tuning->groups = groups;
  tuning->groups[tuning->count++] = group;
  return NULL;
}

carnot_status* carnot_tuning_collect(const carnot_builder* builder, const carnot_analysis* analysis,
                                     const carnot_candidates* candidates,
                                     const carnot_assignment* assignment, carnot_tuning* out) {
  collector c = {.builder = builder, .analysis = analysis, .assignment = assignment, .out = out};
  *out = (carnot_tuning){.count = 0};
  for (uint32_t r = 0; r < analysis->region_count; r++)
    CARNOT_TRY(add_region(&c, r, candidates->sets[assignment->regions[r].set]));
  return NULL;
}

void carnot_tuning_deinit(carnot_tuning* tuning) { free(tuning->groups); }

carnot_status* carnot_select_tuned(carnot_builder* builder, const carnot_analysis* analysis,
                                   carnot_candidates* candidates, const carnot_tuning* tuning,
                                   uint32_t sources, carnot_assignment* out) {
  void* memory;
  CARNOT_TRY(carnot_calloc(analysis->region_count + 1, sizeof(const carnot_tactic*),
                           "pinned tactics", &memory));
  const carnot_tactic** pinned = memory;
  for (size_t i = 0; i < tuning->count; i++)
    pinned[tuning->groups[i].region] = tuning->groups[i].tactics[tuning->groups[i].chosen];
  const carnot_select_request request = {.sources = sources, .pinned = pinned};
  carnot_status* status = carnot_select(builder, analysis, candidates, &request, out);
  free(memory);
  return status;
}
