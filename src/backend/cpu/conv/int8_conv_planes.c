// Quantized convolutions as ones of two dimensions.
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

void carnot_int8_flatten_window(carnot_int8_planes planes, carnot_sliding_window* window,
                                int64_t* channels) {
  if (planes == CARNOT_INT8_PLANES_NONE) return;
  const carnot_sliding_window from = *window;
  if (planes == CARNOT_INT8_PLANES_AS_CHANNELS) *channels *= from.kernel[0];
  if (planes == CARNOT_INT8_TAPS_AS_CHANNELS) {
    *channels *= carnot_sliding_window_taps(&from);
    *window = (carnot_sliding_window){
        .rank = 2, .kernel = {1, 1}, .strides = {1, 1}, .dilations = {1, 1}};
    return;
  }
  window->rank = 2;
  for (int d = 0; d < 2; d++) {
    const int of = planes == CARNOT_INT8_PLANES_AS_ROWS ? 2 * d : d + 1;  // depth and columns
    window->kernel[d] = from.kernel[of], window->strides[d] = from.strides[of];
    window->dilations[d] = from.dilations[of];
    window->begin[d] = from.begin[of], window->end[d] = from.end[of];
  }
}

carnot_int8_conv_params carnot_int8_conv_flat(carnot_int8_planes planes,
                                              const carnot_int8_conv_params* p) {
  carnot_int8_conv_params flat = *p;
  carnot_int8_flatten_window(planes, &flat.window, &flat.channels);
  return flat;
}

static void set_taps_as_channels(const carnot_window_geometry* g, carnot_window_geometry* out) {
  const carnot_conv_depth d = carnot_window_depth(g);
  out->n = g->n * d.out * g->p, out->h = out->p = 1, out->w = g->q;
  out->c = g->c * d.taps * g->r * g->s;
  out->r = out->s = out->stride_h = out->stride_w = out->dilation_h = out->dilation_w = 1;
  out->pad_h = out->pad_w = out->pad_h_end = out->pad_w_end = 0;
  out->src_w = out->c, out->src_h = out->src_n = g->q * out->c;
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
  } else if (planes == CARNOT_INT8_TAPS_AS_CHANNELS) {
    set_taps_as_channels(g, out);
  } else {
    out->n = g->n * d->out, out->c = g->c * d->taps;
    out->src_w = out->c, out->src_h = g->w * out->src_w, out->src_n = g->h * out->src_h;
  }
  return NULL;
}

void carnot_int8_stack_weights(carnot_int8_planes planes, const carnot_sliding_window* window,
                               int64_t filters, int64_t channels, const int8_t* weights,
                               int8_t* stacked) {
  const int64_t taps = carnot_sliding_window_taps(window),
                outer = planes == CARNOT_INT8_TAPS_AS_CHANNELS ? taps : window->kernel[0],
                inner = taps / outer;
  for (int64_t k = 0; k < filters; k++)
    for (int64_t z = 0; z < outer; z++)
      for (int64_t c = 0; c < channels; c++, stacked += inner)
        memcpy(stacked, weights + ((k * channels + c) * outer + z) * inner, (size_t)inner);
}

typedef struct stack_run {
  const carnot_window_geometry* g;
  const uint8_t* x;
  uint8_t* stacked;
  int64_t first;  // of the images
  int zero;
} stack_run;

// The channels of |count| pixels, each |pixel| bytes behind the last, from the pixels of a row that
// begins at |row| or, where that is NULL, in the padding. Pixel i is column at + i * step.
static void stack_pixels(const stack_run* run, const uint8_t* row, int64_t at, int64_t step,
                         int64_t count, int64_t pixel, uint8_t* to) {
  const carnot_window_geometry* g = run->g;
  for (int64_t i = 0; i < count; i++, at += step, to += pixel) {
    if (row && (uint64_t)at < (uint64_t)g->w)
      memcpy(to, row + at * g->src_w, (size_t)g->c);
    else
      memset(to, run->zero, (size_t)g->c);
  }
}

// Row |h| of plane |z| of image |n|, NULL in the padding.
static const uint8_t* row_at(const stack_run* run, int64_t n, int64_t z, int64_t h) {
  const carnot_window_geometry* g = run->g;
  const carnot_conv_depth d = carnot_window_depth(g);
  if ((uint64_t)z >= (uint64_t)d.in || (uint64_t)h >= (uint64_t)g->h) return NULL;
  return run->x + n * g->src_n + z * d.src + h * g->src_h;
}

static void stack_planes(void* argument, int64_t part) {
  const stack_run* run = argument;
  const carnot_window_geometry* g = run->g;
  const carnot_conv_depth* d = &g->depth;
  const int64_t image = run->first + part / g->h, pixel = g->c * d->taps;
  uint8_t* to = run->stacked + part * g->w * pixel;
  for (int64_t i = 0; i < d->taps; i++, to += g->c) {
    const int64_t z = image % d->out * d->stride - d->pad + i * d->dilation;
    stack_pixels(run, row_at(run, image / d->out, z, part % g->h), 0, 1, g->w, pixel, to);
  }
}

static void stack_taps(void* argument, int64_t part) {
  const stack_run* run = argument;
  const carnot_window_geometry* g = run->g;
  const carnot_conv_depth d = carnot_window_depth(g);
  const int64_t image = run->first + part, p = image % g->p, o = image / g->p % d.out,
                n = image / g->p / d.out, pixel = g->c * d.taps * g->r * g->s;
  uint8_t* to = run->stacked + part * g->q * pixel;
  for (int64_t i = 0; i < d.taps; i++) {
    for (int64_t r = 0; r < g->r; r++) {
      const uint8_t* row = row_at(run, n, o * d.stride - d.pad + i * d.dilation,
                                  p * g->stride_h - g->pad_h + r * g->dilation_h);
      for (int64_t s = 0; s < g->s; s++, to += g->c)
        stack_pixels(run, row, s * g->dilation_w - g->pad_w, g->stride_w, g->q, pixel, to);
    }
  }
}

void carnot_int8_stack_images(carnot_int8_planes planes, const carnot_window_geometry* g,
                              const void* x, int zero, int64_t first, int64_t count, void* stacked,
                              carnot_executor* executor) {
  stack_run run = {g, x, stacked, first, zero & 255};
  if (planes == CARNOT_INT8_TAPS_AS_CHANNELS)
    carnot_executor_parallel(executor, count, stack_taps, &run);
  else
    carnot_executor_parallel(executor, count * g->h, stack_planes, &run);
}
