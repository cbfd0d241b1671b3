// Reading ONNX models into networks.
#ifndef CARNOT_ONNX_H_
#define CARNOT_ONNX_H_

#include "carnot/builder.h"
#include "carnot/data.h"
#include "carnot/network.h"

#ifdef __cplusplus
extern "C" {
#endif

// Reads the model at |path| (external data beside it); the caller owns the network, which keeps the
// file mapped. INVALID_MODEL where the file breaks its format, with the place; UNSUPPORTED with one
// line for every node without an operator: its name, operator, version and the reason. Any thread.
CARNOT_API carnot_status* carnot_onnx_parse_file(const char* path,
                                                 carnot_network** out_network) CARNOT_MUST_USE;
// The same for a model in memory, which must outlive the network. |folder| holds external data;
// NULL: none is read.
CARNOT_API carnot_status* carnot_onnx_parse_memory(const void* data, size_t size,
                                                   const char* folder,
                                                   carnot_network** out_network) CARNOT_MUST_USE;
// The same with a set of flags, CARNOT_ONNX_… joined by |; parse_file and parse_memory take
// CARNOT_ONNX_NATIVE_INSTANCENORM.
typedef enum carnot_onnx_flag {
  // InstanceNormalization is the built-in operator; without it the plugin InstanceNormalization_TRT
  // (built in too, or the one that is registered).
  CARNOT_ONNX_NATIVE_INSTANCENORM = 1,
  // A registered plugin replaces the built-in operator of its name.
  CARNOT_ONNX_ENABLE_PLUGIN_OVERRIDE = 2,
  // Normalizations that the model writes as several nodes stay as they are; without it each becomes
  // one layer on import. For debugging tensor by tensor.
  CARNOT_ONNX_KEEP_NODES = 4,
  // External data may be symbolic links to anywhere. Without it a link is followed only to a file
  // below the model's folder, beside the file that the model's own path leads to, or in the same
  // repository of a Hugging Face cache.
  CARNOT_ONNX_FOLLOW_LINKS = 8,
} carnot_onnx_flag;
// As carnot_onnx_parse_file, with |flags|.
CARNOT_API carnot_status* carnot_onnx_parse_file_with(const char* path, uint32_t flags,
                                                      carnot_network** out_network) CARNOT_MUST_USE;
// As carnot_onnx_parse_memory, with |flags|.
CARNOT_API carnot_status* carnot_onnx_parse_memory_with(
    const void* data, size_t size, const char* folder, uint32_t flags,
    carnot_network** out_network) CARNOT_MUST_USE;
// The same into the main part of |network|, after the layers that it has. After an error the
// network is incomplete and may only be destroyed.
CARNOT_API carnot_status* carnot_network_add_onnx_file(carnot_network* network, const char* path,
                                                       uint32_t flags) CARNOT_MUST_USE;
// The same from memory, which must outlive the network; |folder| as in carnot_onnx_parse_memory.
CARNOT_API carnot_status* carnot_network_add_onnx_memory(carnot_network* network, const void* data,
                                                         size_t size, const char* folder,
                                                         uint32_t flags) CARNOT_MUST_USE;
// Elements for an initializer of the main graph, instead of those in the file: of the type and
// dimensions that the model gives it, |size| in bytes, in the order of the machine.
typedef struct carnot_onnx_initializer {
  const char* name;
  const void* data;
  size_t size;
} carnot_onnx_initializer;
// As carnot_network_add_onnx_memory, with |initializers| [count], whose data must outlive the
// network too. NOT_FOUND names one that the model does not have, INVALID_ARGUMENT one of another
// size.
CARNOT_API carnot_status* carnot_network_add_onnx_with_initializers(
    carnot_network* network, const void* data, size_t size, const char* folder, uint32_t flags,
    const carnot_onnx_initializer* initializers, size_t count) CARNOT_MUST_USE;
// The size in bytes of an initializer of the main graph of the model in memory. NOT_FOUND where
// there is none of this name. Any thread.
CARNOT_API carnot_status* carnot_onnx_initializer_size(const void* data, size_t size,
                                                       const char* name,
                                                       size_t* out_bytes) CARNOT_MUST_USE;
// A node of a model's main graph; the texts live for the call.
typedef struct carnot_onnx_node {
  size_t index;
  const char *name, *domain, *op_type;
  const char* output;  // the first one, NULL: none
  int64_t version;     // of the opset of its domain; 0: the file names none
  bool is_function;    // a function of the model itself
} carnot_onnx_node;
// Calls |visit| for the nodes of the model in memory in their order until it returns false.
// INVALID_MODEL where the file breaks its format. Any thread.
CARNOT_API carnot_status* carnot_onnx_visit_nodes(const void* data, size_t size,
                                                  bool (*visit)(void* user,
                                                                const carnot_onnx_node* node),
                                                  void* user) CARNOT_MUST_USE;
// True when there is an operator, or a plugin of version 1, for |op_type| of |domain| ("" is ONNX's
// own) at opset |version|. Any thread.
CARNOT_API bool carnot_onnx_supports(const char* domain, const char* op_type, int64_t version);

// The tensor in a serialized TensorProto (a .pb file of the ONNX test data), numbers or text;
// |size| in bytes. The caller destroys the data, which holds a copy. INVALID_MODEL where the
// message breaks its format or refers to external data. Any thread. Source: onnx.proto,
// TensorProto.
CARNOT_API carnot_status* carnot_onnx_read_tensor(const void* message, size_t size,
                                                  carnot_data** out_data) CARNOT_MUST_USE;
// Writes to |path| a model with the nodes of the model at |model_path| that |outputs| need when
// |inputs| are given; other inputs of the model that they need stay inputs. Names are of tensors of
// the main graph; types come from |network|, the same model parsed with CARNOT_ONNX_KEEP_NODES.
// NOT_FOUND names a tensor that is not there. External data are not copied: |path| must then lie in
// the folder of the model. One thread at a time a network.
CARNOT_API carnot_status* carnot_onnx_extract_file(const char* model_path,
                                                   const carnot_network* network,
                                                   const char* const* inputs, size_t input_count,
                                                   const char* const* outputs, size_t output_count,
                                                   const char* path) CARNOT_MUST_USE;

// How carnot_onnx_quantize_file quantizes.
typedef struct carnot_onnx_quantize_options {
  // I8: int8 activations with symmetric ranges and int8 weights with a scale for each output
  // channel (opset 13); U8: uint8 activations with zero points, int8 weights; F8E4M3FN: both (opset
  // 19); I4: weights of GEMMs in blocks along K, activations stay (opset 21, no ranges needed).
  carnot_dtype type;
  // Quantizes results of layers too, as ONNX Runtime's kernels need it; else operands only.
  bool around_results;
  int block_size;  // of I4: a power of two from 16 on; 0: 32
  // Of F8E4M3FN: quantizes queries, keys, values and softmax's result of attention too.
  bool attention;
} carnot_onnx_quantize_options;
// Writes to |path| the model at |model_path| with QuantizeLinear and DequantizeLinear nodes around
// its convolutions and GEMMs with constant float32 weights. |network| is the same model parsed with
// CARNOT_ONNX_KEEP_NODES. |config| has the ranges (carnot_config_set_ranges) and the layers that
// stay as they are (those requested in another type than INT8); its log names layers without a
// range. Biases stay float32. *out_count is the number of layers quantized. INVALID_ARGUMENT where
// it is 0, FAILED_PRECONDITION where the model's opset is too old. One thread at a time a network.
// Source: ONNX QuantizeLinear-21, DequantizeLinear-21.
CARNOT_API carnot_status* carnot_onnx_quantize_file(const char* model_path,
                                                    const carnot_network* network,
                                                    const carnot_config* config,
                                                    const carnot_onnx_quantize_options* options,
                                                    const char* path,
                                                    size_t* out_count) CARNOT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_ONNX_H_
