// ConvTranspose by the generic kernel.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/conv/conv_transpose_params.h"
#include "tactic/problem/conv.h"

static const char* conv_transpose_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_CONV_TRANSPOSE) &&
      (problem->inputs[0].rank < 3 || problem->inputs[0].rank > 5))
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes 3 to 5",
                                     problem->inputs[0].rank);
  return carnot_cuda_generic_reject(problem, CARNOT_OP_CONV_TRANSPOSE, 0, reason, size);
}

// Padding that follows from the result's size.
static void resolve_padding(const carnot_cuda_attrs* a, const carnot_operand* x,
                            const carnot_operand* y, carnot_sliding_window* w) {
  bool same = w->auto_pad == CARNOT_PAD_SAME_UPPER || w->auto_pad == CARNOT_PAD_SAME_LOWER;
  size_t count;
  const int64_t* extra = carnot_attr_ints(a->attrs, "output_padding", &count);
  if (!same && !carnot_attr_has(a->attrs, "output_shape")) return;
  for (int i = 0; i < w->rank; i++) {
    int64_t total = w->strides[i] * (x->dims[i + 2] - 1) +
                    (extra && (int)count > i ? extra[i] : 0) +
                    (w->kernel[i] - 1) * w->dilations[i] + 1 - y->dims[i + 2];
    total = carnot_max_i64(0, total);
    w->begin[i] = w->auto_pad == CARNOT_PAD_SAME_UPPER ? total / 2 : total - total / 2;
  }
}

static carnot_status* conv_transpose_configure(const carnot_step_view* step,
                                               const carnot_operand* inputs,
                                               const carnot_operand* outputs, void* state,
                                               size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *w = &inputs[1], *y = &outputs[0],
                       *bias = carnot_cuda_optional(step, inputs, 2);
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  CARNOT_TRY(carnot_cuda_on_device(inputs, 2));
  if (bias->format.dtype) CARNOT_TRY(carnot_cuda_on_device(bias, 1));
  int rank = x->rank - 2;
  int64_t groups = carnot_cuda_attr(&a, "group");
  CARNOT_CHECK(rank >= 1 && rank <= 3 && w->rank == x->rank && y->rank == x->rank && groups > 0 &&
                   w->dims[0] == x->dims[1] && x->dims[1] % groups == 0 &&
                   y->dims[1] == w->dims[1] * groups && y->dims[0] == x->dims[0],
               INVALID_ARGUMENT, "weights do not fit %lld channels in %lld groups",
               (long long)x->dims[1], (long long)groups);
  CARNOT_CHECK(!bias->format.dtype || carnot_cuda_count(bias) == y->dims[1], INVALID_ARGUMENT,
               "bias has %lld elements; %lld are required", (long long)carnot_cuda_count(bias),
               (long long)y->dims[1]);
  const carnot_type type = carnot_conv_weights_type(w->rank, w->dims);
  carnot_sliding_window window;
  CARNOT_TRY(carnot_sliding_window_read(a.row, a.attrs, rank, &type, &window));
  resolve_padding(&a, x, y, &window);
  carnot_cuda_conv_transpose_params p = {
      .channels = x->dims[1], .filters = y->dims[1], .groups = groups};
  for (int d = 0; d < 3; d++) {
    int at = d - (3 - rank);
    bool used = at >= 0;
    p.in[d] = used ? x->dims[at + 2] : 1, p.out[d] = used ? y->dims[at + 2] : 1;
    p.kernel[d] = used ? window.kernel[at] : 1, p.step[d] = used ? window.strides[at] : 1;
    p.dilation[d] = used ? window.dilations[at] : 1, p.begin[d] = used ? window.begin[at] : 0;
    CARNOT_CHECK(p.kernel[d] > 0 && p.step[d] > 0 && p.dilation[d] > 0, INVALID_MODEL,
                 "a window of size or step 0");
    CARNOT_CHECK(!used || p.kernel[d] == w->dims[at + 2], INVALID_MODEL,
                 "kernel_shape[%d] is %lld, the weights' %lld", at, (long long)p.kernel[d],
                 (long long)w->dims[at + 2]);
  }
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_conv_transpose,
                                   carnot_cuda_count(y), &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_TACTIC(conv_transpose, "cuda_conv_transpose", CARNOT_OP_CONV_TRANSPOSE,
                           conv_transpose_reject, conv_transpose_configure);
