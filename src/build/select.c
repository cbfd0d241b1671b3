// Selection: which tactic runs a region.
#include <stdio.h>

#include "build/builder.h"

static bool holds(const carnot_region* region, carnot_op op) {
  if (op == CARNOT_OP_COUNT) return true;
  for (uint32_t i = 0; i < region->node_count; i++)
    if (region->nodes[i].op == op) return true;
  return false;
}

// The wanted layouts before a row is asked: those that stand.
typedef struct layouts {
  carnot_layout inputs[64], outputs[16];
} layouts;

static void save_layouts(const carnot_problem* p, layouts* out) {
  for (uint32_t i = 0; i < p->input_count && i < 64; i++) out->inputs[i] = p->inputs[i].layout;
  for (uint32_t i = 0; i < p->output_count && i < 16; i++) out->outputs[i] = p->outputs[i].layout;
}
static void restore_layouts(carnot_problem* p, const layouts* from) {
  for (uint32_t i = 0; i < p->input_count && i < 64; i++) p->inputs[i].layout = from->inputs[i];
  for (uint32_t i = 0; i < p->output_count && i < 16; i++) p->outputs[i].layout = from->outputs[i];
}

// Why |row| does not take the problem, NULL when it does; layouts are set to what it wants.
static const char* ask(const carnot_tactic_row* row, carnot_problem* problem, char* reason, size_t size) {
  if (!holds(problem->region, row->anchor)) return "";
  if (row->isa > problem->isa) {
    snprintf(reason, size, "needs %s, the target has %s", carnot_isa_name(row->isa), carnot_isa_name(problem->isa));
    return reason;
  }
  return row->reject(problem, reason, size);
}

carnot_status* carnot_select_tactic(carnot_builder* builder, carnot_choice* choice) {
  carnot_problem* problem = &choice->problem;
  size_t row_count;
  const carnot_tactic_row* const* rows = carnot_tactics(&row_count);
  layouts standing;
  save_layouts(problem, &standing);
  char log[2048] = "";
  size_t at = 0;
  for (size_t i = 0; i < row_count && !choice->row; i++) {
    char reason[256];
    restore_layouts(problem, &standing);
    const char* why = ask(rows[i], problem, reason, sizeof(reason));
    if (!why) {
      choice->row = rows[i];
    } else if (why[0] && at < sizeof(log)) {
      at += (size_t)snprintf(log + at, sizeof(log) - at, "%s%s: %s", at ? "; " : "", rows[i]->name, why);
    }
  }
  CARNOT_CHECK(choice->row, INTERNAL, "node %s: no tactic takes it (%s)", choice->node->name, log);
  choice->rejected = carnot_arena_text(&builder->plan->arena, log, strlen(log));
  choice->prepared.arena = &builder->plan->arena;
  if (choice->row->prepare)
    CARNOT_TRY_AT(choice->row->prepare(problem, &choice->prepared), "node %s, tactic %s", choice->node->name,
                  choice->row->name);
  return NULL;
}
