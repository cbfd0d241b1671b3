// The fields of ONNX's protobuf messages that the importer reads, as tables for pb/store. Their
// order gives the bits ONNX_…_HAS_… of onnx_proto.h.
#include "import/onnx/onnx_proto.h"

#define MESSAGE(variable, text, struct_type, table) \
  const carnot_pb_message variable = {              \
      text, sizeof(struct_type), table, sizeof(table) / sizeof((table)[0]), NULL, NULL}

static const carnot_pb_field kStringEntry[] = {
    CARNOT_PB_ONE(onnx_string_entry, key, 1, TEXT),
    CARNOT_PB_ONE(onnx_string_entry, value, 2, TEXT),
};
static MESSAGE(kStringEntryMessage, "StringStringEntryProto", onnx_string_entry, kStringEntry);

static const carnot_pb_name kDataTypes[] = {{"UNDEFINED", 0},       {"FLOAT", 1},
                                            {"UINT8", 2},           {"INT8", 3},
                                            {"UINT16", 4},          {"INT16", 5},
                                            {"INT32", 6},           {"INT64", 7},
                                            {"STRING", 8},          {"BOOL", 9},
                                            {"FLOAT16", 10},        {"DOUBLE", 11},
                                            {"UINT32", 12},         {"UINT64", 13},
                                            {"COMPLEX64", 14},      {"COMPLEX128", 15},
                                            {"BFLOAT16", 16},       {"FLOAT8E4M3FN", 17},
                                            {"FLOAT8E4M3FNUZ", 18}, {"FLOAT8E5M2", 19},
                                            {"FLOAT8E5M2FNUZ", 20}, {"UINT4", 21},
                                            {"INT4", 22},           {"FLOAT4E2M1", 23},
                                            {"FLOAT8E8M0", 24},     {"UINT2", 25},
                                            {"INT2", 26},           {"FLOAT6E2M3", 27},
                                            {"FLOAT6E3M2", 28},     {NULL, 0}};
static const carnot_pb_name kDataLocations[] = {{"DEFAULT", 0}, {"EXTERNAL", 1}, {NULL, 0}};

static const carnot_pb_field kTensor[] = {
    CARNOT_PB_MANY(onnx_tensor, dims, 1, INT),
    CARNOT_PB_ENUM(onnx_tensor, data_type, 2, kDataTypes),
    CARNOT_PB_PACKED(onnx_tensor, float_data, 4, FLOAT),
    CARNOT_PB_MANY(onnx_tensor, int32_data, 5, INT),
    CARNOT_PB_MANY(onnx_tensor, string_data, 6, TEXT),
    CARNOT_PB_MANY(onnx_tensor, int64_data, 7, INT),
    CARNOT_PB_ONE(onnx_tensor, name, 8, TEXT),
    CARNOT_PB_ONE(onnx_tensor, raw_data, 9, TEXT),
    CARNOT_PB_SUBS(onnx_tensor, external_data, 13, &kStringEntryMessage),
    CARNOT_PB_ENUM(onnx_tensor, data_location, 14, kDataLocations),
    CARNOT_PB_PACKED(onnx_tensor, double_data, 10, DOUBLE),
    CARNOT_PB_MANY(onnx_tensor, uint64_data, 11, INT),
};
MESSAGE(carnot_onnx_tensor_message, "TensorProto", onnx_tensor, kTensor);

static const carnot_pb_field kSparse[] = {
    CARNOT_PB_SUB(onnx_sparse_tensor, values, 1, &carnot_onnx_tensor_message),
    CARNOT_PB_SUB(onnx_sparse_tensor, indices, 2, &carnot_onnx_tensor_message),
    CARNOT_PB_MANY(onnx_sparse_tensor, dims, 3, INT),
};
MESSAGE(carnot_onnx_sparse_message, "SparseTensorProto", onnx_sparse_tensor, kSparse);

static const carnot_pb_field kDimension[] = {
    CARNOT_PB_ONE(onnx_dimension, dim_value, 1, INT),
    CARNOT_PB_ONE(onnx_dimension, dim_param, 2, TEXT),
};
static MESSAGE(kDimensionMessage, "TensorShapeProto.Dimension", onnx_dimension, kDimension);

static const carnot_pb_field kShape[] = {
    CARNOT_PB_SUBS(onnx_shape, dim, 1, &kDimensionMessage),
};
static MESSAGE(kShapeMessage, "TensorShapeProto", onnx_shape, kShape);

static const carnot_pb_field kTensorType[] = {
    CARNOT_PB_ENUM(onnx_tensor_type, elem_type, 1, kDataTypes),
    CARNOT_PB_SUB(onnx_tensor_type, shape, 2, &kShapeMessage),
};
static MESSAGE(kTensorTypeMessage, "TypeProto.Tensor", onnx_tensor_type, kTensorType);

