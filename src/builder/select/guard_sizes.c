// Candidates at one of the sizes that shapes leave open.
#include "builder/select/guard_sizes.h"

#include "builder/measure/cost_model.h"

// What is timed beside the optimum is bounded: bytes of an operand, operations of the region.
static const double kMostTimedBytes = 0x1p26, kMostTimedFlops = 4.5e9;

// ---- sizes ----

bool carnot_guarded_find(const carnot_problem* p, carnot_guarded_quantity* out) {
  for (uint32_t i = 0; i < p->input_count; i++) {
    const carnot_operand_desc* t = &p->inputs[i];
    uint32_t varying = 0;
    for (int d = 0; d < t->rank && !t->is_constant; d++)
      if (t->min[d] != t->max[d]) {
        *out = (carnot_guarded_quantity){i, varying++ ? CARNOT_GUARD_ELEMENTS : (uint32_t)d};
      }
    if (varying) return true;
  }
  return false;
}

double carnot_guarded_size(const carnot_problem* p, carnot_guarded_quantity q) {
  const carnot_operand_desc* t = &p->inputs[q.operand];
  double elements = 1;
  if (q.dim != CARNOT_GUARD_ELEMENTS) return (double)t->dims[q.dim];
  for (int d = 0; d < t->rank; d++) elements *= (double)t->dims[d];
  return elements;
}

static bool is_too_large(const carnot_candidate* c) {
  const carnot_problem* p = &c->problem;
  double flops = 0, moved = 0;
  for (uint32_t i = 0; i < p->input_count + p->output_count; i++) {
    const carnot_operand_desc* t =
        i < p->input_count ? &p->inputs[i] : &p->outputs[i - p->input_count];
    if (t->kind != CARNOT_VALUE_TENSOR || t->is_constant) continue;
    double bytes = carnot_dtype_bits(t->format.dtype) / 8.0;
    for (int d = 0; d < t->rank; d++) bytes *= (double)t->dims[d];
    if (bytes > kMostTimedBytes) return true;
  }
  carnot_candidate_work(c, &flops, &moved);
  return flops > kMostTimedFlops;
}

// ---- candidates at one size ----

typedef struct sized_candidates {
  carnot_candidate items[CARNOT_MAX_CANDIDATES];
  uint32_t of[CARNOT_MAX_CANDIDATES];  // index of the set; NONE: takes this size, not the optimum
  uint32_t count;
} sized_candidates;

// |from| at |size|; false when it cannot be timed there.
static carnot_status* candidate_at(const carnot_guard_builder* g, const carnot_symbol_sizes* size,
                                   const carnot_candidate* from, carnot_candidate* out,
                                   bool* out_timed) {
  *out = (carnot_candidate){.tactic = from->tactic, .ns = UINT64_MAX};
  CARNOT_TRY(carnot_problem_copy(&g->builder->problems, &from->problem, &out->problem));
  CARNOT_TRY(carnot_problem_resize(g->builder, g->facts, size, &out->problem, out_timed));
  *out_timed = *out_timed && !is_too_large(out);
  return NULL;
}

// The candidates of the set that take the size: tactics refuse what they would compute slowly.
// Behind them the tactics that take it and refuse the optimum. Empty when the size is not timed.
static carnot_status* candidates_at(const carnot_guard_builder* g, const carnot_symbol_sizes* size,
                                    sized_candidates* out) {
  const carnot_candidate_set* set = g->set;
  bool timed;
  out->count = 0;
  for (uint32_t i = 0; i < set->count; i++) {
    carnot_candidate* c = &out->items[out->count];
    CARNOT_TRY(candidate_at(g, size, &set->items[i], c, &timed));
    if (!timed) {
      out->count = 0;
      return NULL;
    }
    char reason[256];
    const char* why = c->tactic->reject(&c->problem, reason, sizeof(reason));
    CARNOT_TRY(carnot_reject_status(why));
    if (!why) out->of[out->count++] = i;
  }
  carnot_problem problem;
  uint32_t others;
  CARNOT_TRY(carnot_problem_copy(&g->builder->problems, &set->problem, &problem));
  CARNOT_TRY(carnot_problem_resize(g->builder, g->facts, size, &problem, &timed));
  CARNOT_TRY(carnot_enumerate_others(g->builder, set, &problem, out->items + out->count,
                                     CARNOT_MAX_CANDIDATES - out->count, &others));
  for (uint32_t i = 0; i < others; i++) out->of[out->count++] = CARNOT_PLAN_NONE;
  return NULL;
}

