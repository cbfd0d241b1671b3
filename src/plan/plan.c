// Creation and destruction of plans.
#include "plan/plan.h"

#include <stdlib.h>

carnot_status* carnot_plan_create(carnot_plan** out_plan) {
  *out_plan = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_plan), "a plan", &memory));
  carnot_plan* plan = memory;
  carnot_status* status = carnot_arena_prepare(&plan->arena);
  if (status) {
    carnot_plan_destroy(plan);
    return status;
  }
  plan->inspector = "";
  *out_plan = plan;
  return NULL;
}

void carnot_plan_destroy(carnot_plan* plan) {
  if (!plan) return;
  if (plan->drop) plan->drop(plan->keep);
  free(plan->inspector_text);
  carnot_arena_deinit(&plan->arena);
  free(plan);
}

void carnot_plan_strip(carnot_plan* plan) {
  plan->stripped = true;
  for (uint32_t i = 0; i < plan->blob_count; i++)
    if (carnot_blob_is_weight(&plan->blobs[i])) plan->blobs[i].tensor.data = NULL;
}
