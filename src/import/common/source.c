// Creation and destruction of model sources.
#include "import/common/source.h"

#include <stdlib.h>

carnot_status* carnot_model_source_create(carnot_model_source** out_source) {
  void* memory;
  *out_source = NULL;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_model_source), "a model's files", &memory));
  *out_source = memory;
  return NULL;
}

void carnot_model_source_destroy(carnot_model_source* source) {
  if (!source) return;
  import_files_deinit(&source->files);
  carnot_arena_deinit(&source->arena);
  free(source);
}
