// Guarded variants: another tactic for a part of the sizes that shapes leave open.
#include <math.h>

#include "backend/device.h"
#include "builder/select/select.h"

// What is timed beside the optimum is bounded: bytes of an operand, operations of the region.
static const double kMostTimedBytes = 0x1p26, kMostTimedFlops = 4.5e9;

// The quantity that guards bound: the only dimension of an operand that varies, or, of several,
// their product.
typedef struct guarded_quantity {
  uint32_t operand, dim;
} guarded_quantity;

// Between sizes with winners of their own that are further apart others are timed.
static const double kMostApart = 3;
enum { kMostSizes = 16 };

// A size at which candidates are compared. |winner| is an index of the set.
typedef struct timed_size {
  carnot_symbol_sizes symbols;
  double quantity;  // 0: the size cannot be timed
  uint32_t winner;
} timed_size;

typedef struct size_list {
  uint32_t count;
  timed_size items[kMostSizes];  // growing
} size_list;

typedef struct guard_builder {
  carnot_builder* builder;
  const carnot_region_facts* facts;
  carnot_candidate_set* set;
  carnot_assigned_region* region;
  guarded_quantity guarded;
} guard_builder;

// ---- sizes ----

// The first operand that varies; false when none does.
static bool find_quantity(const carnot_problem* p, guarded_quantity* out) {
  for (uint32_t i = 0; i < p->input_count; i++) {
    const carnot_operand_desc* t = &p->inputs[i];
    uint32_t varying = 0;
    for (int d = 0; d < t->rank && !t->is_constant; d++)
      if (t->min[d] != t->max[d]) {
        *out = (guarded_quantity){i, varying++ ? CARNOT_GUARD_ELEMENTS : (uint32_t)d};
      }
    if (varying) return true;
  }
  return false;
}

