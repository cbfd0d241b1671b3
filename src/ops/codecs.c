// Opens the codecs module.
#include "ops/codecs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/module.h"

static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static const carnot_codecs* g_codecs;

static carnot_status* open_module(void) {
  void* module;
  CARNOT_TRY(carnot_module_open("the codecs module", "libcarnot_codecs.so", NULL, &module));
  void* symbol = dlsym(module, "carnot_codecs_entry");
  carnot_codecs_entry_fn* entry = NULL;
  memcpy(&entry, &symbol, sizeof(entry));
  const carnot_codecs* codecs = entry ? entry() : NULL;
  CARNOT_CHECK(codecs && codecs->version == CARNOT_CODECS_VERSION, VERSION_MISMATCH,
               "the codecs module libcarnot_codecs.so is of another build than this program");
  g_codecs = codecs;
  return NULL;
}

carnot_status* carnot_codecs_open(const carnot_codecs** out_codecs) {
  pthread_mutex_lock(&g_mutex);
  carnot_status* status = g_codecs ? NULL : open_module();
  *out_codecs = g_codecs;
  pthread_mutex_unlock(&g_mutex);
  return status;
}
