// Refit: new weights for an engine that was built for it, also under contexts that run.
//
// The user gives tensors by weight name; commit computes what was derived from them, packs it as each step's tactic
// wants, and publishes a new generation: a context takes it at its next run, the old one is freed after its last.
#ifndef CARNOT_RUN_REFIT_H_
#define CARNOT_RUN_REFIT_H_

#include "engine/engine.h"

typedef struct carnot_refit carnot_refit;

// FAILED_PRECONDITION when the engine was not built for refit. One thread at a time an engine.
carnot_status* carnot_refit_begin(carnot_engine* engine, carnot_refit** out_refit) CARNOT_MUST_USE;
void carnot_refit_free(carnot_refit* refit);
// Copies |tensor|, whose type and dimensions must be the weight's. NOT_FOUND names weights that resemble it.
carnot_status* carnot_refit_set(carnot_refit* refit, const char* name, const carnot_tensor* tensor) CARNOT_MUST_USE;
// Names of the weights, in the order of the engine; NULL past the last.
const char* carnot_refit_name(const carnot_refit* refit, uint32_t index);
// A weight without data, which must be set before commit (a stripped engine); NULL when there is none.
const char* carnot_refit_missing(const carnot_refit* refit);
carnot_status* carnot_refit_commit(carnot_refit* refit) CARNOT_MUST_USE;

#endif  // CARNOT_RUN_REFIT_H_
