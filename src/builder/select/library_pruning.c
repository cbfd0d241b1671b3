// Drops a library from an engine that is no faster with it as a whole, or whose speed-up does not
// amortize the load time of the library (dlopen, initialization, planning).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/device.h"
#include "base/hash.h"
#include "builder/lower/lower.h"
#include "builder/measure/engine_benchmark.h"
#include "builder/measure/timing_cache.h"
#include "builder/select/tuning.h"

// Runs that an engine is loaded for: a millisecond of loading is worth ten nanoseconds of each, and
// ten times that beyond kShortLoadNs, so that an engine which loads for longer is clearly faster.
static const uint64_t kRunsPerLoad = 100000, kShortLoadNs = 150000000, kLongLoadWeight = 10;
enum { kRounds = 5, kRuns = 8, kFewRuns = 1, kLongestSeconds = 3 };

// What a library is to the regions whose tactics call it.
typedef struct library_use {
  bool is_called;
  bool is_needed;    // a region has no other tactic, or was not timed
  uint64_t load_ns;  // of what the regions ask of it when an engine is loaded
} library_use;

typedef struct pruning {
  carnot_builder* builder;
  const carnot_analysis* analysis;
  carnot_candidates* candidates;
  const carnot_tuning* tuning;
  const carnot_assignment* assignment;  // before pruning
  uint32_t sources;                     // that are left
  library_use uses[CARNOT_SOURCE_COUNT];
  uint64_t* loaded;  // keys of the problems that load_ns includes
  size_t loaded_count, loaded_capacity;
} pruning;

// ---- what the regions ask of libraries ----

// Adds the load time of one problem, however many regions have it.
static carnot_status* add_load(pruning* p, const carnot_candidate_set* set,
                               const carnot_candidate* chosen, library_use* use) {
  const uint64_t key = carnot_problem_key(&set->problem, &p->builder->machine);
  for (size_t i = 0; i < p->loaded_count; i++)
    if (p->loaded[i] == key) return NULL;
  void* loaded = p->loaded;
  CARNOT_TRY(carnot_grow(&loaded, &p->loaded_capacity, p->loaded_count + 1, sizeof(*p->loaded),
                         "problems"));
  p->loaded = loaded;
  p->loaded[p->loaded_count++] = key;
  char what[96];
  uint64_t ns = chosen->tactic->load_ns(&chosen->problem, &chosen->prepared);
  snprintf(what, sizeof(what), "%s_load", chosen->tactic->name);
  CARNOT_TRY(carnot_timing_cache_get_or_insert(p->builder->timing_cache, key, what, &ns));
  use->load_ns += ns;
  return NULL;
}

static carnot_status* note_region(pruning* p, uint32_t region) {
  const carnot_assigned_region* a = &p->assignment->regions[region];
  const carnot_candidate_set* set = p->candidates->sets[a->set];
  carnot_candidate* chosen = &set->items[a->candidate];
  for (int source = 0; source < CARNOT_SOURCE_COUNT; source++) {
    if (!(chosen->tactic->sources >> source & 1)) continue;
    library_use* use = &p->uses[source];
    bool has_other = false;
    for (uint32_t i = 0; i < set->count; i++)
      has_other |= !set->items[i].failed && !(set->items[i].tactic->sources >> source & 1) &&
                   set->items[i].ns != UINT64_MAX;
    use->is_called = true;
    use->is_needed |= chosen->ns == UINT64_MAX || !has_other;
    if (!chosen->tactic->load_ns || use->is_needed) continue;
    const char* node = p->analysis->regions[region].name;
    CARNOT_TRY(carnot_candidate_prepare(p->builder, node, chosen));
    CARNOT_TRY(add_load(p, set, chosen, use));
  }
  return NULL;
}

// ---- runs with a library and without ----

static carnot_status* open_benchmark(const pruning* p, uint32_t sources,
                                     carnot_engine_benchmark* out) {
  carnot_assignment assignment;
  carnot_plan* plan;
  CARNOT_TRY(
      carnot_select_tuned(p->builder, p->analysis, p->candidates, p->tuning, sources, &assignment));
  CARNOT_TRY(carnot_lower(p->builder, p->analysis, p->candidates, &assignment, NULL, &plan, NULL));
  return carnot_engine_benchmark_open(p->builder, plan, out);
}

// Bursts of both in turn; the least of each.
static carnot_status* time_both(const pruning* p, uint32_t without, int runs, uint64_t out_ns[2]) {
  const uint32_t sources[2] = {p->sources, without};
  carnot_engine_benchmark benchmarks[2];
  int open = 0;
  carnot_status* status = NULL;
  for (; open < 2 && !status; open += !status)
    status = open_benchmark(p, sources[open], &benchmarks[open]);
  out_ns[0] = out_ns[1] = UINT64_MAX;
  for (int i = 0; i < 2 * kRounds && !status; i++) {
    uint64_t ns;
    status = carnot_engine_benchmark_time(&benchmarks[i % 2], runs, &ns);
    if (!status && ns < out_ns[i % 2]) out_ns[i % 2] = ns;
  }
  while (open) carnot_engine_benchmark_close(&benchmarks[--open]);
  return status;
}

