// Which weights the runs of an engine read whole: what the keeper of its file copies.
#include "engine/read_weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

// A table whose rows a gather picks: few of its pages are read, and those once.
static bool picks_rows(const carnot_region* region, uint32_t local) {
  for (uint32_t o = 0; o < region->output_count; o++)
    if (region->outputs[o] == local) return false;
  for (uint32_t n = 0; n < region->node_count; n++) {
    const carnot_plan_node* node = &region->nodes[n];
    const bool is_gather = node->op == CARNOT_OP_GATHER || node->op == CARNOT_OP_GATHER_ND;
    for (uint32_t i = is_gather ? 1 : 0; i < node->input_count; i++)
      if (node->inputs[i] == local) return false;
  }
  return true;
}

// The value in whose memory |v| lies.
static const carnot_plan_value* memory_of(const carnot_plan* plan, const carnot_plan_value* v) {
  while (v->storage == CARNOT_STORAGE_ALIAS || v->storage == CARNOT_STORAGE_SUBVIEW)
    v = &plan->values[v->index];
  return v;
}

static void mark_step(const carnot_plan* plan, const carnot_plan_step* step, bool* is_read) {
  for (uint32_t i = 0; i < step->input_count; i++) {
    if (step->inputs[i] == CARNOT_PLAN_NONE || picks_rows(&step->region, i)) continue;
    const carnot_plan_value* v = memory_of(plan, &plan->values[step->inputs[i]]);
    if (v->storage == CARNOT_STORAGE_CONSTANT) is_read[v->index] = true;
  }
  for (uint32_t v = 0; v < step->variant_count; v++)
    for (uint32_t c = 0; c < step->variants[v].constant_count; c++)
      is_read[step->variants[v].constants[c]] = true;
}

carnot_status* carnot_engine_want_weights(carnot_engine* engine) {
  const carnot_plan* plan = engine->plan;
  // An accelerator has its own copy.
  if (strcmp(plan->device, "cpu") != 0) return NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(plan->blob_count, sizeof(bool), "weights", &memory));
  bool* is_read = memory;
  for (uint32_t s = 0; s < plan->step_count; s++) mark_step(plan, &plan->steps[s], is_read);
  for (uint32_t i = 0; i < plan->blob_count; i++) {
    const carnot_plan_blob* blob = &plan->blobs[i];
    if (!is_read[i] || !blob->tensor.data || blob->tensor.dtype == CARNOT_DTYPE_STRING) continue;
    const size_t begin =
        (size_t)((const char*)blob->tensor.data - (const char*)engine->mapping.data);
    carnot_lease_want(engine->lease, begin, begin + blob->bytes);
  }
  free(memory);
  return NULL;
}
