// Libraries cost when an engine is loaded: opening, starting, planning. One stays where its gain in
// a run pays for that.
#include "builder/select/library_pruning.h"

#include <stdio.h>
#include <string.h>

#include "backend/device.h"
#include "base/hash.h"
#include "builder/measure/engine_benchmark.h"
#include "builder/measure/timing_cache.h"
#include "builder/select/tune_end_to_end.h"

// Runs that an engine is loaded for: a millisecond of loading is worth a nanosecond of each.
static const uint64_t kLoadedFor = 1000000;
enum { kRounds = 5, kRuns = 8, kLongestSeconds = 3 };

// ---- what the layers ask of libraries ----

// Of one problem, however many steps it has.
static carnot_status* add_load(carnot_builder* builder, const carnot_choice* choice,
                               const carnot_candidate* chosen, carnot_library_use* use) {
  int threads = carnot_executor_thread_count(builder->config->executor);
  const uint64_t key = carnot_problem_key(&choice->problem, threads);
  for (size_t i = 0; i < builder->loaded_count; i++)
    if (builder->loaded[i] == key) return NULL;
  void* loaded = builder->loaded;
  CARNOT_TRY(carnot_grow(&loaded, &builder->loaded_capacity, builder->loaded_count + 1,
                         sizeof(*builder->loaded), "problems"));
  builder->loaded = loaded;
  builder->loaded[builder->loaded_count++] = key;
  char what[96];
  uint64_t ns = chosen->row->load_ns(&chosen->problem, &chosen->prepared);
  snprintf(what, sizeof(what), "%s_load", chosen->row->name);
  CARNOT_TRY(carnot_timing_cache_get_or_insert(builder->timing_cache, key, what, &ns));
  use->load_ns += ns;
  return NULL;
}

carnot_status* carnot_libraries_note(carnot_builder* builder, const carnot_choice* choice,
                                     const carnot_candidate* candidates, size_t count,
                                     size_t best) {
  if (builder->phase == CARNOT_LOWER_TRIAL) return NULL;
  const carnot_candidate* chosen = &candidates[best];
  for (int source = 0; source < CARNOT_SOURCE_COUNT; source++) {
    if (!(chosen->row->sources >> source & 1)) continue;
    carnot_library_use* use = &builder->libraries[source];
    bool has_other = false;
    for (size_t i = 0; i < count; i++)
      has_other |= !candidates[i].failed && !(candidates[i].row->sources >> source & 1) &&
                   candidates[i].ns != UINT64_MAX;
    use->is_called = true;
    use->is_needed |= chosen->ns == UINT64_MAX || !has_other;
    if (chosen->row->load_ns && !use->is_needed) CARNOT_TRY(add_load(builder, choice, chosen, use));
  }
  return NULL;
}

// ---- runs with a library and without ----

static carnot_status* open_trial(carnot_builder* builder, uint32_t sources, carnot_trial* out) {
  const uint32_t allowed = builder->tactic_sources;
  builder->tactic_sources = sources;
  carnot_status* status = carnot_trial_open(builder, CARNOT_LOWER_LAST, out);
  builder->tactic_sources = allowed;
  return status;
}

// Bursts of both in turn; the least of each.
static carnot_status* time_both(carnot_builder* builder, uint32_t without, uint64_t out_ns[2]) {
  const uint32_t sources[2] = {builder->tactic_sources, without};
  carnot_trial trials[2];
  int open = 0;
  carnot_status* status = NULL;
  for (; open < 2 && !status; open += !status)
    status = open_trial(builder, sources[open], &trials[open]);
  out_ns[0] = out_ns[1] = UINT64_MAX;
  for (int i = 0; i < 2 * kRounds && !status; i++) {
    uint64_t ns;
    status = carnot_trial_time(&trials[i % 2], kRuns, &ns);
    if (!status && ns < out_ns[i % 2]) out_ns[i % 2] = ns;
  }
  while (open) carnot_trial_close(&trials[--open]);
  return status;
}

// The nanoseconds of a run with and without the source, from the cache or by trials; *out_known is
// false where there is time for neither.
static carnot_status* compare(carnot_builder* builder, int source, uint64_t ns[2],
                              bool* out_known) {
  static const char* const kWhat[2] = {"with", "without"};
  carnot_timing_cache* cache = builder->timing_cache;
  uint64_t key = builder->device_hash + (uint64_t)source;
  for (size_t i = 0; i < builder->contest_count; i++)
    key = carnot_hash(&builder->contests[i].chosen, sizeof(builder->contests[i].chosen), key);
  *out_known = carnot_timing_cache_find(cache, key, kWhat[0], &ns[0]) &&
               carnot_timing_cache_find(cache, key, kWhat[1], &ns[1]);
  if (*out_known) return NULL;
  const double seconds = (double)builder->device_ns * 1e-9 * 2 * kRounds * (kRuns + 1);
  *out_known =
      builder->config->level >= 3 && seconds < kLongestSeconds && !carnot_builder_is_late(builder);
  if (!*out_known) return NULL;
  CARNOT_TRY(time_both(builder, builder->tactic_sources & ~(1u << source), ns));
  for (int i = 0; i < 2; i++)
    CARNOT_TRY(carnot_timing_cache_get_or_insert(cache, key, kWhat[i], &ns[i]));
  return NULL;
}

static carnot_status* weigh(carnot_builder* builder, int source, const carnot_library_use* use) {
  const carnot_build_config* config = builder->config;
  const char* name = carnot_tactic_source_name((carnot_tactic_source)source);
  uint64_t ns[2], load_ns = config->device->start_ns[source];
  bool known;
  char text[256];
  const uint64_t key =
      carnot_hash(config->device->name, strlen(config->device->name), (uint64_t)source);
  CARNOT_TRY(carnot_timing_cache_get_or_insert(builder->timing_cache, key, "start", &load_ns));
  load_ns += use->load_ns;
  carnot_status* status = compare(builder, source, ns, &known);
  if (carnot_status_code(status) == CARNOT_CANCELLED) return status;
  if (status || !known) {
    // Whatever keeps the trials from running is no reason to refuse the engine.
    snprintf(text, sizeof(text), "%s stays, its gain is not known: %s", name,
             status ? carnot_status_message(status) : "no time");
    carnot_status_free(status);
  } else {
    const uint64_t gain_ns = ns[1] > ns[0] ? ns[1] - ns[0] : 0;
    bool pays = gain_ns * kLoadedFor >= load_ns;
    if (!pays) builder->tactic_sources &= ~(1u << source);
    snprintf(text, sizeof(text),
             "%s takes %.0f ms of loading; a run takes %.2f us with it, %.2f without: %s", name,
             (double)load_ns * 1e-6, (double)ns[0] * 1e-3, (double)ns[1] * 1e-3,
             pays ? "used" : "left out");
  }
  if (config->log) config->log(config->user, 3, text);
  return NULL;
}

carnot_status* carnot_libraries_weigh(carnot_builder* builder) {
  if (!builder->config->device) return NULL;
  carnot_library_use uses[CARNOT_SOURCE_COUNT];
  const uint32_t before = builder->tactic_sources;
  memcpy(uses, builder->libraries, sizeof(uses));  // lowering writes it anew
  for (int source = 0; source < CARNOT_SOURCE_COUNT; source++)
    if (uses[source].is_called && !uses[source].is_needed)
      CARNOT_TRY(weigh(builder, source, &uses[source]));
  return builder->tactic_sources == before ? NULL : carnot_lower_again(builder);
}
