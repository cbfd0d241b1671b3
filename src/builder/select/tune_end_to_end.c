// Coordinate descent over tuning groups by the time of the whole engine.
#include "builder/select/tuning.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "builder/lower/lower.h"
#include "builder/measure/engine_benchmark.h"
#include "builder/measure/timing_cache.h"

// A problem whose regions take less than 1/kLeastShare of the run is not tuned.
enum { kLeastShare = 200, kRounds = 4, kRuns = 4, kPasses = 3 };
enum { kRunsOfComparison = 2 * kRounds * (kRuns + 1) };
static const char kDone[] = "descent";  // key in the timing cache of a descent that ended

static const double kSeconds[] = {0, 0, 0, 3, 10, 30};  // by optimization level

typedef struct descent {
  carnot_builder* builder;
  const carnot_analysis* analysis;
  const carnot_candidates* candidates;
  const carnot_assignment* start;  // the assignment before tuning
  carnot_tuning* tuning;
  uint64_t key;  // in the timing cache: of the engine and the choices so far
  bool replays;  // the cache holds a descent that ended
  bool goes_on;  // time is left, or the next comparison is cached
  bool is_open;
  carnot_engine_benchmark benchmark;
  uint32_t* steps;  // by region: step of the benchmark's plan
  double end_ms;
  uint64_t first_ns, saved_ns;  // of the run: before tuning, and the sum of all gains
  int comparison_count, change_count;
} descent;

static bool are_equal(const carnot_tuning_group* a, const carnot_tuning_group* b) {
  return a->key == b->key && a->count == b->count &&
         memcmp(a->tactics, b->tactics, sizeof(a->tactics)) == 0;
}

static void weigh(carnot_tuning* tuning) {
  for (size_t i = 0; i < tuning->count; i++) {
    size_t first = 0;
    while (!are_equal(&tuning->groups[first], &tuning->groups[i])) first++;
    tuning->groups[first].weight += tuning->groups[i].ns[0];
  }
}

// ---- the engine that holds all tactics of every group ----

// Tactic |k| of a group is variant k - 1 of its step; tactic 0 is the last variant.
static void use(descent* d, const carnot_tuning_group* group, uint32_t k) {
  for (size_t i = 0; i < d->tuning->count; i++) {
    const carnot_tuning_group* g = &d->tuning->groups[i];
    if (are_equal(g, group))
      carnot_engine_benchmark_use(&d->benchmark, d->steps[g->region], k ? k - 1 : g->count - 1);
  }
}

static carnot_status* open_benchmark(descent* d) {
  void *alternatives, *steps;
  const size_t count = d->analysis->region_count + 1;
  CARNOT_TRY(carnot_calloc(count, sizeof(uint32_t), "steps", &steps));
  d->steps = steps;
  CARNOT_TRY(carnot_calloc(count, sizeof(carnot_alternatives), "alternatives", &alternatives));
  for (size_t i = 0; i < d->tuning->count; i++) {
    const carnot_tuning_group* g = &d->tuning->groups[i];
    carnot_alternatives* a = (carnot_alternatives*)alternatives + g->region;
    for (uint32_t k = 1; k < g->count; k++) a->candidates[a->count++] = g->candidates[k];
  }
  carnot_plan* plan;
  carnot_status* status =
      carnot_lower(d->builder, d->analysis, d->candidates, d->start, alternatives, &plan, d->steps);
  free(alternatives);
  CARNOT_TRY(status);
  CARNOT_TRY(carnot_engine_benchmark_open(d->builder, plan, &d->benchmark));
  d->is_open = true;
  for (size_t i = 0; i < d->tuning->count; i++)
    use(d, &d->tuning->groups[i], d->tuning->groups[i].chosen);
  return NULL;
}

// ---- comparisons ----

// Bursts of both tactics in turn. |out_ns|: the least of the present tactic's, the greatest of the
// other's, so that noise and drift decide nothing. A round that is clearly lost is the last.
static carnot_status* time_both(descent* d, const carnot_tuning_group* group, uint32_t other,
                                uint64_t out_ns[2]) {
  if (!d->is_open) CARNOT_TRY(open_benchmark(d));
  out_ns[0] = UINT64_MAX, out_ns[1] = 0;
  for (int round = 0; round < kRounds && out_ns[1] < out_ns[0]; round++) {
    uint64_t ns[2];
    use(d, group, group->chosen);
    CARNOT_TRY(carnot_engine_benchmark_time(&d->benchmark, kRuns, &ns[0]));
    use(d, group, other);
    CARNOT_TRY(carnot_engine_benchmark_time(&d->benchmark, kRuns, &ns[1]));
    if (ns[0] < out_ns[0]) out_ns[0] = ns[0];
    if (ns[1] > out_ns[1]) out_ns[1] = ns[1];
  }
  use(d, group, group->chosen);
  d->comparison_count++;
  return NULL;
}

