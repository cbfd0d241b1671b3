// DeformConv and Col2Im by generic kernels.
#include "backend/cuda/common/generic.h"
#include "backend/cuda/common/sliding_window.h"
#include "kernel/cuda/conv/deform_conv_params.h"

// ---- DeformConv ----

static void take_window(const carnot_cuda_sliding_window* window,
                        carnot_cuda_deform_conv_params* p) {
  for (int d = 0; d < 3; d++) {
    p->in[d] = window->in[d], p->out[d] = window->out[d], p->kernel[d] = window->kernel[d];
    p->step[d] = window->step[d], p->dilation[d] = window->dilation[d];
    p->begin[d] = window->begin[d];
  }
}

static const char* deform_conv_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_DEFORM_CONV) && problem->inputs[0].rank > 5)
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes 3 to 5",
                                     problem->inputs[0].rank);
  return carnot_cuda_generic_reject(problem, CARNOT_OP_DEFORM_CONV, 0, reason, size);
}

static carnot_status* deform_conv_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *w = &inputs[1], *y = &outputs[0];
  carnot_cuda_sliding_window window;
  CARNOT_CHECK(step->input_count >= 3, INVALID_MODEL, "%u operands", step->input_count);
  CARNOT_TRY(carnot_cuda_sliding_window_make(&step->region->nodes[0], x, w, y, &window));
  carnot_cuda_deform_conv_params p = {.rank = x->rank - 2,
                                      .channels = x->dims[1],
                                      .filters = y->dims[1],
                                      .groups = carnot_cuda_attr(&a, "group"),
                                      .offset_groups = carnot_cuda_attr(&a, "offset_group")};
  take_window(&window, &p);
  CARNOT_CHECK(p.groups > 0 && p.offset_groups > 0 && p.channels % p.groups == 0 &&
                   p.filters % p.groups == 0 && p.channels % p.offset_groups == 0,
               INVALID_ARGUMENT, "%lld channels and %lld filters do not fit the groups",
               (long long)p.channels, (long long)p.filters);
  int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  int64_t samples = x->dims[0] * p.offset_groups * taps * p.out[0] * p.out[1] * p.out[2];
  CARNOT_TRY(carnot_cuda_expect(x, "x", carnot_cuda_count(x)));
  CARNOT_TRY(carnot_cuda_expect(w, "weights", p.filters * (p.channels / p.groups) * taps));
  CARNOT_TRY(carnot_cuda_expect(&inputs[2], "offset", samples * p.rank));
  CARNOT_TRY(carnot_cuda_expect(carnot_cuda_optional(step, inputs, 3), "the bias", p.filters));
  CARNOT_TRY(carnot_cuda_expect(carnot_cuda_optional(step, inputs, 4), "the mask", samples));
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_deform_conv,
                                   carnot_cuda_count(y), &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_TACTIC(deform_conv, "cuda_deform_conv", CARNOT_OP_DEFORM_CONV,
                           deform_conv_reject, deform_conv_shape);

// ---- Col2Im ----

static const char* col2im_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_COL2IM) && problem->outputs[0].rank > 5)
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes 3 to 5",
                                     problem->outputs[0].rank);
  return carnot_cuda_generic_reject(problem, CARNOT_OP_COL2IM, 6u, reason, size);
}

static carnot_status* col2im_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  carnot_type block = {.kind = CARNOT_VALUE_TENSOR, .rank = y->rank};
  int rank = y->rank - 2, count;
  int64_t sizes[CARNOT_MAX_RANK];
  CARNOT_CHECK(step->input_count == 3, INVALID_MODEL, "%u operands", step->input_count);
  CARNOT_TRY(carnot_cuda_ints(&inputs[2], sizes, CARNOT_MAX_RANK, &count));
  CARNOT_CHECK(rank >= 1 && rank <= 3 && count == rank && x->rank == 3, INVALID_MODEL,
               "blocks of %d dimensions in an image of %d", count, rank);
  for (int d = 0; d < rank; d++) block.dims[d + 2] = carnot_sym_of(sizes[d]);
  carnot_sliding_window w;
  CARNOT_TRY(carnot_sliding_window_read(a.row, a.attrs, rank, &block, &w));
  carnot_cuda_deform_conv_params p = {.rank = rank};
  int64_t windows = 1, taps = 1;
  for (int d = 0; d < 3; d++) {
    int at = d - (3 - rank);
    bool used = at >= 0;
    p.in[d] = used ? y->dims[at + 2] : 1, p.kernel[d] = used ? w.kernel[at] : 1;
    p.step[d] = used ? w.strides[at] : 1, p.dilation[d] = used ? w.dilations[at] : 1;
    p.begin[d] = used ? w.begin[at] : 0;
    CARNOT_CHECK(p.kernel[d] > 0 && p.step[d] > 0 && p.dilation[d] > 0, INVALID_MODEL,
                 "a block of size or step 0");
    int64_t room =
        p.in[d] + p.begin[d] + (used ? w.end[at] : 0) - ((p.kernel[d] - 1) * p.dilation[d] + 1);
    CARNOT_CHECK(room >= 0, INVALID_ARGUMENT, "a block does not fit dimension %d of %lld", at,
                 (long long)p.in[d]);
    p.out[d] = room / p.step[d] + 1;
    windows *= p.out[d], taps *= p.kernel[d];
  }
  CARNOT_TRY(carnot_cuda_expect(x, "x", y->dims[0] * y->dims[1] * taps * windows));
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_col2im,
                                   carnot_cuda_count(y), &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_TACTIC(col2im, "cuda_col2im", CARNOT_OP_COL2IM, col2im_reject, col2im_shape);
