// Resize by the generic kernels: eight channels of a pixel a thread, or one element.
#include <math.h>

#include "backend/cuda/common/generic.h"
#include "kernel/cuda/resample/resample_params.h"

enum { kHostInputs = 0xe };

static const char* resize_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_RESIZE)) return "";
  const carnot_operand_desc* roi = problem->input_count > 1 ? &problem->inputs[1] : NULL;
  if (roi && roi->kind == CARNOT_VALUE_TENSOR && !roi->is_constant)
    return "the region is not constant";
  return carnot_cuda_generic_reject(problem, CARNOT_OP_RESIZE, kHostInputs, reason, size);
}

static const char* resize_nhwc_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = resize_reject(problem, reason, size);
  if (why) return why;
  carnot_operand_desc *x = &problem->inputs[0], *y = &problem->outputs[0];
  if (x->rank != 4 || !carnot_cuda_is_half(x->format.dtype))
    return carnot_cuda_reject_reason(reason, size, "%s of rank %d, takes pictures of 16-bit floats",
                                     carnot_dtype_name(x->format.dtype), x->rank);
  if (x->min[1] != x->max[1] || x->dims[1] % 8 || y->dims[1] != x->dims[1])
    return carnot_cuda_reject_reason(reason, size, "%lld channels, takes multiples of 8",
                                     (long long)x->dims[1]);
  x->format.layout = y->format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

// The axes that |count| sizes, scales and regions speak of.
static carnot_status* resize_axes(const carnot_cuda_attrs* a, int rank, int64_t count, int* out) {
  size_t given;
  const int64_t* axes = carnot_attr_ints(a->attrs, "axes", &given);
  CARNOT_CHECK(count == (axes && given ? (int64_t)given : rank) && count <= CARNOT_CUDA_RANK,
               INVALID_MODEL, "scales or sizes has %lld elements", (long long)count);
  for (int i = 0; i < (int)count; i++) {
    int64_t axis = axes && given ? axes[i] : i;
    out[i] = (int)(axis < 0 ? axis + rank : axis);
    CARNOT_CHECK(out[i] >= 0 && out[i] < rank, INVALID_MODEL, "axis %lld of rank %d",
                 (long long)axis, rank);
  }
  return NULL;
}

static carnot_status* resize_scales(const carnot_step_view* step, const carnot_cuda_attrs* a,
                                    const carnot_operand* inputs, carnot_cuda_resize_params* p) {
  const carnot_operand *roi = carnot_cuda_optional(step, inputs, 1),
                       *scales = carnot_cuda_optional(step, inputs, 2),
                       *sizes = carnot_cuda_optional(step, inputs, 3);
  const carnot_operand* given = scales->format.dtype ? scales : sizes;
  int64_t count = given->format.dtype ? carnot_cuda_count(given) : 0;
  int axes[CARNOT_CUDA_RANK];
  static const char* const kPolicies[] = {"stretch", "not_larger", "not_smaller"};
  int policy = carnot_cuda_attr_word(a, "keep_aspect_ratio_policy", kPolicies, 3);
  double common = policy == 1 ? (double)INFINITY : 0;
  CARNOT_TRY(resize_axes(a, p->rank, count, axes));
  for (int i = 0; i < (int)count; i++) {
    double value;
    CARNOT_TRY(carnot_cuda_host_number(given, i, &value));
    double each = scales->format.dtype ? value : value / (double)p->in[axes[i]];
    p->scale[axes[i]] = each;
    common = policy == 1 ? fmin(common, each) : fmax(common, each);
  }
  for (int i = 0; i < (int)count; i++) {
    if (!scales->format.dtype && policy) p->scale[axes[i]] = common;
    if (!roi->format.dtype || carnot_cuda_count(roi) != 2 * count) continue;
    CARNOT_TRY(carnot_cuda_host_number(roi, i, &p->roi_start[axes[i]]));
    CARNOT_TRY(carnot_cuda_host_number(roi, count + i, &p->roi_end[axes[i]]));
  }
  return NULL;
}

