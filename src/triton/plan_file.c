#include "triton/plan_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

// All of |count| bytes to |file|.
static carnot_status* write_all(int file, const char* data, size_t count, const char* path) {
  while (count) {
    ssize_t written = write(file, data, count);
    if (written < 0 && errno == EINTR) continue;
    CARNOT_CHECK(written > 0, IO, "%s: no memory for a copy: %s", path, strerror(errno));
    data += written;
    count -= (size_t)written;
  }
  return NULL;
}

// Copies |from| to |to| up to its end, which must come after |size| bytes.
static carnot_status* copy_bytes(int from, int to, size_t size, const char* path) {
  enum { kChunk = 1 << 20 };
  char* chunk = malloc(kChunk);
  if (!chunk) return CARNOT_NO_MEMORY(kChunk, "copying the plan");
  carnot_status* status = NULL;
  size_t copied = 0;
  while (!status) {
    ssize_t got = read(from, chunk, kChunk);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = CARNOT_ERROR(IO, "cannot read %s: %s", path, strerror(errno));
    if (got <= 0) break;
    copied += (size_t)got;
    status = write_all(to, chunk, (size_t)got, path);
  }
  free(chunk);
  if (!status && copied != size)
    status = CARNOT_ERROR(IO, "%s changed while it was read: %zu bytes, %zu at first", path, copied,
                          size);
  return status;
}

// The sealed copy of |from|, mapped.
static carnot_status* map_copy(int from, size_t size, const char* path, void** out_data) {
  int copy = memfd_create("carnot-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CARNOT_CHECK(copy >= 0, IO, "%s: no memory file: %s", path, strerror(errno));
  carnot_status* status = copy_bytes(from, copy, size, path);
  if (!status && fcntl(copy, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL))
    status = CARNOT_ERROR(IO, "%s: the copy cannot be sealed: %s", path, strerror(errno));
  if (!status) {
    *out_data = mmap(NULL, size, PROT_READ, MAP_SHARED, copy, 0);
    if (*out_data == MAP_FAILED)
      status =
          CARNOT_ERROR(OUT_OF_MEMORY, "%s: the copy cannot be mapped: %s", path, strerror(errno));
  }
  close(copy);
  return status;
}

// What the engine gives back at its end.
typedef struct mapped_plan {
  size_t size;
} mapped_plan;

static void unmap_plan(void* user, const void* data) {
  mapped_plan* plan = user;
  munmap((void*)data, plan->size);
  free(plan);
}

static carnot_status* load_descriptor(int file, const char* path, carnot_engine** out_engine) {
  struct stat facts;
  CARNOT_CHECK(fstat(file, &facts) == 0, IO, "cannot read %s: %s", path, strerror(errno));
  CARNOT_CHECK(S_ISREG(facts.st_mode), IO, "%s is not a regular file", path);
  CARNOT_CHECK(facts.st_size > 0, INVALID_MODEL, "%s is empty", path);
  mapped_plan* plan = malloc(sizeof *plan);
  if (!plan) return CARNOT_NO_MEMORY(sizeof *plan, "the plan");
  plan->size = (size_t)facts.st_size;
  void* data = NULL;
  carnot_status* status = map_copy(file, plan->size, path, &data);
  if (status) {
    free(plan);
    return status;
  }
  // From here on the engine gives the mapping back, also where it fails to load.
  CARNOT_TRY_AT(carnot_engine_load_memory(data, plan->size, unmap_plan, plan, out_engine), "%s",
                path);
  return carnot_status_annotate(carnot_engine_verify(*out_engine), "%s", path);
}

carnot_status* carnot_triton_load_plan(const char* path, carnot_engine** out_engine) {
  *out_engine = NULL;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  CARNOT_CHECK(file >= 0, IO, "cannot open %s: %s", path, strerror(errno));
  carnot_status* status = load_descriptor(file, path, out_engine);
  close(file);
  if (!status) return NULL;
  carnot_engine_release(*out_engine);
  *out_engine = NULL;
  return status;
}
