// Parts of carnot inspect.
#ifndef CARNOT_TOOLS_INSPECT_H_
#define CARNOT_TOOLS_INSPECT_H_

#include "support.h"

// Prints the text "TACTIC: REASON; TACTIC: REASON" of the inspector, a line for each reason: times
// of tactics that lost, then tactics that rejected the layer, then how many were not allowed.
void inspect_print_why(const char* rejected);

#endif  // CARNOT_TOOLS_INSPECT_H_
