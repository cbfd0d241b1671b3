// Enumerates the tactics that take a region.
#include "builder/select/candidates.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/device.h"
#include "builder/select/selector.h"

// ---- reasons of rejected tactics, as text for the inspector ----

typedef struct reasons {
  char text[CARNOT_REASONS_BYTES];
  size_t at;
} reasons;

static void note(reasons* r, const char* tactic, const char* why) {
  if (r->at < sizeof(r->text))
    r->at += (size_t)snprintf(r->text + r->at, sizeof(r->text) - r->at, "%s%s: %s",
                              r->at ? "; " : "", tactic, why);
}

// ---- asking one tactic ----

// A tactic that runs nothing: the output is the input's elements under other dimensions.
static bool is_view(const carnot_tactic* tactic) {
  return tactic->run && !tactic->configure && !tactic->device;
}

// Operands are in the memory that the tactic reads. A view keeps the memory space of its first
// input; the view tactic sets the output's itself.
static void set_memory(const carnot_tactic* tactic, carnot_problem* problem) {
  carnot_memory_space memory = tactic->device ? CARNOT_MEMORY_DEVICE : CARNOT_MEMORY_HOST;
  bool keeps_first = is_view(tactic) && problem->device;
  for (uint32_t i = keeps_first; i < problem->input_count; i++)
    problem->inputs[i].format.memory = memory;
  for (uint32_t i = 0; i < problem->output_count; i++) problem->outputs[i].format.memory = memory;
}

static const char* missing_source(const carnot_tactic* tactic, uint32_t sources) {
  for (int source = 0; source < CARNOT_SOURCE_COUNT; source++)
    if (tactic->sources & ~sources & 1u << source)
      return carnot_tactic_source_name((carnot_tactic_source)source);
  return NULL;
}

// The reason why |tactic| does not take the problem, or NULL: then the problem has the formats that
// the tactic wants.
static const char* ask(const carnot_tactic* tactic, uint32_t sources, carnot_problem* problem,
                       char* reason, size_t size) {
  if (!carnot_isa_includes(problem->isa, tactic->isa)) {
    snprintf(reason, size, "needs %s, the target has %s", carnot_isa_name(tactic->isa),
             carnot_isa_name(problem->isa));
    return reason;
  }
  bool may_f16 = problem->may_f16 || (problem->exact_f16 && tactic->lossless_f16_weights);
  if ((tactic->precision == CARNOT_DTYPE_F16 && !may_f16) ||
      (tactic->precision == CARNOT_DTYPE_BF16 && !problem->may_bf16)) {
    snprintf(reason, size, "%s is not allowed here", carnot_dtype_name(tactic->precision));
    return reason;
  }
  if (!(problem->allowed_numerics >> tactic->numerics & 1)) {
    snprintf(reason, size, "numerics class %s is not allowed here",
             carnot_numerics_name(tactic->numerics));
    return reason;
  }
  if (problem->has_stored_types && tactic->run && !tactic->takes_bf16 && !is_view(tactic)) {
    snprintf(reason, size, "an operand is stored as bfloat16, takes float32");
    return reason;
  }
  const char* missing = missing_source(tactic, sources);
  if (missing) {
    snprintf(reason, size, "needs %s, which the tactic sources leave out", missing);
    return reason;
  }
  problem->tactic = tactic;
  set_memory(tactic, problem);
  return tactic->reject(problem, reason, size);
}

carnot_status* carnot_any_tactic_takes(carnot_builder* builder, const carnot_problem* problem,
                                       bool* out_takes) {
  carnot_problem asked;
  CARNOT_TRY(carnot_problem_copy(&builder->problems, problem, &asked));
  char reason[256];
  carnot_tactic_iterator all = carnot_tactics_for(problem->region, /*backend=*/false);
  *out_takes = false;
  for (const carnot_tactic* t = carnot_tactic_find(CARNOT_VIEW_TACTIC); t && !*out_takes;
       t = carnot_tactic_next(&all)) {
    if (!t->run || t->fallback) continue;
    const char* why = ask(t, builder->config->tactic_sources, &asked, reason, sizeof(reason));
    CARNOT_TRY(carnot_reject_status(why));
    *out_takes = !why;
    carnot_problem_reset(&asked, problem);
  }
  return NULL;
}

