// The files of a model, mapped read-only: the model itself and its external data.
#ifndef CARNOT_IMPORT_COMMON_FILES_H_
#define CARNOT_IMPORT_COMMON_FILES_H_

#include <stdbool.h>

#include "base/arena.h"
#include "base/source_memory.h"
#include "base/strview.h"

typedef struct import_map {
  char* location;  // relative to the model's folder; NULL: the model itself
  void* data;
  size_t size;
} import_map;

// One thread at a time. Zero-initialised is valid: no folder, so that no external data can be
// opened.
typedef struct import_files {
  import_map* maps;
  carnot_source_memory memory;  // the maps, and aligned copies of weights in them
  size_t count, capacity;
  int folder;         // descriptor + 1; 0: none
  char* real_folder;  // of the file that the model's path leads to; NULL: a model from memory
  bool follow_links;  // of external data, anywhere
} import_files;

void import_files_deinit(import_files* files);
// Maps the model at |path| and remembers its folder.
carnot_status* import_files_open_model(import_files* files, const char* path,
                                       carnot_strview* out_bytes) CARNOT_MUST_USE;
// Lets external data be read from the folder at |path|, for a model that came from memory.
carnot_status* import_files_set_folder(import_files* files, const char* path) CARNOT_MUST_USE;
// Maps the file at |location|, a relative path below the model's folder, once. INVALID_MODEL for an
// absolute path, a "..", or a symbolic link on the way: a model must not make its reader open other
// people's files. A link to a file is followed where that lies below the model's folder, below the
// folder of the file that the model's own path leads to, or in the same repository of a Hugging
// Face cache (beside "snapshots").
carnot_status* import_files_external(import_files* files, carnot_strview location,
                                     carnot_strview* out_bytes) CARNOT_MUST_USE;

// Elements that lie at |bytes| as they are needed, aligned to |alignment| bytes: |bytes|
// themselves, or a copy in |arena|, or, of large data in a file of |files| (may be NULL), one that
// a build gives back.
carnot_status* import_files_take(import_files* files, carnot_strview bytes, size_t alignment,
                                 carnot_arena* arena, void** out_data) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_COMMON_FILES_H_
