// How much an error in each channel of a tensor matters to the layers that read it in 8 bits.
#ifndef CARNOT_API_BUILDER_CHANNEL_WEIGHTS_H_
#define CARNOT_API_BUILDER_CHANNEL_WEIGHTS_H_

#include "calibration/histogram.h"
#include "ir/graph.h"

// Weights of the channels of |value|, along |*out_axis|: the squared norm of what layers with
// constant weights multiply a channel with, for independent errors of its elements. |out->count| is
// 0 where nothing reads it so, or the channels are not known; else the caller frees |out->weights|.
carnot_status* carnot_weigh_channels(const carnot_value* value, carnot_channel_weights* out,
                                     int* out_axis) CARNOT_MUST_USE;

#endif  // CARNOT_API_BUILDER_CHANNEL_WEIGHTS_H_
