// Reading TensorFlow models: frozen graphs (GraphDef) and SavedModels.
#ifndef CARNOT_TENSORFLOW_H_
#define CARNOT_TENSORFLOW_H_

#include "carnot/network.h"

#ifdef __cplusplus
extern "C" {
#endif

// The dimensions and the layout that the data of a placeholder has, as TensorRT 8's UFF parser
// registers inputs.
typedef struct carnot_tensorflow_registered_input {
  const char* name;  // of the placeholder
  // Without the batch, which is dimension 0 of the placeholder. Sizes of at least 1.
  carnot_dims dims;
  // [C,H,W], where a graph of channels-last layout has [H,W,C]: the network's input is [N,C,H,W],
  // and a transpose follows it. A graph of channels-first layout is not changed.
  bool is_channels_first;
} carnot_tensorflow_registered_input;

// How a TensorFlow graph is read. All zero is the default.
typedef struct carnot_tensorflow_options {
  // Tensors that become outputs, "node" or "node:1"; without any, results of nodes that nothing
  // reads.
  const char* const* outputs;
  size_t output_count;
  // Nodes that become inputs: what they are computed from is left out. Without any, the
  // placeholders that the outputs need.
  const char* const* inputs;
  size_t input_count;
  // Of a SavedModel: the signature whose inputs and outputs are the network's, and the tags of the
  // graph. NULL: "serving_default" or the only one. |outputs| and |inputs| take its place.
  const char* signature;
  const char* const* tags;
  size_t tag_count;     // 0: "serve", or the only graph
  bool verify_weights;  // compute the checksums of variables, which reads them whole
  // Placeholders whose dimensions are set; NOT_FOUND where the outputs need no such placeholder,
  // INVALID_ARGUMENT where its own dimensions are others.
  const carnot_tensorflow_registered_input* registered;
  size_t registered_count;
  int64_t batch;  // dimension 0 of the registered inputs; 0: as the graph has it
} carnot_tensorflow_options;

// Reads the model at |path|: a GraphDef, a MetaGraphDef, a SavedModel's folder or the file in it,
// binary or as text. Variables are taken from the tensor bundle of the SavedModel
// (variables/variables.index), as its restore graph says. The caller owns the network, which keeps
// the files mapped. |options| may be NULL. Inputs and outputs are called by the signature's keys,
// without a signature as their nodes; a result other than the first has its number behind a colon.
// INVALID_MODEL where the file breaks its format, with the place; UNSUPPORTED with one line for
// every node without an operator: its name, operator and the reason. Any thread.
CARNOT_API carnot_status* carnot_tensorflow_parse_path(
    const char* path, const carnot_tensorflow_options* options,
    carnot_network** out_network) CARNOT_MUST_USE;
// The same for a GraphDef in memory, which must outlive the network.
CARNOT_API carnot_status* carnot_tensorflow_parse_memory(
    const void* data, size_t size, const carnot_tensorflow_options* options,
    carnot_network** out_network) CARNOT_MUST_USE;
// As carnot_tensorflow_parse_path, into the main part of |network|, after the layers that it has.
// After an error the network is incomplete and may only be destroyed.
CARNOT_API carnot_status* carnot_network_add_tensorflow(carnot_network* network, const char* path,
                                                        const carnot_tensorflow_options* options)
    CARNOT_MUST_USE;
// The same for a GraphDef in memory, which must outlive the network.
CARNOT_API carnot_status* carnot_network_add_tensorflow_memory(
    carnot_network* network, const void* data, size_t size,
    const carnot_tensorflow_options* options) CARNOT_MUST_USE;
// True when |data| is a GraphDef, a MetaGraphDef or a SavedModel as far as its first bytes tell.
// Any thread.
CARNOT_API bool carnot_tensorflow_is_graph(const void* data, size_t size);
// True when nodes of operator |op| ("Conv2D") can be read. Any thread.
CARNOT_API bool carnot_tensorflow_supports(const char* op);
// Operator |index| that can be read; NULL past the last. Any thread.
CARNOT_API const char* carnot_tensorflow_operator(size_t index);

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_TENSORFLOW_H_
