// Guarded variants: another tactic for a part of the sizes, where shapes leave them open.
#include <math.h>

#include "backend/device.h"
#include "builder/measure/cost_model.h"
#include "builder/select/guard_sizes.h"

// Between sizes with winners of their own that are further apart others are timed.
static const double kMostApart = 3;
enum { kMostSizes = 16 };

typedef struct size_list {
  uint32_t count;
  carnot_timed_size items[kMostSizes];  // growing
} size_list;

// ---- the region ----

// True when |winner|, the fastest at another size, takes the optimum about as fast as the candidate
// that was the fastest there: one variant then serves both. Where nobody gave the optimum, which is
// then 1 in each dimension, one kernel's newer instruction set may take twice the time there:
// narrow vectors win where wide ones are mostly empty, in steps of a few microseconds.
static bool serves_optimum(const carnot_guard_builder* g, uint32_t winner) {
  const carnot_candidate* items = g->set->items;
  const carnot_candidate* candidate = &items[g->region->candidate];
  if (winner >= g->set->count || items[winner].ns == UINT64_MAX) return false;
  const bool is_given = g->builder->config->profile_count > 0;
  const bool is_newer = carnot_is_newer_kernel(items[winner].tactic, candidate->tactic);
  return items[winner].ns <= candidate->ns + candidate->ns / (is_newer && !is_given ? 1 : 32);
}

static carnot_status* new_symbols(const carnot_guard_builder* g, carnot_symbol_sizes* out) {
  const size_t count = g->builder->symbol_count + 1;
  carnot_arena* memory = &g->builder->problems;
  out->values = CARNOT_NEW_ARRAY(memory, int64_t, count);
  out->known = CARNOT_NEW_ARRAY(memory, bool, count);
  return carnot_arena_status(memory);
}

// Of each open dimension the geometric mean of two sizes.
static carnot_status* symbols_between(const carnot_guard_builder* g, const carnot_timed_size* a,
                                      const carnot_timed_size* b, carnot_symbol_sizes* out) {
  CARNOT_TRY(new_symbols(g, out));
  for (size_t i = 0; i < g->builder->symbol_count; i++) {
    out->known[i] = a->symbols.known[i] && b->symbols.known[i];
    if (out->known[i])
      out->values[i] = llround(sqrt((double)a->symbols.values[i] * (double)b->symbols.values[i]));
  }
  return NULL;
}

// At sizes that are made up here, which may not go together, as more new keys than a cache holds:
// then |out| has no quantity.
static carnot_status* time_made(const carnot_guard_builder* g, const carnot_symbol_sizes* symbols,
                                carnot_timed_size* out) {
  carnot_status* status = carnot_time_at(g, symbols, out);
  if (carnot_status_code(status) != CARNOT_INVALID_ARGUMENT) return status;
  carnot_status_free(status);
  *out = (carnot_timed_size){.quantity = 0};
  return NULL;
}

// From the optimum up, the greatest size first: where it wants what the optimum has, so do those
// between. Sizes that are too large to be timed are left out; one between stands for them, lest
// 64 rows decide for all above because 1024 take too long.
static carnot_status* time_greater(carnot_guard_builder* g, size_list* list) {
  const double optimum = list->items[list->count - 1].quantity;
  carnot_timed_size found[CARNOT_SIZE_COUNT], too_large = {.symbols = {NULL, NULL}};
  uint32_t count = 0;
  for (int i = CARNOT_SIZE_GREATEST; i > CARNOT_SIZE_LEAST; i--) {
    if (!g->builder->sizes[i].values) continue;
    carnot_timed_size at;
    CARNOT_TRY(carnot_time_at(g, &g->builder->sizes[i], &at));
    if (at.quantity == 0 && !count) too_large = at;
    if (at.quantity <= optimum) continue;
    found[count++] = at;
    if (count > 1 || !serves_optimum(g, at.winner)) continue;
    g->region->candidate = list->items[list->count - 1].winner = at.winner;
    break;
  }
  while (count) list->items[list->count++] = found[--count];
  const carnot_timed_size* last = &list->items[list->count - 1];
  if (!too_large.symbols.values) return NULL;
  carnot_timed_size between;
  carnot_symbol_sizes symbols;
  CARNOT_TRY(symbols_between(g, last, &too_large, &symbols));
  CARNOT_TRY(time_made(g, &symbols, &between));
  if (between.quantity > last->quantity) list->items[list->count++] = between;
  return NULL;
}

