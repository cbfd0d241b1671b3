// What GridSample and RoiAlign share: the images that they read and write, channels last.
#ifndef CARNOT_BACKEND_CPU_RESAMPLE_IMAGE_SAMPLING_H_
#define CARNOT_BACKEND_CPU_RESAMPLE_IMAGE_SAMPLING_H_

#include "backend/cpu/common/cpu.h"

// The geometry of the input image and of the result. Sizes and strides count elements.
typedef struct carnot_image_geometry {
  int64_t channels, src_n, src_h, src_w, src_y, src_x;  // sizes and strides of the input
  int64_t n, h, w, dst_n, dst_h, dst_w;                 // and of the result
} carnot_image_geometry;

// Fills |out| from float32 operands of rank 4 whose channels are innermost; INVALID_ARGUMENT where
// they are something else.
carnot_status* carnot_image_geometry_of(const carnot_operand* x, const carnot_operand* y,
                                        carnot_image_geometry* s) CARNOT_MUST_USE;

// reject: accepts one node of |op| over a float32 image, whose input 1 is float32 of rank |rank|,
// and sets the layouts. NULL, or the reason.
const char* carnot_image_sampling_reject(carnot_problem* problem, carnot_op op, int rank,
                                         char* reason, size_t size);

#endif  // CARNOT_BACKEND_CPU_RESAMPLE_IMAGE_SAMPLING_H_
