// Writing files: by rename where a regular file is or will be, in place where a pipe or a device
// is.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"

// Temporary files with a name, for carnot_remove_temporary_files. A write that finds no free entry
// is not listed.
enum { kMaxTemporaries = 16 };
static _Atomic(char*) g_temporaries[kMaxTemporaries];

void carnot_remove_temporary_files(void) {
  for (int i = 0; i < kMaxTemporaries; i++) {
    const char* path = atomic_load(&g_temporaries[i]);
    if (path) unlink(path);
  }
}

static void list_temporary(char* path) {
  for (int i = 0; i < kMaxTemporaries; i++) {
    char* none = NULL;
    if (atomic_compare_exchange_strong(&g_temporaries[i], &none, path)) return;
  }
}

static void unlist_temporary(char* path) {
  for (int i = 0; i < kMaxTemporaries; i++) {
    char* listed = path;
    if (atomic_compare_exchange_strong(&g_temporaries[i], &listed, NULL)) return;
  }
}

// ---- one file ----

// The file that a write makes: beside |target|, with its mode and owner if it exists.
typedef struct writer {
  char target[PATH_MAX], temporary[PATH_MAX];
  bool exists;
  struct stat facts;  // of the existing target
  bool named;         // |temporary| exists
  int file;
} writer;

// The pieces from byte |skipped| of the first on, as many as one call of writev takes. Returns
// their number.
static int gather(const carnot_piece* pieces, size_t count, size_t skipped, struct iovec* out) {
  enum { kMost = 256, kMostBytes = 1 << 30 };
  size_t bytes = 0;
  int taken = 0;
  for (size_t i = 0; i < count && taken < kMost && bytes < kMostBytes; i++, skipped = 0) {
    size_t size = pieces[i].size - skipped;
    if (size > kMostBytes - bytes) size = kMostBytes - bytes;
    out[taken++] = (struct iovec){(char*)(uintptr_t)pieces[i].data + skipped, size};
    bytes += size;
  }
  return taken;
}

// An engine has two pieces for each weight: many go with one call.
static carnot_status* write_pieces(int file, const char* path, const carnot_piece* pieces,
                                   size_t count) {
  struct iovec parts[256];
  size_t at = 0, skipped = 0;  // the next byte to write
  for (;;) {
    for (; at < count && skipped == pieces[at].size; at++) skipped = 0;
    if (at == count) return NULL;
    ssize_t written = writev(file, parts, gather(pieces + at, count - at, skipped, parts));
    if (written < 0 && errno == EINTR) continue;
    CARNOT_CHECK(written > 0, IO, "cannot write %s: %s", path, strerror(errno));
    for (size_t left = (size_t)written; left;) {
      size_t size = pieces[at].size - skipped, taken = left < size ? left : size;
      left -= taken;
      skipped += taken;
      if (skipped == pieces[at].size) at++, skipped = 0;
    }
  }
}

// Pipes, terminals, /dev/null, and files that a process has open: what is there must stay.
static carnot_status* write_in_place(const char* path, const carnot_piece* pieces, size_t count) {
  int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
  CARNOT_CHECK(file >= 0, IO, "cannot open %s: %s", path, strerror(errno));
  carnot_status* status = write_pieces(file, path, pieces, count);
  if (close(file) != 0 && !status)
    status = CARNOT_ERROR(IO, "cannot write %s: %s", path, strerror(errno));
  return status;
}

static bool is_open_file(const char* path) {
  return strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
         strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0;
}

// The target of links, the last of which may lead to a file that does not exist.
static carnot_status* follow_links(const char* path, char* target) {
  if (realpath(path, target)) return NULL;
  CARNOT_CHECK(errno == ENOENT, IO, "cannot write %s: %s", path, strerror(errno));
  CARNOT_CHECK(strlen(path) < PATH_MAX, IO, "the path %s is longer than %d", path, PATH_MAX - 1);
  snprintf(target, PATH_MAX, "%s", path);
  char link[PATH_MAX], next[PATH_MAX];
  for (int hops = 0;; hops++) {
    ssize_t length = readlink(target, link, sizeof(link) - 1);
    if (length < 0) return NULL;  // no link
    CARNOT_CHECK(hops < 40, IO, "cannot write %s: too many symbolic links", path);
    link[length] = 0;
    const char* slash = link[0] == '/' ? NULL : strrchr(target, '/');
    int needed =
        snprintf(next, sizeof(next), "%.*s%s", slash ? (int)(slash - target) + 1 : 0, target, link);
    CARNOT_CHECK(needed < PATH_MAX, IO, "the path %s is longer than %d", path, PATH_MAX - 1);
    memcpy(target, next, (size_t)needed + 1);
  }
}

