// AffineGrid by the generic kernel.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/conv/deform_conv_params.h"

static carnot_status* affine_grid_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand* y = &outputs[0];
  int rank = y->rank - 2;
  CARNOT_CHECK((rank == 2 || rank == 3) && y->dims[rank + 1] == rank, INVALID_MODEL,
               "a grid of rank %d", y->rank);
  carnot_cuda_deform_conv_params p = {
      .rank = rank, .align_corners = carnot_cuda_attr(&a, "align_corners") != 0, .out = {1, 1, 1}};
  for (int d = 0; d < rank; d++) p.out[3 - rank + d] = y->dims[d + 1];
  CARNOT_TRY(carnot_cuda_expect(&inputs[0], "theta", y->dims[0] * rank * (rank + 1)));
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_affine_grid,
                                   carnot_cuda_count(y), &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_HOST_OP_TACTIC(affine_grid, "cuda_affine_grid", AFFINE_GRID, 1u << 1);
