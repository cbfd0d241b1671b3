// Depthwise causal convolution along time with a carried state, by the generic kernel.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/conv/causal_conv_params.h"

static carnot_status* causal_conv_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *w = &inputs[1];
  CARNOT_CHECK(step->input_count >= 2 && x->rank == 3 && w->rank == 3 && w->dims[2] > 0,
               INVALID_MODEL, "%u operands, x of rank %d", step->input_count, x->rank);
  carnot_cuda_causal_conv_params p = {
      .length = x->dims[2],
      .taps = w->dims[2],
      .channels = x->dims[1],
      .silu = !carnot_attr_is(a.row, a.attrs, "activation", "none")};
  int64_t lanes = x->dims[0] * x->dims[1], before = p.taps - 1;
  CARNOT_TRY(carnot_cuda_expect(x, "x", lanes * p.length));
  CARNOT_TRY(carnot_cuda_expect(w, "weights", p.channels * p.taps));
  CARNOT_TRY(carnot_cuda_expect(carnot_cuda_optional(step, inputs, 2), "the bias", p.channels));
  CARNOT_TRY(
      carnot_cuda_expect(carnot_cuda_optional(step, inputs, 3), "past_state", lanes * before));
  CARNOT_TRY(
      carnot_cuda_expect(carnot_cuda_output(step, outputs, 0), "the result", lanes * p.length));
  CARNOT_TRY(
      carnot_cuda_expect(carnot_cuda_output(step, outputs, 1), "present_state", lanes * before));
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_causal_conv,
                                   lanes * (p.length + before), &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_OP_TACTIC(causal_conv, "cuda_causal_conv", CAUSAL_CONV_WITH_STATE);
