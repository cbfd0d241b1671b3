// Caffe's messages as tables. Source: caffe.proto of BVLC/caffe and of its forks SSD, NVCaffe and
// SegNet. Numbers of the text tables are not used: texts name their fields.
#include "import/caffe/caffe_params.h"

#define MESSAGE(variable, text, struct_type, table) \
  const carnot_pb_message variable = {              \
      text, sizeof(struct_type), table, sizeof(table) / sizeof((table)[0]), NULL, NULL}
// A closed message: |more| are the fields that it has beside those of the table.
#define CLOSED_MESSAGE(variable, text, struct_type, table, more) \
  const carnot_pb_message variable = {                           \
      text, sizeof(struct_type), table, sizeof(table) / sizeof((table)[0]), more, NULL}

static const carnot_pb_field kShape[] = {CARNOT_PB_MANY(caffe_shape, dim, 1, INT)};
static MESSAGE(kShapeMessage, "BlobShape", caffe_shape, kShape);

static const carnot_pb_name kRawTypes[] = {{"DOUBLE", CAFFE_RAW_DOUBLE},
                                           {"FLOAT", CAFFE_RAW_FLOAT},
                                           {"FLOAT16", CAFFE_RAW_HALF},
                                           {NULL, 0}};
static const carnot_pb_field kBlob[] = {
    CARNOT_PB_ONE(caffe_blob, num, 1, INT),
    CARNOT_PB_ONE(caffe_blob, channels, 2, INT),
    CARNOT_PB_ONE(caffe_blob, height, 3, INT),
    CARNOT_PB_ONE(caffe_blob, width, 4, INT),
    CARNOT_PB_PACKED(caffe_blob, data, 5, FLOAT),
    CARNOT_PB_SUB(caffe_blob, shape, 7, &kShapeMessage),
    CARNOT_PB_PACKED(caffe_blob, double_data, 8, DOUBLE),
    CARNOT_PB_ENUM(caffe_blob, raw_data_type, 10, kRawTypes),
    CARNOT_PB_ONE(caffe_blob, raw_data, 12, TEXT),
};
MESSAGE(carnot_caffe_blob_wire, "BlobProto", caffe_blob, kBlob);

static const carnot_pb_name kPhases[] = {{"TRAIN", 0}, {"TEST", 1}, {NULL, 0}};
static const carnot_pb_field kRule[] = {
    CARNOT_PB_ENUM(caffe_rule, phase, 1, kPhases),  CARNOT_PB_ONE(caffe_rule, min_level, 2, INT),
    CARNOT_PB_ONE(caffe_rule, max_level, 3, INT),   CARNOT_PB_MANY(caffe_rule, stage, 4, TEXT),
    CARNOT_PB_MANY(caffe_rule, not_stage, 5, TEXT),
};
static MESSAGE(kRuleMessage, "NetStateRule", caffe_rule, kRule);
static const carnot_pb_field kState[] = {CARNOT_PB_ENUM(caffe_state, phase, 1, kPhases),
                                         CARNOT_PB_ONE(caffe_state, level, 2, INT),
                                         CARNOT_PB_MANY(caffe_state, stage, 3, TEXT)};
static MESSAGE(kStateMessage, "NetState", caffe_state, kState);

static const carnot_pb_field kFiller[] = {CARNOT_PB_ONE(caffe_filler, type, 1, TEXT),
                                          CARNOT_PB_ONE(caffe_filler, value, 2, FLOAT)};
static MESSAGE(kFillerMessage, "FillerParameter", caffe_filler, kFiller);

// ---- parameters of layers ----

