#ifndef CARNOT_ENGINE_READ_WEIGHTS_H_
#define CARNOT_ENGINE_READ_WEIGHTS_H_

#include "engine/engine.h"

// Names the weights that runs read whole to the lease of the engine's file: not the tables whose
// rows are gathered, nor what is kept for refit alone.
carnot_status* carnot_engine_want_weights(carnot_engine* engine) CARNOT_MUST_USE;

#endif  // CARNOT_ENGINE_READ_WEIGHTS_H_
