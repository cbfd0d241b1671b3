// Pins tactics one after the other through carnot_build_config.pins.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include "every_tactic.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "backend/cpu/onednn/onednn_library.h"

// A bound of sum|a*b| divided by the greatest magnitude of the result, for the sums of the cases:
// their terms cancel less than this, and operators after the sum amplify less.
enum { kCancellation = 4 };

// Of the largest magnitude: what float32 sums of thousands of terms, as layers to be timed have,
// may be off. Cases that are only checked are small.
static const double kLargeSums = 1e-4;

tactic_tally* tactic_tally_create(void) {
  void* memory =
      mmap(NULL, sizeof(tactic_tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? NULL : memory;
}

typedef struct pinning {
  const carnot_tactic* pinned;         // NULL: none, tactics are noted only
  bool takes_one[CARNOT_MAX_TACTICS];  // the tactic takes a region of the case
  bool was_pinned[CARNOT_MAX_TACTICS];
} pinning;

static size_t position_of(const carnot_tactic* tactic) {
  size_t count, at = 0;
  const carnot_tactic* const* table = carnot_tactics(/*backend=*/false, &count);
  while (at < count && table[at] != tactic) at++;
  return at;
}

static bool pin(void* user, const carnot_tactic* tactic) {
  pinning* p = user;
  p->takes_one[position_of(tactic)] = true;
  return tactic == p->pinned;
}

static void note_tactics(const carnot_plan* plan, tactic_tally* tally) {
  for (uint32_t i = 0; i < plan->step_count; i++)
    for (uint32_t v = 0; v < plan->steps[i].variant_count; v++) {
      const carnot_tactic* tactic = carnot_tactic_find(plan->steps[i].variants[v].tactic);
      if (tactic) tally->has_run[position_of(tactic)] = true;
    }
}

// Needs permission: half precision, or shortcuts of float32.
static bool needs_permission(const carnot_tactic* tactic) {
  return tactic->numerics == CARNOT_NUMERICS_HALF || tactic->numerics == CARNOT_NUMERICS_SPLIT3 ||
         tactic->numerics == CARNOT_NUMERICS_WINOGRAD_4X4;
}

// The part of the greatest magnitude of a result that it may be off for |tactic|'s arithmetic.
static double half_bound_of(const carnot_tactic* tactic) {
  if (!tactic || !needs_permission(tactic)) return 0;
  return kCancellation *
         carnot_numerics_bound(tactic->numerics, CARNOT_DTYPE_F32, tactic->precision, /*k=*/1);
}

// Prints the least time of about 50 ms of runs with the inputs of the last set, and the arithmetic
// that the inspector counts.
static carnot_status* print_time(const char* name, const carnot_tactic* tactic,
                                 carnot_context* context) {
  double best = 1e30, sum = 0, flops = 0;
  for (int run = 0; run < 5 || sum < 0.05; run++) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    CARNOT_TRY(carnot_context_run_now(context));
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds =
        (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    best = seconds < best ? seconds : best;
    sum += seconds;
  }
  json_t *engine = json_loads(context->plan->inspector, 0, NULL), *layer;
  size_t i;
  json_array_foreach(json_object_get(engine, "Layers"), i, layer) flops +=
      json_number_value(json_object_get(layer, "Flops"));
  json_decref(engine);
  printf("%-24s %-36s %10.1f us %8.1f GFLOP/s\n", name, tactic ? tactic->name : "(as built)",
         1e6 * best, 1e-9 * flops / best);
  return NULL;
}

static carnot_status* check_pinned(const char* name, const test_case* test,
                                   const case_options* options, const carnot_tactic* tactic,
                                   tactic_tally* tally) {
  carnot_context* context;
  CARNOT_TRY(case_open(test, options, &context));
  double bound = half_bound_of(tactic);
  if (options->time && bound < kLargeSums) bound = kLargeSums;
  carnot_status* status = case_check_engine(test, context, bound);
  if (!status && options->time) status = print_time(name, tactic, context);
  if (!status) note_tactics(context->plan, tally);
  carnot_context_free(context);
  return status;
}

// Pins every tactic that is known to take a region and computes in half precision, or not, as
// |options| say. Another choice may change the formats of a later region and so bring further
// tactics.
static int check_arithmetic(const char* name, const test_case* test, const case_options* options,
                            pinning* p, tactic_tally* tally) {
  size_t count;
  const carnot_tactic* const* table = carnot_tactics(/*backend=*/false, &count);
  int failed = 0;
  for (size_t i = 0; i < count; i++) {
    bool is_half = needs_permission(table[i]);
    if (!p->takes_one[i] || p->was_pinned[i] || is_half != options->half) continue;
    p->pinned = table[i];
    p->was_pinned[i] = true;
    carnot_status* status = check_pinned(name, test, options, p->pinned, tally);
    tally->pairs++;
    if (status) {
      printf("FAILED %s with %s: %s\n", name, table[i]->name, carnot_status_message(status));
      tally->failed_pairs++;
      failed++;
    }
    carnot_status_free(status);
    i = (size_t)-1;  // begins again: an earlier tactic may take a region by now
  }
  return failed;
}

carnot_status* case_check_every_tactic(const char* name, const test_case* test,
                                       const case_options* options, tactic_tally* tally) {
  int failed = 0;
  for (int half = 0; half < 2; half++) {
    pinning p = {.pinned = NULL};
    case_options pinned = *options;
    pinned.half = half;
    pinned.pins = pin;
    pinned.user = &p;
    if (half) {
      // Only to learn which tactics take a region: the default may be any of half precision.
      carnot_context* context;
      CARNOT_TRY(case_open(test, &pinned, &context));
      carnot_context_free(context);
    } else {
      CARNOT_TRY(check_pinned(name, test, &pinned, NULL, tally));
    }
    failed += check_arithmetic(name, test, &pinned, &p, tally);
  }
  CARNOT_CHECK(!failed, INTERNAL, "%d tactics failed", failed);
  return NULL;
}

int tactic_tally_print(const tactic_tally* tally, int isa) {
  size_t count;
  const carnot_tactic* const* table = carnot_tactics(/*backend=*/false, &count);
  const carnot_isa level = isa >= 0 ? (carnot_isa)isa : carnot_isa_of_machine();
  int missed = 0;
  for (size_t i = 0; i < count; i++) {
    if (tally->has_run[i] || !carnot_isa_includes(level, table[i]->isa)) continue;
    if (table[i]->sources && carnot_onednn_lacks()) continue;
    printf("%s%s", missed++ ? ", " : "tactics that no case ran: ", table[i]->name);
  }
  printf("%s%u pairs of a case and a tactic, %u failed; %d tactics of %s without a case\n",
         missed ? "\n" : "", tally->pairs, tally->failed_pairs, missed, carnot_isa_name(level));
  return missed;
}
