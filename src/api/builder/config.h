// What the files that make up build configurations share.
#ifndef CARNOT_API_BUILDER_CONFIG_H_
#define CARNOT_API_BUILDER_CONFIG_H_

#include "builder/builder.h"
#include "carnot/builder.h"

// Requests for the types of layers, as the user adds them.
typedef struct carnot_request_list {
  carnot_precision_request* items;
  size_t count, capacity;
} carnot_request_list;

struct carnot_config {
  carnot_arena arena;
  carnot_build_config build;
  carnot_profile* profiles;
  size_t profile_count, profile_capacity;
  const char** disabled;
  size_t disabled_count, disabled_capacity;
  carnot_request_list layers, outputs;
  const char** libraries;
  size_t library_count, library_capacity;
  carnot_io_request* io_formats;
  const char* device;  // NULL: the device rule
  int thread_count;
  bool wants_quantized;  // CARNOT_BUILD_QUANTIZED
  // Callbacks with their own |user| each; the builder calls them through functions of build.c.
  void (*log)(void* user, int severity, const char* message);
  void* log_user;
  bool (*progress)(void* user, const char* phase, int done, int total);
  void* progress_user;
};

// What the builder reads of |config|, with its callbacks; NULL: the defaults. Valid while |config|
// is.
carnot_build_config carnot_config_for_builder(const carnot_config* config);

// carnot_build_engine for |graph|, a copy of the network's with other outputs.
carnot_status* carnot_build_graph(const carnot_network* network, const carnot_graph* graph,
                                  const carnot_config* config,
                                  carnot_engine** out_engine) CARNOT_MUST_USE;

#endif  // CARNOT_API_BUILDER_CONFIG_H_
