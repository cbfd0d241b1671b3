// Shapes on the command line: NAME:1x3x224x224,NAME2:... A value is split at its last ':'; names
// may be in single quotes and contain one '*', which matches any text.
#ifndef CARNOT_TOOLS_SHAPES_H_
#define CARNOT_TOOLS_SHAPES_H_

#include "support.h"

typedef struct cli_shape {
  char* name;
  carnot_dims dims;
} cli_shape;

typedef struct cli_shapes {
  cli_shape items[128];
  size_t count;
} cli_shapes;

// |text| may be NULL: no shapes. INVALID_ARGUMENT names the entry. The caller frees them, also
// after an error.
carnot_status* cli_shapes_parse(const char* text, cli_shapes* out) CARNOT_MUST_USE;
// The dimensions of the first entry that matches |name|; NULL where there is none.
const carnot_dims* cli_shapes_find(const cli_shapes* shapes, const char* name);
// True when the entry matches |name|.
bool cli_shape_matches(const cli_shape* shape, const char* name);
// "1x3x224": dimensions as the command line has them.
void cli_shape_text(const carnot_dims* dims, char* out, size_t size);
void cli_shapes_free(cli_shapes* shapes);

#endif  // CARNOT_TOOLS_SHAPES_H_