// Which tactics are timed at an optimization level: at 0 and 1 none; at 2 and 3 those of the two
// preferred ISAs; at 4 all but the reference; at 5 all.
static bool is_worth_timing(const carnot_builder* builder, const carnot_tactic* tactic) {
  int level = builder->config->level;
  if (tactic->device) return builder->config->device->ordinal >= 0;
  if (!tactic->run) return level >= 5;
  if (level >= 4) return true;
  int best = carnot_isa_rank(builder->isa), avx512 = carnot_isa_rank(CARNOT_ISA_AVX512);
  if (best > avx512) best = avx512;
  return tactic->isa == CARNOT_ISA_SCALAR
             ? strstr(tactic->name, "_scalar") == NULL || best == carnot_isa_rank(CARNOT_ISA_SCALAR)
             : carnot_isa_rank(tactic->isa) + 1 >= best;
}

// ---- all tactics of one table ----

// Where the user asked for FP16 or BF16, tactics that compute in it exclude the others.
static uint32_t keep_requested(const carnot_problem* problem, carnot_candidate* items,
                               uint32_t count) {
  if (!carnot_dtype_is_half(problem->requested_precision)) return count;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count; i++)
    if (items[i].tactic->precision == problem->requested_precision) items[kept++] = items[i];
  return kept ? kept : count;
}

// True when |tactic|, which takes the problem, joins |count| candidates.
static bool joins(const carnot_builder* builder, const carnot_tactic* tactic, uint32_t count) {
  if (!count) return true;
  if (tactic->fallback) return false;
  // The reference joins in case the others refuse when they are timed.
  return (!tactic->run && builder->config->level >= 2) || is_worth_timing(builder, tactic);
}

// Nothing is faster than a view, and without timing the first tactic is taken.
static bool is_complete(const carnot_builder* builder, const carnot_candidate* items,
                        uint32_t count) {
  const uint32_t limit = builder->config->level >= 2 ? CARNOT_MAX_CANDIDATES : 1;
  return count == limit || (count && is_view(items[count - 1].tactic));
}

static carnot_status* enumerate_table(carnot_builder* builder, const carnot_candidate_set* set,
                                      carnot_tactic_iterator table, carnot_candidate* out,
                                      uint32_t* out_count, reasons* why_not) {
  const carnot_build_config* config = builder->config;
  uint32_t count = 0;
  bool complete = false;
  carnot_problem asked = {.region = NULL};
  for (const carnot_tactic* tactic;
       (!complete || config->pins) && (tactic = carnot_tactic_next(&table));) {
    char reason[256];
    if (!asked.region) CARNOT_TRY(carnot_problem_copy(&builder->problems, &set->problem, &asked));
    const char* why = ask(tactic, set->situation.sources, &asked, reason, sizeof(reason));
    CARNOT_TRY(carnot_reject_status(why));
    const bool pinned = !why && config->pins && config->pins(config->user, tactic);
    if (!pinned && (why || complete || !joins(builder, tactic, count))) {
      if (why && why[0]) note(why_not, tactic->name, why);
      carnot_problem_reset(&asked, &set->problem);
      continue;
    }
    if (pinned || is_view(tactic)) count = 0;
    out[count++] = (carnot_candidate){.tactic = tactic, .problem = asked, .ns = UINT64_MAX};
    *out_count = count;
    if (pinned) return NULL;
    asked.region = NULL;
    complete = is_complete(builder, out, count);
  }
  *out_count = keep_requested(&set->problem, out, count);
  return NULL;
}

static bool is_candidate(const carnot_candidate_set* set, const carnot_tactic* tactic) {
  for (uint32_t i = 0; i < set->count; i++)
    if (set->items[i].tactic == tactic) return true;
  return false;
}

carnot_status* carnot_enumerate_others(carnot_builder* builder, const carnot_candidate_set* set,
                                       const carnot_problem* problem, carnot_candidate* out,
                                       uint32_t capacity, uint32_t* out_count) {
  carnot_tactic_iterator all = carnot_tactics_for(problem->region, /*backend=*/false);
  *out_count = 0;
  // What the user selects by layer or by precision is not added to.
  if (builder->config->selector.select || builder->config->pins ||
      carnot_dtype_is_half(problem->requested_precision))
    return NULL;
  for (const carnot_tactic* t; *out_count < capacity && (t = carnot_tactic_next(&all));) {
    if (!t->run || t->fallback || is_candidate(set, t) || !is_worth_timing(builder, t)) continue;
    char reason[256];
    carnot_candidate* c = &out[*out_count];
    *c = (carnot_candidate){.tactic = t, .ns = UINT64_MAX};
    CARNOT_TRY(carnot_problem_copy(&builder->problems, problem, &c->problem));
    const char* why = ask(t, set->situation.sources, &c->problem, reason, sizeof(reason));
    CARNOT_TRY(carnot_reject_status(why));
    *out_count += !why;
  }
  return NULL;
}

