// Opening and closing a context's session on an accelerator, and its memory.
#include "run/device_session.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static carnot_status* alloc_on_device(void* device, size_t bytes, void** out_memory) {
  return ((carnot_device*)device)->backend->alloc(device, bytes, out_memory);
}

static void free_on_device(void* device, void* memory) {
  ((carnot_device*)device)->backend->free(device, memory);
}

carnot_status* carnot_device_session_open(carnot_device_session* session, const char* built_for,
                                          const char* wanted, bool allow_code, size_t limit_bytes) {
  session->limit_bytes = limit_bytes;
  if (!built_for || !*built_for || strcmp(built_for, "cpu") == 0) return NULL;
  const char* arch = strchr(built_for, ':');
  size_t kind = arch ? (size_t)(arch - built_for) : strlen(built_for);
  if (!wanted) wanted = getenv("CARNOT_DEVICE");
  if (!wanted || !*wanted || strcmp(wanted, "cpu") == 0) wanted = "cuda";
  carnot_device* device;
  CARNOT_TRY_AT(carnot_device_open(wanted, &device), "the engine is for %s", built_for);
  CARNOT_CHECK(device->ordinal >= 0, FAILED_PRECONDITION,
               "the engine is for %s; %s is no device that could run it", built_for, wanted);
  CARNOT_CHECK(arch && strncmp(built_for, device->backend->name, kind) == 0 &&
                   strcmp(arch + 1, device->arch) == 0,
               UNSUPPORTED, "the engine is for %s, this device (%s) is %s:%s: build it again",
               built_for, device->name, device->backend->name, device->arch);
  CARNOT_TRY(device->backend->stream_create(device, &session->stream));
  session->stream->allow_code = allow_code;
  const carnot_run_arena_source source = {
      .alloc = alloc_on_device, .free = free_on_device, .user = device, .alignment = 256};
  carnot_run_arena_init_on(&session->run_arena, &source, limit_bytes);
  return NULL;
}

void carnot_device_session_close(carnot_device_session* session, uint32_t step_count) {
  if (!session->stream) return;
  carnot_device* device = session->stream->device;
  const carnot_backend* backend = device->backend;
  carnot_run_arena_deinit(&session->run_arena);
  backend->settle(device);
  carnot_status_free(backend->synchronize(session->stream));
  carnot_graph_cache_deinit(&session->graphs, session->stream, step_count);
  backend->free(device, session->arena);
  backend->free(device, session->workspace);
  backend->stream_destroy(session->stream);
}

carnot_status* carnot_device_session_grow(carnot_device_session* session, size_t bytes,
                                          void** memory, size_t* capacity) {
  if (*memory && bytes <= *capacity) return NULL;
  size_t limit = session->limit_bytes;
  CARNOT_CHECK(!limit || bytes <= limit, OUT_OF_MEMORY,
               "the activations take %zu bytes, the memory budget is %zu", bytes, limit);
  const carnot_backend* backend = carnot_session_backend(session);
  CARNOT_TRY(backend->synchronize(session->stream));
  backend->free(session->stream->device, *memory);
  *memory = NULL;
  *capacity = 0;
  bytes = carnot_align_up(bytes + 1, 4096);
  CARNOT_TRY(backend->alloc(session->stream->device, bytes, memory));
  *capacity = bytes;
  return NULL;
}

carnot_status* carnot_device_session_mark(carnot_device_session* session, uint32_t index) {
  return session->time_io ? carnot_session_backend(session)->mark(session->stream, index) : NULL;
}
