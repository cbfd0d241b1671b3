// Negotiation of layouts with a plugin.
#ifndef CARNOT_BACKEND_CPU_PLUGIN_PLUGIN_H_
#define CARNOT_BACKEND_CPU_PLUGIN_PLUGIN_H_

#include "plugin/registry.h"
#include "tactic/tactic.h"

// Sets the layouts of |problem| to the first that the plugin supports: all row-major, else channels
// last. NULL, or the reason with the operand that it does not support.
const char* carnot_plugin_pick_layout(const carnot_plugin_instance* instance,
                                      carnot_problem* problem, char* reason, size_t size);

#endif  // CARNOT_BACKEND_CPU_PLUGIN_PLUGIN_H_
