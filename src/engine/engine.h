// Engines: an immutable plan with its weights, shared by contexts; read from a file or memory,
// written to either.
//
// File: header (magic, version, sections with checksums), metadata (codec.h; LZ4 where that makes
// them smaller), then the weights on a page boundary, each blob at a multiple of 64 bytes,
// used in place from the mapping. Load checks the metadata's checksum and content; weights are
// checked by carnot_engine_verify, because hashing them costs more than loading may take.
#ifndef CARNOT_ENGINE_ENGINE_H_
#define CARNOT_ENGINE_ENGINE_H_

#include <pthread.h>

#include "base/leased_file.h"
#include "carnot/runtime.h"
#include "plan/plan.h"

enum { CARNOT_ENGINE_VERSION = 12 };

// The weights that an accelerator reads, in its memory.
typedef struct carnot_device_weights {
  void* device;
  void* memory;
  const void** data;  // by blob; NULL: not needed there
  void (*free)(void* device, void* memory);
  struct carnot_device_weights* next;
} carnot_device_weights;

// One state of the weights; refit publishes a new one, contexts hold the one they run on.
typedef struct carnot_weights {
  int references;
  const void** data;  // by blob
  void** owned;       // memory of the blobs that refit made, by blob; NULL in the first generation
  uint32_t owned_count;
  carnot_device_weights*
      uploads;  // one a device, made by the first context there; the mutex guards them
  struct carnot_weights*
      previous;  // the generation whose unchanged blobs this one uses; a counted reference
} carnot_weights;

typedef struct carnot_engine {
  int references;
  carnot_plan* plan;
  carnot_mapping mapping;                         // of the file, or
  carnot_lease* lease;                            // of the mapping; NULL: it may be written
  void* memory;                                   // the copy that was made, or
  void (*release)(void* user, const void* data);  // how to give back what was lent
  void* release_user;
  const void* lent;
  uint64_t file_bytes;
  pthread_mutex_t mutex;    // guards |weights| and references
  carnot_weights* weights;  // the newest generation
} carnot_engine;

// An engine that was just built; takes the plan. The blobs' data must live as long.
carnot_status* carnot_engine_adopt(carnot_plan* plan, carnot_engine** out_engine) CARNOT_MUST_USE;

// The newest weights, to be given back. Thread-safe.
carnot_weights* carnot_engine_take_weights(carnot_engine* engine);
void carnot_engine_drop_weights(carnot_engine* engine, carnot_weights* weights);

// Makes |weights| the newest generation (takes it).
void carnot_engine_publish(carnot_engine* engine, carnot_weights* weights);

// The engine as a file; the blobs' data are read from |plan|. The file appears complete or not at
// all.
carnot_status* carnot_plan_write_file(carnot_plan* plan, const char* path) CARNOT_MUST_USE;
// The same bytes in memory; the caller frees them.
carnot_status* carnot_plan_write_memory(carnot_plan* plan, void** out_data,
                                        size_t* out_size) CARNOT_MUST_USE;

#endif  // CARNOT_ENGINE_ENGINE_H_
