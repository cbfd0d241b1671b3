// Layers with sliding windows, and padding.
#include "api/builder/network.h"

static const char* const kPaddingModes[] = {"NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER"};

// Attributes of the window; zeros in stride and dilation are ones.
static carnot_status* set_window(carnot_network* network, const carnot_window* w,
                                 carnot_attrs* attrs) {
  CARNOT_CHECK(w && w->rank >= 1 && w->rank <= 3, INVALID_ARGUMENT,
               "a window of %d dimensions, 1 to 3", w ? w->rank : 0);
  const char* mode;
  CARNOT_PICK(kPaddingModes, w->mode, "padding mode", mode);
  int64_t stride[3], dilation[3], pads[6];
  for (int i = 0; i < w->rank; i++) {
    stride[i] = w->stride[i] ? w->stride[i] : 1;
    dilation[i] = w->dilation[i] ? w->dilation[i] : 1;
    pads[i] = w->pre_padding[i];
    pads[w->rank + i] = w->post_padding[i];
  }
  CARNOT_SET_INTS(*attrs, network, "strides", stride, w->rank);
  CARNOT_SET_INTS(*attrs, network, "dilations", dilation, w->rank);
  CARNOT_SET_TEXT(*attrs, network, "auto_pad", mode);
  if (w->mode <= CARNOT_PADDING_EXPLICIT_ROUND_UP)
    CARNOT_SET_INTS(*attrs, network, "pads", pads, 2 * w->rank);
  return NULL;
}

static carnot_status* add_conv(carnot_network* network, carnot_op op, carnot_value* input,
                               carnot_value* weights, carnot_value* bias, int64_t groups,
                               const carnot_window* window, carnot_value** out_value) {
  *out_value = NULL;
  carnot_attrs attrs = {0};
  CARNOT_TRY(set_window(network, window, &attrs));
  CARNOT_CHECK(window->mode != CARNOT_PADDING_EXPLICIT_ROUND_UP, UNSUPPORTED,
               "a convolution that rounds its size up");
  CARNOT_SET_INT(attrs, network, "group", groups ? groups : 1);
  return carnot_network_add_one(network, op, &attrs, CARNOT_VALUES(input, weights, bias),
                                out_value);
}

carnot_status* carnot_network_add_convolution(carnot_network* network, carnot_value* input,
                                              carnot_value* weights, carnot_value* bias,
                                              int64_t groups, const carnot_window* window,
                                              carnot_value** out_value) {
  return add_conv(network, CARNOT_OP_CONV, input, weights, bias, groups, window, out_value);
}

carnot_status* carnot_network_add_deconvolution(carnot_network* network, carnot_value* input,
                                                carnot_value* weights, carnot_value* bias,
                                                int64_t groups, const carnot_window* window,
                                                carnot_value** out_value) {
  return add_conv(network, CARNOT_OP_CONV_TRANSPOSE, input, weights, bias, groups, window,
                  out_value);
}

static carnot_status* add_pool(carnot_network* network, carnot_op op, carnot_value* input,
                               const carnot_window* window, bool exclude_padding,
                               carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_TRY(set_window(network, window, &attrs));
  CARNOT_SET_INTS(attrs, network, "kernel_shape", window->kernel, window->rank);
  CARNOT_SET_INT(attrs, network, "ceil_mode", window->mode == CARNOT_PADDING_EXPLICIT_ROUND_UP);
  if (op == CARNOT_OP_AVERAGE_POOL)
    CARNOT_SET_INT(attrs, network, "count_include_pad", !exclude_padding);
  return carnot_network_add_one(network, op, &attrs, CARNOT_VALUES(input), out_value);
}

carnot_status* carnot_network_add_pooling(carnot_network* network, carnot_value* input,
                                          carnot_pooling type, const carnot_window* window,
                                          bool exclude_padding, double blend,
                                          carnot_value** out_value) {
  *out_value = NULL;
  carnot_value *max = NULL, *average = NULL;
  CARNOT_CHECK((unsigned)type <= CARNOT_POOLING_MAX_AVERAGE_BLEND, INVALID_ARGUMENT, "pooling %d",
               (int)type);
  if (type != CARNOT_POOLING_AVERAGE)
    CARNOT_TRY(add_pool(network, CARNOT_OP_MAX_POOL, input, window, exclude_padding, &max));
  if (type != CARNOT_POOLING_MAX)
    CARNOT_TRY(add_pool(network, CARNOT_OP_AVERAGE_POOL, input, window, exclude_padding, &average));
  *out_value = max ? max : average;
  if (!max || !average) return NULL;
  CARNOT_TRY(carnot_network_add_fn(network, CARNOT_OP_UNARY, CARNOT_FN_AFFINE, 1 - blend, 0,
                                   CARNOT_VALUES(max), &max));
  CARNOT_TRY(carnot_network_add_fn(network, CARNOT_OP_UNARY, CARNOT_FN_AFFINE, blend, 0,
                                   CARNOT_VALUES(average), &average));
  return carnot_network_add_elementwise(network, max, average, CARNOT_ELEMENTWISE_SUM, out_value);
}

carnot_status* carnot_network_add_lrn(carnot_network* network, carnot_value* input, int64_t window,
                                      double alpha, double beta, double k,
                                      carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "size", window);
  CARNOT_SET_FLOAT(attrs, network, "alpha", alpha);
  CARNOT_SET_FLOAT(attrs, network, "beta", beta);
  CARNOT_SET_FLOAT(attrs, network, "bias", k);
  return carnot_network_add_one(network, CARNOT_OP_LRN, &attrs, CARNOT_VALUES(input), out_value);
}

carnot_status* carnot_network_add_padding(carnot_network* network, carnot_value* input,
                                          const int64_t* pre, const int64_t* post,
                                          carnot_pad_mode mode, double fill,
                                          carnot_value** out_value) {
  *out_value = NULL;
  static const char* const kModes[] = {"constant", "edge", "reflect", "wrap"};
  const char* text;
  CARNOT_PICK(kModes, mode, "padding", text);
  CARNOT_CHECK(input && input->type.rank >= 0 && pre && post, INVALID_ARGUMENT,
               "padding needs a tensor of known rank");
  int64_t pads[2 * CARNOT_MAX_RANK];
  for (int d = 0; d < input->type.rank; d++) {
    pads[d] = pre[d];
    pads[input->type.rank + d] = post[d];
  }
  carnot_attrs attrs = {0};
  CARNOT_SET_TEXT(attrs, network, "mode", text);
  carnot_value* number = NULL;
  if (mode == CARNOT_PAD_CONSTANT && fill != 0)
    CARNOT_TRY(carnot_network_add_scalar(network, input->type.dtype, fill, &number));
  return carnot_network_add_one(
      network, CARNOT_OP_PAD, &attrs,
      CARNOT_VALUES(input, carnot_network_ints(network, pads, 2 * input->type.rank), number),
      out_value);
}