static const carnot_pb_field kElementType[] = {
    CARNOT_PB_SUB(onnx_element_type, elem_type, 1, &carnot_onnx_type_message),
};
static MESSAGE(kElementTypeMessage, "TypeProto.Sequence", onnx_element_type, kElementType);

static const carnot_pb_field kMapType[] = {
    CARNOT_PB_ENUM(onnx_map_type, key_type, 1, kDataTypes),
    CARNOT_PB_SUB(onnx_map_type, value_type, 2, &carnot_onnx_type_message),
};
static MESSAGE(kMapTypeMessage, "TypeProto.Map", onnx_map_type, kMapType);

static const carnot_pb_field kType[] = {
    CARNOT_PB_SUB(onnx_type, tensor_type, 1, &kTensorTypeMessage),
    CARNOT_PB_SUB(onnx_type, sequence_type, 4, &kElementTypeMessage),
    CARNOT_PB_SUB(onnx_type, map_type, 5, &kMapTypeMessage),
    CARNOT_PB_SUB(onnx_type, sparse_tensor_type, 8, &kTensorTypeMessage),
    CARNOT_PB_SUB(onnx_type, optional_type, 9, &kElementTypeMessage),
};
MESSAGE(carnot_onnx_type_message, "TypeProto", onnx_type, kType);

static const carnot_pb_field kValueInfo[] = {
    CARNOT_PB_ONE(onnx_value_info, name, 1, TEXT),
    CARNOT_PB_SUB(onnx_value_info, type, 2, &carnot_onnx_type_message),
};
static MESSAGE(kValueInfoMessage, "ValueInfoProto", onnx_value_info, kValueInfo);

static const carnot_pb_name kAttributeTypes[] = {
    {"UNDEFINED", 0},       {"FLOAT", 1},       {"INT", 2},          {"STRING", 3},
    {"TENSOR", 4},          {"GRAPH", 5},       {"FLOATS", 6},       {"INTS", 7},
    {"STRINGS", 8},         {"TENSORS", 9},     {"GRAPHS", 10},      {"SPARSE_TENSOR", 11},
    {"SPARSE_TENSORS", 12}, {"TYPE_PROTO", 13}, {"TYPE_PROTOS", 14}, {NULL, 0}};

static const carnot_pb_field kAttribute[] = {
    CARNOT_PB_ONE(onnx_attribute, name, 1, TEXT),
    CARNOT_PB_ONE(onnx_attribute, f, 2, FLOAT),
    CARNOT_PB_ONE(onnx_attribute, i, 3, INT),
    CARNOT_PB_ONE(onnx_attribute, s, 4, TEXT),
    CARNOT_PB_SUB(onnx_attribute, t, 5, &carnot_onnx_tensor_message),
    CARNOT_PB_SUB(onnx_attribute, g, 6, &carnot_onnx_graph_message),
    CARNOT_PB_MANY(onnx_attribute, floats, 7, FLOAT),
    CARNOT_PB_MANY(onnx_attribute, ints, 8, INT),
    CARNOT_PB_MANY(onnx_attribute, strings, 9, TEXT),
    CARNOT_PB_SUBS(onnx_attribute, tensors, 10, &carnot_onnx_tensor_message),
    CARNOT_PB_SUB(onnx_attribute, tp, 14, &carnot_onnx_type_message),
    CARNOT_PB_ENUM(onnx_attribute, type, 20, kAttributeTypes),
    CARNOT_PB_ONE(onnx_attribute, ref_attr_name, 21, TEXT),
    CARNOT_PB_SUB(onnx_attribute, sparse_tensor, 22, &carnot_onnx_sparse_message),
};
static MESSAGE(kAttributeMessage, "AttributeProto", onnx_attribute, kAttribute);

static const carnot_pb_field kNode[] = {
    CARNOT_PB_MANY(onnx_node, input, 1, TEXT),
    CARNOT_PB_MANY(onnx_node, output, 2, TEXT),
    CARNOT_PB_ONE(onnx_node, name, 3, TEXT),
    CARNOT_PB_ONE(onnx_node, op_type, 4, TEXT),
    CARNOT_PB_SUBS(onnx_node, attribute, 5, &kAttributeMessage),
    CARNOT_PB_ONE(onnx_node, domain, 7, TEXT),
    CARNOT_PB_ONE(onnx_node, overload, 8, TEXT),
};
static MESSAGE(kNodeMessage, "NodeProto", onnx_node, kNode);

static const carnot_pb_field kGraph[] = {
    CARNOT_PB_SUBS(onnx_graph, node, 1, &kNodeMessage),
    CARNOT_PB_ONE(onnx_graph, name, 2, TEXT),
    CARNOT_PB_SUBS(onnx_graph, initializer, 5, &carnot_onnx_tensor_message),
    CARNOT_PB_SUBS(onnx_graph, input, 11, &kValueInfoMessage),
    CARNOT_PB_SUBS(onnx_graph, output, 12, &kValueInfoMessage),
    CARNOT_PB_SUBS(onnx_graph, value_info, 13, &kValueInfoMessage),
    CARNOT_PB_SUBS(onnx_graph, sparse_initializer, 15, &carnot_onnx_sparse_message),
};
MESSAGE(carnot_onnx_graph_message, "GraphProto", onnx_graph, kGraph);

