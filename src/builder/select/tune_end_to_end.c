#include "builder/select/tune_end_to_end.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/device.h"
#include "base/hash.h"
#include "builder/measure/engine_benchmark.h"
#include "builder/measure/timing_cache.h"

// Within a quarter of the best and a microsecond: what a neighbour hides or waits for is of that
// order. A problem whose layers take less than 1/200 of the run is not worth a trial.
enum { kClose = 4, kCloseNs = 1000, kLeastShare = 200, kRounds = 4, kRuns = 4, kPasses = 3 };
enum { kTrialRuns = 2 * kRounds * (kRuns + 1) };
static const char kDone[] = "descent";

static const double kSeconds[] = {0, 0, 0, 3, 10, 30};  // by optimization level

// ---- contests ----

carnot_contest* carnot_contest_find(const carnot_builder* builder, const carnot_node* node) {
  for (size_t i = 0; i < builder->contest_count; i++)
    if (builder->contests[i].node == node) return &builder->contests[i];
  return NULL;
}

// The next slower candidate that is close, at equal times the earlier one; |count| if there is
// none.
static size_t next_close(const carnot_contest* contest, const carnot_candidate* candidates,
                         size_t count) {
  uint64_t most = contest->ns[0] + contest->ns[0] / kClose + kCloseNs;
  size_t next = count;
  for (size_t i = 0; i < count; i++) {
    bool taken = candidates[i].failed || candidates[i].ns > most;
    for (uint32_t k = 0; k < contest->count; k++) taken |= contest->rows[k] == candidates[i].row;
    if (!taken && (next == count || candidates[i].ns < candidates[next].ns)) next = i;
  }
  return next;
}

carnot_status* carnot_contest_note(carnot_builder* builder, const carnot_choice* choice,
                                   const carnot_candidate* candidates, size_t count, size_t best) {
  const carnot_candidate* chosen = &candidates[best];
  if (!chosen->row->device || !choice->problem.allow_timing) return NULL;
  int threads = carnot_executor_thread_count(builder->config->executor);
  carnot_contest contest = {.node = choice->node,
                            .key = carnot_problem_key(&choice->problem, threads),
                            .count = 1,
                            .rows = {chosen->row},
                            .ns = {chosen->ns}};
  builder->device_hash = carnot_hash(&contest.key, sizeof(contest.key), builder->device_hash);
  builder->device_hash =
      carnot_hash(chosen->row->name, strlen(chosen->row->name), builder->device_hash);
  if (chosen->ns == UINT64_MAX) return NULL;
  builder->device_ns += chosen->ns;
  size_t next;
  while (contest.count < CARNOT_MAX_VARIANTS &&
         (next = next_close(&contest, candidates, count)) < count) {
    contest.rows[contest.count] = candidates[next].row;
    contest.ns[contest.count++] = candidates[next].ns;
  }
  if (contest.count == 1) return NULL;
  void* contests = builder->contests;
  CARNOT_TRY(carnot_grow(&contests, &builder->contest_capacity, builder->contest_count + 1,
                         sizeof(contest), "contests"));
  builder->contests = contests;
  builder->contests[builder->contest_count++] = contest;
  return NULL;
}

// ---- the descent ----

typedef struct descent {
  carnot_builder* builder;
  uint64_t key;  // of the engine and the choices so far, in the timing cache
  bool replays;  // the cache holds a descent that came to its end
  bool goes_on;  // there is time, or what comes next stands in the cache
  bool is_open;
  carnot_trial trial;
  double end_ms;
  uint64_t first_ns, saved_ns;  // of the run: before, and what the changes took off
  int trial_count, change_count;
} descent;

CARNOT_PRINTF(2, 3) static void tell(const descent* d, const char* format, ...) {
  const carnot_build_config* config = d->builder->config;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (config->log) config->log(config->user, 3, text);
}

static bool are_equal(const carnot_contest* a, const carnot_contest* b) {
  return a->key == b->key && a->count == b->count && memcmp(a->rows, b->rows, sizeof(a->rows)) == 0;
}

static void weigh(carnot_builder* builder) {
  for (size_t i = 0; i < builder->contest_count; i++) {
    size_t first = 0;
    while (!are_equal(&builder->contests[first], &builder->contests[i])) first++;
    builder->contests[first].weight += builder->contests[i].ns[0];
  }
}

// Tactic |k| of a contest stands behind the others as the step's last variant when it is the first.
static void take(descent* d, const carnot_contest* contest, uint32_t k) {
  for (size_t i = 0; i < d->builder->contest_count; i++) {
    const carnot_contest* c = &d->builder->contests[i];
    if (are_equal(c, contest)) carnot_trial_take(&d->trial, c->step, k ? k - 1 : c->count - 1);
  }
}

// The trial's plan holds all tactics of every contest.
static carnot_status* open_trial(descent* d) {
  carnot_builder* builder = d->builder;
  CARNOT_TRY(carnot_trial_open(builder, CARNOT_LOWER_TRIAL, &d->trial));
  d->is_open = true;
  for (size_t i = 0; i < builder->contest_count; i++)
    take(d, &builder->contests[i], builder->contests[i].chosen);
  return NULL;
}