// Whether |c| is so much faster than |best| that it is worth a second variant: by a
// tenth, or by a quarter as the same kernel for an older instruction set, which noise may favour.
static bool is_worth_variant(const carnot_candidate* c, const carnot_candidate* best) {
  const bool is_older = carnot_is_newer_kernel(best->tactic, c->tactic);
  return c->ns < best->ns - best->ns / (is_older ? 4 : 10);
}

// The fastest of the candidates, |best| (NONE: it does not take the problem at this size) where
// it was not timed, unless it cannot be the fastest, or no other earns a variant.
static uint32_t winner_at(const sized_candidates* at, uint32_t best) {
  uint32_t winner = best;
  if (best != CARNOT_PLAN_NONE && at->items[best].ns == UINT64_MAX && !at->items[best].is_hopeless)
    return best;
  for (uint32_t i = 0; i < at->count; i++) {
    const carnot_candidate* c = &at->items[i];
    if (c->failed || c->ns == UINT64_MAX) continue;
    if (winner == CARNOT_PLAN_NONE ||
        (c->ns + carnot_candidate_margin(at->items, i) < at->items[winner].ns &&
         (best == CARNOT_PLAN_NONE || is_worth_variant(c, &at->items[best]))))
      winner = i;
  }
  return winner;
}

// The index in the set of |item|, which takes one size and not the optimum; added where it is new.
static carnot_status* find_or_add_item(const carnot_guard_builder* g, const carnot_candidate* item,
                                       uint32_t* out_index) {
  carnot_candidate_set* set = g->set;
  const uint32_t count = set->count + set->end_count;
  for (uint32_t i = set->count; i < count; i++) {
    *out_index = i;
    if (set->items[i].tactic == item->tactic) return NULL;
  }
  carnot_candidate* items = CARNOT_NEW_ARRAY(&g->builder->problems, carnot_candidate, count + 1);
  CARNOT_TRY(carnot_arena_status(&g->builder->problems));
  memcpy(items, set->items, count * sizeof(*items));
  items[count] = *item;
  set->items = items;
  set->end_count++;
  *out_index = count;
  return NULL;
}

carnot_status* carnot_time_at(const carnot_guard_builder* g, const carnot_symbol_sizes* symbols,
                              carnot_timed_size* out) {
  sized_candidates at;
  uint32_t best = CARNOT_PLAN_NONE;
  *out = (carnot_timed_size){.symbols = *symbols, .winner = g->region->candidate};
  CARNOT_TRY(candidates_at(g, symbols, &at));
  if (!at.count) return NULL;
  for (uint32_t i = 0; i < at.count; i++)
    if (at.of[i] == g->region->candidate) best = i;
  const carnot_problem* key = &at.items[best == CARNOT_PLAN_NONE ? 0 : best].problem;
  CARNOT_TRY(carnot_measure_candidates(g->builder, g->facts->name, key, at.items, at.count));
  const uint32_t winner = winner_at(&at, best);
  out->quantity = carnot_guarded_size(key, g->guarded);
  const carnot_candidate* item =
      at.of[winner] == CARNOT_PLAN_NONE ? &at.items[winner] : &g->set->items[at.of[winner]];
  if (winner == best ||
      !carnot_candidates_share_layouts(item, &g->set->items[g->region->candidate]))
    return NULL;
  out->winner = at.of[winner];
  return out->winner == CARNOT_PLAN_NONE ? find_or_add_item(g, item, &out->winner) : NULL;
}