bool carnot_candidates_share_layouts(const carnot_candidate* x, const carnot_candidate* y) {
  const carnot_problem *a = &x->problem, *b = &y->problem;
  bool same = true;
  for (uint32_t i = 0; i < a->input_count; i++)
    same = same &&
           (a->inputs[i].is_constant || a->inputs[i].format.layout == b->inputs[i].format.layout);
  for (uint32_t i = 0; i < a->output_count; i++)
    same = same && a->outputs[i].format.layout == b->outputs[i].format.layout;
  return same;
}

// On a device a copy into another layout costs as much as a small kernel, and timing one tactic
// does not see it: all candidates have the layouts of the first.
static uint32_t keep_first_layouts(carnot_candidate* items, uint32_t count, reasons* why_not) {
  uint32_t kept = 1;
  for (uint32_t i = 1; i < count; i++)
    if (carnot_candidates_share_layouts(&items[i], &items[0]))
      items[kept++] = items[i];
    else
      note(why_not, items[i].tactic->name, "wants other layouts than the first");
  return kept;
}

// ---- sets ----

static carnot_status* fill_set(carnot_builder* builder, const char* node,
                               carnot_candidate_set* set) {
  carnot_candidate items[CARNOT_MAX_CANDIDATES];
  reasons why_not = {.at = 0};
  const carnot_region* region = &set->plan_region;
  uint32_t count = 0;
  // A view, else the accelerator's tactics, else the CPU's.
  const carnot_tactic* view = carnot_tactic_find(CARNOT_VIEW_TACTIC);
  const carnot_tactic_iterator view_only = {.table = &view, .left = {1}};
  CARNOT_TRY(enumerate_table(builder, set, view_only, items, &count, &why_not));
  if (!count && builder->config->device && set->situation.on_device)
    CARNOT_TRY(enumerate_table(builder, set, carnot_tactics_for(region, /*backend=*/true), items,
                               &count, &why_not));
  if (!count)
    CARNOT_TRY(enumerate_table(builder, set, carnot_tactics_for(region, /*backend=*/false), items,
                               &count, &why_not));
  CARNOT_CHECK(count, INTERNAL, "node %s: no tactic takes it (%s)", node, why_not.text);
  if (items[0].tactic->device) count = keep_first_layouts(items, count, &why_not);
  set->items = carnot_arena_copy(&builder->problems, items, count * sizeof(*items));
  CARNOT_TRY(carnot_arena_status(&builder->problems));
  set->count = count;
  set->rejections = carnot_arena_text(&builder->problems, why_not.text, strlen(why_not.text));
  return carnot_arena_status(&builder->problems);
}

// The reference kernel on the CPU is the only candidate. Shape and Size take their operand as it is
// stored.
static void fill_shape_step(carnot_builder* builder, const carnot_region_facts* f,
                            carnot_candidate_set* set) {
  carnot_problem* p = &set->problem;
  for (uint32_t i = 0; i < p->input_count && !carnot_region_reads_dims_only(f); i++) {
    p->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
    p->inputs[i].format.memory = CARNOT_MEMORY_HOST;
  }
  p->tactic = carnot_tactic_find(CARNOT_REFERENCE_TACTIC);
  set->items = CARNOT_NEW(&builder->problems, carnot_candidate);
  *set->items = (carnot_candidate){.tactic = p->tactic, .problem = *p, .ns = UINT64_MAX};
  set->count = 1;
  set->rejections = "";
}

static carnot_status* make_set(carnot_builder* builder, const carnot_region_facts* f,
                               carnot_candidate_set* set) {
  const carnot_situation* s = &set->situation;
  set->plan_region = f->region;
  set->inputs = CARNOT_NEW_ARRAY(&builder->problems, carnot_format, f->input_count + 1);
  CARNOT_TRY(carnot_arena_status(&builder->problems));
  for (uint32_t i = 0; i < f->input_count; i++)
    if (f->inputs[i]) set->inputs[i] = s->formats[f->inputs[i]->id];
  CARNOT_TRY(carnot_make_problem(builder, f, &set->plan_region, s->formats, s->guess_sizes,
                                 &set->problem));
  if (!s->allow_timing) set->problem.allow_timing = false;
  if (!s->on_device) set->problem.device = NULL;
  CARNOT_TRY(carnot_configure_plugin(builder, &set->plan_region, &set->problem));
  if (!s->is_shape_step) return fill_set(builder, f->name, set);
  fill_shape_step(builder, f, set);
  return NULL;
}

