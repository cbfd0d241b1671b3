// The geometry of a sliding window over channels-last operands, from their sizes and strides.
#include "backend/cpu/common/window_geometry.h"

carnot_status* carnot_sliding_window_check(const carnot_sliding_window* w, int low, int high) {
  CARNOT_CHECK(w->rank >= low && w->rank <= high, INVALID_MODEL, "a window of rank %d", w->rank);
  for (int i = 0; i < w->rank; i++)
    CARNOT_CHECK(w->kernel[i] >= 1 && w->kernel[i] < 1 << 20 && w->strides[i] >= 1 &&
                     w->strides[i] < 1 << 20 && w->dilations[i] >= 1 && w->dilations[i] < 1 << 20 &&
                     w->begin[i] > -(1 << 20) && w->begin[i] < 1 << 20 && w->end[i] > -(1 << 20) &&
                     w->end[i] < 1 << 20 && (unsigned)w->auto_pad <= CARNOT_PAD_VALID,
                 INVALID_MODEL, "the window's dimension %d is out of range", i);
  return NULL;
}

carnot_status* carnot_window_geometry_of(const carnot_sliding_window* window,
                                         const carnot_operand* src, const carnot_operand* dst,
                                         carnot_window_geometry* out) {
  int rank = src->rank - 2;
  CARNOT_CHECK(rank >= 1 && rank <= 3 && dst->rank == src->rank && window->rank == rank,
               INVALID_MODEL, "a window of %d dimensions over an input of %d", window->rank,
               src->rank);
  CARNOT_CHECK(
      (src->strides[1] == 1 || src->dims[1] == 1) && (dst->strides[1] == 1 || dst->dims[1] == 1),
      INVALID_MODEL, "channels are not innermost");
  carnot_sliding_window w = *window;
  carnot_sliding_window_resolve(&w, src->dims + 2, dst->dims + 2);
  int x = rank + 1, y = rank > 1 ? rank : -1, wx = rank - 1, wy = rank - 2;
  *out = (carnot_window_geometry){
      .n = src->dims[0], .h = y > 0 ? src->dims[y] : 1, .w = src->dims[x], .c = src->dims[1]};
  out->p = y > 0 ? dst->dims[y] : 1, out->q = dst->dims[x], out->k = dst->dims[1];
  out->r = y > 0 ? w.kernel[wy] : 1, out->s = w.kernel[wx];
  out->stride_h = y > 0 ? w.strides[wy] : 1, out->stride_w = w.strides[wx];
  out->dilation_h = y > 0 ? w.dilations[wy] : 1, out->dilation_w = w.dilations[wx];
  out->pad_h = y > 0 ? w.begin[wy] : 0, out->pad_w = w.begin[wx];
  out->pad_h_end = y > 0 ? w.end[wy] : 0, out->pad_w_end = w.end[wx];
  if (rank == 3)
    out->depth = (carnot_conv_depth){.taps = w.kernel[0],
                                     .in = src->dims[2],
                                     .out = dst->dims[2],
                                     .stride = w.strides[0],
                                     .dilation = w.dilations[0],
                                     .pad = w.begin[0],
                                     .src = src->strides[2]};
  int64_t planes = rank == 3 ? dst->dims[2] : 1;
  out->src_n = src->strides[0], out->src_w = src->strides[x];
  out->src_h = y > 0 ? src->strides[y] : src->strides[x] * src->dims[x];
  out->ld = dst->strides[x];
  CARNOT_CHECK(dst->dims[0] == out->n, INVALID_MODEL, "batches of %lld and %lld", (long long)out->n,
               (long long)dst->dims[0]);
  bool rows_join = y < 0 || dst->dims[y] == 1 || dst->strides[y] == out->ld * out->q;
  bool planes_join = planes == 1 || dst->strides[2] == out->ld * out->q * out->p;
  bool images_join = out->n == 1 || dst->strides[0] == out->ld * out->q * out->p * planes;
  CARNOT_CHECK(rows_join && planes_join && images_join, INVALID_MODEL,
               "the result's pixels are not evenly spaced");
  return NULL;
}

carnot_status* carnot_window_geometry_of_f32(const carnot_sliding_window* window,
                                             const carnot_operand* src, const carnot_operand* dst,
                                             carnot_window_geometry* out) {
  CARNOT_CHECK(src->format.dtype == CARNOT_DTYPE_F32 && dst->format.dtype == CARNOT_DTYPE_F32,
               INVALID_MODEL, "operands are not float32");
  return carnot_window_geometry_of(window, src, dst, out);
}

carnot_window_geometry carnot_window_geometry_of_any_size(const carnot_sliding_window* w,
                                                          int64_t channels) {
  enum { kLarge = 1 << 20 };
  const int x = w->rank - 1, y = w->rank - 2;
  carnot_window_geometry g = {.n = 1, .h = kLarge, .w = kLarge, .p = kLarge, .q = kLarge};
  g.src_w = channels, g.src_h = g.src_w * g.w;
  g.r = y >= 0 ? w->kernel[y] : 1, g.s = w->kernel[x];
  g.stride_h = y >= 0 ? w->strides[y] : 1, g.stride_w = w->strides[x];
  g.dilation_h = y >= 0 ? w->dilations[y] : 1, g.dilation_w = w->dilations[x];
  g.pad_h = y >= 0 ? w->begin[y] : 0, g.pad_w = w->begin[x];
  return g;
}
