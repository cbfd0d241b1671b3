// TensorFlow's messages as tables. Source: graph.proto, node_def.proto, attr_value.proto,
// tensor.proto, function.proto, meta_graph.proto, saved_model.proto of TensorFlow 2.
#include "import/tensorflow/tf_proto.h"

#define MESSAGE(variable, text, struct_type, table) \
  const carnot_pb_message variable = {              \
      text, sizeof(struct_type), table, sizeof(table) / sizeof((table)[0]), NULL, NULL}

static const carnot_pb_name kTypes[] = {
    {"DT_FLOAT", 1},        {"DT_DOUBLE", 2},      {"DT_INT32", 3},       {"DT_UINT8", 4},
    {"DT_INT16", 5},        {"DT_INT8", 6},        {"DT_STRING", 7},      {"DT_COMPLEX64", 8},
    {"DT_INT64", 9},        {"DT_BOOL", 10},       {"DT_QINT8", 11},      {"DT_QUINT8", 12},
    {"DT_QINT32", 13},      {"DT_BFLOAT16", 14},   {"DT_QINT16", 15},     {"DT_QUINT16", 16},
    {"DT_UINT16", 17},      {"DT_COMPLEX128", 18}, {"DT_HALF", 19},       {"DT_RESOURCE", 20},
    {"DT_VARIANT", 21},     {"DT_UINT32", 22},     {"DT_UINT64", 23},     {"DT_FLOAT_REF", 101},
    {"DT_DOUBLE_REF", 102}, {"DT_INT32_REF", 103}, {"DT_INT64_REF", 109}, {NULL, 0}};

static const carnot_pb_field kDim[] = {CARNOT_PB_ONE(tf_dim, size, 1, INT)};
static MESSAGE(kDimMessage, "TensorShapeProto.Dim", tf_dim, kDim);
static const carnot_pb_field kShape[] = {CARNOT_PB_SUBS(tf_shape, dim, 2, &kDimMessage),
                                         CARNOT_PB_ONE(tf_shape, unknown_rank, 3, INT)};
MESSAGE(carnot_tf_shape_message, "TensorShapeProto", tf_shape, kShape);

static const carnot_pb_field kTensor[] = {
    CARNOT_PB_ENUM(tf_tensor, dtype, 1, kTypes),
    CARNOT_PB_SUB(tf_tensor, tensor_shape, 2, &carnot_tf_shape_message),
    CARNOT_PB_ONE(tf_tensor, tensor_content, 4, TEXT),
    CARNOT_PB_PACKED(tf_tensor, float_val, 5, FLOAT),
    CARNOT_PB_PACKED(tf_tensor, double_val, 6, DOUBLE),
    CARNOT_PB_MANY(tf_tensor, int_val, 7, INT),
    CARNOT_PB_MANY(tf_tensor, string_val, 8, TEXT),
    CARNOT_PB_PACKED(tf_tensor, scomplex_val, 9, FLOAT),
    CARNOT_PB_MANY(tf_tensor, int64_val, 10, INT),
    CARNOT_PB_MANY(tf_tensor, bool_val, 11, INT),
    CARNOT_PB_PACKED(tf_tensor, dcomplex_val, 12, DOUBLE),
    CARNOT_PB_MANY(tf_tensor, half_val, 13, INT),
    CARNOT_PB_MANY(tf_tensor, uint32_val, 16, INT),
    CARNOT_PB_MANY(tf_tensor, uint64_val, 17, INT),
};
static MESSAGE(kTensorMessage, "TensorProto", tf_tensor, kTensor);

