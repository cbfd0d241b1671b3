// Refit: new weights for an engine that was built for it, also under contexts that run.
//
// The user gives tensors by weight name; commit computes what was derived from them, packs it as
// each step's tactic wants, and publishes a new generation: a context takes it at its next run, the
// old one is freed after its last.
#ifndef CARNOT_RUN_REFIT_H_
#define CARNOT_RUN_REFIT_H_

#include "engine/engine.h"

// Copies |tensor|, whose type and dimensions must be the weight's. NOT_FOUND names weights that
// resemble it.
carnot_status* carnot_refit_set(carnot_refit* refit, const char* name,
                                const carnot_tensor* tensor) CARNOT_MUST_USE;

#endif  // CARNOT_RUN_REFIT_H_
