// For the examples: end with the message of the first error.
#ifndef CARNOT_EXAMPLES_EXAMPLE_H_
#define CARNOT_EXAMPLES_EXAMPLE_H_

#include <stdio.h>
#include <stdlib.h>

#include "carnot/status.h"

#define OK(expr) example_check((expr), #expr)
#define SHAPE(...) \
  (&(carnot_dims){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})

static inline void example_check(carnot_status* status, const char* what) {
  if (!status) return;
  fprintf(stderr, "%s\n  in %s\n", carnot_status_message(status), what);
  carnot_status_free(status);
  exit(1);
}

#endif  // CARNOT_EXAMPLES_EXAMPLE_H_