static const carnot_pb_field kFunctionName[] = {CARNOT_PB_ONE(tf_function_name, name, 1, TEXT)};
static MESSAGE(kFunctionNameMessage, "NameAttrList", tf_function_name, kFunctionName);
static const carnot_pb_field kAttrList[] = {
    CARNOT_PB_MANY(tf_attr_list, s, 2, TEXT),
    CARNOT_PB_MANY(tf_attr_list, i, 3, INT),
    CARNOT_PB_MANY(tf_attr_list, f, 4, FLOAT),
    CARNOT_PB_MANY(tf_attr_list, b, 5, INT),
    {6, CARNOT_PB_INT, true, false, offsetof(tf_attr_list, type), "type", NULL, kTypes},
    CARNOT_PB_SUBS(tf_attr_list, shape, 7, &carnot_tf_shape_message),
    CARNOT_PB_SUBS(tf_attr_list, func, 9, &kFunctionNameMessage),
};
static MESSAGE(kAttrListMessage, "AttrValue.ListValue", tf_attr_list, kAttrList);
// The order gives the bits TF_HAS_….
static const carnot_pb_field kAttrValue[] = {
    CARNOT_PB_SUB(tf_attr_value, list, 1, &kAttrListMessage),
    CARNOT_PB_ONE(tf_attr_value, s, 2, TEXT),
    CARNOT_PB_ONE(tf_attr_value, i, 3, INT),
    CARNOT_PB_ONE(tf_attr_value, f, 4, FLOAT),
    CARNOT_PB_ONE(tf_attr_value, b, 5, INT),
    CARNOT_PB_ENUM(tf_attr_value, type, 6, kTypes),
    CARNOT_PB_SUB(tf_attr_value, shape, 7, &carnot_tf_shape_message),
    CARNOT_PB_SUB(tf_attr_value, tensor, 8, &kTensorMessage),
    CARNOT_PB_SUB(tf_attr_value, func, 10, &kFunctionNameMessage),
};
static MESSAGE(kAttrValueMessage, "AttrValue", tf_attr_value, kAttrValue);
static const carnot_pb_field kAttr[] = {CARNOT_PB_ONE(tf_attr, key, 1, TEXT),
                                        CARNOT_PB_SUB(tf_attr, value, 2, &kAttrValueMessage)};
static MESSAGE(kAttrMessage, "NodeDef.AttrEntry", tf_attr, kAttr);

static const carnot_pb_field kNode[] = {
    CARNOT_PB_ONE(tf_node, name, 1, TEXT),
    CARNOT_PB_ONE(tf_node, op, 2, TEXT),
    CARNOT_PB_MANY(tf_node, input, 3, TEXT),
    CARNOT_PB_SUBS(tf_node, attr, 5, &kAttrMessage),
};
static MESSAGE(kNodeMessage, "NodeDef", tf_node, kNode);

static const carnot_pb_field kArg[] = {CARNOT_PB_ONE(tf_arg, name, 1, TEXT)};
static MESSAGE(kArgMessage, "OpDef.ArgDef", tf_arg, kArg);
static const carnot_pb_field kSignature[] = {
    CARNOT_PB_ONE(tf_signature, name, 1, TEXT),
    CARNOT_PB_SUBS(tf_signature, input_arg, 2, &kArgMessage),
    CARNOT_PB_SUBS(tf_signature, output_arg, 3, &kArgMessage)};
static MESSAGE(kSignatureMessage, "OpDef", tf_signature, kSignature);
static const carnot_pb_field kReturn[] = {CARNOT_PB_ONE(tf_return, key, 1, TEXT),
                                          CARNOT_PB_ONE(tf_return, value, 2, TEXT)};
static MESSAGE(kReturnMessage, "FunctionDef.RetEntry", tf_return, kReturn);
static const carnot_pb_field kFunction[] = {
    CARNOT_PB_SUB(tf_function, signature, 1, &kSignatureMessage),
    CARNOT_PB_SUBS(tf_function, node_def, 3, &kNodeMessage),
    CARNOT_PB_SUBS(tf_function, ret, 4, &kReturnMessage)};
static MESSAGE(kFunctionMessage, "FunctionDef", tf_function, kFunction);
static const carnot_pb_field kLibrary[] = {
    CARNOT_PB_SUBS(tf_library, function, 1, &kFunctionMessage)};
