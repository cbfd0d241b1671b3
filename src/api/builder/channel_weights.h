// How much an error in each channel of a tensor matters to the layers that read it in 8 bits.
#ifndef CARNOT_API_BUILDER_CHANNEL_WEIGHTS_H_
#define CARNOT_API_BUILDER_CHANNEL_WEIGHTS_H_

#include "calibration/equalize.h"
#include "ir/graph.h"

// Weights of the channels of |value|, along |*out_axis|: the squared norm of what layers with
// constant weights multiply a channel with, for independent errors of its elements. |out->count| is
// 0 where nothing reads it so, or the channels are not known; else the caller frees |out->weights|.
carnot_status* carnot_weigh_channels(const carnot_value* value, carnot_channel_weights* out,
                                     int* out_axis) CARNOT_MUST_USE;

// The layers that read |value| by |channels| channels, for factors that equalize it.
typedef struct carnot_channel_readers {
  carnot_equalize_reader* items;
  size_t count;
  double* norms;  // [channels]
} carnot_channel_readers;
// Reads the layers' weights, which must be there. |out->count| is 0 where nothing reads |value| so,
// or a layer that does takes no factors. OUT_OF_MEMORY; deinit in any case.
carnot_status* carnot_channel_readers_init(const carnot_value* value, size_t channels,
                                           carnot_channel_readers* out) CARNOT_MUST_USE;
void carnot_channel_readers_deinit(carnot_channel_readers* readers);

#endif  // CARNOT_API_BUILDER_CHANNEL_WEIGHTS_H_