#define ONE(member, KIND) CARNOT_PB_ONE(caffe_params, member, 1, KIND)
#define I(member)         CARNOT_PB_ONE(caffe_params, member, 1, INT)
#define F(member)         CARNOT_PB_ONE(caffe_params, member, 1, FLOAT)
#define IS(member)        CARNOT_PB_MANY(caffe_params, member, 1, INT)
#define FS(member)        CARNOT_PB_MANY(caffe_params, member, 1, FLOAT)
#define E(member, names)  CARNOT_PB_ENUM(caffe_params, member, 1, names)
#define SHAPES            CARNOT_PB_SUBS(caffe_params, shape, 1, &kShapeMessage)
#define FILLER            CARNOT_PB_SUB(caffe_params, filler, 1, &kFillerMessage)
// A list whose text name is that of a number elsewhere.
#define NAMED_LIST(member, text) \
  { 1, CARNOT_PB_INT, true, false, offsetof(caffe_params, member), text, NULL, NULL }

static const carnot_pb_name kPools[] = {{"MAX", 0}, {"AVE", 1}, {"STOCHASTIC", 2}, {NULL, 0}};
static const carnot_pb_name kRounds[] = {{"CEIL", 0}, {"FLOOR", 1}, {NULL, 0}};
static const carnot_pb_name kRegions[] = {{"ACROSS_CHANNELS", 0}, {"WITHIN_CHANNEL", 1}, {NULL, 0}};
static const carnot_pb_name kEltwiseNames[] = {
    {"PROD", 0}, {"SUM", 1}, {"MAX", 2}, {"MIN", 3}, {NULL, 0}};
static const carnot_pb_name kReductionNames[] = {
    {"SUM", 1}, {"ASUM", 2}, {"SUMSQ", 3}, {"MEAN", 4}, {NULL, 0}};
static const carnot_pb_name kCodes[] = {
    {"CORNER", 1}, {"CENTER_SIZE", 2}, {"CORNER_SIZE", 3}, {NULL, 0}};

#define WINDOW                                                                                     \
  IS(pad), I(pad_h), I(pad_w), IS(kernel_size), I(kernel_h), I(kernel_w), IS(stride), I(stride_h), \
      I(stride_w)

static const carnot_pb_field kArgMax[] = {I(out_max_val), I(top_k), I(axis)};
static const carnot_pb_field kBatchNorm[] = {F(eps), I(use_global_stats)};
static const carnot_pb_field kConcat[] = {I(axis), I(concat_dim)};
static const carnot_pb_field kConvolution[] = {
    WINDOW, IS(dilation), I(num_output), I(bias_term), I(group), I(axis), I(force_nd_im2col)};
static const carnot_pb_field kClip[] = {F(min), F(max)};
static const carnot_pb_field kCrop[] = {I(axis), FS(offset)};
static const carnot_pb_field kNms[] = {F(nms_threshold), I(top_k), F(eta)};
MESSAGE(carnot_caffe_nms_text, "NonMaximumSuppressionParameter", caffe_params, kNms);
static const carnot_pb_field kDetection[] = {
    I(num_classes),
    I(share_location),
    I(background_label_id),
    E(code_type, kCodes),
    I(variance_encoded_in_target),
    I(keep_top_k),
    F(confidence_threshold),
    CARNOT_PB_SUB(caffe_params, nms_param, 1, &carnot_caffe_nms_text)};
static const carnot_pb_field kDummy[] = {
    SHAPES,
    CARNOT_PB_SUBS(caffe_params, data_filler, 1, &kFillerMessage),
    NAMED_LIST(num_list, "num"),
    NAMED_LIST(channels_list, "channels"),
    NAMED_LIST(height_list, "height"),
    NAMED_LIST(width_list, "width")};
static const carnot_pb_field kEltwise[] = {E(operation, kEltwiseNames), FS(coeff)};
static const carnot_pb_field kElu[] = {F(alpha)};
static const carnot_pb_field kEmbed[] = {I(num_output), I(input_dim), I(bias_term)};
static const carnot_pb_field kExp[] = {F(base), FS(scale), F(shift)};
static const carnot_pb_field kFlatten[] = {I(axis), I(end_axis)};
static const carnot_pb_field kInnerProduct[] = {I(num_output), I(bias_term), I(axis), I(transpose)};
static const carnot_pb_field kInput[] = {SHAPES};
static const carnot_pb_field kInterp[] = {I(height),        I(width),   I(zoom_factor),
                                          I(shrink_factor), I(pad_beg), I(pad_end)};
