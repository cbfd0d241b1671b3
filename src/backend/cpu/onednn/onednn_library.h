// oneDNN as a source of CPU tactics: the library, opened when it is first asked for.
//
// Its work runs on the threads of Carnot's executor: a primitive is made for one thread and
// executed by the thread that computes the part. A library whose runtime is sequential or OpenMP
// allows that; those on TBB, SYCL and a thread pool of the caller are refused.
#ifndef CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_LIBRARY_H_
#define CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_LIBRARY_H_

#include "backend/cpu/onednn/onednn_api.h"
#include "base/status.h"

typedef struct carnot_onednn {
#define CARNOT_ONEDNN_FIELD(result, name, parameters) result(*name) parameters;
  CARNOT_ONEDNN_FUNCTIONS(CARNOT_ONEDNN_FIELD)
#undef CARNOT_ONEDNN_FIELD
  int version[3];
  onednn_engine* engine;
  // Of the OpenMP that the library links; NULL: it is sequential.
  int (*omp_get_max_threads)(void);
  void (*omp_set_num_threads)(int count);
} carnot_onednn;

// libdnnl.so.3, or the file that CARNOT_ONEDNN names; tried once a process, never closed.
// NOT_FOUND, VERSION_MISMATCH or UNSUPPORTED says what is missing and what runs without it. Any
// thread.
carnot_status* carnot_onednn_open(const carnot_onednn** out_library) CARNOT_MUST_USE;
// The same as a text: NULL where the library is there. Any thread.
const char* carnot_onednn_lacks(void);

// Between the two, what the library does on this thread it does with this thread alone. Enter
// returns what leave restores.
int carnot_onednn_enter(const carnot_onednn* library);
void carnot_onednn_leave(const carnot_onednn* library, int saved);

// An error for |result| of the function |call|, NULL for success.
carnot_status* carnot_onednn_check(int result, const char* call) CARNOT_MUST_USE;
#define CARNOT_ONEDNN_TRY(library, call, ...) \
  CARNOT_TRY(carnot_onednn_check((library)->call(__VA_ARGS__), #call))

#endif  // CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_LIBRARY_H_
