// CropAndResize by the generic kernel.
#include "kernel/cuda/resample/crop_and_resize.cuh"

#include "backend/cuda/common/generic.h"

static carnot_status* crop_and_resize_shape(const carnot_step_view* step,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs, void* state,
                                            size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  CARNOT_CHECK(step->input_count == 4 && x->rank == 4 && y->rank == 4 && y->dims[1] == x->dims[1],
               INVALID_MODEL, "%u operands, images of rank %d", step->input_count, x->rank);
  CARNOT_TRY(carnot_cuda_expect(x, "x", carnot_cuda_count(x)));
  CARNOT_TRY(carnot_cuda_expect(&inputs[1], "rois", y->dims[0] * 4));
  CARNOT_TRY(carnot_cuda_expect(&inputs[2], "batch_indices", y->dims[0]));
  carnot_cuda_crop_and_resize_params p = {
      .images = x->dims[0],
      .channels = x->dims[1],
      .height = x->dims[2],
      .width = x->dims[3],
      .rows = y->dims[2],
      .columns = y->dims[3],
      .extrapolation = carnot_attr_float(a.row, a.attrs, "extrapolation_value"),
      .nearest = carnot_attr_is(a.row, a.attrs, "mode", "nearest")};
  return carnot_cuda_generic_shape(step, inputs, outputs,
                                   CARNOT_CUDA_KERNEL_generic_crop_and_resize, carnot_cuda_count(y),
                                   &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_HOST_OP_TACTIC(crop_and_resize, "cuda_crop_and_resize", CROP_AND_RESIZE,
                                   1u << 3);