static MESSAGE(kLibraryMessage, "FunctionDefLibrary", tf_library, kLibrary);
static const carnot_pb_field kGraph[] = {CARNOT_PB_SUBS(tf_graph, node, 1, &kNodeMessage),
                                         CARNOT_PB_SUB(tf_graph, library, 2, &kLibraryMessage)};
MESSAGE(carnot_tf_graph_message, "GraphDef", tf_graph, kGraph);

static const carnot_pb_field kTensorInfo[] = {CARNOT_PB_ONE(tf_tensor_info, name, 1, TEXT)};
static MESSAGE(kTensorInfoMessage, "TensorInfo", tf_tensor_info, kTensorInfo);
static const carnot_pb_field kNamedTensor[] = {
    CARNOT_PB_ONE(tf_named_tensor, key, 1, TEXT),
    CARNOT_PB_SUB(tf_named_tensor, value, 2, &kTensorInfoMessage)};
static MESSAGE(kNamedTensorMessage, "SignatureDef.Entry", tf_named_tensor, kNamedTensor);
static const carnot_pb_field kSignatureDef[] = {
    CARNOT_PB_SUBS(tf_signature_def, inputs, 1, &kNamedTensorMessage),
    CARNOT_PB_SUBS(tf_signature_def, outputs, 2, &kNamedTensorMessage)};
static MESSAGE(kSignatureDefMessage, "SignatureDef", tf_signature_def, kSignatureDef);
static const carnot_pb_field kNamedSignature[] = {
    CARNOT_PB_ONE(tf_named_signature, key, 1, TEXT),
    CARNOT_PB_SUB(tf_named_signature, value, 2, &kSignatureDefMessage)};
static MESSAGE(kNamedSignatureMessage, "MetaGraphDef.SignatureDefEntry", tf_named_signature,
               kNamedSignature);
static const carnot_pb_field kMetaInfo[] = {CARNOT_PB_MANY(tf_meta_info, tags, 4, TEXT)};
static MESSAGE(kMetaInfoMessage, "MetaInfoDef", tf_meta_info, kMetaInfo);
static const carnot_pb_field kSaver[] = {CARNOT_PB_ONE(tf_saver, restore_op_name, 3, TEXT)};
static MESSAGE(kSaverMessage, "SaverDef", tf_saver, kSaver);
static const carnot_pb_field kAsset[] = {
    CARNOT_PB_SUB(tf_asset, tensor_info, 1, &kTensorInfoMessage),
    CARNOT_PB_ONE(tf_asset, filename, 2, TEXT)};
static MESSAGE(kAssetMessage, "AssetFileDef", tf_asset, kAsset);
static const carnot_pb_field kMetaGraph[] = {
    CARNOT_PB_SUB(tf_meta_graph, meta_info_def, 1, &kMetaInfoMessage),
    CARNOT_PB_SUB(tf_meta_graph, graph_def, 2, &carnot_tf_graph_message),
    CARNOT_PB_SUB(tf_meta_graph, saver_def, 3, &kSaverMessage),
    CARNOT_PB_SUBS(tf_meta_graph, signature_def, 5, &kNamedSignatureMessage),
    CARNOT_PB_SUBS(tf_meta_graph, asset_file_def, 6, &kAssetMessage)};
MESSAGE(carnot_tf_meta_graph_message, "MetaGraphDef", tf_meta_graph, kMetaGraph);
static const carnot_pb_field kSavedModel[] = {
    CARNOT_PB_ONE(tf_saved_model, saved_model_schema_version, 1, INT),
    CARNOT_PB_SUBS(tf_saved_model, meta_graphs, 2, &carnot_tf_meta_graph_message)};
MESSAGE(carnot_tf_saved_model_message, "SavedModel", tf_saved_model, kSavedModel);