static const carnot_pb_field kLrn[] = {I(local_size), F(alpha), F(beta), E(norm_region, kRegions),
                                       F(k)};
static const carnot_pb_field kMvn[] = {I(normalize_variance), I(across_channels), F(eps)};
static const carnot_pb_field kNorm[] = {I(across_spatial), I(channel_shared), F(eps)};
static const carnot_pb_field kPermute[] = {IS(order)};
static const carnot_pb_field kPooling[] = {
    WINDOW,           E(pool, kPools), I(global_pooling), E(round_mode, kRounds),
    I(torch_pooling), I(ceil_mode)};
static const carnot_pb_field kPower[] = {F(power), FS(scale), F(shift)};
static const carnot_pb_field kPrelu[] = {I(channel_shared)};
static const carnot_pb_field kPriorBox[] = {
    FS(min_size), FS(max_size), FS(aspect_ratio), I(flip),   I(clip),   FS(variance), I(img_size),
    I(img_h),     I(img_w),     F(step),          F(step_h), F(step_w), FS(offset)};
static const carnot_pb_field kProposal[] = {I(feat_stride),   I(base_size), FS(min_size),
                                            FS(ratio),        FS(scale),    I(pre_nms_topn),
                                            I(post_nms_topn), F(nms_thresh)};
static const carnot_pb_field kPsRoi[] = {F(spatial_scale), I(output_dim), I(group_size)};
static const carnot_pb_field kPython[] = {ONE(module, TEXT)};
static const carnot_pb_field kRecurrent[] = {I(num_output), I(expose_hidden)};
static const carnot_pb_field kReduction[] = {E(operation, kReductionNames), I(axis), FS(coeff)};
static const carnot_pb_field kRegion[] = {I(classes),     I(coords),  I(num),
                                          I(num_classes), I(softmax), I(do_softmax)};
static const carnot_pb_field kRelu[] = {F(negative_slope)};
static const carnot_pb_field kReorg[] = {IS(stride), I(reverse)};
static const carnot_pb_field kReshape[] = {SHAPES, I(axis), I(num_axes)};
static const carnot_pb_field kRoi[] = {I(pooled_h), I(pooled_w), F(spatial_scale)};
static const carnot_pb_field kScale[] = {I(axis), I(num_axes), I(bias_term), FILLER};
static const carnot_pb_field kShuffle[] = {I(group)};
static const carnot_pb_field kSlice[] = {I(axis), IS(slice_point), I(slice_dim)};
static const carnot_pb_field kSoftmax[] = {I(axis)};
static const carnot_pb_field kSpp[] = {I(pyramid_height), E(pool, kPools)};
static const carnot_pb_field kSwish[] = {F(beta)};
static const carnot_pb_field kThreshold[] = {F(threshold)};
static const carnot_pb_field kTile[] = {I(axis), I(tiles)};
static const carnot_pb_field kUpsample[] = {
    FS(scale), I(upsample_h), I(upsample_w), I(pad_out_h), I(pad_out_w), I(scale_h), I(scale_w)};

