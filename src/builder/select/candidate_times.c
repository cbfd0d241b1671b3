// Times of candidates, from the timing cache or by runs.
#include "builder/measure/cost_model.h"
#include "builder/measure/timing_cache.h"
#include "builder/select/candidates.h"

// Takes times from the cache. |*out_all|: nothing else is to be timed.
static carnot_status* find_times(carnot_builder* builder, uint64_t key,
                                 carnot_candidate* candidates, uint32_t count, bool* out_all) {
  for (uint32_t i = 0; i < count; i++)
    carnot_timing_cache_find(builder->timing_cache, key, candidates[i].tactic->name,
                             &candidates[i].ns);
  *out_all = true;
  for (uint32_t i = 0; i < count && *out_all; i++) {
    bool hopeless = false;
    if (candidates[i].ns != UINT64_MAX || !candidates[i].tactic->run) continue;
    CARNOT_TRY(carnot_prune_hopeless(builder, candidates, count, i, &hopeless));
    *out_all = hopeless;
  }
  return NULL;
}

carnot_status* carnot_measure_candidates(carnot_builder* builder, const char* node,
                                         const carnot_problem* problem,
                                         carnot_candidate* candidates, uint32_t count) {
  carnot_timing_cache* cache = builder->timing_cache;
  const uint64_t key = carnot_problem_key(problem, &builder->machine);
  bool all;
  CARNOT_TRY(find_times(builder, key, candidates, count, &all));
  if (all || carnot_builder_is_over_budget(builder)) return NULL;
  // All candidates run in one memory space.
  CARNOT_TRY((candidates[0].tactic->device ? carnot_time_on_device : carnot_time_candidates)(
      builder, node, candidates, count));
  for (uint32_t i = 0; i < count; i++) {
    carnot_candidate* c = &candidates[i];
    if (c->ns == UINT64_MAX) continue;
    CARNOT_TRY(carnot_timing_cache_get_or_insert(cache, key, c->tactic->name, &c->ns));
  }
  return NULL;
}

uint64_t carnot_candidate_margin(const carnot_candidate* items, uint32_t i) {
  if (items[i].tactic->device) return items[i].ns / 32;
  if (items[i].tactic->sources) return items[i].ns / 20;
  for (uint32_t k = 0; k < i; k++)
    if (carnot_is_newer_kernel(items[k].tactic, items[i].tactic)) return items[i].ns / 8;
  return 0;
}

// True when the problem has no dimensions that only the run knows.
static bool has_sizes(const carnot_problem* p) {
  for (uint32_t i = 0; i < p->input_count + p->output_count; i++) {
    const carnot_operand_desc* t =
        i < p->input_count ? &p->inputs[i] : &p->outputs[i - p->input_count];
    for (int d = 0; d < t->rank; d++)
      if (t->dims[d] < 0) return false;
  }
  return true;
}

// |from| at the guessed sizes; false where there are none or it does not take them.
static carnot_status* at_guessed_sizes(carnot_builder* builder, const carnot_region_facts* f,
                                       const carnot_candidate* from, carnot_candidate* out,
                                       bool* out_takes) {
  char reason[256];
  *out = (carnot_candidate){.tactic = from->tactic, .ns = UINT64_MAX};
  CARNOT_TRY(carnot_problem_copy(&builder->problems, &from->problem, &out->problem));
  CARNOT_TRY(carnot_problem_resize(builder, f, &builder->late_sizes, &out->problem, out_takes));
  const char* why = *out_takes ? from->tactic->reject(&out->problem, reason, sizeof(reason)) : NULL;
  *out_takes = *out_takes && !why;
  return carnot_reject_status(why);
}

// Leaves candidates without times whose values do not fit guessed sizes: constant indices of a
// dimension that is guessed shorter.
static carnot_status* allow_misfit(const carnot_builder* builder, const char* node,
                                   carnot_status* status) {
  const carnot_code code = status ? carnot_status_code(status) : CARNOT_OK;
  if (code != CARNOT_INVALID_ARGUMENT && code != CARNOT_INVALID_MODEL) return status;
  carnot_builder_log(builder, "node %s is not timed at guessed sizes: %s", node,
                     carnot_status_message(status));
  carnot_status_free(status);
  return NULL;
}

// Times the set at guessed sizes, where only the run knows its dimensions: the order of the tables
// may be far from the order of times.
static carnot_status* measure_late(carnot_builder* builder, const carnot_region_facts* f,
                                   carnot_candidate_set* set) {
  carnot_candidate items[CARNOT_MAX_CANDIDATES];
  uint32_t of[CARNOT_MAX_CANDIDATES], count = 0;
  for (uint32_t i = 0; i < set->count; i++) {
    bool takes;
    CARNOT_TRY(at_guessed_sizes(builder, f, &set->items[i], &items[count], &takes));
    if (takes) of[count++] = i;
  }
  if (count < 2) return NULL;
  const carnot_problem key = items[0].problem;
  CARNOT_TRY(allow_misfit(builder, f->name,
                          carnot_measure_candidates(builder, f->name, &key, items, count)));
  for (uint32_t i = 0; i < count; i++) {
    set->items[of[i]].ns = items[i].ns;
    set->items[of[i]].untimed = items[i].untimed;
    set->items[of[i]].is_hopeless = items[i].is_hopeless;
  }
  return NULL;
}

carnot_status* carnot_measure(carnot_builder* builder, const carnot_region_facts* f,
                              carnot_candidate_set* set) {
  if (set->is_measured || set->count < 2) return NULL;
  set->is_measured = true;
  if (!set->items[0].tactic->device && !has_sizes(&set->problem))
    return measure_late(builder, f, set);
  return carnot_measure_candidates(builder, f->name, &set->problem, set->items, set->count);
}
