// Values that stand in two storage types: what the passes that change storage share.
#ifndef CARNOT_PASS_TWINS_H_
#define CARNOT_PASS_TWINS_H_

#include "pass/pass.h"

typedef struct carnot_twins {
  carnot_value** of;  // by id: the same value in the other type
  uint32_t count;
} carnot_twins;

carnot_status* carnot_twins_init(const carnot_graph* graph, carnot_twins* out) CARNOT_MUST_USE;
void carnot_twins_deinit(carnot_twins* twins);
static inline carnot_value* carnot_twin(const carnot_twins* twins, const carnot_value* value) {
  return value->id < twins->count ? twins->of[value->id] : NULL;
}
// The twin of |value| as |to|, cast before |at| where there is none yet.
carnot_status* carnot_twin_make(carnot_twins* twins, carnot_node* at, carnot_value* value,
                                carnot_dtype to, carnot_value** out) CARNOT_MUST_USE;
// |node| made anew over |inputs|, then removed. Results whose type changes by that are cast back
// for those readers that stay; others find the twin.
carnot_status* carnot_twins_replace(carnot_twins* twins, carnot_node* node, carnot_value** inputs,
                                    carnot_node** out) CARNOT_MUST_USE;

#endif  // CARNOT_PASS_TWINS_H_
