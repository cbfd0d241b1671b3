// GridSample by the generic kernel.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/resample/resample_params.h"

static const char* grid_sample_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_GRID_SAMPLE) && problem->inputs[0].rank > 5)
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes up to 5",
                                     problem->inputs[0].rank);
  return carnot_cuda_generic_reject(problem, CARNOT_OP_GRID_SAMPLE, 0, reason, size);
}

static carnot_status* grid_sample_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  static const char* const kModes[] = {"nearest", "linear", "cubic"};
  static const char* const kPaddings[] = {"zeros", "border", "reflection"};
  const carnot_operand *x = &inputs[0], *grid = &inputs[1], *y = &outputs[0];
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  CARNOT_TRY(carnot_cuda_on_device(inputs, 2));
  int mode = carnot_cuda_attr_word(&a, "mode", kModes, 3), rank = x->rank - 2;
  carnot_cuda_grid_sample_params p = {
      .rank = rank,
      .taps = 1 << mode,
      .before = mode == 2,
      .padding = carnot_cuda_attr_word(&a, "padding_mode", kPaddings, 3),
      .align_corners = carnot_cuda_attr(&a, "align_corners") != 0};
  CARNOT_CHECK(rank >= 1 && rank <= 3 && y->rank == x->rank && mode < 3 && p.padding < 3,
               INVALID_MODEL, "rank %d, or an unknown mode", x->rank);
  p.channels = x->dims[1];
  for (int d = 0; d < rank; d++) p.in[d] = x->dims[d + 2];
  p.in_size = carnot_dims_count(x->dims + 2, rank);
  p.out_size = carnot_dims_count(y->dims + 2, rank);
  CARNOT_CHECK(carnot_cuda_count(grid) == x->dims[0] * p.out_size * rank &&
                   y->dims[0] == x->dims[0] && y->dims[1] == x->dims[1],
               INVALID_ARGUMENT, "the grid has %lld elements; %lld are required",
               (long long)carnot_cuda_count(grid), (long long)(x->dims[0] * p.out_size * rank));
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_grid_sample,
                                   carnot_cuda_count(y), &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_TACTIC(grid_sample, "cuda_grid_sample", CARNOT_OP_GRID_SAMPLE,
                           grid_sample_reject, grid_sample_shape);
