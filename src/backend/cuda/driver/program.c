// Generated programs on the device: compiled by threads of the module while the caller configures
// other steps, loaded before the first graph is captured.
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/driver/backend.h"
#include "backend/cuda/driver/cuda.h"
#include "base/hash.h"

struct carnot_cuda_program {
  const char* kernel;
  const char* image;
  bool is_compiled;  // or failed
  carnot_status* failure;
  CUfunction function;  // once it is loaded
  carnot_cuda_program *next_queued, *next_unsettled;
  char source[];
};

// NVRTC parses under a lock of its own and generates code beside it: more threads gain nothing.
enum { kMostCompilers = 4 };

// ---- compiling ----

static void* compile_queued(void* arg) {
  carnot_cuda* cuda = arg;
  pthread_mutex_lock(&cuda->mutex);
  while (cuda->queued) {
    carnot_cuda_program* program = cuda->queued;
    cuda->queued = program->next_queued;
    pthread_mutex_unlock(&cuda->mutex);
    size_t bytes;
    const char* image = NULL;
    carnot_status* status = carnot_cuda_compile_cached(cuda, program->source, &image, &bytes);
    pthread_mutex_lock(&cuda->mutex);
    program->image = image;
    program->failure = status;
    program->is_compiled = true;
    pthread_cond_broadcast(&cuda->compiled);
  }
  cuda->compiler_count--;
  pthread_cond_broadcast(&cuda->compiled);
  pthread_mutex_unlock(&cuda->mutex);
  return NULL;
}

// The mutex is held. Without a thread, whoever waits for a program compiles.
static void start_compiler(carnot_cuda* cuda) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  int most = sched_getaffinity(0, sizeof(usable), &usable) ? 1 : CPU_COUNT(&usable);
  pthread_t thread;
  if (cuda->compiler_count >= most || cuda->compiler_count >= kMostCompilers ||
      pthread_create(&thread, NULL, compile_queued, cuda))
    return;
  pthread_detach(thread);
  cuda->compiler_count++;
}

// ---- loading; the mutex is held ----

static carnot_status* load(carnot_cuda* cuda, carnot_cuda_program* program, const void* image) {
  CUmodule module;
  CARNOT_TRY(carnot_cuda_load_image(cuda, image, &module));
  return carnot_cuda_check(cuda,
                           cuda->cuModuleGetFunction(&program->function, module, program->kernel),
                           program->kernel);
}

static carnot_status* finish(carnot_cuda* cuda, carnot_cuda_program* program) {
  while (!program->is_compiled) {
    if (cuda->compiler_count) {
      pthread_cond_wait(&cuda->compiled, &cuda->mutex);
      continue;
    }
    cuda->compiler_count++;
    pthread_mutex_unlock(&cuda->mutex);
    compile_queued(cuda);
    pthread_mutex_lock(&cuda->mutex);
  }
  if (program->failure)
    return carnot_status_make(carnot_status_code(program->failure), __FILE__, __LINE__, "%s",
                              carnot_status_message(program->failure));
  return program->function ? NULL : load(cuda, program, program->image);
}

// False where the driver does not take |image|.
static bool take(carnot_cuda* cuda, carnot_cuda_program* program, const void* image) {
  carnot_status* refused = image ? load(cuda, program, image) : NULL;
  program->is_compiled = image && !refused;
  carnot_status_free(refused);
  return program->is_compiled;
}

static carnot_status* find(carnot_cuda_stream* stream, const carnot_cuda_program_text* text,
                           carnot_cuda_program** out) {
  carnot_cuda* cuda = carnot_cuda_of(stream->base.device);
  const size_t bytes = strlen(text->source) + 1;
  const uint64_t key =
      carnot_hash(text->kernel, strlen(text->kernel), carnot_hash(text->source, bytes, 29));
  void** found = carnot_cuda_cached(cuda, key);
  *out = found ? *found : NULL;
  if (found) return NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_cuda_program) + bytes, "a program", &memory));
  carnot_cuda_program* made = memory;
  made->kernel = text->kernel;
  memcpy(made->source, text->source, bytes);
  carnot_status* status = carnot_cuda_keep(cuda, key, made);
  if (status) {
    free(made);
    return status;
  }
  *out = made;
  if (text->cubin && stream->base.allow_code && take(cuda, made, text->cubin)) return NULL;
  char* stored = NULL;
  size_t code_bytes;
  const bool known =
      carnot_cuda_program_cache_read(cuda->base.arch, text->whole, &stored, &code_bytes) ||
      carnot_cuda_program_cache_read(cuda->base.arch, text->source, &stored, &code_bytes);
  const bool taken = known && take(cuda, made, stored);
  free(stored);
  if (taken) return NULL;
  made->next_queued = cuda->queued;
  made->next_unsettled = cuda->unsettled;
  cuda->queued = cuda->unsettled = made;
  start_compiler(cuda);
  return NULL;
}

carnot_status* carnot_cuda_program_begin(carnot_cuda_stream* stream,
                                         const carnot_cuda_program_text* text,
                                         carnot_cuda_program** out_program) {
  carnot_cuda* cuda = carnot_cuda_of(stream->base.device);
  pthread_mutex_lock(&cuda->mutex);
  carnot_status* status = find(stream, text, out_program);
  pthread_mutex_unlock(&cuda->mutex);
  return status;
}

carnot_status* carnot_cuda_program_end(carnot_cuda* cuda, carnot_cuda_program* program,
                                       CUfunction* out_function) {
  pthread_mutex_lock(&cuda->mutex);
  carnot_status* status = finish(cuda, program);
  *out_function = program->function;
  pthread_mutex_unlock(&cuda->mutex);
  return status;
}

void carnot_cuda_programs_settle(carnot_device* device) {
  carnot_cuda* cuda = carnot_cuda_of(device);
  pthread_mutex_lock(&cuda->mutex);
  while (cuda->unsettled) {
    carnot_cuda_program* program = cuda->unsettled;
    carnot_status_free(finish(cuda, program));
    if (cuda->unsettled == program) cuda->unsettled = program->next_unsettled;
  }
  while (cuda->starting_count) pthread_cond_wait(&cuda->compiled, &cuda->mutex);
  pthread_mutex_unlock(&cuda->mutex);
}
