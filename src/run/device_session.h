// What a context has on an accelerator: the stream, memory that grows and keeps its size, the graph
// cache, and how users' tensors are passed. One thread at a time.
#ifndef CARNOT_RUN_DEVICE_SESSION_H_
#define CARNOT_RUN_DEVICE_SESSION_H_

#include "backend/device.h"
#include "run/graph_cache.h"
#include "run/run_arena.h"

typedef struct carnot_device_session {
  carnot_stream* stream;  // NULL: the CPU alone
  size_t limit_bytes;     // of each allocation; 0: none
  bool host_io;           // users' tensors are in host memory and are copied
  bool defer;             // the run in flight is only put into the caller's stream
  bool direct;            // the caller records the run in flight: steps are launched one by one
  bool no_graphs;         // steps are launched one by one, not as recorded graphs
  bool keep_tensors;      // users' tensors are not copied (for timing)
  char *arena, *workspace;
  size_t arena_bytes, workspace_bytes;
  carnot_run_arena run_arena;  // values of a run without a planned offset
  carnot_graph_cache graphs;
  bool time_io;       // read the clocks of copies and computing
  uint64_t io_ns[3];  // of the last run: to the device, computing, back
} carnot_device_session;

// The events of a run that times are read between.
enum {
  CARNOT_MARK_START,
  CARNOT_MARK_UPLOADED,
  CARNOT_MARK_COMPUTED,
  CARNOT_MARK_DONE,
  CARNOT_MARK_FIRST_STEP
};

static inline const carnot_backend* carnot_session_backend(const carnot_device_session* session) {
  return session->stream->device->backend;
}

// Opens |wanted| ("cuda:1"; NULL: CARNOT_DEVICE, else the first) for an engine built for
// |built_for|; nothing for one of the CPU. |allow_code|: machine code in the engine may run.
// FAILED_PRECONDITION without that device; UNSUPPORTED when it is of another kind.
carnot_status* carnot_device_session_open(carnot_device_session* session, const char* built_for,
                                          const char* wanted, bool allow_code,
                                          size_t limit_bytes) CARNOT_MUST_USE;
// Waits for the stream and frees everything; |step_count| of the plan.
void carnot_device_session_close(carnot_device_session* session, uint32_t step_count);
// Grows |*memory| to |bytes|; its contents are lost. OUT_OF_MEMORY, beyond the limit too.
carnot_status* carnot_device_session_grow(carnot_device_session* session, size_t bytes,
                                          void** memory, size_t* capacity) CARNOT_MUST_USE;
// Records event |index| when the clocks of copies are read.
carnot_status* carnot_device_session_mark(carnot_device_session* session,
                                          uint32_t index) CARNOT_MUST_USE;

#endif  // CARNOT_RUN_DEVICE_SESSION_H_