static double quantity_of(const carnot_problem* p, guarded_quantity q) {
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
static carnot_status* candidate_at(const guard_builder* g, const carnot_symbol_sizes* size,
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
static carnot_status* candidates_at(const guard_builder* g, const carnot_symbol_sizes* size,
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

// The fastest of the candidates, |best| (NONE: it does not take the problem at this size) where
// it was not timed, unless it cannot be the fastest, or no other is faster by a tenth: a second
// variant must earn its place.
static uint32_t winner_at(const sized_candidates* at, uint32_t best) {
  uint32_t winner = best;
  if (best != CARNOT_PLAN_NONE && at->items[best].ns == UINT64_MAX && !at->items[best].is_hopeless)
    return best;
  for (uint32_t i = 0; i < at->count; i++) {
    const uint64_t ns = at->items[i].ns;
    if (at->items[i].failed || ns == UINT64_MAX) continue;
    if (winner == CARNOT_PLAN_NONE ||
        (ns < at->items[winner].ns &&
         (best == CARNOT_PLAN_NONE || ns < at->items[best].ns - at->items[best].ns / 10)))
      winner = i;
  }
  return winner;
}

// The index in the set of |item|, which takes one size and not the optimum; added where it is new.
static carnot_status* find_or_add_item(const guard_builder* g, const carnot_candidate* item,
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

// Times the candidates at the size |symbols|. The winner is the region's candidate where no other
// is worth a variant or the size is not timed.
static carnot_status* time_at(const guard_builder* g, const carnot_symbol_sizes* symbols,
                              timed_size* out) {
  sized_candidates at;
  uint32_t best = CARNOT_PLAN_NONE;
  *out = (timed_size){.symbols = *symbols, .winner = g->region->candidate};
  CARNOT_TRY(candidates_at(g, symbols, &at));
  if (!at.count) return NULL;
  for (uint32_t i = 0; i < at.count; i++)
    if (at.of[i] == g->region->candidate) best = i;
  const carnot_problem* key = &at.items[best == CARNOT_PLAN_NONE ? 0 : best].problem;
  CARNOT_TRY(carnot_measure_candidates(g->builder, g->facts->name, key, at.items, at.count));
  const uint32_t winner = winner_at(&at, best);
  out->quantity = quantity_of(key, g->guarded);
  const carnot_candidate* item =
      at.of[winner] == CARNOT_PLAN_NONE ? &at.items[winner] : &g->set->items[at.of[winner]];
  if (winner == best ||
      !carnot_candidates_share_layouts(item, &g->set->items[g->region->candidate]))
    return NULL;
  out->winner = at.of[winner];
  return out->winner == CARNOT_PLAN_NONE ? find_or_add_item(g, item, &out->winner) : NULL;
}

// ---- the region ----

// True when |winner|, the fastest at another size, takes the optimum about as fast as the candidate
// that was the fastest there: one variant then serves both.
static bool serves_optimum(const guard_builder* g, uint32_t winner) {
  const carnot_candidate* items = g->set->items;
  const uint64_t best = items[g->region->candidate].ns;
  return winner < g->set->count && items[winner].ns != UINT64_MAX &&
         items[winner].ns <= best + best / 32;
}

// Of each open dimension the geometric mean of two sizes.
static carnot_status* symbols_between(const guard_builder* g, const timed_size* a,
                                      const timed_size* b, carnot_symbol_sizes* out) {
  const size_t count = g->builder->symbol_count + 1;
  carnot_arena* memory = &g->builder->problems;
  out->values = CARNOT_NEW_ARRAY(memory, int64_t, count);
  out->known = CARNOT_NEW_ARRAY(memory, bool, count);
  CARNOT_TRY(carnot_arena_status(memory));
  for (size_t i = 0; i + 1 < count; i++) {
    out->known[i] = a->symbols.known[i] && b->symbols.known[i];
    if (out->known[i])
      out->values[i] = llround(sqrt((double)a->symbols.values[i] * (double)b->symbols.values[i]));
  }
  return NULL;
}

// From the optimum up, the greatest size first: where it wants what the optimum has, so do those
// between. Sizes that are too large to be timed are left out; one between stands for them, lest
// 64 rows decide for all above because 1024 take too long.
static carnot_status* time_greater(guard_builder* g, size_list* list) {
  const double optimum = list->items[list->count - 1].quantity;
  timed_size found[CARNOT_SIZE_COUNT], too_large = {.symbols = {NULL, NULL}};
  uint32_t count = 0;
  for (int i = CARNOT_SIZE_GREATEST; i > CARNOT_SIZE_LEAST; i--) {
    if (!g->builder->sizes[i].values) continue;
    timed_size at;
    CARNOT_TRY(time_at(g, &g->builder->sizes[i], &at));
    if (at.quantity == 0 && !count) too_large = at;
    if (at.quantity <= optimum) continue;
    found[count++] = at;
    if (count > 1 || !serves_optimum(g, at.winner)) continue;
    g->region->candidate = list->items[list->count - 1].winner = at.winner;
    break;
  }
  while (count) list->items[list->count++] = found[--count];
  const timed_size* last = &list->items[list->count - 1];
  if (!too_large.symbols.values) return NULL;
  timed_size between;
  carnot_symbol_sizes symbols;
  CARNOT_TRY(symbols_between(g, last, &too_large, &symbols));
  CARNOT_TRY(time_at(g, &symbols, &between));
  if (between.quantity > last->quantity) list->items[list->count++] = between;
  return NULL;
}

// Adds sizes between those whose winners differ: the limit between 64 rows and 1024 is at neither
// end, nor half-way.
static carnot_status* time_between(const guard_builder* g, size_list* list) {
  for (uint32_t i = 0; i + 1 < list->count && list->count < kMostSizes;) {
    const timed_size *a = &list->items[i], *b = &list->items[i + 1];
    timed_size between = {.quantity = 0};
    carnot_symbol_sizes symbols;
    if (a->winner != b->winner && b->quantity > kMostApart * a->quantity) {
      CARNOT_TRY(symbols_between(g, a, b, &symbols));
      CARNOT_TRY(time_at(g, &symbols, &between));
    }
    if (between.quantity > a->quantity && between.quantity < b->quantity) {
      for (uint32_t k = list->count++; k > i + 1; k--) list->items[k] = list->items[k - 1];
      list->items[i + 1] = between;
    } else {
      i++;
    }
  }
  return NULL;
}

// A limit between two sizes: their geometric mean.
static int64_t limit_between(const timed_size* a, const timed_size* b) {
  return (int64_t)sqrt(a->quantity * b->quantity);
}

// One variant for each stretch of sizes with a winner of its own, from the greatest down.
static void add_variants(const guard_builder* g, const size_list* list) {
  const uint32_t candidate = g->region->candidate;
  for (uint32_t end = list->count, begin; end > 0; end = begin) {
    const uint32_t winner = list->items[end - 1].winner;
    for (begin = end - 1; begin > 0 && list->items[begin - 1].winner == winner;) begin--;
    if (winner == candidate || g->region->guarded_count == CARNOT_MAX_VARIANTS - 1) continue;
    carnot_guard guard = {.operand = g->guarded.operand,
                          .dim = g->guarded.dim,
                          .min = 0,
                          .max = INT64_MAX,
                          .multiple = 1};
    if (begin > 0) guard.min = limit_between(&list->items[begin - 1], &list->items[begin]) + 1;
    if (end < list->count) guard.max = limit_between(&list->items[end - 1], &list->items[end]);
    g->region->guarded[g->region->guarded_count].candidate = winner;
    g->region->guarded[g->region->guarded_count++].guard = guard;
  }
}

carnot_status* carnot_add_guarded_variants(carnot_builder* builder,
                                           const carnot_region_facts* facts,
                                           carnot_candidate_set* set,
                                           carnot_assigned_region* region) {
  guard_builder g = {.builder = builder, .facts = facts, .set = set, .region = region};
  if (set->count < 2 || builder->config->level < 3 ||
      set->items[region->candidate].tactic->device || !find_quantity(&set->problem, &g.guarded))
    return NULL;
  size_list list = {.count = 0};
  const double optimum = quantity_of(&set->items[region->candidate].problem, g.guarded);
  timed_size least = {.quantity = 0};
  if (builder->sizes[CARNOT_SIZE_LEAST].values)
    CARNOT_TRY(time_at(&g, &builder->sizes[CARNOT_SIZE_LEAST], &least));
  if (least.quantity > 0 && least.quantity < optimum) list.items[list.count++] = least;
  list.items[list.count++] =
      (timed_size){{builder->symbol_values, builder->symbol_known}, optimum, region->candidate};
  CARNOT_TRY(time_greater(&g, &list));
  CARNOT_TRY(time_between(&g, &list));
  add_variants(&g, &list);
  return NULL;
}
