// Files: whole-file mappings, and writing to a temporary name that is renamed when all of it is
// there.
#ifndef CARNOT_BASE_FILE_H_
#define CARNOT_BASE_FILE_H_

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

// A read-only mapping. An empty file gives data NULL, size 0.
typedef struct carnot_mapping {
  const void* data;
  size_t size;
} carnot_mapping;

carnot_status* carnot_map_file(const char* path, carnot_mapping* out_mapping) CARNOT_MUST_USE;
void carnot_unmap(carnot_mapping* mapping);

// One piece of a file to be written.
typedef struct carnot_piece {
  const void* data;
  size_t size;
} carnot_piece;

// Writes the pieces one after another; the file appears under |path| complete or not at all.
carnot_status* carnot_write_file(const char* path, const carnot_piece* pieces,
                                 size_t count) CARNOT_MUST_USE;

#endif  // CARNOT_BASE_FILE_H_
