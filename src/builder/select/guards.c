// Guarded variants: another tactic at the ends of a range of shapes.
#include "backend/device.h"
#include "builder/select/select.h"

typedef enum end_of_range { LEAST, GREATEST } end_of_range;

enum { kMostTimedBytes = 1 << 28 };

// Sets the dimensions of |out|, a copy of |p|, at one end of the range of |p|. False when the end
// equals the optimum, is infinite or is too large to be timed.
static bool set_end(const carnot_problem* p, end_of_range end, carnot_problem* out) {
  bool differs = false;
  for (uint32_t i = 0; i < p->input_count + p->output_count; i++) {
    carnot_operand_desc* t =
        i < p->input_count ? &out->inputs[i] : &out->outputs[i - p->input_count];
    double bytes = carnot_dtype_bits(t->format.dtype) / 8.0;
    for (int d = 0; d < t->rank && !t->is_constant; d++) {
      int64_t dim = end == LEAST ? carnot_max_i64(1, t->min[d]) : t->max[d];
      differs |= dim != t->dims[d];
      t->dims[d] = dim;
      bytes *= (double)dim;
    }
    if (t->kind == CARNOT_VALUE_TENSOR && bytes > (double)kMostTimedBytes) return false;
  }
  return differs;
}

// The guard is on the first dimension of the first operand that varies; its limit is the geometric
// mean of the optimum and the end.
static bool make_guard(const carnot_problem* p, end_of_range end, carnot_guard* out) {
  for (uint32_t i = 0; i < p->input_count; i++) {
    const carnot_operand_desc* t = &p->inputs[i];
    for (int d = 0; d < t->rank && !t->is_constant; d++) {
      if (t->min[d] == t->max[d]) continue;
      int64_t from = end == LEAST ? carnot_max_i64(1, t->min[d]) : t->dims[d],
              to = end == LEAST ? t->dims[d] : t->max[d];
      int64_t middle = from;
      while ((middle + 1) * (middle + 1) <= from * to) middle++;
      *out = (carnot_guard){
          .operand = i, .dim = (uint32_t)d, .min = 0, .max = INT64_MAX, .multiple = 1};
      *(end == LEAST ? &out->max : &out->min) = end == LEAST ? middle : middle + 1;
      return true;
    }
  }
  return false;
}

// The fastest of |count| candidates, |best| (NONE: it does not take the problem at the end) where
// no other is faster by a tenth: a second variant must earn its place.
static uint32_t winner_at(const carnot_candidate* at, uint32_t count, uint32_t best) {
  uint32_t winner = best;
  if (best != CARNOT_PLAN_NONE && at[best].ns == UINT64_MAX) return best;
  for (uint32_t i = 0; i < count; i++) {
    if (at[i].failed || at[i].ns == UINT64_MAX) continue;
    if (winner == CARNOT_PLAN_NONE ||
        (at[i].ns < at[winner].ns &&
         (best == CARNOT_PLAN_NONE || at[i].ns < at[best].ns - at[best].ns / 10)))
      winner = i;
  }
  return winner;
}

// The candidates of |set| at one end of the range, without those that do not take it there: tactics
// refuse what they would compute slowly; behind them the tactics that take the end alone. |of|:
// their indices in the set, NONE of the latter. |*out_count| is 0 when the end is not timed.
static carnot_status* candidates_at(carnot_builder* builder, const carnot_candidate_set* set,
                                    end_of_range end, carnot_candidate* at, uint32_t* of,
                                    uint32_t* out_count) {
  uint32_t count = 0;
  *out_count = 0;
  for (uint32_t i = 0; i < set->count; i++) {
    const carnot_problem* problem = &set->items[i].problem;
    carnot_candidate* c = &at[count];
    *c = (carnot_candidate){.tactic = set->items[i].tactic, .ns = UINT64_MAX};
    CARNOT_TRY(carnot_problem_copy(&builder->problems, problem, &c->problem));
    if (!set_end(problem, end, &c->problem)) return NULL;
    char reason[256];
    const char* why = c->tactic->reject(&c->problem, reason, sizeof(reason));
    CARNOT_TRY(carnot_reject_status(why));
    if (!why) of[count++] = i;
  }
  carnot_problem problem;
  uint32_t others;
  CARNOT_TRY(carnot_problem_copy(&builder->problems, &set->problem, &problem));
  if (!set_end(&set->problem, end, &problem)) return NULL;
  CARNOT_TRY(carnot_enumerate_others(builder, set, &problem, at + count,
                                     CARNOT_MAX_CANDIDATES - count, &others));
  for (uint32_t i = 0; i < others; i++) of[count++] = CARNOT_PLAN_NONE;
  *out_count = count;
  return NULL;
}

// Adds a tactic that is none of the set's candidates, as its problem is at the end; its index.
static carnot_status* add_item(carnot_builder* builder, carnot_candidate_set* set,
                               const carnot_candidate* item, uint32_t* out_index) {
  const uint32_t count = set->count + set->end_count;
  carnot_candidate* items = CARNOT_NEW_ARRAY(&builder->problems, carnot_candidate, count + 1);
  CARNOT_TRY(carnot_arena_status(&builder->problems));
  memcpy(items, set->items, count * sizeof(*items));
  items[count] = *item;
  set->items = items;
  set->end_count++;
  *out_index = count;
  return NULL;
}

static carnot_status* add_variant(carnot_builder* builder, const char* node,
                                  carnot_candidate_set* set, end_of_range end,
                                  carnot_assigned_region* region) {
  carnot_candidate at[CARNOT_MAX_CANDIDATES];
  uint32_t of[CARNOT_MAX_CANDIDATES], count, best = CARNOT_PLAN_NONE;
  carnot_guard guard;
  if (!make_guard(&set->problem, end, &guard)) return NULL;
  CARNOT_TRY(candidates_at(builder, set, end, at, of, &count));
  if (!count) return NULL;
  for (uint32_t i = 0; i < count; i++)
    if (of[i] == region->candidate) best = i;
  const carnot_problem* key = &at[best == CARNOT_PLAN_NONE ? 0 : best].problem;
  CARNOT_TRY(carnot_measure_candidates(builder, node, key, at, count));
  const uint32_t winner = winner_at(at, count, best);
  if (winner == best || !carnot_candidates_share_layouts(
                            of[winner] == CARNOT_PLAN_NONE ? &at[winner] : &set->items[of[winner]],
                            &set->items[region->candidate]))
    return NULL;
  if (of[winner] == CARNOT_PLAN_NONE) CARNOT_TRY(add_item(builder, set, &at[winner], &of[winner]));
  region->guarded[region->guarded_count].candidate = of[winner];
  region->guarded[region->guarded_count++].guard = guard;
  return NULL;
}

carnot_status* carnot_add_guarded_variants(carnot_builder* builder, const char* node,
                                           carnot_candidate_set* set,
                                           carnot_assigned_region* region) {
  if (set->count < 2 || builder->config->level < 3 || set->items[region->candidate].tactic->device)
    return NULL;
  CARNOT_TRY(add_variant(builder, node, set, LEAST, region));
  return add_variant(builder, node, set, GREATEST, region);
}