// Adds sizes between those whose winners differ: the limit between 64 rows and 1024 is at neither
// end, nor half-way.
static carnot_status* time_between(const carnot_guard_builder* g, size_list* list) {
  for (uint32_t i = 0; i + 1 < list->count && list->count < kMostSizes;) {
    const carnot_timed_size *a = &list->items[i], *b = &list->items[i + 1];
    carnot_timed_size between = {.quantity = 0};
    carnot_symbol_sizes symbols;
    if (a->winner != b->winner && b->quantity > kMostApart * a->quantity) {
      CARNOT_TRY(symbols_between(g, a, b, &symbols));
      CARNOT_TRY(time_made(g, &symbols, &between));
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

// ---- the dimension that decides ----

// The sizes |a|, but for symbol |s|, which is that of |b|.
static carnot_status* move_symbol(const carnot_guard_builder* g, const carnot_timed_size* a,
                                  const carnot_timed_size* b, size_t s, carnot_symbol_sizes* out) {
  const size_t count = g->builder->symbol_count;
  CARNOT_TRY(new_symbols(g, out));
  memcpy(out->values, a->symbols.values, count * sizeof(*out->values));
  memcpy(out->known, a->symbols.known, count * sizeof(*out->known));
  out->values[s] = b->symbols.values[s];
  return NULL;
}

static bool is_moved(const carnot_timed_size* a, const carnot_timed_size* b, size_t s) {
  return a->symbols.known[s] && b->symbols.known[s] && a->symbols.values[s] != b->symbols.values[s];
}

static carnot_status* problem_at(const carnot_guard_builder* g, const carnot_symbol_sizes* symbols,
                                 carnot_problem* out) {
  bool known;
  CARNOT_TRY(carnot_problem_copy(&g->builder->problems, &g->set->problem, out));
  return carnot_problem_resize(g->builder, g->facts, symbols, out, &known);
}

// The symbol that alone decides: with its size of |b|, and those of |a| for the others, the winner
// of |b| wins, and with no other one. NONE where there is none, as for GEMMs, whose rows are a
// product.
static carnot_status* find_deciding_symbol(const carnot_guard_builder* g,
                                           const carnot_timed_size* a, const carnot_timed_size* b,
                                           size_t* out) {
  uint32_t decides = 0, moved = 0;
  for (size_t s = 0; s < g->builder->symbol_count; s++) {
    carnot_timed_size at;
    carnot_symbol_sizes symbols;
    if (!is_moved(a, b, s)) continue;
    CARNOT_TRY(move_symbol(g, a, b, s, &symbols));
    CARNOT_TRY(time_made(g, &symbols, &at));
    moved++;
    if (at.winner == b->winner) *out = s, decides++;
    if (at.quantity == 0 || (at.winner != a->winner && at.winner != b->winner)) decides = 2;
  }
  if (decides != 1 || moved < 2) *out = CARNOT_PLAN_NONE;
  return NULL;
}

// The first dimension of an operand whose size moves from |a| to |b| with symbol |s| and with no
// other one.
static carnot_status* find_dimension(const carnot_guard_builder* g, const carnot_timed_size* a,
                                     const carnot_timed_size* b, size_t s,
                                     carnot_guarded_quantity* out) {
  carnot_symbol_sizes alone, rest;
  carnot_problem at, with, without;
  CARNOT_TRY(move_symbol(g, a, b, s, &alone));
  CARNOT_TRY(move_symbol(g, b, a, s, &rest));
  CARNOT_TRY(problem_at(g, &a->symbols, &at));
  CARNOT_TRY(problem_at(g, &alone, &with));
  CARNOT_TRY(problem_at(g, &rest, &without));
  for (uint32_t i = 0; i < at.input_count; i++)
    for (int d = 0; d < at.inputs[i].rank && !at.inputs[i].is_constant; d++)
      if (with.inputs[i].dims[d] != at.inputs[i].dims[d] &&
          without.inputs[i].dims[d] == at.inputs[i].dims[d]) {
        *out = (carnot_guarded_quantity){i, (uint32_t)d};
        return NULL;
      }
  return NULL;
}

// Where several dimensions are open their sizes grow together in |list|. Sizes that differ in one
// of them tell whether it alone decides, as the length of a sequence does for attention.
static carnot_status* choose_quantity(carnot_guard_builder* g, size_list* list) {
  if (g->guarded.dim != CARNOT_GUARD_ELEMENTS) return NULL;
  size_t symbol = CARNOT_PLAN_NONE;
  for (uint32_t i = list->count; i > 1 && symbol == CARNOT_PLAN_NONE; i--) {
    const carnot_timed_size *a = &list->items[i - 2], *b = &list->items[i - 1];
    if (a->winner == b->winner) continue;
    CARNOT_TRY(find_deciding_symbol(g, a, b, &symbol));
    if (symbol != CARNOT_PLAN_NONE) CARNOT_TRY(find_dimension(g, a, b, symbol, &g->guarded));
  }
  for (uint32_t i = 0; i < list->count; i++) {
    carnot_problem at;
    CARNOT_TRY(problem_at(g, &list->items[i].symbols, &at));
    list->items[i].quantity = carnot_guarded_size(&at, g->guarded);
  }
  return NULL;
}

// A limit between two sizes: their geometric mean.
static int64_t limit_between(const carnot_timed_size* a, const carnot_timed_size* b) {
  return (int64_t)sqrt(a->quantity * b->quantity);
}

// One variant for each stretch of sizes with a winner of its own, from the greatest down.
static void add_variants(const carnot_guard_builder* g, const size_list* list) {
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
  carnot_guard_builder g = {.builder = builder, .facts = facts, .set = set, .region = region};
  if (set->count < 2 || builder->config->level < 3 ||
      set->items[region->candidate].tactic->device ||
      !carnot_guarded_find(&set->problem, &g.guarded))
    return NULL;
  size_list list = {.count = 0};
  const double optimum = carnot_guarded_size(&set->items[region->candidate].problem, g.guarded);
  carnot_timed_size least = {.quantity = 0};
  if (builder->sizes[CARNOT_SIZE_LEAST].values)
    CARNOT_TRY(carnot_time_at(&g, &builder->sizes[CARNOT_SIZE_LEAST], &least));
  if (least.quantity > 0 && least.quantity < optimum) list.items[list.count++] = least;
  list.items[list.count++] = (carnot_timed_size){
      {builder->symbol_values, builder->symbol_known}, optimum, region->candidate};
  CARNOT_TRY(time_greater(&g, &list));
  CARNOT_TRY(choose_quantity(&g, &list));
  CARNOT_TRY(time_between(&g, &list));
  add_variants(&g, &list);
  return NULL;
}
