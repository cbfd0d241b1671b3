// The messages of ONNX files as C structs (see import/pb/pb.h for how members map). Field names are
// ONNX's. Source: onnx.proto of ONNX, IR version 13.
#ifndef CARNOT_IMPORT_ONNX_ONNX_PROTO_H_
#define CARNOT_IMPORT_ONNX_ONNX_PROTO_H_

#include "import/pb/pb.h"

typedef struct onnx_graph onnx_graph;
typedef struct onnx_type onnx_type;
typedef struct onnx_sequence onnx_sequence;
typedef struct onnx_optional onnx_optional;
typedef struct onnx_map onnx_map;

typedef CARNOT_PB_LIST(carnot_strview) onnx_text_list;
typedef CARNOT_PB_LIST(int64_t) onnx_int_list;
typedef CARNOT_PB_LIST(float) onnx_float_list;

typedef struct onnx_string_entry {
  uint64_t present;
  carnot_strview key, value;
} onnx_string_entry;

typedef struct onnx_tensor {
  uint64_t present;
  onnx_int_list dims;
  int64_t data_type;
  carnot_strview float_data;  // packed
  onnx_int_list int32_data;
  onnx_text_list string_data;
  onnx_int_list int64_data;
  carnot_strview name;
  carnot_strview raw_data;
  CARNOT_PB_LIST(onnx_string_entry) external_data;
  int64_t data_location;
  carnot_strview double_data;  // packed
  onnx_int_list uint64_data;
} onnx_tensor;
// Bits of |present|, as of the enumerations ONNX_…_HAS_… below: of messages that Carnot writes.
enum { ONNX_TENSOR_HAS_DATA_TYPE = 2, ONNX_TENSOR_HAS_NAME = 64, ONNX_TENSOR_HAS_RAW_DATA = 128 };

typedef struct onnx_sparse_tensor {
  uint64_t present;
  onnx_tensor* values;
  onnx_tensor* indices;
  onnx_int_list dims;
} onnx_sparse_tensor;

typedef struct onnx_dimension {
  uint64_t present;
  int64_t dim_value;
  carnot_strview dim_param;
} onnx_dimension;
enum { ONNX_DIMENSION_HAS_VALUE = 1, ONNX_DIMENSION_HAS_PARAM = 2 };

typedef struct onnx_shape {
  uint64_t present;
  CARNOT_PB_LIST(onnx_dimension) dim;
} onnx_shape;

typedef struct onnx_tensor_type {
  uint64_t present;
  int64_t elem_type;
  onnx_shape* shape;
} onnx_tensor_type;

// Of a sequence or an optional.
typedef struct onnx_element_type {
  uint64_t present;
  onnx_type* elem_type;
} onnx_element_type;

typedef struct onnx_map_type {
  uint64_t present;
  int64_t key_type;
  onnx_type* value_type;
} onnx_map_type;

struct onnx_type {
  uint64_t present;
  onnx_tensor_type* tensor_type;
  onnx_element_type* sequence_type;
  onnx_map_type* map_type;
  onnx_tensor_type* sparse_tensor_type;
  onnx_element_type* optional_type;
};

typedef struct onnx_value_info {
  uint64_t present;
  carnot_strview name;
  onnx_type* type;
} onnx_value_info;

typedef CARNOT_PB_LIST(onnx_value_info) onnx_value_info_list;
typedef CARNOT_PB_LIST(onnx_tensor) onnx_tensor_list;

typedef struct onnx_attribute {
  uint64_t present;
  carnot_strview name, ref_attr_name;
  int64_t type;
  float f;
  int64_t i;
  carnot_strview s;
  onnx_tensor* t;
  onnx_graph* g;
  onnx_sparse_tensor* sparse_tensor;
  onnx_type* tp;
  onnx_float_list floats;
  onnx_int_list ints;
  onnx_text_list strings;
  onnx_tensor_list tensors;
} onnx_attribute;

