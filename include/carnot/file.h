// Writing files as the library does: complete or not at all.
#ifndef CARNOT_FILE_H_
#define CARNOT_FILE_H_

#include <stddef.h>

#include "carnot/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// One piece of a file to be written.
typedef struct carnot_piece {
  const void* data;
  size_t size;
} carnot_piece;

// Writes |pieces| [count] one after another to |path|. A regular file is replaced by rename when
// all of it is written: readers see the old or the new file, and its mode and owner stay. A
// symbolic link stays, its target is replaced. A pipe, a character device or a path below /dev/fd
// or /proc is written to as it is. IO names the path: it cannot be written, is a folder or a block
// device. Any thread.
CARNOT_API carnot_status* carnot_write_file(const char* path, const carnot_piece* pieces,
                                            size_t count) CARNOT_MUST_USE;
// Removes the temporary files of every write that is under way, for handlers of signals that end
// the process (async-signal-safe). File systems with O_TMPFILE need it only for an instant.
CARNOT_API void carnot_remove_temporary_files(void);

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_FILE_H_
