// TensorFlow's protobuf messages that the importer reads.
#ifndef CARNOT_IMPORT_TENSORFLOW_TF_PROTO_H_
#define CARNOT_IMPORT_TENSORFLOW_TF_PROTO_H_

#include "import/pb/pb.h"

typedef CARNOT_PB_LIST(int64_t) tf_int_list;
typedef CARNOT_PB_LIST(float) tf_float_list;
typedef CARNOT_PB_LIST(carnot_strview) tf_text_list;

typedef struct tf_dim {
  uint64_t present;
  int64_t size;  // -1: open
} tf_dim;

typedef struct tf_shape {
  uint64_t present;
  CARNOT_PB_LIST(tf_dim) dim;
  int64_t unknown_rank;
} tf_shape;

typedef struct tf_tensor {
  uint64_t present;
  int64_t dtype;
  tf_shape* tensor_shape;
  carnot_strview tensor_content;
  carnot_strview float_val, double_val, scomplex_val, dcomplex_val;  // packed numbers
  tf_int_list int_val, int64_val, half_val, bool_val, uint32_val, uint64_val;
  tf_text_list string_val;
} tf_tensor;

typedef struct tf_attr tf_attr;
typedef struct tf_function_name {
  uint64_t present;
  carnot_strview name;
} tf_function_name;

typedef struct tf_attr_list {
  uint64_t present;
  tf_text_list s;
  tf_int_list i, b, type;
  tf_float_list f;
  CARNOT_PB_LIST(tf_shape) shape;
  CARNOT_PB_LIST(tf_function_name) func;
} tf_attr_list;

enum {
  TF_HAS_LIST = 1,
  TF_HAS_S = 2,
  TF_HAS_I = 4,
  TF_HAS_F = 8,
  TF_HAS_B = 16,
  TF_HAS_TYPE = 32,
  TF_HAS_SHAPE = 64
};
typedef struct tf_attr_value {
  uint64_t present;  // TF_HAS_…
  tf_attr_list* list;
  carnot_strview s;
  int64_t i;
  float f;
  int64_t b, type;
  tf_shape* shape;
  tf_tensor* tensor;
  tf_function_name* func;
} tf_attr_value;

struct tf_attr {
  uint64_t present;
  carnot_strview key;
  tf_attr_value* value;
};

typedef struct tf_node {
  uint64_t present;
  carnot_strview name, op;
  tf_text_list input;
  CARNOT_PB_LIST(tf_attr) attr;
} tf_node;
typedef CARNOT_PB_LIST(tf_node) tf_node_list;

typedef struct tf_arg {
  uint64_t present;
  carnot_strview name;
} tf_arg;
typedef struct tf_signature {
  uint64_t present;
  carnot_strview name;
  CARNOT_PB_LIST(tf_arg) input_arg, output_arg;
} tf_signature;
typedef struct tf_return {
  uint64_t present;
  carnot_strview key, value;
} tf_return;
typedef struct tf_function {
  uint64_t present;
  tf_signature* signature;
  tf_node_list node_def;
  CARNOT_PB_LIST(tf_return) ret;
} tf_function;
typedef struct tf_library {
  uint64_t present;
  CARNOT_PB_LIST(tf_function) function;
} tf_library;
typedef struct tf_graph {
  uint64_t present;
  tf_node_list node;
  tf_library* library;
} tf_graph;

typedef struct tf_tensor_info {
  uint64_t present;
  carnot_strview name;  // "node:0"
} tf_tensor_info;
typedef struct tf_named_tensor {
  uint64_t present;
  carnot_strview key;
  tf_tensor_info* value;
} tf_named_tensor;
typedef CARNOT_PB_LIST(tf_named_tensor) tf_named_tensor_list;
typedef struct tf_signature_def {
  uint64_t present;
  tf_named_tensor_list inputs, outputs;
} tf_signature_def;
typedef struct tf_named_signature {
  uint64_t present;
  carnot_strview key;
  tf_signature_def* value;
} tf_named_signature;
typedef CARNOT_PB_LIST(tf_named_signature) tf_named_signature_list;
typedef struct tf_meta_info {
  uint64_t present;
  tf_text_list tags;
} tf_meta_info;
typedef struct tf_saver {
  uint64_t present;
  carnot_strview restore_op_name;
} tf_saver;
typedef struct tf_asset {
  uint64_t present;
  tf_tensor_info* tensor_info;
  carnot_strview filename;  // below "assets"
} tf_asset;
typedef struct tf_meta_graph {
  uint64_t present;
  tf_meta_info* meta_info_def;
  tf_graph* graph_def;
  tf_saver* saver_def;
  tf_named_signature_list signature_def;
  CARNOT_PB_LIST(tf_asset) asset_file_def;
} tf_meta_graph;
typedef struct tf_saved_model {
  uint64_t present;
  int64_t saved_model_schema_version;
  CARNOT_PB_LIST(tf_meta_graph) meta_graphs;
} tf_saved_model;

extern const carnot_pb_message carnot_tf_graph_message, carnot_tf_meta_graph_message,
    carnot_tf_saved_model_message, carnot_tf_shape_message;

#endif  // CARNOT_IMPORT_TENSORFLOW_TF_PROTO_H_
