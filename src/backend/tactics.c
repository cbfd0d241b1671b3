// The one place that knows all rows.
#include <string.h>

#include "backend/modules.h"

#define TACTIC(name) extern const carnot_tactic_row carnot_tactic_##name;
#include "backend/tactics.def"
#undef TACTIC

static const carnot_tactic_row* const kRows[] = {
#define TACTIC(name) &carnot_tactic_##name,
#include "backend/tactics.def"
#undef TACTIC
};

const carnot_tactic_row* const* carnot_tactics(size_t* out_count) {
  *out_count = sizeof(kRows) / sizeof(kRows[0]);
  return kRows;
}

const char* carnot_tactic_source_name(carnot_tactic_source source) {
  static const char* const kNames[] = {"cuBLAS", "cuBLASLt", "cuDNN", "edge masks",
                                       "compiled convolutions"};
  return kNames[source];
}

const carnot_tactic_row* carnot_tactic_find(const char* name) {
  for (size_t i = 0; i < sizeof(kRows) / sizeof(kRows[0]); i++)
    if (strcmp(kRows[i]->name, name) == 0) return kRows[i];
  const carnot_backend* backend = carnot_backend_loaded();
  size_t count = 0;
  const carnot_tactic_row* const* rows = backend ? backend->rows(&count) : NULL;
  for (size_t i = 0; i < count; i++)
    if (strcmp(rows[i]->name, name) == 0) return rows[i];
  return NULL;
}
