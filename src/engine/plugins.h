// Plugins that an engine needs.
#ifndef CARNOT_ENGINE_PLUGINS_H_
#define CARNOT_ENGINE_PLUGINS_H_

#include "plan/plan.h"

// Every plugin of the plan is registered, after opening the libraries that the plan carries where
// one is missing and the host allows it. VERSION_MISMATCH, NOT_FOUND and FAILED_PRECONDITION name
// the step, the node, the plugin with its library, and what there is.
carnot_status* carnot_plan_check_plugins(const carnot_plan* plan) CARNOT_MUST_USE;

#endif  // CARNOT_ENGINE_PLUGINS_H_
