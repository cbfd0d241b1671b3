// Builds cuDNN execution plans for all regions in parallel before selection, which is sequential
// and then finds them in the cache.
#include <stdlib.h>

#include "backend/device.h"
#include "builder/select/candidates.h"

// Problems with the tactic that plans for each.
typedef struct preplan_list {
  carnot_problem* items;
  size_t count, capacity;
} preplan_list;

static void preplan_part(void* arg, int64_t part) {
  const carnot_problem* problem = &((preplan_list*)arg)->items[part / CARNOT_PREPLAN_PARTS];
  problem->tactic->preplan(problem, (int)(part % CARNOT_PREPLAN_PARTS));
}

static carnot_status* add_region(carnot_builder* builder, const carnot_region_facts* f,
                                 preplan_list* list) {
  carnot_problem* problem = NULL;
  carnot_tactic_iterator tactics = carnot_tactics_for(&f->region, /*backend=*/true);
  for (const carnot_tactic* t; (t = carnot_tactic_next(&tactics));) {
    if (!t->preplan || t->sources & ~builder->config->tactic_sources) continue;
    if (!problem) {
      problem = CARNOT_NEW(builder->memory, carnot_problem);
      CARNOT_TRY(
          carnot_make_problem(builder, f, &f->region, /*formats=*/NULL, /*guess=*/false, problem));
    }
    void* items = list->items;
    CARNOT_TRY(
        carnot_grow(&items, &list->capacity, list->count + 1, sizeof(*list->items), "problems"));
    list->items = items;
    list->items[list->count] = *problem;
    list->items[list->count++].tactic = t;
  }
  return NULL;
}

carnot_status* carnot_preplan(carnot_builder* builder, const carnot_analysis* analysis) {
  if (!builder->config->device) return NULL;
  preplan_list list = {.count = 0};
  carnot_status* status = NULL;
  const carnot_block_facts* main = &analysis->blocks[0];
  for (uint32_t i = 0; i < main->region_count && !status; i++)
    status = add_region(builder, &analysis->regions[main->regions[i]], &list);
  carnot_executor* executor = builder->config->executor;
  if (!status && list.count) {
    double begin_ms = carnot_builder_now_ms();
    bool mine = carnot_executor_begin(executor);
    carnot_executor_parallel(mine ? executor : NULL, (int64_t)list.count * CARNOT_PREPLAN_PARTS,
                             preplan_part, &list);
    if (mine) carnot_executor_end(executor);
    carnot_builder_log(builder, "Libraries planned %zu layers ahead in %.0f ms", list.count,
                       carnot_builder_now_ms() - begin_ms);
  }
  free(list.items);
  return status;
}
