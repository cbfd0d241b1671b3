// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss by the generic kernel.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/loss/loss_params.h"

static const char* loss_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_op op = problem->region->nodes[0].op;
  if (op != CARNOT_OP_NLL_LOSS && op != CARNOT_OP_SOFTMAX_CROSS_ENTROPY) return "";
  return carnot_cuda_generic_reject(problem, op, 0, reason, size);
}

static carnot_status* loss_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand* x = &inputs[0];
  CARNOT_CHECK(step->input_count >= 2 && x->rank >= 2, INVALID_MODEL, "scores of rank %d", x->rank);
  carnot_cuda_loss_params p = {
      .classes = x->dims[1],
      .size = carnot_dims_count(x->dims + 2, x->rank - 2),
      .softmax = step->region->nodes[0].op == CARNOT_OP_SOFTMAX_CROSS_ENTROPY,
      .ignores = carnot_attr_has(a.attrs, "ignore_index"),
      .ignored = carnot_cuda_attr(&a, "ignore_index"),
      .none = carnot_attr_is(a.row, a.attrs, "reduction", "none"),
      .mean = carnot_attr_is(a.row, a.attrs, "reduction", "mean")};
  p.positions = x->dims[0] * p.size;
  CARNOT_TRY(carnot_cuda_expect(x, "x", p.positions * p.classes));
  CARNOT_TRY(carnot_cuda_expect(&inputs[1], "the targets", p.positions));
  CARNOT_TRY(carnot_cuda_expect(carnot_cuda_optional(step, inputs, 2), "weight", p.classes));
  CARNOT_TRY(carnot_cuda_expect(carnot_cuda_output(step, outputs, 0), "the loss",
                                p.none ? p.positions : 1));
  CARNOT_TRY(
      carnot_cuda_expect(carnot_cuda_output(step, outputs, 1), "log_prob", carnot_cuda_count(x)));
  CARNOT_TRY(carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_loss, 1,
                                       &p, sizeof(p), state));
  ((carnot_cuda_generic_state*)state)->blocks = true;
  return NULL;
}
CARNOT_CUDA_GENERIC_TACTIC(loss, "cuda_loss", CARNOT_OP_COUNT, loss_reject, loss_shape);