static const carnot_pb_field kOpset[] = {
    CARNOT_PB_ONE(onnx_opset, domain, 1, TEXT),
    CARNOT_PB_ONE(onnx_opset, version, 2, INT),
};
static MESSAGE(kOpsetMessage, "OperatorSetIdProto", onnx_opset, kOpset);

static const carnot_pb_field kFunction[] = {
    CARNOT_PB_ONE(onnx_function, name, 1, TEXT),
    CARNOT_PB_MANY(onnx_function, input, 4, TEXT),
    CARNOT_PB_MANY(onnx_function, output, 5, TEXT),
    CARNOT_PB_MANY(onnx_function, attribute, 6, TEXT),
    CARNOT_PB_SUBS(onnx_function, node, 7, &kNodeMessage),
    CARNOT_PB_SUBS(onnx_function, opset_import, 9, &kOpsetMessage),
    CARNOT_PB_ONE(onnx_function, domain, 10, TEXT),
    CARNOT_PB_SUBS(onnx_function, attribute_proto, 11, &kAttributeMessage),
    CARNOT_PB_ONE(onnx_function, overload, 13, TEXT),
};
MESSAGE(carnot_onnx_function_message, "FunctionProto", onnx_function, kFunction);

static const carnot_pb_field kModel[] = {
    CARNOT_PB_ONE(onnx_model, ir_version, 1, INT),
    CARNOT_PB_ONE(onnx_model, producer_name, 2, TEXT),
    CARNOT_PB_ONE(onnx_model, producer_version, 3, TEXT),
    CARNOT_PB_ONE(onnx_model, domain, 4, TEXT),
    CARNOT_PB_ONE(onnx_model, model_version, 5, INT),
    CARNOT_PB_SUB(onnx_model, graph, 7, &carnot_onnx_graph_message),
    CARNOT_PB_SUBS(onnx_model, opset_import, 8, &kOpsetMessage),
    CARNOT_PB_SUBS(onnx_model, metadata_props, 14, &kStringEntryMessage),
    CARNOT_PB_SUBS(onnx_model, functions, 25, &carnot_onnx_function_message),
};
MESSAGE(carnot_onnx_model_message, "ModelProto", onnx_model, kModel);

static const carnot_pb_field kSequence[] = {
    CARNOT_PB_ONE(onnx_sequence, name, 1, TEXT),
    CARNOT_PB_ONE(onnx_sequence, elem_type, 2, INT),
    CARNOT_PB_SUBS(onnx_sequence, tensor_values, 3, &carnot_onnx_tensor_message),
    CARNOT_PB_SUBS(onnx_sequence, sparse_tensor_values, 4, &carnot_onnx_sparse_message),
    CARNOT_PB_SUBS(onnx_sequence, sequence_values, 5, &carnot_onnx_sequence_message),
    CARNOT_PB_SUBS(onnx_sequence, map_values, 6, &import_map_message),
    CARNOT_PB_SUBS(onnx_sequence, optional_values, 7, &carnot_onnx_optional_message),
};
MESSAGE(carnot_onnx_sequence_message, "SequenceProto", onnx_sequence, kSequence);

static const carnot_pb_field kMap[] = {
    CARNOT_PB_ONE(onnx_map, name, 1, TEXT),
    CARNOT_PB_ONE(onnx_map, key_type, 2, INT),
    CARNOT_PB_MANY(onnx_map, keys, 3, INT),
    CARNOT_PB_MANY(onnx_map, string_keys, 4, TEXT),
    CARNOT_PB_SUB(onnx_map, values, 5, &carnot_onnx_sequence_message),
};
MESSAGE(import_map_message, "MapProto", onnx_map, kMap);

static const carnot_pb_field kOptional[] = {
    CARNOT_PB_ONE(onnx_optional, name, 1, TEXT),
    CARNOT_PB_ONE(onnx_optional, elem_type, 2, INT),
    CARNOT_PB_SUB(onnx_optional, tensor_value, 3, &carnot_onnx_tensor_message),
    CARNOT_PB_SUB(onnx_optional, sparse_tensor_value, 4, &carnot_onnx_sparse_message),
    CARNOT_PB_SUB(onnx_optional, sequence_value, 5, &carnot_onnx_sequence_message),
    CARNOT_PB_SUB(onnx_optional, map_value, 6, &import_map_message),
    CARNOT_PB_SUB(onnx_optional, optional_value, 7, &carnot_onnx_optional_message),
};
MESSAGE(carnot_onnx_optional_message, "OptionalProto", onnx_optional, kOptional);
