// Starts libraries by threads while the caller copies weights.
#include "backend/cuda/driver/cuda.h"
#include "backend/cuda/library/cudnn_plan.h"

static void* start_blas(void* arg) {
  carnot_cuda* cuda = arg;
  cuda->cuCtxSetCurrent(cuda->context);
  carnot_cuda_lacks_cublaslt(cuda);
  pthread_mutex_lock(&cuda->mutex);
  cuda->is_blas_starting = false;
  cuda->starting_count--;
  pthread_cond_broadcast(&cuda->compiled);
  pthread_mutex_unlock(&cuda->mutex);
  return NULL;
}

static void* start_dnn(void* arg) {
  carnot_cuda* cuda = arg;
  cuda->cuCtxSetCurrent(cuda->context);
  carnot_cuda_cudnn_start(cuda);
  pthread_mutex_lock(&cuda->mutex);
  cuda->starting_count--;
  pthread_cond_broadcast(&cuda->compiled);
  pthread_mutex_unlock(&cuda->mutex);
  return NULL;
}

// The mutex is held. False where there is no thread: then the library starts when it is called.
static bool start(carnot_cuda* cuda, void* (*run)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, cuda)) return false;
  pthread_detach(thread);
  cuda->starting_count++;
  return true;
}

void carnot_cuda_start_libraries(carnot_device* device, uint32_t sources) {
  carnot_cuda* cuda = carnot_cuda_of(device);
  pthread_mutex_lock(&cuda->mutex);
  if (sources >> CARNOT_SOURCE_CUBLAS_LT & 1 && !cuda->is_blas_starting && !cuda->lt)
    cuda->is_blas_starting = start(cuda, start_blas);
  if (sources >> CARNOT_SOURCE_CUDNN & 1 && !cuda->cudnn_handles[0].handle) start(cuda, start_dnn);
  pthread_mutex_unlock(&cuda->mutex);
}
