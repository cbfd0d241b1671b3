// Files: mapping, reading into memory, locking.
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/executor.h"
#include "base/pages.h"
#include "base/processors.h"

carnot_status* carnot_open_file(const char* path, int* out_file, size_t* out_size) {
  *out_size = 0;
  *out_file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  CARNOT_CHECK(*out_file >= 0, IO, "cannot open %s: %s", path, strerror(errno));
  struct stat facts;
  carnot_status* status = NULL;
  if (fstat(*out_file, &facts) != 0)
    status = CARNOT_ERROR(IO, "cannot look at %s: %s", path, strerror(errno));
  else if (!S_ISREG(facts.st_mode))
    status = CARNOT_ERROR(IO, "%s is no regular file", path);
  *out_size = status ? 0 : (size_t)facts.st_size;
  if (!status) return NULL;
  close(*out_file);
  *out_file = -1;
  return status;
}

static carnot_status* map_pages(const char* path, size_t size, int protection, int flags, int file,
                                carnot_mapping* out_mapping) {
  void* data = mmap(NULL, size, protection, flags, file, 0);
  CARNOT_CHECK(data != MAP_FAILED, IO, "cannot map %zu bytes of %s: %s", size, path,
               strerror(errno));
  *out_mapping = (carnot_mapping){data, size};
  return NULL;
}

carnot_status* carnot_map_file(const char* path, carnot_mapping* out_mapping) {
  *out_mapping = (carnot_mapping){0};
  int file;
  size_t size;
  CARNOT_TRY(carnot_open_file(path, &file, &size));
  carnot_status* status =
      size ? map_pages(path, size, PROT_READ, MAP_PRIVATE, file, out_mapping) : NULL;
  close(file);
  return status;
}

// ---- reading into memory ----

carnot_status* carnot_read_range(int file, void* to, size_t at, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    ssize_t got = pread(file, (char*)to + done, bytes - done, (off_t)(at + done));
    if (got < 0 && errno == EINTR) continue;
    CARNOT_CHECK(got >= 0, IO, "it cannot be read: %s", strerror(errno));
    CARNOT_CHECK(got > 0, IO, "it became shorter while it was read, byte %zu is gone", at + done);
    done += (size_t)got;
  }
  return NULL;
}

// One thread copies and faults pages at 3 GB/s, several at that times their number.
enum { kPartBytes = 8 << 20, kPartsPerThread = 4, kMostThreads = 4 };

typedef struct reading {
  int file;
  const char* path;
  char* to;
  size_t size;
  pthread_mutex_t mutex;
  carnot_status* failure;  // the first
} reading;

static void read_part(void* arg, int64_t part) {
  reading* r = arg;
  const size_t at = (size_t)part * kPartBytes, left = r->size - at;
  carnot_status* status =
      carnot_read_range(r->file, r->to + at, at, left < kPartBytes ? left : kPartBytes);
  if (!status) return;
  status = carnot_status_annotate(status, "%s", r->path);
  pthread_mutex_lock(&r->mutex);
  if (r->failure)
    carnot_status_free(status);
  else
    r->failure = status;
  pthread_mutex_unlock(&r->mutex);
}

static carnot_status* read_all(int file, const char* path, const carnot_mapping* mapping) {
  reading r = {.file = file, .path = path, .to = (char*)mapping->data, .size = mapping->size};
  const int64_t parts = (int64_t)((r.size + kPartBytes - 1) / kPartBytes);
  int64_t threads = carnot_min_i64(parts / kPartsPerThread, kMostThreads);
  if (threads > 1) threads = carnot_min_i64(threads, carnot_usable_processors());
  carnot_executor* executor = NULL;
  // Without threads the caller reads alone.
  if (threads > 1) carnot_status_free(carnot_executor_create((int)threads, &executor));
  pthread_mutex_init(&r.mutex, NULL);
  const bool is_shared = executor && carnot_executor_begin(executor);
  carnot_executor_parallel(is_shared ? executor : NULL, parts, read_part, &r);
  if (is_shared) carnot_executor_end(executor);
  pthread_mutex_destroy(&r.mutex);
  carnot_executor_destroy(executor);
  return r.failure;
}

carnot_status* carnot_read_file(const char* path, carnot_mapping* out_mapping) {
  *out_mapping = (carnot_mapping){0};
  int file;
  size_t size;
  CARNOT_TRY(carnot_open_file(path, &file, &size));
  carnot_status* status = NULL;
  if (size)
    status =
        map_pages(path, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, out_mapping);
  if (!status) {
    // Huge pages: fewer page faults while reading, fewer TLB misses while running.
    if (size >= CARNOT_HUGE_PAGE) madvise((void*)out_mapping->data, size, MADV_HUGEPAGE);
    status = read_all(file, path, out_mapping);
  }
  if (!status && size) mprotect((void*)out_mapping->data, size, PROT_READ);
  close(file);
  if (status) carnot_unmap(out_mapping);
  return status;
}

void carnot_unmap(carnot_mapping* mapping) {
  if (mapping->data) munmap((void*)mapping->data, mapping->size);
  *mapping = (carnot_mapping){0};
}

// A descriptor of the folder of |path|, or of PATH.lock, that this process has locked; -1: neither.
static int lock_for(const char* path, char* name, size_t size) {
  const char* slash = strrchr(path, '/');
  snprintf(name, size, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
  int file = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int attempt = 0; attempt < 2; attempt++) {
    int error;
    do error = file >= 0 && flock(file, LOCK_EX) == 0 ? 0 : errno;
    while (file >= 0 && error == EINTR);
    if (file >= 0 && !error) return file;
    if (file >= 0) close(file);
    if (attempt) break;
    snprintf(name, size, "%s.lock", path);
    file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  }
  return -1;
}

carnot_status* carnot_with_file_lock(const char* path, carnot_status* (*fn)(void* user),
                                     void* user) {
  size_t size = strlen(path) + 8;
  char* name = malloc(size);
  if (!name) return CARNOT_NO_MEMORY(size, "a file name");
  int lock = lock_for(path, name, size);
  carnot_status* status =
      lock < 0 ? CARNOT_ERROR(IO, "cannot lock %s: %s", name, strerror(errno)) : fn(user);
  if (lock >= 0) close(lock);
  free(name);
  return status;
}
