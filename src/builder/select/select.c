// Selection: which tactic runs a region.
#include <stdio.h>

#include "backend/device.h"
#include "builder/measure/benchmark.h"
#include "builder/measure/timing_cache.h"
#include "builder/select/library_pruning.h"
#include "builder/select/tune_end_to_end.h"

// The wanted formats before a row is asked: those that stand.
typedef struct formats {
  carnot_layout inputs[64], outputs[16];
  carnot_memory_space places[64];
} formats;

static void save_formats(const carnot_problem* p, formats* out) {
  for (uint32_t i = 0; i < p->input_count && i < 64; i++)
    out->inputs[i] = p->inputs[i].format.layout;
  for (uint32_t i = 0; i < p->input_count && i < 64; i++)
    out->places[i] = p->inputs[i].format.memory;
  for (uint32_t i = 0; i < p->output_count && i < 16; i++)
    out->outputs[i] = p->outputs[i].format.layout;
}
static void restore_formats(carnot_problem* p, const formats* from) {
  for (uint32_t i = 0; i < p->input_count && i < 64; i++)
    p->inputs[i].format.layout = from->inputs[i];
  for (uint32_t i = 0; i < p->input_count && i < 64; i++)
    p->inputs[i].format.memory = from->places[i];
  for (uint32_t i = 0; i < p->output_count && i < 16; i++)
    p->outputs[i].format.layout = from->outputs[i];
}

static bool is_view(const carnot_tactic* row) {
  return row->run && !row->configure && !row->device;
}

// Operands lie where the row runs; a view stays where its input is, which row says itself.
static void set_places(const carnot_tactic* row, carnot_problem* problem) {
  carnot_memory_space place = row->device ? CARNOT_MEMORY_DEVICE : CARNOT_MEMORY_HOST;
  bool anywhere = is_view(row) && problem->device;
  for (uint32_t i = anywhere; i < problem->input_count; i++)
    problem->inputs[i].format.memory = place;
  for (uint32_t i = 0; i < problem->output_count; i++) problem->outputs[i].format.memory = place;
}

// Why |row| does not take the problem, NULL when it does; layouts are set to what it wants.
static const char* ask(const carnot_tactic* row, uint32_t tactic_sources, carnot_problem* problem,
                       char* reason, size_t size) {
  if (!carnot_region_holds(problem->region, row->anchor)) return "";
  if (row->isa > problem->isa) {
    snprintf(reason, size, "needs %s, the target has %s", carnot_isa_name(row->isa),
             carnot_isa_name(problem->isa));
    return reason;
  }
  bool may_f16 = problem->may_f16 || (problem->exact_f16 && row->lossless_f16_weights);
  if ((row->precision == CARNOT_DTYPE_F16 && !may_f16) ||
      (row->precision == CARNOT_DTYPE_BF16 && !problem->may_bf16)) {
    snprintf(reason, size, "%s is not allowed here", carnot_dtype_name(row->precision));
    return reason;
  }
  for (int source = 0; source < CARNOT_SOURCE_COUNT; source++)
    if (row->sources & ~tactic_sources & 1u << source) {
      snprintf(reason, size, "needs %s, which the tactic sources leave out",
               carnot_tactic_source_name((carnot_tactic_source)source));
      return reason;
    }
  set_places(row, problem);
  return row->reject(problem, reason, size);
}

// Which rows are worth timing at an optimization level: 0 and 1 take the first that fits; 2 and 3
// the best two ISA levels of each family; 4 all but the reference; 5 everything.
static bool worth_timing(const carnot_builder* builder, const carnot_tactic* row) {
  int level = builder->config->level;
  if (row->device) return builder->config->device->ordinal >= 0;
  if (!row->run) return level >= 5;
  if (level >= 4) return true;
  carnot_isa best = builder->isa > CARNOT_ISA_AVX512 ? CARNOT_ISA_AVX512 : builder->isa;
  return row->isa == CARNOT_ISA_SCALAR
             ? strstr(row->name, "_scalar") == NULL || best == CARNOT_ISA_SCALAR
             : row->isa + 1 >= best;
}

