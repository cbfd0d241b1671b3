// Plugin libraries: shared objects, looked at before they are opened.
#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "plugin/registry.h"

static carnot_plugin_library* libraries;
static bool engine_code_allowed;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void carnot_plugin_allow_engine_code(bool allow) {
  pthread_mutex_lock(&mutex);
  engine_code_allowed = allow;
  pthread_mutex_unlock(&mutex);
}
bool carnot_plugin_engine_code_allowed(void) {
  pthread_mutex_lock(&mutex);
  bool allowed = engine_code_allowed;
  pthread_mutex_unlock(&mutex);
  return allowed;
}

// ---- the file's header ----

static const Elf64_Shdr* section(const carnot_mapping* file, const Elf64_Ehdr* head, size_t index) {
  const Elf64_Shdr* s =
      (const Elf64_Shdr*)((const char*)file->data + head->e_shoff + index * sizeof(Elf64_Shdr));
  return s->sh_type != SHT_NOBITS && s->sh_offset <= file->size &&
                 s->sh_size <= file->size - s->sh_offset
             ? s
             : NULL;
}

// The library among those that |file| needs whose name begins with |prefix|, or NULL.
static const char* needed(const carnot_mapping* file, const Elf64_Ehdr* head, const char* prefix) {
  if (head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shoff % 8 || head->e_shoff > file->size ||
      head->e_shnum > (file->size - head->e_shoff) / sizeof(Elf64_Shdr))
    return NULL;
  for (size_t i = 0; i < head->e_shnum; i++) {
    const Elf64_Shdr* dynamic = section(file, head, i);
    if (!dynamic || dynamic->sh_type != SHT_DYNAMIC || dynamic->sh_link >= head->e_shnum) continue;
    const Elf64_Shdr* strings = section(file, head, dynamic->sh_link);
    if (!strings || dynamic->sh_offset % 8) continue;
    const Elf64_Dyn* items = (const Elf64_Dyn*)((const char*)file->data + dynamic->sh_offset);
    const char* text = (const char*)file->data + strings->sh_offset;
    for (size_t d = 0; d < dynamic->sh_size / sizeof(*items); d++) {
      uint64_t at = items[d].d_un.d_val;
      if (items[d].d_tag != DT_NEEDED || at >= strings->sh_size ||
          !memchr(text + at, 0, strings->sh_size - at))
        continue;
      if (strncmp(text + at, prefix, strlen(prefix)) == 0) return text + at;
    }
  }
  return NULL;
}

static carnot_status* check_image(const carnot_mapping* file, const char* path) {
  const Elf64_Ehdr* head = file->data;
  CARNOT_CHECK(file->size >= sizeof(*head) && memcmp(head->e_ident, ELFMAG, SELFMAG) == 0,
               INVALID_MODEL, "plugin library %s is no shared object (ELF) but a file of %zu bytes",
               path, file->size);
  CARNOT_CHECK(head->e_ident[EI_CLASS] == ELFCLASS64 && head->e_type == ET_DYN, INVALID_MODEL,
               "plugin library %s is no 64-bit shared object: class %d, type %d", path,
               head->e_ident[EI_CLASS], head->e_type);
#if defined(__x86_64__)
  CARNOT_CHECK(head->e_machine == EM_X86_64, INVALID_MODEL,
               "plugin library %s is for machine %d, this is %d (x86-64)", path, head->e_machine,
               EM_X86_64);
#endif
  const char* nvinfer = needed(file, head, "libnvinfer");
  CARNOT_CHECK(!nvinfer, UNSUPPORTED,
               "plugin library %s is written for TensorRT: it needs %s. Port it to "
               "carnot/plugin.h as docs/how-to-port-a-tensorrt-plugin.md describes",
               path, nvinfer ? nvinfer : "");
  return NULL;
}

static carnot_status* check_file(const char* path) {
  carnot_mapping file;
  CARNOT_TRY_AT(carnot_map_file(path, &file), "plugin library %s", path);
  carnot_status* status = check_image(&file, path);
  carnot_unmap(&file);
  return status;
}

// ---- loading ----

