// Outputs of a run as text and as JSON.
#ifndef CARNOT_TOOLS_VALUES_H_
#define CARNOT_TOOLS_VALUES_H_

#include <jansson.h>

#include "tensor.h"

enum { CLI_MAX_PRINTED = 64, CLI_MAX_JSON_VALUES = 4096 };  // elements

// Prints "y: float32 [1,3]" and the elements of a tensor of up to CLI_MAX_PRINTED, one line for
// each run of the last dimension; of larger ones the smallest, the largest and the mean.
void cli_values_print(const char* name, const carnot_data* data);
// {"name", "kind", "dtype", "shape", "values"}: the elements flat, row-major; null beyond
// CLI_MAX_JSON_VALUES. Numbers that are not finite become "nan", "inf" and "-inf". Sequences and
// optionals have "items". The caller owns it.
json_t* cli_values_json(const char* name, const carnot_data* data);

#endif  // CARNOT_TOOLS_VALUES_H_