static carnot_problem copy_problem(carnot_arena* arena, const carnot_problem* p) {
  carnot_problem copy = *p;
  copy.inputs = carnot_arena_copy(arena, p->inputs, p->input_count * sizeof(*p->inputs));
  copy.outputs = carnot_arena_copy(arena, p->outputs, p->output_count * sizeof(*p->outputs));
  return copy;
}

typedef struct reasons {
  char text[2048];
  size_t at;
} reasons;

static void note(reasons* r, const char* row, const char* why) {
  if (r->at < sizeof(r->text))
    r->at += (size_t)snprintf(r->text + r->at, sizeof(r->text) - r->at, "%s%s: %s",
                              r->at ? "; " : "", row, why);
}

// What the user asked for goes before what is fast: rows of that type, where there are any.
static size_t keep_wanted(const carnot_problem* problem, carnot_candidate* candidates,
                          size_t count) {
  if (!carnot_dtype_is_half(problem->requested_precision)) return count;
  size_t kept = 0;
  for (size_t i = 0; i < count; i++)
    if (candidates[i].row->precision == problem->requested_precision)
      candidates[kept++] = candidates[i];
  return kept ? kept : count;
}

// The rows of one table that take the problem, in its order.
static size_t find_in(carnot_builder* builder, carnot_choice* choice,
                      const carnot_tactic* const* rows, size_t row_count, carnot_candidate* out,
                      reasons* why_not) {
  size_t count = 0;
  formats standing;
  save_formats(&choice->problem, &standing);
  size_t limit = builder->config->level >= 2 ? CARNOT_MAX_CANDIDATES : 1;
  for (size_t i = 0; i < row_count && count < limit; i++) {
    char reason[256];
    restore_formats(&choice->problem, &standing);
    const char* why =
        ask(rows[i], builder->tactic_sources, &choice->problem, reason, sizeof(reason));
    if (why) {
      if (why[0]) note(why_not, rows[i]->name, why);
      continue;
    }
    if (is_view(rows[i])) count = 0;  // nothing is faster than nothing
    // The reference stands by in case the others refuse when they are timed.
    bool stand_by = count && !rows[i]->run && builder->config->level >= 2;
    if (count && rows[i]->fallback) continue;
    if (count && !stand_by && !worth_timing(builder, rows[i])) continue;
    out[count++] =
        (carnot_candidate){.row = rows[i],
                           .problem = copy_problem(&builder->plan->arena, &choice->problem),
                           .ns = UINT64_MAX};
    if (is_view(rows[i])) break;
  }
  restore_formats(&choice->problem, &standing);
  return keep_wanted(&choice->problem, out, count);
}

// A view, else the accelerator's rows; the processor's where it has none for this region.
static size_t find_candidates(carnot_builder* builder, carnot_choice* choice, carnot_candidate* out,
                              reasons* why_not) {
  size_t row_count, count = 0;
  const carnot_device* device = builder->config->device;
  if (device && choice->on_device) {
    const carnot_tactic* view = carnot_tactic_find(CARNOT_VIEW_TACTIC);
    count = find_in(builder, choice, &view, 1, out, why_not);
    const carnot_tactic* const* rows = device->backend->rows(&row_count);
    if (!count) count = find_in(builder, choice, rows, row_count, out, why_not);
  }
  if (count) return count;
  const carnot_tactic* const* rows = carnot_tactics(/*backend=*/false, &row_count);
  return find_in(builder, choice, rows, row_count, out, why_not);
}

static size_t index_of(const carnot_candidate* candidates, size_t count, const carnot_tactic* row) {
  size_t at = 0;
  while (at < count && candidates[at].row != row) at++;
  return at;
}

static carnot_status* prepare(carnot_builder* builder, const carnot_choice* choice,
                              carnot_candidate* c) {
  c->prepared.arena = &builder->plan->arena;
  if (!c->row->prepare) return NULL;
  CARNOT_TRY_AT(c->row->prepare(&c->problem, &c->prepared), "node %s, tactic %s",
                choice->node->name, c->row->name);
  return NULL;
}

