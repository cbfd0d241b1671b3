// Files that a model names (external data), mapped once and confined to the model's folder.
#include "import/common/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void import_files_deinit(import_files* files) {
  carnot_source_memory_deinit(&files->memory);
  for (size_t i = 0; i < files->count; i++) {
    if (files->maps[i].size) munmap(files->maps[i].data, files->maps[i].size);
    free(files->maps[i].location);
  }
  free(files->maps);
  free(files->real_folder);
  if (files->folder) close(files->folder - 1);
  memset(files, 0, sizeof(*files));
}

// Maps and closes |file|.
static carnot_status* map_file(import_files* files, int file, const char* location,
                               carnot_strview* out_bytes) {
  struct stat facts;
  carnot_status* status = NULL;
  void* data = NULL;
  if (fstat(file, &facts) != 0) {
    status = CARNOT_ERROR(IO, "%s", strerror(errno));
  } else if (!S_ISREG(facts.st_mode)) {
    status = CARNOT_ERROR(IO, "not a regular file");
  } else if (facts.st_size > 0) {
    data = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) status = CARNOT_ERROR(IO, "cannot map: %s", strerror(errno));
  }
  close(file);
  CARNOT_TRY(status);
  size_t size = (size_t)facts.st_size;
  char* name = location ? strdup(location) : NULL;
  status = carnot_grow((void**)&files->maps, &files->capacity, files->count + 1,
                       sizeof(*files->maps), "the list of mapped files");
  if (!status && size) status = carnot_source_memory_add_map(&files->memory, data, size);
  if (status || (location && !name)) {
    if (size) munmap(data, size);
    free(name);
    return status ? status : CARNOT_NO_MEMORY(strlen(location), "a file's name");
  }
  files->maps[files->count++] = (import_map){name, data, size};
  *out_bytes = (carnot_strview){data, size};
  return NULL;
}

// The path of an open file without links, to be freed; NULL where it is not known.
static char* path_of(int file) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof(path) - 1);
  return length > 0 ? strndup(path, (size_t)length) : NULL;
}

static bool is_below(const char* path, const char* folder) {
  size_t length = folder ? strlen(folder) : 0;
  return length && strncmp(path, folder, length) == 0 && path[length] == '/';
}

carnot_status* import_files_set_folder(import_files* files, const char* path) {
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CARNOT_CHECK(folder >= 0, IO, "folder %s: %s", path, strerror(errno));
  if (files->folder) close(files->folder - 1);
  files->folder = folder + 1;
  return NULL;
}

carnot_status* import_files_open_model(import_files* files, const char* path,
                                       carnot_strview* out_bytes) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  CARNOT_CHECK(file >= 0, IO, "%s: %s", path, strerror(errno));
  char* real = path_of(file);
  char* end = real ? strrchr(real, '/') : NULL;
  if (end) *end = 0;
  free(files->real_folder);
  files->real_folder = real;
  CARNOT_TRY_AT(map_file(files, file, NULL, out_bytes), "%s", path);
  const char* slash = strrchr(path, '/');
  if (!slash) return import_files_set_folder(files, ".");
  char* folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
  if (!folder) return CARNOT_NO_MEMORY(slash - path, "a folder's name");
  carnot_status* status = import_files_set_folder(files, folder);
  free(folder);
  return status;
}

// Whether a link may lead to the open |file|.
static bool may_follow(const import_files* files, int file) {
  if (files->follow_links) return true;
  char *path = path_of(file), *folder = path_of(files->folder - 1);
  bool may = path && (is_below(path, folder) || is_below(path, files->real_folder));
  char* snapshots = folder ? strstr(folder, "/snapshots/") : NULL;
  if (snapshots) *snapshots = 0;
  may |= path && snapshots && is_below(path, folder);
  free(path);
  free(folder);
  return may;
}