// AttributeProto.AttributeType.
enum {
  ONNX_ATTRIBUTE_UNDEFINED = 0,
  ONNX_ATTRIBUTE_FLOAT = 1,
  ONNX_ATTRIBUTE_INT = 2,
  ONNX_ATTRIBUTE_STRING = 3,
  ONNX_ATTRIBUTE_TENSOR = 4,
  ONNX_ATTRIBUTE_GRAPH = 5,
  ONNX_ATTRIBUTE_FLOATS = 6,
  ONNX_ATTRIBUTE_INTS = 7,
  ONNX_ATTRIBUTE_STRINGS = 8,
  ONNX_ATTRIBUTE_TENSORS = 9,
  ONNX_ATTRIBUTE_SPARSE_TENSOR = 11,
  ONNX_ATTRIBUTE_TYPE_PROTO = 13,
};

enum { ONNX_ATTRIBUTE_HAS_NAME = 1, ONNX_ATTRIBUTE_HAS_I = 4, ONNX_ATTRIBUTE_HAS_TYPE = 2048 };

typedef CARNOT_PB_LIST(onnx_attribute) onnx_attribute_list;

typedef struct onnx_node {
  uint64_t present;
  onnx_text_list input, output;
  carnot_strview name, op_type, domain, overload;
  onnx_attribute_list attribute;
} onnx_node;

enum { ONNX_NODE_HAS_NAME = 4, ONNX_NODE_HAS_OP_TYPE = 8 };

typedef CARNOT_PB_LIST(onnx_node) onnx_node_list;

struct onnx_graph {
  uint64_t present;
  onnx_node_list node;
  carnot_strview name;
  onnx_tensor_list initializer;
  CARNOT_PB_LIST(onnx_sparse_tensor) sparse_initializer;
  onnx_value_info_list input, output, value_info;
};

typedef struct onnx_opset {
  uint64_t present;
  carnot_strview domain;
  int64_t version;
} onnx_opset;

typedef CARNOT_PB_LIST(onnx_opset) onnx_opset_list;

typedef struct onnx_function {
  uint64_t present;
  carnot_strview name, domain, overload;
  onnx_text_list input, output, attribute;
  onnx_attribute_list attribute_proto;
  onnx_node_list node;
  onnx_opset_list opset_import;
} onnx_function;

typedef struct onnx_model {
  uint64_t present;
  int64_t ir_version, model_version;
  carnot_strview producer_name, producer_version, domain;
  onnx_opset_list opset_import;
  onnx_graph* graph;
  CARNOT_PB_LIST(onnx_string_entry) metadata_props;
  CARNOT_PB_LIST(onnx_function) functions;
} onnx_model;
enum { ONNX_MODEL_HAS_IR_VERSION = 1 };

// The messages of onnx-data.proto, in which test data come.
struct onnx_sequence {
  uint64_t present;
  carnot_strview name;
  int64_t elem_type;
  onnx_tensor_list tensor_values;
  CARNOT_PB_LIST(onnx_sparse_tensor) sparse_tensor_values;
  CARNOT_PB_LIST(onnx_sequence) sequence_values;
  CARNOT_PB_LIST(onnx_map) map_values;
  CARNOT_PB_LIST(onnx_optional) optional_values;
};

struct onnx_map {
  uint64_t present;
  carnot_strview name;
  int64_t key_type;
  onnx_int_list keys;
  onnx_text_list string_keys;
  onnx_sequence* values;
};

struct onnx_optional {
  uint64_t present;
  carnot_strview name;
  int64_t elem_type;
  onnx_tensor* tensor_value;
  onnx_sparse_tensor* sparse_tensor_value;
  onnx_sequence* sequence_value;
  onnx_map* map_value;
  onnx_optional* optional_value;
};

extern const carnot_pb_message carnot_onnx_model_message;     // onnx_model
extern const carnot_pb_message carnot_onnx_graph_message;     // onnx_graph
extern const carnot_pb_message carnot_onnx_function_message;  // onnx_function
extern const carnot_pb_message carnot_onnx_tensor_message;    // onnx_tensor
extern const carnot_pb_message carnot_onnx_sparse_message;    // onnx_sparse_tensor
extern const carnot_pb_message carnot_onnx_type_message;      // onnx_type
extern const carnot_pb_message carnot_onnx_sequence_message;  // onnx_sequence
extern const carnot_pb_message carnot_onnx_optional_message;  // onnx_optional
extern const carnot_pb_message import_map_message;            // onnx_map

#endif  // CARNOT_IMPORT_ONNX_ONNX_PROTO_H_
