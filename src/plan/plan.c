#include "plan/plan.h"

#include <stdlib.h>

const char* carnot_layout_name(carnot_layout layout) {
  static const char* const kNames[] = {
#define LAYOUT_NAME(NAME, name) name,
      CARNOT_LAYOUTS(LAYOUT_NAME)
#undef LAYOUT_NAME
  };
  return (unsigned)layout < CARNOT_LAYOUT_COUNT ? kNames[layout] : "unknown";
}

void carnot_layout_strides(carnot_layout layout, int rank, const int64_t* dims,
                           int64_t* out_strides) {
  int64_t stride = 1;
  if (layout == CARNOT_LAYOUT_CHANNELS_LAST && rank > 2) {
    out_strides[1] = 1;
    stride = dims[1];
    for (int i = rank - 1; i >= 2; i--) {
      out_strides[i] = stride;
      stride *= dims[i];
    }
    out_strides[0] = stride;
    return;
  }
  for (int i = rank - 1; i >= 0; i--) {
    out_strides[i] = stride;
    stride *= dims[i];
  }
}

carnot_status* carnot_plan_create(carnot_plan** out_plan) {
  *out_plan = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_plan), "a plan", &memory));
  *out_plan = memory;
  (*out_plan)->inspector = "";
  return NULL;
}

void carnot_plan_destroy(carnot_plan* plan) {
  if (!plan) return;
  if (plan->drop) plan->drop(plan->keep);
  carnot_arena_deinit(&plan->arena);
  free(plan);
}
