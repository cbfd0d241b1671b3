// Files that a model names (external data), mapped once and confined to the model's folder.
#include "import/common/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void import_files_deinit(import_files* files) {
  for (size_t i = 0; i < files->count; i++) {
    if (files->maps[i].size) munmap(files->maps[i].data, files->maps[i].size);
    free(files->maps[i].location);
  }
  free(files->maps);
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
  if (status || (location && !name)) {
    if (size) munmap(data, size);
    free(name);
    return status ? status : CARNOT_NO_MEMORY(strlen(location), "a file's name");
  }
  files->maps[files->count++] = (import_map){name, data, size};
  *out_bytes = (carnot_strview){data, size};
  return NULL;
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
  CARNOT_TRY_AT(map_file(files, file, NULL, out_bytes), "%s", path);
  const char* slash = strrchr(path, '/');
  if (!slash) return import_files_set_folder(files, ".");
  char* folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
  if (!folder) return CARNOT_NO_MEMORY(slash - path, "a folder's name");
  carnot_status* status = import_files_set_folder(files, folder);
  free(folder);
  return status;
}

// Opens |path| (which is taken apart) step by step, so that no link is followed anywhere.
static carnot_status* open_below(int folder, char* path, int* out_file) {
  int at = folder;
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
    int flags = slash ? O_RDONLY | O_DIRECTORY : O_RDONLY | O_NONBLOCK;
    int next = openat(at, rest, flags | O_NOFOLLOW | O_CLOEXEC);
    int error = errno;
    if (at != folder) close(at);
    CARNOT_CHECK(next >= 0 || (error != ELOOP && error != ENOTDIR), INVALID_MODEL,
                 "\"%s\" is a symbolic link or no folder", rest);
    CARNOT_CHECK(next >= 0, IO, "\"%s\": %s", rest, strerror(error));
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
  CARNOT_TRY_AT(open_below(files->folder - 1, path, &file), "external data \"%s\"", name);
  CARNOT_TRY_AT(map_file(files, file, name, out_bytes), "external data \"%s\"", name);
  return NULL;
}