// Bursts of both in turn. |out_ns|: the least of the standing tactic's, the greatest of the
// other's, so that chance and drift decide nothing; a round that is lost clearly is the last.
static carnot_status* time_both(descent* d, const carnot_contest* contest, uint32_t other,
                                uint64_t out_ns[2]) {
  if (!d->is_open) CARNOT_TRY(open_trial(d));
  out_ns[0] = UINT64_MAX, out_ns[1] = 0;
  for (int round = 0; round < kRounds && out_ns[1] < out_ns[0]; round++) {
    uint64_t ns[2];
    take(d, contest, contest->chosen);
    CARNOT_TRY(carnot_trial_time(&d->trial, kRuns, &ns[0]));
    take(d, contest, other);
    CARNOT_TRY(carnot_trial_time(&d->trial, kRuns, &ns[1]));
    if (ns[0] < out_ns[0]) out_ns[0] = ns[0];
    if (ns[1] > out_ns[1]) out_ns[1] = ns[1];
  }
  take(d, contest, contest->chosen);
  d->trial_count++;
  return NULL;
}

// The nanoseconds of the run with the standing tactic and with |other|, from the cache or by a
// trial; *out_known is false where there is time for neither.
static carnot_status* compare(descent* d, const carnot_contest* contest, uint32_t other,
                              uint64_t ns[2], bool* out_known) {
  carnot_timing_cache* cache = d->builder->timing_cache;
  uint64_t key = carnot_hash(&contest->key, sizeof(contest->key), d->key + other);
  const char* names[2] = {contest->rows[contest->chosen]->name, contest->rows[other]->name};
  *out_known = carnot_timing_cache_find(cache, key, names[0], &ns[0]) &&
               carnot_timing_cache_find(cache, key, names[1], &ns[1]);
  if (*out_known || d->replays) return NULL;
  *out_known = carnot_builder_now_ms() < d->end_ms && !carnot_builder_is_late(d->builder);
  if (!*out_known) return NULL;
  CARNOT_TRY(time_both(d, contest, other, ns));
  for (int i = 0; i < 2; i++)
    CARNOT_TRY(carnot_timing_cache_get_or_insert(cache, key, names[i], &ns[i]));
  return NULL;
}

static carnot_status* decide(descent* d, carnot_contest* contest) {
  carnot_builder* builder = d->builder;
  for (uint32_t other = 0; other < contest->count; other++) {
    uint64_t ns[2];
    if (other == contest->chosen) continue;
    CARNOT_TRY(compare(d, contest, other, ns, &d->goes_on));
    if (!d->goes_on) return NULL;
    bool wins = ns[1] < ns[0];
    tell(d, "Descent: the run with %s for %s took %.2f us, with %s %.2f",
         contest->rows[other]->name, contest->node->name, (double)ns[1] * 1e-3,
         contest->rows[contest->chosen]->name, (double)ns[0] * 1e-3);
    if (!d->first_ns) d->first_ns = ns[0];
    if (!wins) continue;
    d->saved_ns += ns[0] - ns[1];
    d->key = carnot_hash(&contest->key, sizeof(contest->key), d->key + other);
    if (d->is_open) take(d, contest, other);
    for (size_t i = builder->contest_count; i-- > 0;)
      if (are_equal(&builder->contests[i], contest)) builder->contests[i].chosen = other;
    d->change_count++;
  }
  return NULL;
}

// The heaviest problems first, each once.
static carnot_status* decide_all(descent* d) {
  carnot_builder* builder = d->builder;
  uint64_t least = builder->device_ns / kLeastShare, below = UINT64_MAX;
  for (;;) {
    uint64_t heaviest = 0;
    for (size_t i = 0; i < builder->contest_count; i++) {
      uint64_t weight = builder->contests[i].weight;
      if (weight < below && weight > heaviest) heaviest = weight;
    }
    if (heaviest < least || !heaviest || !d->goes_on) return NULL;
    for (size_t i = 0; i < builder->contest_count; i++)
      if (builder->contests[i].weight == heaviest) CARNOT_TRY(decide(d, &builder->contests[i]));
    below = heaviest;
  }
}

// Whatever keeps the trial from running is no reason to refuse the engine.
static carnot_status* give_up(const descent* d, carnot_status* status) {
  if (carnot_status_code(status) == CARNOT_CANCELLED) return status;
  tell(d, "no descent: %s", carnot_status_message(status));
  carnot_status_free(status);
  return NULL;
}

carnot_status* carnot_descend(carnot_builder* builder) {
  double seconds = kSeconds[builder->config->level];
  bool is_long = (double)builder->device_ns * kTrialRuns > seconds * 1e9;
  if (!builder->contest_count || seconds == 0 || is_long) return NULL;
  weigh(builder);
  descent d = {.builder = builder,
               .key = builder->device_hash,
               .end_ms = carnot_builder_now_ms() + seconds * 1e3};
  uint64_t ns;
  d.replays = carnot_timing_cache_find(builder->timing_cache, d.key, kDone, &ns);
  d.goes_on = true;
  carnot_status* status = NULL;
  for (int pass = 0, before = -1; pass < kPasses && !status && d.change_count > before; pass++) {
    before = d.change_count;
    status = carnot_builder_progress(builder, "descent", pass, kPasses);
    if (!status) status = decide_all(&d);
  }
  if (!status) status = carnot_builder_progress(builder, "descent", kPasses, kPasses);
  if (!status && !d.replays && d.first_ns)
    status =
        carnot_timing_cache_add(builder->timing_cache, builder->device_hash, kDone, d.first_ns);
  if (d.is_open) carnot_trial_close(&d.trial);
  if (status) CARNOT_TRY(give_up(&d, status));
  tell(&d, "Descent: %d trials, %d changes, which take %.1f us off %.1f", d.trial_count,
       d.change_count, (double)d.saved_ns * 1e-3, (double)d.first_ns * 1e-3);
  return d.change_count ? carnot_lower_again(builder) : NULL;
}