static carnot_status* read_params(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* outputs, carnot_cuda_resize_params* out) {
  // In the order of the kernel's names.
  static const char* const kPlaces[] = {"half_pixel",           "pytorch_half_pixel",
                                        "asymmetric",           "align_corners",
                                        "half_pixel_symmetric", "tf_crop_and_resize"};
  static const char* const kNearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                         "ceil"};
  static const char* const kModes[] = {"nearest", "linear", "cubic"};
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_CHECK(x->rank == y->rank && x->rank <= CARNOT_CUDA_RANK &&
                   x->format.dtype == y->format.dtype &&
                   (carnot_cuda_count(x) > 0 || carnot_cuda_count(y) == 0),
               INVALID_ARGUMENT, "ranks %d and %d", x->rank, y->rank);
  int mode = carnot_cuda_attr_word(&a, "mode", kModes, 3);
  *out = (carnot_cuda_resize_params){
      .rank = x->rank,
      .place = carnot_cuda_attr_word(&a, "coordinate_transformation_mode", kPlaces, 6),
      .nearest = carnot_cuda_attr_word(&a, "nearest_mode", kNearest, 4),
      .radius = mode,
      .cubic = mode == 2,
      .exclude_outside = carnot_cuda_attr(&a, "exclude_outside") != 0,
      .antialias = carnot_cuda_attr(&a, "antialias") != 0,
      .coefficient = carnot_attr_float(a.row, a.attrs, "cubic_coeff_a"),
      .extrapolation = carnot_attr_float(a.row, a.attrs, "extrapolation_value")};
  CARNOT_CHECK(mode < 3 && out->place < 6 && out->nearest < 4, INVALID_MODEL,
               "an unknown mode of resize");
  for (int d = 0; d < x->rank; d++) {
    out->in[d] = x->dims[d], out->out[d] = y->dims[d];
    out->scale[d] = out->roi_end[d] = 1;
  }
  return resize_scales(step, &a, inputs, out);
}

// Whether each result is made of few elements: nearest and linear without antialiasing.
static bool has_two_taps(const carnot_cuda_resize_params* p) {
  bool shrinks = false;
  for (int d = 0; d < p->rank; d++) shrinks = shrinks || (p->antialias && p->scale[d] < 1);
  return p->radius <= 1 && !shrinks;
}

// Whether the last two axes alone change.
static bool resizes_planes(const carnot_cuda_resize_params* p) {
  bool same = p->rank >= 2;
  for (int d = 0; d + 2 < p->rank; d++)
    same = same && p->scale[d] == 1 && p->in[d] == p->out[d] && p->roi_start[d] == 0 &&
           p->roi_end[d] == 1;
  return same;
}

static carnot_status* resize_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  carnot_cuda_resize_params p;
  *out_workspace_bytes = 0;
  CARNOT_TRY(read_params(step, inputs, outputs, &p));
  int64_t count = carnot_cuda_count(&outputs[0]);
  const bool by_rows = has_two_taps(&p) && resizes_planes(&p) && count > 0 && count <= INT32_MAX;
  if (by_rows) {
    const int64_t rows = p.out[p.rank - 2];
    count = count / rows * carnot_ceildiv(rows, CARNOT_CUDA_RESIZE_ROWS);
  }
  return carnot_cuda_generic_shape(
      step, inputs, outputs,
      by_rows ? CARNOT_CUDA_KERNEL_generic_resize_planes : CARNOT_CUDA_KERNEL_generic_resize, count,
      &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_TACTIC(resize, "cuda_resize", CARNOT_OP_RESIZE, resize_reject, resize_shape);

static carnot_status* resize_nhwc_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  carnot_cuda_resize_params p;
  *out_workspace_bytes = 0;
  CARNOT_TRY(read_params(step, inputs, outputs, &p));
  CARNOT_CHECK(x->rank == 4 && x->dims[0] == y->dims[0] && x->dims[1] == y->dims[1] &&
                   x->dims[1] % 8 == 0 && carnot_cuda_is_half(x->format.dtype) &&
                   carnot_cuda_is_channels_last(x) && carnot_cuda_is_channels_last(y),
               INVALID_ARGUMENT, "pictures of %lld channels, channels last", (long long)x->dims[1]);
  // Few taps and 32-bit indices: several rows a thread.
  int64_t pieces = carnot_cuda_count(y) / 8;
  const bool by_rows = has_two_taps(&p) && resizes_planes(&p) && pieces <= INT32_MAX;
  if (by_rows)
    pieces = x->dims[0] * (x->dims[1] / 8) * carnot_ceildiv(y->dims[2], CARNOT_CUDA_RESIZE_ROWS) *
             y->dims[3];
  return carnot_cuda_generic_shape(step, inputs, outputs,
                                   by_rows ? CARNOT_CUDA_KERNEL_generic_resize_nhwc_rows
                                           : CARNOT_CUDA_KERNEL_generic_resize_nhwc,
                                   pieces, &p, sizeof(p), state);
}
const carnot_tactic carnot_cuda_resize_nhwc = {.name = "cuda_resize_nhwc",
                                               .anchor = CARNOT_OP_RESIZE,
                                               .numerics = CARNOT_NUMERICS_EXACT,
                                               .device = true,
                                               .reject = resize_nhwc_reject,
                                               .configure = resize_nhwc_shape,
                                               .run = carnot_cuda_generic_run};
