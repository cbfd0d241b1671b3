// Modules: where they lie beside the code that opens them.
#include "base/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The folder of the program or library that holds this code. A program started by its name on PATH
// is known to the loader by that name alone, so its path comes from /proc.
static bool own_folder(char* folder, size_t size) {
  Dl_info self;
  if (!dladdr((void*)(uintptr_t)carnot_module_open, &self) || !self.dli_fname) return false;
  if (strcmp(self.dli_fname, program_invocation_name) == 0) {
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    folder[length > 0 ? length : 0] = 0;
  } else {
    snprintf(folder, size, "%s", self.dli_fname);
  }
  char* slash = strrchr(folder, '/');
  if (slash) *slash = 0;
  return slash != NULL;
}

carnot_status* carnot_module_open(const char* what, const char* file, const char* forced,
                                  void** out_module) {
  static const char* const kFolders[] = {"", "../lib/", "../" CARNOT_LIBDIR "/"};
  char folder[4096], path[sizeof(folder) + 128];
  const char* tried = forced ? forced : file;
  bool has_folder = !forced && own_folder(folder, sizeof(folder));
  for (size_t i = 0; has_folder && i < sizeof(kFolders) / sizeof(kFolders[0]); i++) {
    snprintf(path, sizeof(path), "%s/%s%s", folder, kFolders[i], file);
    // What is there must open: another one would be of another build.
    if (access(path, F_OK) != 0) continue;
    tried = path;
    break;
  }
  *out_module = dlopen(tried, RTLD_NOW | RTLD_LOCAL);
  const char* why = *out_module ? NULL : dlerror();
  CARNOT_CHECK(*out_module, NOT_FOUND, "%s %s does not open: %s", what, tried, why ? why : "");
  return NULL;
}
