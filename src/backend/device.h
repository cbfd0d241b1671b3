// Accelerators: what the core asks of a backend module, and how modules are opened on demand.
//
// A backend is a shared object with one entry, carnot_backend_entry. The core links none: without a
// module, a driver or a device everything else works. A device belongs to the process and is closed
// at its end; a queue (a stream) belongs to one context. Devices are thread-safe, queues serve one
// thread at a time.
#ifndef CARNOT_BACKEND_DEVICE_H_
#define CARNOT_BACKEND_DEVICE_H_

#include "backend/core_functions.h"
#include "tactic/tactic.h"

enum { CARNOT_BACKEND_ABI = 9 };

typedef struct carnot_backend carnot_backend;

// The module's own facts follow behind.
struct carnot_device {
  const carnot_backend* backend;
  int ordinal;     // -1: absent: kernels are compiled for it, nothing can run
  char arch[16];   // "sm_90"
  char name[128];  // "NVIDIA H100 80GB HBM3"
  int multiprocessor_count;
  bool has_clusters;  // blocks of one launch read one another's shared memory
  size_t memory_bytes;
  // What opening and starting each library took, known once that is done.
  uint64_t start_ns[CARNOT_SOURCE_COUNT];
};

struct carnot_stream {
  carnot_device* device;
  bool allow_code;  // machine code that an engine carries may run
};

typedef struct carnot_device_graph carnot_device_graph;

// What a device was measured to do. Arithmetic in 1e9 operations a second, 0 where it has none of
// the type; memory in GB/s, bytes read and written; microseconds from kernel to kernel in a
// recorded graph, where the next waits for the end of the one before and where it may begin early.
typedef struct carnot_device_peaks {
  double f32_gflops, f16_gflops, bf16_gflops, copy_gbs, launch_us, early_launch_us;
} carnot_device_peaks;

// A library that the backend opens on demand: its version, or why it cannot be used and what works
// without it ("" where it can).
typedef struct carnot_device_library {
  const char* name;
  char version[24], missing[256];
} carnot_device_library;

typedef enum carnot_copy_kind {
  CARNOT_COPY_UPLOAD,
  CARNOT_COPY_DOWNLOAD,
  CARNOT_COPY_INSIDE
} carnot_copy_kind;

// What an address is, as far as the driver knows.
typedef enum carnot_address { CARNOT_ADDRESS_HOST, CARNOT_ADDRESS_DEVICE } carnot_address;

struct carnot_backend {
  uint32_t abi, problem_bytes, view_bytes;  // of the core that the module was built with
  const char* name;                         // "cuda"
  const carnot_tactic* const* (*tactics)(size_t* out_count);
  // |ordinal| -1: an absent device of |arch|. NOT_FOUND says what is missing.
  carnot_status* (*open)(int ordinal, const char* arch, carnot_device** out_device);
  void (*close)(carnot_device* device);
  carnot_status* (*alloc)(carnot_device* device, size_t bytes, void** out_address);
  void (*free)(carnot_device* device, void* address);
  // Host memory that copies reach without a detour.
  carnot_status* (*alloc_host)(carnot_device* device, size_t bytes, void** out_memory);
  void (*free_host)(carnot_device* device, void* memory);
  carnot_address (*address_of)(carnot_device* device, const void* address);
  carnot_status* (*stream_create)(carnot_device* device, carnot_stream** out_queue);
  void (*stream_destroy)(carnot_stream* queue);
  // Work goes into the caller's stream (NULL: its default one) until the queue is given back its
  // own.
  void (*stream_borrow)(carnot_stream* queue, void* stream);
  void (*stream_return)(carnot_stream* queue);
  // The caller records this stream itself: graphs must not be launched into it.
  bool (*is_recording)(carnot_stream* queue);
  carnot_status* (*copy)(carnot_stream* queue, void* dst, const void* src, size_t bytes,
                         carnot_copy_kind kind);
  carnot_status* (*synchronize)(carnot_stream* queue);
  // Begins in the background what libraries of |sources| (bit set of carnot_tactic_source) take
  // long for. Settle ends that and what configuring steps began: before the steps are recorded.
  void (*start_libraries)(carnot_device* device, uint32_t sources);
  void (*settle)(carnot_device* device);
  // What rows run between the two goes into |graph| and is not executed. A graph that is there
  // already becomes the new one, which is cheap when the same steps came with other addresses or
  // sizes; NULL after an error.
  carnot_status* (*record_begin)(carnot_stream* queue);
  carnot_status* (*record_end)(carnot_stream* queue, carnot_device_graph** graph);
  carnot_status* (*graph_launch)(carnot_stream* queue, carnot_device_graph* graph);
  void (*graph_destroy)(carnot_stream* queue, carnot_device_graph* graph);
  // Marks are points in the queue; nanoseconds between two that were passed (after synchronize).
  carnot_status* (*mark)(carnot_stream* queue, uint32_t index);
  carnot_status* (*between)(carnot_stream* queue, uint32_t first, uint32_t second,
                            uint64_t* out_ns);
  // A named span of this thread for profilers (NVTX); NULL ends the last one.
  void (*span)(const char* name);
  carnot_status* (*measure)(carnot_device* device, carnot_device_peaks* out);
  // The number of libraries written, |capacity| at most.
  size_t (*libraries)(carnot_device* device, carnot_device_library* out, size_t capacity);
};

// The module's entry point: keeps the addresses of |core|, which it calls from then on, and returns
// its table. NULL where |core| is of another build.
typedef const carnot_backend* carnot_backend_entry_fn(const carnot_core_functions* core);

// "cuda", "cuda:1", or "cuda:sm_90" (absent: for building only). Opens module and device once a
// process. NOT_FOUND when module, driver or device are missing, VERSION_MISMATCH when the module
// is of another build.
carnot_status* carnot_device_open(const char* spec, carnot_device** out_device) CARNOT_MUST_USE;
// The device rule: |wanted| (may be NULL) else CARNOT_DEVICE, else "cuda" where it opens, else
// "cpu". *out_device is NULL for the processor. An accelerator that was named and does not open is
// an error.
carnot_status* carnot_device_choose(const char* wanted, carnot_device** out_device) CARNOT_MUST_USE;
// Why "cuda" does not open on a machine with an NVIDIA device, in |reason| [size]; NULL where it
// opens, or where there is no such device.
const char* carnot_device_is_passed_over(char* reason, size_t size);

#endif  // CARNOT_BACKEND_DEVICE_H_
