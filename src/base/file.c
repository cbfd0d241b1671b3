// Files: mapping, reading, and writing by rename.
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

carnot_status* carnot_map_file(const char* path, carnot_mapping* out_mapping) {
  *out_mapping = (carnot_mapping){0};
  int file = open(path, O_RDONLY | O_CLOEXEC);
  CARNOT_CHECK(file >= 0, IO, "cannot open %s: %s", path, strerror(errno));
  struct stat facts;
  carnot_status* status = NULL;
  if (fstat(file, &facts) != 0) {
    status = CARNOT_ERROR(IO, "cannot look at %s: %s", path, strerror(errno));
  } else if (!S_ISREG(facts.st_mode)) {
    status = CARNOT_ERROR(IO, "%s is no regular file", path);
  } else if (facts.st_size > 0) {
    void* data = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) {
      status = CARNOT_ERROR(IO, "cannot map %lld bytes of %s: %s", (long long)facts.st_size, path,
                            strerror(errno));
    } else {
      *out_mapping = (carnot_mapping){data, (size_t)facts.st_size};
    }
  }
  close(file);
  return status;
}

void carnot_unmap(carnot_mapping* mapping) {
  if (mapping->data) munmap((void*)mapping->data, mapping->size);
  *mapping = (carnot_mapping){0};
}

static carnot_status* write_all(int file, const char* path, const carnot_piece* piece) {
  const char* at = piece->data;
  size_t left = piece->size;
  while (left) {
    ssize_t written = write(file, at, left < (1u << 30) ? left : (1u << 30));
    if (written < 0 && errno == EINTR) continue;
    CARNOT_CHECK(written > 0, IO, "cannot write %s: %s", path, strerror(errno));
    at += written;
    left -= (size_t)written;
  }
  return NULL;
}

carnot_status* carnot_write_file(const char* path, const carnot_piece* pieces, size_t count) {
  size_t length = strlen(path);
  char* temporary = malloc(length + 16);
  if (!temporary) return CARNOT_NO_MEMORY(length + 16, "a file name");
  snprintf(temporary, length + 16, "%s.XXXXXX", path);
  int file = mkostemp(temporary, O_CLOEXEC);
  carnot_status* status = NULL;
  if (file < 0) {
    status = CARNOT_ERROR(IO, "cannot make %s: %s", temporary, strerror(errno));
    free(temporary);
    return status;
  }
  for (size_t i = 0; !status && i < count; i++) status = write_all(file, path, &pieces[i]);
  mode_t mask = umask(0);
  umask(mask);
  if (!status && fchmod(file, 0666 & ~mask) != 0)
    status = CARNOT_ERROR(IO, "cannot set the mode of %s: %s", path, strerror(errno));
  if (close(file) != 0 && !status)
    status = CARNOT_ERROR(IO, "cannot write %s: %s", path, strerror(errno));
  if (!status && rename(temporary, path) != 0)
    status = CARNOT_ERROR(IO, "cannot rename %s to %s: %s", temporary, path, strerror(errno));
  if (status) unlink(temporary);
  free(temporary);
  return status;
}
