// Weak typing: which half types the builder may choose, and what the user asks of single layers.
#ifndef CARNOT_PASS_PRECISION_CONSTRAINTS_H_
#define CARNOT_PASS_PRECISION_CONSTRAINTS_H_

#include "ir/graph.h"

typedef enum carnot_constraint_mode {
  CARNOT_CONSTRAINTS_NONE,    // requests are not read
  CARNOT_CONSTRAINTS_PREFER,  // those that cannot hold are told and left out
  CARNOT_CONSTRAINTS_OBEY     // those that cannot hold end the build
} carnot_constraint_mode;

// A request by name, for the layers that |pattern| names ('*' matches any text).
typedef struct carnot_precision_request {
  const char* pattern;
  carnot_dtype types[8];  // of the outputs in order; of the layer: the first
  int type_count;
} carnot_precision_request;

typedef struct carnot_precision_constraints {
  bool f16, bf16;  // may be chosen for layers of float32
  bool i8;         // the same: tensors have ranges
  bool strong;     // types are the network's: nothing may be chosen or asked for
  carnot_constraint_mode constraints;
  const carnot_precision_request* layers;  // later ones override earlier ones
  size_t layer_count;
  const carnot_precision_request* outputs;
  size_t output_count;
  // Types of the network's inputs and results as the user sees them, in order; a single one is for
  // all.
  const carnot_dtype* input_types;
  size_t input_type_count;
  const carnot_dtype* result_types;
  size_t result_type_count;
} carnot_precision_constraints;

// Severity as in carnot_build_config.
typedef void carnot_precision_log(void* user, int severity, const char* message);

// Notes the requests on the nodes and values they name and gives inputs and results their types.
// Runs before any pass, while the user's names hold.
carnot_status* carnot_precision_constraints_apply(carnot_graph* graph,
                                                  const carnot_precision_constraints* typing,
                                                  carnot_precision_log* log,
                                                  void* user) CARNOT_MUST_USE;

#endif  // CARNOT_PASS_PRECISION_CONSTRAINTS_H_