static carnot_status* name_temporary(writer* w) {
  static const char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  unsigned char random[6];
  if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
    memcpy(random, &(void*){w}, sizeof(random));
  char suffix[sizeof(random) + 1] = "";
  for (size_t i = 0; i < sizeof(random); i++) suffix[i] = kDigits[random[i] % 62];
  CARNOT_CHECK(snprintf(w->temporary, PATH_MAX, "%s.%s", w->target, suffix) < PATH_MAX, IO,
               "the path %s is longer than %d", w->target, PATH_MAX - 8);
  return NULL;
}

// A file without a name in the folder of the target, which vanishes with the process; -1 where the
// file system has none, or /proc, which gives it a name later, is not mounted.
static int open_unnamed(const writer* w, mode_t mode) {
  char folder[PATH_MAX];
  const char* slash = strrchr(w->target, '/');
  snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - w->target) + 1 : 1,
           slash ? w->target : ".");
  if (access("/proc/self/fd", F_OK) != 0) return -1;
  return open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
}

static carnot_status* open_temporary(writer* w) {
  // The mask of the process applies to new files alone; an existing file gives its mode at the end.
  mode_t mode = w->exists ? w->facts.st_mode & 0600 : 0666;
  CARNOT_TRY(name_temporary(w));
  w->file = open_unnamed(w, mode | 0200);
  if (w->file >= 0) return NULL;
  for (int attempt = 0; attempt < 100; attempt++) {
    list_temporary(w->temporary);
    w->file = open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode | 0200);
    w->named = w->file >= 0;
    if (w->named) return NULL;
    unlist_temporary(w->temporary);
    CARNOT_CHECK(errno == EEXIST, IO, "cannot write %s: %s", w->target, strerror(errno));
    CARNOT_TRY(name_temporary(w));
  }
  return CARNOT_ERROR(IO, "cannot find a free name for a temporary file beside %s", w->target);
}

static carnot_status* keep_mode(const writer* w) {
  if (!w->exists) return NULL;
  // Only root can give a file away; another user's file becomes this user's.
  if (fchown(w->file, w->facts.st_uid, w->facts.st_gid) != 0) errno = 0;
  CARNOT_CHECK(fchmod(w->file, w->facts.st_mode & 07777) == 0, IO, "cannot set the mode of %s: %s",
               w->target, strerror(errno));
  return NULL;
}

static carnot_status* give_name(writer* w) {
  if (w->named) return NULL;
  char open_file[64];
  snprintf(open_file, sizeof(open_file), "/proc/self/fd/%d", w->file);
  for (int attempt = 0; attempt < 100; attempt++) {
    list_temporary(w->temporary);
    w->named = linkat(AT_FDCWD, open_file, AT_FDCWD, w->temporary, AT_SYMLINK_FOLLOW) == 0;
    if (w->named) return NULL;
    unlist_temporary(w->temporary);
    CARNOT_CHECK(errno == EEXIST, IO, "cannot write %s: %s", w->target, strerror(errno));
    CARNOT_TRY(name_temporary(w));
  }
  return CARNOT_ERROR(IO, "cannot find a free name for a temporary file beside %s", w->target);
}

static carnot_status* replace(writer* w, const carnot_piece* pieces, size_t count) {
  CARNOT_TRY(open_temporary(w));
  carnot_status* status = write_pieces(w->file, w->target, pieces, count);
  if (!status) status = keep_mode(w);
  if (!status) status = give_name(w);
  if (close(w->file) != 0 && !status)
    status = CARNOT_ERROR(IO, "cannot write %s: %s", w->target, strerror(errno));
  if (!status && rename(w->temporary, w->target) != 0)
    status =
        CARNOT_ERROR(IO, "cannot rename %s to %s: %s", w->temporary, w->target, strerror(errno));
  if (status && w->named) unlink(w->temporary);
  unlist_temporary(w->temporary);
  return status;
}

carnot_status* carnot_write_file(const char* path, const carnot_piece* pieces, size_t count) {
  CARNOT_CHECK(path && *path, INVALID_ARGUMENT, "the path of the file to write is empty");
  struct stat facts;
  bool exists = stat(path, &facts) == 0;
  CARNOT_CHECK(!exists || !S_ISDIR(facts.st_mode), IO, "cannot write %s: it is a folder", path);
  CARNOT_CHECK(!exists || !S_ISBLK(facts.st_mode), IO, "cannot write %s: it is a block device",
               path);
  if (exists && (!S_ISREG(facts.st_mode) || is_open_file(path)))
    return write_in_place(path, pieces, count);
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(writer), "a file to write", &memory));
  writer* w = memory;
  w->exists = exists;
  if (exists) w->facts = facts;
  carnot_status* status = follow_links(path, w->target);
  if (!status) status = replace(w, pieces, count);
  free(w);
  return status;
}
