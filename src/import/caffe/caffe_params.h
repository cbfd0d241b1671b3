// What the tables of messages and the readers of fields share: the parameters of layers.
#ifndef CARNOT_IMPORT_CAFFE_CAFFE_PARAMS_H_
#define CARNOT_IMPORT_CAFFE_CAFFE_PARAMS_H_

#include "import/caffe/caffe_proto.h"

typedef CARNOT_PB_LIST(caffe_filler) caffe_filler_list;

// One struct holds the fields of all messages of parameters.
struct caffe_params {
  uint64_t present;
  // integers and enumerations
  int64_t across_channels, across_spatial, axis, background_label_id, base_size, bias_term,
      ceil_mode, channel_shared, classes, clip, code_type, concat_dim, coords, do_softmax, end_axis,
      expose_hidden, feat_stride, flip, force_nd_im2col, global_pooling, group, group_size, height,
      img_h, img_size, img_w, input_dim, kernel_h, kernel_w, keep_top_k, local_size, norm_region,
      normalize_variance, num, num_axes, num_classes, num_output, operation, out_max_val,
      output_dim, pad_beg, pad_end, pad_h, pad_w, pool, pooled_h, pooled_w, post_nms_topn,
      pre_nms_topn, pyramid_height, reverse, round_mode, share_location, shrink_factor, slice_dim,
      softmax, stride_h, stride_w, tiles, top_k, torch_pooling, use_global_stats, pad_out_h,
      pad_out_w, scale_h, scale_w, transpose, upsample_h, upsample_w, variance_encoded_in_target,
      width, zoom_factor;
  caffe_int_list dilation, kernel_size, order, pad, slice_point, stride, channels_list, height_list,
      num_list, width_list;
  float alpha, base, beta, confidence_threshold, eps, eta, img_min_size, k, max, min,
      negative_slope, nms_thresh, nms_threshold, power, shift, spatial_scale, step, step_h, step_w,
      threshold, value;
  caffe_float_list aspect_ratio, coeff, max_size, min_size, offset, ratio, scale, variance;
  carnot_strview module;
  caffe_shape_list shape;
  caffe_filler* filler;
  caffe_filler_list data_filler;
  caffe_params* nms_param;
};

extern const carnot_pb_message carnot_caffe_layer_text;  // into caffe_layer
extern const carnot_pb_message carnot_caffe_nms_text;    // NonMaximumSuppressionParameter

#endif  // CARNOT_IMPORT_CAFFE_CAFFE_PARAMS_H_
