// Scaled dot-product attention from its parts: softmax(q kᵀ · scale + mask) v.
#include "pass/pass.h"

carnot_status* carnot_pass_attention(carnot_graph* graph, const carnot_pass_options* options) {
  (void)graph, (void)options;
  return NULL;
}
