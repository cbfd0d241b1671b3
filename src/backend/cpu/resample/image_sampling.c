// The operands of GridSample and RoiAlign.
#include "backend/cpu/resample/image_sampling.h"

carnot_status* carnot_image_geometry_of(const carnot_operand* x, const carnot_operand* y,
                                        carnot_image_geometry* s) {
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && y->format.dtype == CARNOT_DTYPE_F32 &&
                   x->rank == 4 && y->rank == 4 && x->dims[1] == y->dims[1] && x->strides[1] == 1 &&
                   y->strides[1] == 1,
               INVALID_ARGUMENT, "operands are no float32 images of the same channels");
  *s = (carnot_image_geometry){.channels = x->dims[1],
                               .src_n = x->strides[0],
                               .src_h = x->dims[2],
                               .src_w = x->dims[3],
                               .src_y = x->strides[2],
                               .src_x = x->strides[3],
                               .n = y->dims[0],
                               .h = y->dims[2],
                               .w = y->dims[3],
                               .dst_n = y->strides[0],
                               .dst_h = y->strides[2],
                               .dst_w = y->strides[3]};
  return NULL;
}

const char* carnot_image_sampling_reject(carnot_problem* problem, carnot_op op, int rank,
                                         char* reason, size_t size) {
  const char* why = carnot_cpu_single(problem, op);
  if (!why) why = carnot_not_f32(&problem->inputs[0], "the input", 4, 4, reason, size);
  if (!why) why = carnot_not_f32(&problem->inputs[1], "what is read", rank, rank, reason, size);
  if (why) return why;
  problem->inputs[0].format.layout = problem->outputs[0].format.layout =
      CARNOT_LAYOUT_CHANNELS_LAST;
  for (uint32_t i = 1; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}
