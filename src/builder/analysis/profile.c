// Profiles: their ranges of input dimensions become ranges of the symbols of the graph.
#include <stdio.h>
#include <stdlib.h>

#include "builder/internal.h"

enum { kDefaultOptimum = 1, kGuess = 64, kTimedGuess = 16 };
// Bytes of a value that the plan has room for.
static const uint64_t kMostPlanned = (uint64_t)1 << 38;

// A value for each symbol, none of them known.
static carnot_status* new_table(carnot_builder* builder, int64_t** out_values, bool** out_known) {
  const size_t count = builder->graph->syms.count + 1;
  void *values, *known;
  CARNOT_TRY(carnot_arena_try(&builder->graph->arena, count, sizeof(int64_t), "symbols", &values));
  CARNOT_TRY(carnot_arena_try(&builder->graph->arena, count, sizeof(bool), "symbols", &known));
  *out_values = values;
  *out_known = known;
  return NULL;
}

static carnot_status* grow_tables(carnot_builder* builder) {
  const size_t count = builder->graph->syms.count + 1;
  void* is_static;
  CARNOT_TRY(new_table(builder, &builder->symbol_values, &builder->symbol_known));
  CARNOT_TRY(carnot_arena_try(&builder->graph->arena, count, sizeof(bool), "symbols", &is_static));
  builder->symbol_static = is_static;
  return NULL;
}

const carnot_profile_input* carnot_profile_find(const carnot_profile* profile, const char* name) {
  for (size_t i = 0; i < profile->input_count; i++)
    if (strcmp(profile->inputs[i].name, name) == 0) return &profile->inputs[i];
  return NULL;
}

static carnot_status* check_profile_input(const carnot_value* input,
                                          const carnot_profile_input* p) {
  CARNOT_CHECK(p->min.rank == input->type.rank && p->opt.rank == input->type.rank &&
                   p->max.rank == input->type.rank,
               INVALID_ARGUMENT, "the profile gives %d dimensions for input %s, which has %d",
               p->opt.rank, p->name, input->type.rank);
  for (int d = 0; d < input->type.rank; d++) {
    long long min = p->min.d[d], opt = p->opt.d[d], max = p->max.d[d];
    CARNOT_CHECK(min >= 0 && min <= opt && opt <= max, INVALID_ARGUMENT,
                 "input %s, dimension %d: min %lld, opt %lld, max %lld are not in order", p->name,
                 d, min, opt, max);
    carnot_sym dim = input->type.dims[d];
    CARNOT_CHECK(!carnot_sym_is_const(dim) || (dim.bits == min && dim.bits == max),
                 INVALID_ARGUMENT,
                 "input %s, dimension %d is %lld in the model, the profile says %lld to %lld",
                 p->name, d, (long long)dim.bits, min, max);
  }
  return NULL;
}

// Widens the interval noted for a symbol by one profile's range.
static carnot_status* note_range(carnot_builder* builder, carnot_sym dim, int64_t min, int64_t opt,
                                 int64_t max, bool first) {
  if (carnot_sym_is_const(dim)) return NULL;
  size_t index = carnot_sym_index(dim);
  if (builder->graph->syms.items[index].op != CARNOT_SYM_SYMBOL) return NULL;
  int64_t old_min, old_max;
  carnot_sym_range(&builder->graph->syms, dim, &old_min, &old_max);
  if (first && !builder->symbol_known[index]) {
    builder->symbol_values[index] = opt;
    builder->symbol_known[index] = true;
  } else {
    min = carnot_min_i64(min, old_min);
    max = carnot_max_i64(max, old_max);
  }
  carnot_sym_set_range(&builder->graph->syms, dim, min, max);
  return NULL;
}

