// Opens oneDNN and checks that its version and its runtime are ones that tactics can use.
#include "backend/cpu/onednn/onednn_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WITHOUT_IT "; without it layers run by built-in kernels"

enum { kMajor = 3, kLeastMinor = 2 };

static carnot_onednn g_library;
static char g_missing[384];
static carnot_code g_code;
static pthread_once_t g_once = PTHREAD_ONCE_INIT;

static carnot_status* resolve(void* handle, const char* name, void* slot) {
  void* symbol = dlsym(handle, name);
  CARNOT_CHECK(symbol, VERSION_MISMATCH, "oneDNN lacks the function %s" WITHOUT_IT, name);
  memcpy(slot, &symbol, sizeof(symbol));
  return NULL;
}

static const char* runtime_name(unsigned runtime) {
  switch (runtime) {
    case ONEDNN_RUNTIME_TBB: return "TBB";
    case ONEDNN_RUNTIME_THREADPOOL: return "a thread pool of the caller";
    case ONEDNN_RUNTIME_SYCL: return "SYCL";
    default: return "an unknown one";
  }
}

// The version comes first: other versions have other functions under the same names.
static carnot_status* check_version(void* handle) {
  const onednn_version* (*version)(void) = NULL;
  CARNOT_TRY(resolve(handle, "dnnl_version", &version));
  const onednn_version* v = version();
  CARNOT_CHECK(v->major == kMajor && v->minor >= kLeastMinor, VERSION_MISMATCH,
               "oneDNN is %d.%d.%d, %d.%d or a newer %d is needed" WITHOUT_IT, v->major, v->minor,
               v->patch, kMajor, kLeastMinor, kMajor);
  g_library.version[0] = v->major;
  g_library.version[1] = v->minor;
  g_library.version[2] = v->patch;
  if (v->cpu_runtime == ONEDNN_RUNTIME_SEQUENTIAL) return NULL;
  CARNOT_CHECK(v->cpu_runtime == ONEDNN_RUNTIME_OPENMP, UNSUPPORTED,
               "the runtime of this oneDNN %d.%d.%d is %s, sequential or OpenMP is "
               "needed" WITHOUT_IT,
               v->major, v->minor, v->patch, runtime_name(v->cpu_runtime));
  CARNOT_TRY(resolve(handle, "omp_get_max_threads", &g_library.omp_get_max_threads));
  return resolve(handle, "omp_set_num_threads", &g_library.omp_set_num_threads);
}

static carnot_status* open_library(void) {
  const char* forced = getenv("CARNOT_ONEDNN");
  void* handle = dlopen(forced ? forced : "libdnnl.so.3", RTLD_NOW | RTLD_LOCAL);
  CARNOT_CHECK(handle, NOT_FOUND, "oneDNN was not found (%s)" WITHOUT_IT, dlerror());
  CARNOT_TRY(check_version(handle));
#define RESOLVE(result, name, parameters) \
  CARNOT_TRY(resolve(handle, "dnnl_" #name, &g_library.name));
  CARNOT_ONEDNN_FUNCTIONS(RESOLVE)
#undef RESOLVE
  const int saved = carnot_onednn_enter(&g_library);
  const int result = g_library.engine_create(&g_library.engine, ONEDNN_ENGINE_CPU, /*index=*/0);
  carnot_onednn_leave(&g_library, saved);
  return carnot_onednn_check(result, "engine_create");
}

static void open_once(void) {
  carnot_status* status = open_library();
  if (!status) return;
  g_code = carnot_status_code(status);
  snprintf(g_missing, sizeof(g_missing), "%s", carnot_status_message(status));
  carnot_status_free(status);
}

const char* carnot_onednn_lacks(void) {
  pthread_once(&g_once, open_once);
  return g_missing[0] ? g_missing : NULL;
}

carnot_status* carnot_onednn_open(const carnot_onednn** out_library) {
  *out_library = &g_library;
  const char* missing = carnot_onednn_lacks();
  return missing ? carnot_status_make(g_code, __FILE__, __LINE__, "%s", missing) : NULL;
}

int carnot_onednn_enter(const carnot_onednn* library) {
  if (!library->omp_set_num_threads) return 1;
  const int saved = library->omp_get_max_threads();
  if (saved != 1) library->omp_set_num_threads(1);
  return saved;
}

void carnot_onednn_leave(const carnot_onednn* library, int saved) {
  if (saved != 1) library->omp_set_num_threads(saved);
}

carnot_status* carnot_onednn_check(int result, const char* call) {
  if (result == ONEDNN_SUCCESS) return NULL;
  const carnot_code code = result == ONEDNN_OUT_OF_MEMORY   ? CARNOT_OUT_OF_MEMORY
                           : result == ONEDNN_UNIMPLEMENTED ? CARNOT_UNSUPPORTED
                                                            : CARNOT_INTERNAL;
  return carnot_status_make(code, __FILE__, __LINE__, "oneDNN: %s gave error %d", call, result);
}
