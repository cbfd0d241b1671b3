// Opens backend modules and devices on demand.
#include "backend/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/module.h"

// Few, and never closed before the process ends: engines and contexts point to them.
enum { kMaxDevices = 16 };
static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static const carnot_backend* g_cuda;
static struct {
  char spec[32];
  carnot_device* device;
} g_devices[kMaxDevices];
static int g_device_count;

static carnot_status* load_module(void) {
  if (g_cuda) return NULL;
  void* module;
  CARNOT_TRY(carnot_module_open("the CUDA module", "libcarnot_cuda.so",
                                getenv("CARNOT_CUDA_MODULE"), &module));
  void* symbol = dlsym(module, "carnot_backend_entry");
  carnot_backend_entry_fn* entry = NULL;
  memcpy(&entry, &symbol, sizeof(entry));
  const carnot_backend* backend = entry ? entry(&carnot_core) : NULL;
  bool fits = backend && backend->abi == CARNOT_BACKEND_ABI &&
              backend->problem_bytes == sizeof(carnot_problem) &&
              backend->view_bytes == sizeof(carnot_step_view);
  if (!fits) dlclose(module);
  CARNOT_CHECK(fits, VERSION_MISMATCH, "the CUDA module is of another build than this program");
  size_t count;
  const carnot_tactic* const* table = backend->tactics(&count);
  CARNOT_TRY(carnot_tactics_add_backend(table, count));
  g_cuda = backend;
  return NULL;
}

static carnot_status* open_device(const char* spec, carnot_device** out_device) {
  const char* kind = strncmp(spec, "cuda", 4) == 0 ? spec + 4 : NULL;
  CARNOT_CHECK(kind && (*kind == 0 || *kind == ':'), INVALID_ARGUMENT,
               "device '%s' must be cpu, cuda, cuda:N or cuda:sm_NN", spec);
  const char* which = *kind ? kind + 1 : "0";
  bool absent = strncmp(which, "sm", 2) == 0;
  char arch[16] = "";
  if (absent) snprintf(arch, sizeof(arch), "sm_%s", which + 2 + (which[2] == '_'));
  CARNOT_CHECK(absent ? arch[3] : which[strspn(which, "0123456789")] == 0 && *which,
               INVALID_ARGUMENT, "device '%s' must be cpu, cuda, cuda:N or cuda:sm_NN", spec);
  CARNOT_TRY(load_module());
  CARNOT_CHECK(g_device_count < kMaxDevices, UNSUPPORTED, "more than %d devices", kMaxDevices);
  CARNOT_TRY_AT(g_cuda->open(absent ? -1 : atoi(which), arch, out_device), "device %s", spec);
  (*out_device)->backend = g_cuda;
  snprintf(g_devices[g_device_count].spec, sizeof(g_devices[0].spec), "%s", spec);
  g_devices[g_device_count++].device = *out_device;
  return NULL;
}

carnot_status* carnot_device_open(const char* spec, carnot_device** out_device) {
  *out_device = NULL;
  CARNOT_CHECK(strlen(spec) < sizeof(g_devices[0].spec), INVALID_ARGUMENT, "device '%s'", spec);
  if (strcmp(spec, "cuda") == 0) spec = "cuda:0";
  pthread_mutex_lock(&g_mutex);
  for (int i = 0; i < g_device_count; i++)
    if (strcmp(g_devices[i].spec, spec) == 0) *out_device = g_devices[i].device;
  carnot_status* status = *out_device ? NULL : open_device(spec, out_device);
  pthread_mutex_unlock(&g_mutex);
  return status;
}

carnot_status* carnot_device_choose(const char* wanted, carnot_device** out_device) {
  *out_device = NULL;
  if (!wanted) wanted = getenv("CARNOT_DEVICE");
  if (wanted && *wanted)
    return strcmp(wanted, "cpu") == 0 ? NULL : carnot_device_open(wanted, out_device);
  carnot_status_free(carnot_device_open("cuda", out_device));
  return NULL;
}

const char* carnot_device_is_passed_over(char* reason, size_t size) {
  if (access("/dev/nvidiactl", F_OK) != 0 && !getenv("CARNOT_CUDA_DRIVER")) return NULL;
  carnot_device* device;
  carnot_status* status = carnot_device_open("cuda", &device);
  if (!status) return NULL;
  snprintf(reason, size, "%s", carnot_status_message(status));
  carnot_status_free(status);
  return reason;
}