static carnot_status* time_all(carnot_builder* builder, const carnot_choice* choice,
                               carnot_candidate* candidates, size_t count) {
  carnot_timing_cache* cache = builder->timing_cache;
  uint64_t key =
      carnot_problem_key(&choice->problem, carnot_executor_thread_count(builder->config->executor));
  bool all = true;
  for (size_t i = 0; i < count; i++) {
    bool found = carnot_timing_cache_find(cache, key, candidates[i].row->name, &candidates[i].ns);
    all = all && (found || !candidates[i].row->run);
  }
  if (all || carnot_builder_is_late(builder)) return NULL;
  for (size_t i = 0; i < count; i++) CARNOT_TRY(prepare(builder, choice, &candidates[i]));
  // The candidates are all of one place.
  CARNOT_TRY((candidates[0].row->device ? carnot_time_on_device : carnot_time_candidates)(
      builder, candidates, count));
  for (size_t i = 0; i < count; i++) {
    if (candidates[i].ns == UINT64_MAX) continue;
    CARNOT_TRY(
        carnot_timing_cache_get_or_insert(cache, key, candidates[i].row->name, &candidates[i].ns));
  }
  return NULL;
}

// ---- guarded variants: where the shapes vary, the ends of their range may want another tactic
// ----

typedef enum end_of_range { LEAST, GREATEST } end_of_range;

// The problem at one end; false when it has no finite one or is too large to be timed.
static bool at_end(carnot_arena* arena, const carnot_problem* p, end_of_range end,
                   carnot_problem* out) {
  *out = copy_problem(arena, p);
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
    if (t->kind == CARNOT_VALUE_TENSOR && bytes > (double)(1 << 28)) return false;
  }
  return differs;
}

// The first dimension of the first operand that varies carries the guard; it lies half way between
// optimum and end.
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

static bool same_layouts(const carnot_problem* a, const carnot_problem* b) {
  bool same = true;
  for (uint32_t i = 0; i < a->input_count; i++)
    same = same &&
           (a->inputs[i].is_constant || a->inputs[i].format.layout == b->inputs[i].format.layout);
  for (uint32_t i = 0; i < a->output_count; i++)
    same = same && a->outputs[i].format.layout == b->outputs[i].format.layout;
  return same;
}

static carnot_status* add_guarded(carnot_builder* builder, carnot_choice* choice,
                                  carnot_candidate* candidates, size_t count, size_t best,
                                  end_of_range end) {
  carnot_candidate at[CARNOT_MAX_CANDIDATES];
  carnot_guard guard;
  if (!make_guard(&choice->problem, end, &guard)) return NULL;
  for (size_t i = 0; i < count; i++) {
    at[i] = (carnot_candidate){
        .row = candidates[i].row, .prepared = candidates[i].prepared, .ns = UINT64_MAX};
    if (!at_end(&builder->plan->arena, &candidates[i].problem, end, &at[i].problem)) return NULL;
    // What a row asks of sizes may not hold at this end (sizes that are tied to one another were
    // set one by one).
    char reason[256];
    if (at[i].row->reject(&at[i].problem, reason, sizeof(reason))) return NULL;
  }
  carnot_choice moved = *choice;
  moved.problem = at[best].problem;
  CARNOT_TRY(time_all(builder, &moved, at, count));
  size_t winner = best;
  // Another step of the plan must earn its place: a tenth faster.
  for (size_t i = 0; i < count; i++)
    if (!at[i].failed && at[i].ns != UINT64_MAX && at[i].ns < at[winner].ns &&
        at[i].ns < at[best].ns - at[best].ns / 10)
      winner = i;
  if (winner == best || at[best].ns == UINT64_MAX ||
      !same_layouts(&candidates[winner].problem, &candidates[best].problem))
    return NULL;
  if (!candidates[winner].prepared.arena) CARNOT_TRY(prepare(builder, choice, &candidates[winner]));
  uint32_t slot = choice->guarded_count++;
  choice->guarded[slot].row = candidates[winner].row;
  choice->guarded[slot].prepared = candidates[winner].prepared;
  choice->guarded[slot].guard = guard;
  return NULL;
}

// Copies into another layout cost as much as a small kernel, and no timing sees them: candidates
// stay with the layouts of the first.
static size_t keep_layouts(carnot_candidate* candidates, size_t count, reasons* why_not) {
  size_t kept = 1;
  for (size_t i = 1; i < count; i++)
    if (same_layouts(&candidates[i].problem, &candidates[0].problem))
      candidates[kept++] = candidates[i];
    else
      note(why_not, candidates[i].row->name, "wants other layouts than the first");
  return kept;
}

