// The cast to NHWC 16-bit floats in front of a convolution.
#include "backend/cuda/conv/conv.h"

static const carnot_cuda_kernel_id kCastToNhwc[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, cast_to_nhwc)};

carnot_operand_desc carnot_cuda_conv_input(const carnot_problem* problem) {
  carnot_operand_desc x = problem->inputs[0];
  if (carnot_conv_anchor(problem->region)) x.format.dtype = problem->outputs[0].format.dtype;
  return x;
}

carnot_status* carnot_cuda_conv_cast_shape(const carnot_step_view* step, const carnot_operand* x,
                                           carnot_dtype to, carnot_cuda_conv_cast* out,
                                           carnot_operand* out_x) {
  *out = (carnot_cuda_conv_cast){.function = NULL};
  *out_x = *x;
  if (!carnot_conv_anchor(step->region)) return NULL;
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && carnot_cuda_is_half(to) && x->rank >= 2,
               INVALID_MODEL, "a cast from %s to %s before a convolution",
               carnot_dtype_name(x->format.dtype), carnot_dtype_name(to));
  out_x->format.dtype = to, out_x->data = NULL;
  carnot_layout_strides(CARNOT_LAYOUT_CHANNELS_LAST, x->rank, x->dims, out_x->strides);
  carnot_cuda_cast_to_nhwc_params* p = &out->params;
  p->rank = x->rank - 1, p->channels = x->dims[1], p->x_c = x->strides[1], p->count = 1;
  for (int d = 0; d < p->rank; d++) {
    p->dims[d] = x->dims[d ? d + 1 : 0], p->src[d] = x->strides[d ? d + 1 : 0];
    p->count *= p->dims[d];
  }
  out->bytes = carnot_align_up((size_t)carnot_dims_count(x->dims, x->rank) * 2, 256);
  return carnot_cuda_kernel_for(carnot_cuda_of_step(step), kCastToNhwc, to, &out->function);
}

carnot_status* carnot_cuda_conv_cast_run(const carnot_step_view* step, carnot_cuda_conv_cast* cast,
                                         void* workspace, void** x) {
  if (!cast->function) return NULL;
  cast->params.x = *x, cast->params.y = *x = workspace;
  return carnot_cuda_launch_threads(step, cast->function, cast->params.count, &cast->params);
}
