// The core's functions for backend modules. A module that linked the core would bring a second copy
// of it, with its own state, into the process; one that left its symbols undefined would need a
// core that exports them, but the core is linked statically into programs, and hidden in
// libcarnot.so and in the Python module. So the loader passes a table of addresses to the module's
// entry point, and the module defines each function as a jump through its slot
// (backend/cuda/driver/core_functions.S): callers, variadic ones too, see the core's own headers.
#ifndef CARNOT_BACKEND_CORE_FUNCTIONS_H_
#define CARNOT_BACKEND_CORE_FUNCTIONS_H_

#include <stddef.h>

typedef void carnot_core_function(void);

enum {
#define CORE_FUNCTION(name) CARNOT_CORE_##name,
#include "backend/core_functions.def"
  CARNOT_CORE_FUNCTION_COUNT
};

// In the order of core_functions.def. |count| identifies a module of another build.
typedef struct carnot_core_functions {
  size_t count;
  carnot_core_function* functions[CARNOT_CORE_FUNCTION_COUNT];
} carnot_core_functions;

// Of the program or library that loads the module.
extern const carnot_core_functions carnot_core;

#endif  // CARNOT_BACKEND_CORE_FUNCTIONS_H_