// The nanoseconds of the run with the present tactic and with |other|, from the cache or measured;
// *out_known is false when there is time for neither.
static carnot_status* compare(descent* d, const carnot_tuning_group* group, uint32_t other,
                              uint64_t ns[2], bool* out_known) {
  carnot_timing_cache* cache = d->builder->timing_cache;
  uint64_t key = carnot_hash(&group->key, sizeof(group->key), d->key + other);
  const char* names[2] = {group->tactics[group->chosen]->name, group->tactics[other]->name};
  *out_known = carnot_timing_cache_find(cache, key, names[0], &ns[0]) &&
               carnot_timing_cache_find(cache, key, names[1], &ns[1]);
  if (*out_known || d->replays) return NULL;
  *out_known = carnot_builder_now_ms() < d->end_ms && !carnot_builder_is_over_budget(d->builder);
  if (!*out_known) return NULL;
  CARNOT_TRY(time_both(d, group, other, ns));
  for (int i = 0; i < 2; i++)
    CARNOT_TRY(carnot_timing_cache_get_or_insert(cache, key, names[i], &ns[i]));
  return NULL;
}

static carnot_status* tune_group(descent* d, carnot_tuning_group* group) {
  carnot_tuning* tuning = d->tuning;
  for (uint32_t other = 0; other < group->count; other++) {
    uint64_t ns[2];
    if (other == group->chosen) continue;
    CARNOT_TRY(compare(d, group, other, ns, &d->goes_on));
    if (!d->goes_on) return NULL;
    carnot_builder_log(d->builder, "Tuning: the run with %s for %s took %.2f us, with %s %.2f",
                       group->tactics[other]->name, d->analysis->regions[group->region].name,
                       (double)ns[1] * 1e-3, group->tactics[group->chosen]->name,
                       (double)ns[0] * 1e-3);
    if (!d->first_ns) d->first_ns = ns[0];
    if (ns[1] >= ns[0]) continue;
    d->saved_ns += ns[0] - ns[1];
    d->key = carnot_hash(&group->key, sizeof(group->key), d->key + other);
    if (d->is_open) use(d, group, other);
    for (size_t i = tuning->count; i-- > 0;)
      if (are_equal(&tuning->groups[i], group)) tuning->groups[i].chosen = other;
    d->change_count++;
  }
  return NULL;
}

// Every group once, heaviest first.
static carnot_status* tune_all(descent* d) {
  carnot_tuning* tuning = d->tuning;
  uint64_t least = tuning->run_ns / kLeastShare, below = UINT64_MAX;
  for (;;) {
    uint64_t heaviest = 0;
    for (size_t i = 0; i < tuning->count; i++) {
      uint64_t weight = tuning->groups[i].weight;
      if (weight < below && weight > heaviest) heaviest = weight;
    }
    if (heaviest < least || !heaviest || !d->goes_on) return NULL;
    for (size_t i = 0; i < tuning->count; i++)
      if (tuning->groups[i].weight == heaviest) CARNOT_TRY(tune_group(d, &tuning->groups[i]));
    below = heaviest;
  }
}

static carnot_status* run_passes(descent* d) {
  carnot_status* status = NULL;
  for (int pass = 0, before = -1; pass < kPasses && !status && d->change_count > before; pass++) {
    before = d->change_count;
    status = carnot_builder_progress(d->builder, "tuning", pass, kPasses);
    if (!status) status = tune_all(d);
  }
  if (!status) status = carnot_builder_progress(d->builder, "tuning", kPasses, kPasses);
  if (!status && !d->replays && d->first_ns)
    status =
        carnot_timing_cache_add(d->builder->timing_cache, d->tuning->run_hash, kDone, d->first_ns);
  return status;
}

carnot_status* carnot_tune_end_to_end(carnot_builder* builder, const carnot_analysis* analysis,
                                      carnot_candidates* candidates, carnot_tuning* tuning,
                                      carnot_assignment* assignment) {
  double seconds = kSeconds[builder->config->level];
  bool is_long = (double)tuning->run_ns * kRunsOfComparison > seconds * 1e9;
  if (!tuning->count || seconds == 0 || is_long) return NULL;
  weigh(tuning);
  descent d = {.builder = builder,
               .analysis = analysis,
               .candidates = candidates,
               .start = assignment,
               .tuning = tuning,
               .key = tuning->run_hash,
               .goes_on = true,
               .end_ms = carnot_builder_now_ms() + seconds * 1e3};
  uint64_t ns;
  d.replays = carnot_timing_cache_find(builder->timing_cache, d.key, kDone, &ns);
  carnot_status* status = run_passes(&d);
  if (d.is_open) carnot_engine_benchmark_close(&d.benchmark);
  free(d.steps);
  if (carnot_status_code(status) == CARNOT_CANCELLED) return status;
  // An engine that cannot be timed is still an engine.
  if (status) carnot_builder_log(builder, "no tuning: %s", carnot_status_message(status));
  carnot_status_free(status);
  carnot_builder_log(builder, "Tuning: %d comparisons, %d changes, which take %.1f us off %.1f",
                     d.comparison_count, d.change_count, (double)d.saved_ns * 1e-3,
                     (double)d.first_ns * 1e-3);
  if (!d.change_count) return NULL;
  return carnot_select_tuned(builder, analysis, candidates, tuning, builder->config->tactic_sources,
                             assignment);
}
