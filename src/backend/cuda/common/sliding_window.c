// Sliding windows as the kernels see them: up to three spatial dimensions, any strides.
#include "backend/cuda/common/sliding_window.h"

#include "tactic/problem/conv.h"

// Kernels index the positions of an axis in 32 bits.
static carnot_status* check_reach(const carnot_cuda_sliding_window* w, int d) {
  const int64_t most = 1 << 30, all[] = {w->in[d],    w->out[d],      w->kernel[d], w->step[d],
                                         w->begin[d], w->dilation[d], w->end[d]};
  bool fits = true;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
    fits = fits && all[i] <= most && all[i] >= -most;
  // Such values multiply within 64 bits.
  CARNOT_CHECK(
      fits && w->kernel[d] * w->dilation[d] <= most && w->out[d] * w->step[d] <= most, UNSUPPORTED,
      "kernel size %lld, dilation %lld, %lld outputs, stride %lld; takes extents up to 2^30",
      (long long)w->kernel[d], (long long)w->dilation[d], (long long)w->out[d],
      (long long)w->step[d]);
  return NULL;
}

carnot_status* carnot_cuda_sliding_window_make(const carnot_plan_node* node,
                                               const carnot_operand* x,
                                               const carnot_operand* weights,
                                               const carnot_operand* y,
                                               carnot_cuda_sliding_window* out) {
  int rank = x->rank - 2;
  CARNOT_CHECK(rank >= 1 && rank <= 3 && y->rank == x->rank && x->format.dtype == y->format.dtype &&
                   y->dims[0] == x->dims[0],
               INVALID_ARGUMENT, "a window over ranks %d and %d", x->rank, y->rank);
  const carnot_type type =
      carnot_conv_weights_type(weights ? weights->rank : 0, weights ? weights->dims : NULL);
  carnot_sliding_window w;
  CARNOT_TRY(carnot_sliding_window_read(carnot_op_get(node->op), &node->attrs, rank,
                                        weights ? &type : NULL, &w));
  carnot_sliding_window_resolve(&w, x->dims + 2, y->dims + 2);
  *out = (carnot_cuda_sliding_window){.n = x->dims[0],
                                      .channels = x->dims[1],
                                      .filters = y->dims[1],
                                      .groups = 1,
                                      .x_n = x->strides[0],
                                      .x_c = x->strides[1],
                                      .y_n = y->strides[0],
                                      .y_c = y->strides[1]};
  for (int d = 0; d < 3; d++) {
    int at = d - (3 - rank);
    out->in[d] = at < 0 ? 1 : x->dims[at + 2];
    out->out[d] = at < 0 ? 1 : y->dims[at + 2];
    out->x_s[d] = at < 0 ? 0 : x->strides[at + 2];
    out->y_s[d] = at < 0 ? 0 : y->strides[at + 2];
    out->kernel[d] = at < 0 ? 1 : w.kernel[at];
    out->step[d] = at < 0 ? 1 : w.strides[at];
    out->dilation[d] = at < 0 ? 1 : w.dilations[at];
    out->begin[d] = at < 0 ? 0 : w.begin[at];
    out->end[d] = at < 0 ? 0 : w.end[at];
    CARNOT_CHECK(out->kernel[d] > 0 && out->step[d] > 0 && out->dilation[d] > 0, INVALID_MODEL,
                 "a window of size or step 0");
    CARNOT_TRY(check_reach(out, d));
  }
  return NULL;
}

bool carnot_cuda_sliding_window_within(const carnot_plan_node* node,
                                       const carnot_operand_desc* weights, int64_t reach,
                                       int64_t step) {
  const carnot_type type = carnot_conv_weights_type(weights->rank, weights->dims);
  carnot_sliding_window w;
  carnot_status* status = carnot_sliding_window_read(carnot_op_get(node->op), &node->attrs,
                                                     weights->rank - 2, &type, &w);
  bool within = !status;
  carnot_status_free(status);
  for (int d = 0; within && d < w.rank; d++)
    within = w.strides[d] <= step && w.dilations[d] <= reach &&
             (w.kernel[d] - 1) * w.dilations[d] <= reach && w.begin[d] <= reach &&
             w.end[d] <= reach && w.begin[d] >= 0 && w.end[d] >= 0;
  return within;
}