static carnot_status* apply_profile(carnot_builder* builder, const carnot_profile* profile,
                                    bool first) {
  carnot_block* main = builder->graph->main;
  for (size_t i = 0; i < profile->input_count; i++) {
    bool found = false;
    for (size_t k = 0; k < main->param_count; k++)
      found |= strcmp(main->params[k]->name, profile->inputs[i].name) == 0;
    CARNOT_CHECK(found, INVALID_ARGUMENT, "the profile names input %s, which the model lacks",
                 profile->inputs[i].name);
  }
  for (size_t k = 0; k < main->param_count; k++) {
    carnot_value* input = main->params[k];
    const carnot_profile_input* p = carnot_profile_find(profile, input->name);
    if (!p) continue;
    for (size_t i = 0; i < input->sym_count; i++)
      CARNOT_TRY(note_range(builder, input->syms[i], p->values[0][i], p->values[1][i],
                            p->values[2][i], first));
    if (p->no_shape) continue;
    CARNOT_TRY(check_profile_input(input, p));
    for (int d = 0; d < input->type.rank; d++)
      CARNOT_TRY(
          note_range(builder, input->type.dims[d], p->min.d[d], p->opt.d[d], p->max.d[d], first));
  }
  return NULL;
}

// A dimension that the profile fixes becomes a plain integer.
static carnot_status* fix_dimensions(carnot_builder* builder) {
  carnot_block* main = builder->graph->main;
  bool any = false;
  for (size_t k = 0; k < main->param_count; k++) {
    carnot_type* type = &main->params[k]->type;
    for (int d = 0; d < type->rank; d++) {
      if (carnot_sym_is_const(type->dims[d])) continue;
      int64_t min, max;
      carnot_sym_range(&builder->graph->syms, type->dims[d], &min, &max);
      if (min != max ||
          builder->graph->syms.items[carnot_sym_index(type->dims[d])].op != CARNOT_SYM_SYMBOL)
        continue;
      type->dims[d] = carnot_sym_of(min);
      any = true;
    }
  }
  if (!any) return NULL;
  for (carnot_node* node = main->first; node; node = node->next)
    CARNOT_TRY(carnot_node_infer(node));
  return NULL;
}

static void mark_static(carnot_builder* builder) {
  carnot_block* main = builder->graph->main;
  carnot_syms* syms = &builder->graph->syms;
  for (size_t k = 0; k < main->param_count; k++) {
    const carnot_type* type = &main->params[k]->type;
    for (int d = 0; d < type->rank; d++) {
      if (carnot_sym_is_const(type->dims[d])) continue;
      size_t index = carnot_sym_index(type->dims[d]);
      if (builder->symbol_known[index]) continue;
      int64_t min, max;
      carnot_sym_range(syms, type->dims[d], &min, &max);
      builder->symbol_values[index] = carnot_max_i64(min, carnot_min_i64(max, kDefaultOptimum));
      builder->symbol_known[index] = true;
    }
  }
  carnot_graph_planned_syms(builder->graph, builder->symbol_static);
}

carnot_status* carnot_apply_profiles(carnot_builder* builder) {
  const carnot_build_config* config = builder->config;
  CARNOT_TRY(grow_tables(builder));
  builder->symbol_count = builder->graph->syms.count;
  for (size_t i = 0; i < config->profile_count; i++)
    CARNOT_TRY_AT(apply_profile(builder, &config->profiles[i], i == 0), "profile %zu", i);
  carnot_syms_rebound(&builder->graph->syms);
  CARNOT_TRY(fix_dimensions(builder));
  return NULL;
}

// The sizes at the optimum, and |guess| within its bounds for what only the run knows.
static carnot_status* guess_unknown(carnot_builder* builder, int64_t guess, int64_t** out_values,
                                    bool** out_known) {
  const carnot_syms* syms = &builder->graph->syms;
  CARNOT_TRY(new_table(builder, out_values, out_known));
  int64_t* values = *out_values;
  for (size_t i = 0; i < syms->count; i++) {
    const carnot_sym_expr* symbol = &syms->items[i];
    const bool known = builder->symbol_known[i], guessed = symbol->op == CARNOT_SYM_SYMBOL;
    (*out_known)[i] = known || guessed;
    values[i] = known || !guessed ? builder->symbol_values[i]
                                  : carnot_max_i64(symbol->min, carnot_min_i64(symbol->max, guess));
  }
  return NULL;
}

