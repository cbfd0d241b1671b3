// The environment variables of the library.
#ifndef CARNOT_TACTIC_ENVIRONMENT_H_
#define CARNOT_TACTIC_ENVIRONMENT_H_

#include "base/status.h"

// INVALID_ARGUMENT names a variable that begins with CARNOT_ and is not known, or a value that is
// none of its values, with what is known. Builds and contexts check before anything else.
carnot_status* carnot_environment_check(void) CARNOT_MUST_USE;

#endif  // CARNOT_TACTIC_ENVIRONMENT_H_
