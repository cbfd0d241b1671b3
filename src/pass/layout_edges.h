// Transposes that enter or leave the body of a loop or a branch of a conditional.
#ifndef CARNOT_PASS_LAYOUT_EDGES_H_
#define CARNOT_PASS_LAYOUT_EDGES_H_

#include "pass/pass.h"

// Moves transposes at the edges of bodies out of them, where others cancel them or they run once.
// *out_changed becomes true where it did.
carnot_status* carnot_layout_cross_edges(carnot_graph* graph, bool* out_changed) CARNOT_MUST_USE;

#endif  // CARNOT_PASS_LAYOUT_EDGES_H_
