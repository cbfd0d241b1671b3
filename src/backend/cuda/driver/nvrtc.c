// Generated programs: NVRTC from source to machine code, cached by the hash of the source.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/driver/cuda.h"
#include "base/hash.h"

// The target: machine code for the device, or, where this NVRTC does not know the device, PTX of
// the newest architecture that it knows, which the driver compiles.
static bool choose_target(carnot_cuda* cuda, char* option, size_t size) {
  int count = 0, best = 0, archs[64], wanted = cuda->major * 10 + cuda->minor;
  bool known = cuda->nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count > 64 ||
               cuda->nvrtcGetSupportedArchs(archs) != NVRTC_SUCCESS;
  for (int i = 0; !known && i < count; i++) {
    if (archs[i] <= wanted && archs[i] > best) best = archs[i];
    known = archs[i] == wanted;
  }
  if (known || !best)
    snprintf(option, size, "--gpu-architecture=%s", cuda->base.arch);
  else
    snprintf(option, size, "--gpu-architecture=compute_%d", best);
  return known || !best;
}

static carnot_status* read_code(carnot_cuda* cuda, nvrtcProgram program, bool machine_code,
                                char** out_cubin, size_t* out_bytes) {
  bool ok = (machine_code ? cuda->nvrtcGetCUBINSize : cuda->nvrtcGetPTXSize)(program, out_bytes) ==
                NVRTC_SUCCESS &&
            *out_bytes;
  *out_cubin = ok ? malloc(*out_bytes) : NULL;
  ok = *out_cubin && (machine_code ? cuda->nvrtcGetCUBIN : cuda->nvrtcGetPTX)(
                         program, *out_cubin) == NVRTC_SUCCESS;
  CARNOT_CHECK(ok, INTERNAL, "NVRTC gives no machine code for %s", cuda->base.arch);
  return NULL;
}

carnot_status* carnot_cuda_compile(carnot_cuda* cuda, const char* source, char** out_cubin,
                                   size_t* out_bytes) {
  *out_cubin = NULL;
  CARNOT_TRY(carnot_cuda_need_nvrtc(cuda));
  nvrtcProgram program;
  CARNOT_CHECK(
      cuda->nvrtcCreateProgram(&program, source, "program.cu", 0, NULL, NULL) == NVRTC_SUCCESS,
      INTERNAL, "NVRTC takes no program");
  char option[64];
  bool machine_code = choose_target(cuda, option, sizeof(option));
  const char* options[] = {option, "--std=c++17", "-default-device"};
  carnot_status* status = NULL;
  if (cuda->nvrtcCompileProgram(program, 3, options) != NVRTC_SUCCESS) {
    size_t size = 0;
    cuda->nvrtcGetProgramLogSize(program, &size);
    char* log = calloc(1, size + 1);
    if (log) cuda->nvrtcGetProgramLog(program, log);
    status = CARNOT_ERROR(INTERNAL, "a generated program does not compile for %s: %.1500s",
                          cuda->base.arch, log ? log : "");
    free(log);
  } else {
    status = read_code(cuda, program, machine_code, out_cubin, out_bytes);
  }
  cuda->nvrtcDestroyProgram(&program);
  return status;
}

typedef struct compiled {
  char* cubin;
  size_t bytes;
} compiled;

carnot_status* carnot_cuda_compile_cached(carnot_cuda* cuda, const char* source,
                                          const char** out_cubin, size_t* out_bytes) {
  uint64_t key = carnot_hash(source, strlen(source), 31);
  pthread_mutex_lock(&cuda->mutex);
  void** found = carnot_cuda_cached(cuda, key);
  compiled* made = found ? *found : NULL;
  pthread_mutex_unlock(&cuda->mutex);
  if (!made) {
    void* memory;
    CARNOT_TRY(carnot_calloc(1, sizeof(compiled), "machine code", &memory));
    made = memory;
    if (!carnot_cuda_program_cache_read(cuda->base.arch, source, &made->cubin, &made->bytes)) {
      carnot_status* status = carnot_cuda_compile(cuda, source, &made->cubin, &made->bytes);
      if (status) free(made);
      if (status) return status;
      carnot_cuda_program_cache_write(cuda->base.arch, source, made->cubin, made->bytes);
    }
    pthread_mutex_lock(&cuda->mutex);
    carnot_status* status = carnot_cuda_keep(cuda, key, made);
    pthread_mutex_unlock(&cuda->mutex);
    if (status) return status;
  }
  *out_cubin = made->cubin;
  *out_bytes = made->bytes;
  return NULL;
}