// A trial holds the other tactics of a contest too, behind guards that it opens.
static carnot_status* add_contenders(carnot_builder* builder, carnot_choice* choice,
                                     const carnot_contest* contest, carnot_candidate* candidates,
                                     size_t count) {
  static const carnot_guard kNever = {.min = 1, .max = 0, .multiple = 1};
  for (uint32_t k = 1; k < contest->count; k++) {
    size_t at = index_of(candidates, count, contest->rows[k]);
    CARNOT_CHECK(at < count, INTERNAL, "node %s: tactic %s is no candidate any more",
                 choice->node->name, contest->rows[k]->name);
    if (!candidates[at].prepared.arena) CARNOT_TRY(prepare(builder, choice, &candidates[at]));
    uint32_t slot = choice->guarded_count++;
    choice->guarded[slot].row = candidates[at].row;
    choice->guarded[slot].prepared = candidates[at].prepared;
    choice->guarded[slot].guard = kNever;
  }
  return NULL;
}

carnot_status* carnot_select_tactic(carnot_builder* builder, carnot_choice* choice) {
  carnot_candidate candidates[CARNOT_MAX_CANDIDATES];
  reasons why_not = {.at = 0};
  size_t count = find_candidates(builder, choice, candidates, &why_not);
  CARNOT_CHECK(count, INTERNAL, "node %s: no tactic takes it (%s)", choice->node->name,
               why_not.text);
  size_t best = 0;
  if (candidates[0].row->device) count = keep_layouts(candidates, count, &why_not);
  if (count > 1) CARNOT_TRY(time_all(builder, choice, candidates, count));
  for (size_t i = 0; i < count; i++) {
    if (candidates[i].failed) note(&why_not, candidates[i].row->name, candidates[i].failed);
    // On a device times differ by some hundredths: then the order of the table decides.
    uint64_t least = candidates[i].row->device ? candidates[i].ns / 32 : 0;
    if (candidates[best].failed || (!candidates[i].failed && candidates[i].ns != UINT64_MAX &&
                                    candidates[i].ns + least < candidates[best].ns))
      best = i;
  }
  if (builder->phase == CARNOT_LOWER_FIRST)
    CARNOT_TRY(carnot_contest_note(builder, choice, candidates, count, best));
  const carnot_contest* contest = carnot_contest_find(builder, choice->node);
  size_t alone = best;
  uint32_t taken = contest && builder->phase == CARNOT_LOWER_LAST ? contest->chosen : 0;
  if (contest && index_of(candidates, count, contest->rows[taken]) < count)
    best = index_of(candidates, count, contest->rows[taken]);
  for (size_t i = 0; i < count; i++) {
    char words[96];
    if (i == best || candidates[i].ns == UINT64_MAX) continue;
    snprintf(words, sizeof(words), "took %.2f us, the chosen one %.2f%s",
             (double)candidates[i].ns * 1e-3, (double)candidates[best].ns * 1e-3,
             i == alone ? ", but the whole run is faster with that" : "");
    note(&why_not, candidates[i].row->name, words);
  }
  carnot_candidate* chosen = &candidates[best];
  // The accelerator's rows choose by the shapes that are set.
  bool guard = count > 1 && builder->config->level >= 3 && !chosen->row->device;
  for (end_of_range end = LEAST; guard && end <= GREATEST; end++)
    CARNOT_TRY(add_guarded(builder, choice, candidates, count, best, end));
  if (contest && builder->phase == CARNOT_LOWER_TRIAL)
    CARNOT_TRY(add_contenders(builder, choice, contest, candidates, count));
  if (!chosen->prepared.arena) CARNOT_TRY(prepare(builder, choice, chosen));
  if (chosen->row->sources)
    CARNOT_TRY(carnot_libraries_note(builder, choice, candidates, count, best));
  choice->row = chosen->row;
  choice->problem = chosen->problem;
  choice->prepared = chosen->prepared;
  choice->time_us = chosen->ns == UINT64_MAX ? 0 : (double)chosen->ns * 1e-3;
  choice->rejected = carnot_arena_text(&builder->plan->arena, why_not.text, strlen(why_not.text));
  return NULL;
}
