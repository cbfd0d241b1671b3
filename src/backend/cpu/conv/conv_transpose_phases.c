// The phases of a transposed convolution: outputs at one position modulo the strides.
#include "backend/cpu/conv/conv_transpose.h"

static carnot_transposed_phase phase_of(const carnot_sliding_window* w, int axis, int64_t at) {
  int64_t stride = w->strides[axis], first = (at + w->begin[axis]) % stride;
  return (carnot_transposed_phase){
      first, first < w->kernel[axis] ? (w->kernel[axis] - first - 1) / stride + 1 : 0,
      (at + w->begin[axis] - first) / stride};
}

int64_t carnot_transposed_phase_count(const carnot_transposed_params* p) {
  return p->window.strides[0] * p->window.strides[1] * p->window.strides[2];
}

void carnot_transposed_phases_of(const carnot_transposed_params* p, int64_t at,
                                 carnot_transposed_phase out[CARNOT_TRANSPOSED_AXES]) {
  const carnot_sliding_window* w = &p->window;
  for (int i = CARNOT_TRANSPOSED_AXES - 1; i >= 0; at /= w->strides[i], i--)
    out[i] = phase_of(w, i, at % w->strides[i]);
}

carnot_packed_weights_shape carnot_transposed_weights(
    const carnot_transposed_params* p, const carnot_transposed_phase axes[CARNOT_TRANSPOSED_AXES]) {
  return (carnot_packed_weights_shape){axes[0].count * axes[1].count * axes[2].count,
                                       p->channels / p->group, p->filters / p->group};
}

size_t carnot_transposed_offset(const carnot_transposed_params* p, int64_t group, int64_t at) {
  size_t offset = 0, bytes = 0;
  for (int64_t i = 0; i <= at; i++, offset += bytes * (size_t)p->group) {
    if (i == carnot_transposed_phase_count(p)) return offset;
    carnot_transposed_phase axes[CARNOT_TRANSPOSED_AXES];
    carnot_transposed_phases_of(p, i, axes);
    bytes = carnot_packed_weights_bytes((carnot_weights_type)p->weights,
                                        carnot_transposed_weights(p, axes));
    if (i == at) break;
  }
  return offset + (size_t)group * bytes;
}

carnot_conv2d_f32 carnot_transposed_conv(const carnot_transposed_params* p,
                                         const carnot_transposed_phase axes[CARNOT_TRANSPOSED_AXES],
                                         const int64_t in[CARNOT_TRANSPOSED_AXES],
                                         const int64_t out[CARNOT_TRANSPOSED_AXES]) {
  return (carnot_conv2d_f32){.h = in[1],
                             .w = in[2],
                             .c = p->channels / p->group,
                             .p = out[1],
                             .q = out[2],
                             .k = p->filters / p->group,
                             .r = axes[1].count,
                             .s = axes[2].count,
                             .stride_h = 1,
                             .stride_w = 1,
                             .dilation_h = 1,
                             .dilation_w = 1,
                             .pad_h = axes[1].count - 1 - axes[1].shift,
                             .pad_w = axes[2].count - 1 - axes[2].shift};
}