#define PARAMS(name, table) static MESSAGE(name##_message, #name, caffe_params, table)
// Of BVLC/caffe, with the fields that concern training or the choice of kernels. A misspelt field
// would else be a default in silence. The messages of forks differ between forks and stay open.
#define CLOSED_PARAMS(name, table, more) \
  static CLOSED_MESSAGE(name##_message, #name, caffe_params, table, more)
CLOSED_PARAMS(argmax_param, kArgMax, "");
CLOSED_PARAMS(batch_norm_param, kBatchNorm,
              "moving_average_fraction scale_filler bias_filler scale_bias engine");
CLOSED_PARAMS(clip_param, kClip, "");
CLOSED_PARAMS(concat_param, kConcat, "");
CLOSED_PARAMS(convolution_param, kConvolution,
              "weight_filler bias_filler engine cudnn_convolution_algo_seeker conv_algos_override "
              "cudnn_math_override");
CLOSED_PARAMS(crop_param, kCrop, "");
PARAMS(detection_output_param, kDetection);
CLOSED_PARAMS(dummy_data_param, kDummy, "");
CLOSED_PARAMS(eltwise_param, kEltwise, "stable_prod_grad");
CLOSED_PARAMS(elu_param, kElu, "");
CLOSED_PARAMS(embed_param, kEmbed, "weight_filler bias_filler");
CLOSED_PARAMS(exp_param, kExp, "");
CLOSED_PARAMS(flatten_param, kFlatten, "");
CLOSED_PARAMS(inner_product_param, kInnerProduct, "weight_filler bias_filler");
CLOSED_PARAMS(input_param, kInput, "");
PARAMS(interp_param, kInterp);
CLOSED_PARAMS(lrn_param, kLrn, "engine");
CLOSED_PARAMS(mvn_param, kMvn, "");
PARAMS(norm_param, kNorm);
PARAMS(permute_param, kPermute);
CLOSED_PARAMS(pooling_param, kPooling, "engine");
CLOSED_PARAMS(power_param, kPower, "");
CLOSED_PARAMS(prelu_param, kPrelu, "filler");
PARAMS(prior_box_param, kPriorBox);
PARAMS(proposal_param, kProposal);
PARAMS(psroi_pooling_param, kPsRoi);
PARAMS(python_param, kPython);
CLOSED_PARAMS(recurrent_param, kRecurrent, "weight_filler bias_filler debug_info");
CLOSED_PARAMS(reduction_param, kReduction, "");
PARAMS(region_param, kRegion);
CLOSED_PARAMS(relu_param, kRelu, "engine");
PARAMS(reorg_param, kReorg);
CLOSED_PARAMS(reshape_param, kReshape, "");
PARAMS(roi_pooling_param, kRoi);
CLOSED_PARAMS(scale_param, kScale, "bias_filler");
PARAMS(shuffle_channel_param, kShuffle);
CLOSED_PARAMS(slice_param, kSlice, "");
CLOSED_PARAMS(softmax_param, kSoftmax, "engine");
CLOSED_PARAMS(spp_param, kSpp, "engine");
CLOSED_PARAMS(swish_param, kSwish, "");
CLOSED_PARAMS(threshold_param, kThreshold, "");
CLOSED_PARAMS(tile_param, kTile, "");
PARAMS(upsample_param, kUpsample);

// The parameters of a layer: messages of one struct, by their index in |params|.
#define OF_LAYER(index, name)                                                                    \
  {                                                                                              \
    1, CARNOT_PB_MESSAGE, false, false,                                                          \
        offsetof(caffe_layer, params) + (index) * sizeof(caffe_params*), #name, &name##_message, \
        NULL                                                                                     \
  }
#define AS(index, text, name)                                                                   \
  {                                                                                             \
    1, CARNOT_PB_MESSAGE, false, false,                                                         \
        offsetof(caffe_layer, params) + (index) * sizeof(caffe_params*), text, &name##_message, \
        NULL                                                                                    \
  }
#define ALL_PARAMS                                                                                 \
  OF_LAYER(0, argmax_param), OF_LAYER(1, batch_norm_param), OF_LAYER(2, clip_param),               \
      OF_LAYER(3, concat_param), OF_LAYER(4, convolution_param), OF_LAYER(5, crop_param),          \
      OF_LAYER(6, detection_output_param), OF_LAYER(7, dummy_data_param),                          \
      OF_LAYER(8, eltwise_param), OF_LAYER(9, elu_param), OF_LAYER(10, embed_param),               \
      OF_LAYER(11, exp_param), AS(12, "log_param", exp_param), OF_LAYER(13, flatten_param),        \
      OF_LAYER(14, inner_product_param), OF_LAYER(15, input_param),                                \
      AS(16, "parameter_param", input_param), OF_LAYER(17, interp_param), OF_LAYER(18, lrn_param), \
      OF_LAYER(19, mvn_param), OF_LAYER(20, norm_param), OF_LAYER(21, permute_param),              \
      OF_LAYER(22, pooling_param), OF_LAYER(23, power_param), OF_LAYER(24, prelu_param),           \
      OF_LAYER(25, prior_box_param), OF_LAYER(26, proposal_param),                                 \
      OF_LAYER(27, psroi_pooling_param), OF_LAYER(28, python_param),                               \
      OF_LAYER(29, recurrent_param), OF_LAYER(30, reduction_param), OF_LAYER(31, region_param),    \
      OF_LAYER(32, relu_param), OF_LAYER(33, reorg_param), OF_LAYER(34, reshape_param),            \
      OF_LAYER(35, roi_pooling_param), OF_LAYER(36, scale_param),                                  \
      AS(37, "bias_param", scale_param), OF_LAYER(38, shuffle_channel_param),                      \
      OF_LAYER(39, slice_param), OF_LAYER(40, softmax_param), OF_LAYER(41, spp_param),             \
      OF_LAYER(42, swish_param), OF_LAYER(43, threshold_param), OF_LAYER(44, tile_param),          \
      OF_LAYER(45, upsample_param)

#define COMMON                                                                             \
  CARNOT_PB_ONE(caffe_layer, name, 1, TEXT), CARNOT_PB_MANY(caffe_layer, bottom, 3, TEXT), \
      CARNOT_PB_MANY(caffe_layer, top, 4, TEXT),                                           \
      CARNOT_PB_SUBS(caffe_layer, include, 8, &kRuleMessage),                              \
      CARNOT_PB_SUBS(caffe_layer, exclude, 9, &kRuleMessage),                              \
      CARNOT_PB_SUBS(caffe_layer, blobs, 7, &carnot_caffe_blob_wire)

static const carnot_pb_field kLayerText[] = {COMMON, CARNOT_PB_ONE(caffe_layer, type, 2, TEXT),
                                             ALL_PARAMS};
static const carnot_pb_field kUnknown =
    CARNOT_PB_SUBS(caffe_layer, unknown, 0, &carnot_pb_unknown_message);
const carnot_pb_message carnot_caffe_layer_text = {"LayerParameter",
                                                   sizeof(caffe_layer),
                                                   kLayerText,
                                                   sizeof(kLayerText) / sizeof(kLayerText[0]),
                                                   NULL,
                                                   &kUnknown};

#define V1(name, number) \
  { #name, number }
static const carnot_pb_name kV1Types[] = {V1(NONE, 0),
                                          V1(ABSVAL, 35),
                                          V1(ACCURACY, 1),
                                          V1(ARGMAX, 30),
                                          V1(BNLL, 2),
                                          V1(CONCAT, 3),
                                          V1(CONTRASTIVE_LOSS, 37),
                                          V1(CONVOLUTION, 4),
                                          V1(DATA, 5),
                                          V1(DECONVOLUTION, 39),
                                          V1(DROPOUT, 6),
                                          V1(DUMMY_DATA, 32),
                                          V1(EUCLIDEAN_LOSS, 7),
                                          V1(ELTWISE, 25),
                                          V1(EXP, 38),
                                          V1(FLATTEN, 8),
                                          V1(HDF5_DATA, 9),
                                          V1(HDF5_OUTPUT, 10),
                                          V1(HINGE_LOSS, 28),
                                          V1(IM2COL, 11),
                                          V1(IMAGE_DATA, 12),
                                          V1(INFOGAIN_LOSS, 13),
                                          V1(INNER_PRODUCT, 14),
                                          V1(LRN, 15),
                                          V1(MEMORY_DATA, 29),
                                          V1(MULTINOMIAL_LOGISTIC_LOSS, 16),
                                          V1(MVN, 34),
                                          V1(POOLING, 17),
                                          V1(POWER, 26),
                                          V1(RELU, 18),
                                          V1(SIGMOID, 19),
                                          V1(SIGMOID_CROSS_ENTROPY_LOSS, 27),
                                          V1(SILENCE, 36),
                                          V1(SOFTMAX, 20),
                                          V1(SOFTMAX_LOSS, 21),
                                          V1(SPLIT, 22),
                                          V1(SLICE, 33),
                                          V1(TANH, 23),
                                          V1(WINDOW_DATA, 24),
                                          V1(THRESHOLD, 31),
                                          {NULL, 0}};
static const carnot_pb_field kV0Text[] = {CARNOT_PB_ONE(caffe_layer, name, 1, TEXT)};
static MESSAGE(kV0TextMessage, "V0LayerParameter", caffe_layer, kV0Text);
static const carnot_pb_field kV1Text[] = {
    COMMON,
    {5, CARNOT_PB_INT, false, false, offsetof(caffe_layer, v1_type), "type", NULL, kV1Types},
    {1, CARNOT_PB_MESSAGE, false, false, offsetof(caffe_layer, v0), "layer", &kV0TextMessage, NULL},
    ALL_PARAMS};
static MESSAGE(kV1TextMessage, "V1LayerParameter", caffe_layer, kV1Text);

static const carnot_pb_field kNetText[] = {
    CARNOT_PB_ONE(caffe_net, name, 1, TEXT),
    CARNOT_PB_MANY(caffe_net, input, 3, TEXT),
    CARNOT_PB_MANY(caffe_net, input_dim, 4, INT),
    CARNOT_PB_SUB(caffe_net, state, 6, &kStateMessage),
    CARNOT_PB_SUBS(caffe_net, input_shape, 8, &kShapeMessage),
    CARNOT_PB_SUBS(caffe_net, layer, 100, &carnot_caffe_layer_text),
    CARNOT_PB_SUBS(caffe_net, layers, 2, &kV1TextMessage),
};
MESSAGE(carnot_caffe_net_text, "NetParameter", caffe_net, kNetText);

// ---- the wire form ----

static const carnot_pb_field kLayerWire[] = {
    CARNOT_PB_ONE(caffe_layer, name, 1, TEXT),
    CARNOT_PB_ONE(caffe_layer, type, 2, TEXT),
    CARNOT_PB_SUBS(caffe_layer, blobs, 7, &carnot_caffe_blob_wire),
};
static MESSAGE(kLayerWireMessage, "LayerParameter", caffe_layer, kLayerWire);
static const carnot_pb_field kV0Wire[] = {CARNOT_PB_ONE(caffe_layer, name, 1, TEXT)};
static MESSAGE(kV0WireMessage, "V0LayerParameter", caffe_layer, kV0Wire);
static const carnot_pb_field kV1Wire[] = {
    CARNOT_PB_SUB(caffe_layer, v0, 1, &kV0WireMessage),
    CARNOT_PB_ONE(caffe_layer, name, 4, TEXT),
    CARNOT_PB_ONE(caffe_layer, v1_type, 5, INT),
    CARNOT_PB_SUBS(caffe_layer, blobs, 6, &carnot_caffe_blob_wire),
};
static MESSAGE(kV1WireMessage, "V1LayerParameter", caffe_layer, kV1Wire);
static const carnot_pb_field kNetWire[] = {
    CARNOT_PB_ONE(caffe_net, name, 1, TEXT),
    CARNOT_PB_SUBS(caffe_net, layers, 2, &kV1WireMessage),
    CARNOT_PB_SUBS(caffe_net, layer, 100, &kLayerWireMessage),
};
MESSAGE(carnot_caffe_net_wire, "NetParameter", caffe_net, kNetWire);
