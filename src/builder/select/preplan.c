// What rows ask of slow libraries is made ahead for all nodes at once: selection, one node after
// the other, finds it.
#include <stdio.h>
#include <stdlib.h>

#include "backend/device.h"
#include "builder/internal.h"
#include "ir/graph.h"

typedef struct foreseen {
  const carnot_tactic* row;
  const carnot_problem* problem;
} foreseen;

typedef struct foreseen_list {
  foreseen* items;
  size_t count, capacity;
} foreseen_list;

static void foresee_part(void* arg, int64_t part) {
  const foreseen* f = &((foreseen_list*)arg)->items[part / CARNOT_PREPLAN_PARTS];
  f->row->preplan(f->problem, (int)(part % CARNOT_PREPLAN_PARTS));
}

static carnot_status* add_node(carnot_builder* builder, carnot_node* node,
                               const carnot_tactic* const* rows, size_t row_count,
                               foreseen_list* list) {
  carnot_choice* choice = CARNOT_NEW_ARRAY(&builder->plan->arena, carnot_choice, 1);
  CARNOT_TRY(carnot_make_problem(builder, node, false, choice));
  for (size_t i = 0; i < row_count; i++) {
    if (!rows[i]->preplan || rows[i]->sources & ~builder->tactic_sources ||
        !carnot_region_holds(&choice->region, rows[i]->anchor))
      continue;
    void* items = list->items;
    CARNOT_TRY(carnot_grow(&items, &list->capacity, list->count + 1, sizeof(foreseen), "problems"));
    list->items = items;
    list->items[list->count++] = (foreseen){rows[i], &choice->problem};
  }
  return NULL;
}

static void tell(const carnot_builder* builder, size_t count, double ms) {
  char text[96];
  snprintf(text, sizeof(text), "Libraries planned %zu layers ahead in %.0f ms", count, ms);
  if (builder->config->log) builder->config->log(builder->config->user, 3, text);
}

carnot_status* carnot_preplan(carnot_builder* builder) {
  const carnot_device* device = builder->config->device;
  if (!device || builder->phase != CARNOT_LOWER_FIRST) return NULL;
  size_t row_count;
  const carnot_tactic* const* rows = device->backend->rows(&row_count);
  foreseen_list list = {.count = 0};
  carnot_status* status = NULL;
  for (carnot_node* n = builder->graph->main->first; n && !status; n = n->next)
    status = add_node(builder, n, rows, row_count, &list);
  carnot_executor* executor = builder->config->executor;
  if (!status && list.count) {
    double begin_ms = carnot_builder_now_ms();
    bool mine = carnot_executor_begin(executor);
    carnot_executor_parallel(mine ? executor : NULL, (int64_t)list.count * CARNOT_PREPLAN_PARTS,
                             foresee_part, &list);
    if (mine) carnot_executor_end(executor);
    tell(builder, list.count, carnot_builder_now_ms() - begin_ms);
  }
  free(list.items);
  return status;
}