// The size of an open dimension, at its optimum |optimum|, for the |index|-th of builder->sizes.
static int64_t size_at(const carnot_sym_expr* symbol, int64_t optimum, int index) {
  static const int64_t kBetween[] = {0, 8, 32, 128};
  if (index == CARNOT_SIZE_LEAST) return carnot_max_i64(1, symbol->min);
  if (index == CARNOT_SIZE_GREATEST) return symbol->max;
  return carnot_max_i64(optimum, carnot_min_i64(symbol->max, kBetween[index]));
}

// Notes the |index|-th sizes, unless they are those of the optimum or of |*previous|, or have no
// bound.
static carnot_status* note_size(carnot_builder* builder, int index, const int64_t** previous) {
  enum { kMostSize = 1 << 30 };
  const carnot_syms* syms = &builder->graph->syms;
  carnot_symbol_sizes sizes;
  CARNOT_TRY(new_table(builder, &sizes.values, &sizes.known));
  bool differs = false, repeats = *previous != NULL;
  for (size_t i = 0; i < syms->count; i++) {
    if (syms->items[i].op != CARNOT_SYM_SYMBOL || !builder->symbol_known[i]) continue;
    sizes.values[i] = size_at(&syms->items[i], builder->symbol_values[i], index);
    sizes.known[i] = true;
    if (sizes.values[i] > kMostSize) return NULL;
    differs |= sizes.values[i] != builder->symbol_values[i];
    repeats = repeats && sizes.values[i] == (*previous)[i];
  }
  if (!differs || repeats) return NULL;
  builder->sizes[index] = sizes;
  *previous = sizes.values;
  return NULL;
}

carnot_status* carnot_note_symbols(carnot_builder* builder) {
  int64_t* values = builder->symbol_values;
  bool* known = builder->symbol_known;
  size_t old = builder->symbol_count;
  CARNOT_TRY(grow_tables(builder));
  memcpy(builder->symbol_values, values, old * sizeof(*values));
  memcpy(builder->symbol_known, known, old * sizeof(*known));
  builder->symbol_count = builder->graph->syms.count;
  mark_static(builder);
  const int64_t* previous = NULL;
  for (int i = 0; i < CARNOT_SIZE_COUNT; i++) {
    builder->sizes[i] = (carnot_symbol_sizes){NULL, NULL};
    CARNOT_TRY(note_size(builder, i, &previous));
  }
  CARNOT_TRY(guess_unknown(builder, kGuess, &builder->guess_values, &builder->guess_known));
  return guess_unknown(builder, kTimedGuess, &builder->late_sizes.values,
                       &builder->late_sizes.known);
}

bool carnot_type_is_static(const carnot_builder* builder, const carnot_type* type) {
  if (type->kind != CARNOT_VALUE_TENSOR || type->rank < 0) return false;
  for (int d = 0; d < type->rank; d++)
    if (!carnot_sym_is_const(type->dims[d]) &&
        !builder->symbol_static[carnot_sym_index(type->dims[d])])
      return false;
  return true;
}

uint64_t carnot_type_max_bytes(const carnot_builder* builder, const carnot_type* type) {
  int64_t dims[CARNOT_MAX_RANK];
  for (int d = 0; d < type->rank; d++) {
    int64_t min, max;
    carnot_sym_range(&builder->graph->syms, type->dims[d], &min, &max);
    if (max >= (int64_t)1 << 40) return UINT64_MAX;
    dims[d] = max < 0 ? 0 : max;
  }
  size_t bytes;
  carnot_status* status = carnot_dims_bytes(type->dtype, dims, type->rank, &bytes);
  carnot_status_free(status);
  // A half of what has no bound has none.
  return status || bytes > kMostPlanned ? UINT64_MAX : bytes;
}
