// Reading Caffe networks: a network as text (prototxt) and its weights (caffemodel).
#ifndef CARNOT_CAFFE_H_
#define CARNOT_CAFFE_H_

#include "carnot/data.h"
#include "carnot/network.h"
#include "carnot/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

// A blob of a layer's weights, in row-major order.
typedef struct carnot_caffe_weights {
  carnot_dims dims;
  const float* values;
} carnot_caffe_weights;

// Plugins for layers by name, in place of what their types mean. The calls come from the thread
// that reads the network, in the order of the layers.
typedef struct carnot_caffe_plugins {
  void* user;
  // True where a plugin computes layer |layer_name|.
  bool (*computes)(void* user, const char* layer_name);
  // The plugin of layer |layer_name| with as many outputs as the layer has tops; its creator must
  // be registered. It stays the caller's and must live until the network is read. |weights| are the
  // layer's blobs, none without a caffemodel; they live as long as the network. NULL on failure,
  // with a message in |error|.
  const carnot_plugin* (*create)(void* user, const char* layer_name,
                                 const carnot_caffe_weights* weights, size_t weights_count,
                                 carnot_plugin_error* error);
} carnot_caffe_plugins;

// How a Caffe network is read. All zero is the default.
typedef struct carnot_caffe_options {
  // Names of blobs that become outputs; without any, the tops that no layer reads.
  const char* const* outputs;
  size_t output_count;
  bool marks_no_outputs;                // the caller marks them (carnot_caffe_find_tensor)
  int64_t batch;                        // dimension 0 of every input; 0: what the network says
  uint64_t seed;                        // of the weights, where no caffemodel is given
  const carnot_caffe_plugins* plugins;  // NULL: none by name
} carnot_caffe_options;

// Reads the network at |deploy_path| with the weights at |model_path|; NULL: random weights that
// depend on |options->seed|. The caller owns the network, which keeps the file of weights mapped.
// |options| may be NULL. INVALID_MODEL where a file breaks its format or a layer's parameters and
// blobs do not fit, with layer, value found and value required; UNSUPPORTED with one line for every
// layer that is not supported. Any thread.
CARNOT_API carnot_status* carnot_caffe_parse_files(const char* deploy_path, const char* model_path,
                                                   const carnot_caffe_options* options,
                                                   carnot_network** out_network) CARNOT_MUST_USE;
// The same from memory. |model| (NULL: random weights) must outlive the network.
CARNOT_API carnot_status* carnot_caffe_parse_memory(const void* deploy, size_t deploy_size,
                                                    const void* model, size_t model_size,
                                                    const carnot_caffe_options* options,
                                                    carnot_network** out_network) CARNOT_MUST_USE;
// As carnot_caffe_parse_files, into the main part of |network|, after the layers that it has. After
// an error the network is incomplete and may only be destroyed.
CARNOT_API carnot_status* carnot_network_add_caffe_files(
    carnot_network* network, const char* deploy_path, const char* model_path,
    const carnot_caffe_options* options) CARNOT_MUST_USE;
// As carnot_caffe_parse_memory, into the main part of |network|.
CARNOT_API carnot_status* carnot_network_add_caffe_memory(
    carnot_network* network, const void* deploy, size_t deploy_size, const void* model,
    size_t model_size, const carnot_caffe_options* options) CARNOT_MUST_USE;
// The tensor that blob |name| is at the end of the Caffe network last read into |network| (layers
// may write one blob several times). NULL where there is none.
CARNOT_API carnot_value* carnot_caffe_find_tensor(const carnot_network* network, const char* name);
// The blob in a serialized BlobProto (a mean image, .binaryproto) as float32 of its dimensions. The
// caller destroys the data, which holds a copy. INVALID_MODEL where the message breaks its format.
// Any thread. Source: caffe.proto, BlobProto.
CARNOT_API carnot_status* carnot_caffe_read_blob(const void* message, size_t size,
                                                 carnot_data** out_data) CARNOT_MUST_USE;
// True when |data| begins like the text of a Caffe network. Any thread.
CARNOT_API bool carnot_caffe_is_network(const void* data, size_t size);
// True when layers of |type| ("Convolution") can be read. Any thread.
CARNOT_API bool carnot_caffe_supports(const char* type);

// The type of layer |index| that can be read, and what of it is not supported in *out_note (NULL:
// nothing). NULL past the last. Any thread.
CARNOT_API const char* carnot_caffe_layer_type(size_t index, const char** out_note);

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_CAFFE_H_
