// What the context's files of the public interface share.
#ifndef CARNOT_API_RUNTIME_MEASURE_H_
#define CARNOT_API_RUNTIME_MEASURE_H_

#include "run/context.h"

// Takes the watch function of carnot_context_set_watch away and frees what it needs.
void carnot_context_drop_watch(carnot_context* context);

#endif  // CARNOT_API_RUNTIME_MEASURE_H_
