// Kernels by their identifiers: modules of each family, loaded lazily, and the cache of objects
// made on demand.
#include "backend/cuda/driver/cuda.h"
#include "base/hash.h"

// Each family of kernels for all architectures, made by nvcc when this module was built (images.S).
#define FAMILY(name) extern const char carnot_cuda_image_##name[];
#include "kernel/cuda/families.def"

typedef struct carnot_cuda_entry {
  uint64_t key;
  void* object;
} carnot_cuda_entry;

void** carnot_cuda_cached(carnot_cuda* cuda, uint64_t key) {
  for (size_t i = 0; i < cuda->entry_count; i++)
    if (cuda->entries[i].key == key) return &cuda->entries[i].object;
  return NULL;
}

carnot_status* carnot_cuda_keep(carnot_cuda* cuda, uint64_t key, void* object) {
  void* entries = cuda->entries;
  CARNOT_TRY(carnot_grow(&entries, &cuda->entry_capacity, cuda->entry_count + 1,
                         sizeof(carnot_cuda_entry), "cached code"));
  cuda->entries = entries;
  cuda->entries[cuda->entry_count++] = (carnot_cuda_entry){key, object};
  return NULL;
}

carnot_status* carnot_cuda_load_image(carnot_cuda* cuda, const void* image, CUmodule* out_module) {
  CARNOT_CUDA_TRY(cuda, cuCtxSetCurrent(cuda->context));
  CARNOT_CUDA_TRY(cuda, cuModuleLoadData(out_module, image));
  void* modules = cuda->modules;
  CARNOT_TRY(carnot_grow(&modules, &cuda->module_capacity, cuda->module_count + 1, sizeof(CUmodule),
                         "modules"));
  cuda->modules = modules;
  cuda->modules[cuda->module_count++] = *out_module;
  return NULL;
}

// Name and family of each kernel, and the image of each family.
typedef struct kernel_info {
  const char* name;
  carnot_cuda_family family;
} kernel_info;
#define CONCAT_(a, b) a##b
#define CONCAT(a, b)  CONCAT_(a, b)
static const kernel_info kKernels[CARNOT_CUDA_KERNEL_COUNT] = {
    {NULL, CARNOT_CUDA_FAMILY_COUNT},
#define KERNEL(name, ...) {#name, CONCAT(CARNOT_CUDA_FAMILY_, CARNOT_CUDA_FAMILY)},
#include "kernel/cuda/kernels.def"
};
static const char* const kImages[CARNOT_CUDA_FAMILY_COUNT] = {
#define FAMILY(name) carnot_cuda_image_##name,
#include "kernel/cuda/families.def"
};

// The mutex is held by the caller.
static carnot_status* load_family(carnot_cuda* cuda, carnot_cuda_family family) {
  return cuda->families[family]
             ? NULL
             : carnot_cuda_load_image(cuda, kImages[family], &cuda->families[family]);
}

static carnot_status* find_kernel(carnot_cuda* cuda, carnot_cuda_kernel_id kernel) {
  if (cuda->kernels[kernel]) return NULL;
  const kernel_info* info = &kKernels[kernel];
  CARNOT_TRY(load_family(cuda, info->family));
  CARNOT_TRY_AT(
      carnot_cuda_check(cuda,
                        cuda->cuModuleGetFunction(&cuda->kernels[kernel],
                                                  cuda->families[info->family], info->name),
                        "cuModuleGetFunction"),
      "kernel %s", info->name);
  return NULL;
}

carnot_status* carnot_cuda_kernel(carnot_cuda* cuda, carnot_cuda_kernel_id kernel,
                                  CUfunction* out_function) {
  CARNOT_CHECK(kernel != CARNOT_CUDA_KERNEL_NONE, INVALID_MODEL,
               "no kernel for these types and sizes");
  pthread_mutex_lock(&cuda->mutex);
  carnot_status* status = find_kernel(cuda, kernel);
  *out_function = cuda->kernels[kernel];
  pthread_mutex_unlock(&cuda->mutex);
  return status;
}

carnot_status* carnot_cuda_kernel_for(carnot_cuda* cuda, const carnot_cuda_kernel_id* kernels,
                                      carnot_dtype dtype, CUfunction* out_function) {
  CARNOT_CHECK(carnot_dtype_valid(dtype) && kernels[dtype] != CARNOT_CUDA_KERNEL_NONE,
               INVALID_MODEL, "no kernel for %s", carnot_dtype_name(dtype));
  return carnot_cuda_kernel(cuda, kernels[dtype], out_function);
}

carnot_status* carnot_cuda_load_family(carnot_cuda* cuda, carnot_cuda_family family) {
  pthread_mutex_lock(&cuda->mutex);
  carnot_status* status = load_family(cuda, family);
  pthread_mutex_unlock(&cuda->mutex);
  return status;
}
