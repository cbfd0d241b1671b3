// Assignments: creation, comparison, hash.
#include "builder/select/assignment.h"

#include <string.h>

#include "base/hash.h"

carnot_status* carnot_assignment_create(carnot_arena* arena, const carnot_analysis* analysis,
                                        carnot_assignment* out) {
  void *regions, *formats;
  *out = (carnot_assignment){.region_count = analysis->region_count,
                             .value_count = analysis->value_count};
  CARNOT_TRY(carnot_arena_try(arena, out->region_count + 1, sizeof(*out->regions), "an assignment",
                              &regions));
  CARNOT_TRY(
      carnot_arena_try(arena, out->value_count, sizeof(*out->formats), "value formats", &formats));
  out->regions = regions;
  out->formats = formats;
  return NULL;
}

carnot_candidate* carnot_assigned_candidate(const carnot_assignment* assignment,
                                            const carnot_candidates* candidates, uint32_t region) {
  const carnot_assigned_region* r = &assignment->regions[region];
  return &candidates->sets[r->set]->items[r->candidate];
}

static uint64_t hash_guard(const carnot_guard* g, uint64_t h) {
  const int64_t words[] = {(int64_t)g->operand, (int64_t)g->dim, g->min, g->max, g->multiple};
  return carnot_hash(words, sizeof(words), h);
}

static uint64_t hash_candidate(const carnot_candidate* c, uint64_t h) {
  h = carnot_hash(c->tactic->name, strlen(c->tactic->name) + 1, h);
  for (uint32_t i = 0; i < c->problem.input_count; i++)
    h = carnot_format_hash(&c->problem.inputs[i].format, h);
  for (uint32_t i = 0; i < c->problem.output_count; i++)
    h = carnot_format_hash(&c->problem.outputs[i].format, h);
  return h;
}

uint64_t carnot_assignment_hash(const carnot_assignment* assignment,
                                const carnot_candidates* candidates) {
  uint64_t h = 1;
  for (uint32_t r = 0; r < assignment->region_count; r++) {
    const carnot_assigned_region* a = &assignment->regions[r];
    const carnot_candidate* items = candidates->sets[a->set]->items;
    for (uint32_t i = 0; i < a->guarded_count; i++) {
      h = hash_candidate(&items[a->guarded[i].candidate], h);
      h = hash_guard(&a->guarded[i].guard, h);
    }
    h = hash_candidate(&items[a->candidate], h);
  }
  for (uint32_t v = 0; v < assignment->value_count; v++)
    h = carnot_format_hash(&assignment->formats[v], h);
  return h;
}

bool carnot_assignment_equal(const carnot_assignment* a, const carnot_candidates* candidates,
                             const carnot_assignment* b) {
  if (a->region_count != b->region_count || a->value_count != b->value_count) return false;
  for (uint32_t v = 0; v < a->value_count; v++)
    if (!carnot_format_equal(&a->formats[v], &b->formats[v])) return false;
  for (uint32_t r = 0; r < a->region_count; r++) {
    const carnot_assigned_region *x = &a->regions[r], *y = &b->regions[r];
    const carnot_candidate* of_x = candidates->sets[x->set]->items;
    const carnot_candidate* of_y = candidates->sets[y->set]->items;
    bool same = x->guarded_count == y->guarded_count &&
                of_x[x->candidate].tactic == of_y[y->candidate].tactic;
    for (uint32_t i = 0; same && i < x->guarded_count; i++)
      same = of_x[x->guarded[i].candidate].tactic == of_y[y->guarded[i].candidate].tactic &&
             memcmp(&x->guarded[i].guard, &y->guarded[i].guard, sizeof(carnot_guard)) == 0;
    if (!same) return false;
  }
  return true;
}
