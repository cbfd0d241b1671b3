// Lists, and tensors, that a loop fills with one element an iteration.
#ifndef CARNOT_PASS_LOOP_LISTS_H_
#define CARNOT_PASS_LOOP_LISTS_H_

#include "pass/loops.h"

typedef enum carnot_loop_list {
  CARNOT_LIST_OTHER,  // stays a sequence
  CARNOT_LIST_GROWS,  // empty before the loop; iteration i appends element i
  CARNOT_LIST_LAST,   // empty before the loop; each iteration writes element 0
  CARNOT_LIST_JOINS,  // a tensor; each iteration joins one more element along dimension 0
} carnot_loop_list;

// What carried value |k| is. *out_item: the element that an iteration writes; of a tensor with the
// dimension that it is joined along, 1, and with the tensor's other dimensions, which are constant.
carnot_loop_list carnot_loop_list_of(const carnot_loop* loop, int k, carnot_value** out_item);
// Moves the readers of |list|, a result of a loop, to its elements |stacked| along dimension 0.
void carnot_loop_list_replace(carnot_emitter* e, carnot_value* list, carnot_value* stacked);

#endif  // CARNOT_PASS_LOOP_LISTS_H_
