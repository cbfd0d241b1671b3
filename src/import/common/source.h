// What an imported graph borrows from: mapped files, and texts and lists that constants point to.
#ifndef CARNOT_IMPORT_COMMON_SOURCE_H_
#define CARNOT_IMPORT_COMMON_SOURCE_H_

#include "import/common/files.h"

// Destroyed after the graph.
typedef struct carnot_model_source {
  import_files files;
  carnot_arena arena;
} carnot_model_source;

carnot_status* carnot_model_source_create(carnot_model_source** out_source) CARNOT_MUST_USE;
// NULL is allowed.
void carnot_model_source_destroy(carnot_model_source* source);

#endif  // CARNOT_IMPORT_COMMON_SOURCE_H_
