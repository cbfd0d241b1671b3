// Files: whole-file mappings, copies in memory, locks. Writing is in carnot/file.h.
#ifndef CARNOT_BASE_FILE_H_
#define CARNOT_BASE_FILE_H_

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "carnot/file.h"

// A read-only mapping. An empty file gives data NULL, size 0.
typedef struct carnot_mapping {
  const void* data;
  size_t size;
} carnot_mapping;

carnot_status* carnot_map_file(const char* path, carnot_mapping* out_mapping) CARNOT_MUST_USE;
void carnot_unmap(carnot_mapping* mapping);
// The same as a private copy in memory, which later changes of the file do not reach.
carnot_status* carnot_read_file(const char* path, carnot_mapping* out_mapping) CARNOT_MUST_USE;

// Opens a regular file for reading. *out_file is -1 on errors.
carnot_status* carnot_open_file(const char* path, int* out_file, size_t* out_size) CARNOT_MUST_USE;
// Reads bytes [at, at + bytes) of |file|. IO where it ends before.
carnot_status* carnot_read_range(int file, void* to, size_t at, size_t bytes) CARNOT_MUST_USE;

// Runs |fn| under an exclusive lock for the file at |path|, which need not exist: processes that
// lock the same path run one after another. The lock is of the folder, or of "PATH.lock" where the
// file system cannot lock folders. IO when neither can be locked.
carnot_status* carnot_with_file_lock(const char* path, carnot_status* (*fn)(void* user),
                                     void* user) CARNOT_MUST_USE;

#endif  // CARNOT_BASE_FILE_H_