static bool is_in_situation(const carnot_candidate_set* set, const carnot_region_facts* f,
                            const carnot_situation* s) {
  const carnot_situation* t = &set->situation;
  bool same = t->sources == s->sources && t->is_shape_step == s->is_shape_step &&
              t->guess_sizes == s->guess_sizes && t->on_device == s->on_device &&
              t->allow_timing == s->allow_timing;
  for (uint32_t i = 0; same && i < f->input_count; i++)
    same = !f->inputs[i] || carnot_format_equal(&set->inputs[i], &s->formats[f->inputs[i]->id]);
  return same;
}

// The problems of the sets so far get an arena of their own.
static carnot_status* close_chunk(carnot_builder* builder, carnot_candidates* candidates) {
  void* chunks = candidates->chunks;
  CARNOT_TRY(carnot_grow(&chunks, &candidates->chunk_capacity, candidates->chunk_count + 1,
                         sizeof(*candidates->chunks), "candidate sets"));
  candidates->chunks = chunks;
  candidates->chunks[candidates->chunk_count++] =
      (carnot_candidate_chunk){builder->problems, CARNOT_SETS_PER_CHUNK};
  carnot_arena_init(&builder->problems);
  return carnot_arena_prepare(&builder->problems);
}

void carnot_candidates_forget(const carnot_candidates* candidates, uint32_t region) {
  for (uint32_t next, i = candidates->first[region]; i; i = next) {
    size_t chunk = (i - 1) / CARNOT_SETS_PER_CHUNK;
    next = candidates->sets[i - 1]->next;
    if (chunk < candidates->chunk_count && --candidates->chunks[chunk].sets_left == 0)
      carnot_arena_deinit(&candidates->chunks[chunk].problems);
  }
}

carnot_status* carnot_enumerate(carnot_builder* builder, const carnot_analysis* analysis,
                                carnot_candidates* candidates, uint32_t region,
                                const carnot_situation* situation, uint32_t* out_set) {
  const carnot_region_facts* f = &analysis->regions[region];
  for (uint32_t i = candidates->first[region]; i; i = candidates->sets[i - 1]->next) {
    *out_set = i - 1;
    if (is_in_situation(candidates->sets[i - 1], f, situation)) return NULL;
  }
  void* sets = candidates->sets;
  CARNOT_TRY(carnot_grow(&sets, &candidates->capacity, candidates->count + 1,
                         sizeof(*candidates->sets), "candidate sets"));
  candidates->sets = sets;
  carnot_candidate_set* set = CARNOT_NEW(&builder->problems, carnot_candidate_set);
  set->region = region;
  set->situation = *situation;
  CARNOT_TRY(make_set(builder, f, set));
  CARNOT_TRY(carnot_selector_filter(builder, f->name, set));
  // Tactics look at weights to see whether half types hold them.
  if (candidates->count % 256 == 255) carnot_builder_drop_pages(builder);
  set->situation.formats = NULL;  // the caller's; |inputs| holds what is needed
  set->next = candidates->first[region];
  candidates->sets[candidates->count] = set;
  *out_set = (uint32_t)candidates->count++;
  candidates->first[region] = *out_set + 1;
  return candidates->count % CARNOT_SETS_PER_CHUNK ? NULL : close_chunk(builder, candidates);
}

carnot_status* carnot_candidates_init(carnot_candidates* candidates,
                                      const carnot_analysis* analysis) {
  *candidates = (carnot_candidates){.count = 0};
  void* first;
  CARNOT_TRY(carnot_calloc(analysis->region_count + 1, sizeof(uint32_t), "candidate sets", &first));
  candidates->first = first;
  return NULL;
}

void carnot_candidates_deinit(carnot_candidates* candidates) {
  for (size_t i = 0; i < candidates->chunk_count; i++)
    carnot_arena_deinit(&candidates->chunks[i].problems);
  free(candidates->chunks);
  free(candidates->sets);
  free(candidates->first);
}
