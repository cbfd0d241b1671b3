// Machine code of generated programs that this user compiled before, in files: XDG_CACHE_HOME or
// ~/.cache, carnot/programs. A file is for one source, whose text it holds. Code is taken from a
// folder that nobody else can write alone; where there is none, programs are compiled each time.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/cuda/driver/cuda.h"
#include "base/hash.h"

typedef struct header {
  char magic[8];
  uint64_t source_bytes, code_bytes;
} header;
static const char kMagic[8] = "carnotP1";
enum { kPath = 1024, kMostBytes = 4 << 20 };

// The folder, made where |create|; false where there is none that is this user's alone.
static bool find_folder(char* path, bool create) {
  const char *root = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  const char* const parts[] = {"/carnot", "/programs"};
  int at = root && *root == '/'   ? snprintf(path, kPath, "%.900s", root)
           : home && *home == '/' ? snprintf(path, kPath, "%.900s/.cache", home)
                                  : 0;
  if (!at) return false;
  if (create) mkdir(path, 0700);
  struct stat facts;
  for (int i = 0; i < 2; i++) {
    at += snprintf(path + at, (size_t)(kPath - at), "%s", parts[i]);
    if (create) mkdir(path, 0700);
    if (lstat(path, &facts) || !S_ISDIR(facts.st_mode) || facts.st_uid != geteuid() ||
        (facts.st_mode & (S_IWGRP | S_IWOTH)))
      return false;
  }
  return true;
}

static bool find_file(const char* arch, const char* source, bool create, char* path) {
  if (!find_folder(path, create)) return false;
  const size_t at = strlen(path), bytes = strlen(source);
  const uint64_t hash[2] = {carnot_hash(source, bytes, 3), carnot_hash(source, bytes, 5)};
  snprintf(path + at, kPath - at, "/%.15s-%016llx%016llx", arch, (unsigned long long)hash[0],
           (unsigned long long)hash[1]);
  return true;
}

static bool read_all(int file, void* to, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t got = read(file, (char*)to + at, bytes - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += (size_t)got;
  }
  return true;
}

static bool write_all(int file, const void* from, size_t bytes) {
  for (size_t at = 0; at < bytes;) {
    const ssize_t put = write(file, (const char*)from + at, bytes - at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += (size_t)put;
  }
  return true;
}

bool carnot_cuda_program_cache_read(const char* arch, const char* source, char** out_code,
                                    size_t* out_bytes) {
  char path[kPath];
  *out_code = NULL;
  if (!source || !find_file(arch, source, /*create=*/false, path)) return false;
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  header head;
  const size_t length = strlen(source);
  bool ok = read_all(file, &head, sizeof(head)) &&
            memcmp(head.magic, kMagic, sizeof(kMagic)) == 0 && head.source_bytes == length &&
            head.code_bytes && head.code_bytes <= kMostBytes;
  char* memory = ok ? malloc(length + head.code_bytes) : NULL;
  ok = memory && read_all(file, memory, length + head.code_bytes) &&
       memcmp(memory, source, length) == 0;
  close(file);
  if (ok) {
    memmove(memory, memory + length, head.code_bytes);
    *out_code = memory;
    *out_bytes = head.code_bytes;
  } else {
    free(memory);
  }
  return ok;
}

void carnot_cuda_program_cache_write(const char* arch, const char* source, const char* code,
                                     size_t bytes) {
  char path[kPath], part[kPath + 16];
  if (!bytes || bytes > kMostBytes || !find_file(arch, source, /*create=*/true, path)) return;
  snprintf(part, sizeof(part), "%s.XXXXXX", path);
  const int file = mkstemp(part);
  if (file < 0) return;
  header head = {.source_bytes = strlen(source), .code_bytes = bytes};
  memcpy(head.magic, kMagic, sizeof(kMagic));
  const bool written = write_all(file, &head, sizeof(head)) &&
                       write_all(file, source, head.source_bytes) && write_all(file, code, bytes);
  if (close(file) || !written || rename(part, path)) unlink(part);
}