// Opens the file that the link |name| in folder |at| leads to.
static carnot_status* open_link(const import_files* files, int at, const char* name,
                                int* out_file) {
  *out_file = openat(at, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  CARNOT_CHECK(*out_file >= 0, IO, "\"%s\": %s", name, strerror(errno));
  if (may_follow(files, *out_file)) return NULL;
  close(*out_file);
  *out_file = -1;
  return CARNOT_ERROR(INVALID_MODEL,
                      "\"%s\" is a symbolic link out of the model's folder, which is followed with "
                      "--followLinks (CARNOT_ONNX_FOLLOW_LINKS) only",
                      name);
}

// Opens |path| (which is taken apart) step by step, so that no link to a folder is followed.
static carnot_status* open_below(const import_files* files, char* path, int* out_file) {
  int folder = files->folder - 1, at = folder;
  char* rest = path;
  *out_file = -1;
  while (at >= 0) {
    char* slash = strchr(rest, '/');
    if (slash) *slash = 0;
    bool same = strcmp(rest, ".") == 0 || *rest == 0;
    CARNOT_CHECK(strcmp(rest, "..") != 0, INVALID_MODEL, "\"..\" is not allowed");
    if (same && slash) {
      rest = slash + 1;
      continue;
    }
    int flags = (slash ? O_RDONLY | O_DIRECTORY : O_RDONLY | O_NONBLOCK) | O_CLOEXEC;
    int next = openat(at, rest, files->follow_links ? flags : flags | O_NOFOLLOW);
    int error = errno;
    carnot_status* status = NULL;
    if (next < 0 && error == ELOOP && !slash)
      status = open_link(files, at, rest, &next);
    else if (next < 0 && (error == ELOOP || error == ENOTDIR))
      status = CARNOT_ERROR(INVALID_MODEL, "\"%s\" is a symbolic link or no folder", rest);
    else if (next < 0)
      status = CARNOT_ERROR(IO, "\"%s\": %s", rest, strerror(error));
    if (at != folder) close(at);
    CARNOT_TRY(status);
    if (!slash) {
      *out_file = next;
      return NULL;
    }
    at = next;
    rest = slash + 1;
  }
  return CARNOT_ERROR(IO, "no file");
}

carnot_status* import_files_external(import_files* files, carnot_strview location,
                                     carnot_strview* out_bytes) {
  for (size_t i = 0; i < files->count; i++) {
    const import_map* map = &files->maps[i];
    if (map->location && carnot_view_is(location, map->location)) {
      *out_bytes = (carnot_strview){map->data, map->size};
      return NULL;
    }
  }
  CARNOT_CHECK(files->folder, INVALID_ARGUMENT,
               "external data \"" CARNOT_VIEW_FMT
               "\": the model came from memory and no folder was given",
               CARNOT_VIEW_ARG(location));
  CARNOT_CHECK(location.size > 0 && location.size < 4096 &&
                   !memchr(location.data, 0, location.size) && location.data[0] != '/',
               INVALID_MODEL,
               "external data \"" CARNOT_VIEW_FMT "\": the location must be a relative path",
               CARNOT_VIEW_ARG(location));
  char name[4096], path[4096];
  memcpy(name, location.data, location.size);
  name[location.size] = 0;
  memcpy(path, name, location.size + 1);
  int file = -1;
  CARNOT_TRY_AT(open_below(files, path, &file), "external data \"%s\"", name);
  CARNOT_TRY_AT(map_file(files, file, name, out_bytes), "external data \"%s\"", name);
  return NULL;
}

carnot_status* import_files_take(import_files* files, carnot_strview bytes, size_t alignment,
                                 carnot_arena* arena, void** out_data) {
  enum { kLeastReleased = 4096 };  // smaller data are copied with the graph
  if (bytes.size && (uintptr_t)bytes.data % alignment == 0) {
    *out_data = (void*)(uintptr_t)bytes.data;
    return NULL;
  }
  if (files && bytes.size > kLeastReleased &&
      carnot_source_memory_maps(&files->memory, bytes.data, bytes.size))
    return carnot_source_memory_copy(&files->memory, bytes.data, bytes.size, out_data);
  CARNOT_TRY(carnot_arena_try(arena, bytes.size ? bytes.size : 1, 1, "a tensor's data", out_data));
  if (bytes.size) memcpy(*out_data, bytes.data, bytes.size);
  return NULL;
}