// The nanoseconds of a run with and without the source, from the cache or measured; *out_known is
// false when there is time for neither.
static carnot_status* compare(const pruning* p, int source, uint64_t ns[2], bool* out_known) {
  static const char* const kWhat[2] = {"with", "without"};
  carnot_builder* builder = p->builder;
  carnot_timing_cache* cache = builder->timing_cache;
  uint64_t key = p->tuning->run_hash + (uint64_t)source;
  for (size_t i = 0; i < p->tuning->count; i++) {
    const uint32_t chosen = p->tuning->groups[i].chosen;
    key = carnot_hash(&chosen, sizeof(chosen), key);
  }
  *out_known = carnot_timing_cache_find(cache, key, kWhat[0], &ns[0]) &&
               carnot_timing_cache_find(cache, key, kWhat[1], &ns[1]);
  if (*out_known) return NULL;
  const double round = (double)p->tuning->run_ns * 1e-9 * 2 * kRounds;
  const int runs = round * (kRuns + 1) < kLongestSeconds ? kRuns : kFewRuns;
  const double seconds = round * (runs + 1);
  *out_known = builder->config->level >= 3 && seconds < kLongestSeconds &&
               !carnot_builder_is_over_budget(builder);
  if (!*out_known) return NULL;
  CARNOT_TRY(time_both(p, p->sources & ~(1u << source), runs, ns));
  for (int i = 0; i < 2; i++)
    CARNOT_TRY(carnot_timing_cache_get_or_insert(cache, key, kWhat[i], &ns[i]));
  return NULL;
}

// What the library adds to the load of the engine: its start, and what the regions ask of it.
static carnot_status* load_of(const pruning* p, int source, uint64_t* out_ns) {
  carnot_builder* builder = p->builder;
  const carnot_device* device = builder->config->device;
  const uint64_t key = builder->machine.hash + (uint64_t)source;
  *out_ns = device ? device->start_ns[source] : 0;
  CARNOT_TRY(carnot_timing_cache_get_or_insert(builder->timing_cache, key, "start", out_ns));
  *out_ns += p->uses[source].load_ns;
  return NULL;
}

static uint64_t cost_of(uint64_t load_ns) {
  return load_ns <= kShortLoadNs ? load_ns
                                 : kShortLoadNs + (load_ns - kShortLoadNs) * kLongLoadWeight;
}

static carnot_status* weigh(pruning* p, int source) {
  carnot_builder* builder = p->builder;
  const char* name = carnot_tactic_source_name((carnot_tactic_source)source);
  uint64_t ns[2], load_ns, others_ns = 0;
  bool known;
  CARNOT_TRY(load_of(p, source, &load_ns));
  for (int other = 0; other < CARNOT_SOURCE_COUNT; other++) {
    if (other == source || !p->uses[other].is_called || !(p->sources >> other & 1)) continue;
    uint64_t other_ns;
    CARNOT_TRY(load_of(p, other, &other_ns));
    others_ns += other_ns;
  }
  carnot_status* status = compare(p, source, ns, &known);
  if (carnot_status_code(status) == CARNOT_CANCELLED) return status;
  if (status || !known) {
    // An engine that cannot be timed is still an engine.
    carnot_builder_log(builder, "%s is kept, its gain is not known: %s", name,
                       status ? carnot_status_message(status) : "no time");
    carnot_status_free(status);
    return NULL;
  }
  bool pays = ns[1] > ns[0] &&
              (ns[1] - ns[0]) * kRunsPerLoad >= cost_of(others_ns + load_ns) - cost_of(others_ns);
  if (!pays) p->sources &= ~(1u << source);
  carnot_builder_log(builder,
                     "%s adds %.0f ms of load time; a run takes %.2f us with it, %.2f without: %s",
                     name, (double)load_ns * 1e-6, (double)ns[0] * 1e-3, (double)ns[1] * 1e-3,
                     pays ? "used" : "left out");
  return NULL;
}

static carnot_status* prune(pruning* p) {
  for (uint32_t r = 0; r < p->analysis->region_count; r++) CARNOT_TRY(note_region(p, r));
  for (int source = 0; source < CARNOT_SOURCE_COUNT; source++)
    if (p->uses[source].is_called && !p->uses[source].is_needed) CARNOT_TRY(weigh(p, source));
  return NULL;
}

carnot_status* carnot_prune_libraries(carnot_builder* builder, const carnot_analysis* analysis,
                                      carnot_candidates* candidates, const carnot_tuning* tuning,
                                      carnot_assignment* assignment) {
  const uint32_t allowed = builder->config->tactic_sources;
  pruning p = {.builder = builder,
               .analysis = analysis,
               .candidates = candidates,
               .tuning = tuning,
               .assignment = assignment,
               .sources = allowed};
  carnot_status* status = prune(&p);
  free(p.loaded);
  if (status || p.sources == allowed) return status;
  return carnot_select_tuned(builder, analysis, candidates, tuning, p.sources, assignment);
}
