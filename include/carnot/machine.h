// What this machine is and what it was measured to do: CPU instruction sets, accelerators, and the
// peaks of a roofline model.
#ifndef CARNOT_MACHINE_H_
#define CARNOT_MACHINE_H_

#include "carnot/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- CPU instruction sets ----

// The name of CPU ISA level |level| ("scalar", "avx2", ...); each includes the levels before it.
// NULL past the last. Any thread.
CARNOT_API const char* carnot_isa_level_name(int level);
// True when this process may use the level. Otherwise the reason is written to |reason| (|size|
// bytes with the terminating 0, cut where it is longer; NULL with 0: not wanted): what the machine
// lacks, or that the environment variable CARNOT_ISA forbids it. Any thread.
CARNOT_API bool carnot_isa_level_is_usable(int level, char* reason, size_t size);

// ---- libraries ----

// A library that tactics call.
typedef struct carnot_library_info {
  char name[32];
  char version[24];   // "" when it is missing
  char missing[256];  // why it cannot be used and what works without it; "" when it is usable
} carnot_library_info;

// The optional library of CPU tactics, oneDNN, which is opened once a process. Any thread.
CARNOT_API void carnot_cpu_get_library(carnot_library_info* out_info);

// ---- accelerators ----

enum { CARNOT_MAX_DEVICE_LIBRARIES = 8 };

typedef struct carnot_device_info {
  char name[128];    // "NVIDIA H100 80GB HBM3"
  char backend[16];  // "cuda"
  char arch[16];     // "sm_90"
  bool is_present;   // false: engines can be built for it, nothing can run
  int multiprocessor_count;
  uint64_t memory_bytes;
  carnot_library_info libraries[CARNOT_MAX_DEVICE_LIBRARIES];
  size_t library_count;
} carnot_device_info;

// Facts about the accelerator that |spec| names: "cuda", "cuda:1" or "cuda:sm_90" (one that is not
// there). Opens its driver once a process. NOT_FOUND when Carnot's module, the driver or the device
// is missing, VERSION_MISMATCH when the module is of another build. Any thread.
CARNOT_API carnot_status* carnot_device_get_info(const char* spec,
                                                 carnot_device_info* out_info) CARNOT_MUST_USE;

// ---- measured peaks ----

// Arithmetic throughput in 1e9 operations a second; a multiply-add counts as two.
typedef struct carnot_compute_peak {
  const char* type;  // "f32", "f64", "f16", "bf16", "int8"
  char isa[16];      // ISA level or architecture
  double one_thread_gops, all_threads_gops;
} carnot_compute_peak;

// Bandwidth of one level of the memory hierarchy in 1e9 bytes a second; copies count the bytes read
// and written. Of an accelerator all four are its copy rate.
typedef struct carnot_memory_peak {
  char name[16];  // "L1", "L2", "L3", "DRAM"; "memory" of an accelerator
  double bytes;   // capacity; of DRAM the size of the buffer measured
  double read_one_thread_gbs, read_all_threads_gbs, copy_one_thread_gbs, copy_all_threads_gbs;
} carnot_memory_peak;

enum { CARNOT_MAX_COMPUTE_PEAKS = 16, CARNOT_MAX_MEMORY_PEAKS = 5 };

typedef struct carnot_machine_peaks {
  bool is_accelerator;  // one "thread", one level of memory
  int thread_count;
  carnot_compute_peak compute[CARNOT_MAX_COMPUTE_PEAKS];
  int compute_count;
  carnot_memory_peak memory[CARNOT_MAX_MEMORY_PEAKS];
  int memory_count;
  // Of an accelerator, microseconds from kernel to kernel in a recorded graph: where the next waits
  // for the end of the one before, and where it may begin early.
  double launch_us, early_launch_us;
  // Of a CPU, the share of the time that the measuring thread ran, 0 to 1; below
  // CARNOT_QUIET_AVAILABILITY other programs disturbed the measurement, which was repeated.
  double availability;
} carnot_machine_peaks;
#define CARNOT_QUIET_AVAILABILITY 0.95

// INVALID_ARGUMENT names an environment variable that begins with CARNOT_ and is not known, or a
// value that is none of its values, with what is known; UNSUPPORTED an ISA that this machine lacks.
// Builds and contexts check before anything else. Any thread that changes no variable.
CARNOT_API carnot_status* carnot_environment_check(void) CARNOT_MUST_USE;

// Measures the processor with multiply-add loops in registers and reads and copies at the size of
// each cache, for about |seconds_each| a figure. |thread_count| 0: one for each processor. One
// measurement at a time, on an otherwise idle machine. OUT_OF_MEMORY for the buffers.
CARNOT_API carnot_status* carnot_machine_measure_cpu(
    int thread_count, double seconds_each, carnot_machine_peaks* out_peaks) CARNOT_MUST_USE;
// Measures the accelerator |spec|, as in carnot_device_get_info; it must be present.
CARNOT_API carnot_status* carnot_machine_measure_device(
    const char* spec, carnot_machine_peaks* out_peaks) CARNOT_MUST_USE;
// Measures what |context| runs on: its accelerator, or the processor with as many threads.
CARNOT_API carnot_status* carnot_machine_measure_context(
    const carnot_context* context, double seconds_each,
    carnot_machine_peaks* out_peaks) CARNOT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_MACHINE_H_
