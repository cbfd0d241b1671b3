// Quantized convolutions of three spatial dimensions as ones of two.
#include "backend/cpu/conv/int8_conv_planes.h"

carnot_int8_planes carnot_int8_planes_of(const carnot_sliding_window* w) {
  if (w->rank < 3) return CARNOT_INT8_PLANES_NONE;
  if (w->kernel[0] == 1 && w->strides[0] == 1 && !w->begin[0] && !w->end[0])
    return CARNOT_INT8_PLANES_AS_IMAGES;
  carnot_sliding_window plane = {.rank = 2};
  for (int d = 0; d < 2; d++) {
    plane.kernel[d] = w->kernel[d + 1], plane.strides[d] = w->strides[d + 1];
    plane.begin[d] = w->begin[d + 1], plane.end[d] = w->end[d + 1];
  }
  return carnot_sliding_window_is_pointwise(&plane) ? CARNOT_INT8_PLANES_AS_ROWS
                                                    : CARNOT_INT8_PLANES_AS_CHANNELS;
}

void carnot_int8_flatten_window(carnot_sliding_window* window, int64_t* channels) {
  const carnot_int8_planes planes = carnot_int8_planes_of(window);
  if (planes == CARNOT_INT8_PLANES_NONE) return;
  const carnot_sliding_window from = *window;
  if (planes == CARNOT_INT8_PLANES_AS_CHANNELS) *channels *= from.kernel[0];
  window->rank = 2;
  for (int d = 0; d < 2; d++) {
    const int of = planes == CARNOT_INT8_PLANES_AS_ROWS ? 2 * d : d + 1;  // depth and columns
    window->kernel[d] = from.kernel[of], window->strides[d] = from.strides[of];
    window->dilations[d] = from.dilations[of];
    window->begin[d] = from.begin[of], window->end[d] = from.end[of];
  }
}

carnot_int8_conv_params carnot_int8_conv_flat(const carnot_int8_conv_params* p) {
  carnot_int8_conv_params flat = *p;
  carnot_int8_flatten_window(&flat.window, &flat.channels);
  return flat;
}

carnot_status* carnot_int8_flat_geometry(carnot_int8_planes planes, const carnot_window_geometry* g,
                                         carnot_window_geometry* out) {
  const carnot_conv_depth* d = &g->depth;
  *out = *g;
  if (planes == CARNOT_INT8_PLANES_NONE) return NULL;
  out->depth = (carnot_conv_depth){0};
  if (planes == CARNOT_INT8_PLANES_AS_IMAGES) {
    CARNOT_CHECK(g->n == 1 || g->src_n == d->in * d->src, INVALID_MODEL,
                 "the planes of the input are not evenly spaced");
    out->n = g->n * d->in, out->src_n = d->src;
  } else if (planes == CARNOT_INT8_PLANES_AS_ROWS) {
    CARNOT_CHECK(g->h == 1 || g->src_h == g->w * g->src_w, INVALID_MODEL,
                 "the pixels of a plane of the input are not evenly spaced");
    out->h = d->in, out->p = d->out, out->src_h = d->src;
    out->w = g->h * g->w, out->q = g->p * g->q;
    out->r = d->taps, out->stride_h = d->stride, out->dilation_h = d->dilation, out->pad_h = d->pad;
  } else {
    out->n = g->n * d->out, out->c = g->c * d->taps;
    out->src_w = out->c, out->src_h = g->w * out->src_w, out->src_n = g->h * out->src_h;
  }
  return NULL;
}

void carnot_int8_stack_weights(const carnot_sliding_window* window, int64_t filters,
                               int64_t channels, const int8_t* weights, int8_t* stacked) {
  const int64_t planes = window->kernel[0], taps = window->kernel[1] * window->kernel[2];
  for (int64_t k = 0; k < filters; k++)
    for (int64_t z = 0; z < planes; z++)
      for (int64_t c = 0; c < channels; c++, stacked += taps)
        memcpy(stacked, weights + ((k * channels + c) * planes + z) * taps, (size_t)taps);
}

typedef struct stack_run {
  const carnot_window_geometry* g;
  const uint8_t* x;
  uint8_t* stacked;
  int64_t first;  // of the images
  int zero;
} stack_run;

static void stack_row(void* argument, int64_t part) {
  const stack_run* run = argument;
  const carnot_window_geometry* g = run->g;
  const carnot_conv_depth* d = &g->depth;
  const int64_t image = run->first + part / g->h, h = part % g->h, pixel = g->c * d->taps;
  uint8_t* to = run->stacked + part * g->w * pixel;
  for (int64_t i = 0; i < d->taps; i++, to += g->c) {
    const int64_t z = image % d->out * d->stride - d->pad + i * d->dilation;
    const bool inside = (uint64_t)z < (uint64_t)d->in;
    const uint8_t* from = run->x + image / d->out * g->src_n + z * d->src + h * g->src_h;
    for (int64_t w = 0; w < g->w; w++) {
      if (inside)
        memcpy(to + w * pixel, from + w * g->src_w, (size_t)g->c);
      else
        memset(to + w * pixel, run->zero, (size_t)g->c);
    }
  }
}

void carnot_int8_stack_planes(const carnot_window_geometry* g, const void* x, int zero,
                              int64_t first, int64_t count, void* stacked,
                              carnot_executor* executor) {
  stack_run run = {g, x, stacked, first, zero & 255};
  carnot_executor_parallel(executor, count * g->h, stack_row, &run);
}