// Opens |file|, which is called |path|.
static carnot_status* open_library(const char* file, const char* path, const char* name_space,
                                   carnot_plugin_library* library) {
  library->handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  CARNOT_CHECK(library->handle, IO, "plugin library %s cannot be opened: %s", path, dlerror());
  void* symbol = dlsym(library->handle, CARNOT_PLUGIN_CREATORS);
  CARNOT_CHECK(symbol, INVALID_MODEL, "plugin library %s does not export %s", path,
               CARNOT_PLUGIN_CREATORS);
  carnot_plugin_creators_fn creators_of;
  memcpy(&creators_of, &symbol, sizeof(symbol));
  const carnot_plugin_creator* const* creators = NULL;
  int32_t count = creators_of(&creators);
  CARNOT_CHECK(count > 0 && creators, INVALID_MODEL, "plugin library %s gives %d creators", path,
               count);
  return carnot_status_annotate(carnot_registry_add(creators, count, name_space, library),
                                "plugin library %s", path);
}

static void free_library(carnot_plugin_library* library) {
  if (library->handle) dlclose(library->handle);
  free(library->path);
  free(library);
}

static carnot_status* load(const char* file, const char* path, const char* name_space,
                           carnot_plugin_library** out) {
  for (carnot_plugin_library* l = libraries; l; l = l->next) {
    if (strcmp(l->path, path) != 0) continue;
    l->loads++;
    *out = l;
    return NULL;
  }
  CARNOT_TRY(check_file(file));
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_plugin_library), "a plugin library", &memory));
  carnot_plugin_library* library = memory;
  library->path = strdup(path);
  carnot_status* status = library->path ? open_library(file, path, name_space, library)
                                        : CARNOT_NO_MEMORY(strlen(path), "a path");
  if (status) {
    free_library(library);
    return status;
  }
  library->loads = 1;
  library->next = libraries;
  libraries = library;
  *out = library;
  return NULL;
}

carnot_status* carnot_plugin_library_load(const char* path, const char* name_space,
                                          carnot_plugin_library** out_library) {
  *out_library = NULL;
  CARNOT_CHECK(path && path[0], INVALID_ARGUMENT, "a plugin library has no path");
  // A name without folders would be searched for elsewhere than it was looked at.
  char here[4096];
  snprintf(here, sizeof(here), "%s%s", strchr(path, '/') ? "" : "./", path);
  pthread_mutex_lock(&mutex);
  carnot_status* status = load(here, path, name_space, out_library);
  pthread_mutex_unlock(&mutex);
  return status;
}

static carnot_status* unload(carnot_plugin_library* library) {
  if (library->loads > 1) {
    library->loads--;
    return NULL;
  }
  CARNOT_TRY_AT(carnot_registry_remove(library, NULL), "plugin library %s", library->path);
  carnot_plugin_library** at = &libraries;
  while (*at != library) at = &(*at)->next;
  *at = library->next;
  free_library(library);
  return NULL;
}

carnot_status* carnot_plugin_library_unload(carnot_plugin_library* library) {
  if (!library) return NULL;
  pthread_mutex_lock(&mutex);
  carnot_status* status = unload(library);
  pthread_mutex_unlock(&mutex);
  return status;
}

// ---- libraries inside engines ----

static carnot_status* write_all(int file, const char* data, size_t size) {
  while (size) {
    ssize_t written = write(file, data, size);
    CARNOT_CHECK(written > 0, IO, "cannot write %zu bytes of a plugin library to memory", size);
    data += written;
    size -= (size_t)written;
  }
  return NULL;
}

carnot_status* carnot_plugin_library_load_bytes(const char* name, const void* data, size_t size) {
  CARNOT_CHECK(carnot_plugin_engine_code_allowed(), FAILED_PRECONDITION,
               "the engine carries plugin library %s, whose code is used only after "
               "carnot_plugin_allow_engine_code(true); or load the library beforehand",
               name);
  int file = memfd_create("carnot-plugin", MFD_CLOEXEC);
  CARNOT_CHECK(file >= 0, IO, "no memory file for plugin library %s", name);
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
  carnot_status* status = write_all(file, data, size);
  carnot_plugin_library* library;
  pthread_mutex_lock(&mutex);
  if (!status) status = load(path, name, NULL, &library);
  pthread_mutex_unlock(&mutex);
  close(file);
  return status;
}
