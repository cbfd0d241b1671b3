// Reading ONNX models into graphs.
//
// Accepted: opsets 1 to CARNOT_ONNX_MAX_OPSET of the default domain (old versions of an operator
// are brought to its newest semantics), com.microsoft, model-local functions (inlined), external
// data, control flow. Names of nodes and values stay the user's. Source: the ONNX IR specification,
// version 13.
#ifndef CARNOT_IMPORT_ONNX_ONNX_H_
#define CARNOT_IMPORT_ONNX_ONNX_H_

#include "carnot/onnx.h"
#include "import/common/source.h"
#include "ir/graph.h"

#define CARNOT_ONNX_MAX_OPSET 28

typedef struct carnot_onnx_options {
  const char* folder;         // of external data, for models from memory; NULL: none may be read
  bool follow_links;          // external data may be symbolic links to anywhere
  bool text;                  // the model is in the text form of protobuf
  bool plugin_override;       // a registered plugin takes the place of the operator of its name
  bool plugin_instance_norm;  // InstanceNormalization becomes plugin InstanceNormalization_TRT
  const carnot_onnx_initializer* initializers;  // instead of those in the file
  size_t initializer_count;
  carnot_graph* into;  // read into the main block of this graph; NULL: a new one
} carnot_onnx_options;

// Reads the model at |path|; |options| may be NULL. The caller owns both results. INVALID_MODEL
// where the file breaks its format, with the place; UNSUPPORTED with one line for every node that
// Carnot has no operator for: its name, operator, version and the reason. After an error in reading
// into a graph that was there, it holds what came before, and *out_source is set. One thread at a
// time a model; different models in any thread.
carnot_status* carnot_onnx_import_file(const char* path, const carnot_onnx_options* options,
                                       carnot_model_source** out_source,
                                       carnot_graph** out_graph) CARNOT_MUST_USE;

// The same for a model in memory, which must outlive the graph.
carnot_status* carnot_onnx_import_memory(const void* data, size_t size,
                                         const carnot_onnx_options* options,
                                         carnot_model_source** out_source,
                                         carnot_graph** out_graph) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_ONNX_ONNX_H_
