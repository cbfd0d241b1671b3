// Layers that weigh elements of their surroundings: resize, transposed convolution, samples.
#include <math.h>
#include <string.h>

#include "backend/cuda/each.h"
#include "ops/einsum.h"
#include "ops/sliding_window.h"

// Which of |words| the attribute is; |count| for none.
static int word(const carnot_cuda_attrs* a, const char* name, const char* const* words, int count) {
  int at = 0;
  while (at < count && !carnot_attr_is(a->row, a->attrs, name, words[at])) at++;
  return at;
}

// ---- resize ----

static const char* resize_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_RESIZE)) return "";
  const carnot_operand_desc* roi = problem->input_count > 1 ? &problem->inputs[1] : NULL;
  if (roi && roi->kind == CARNOT_VALUE_TENSOR && !roi->is_constant)
    return "the region is not constant";
  return carnot_cuda_each_reject(problem, CARNOT_OP_RESIZE, 0xeu, reason, size);
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
                                    const carnot_operand* inputs, carnot_cuda_resize* p) {
  const carnot_operand *roi = carnot_cuda_optional(step, inputs, 1),
                       *scales = carnot_cuda_optional(step, inputs, 2),
                       *sizes = carnot_cuda_optional(step, inputs, 3);
  const carnot_operand* given = scales->format.dtype ? scales : sizes;
  int64_t count = given->format.dtype ? carnot_cuda_count(given) : 0;
  int axes[CARNOT_CUDA_RANK];
  static const char* const kPolicies[] = {"stretch", "not_larger", "not_smaller"};
  int policy = word(a, "keep_aspect_ratio_policy", kPolicies, 3);
  double common = policy == 1 ? (double)INFINITY : 0;
  CARNOT_TRY(resize_axes(a, p->rank, count, axes));
  for (int i = 0; i < (int)count; i++) {
    double value;
    CARNOT_TRY(carnot_cuda_number_of(given, i, &value));
    double each = scales->format.dtype ? value : value / (double)p->in[axes[i]];
    p->scale[axes[i]] = each;
    common = policy == 1 ? fmin(common, each) : fmax(common, each);
  }
  for (int i = 0; i < (int)count; i++) {
    if (!scales->format.dtype && policy) p->scale[axes[i]] = common;
    if (!roi->format.dtype || carnot_cuda_count(roi) != 2 * count) continue;
    CARNOT_TRY(carnot_cuda_number_of(roi, i, &p->roi_start[axes[i]]));
    CARNOT_TRY(carnot_cuda_number_of(roi, count + i, &p->roi_end[axes[i]]));
  }
  return NULL;
}

static carnot_status* resize_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
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
  int mode = word(&a, "mode", kModes, 3);
  carnot_cuda_resize p = {
      .rank = x->rank,
      .place = word(&a, "coordinate_transformation_mode", kPlaces, 6),
      .nearest = word(&a, "nearest_mode", kNearest, 4),
      .radius = mode,
      .cubic = mode == 2,
      .exclude_outside = carnot_cuda_attr(&a, "exclude_outside") != 0,
      .antialias = carnot_cuda_attr(&a, "antialias") != 0,
      .coefficient = carnot_attr_float(a.row, a.attrs, "cubic_coeff_a"),
      .extrapolation = carnot_attr_float(a.row, a.attrs, "extrapolation_value")};
  CARNOT_CHECK(mode < 3 && p.place < 6 && p.nearest < 4, INVALID_MODEL,
               "an unknown mode of resize");
  for (int d = 0; d < x->rank; d++) {
    p.in[d] = x->dims[d], p.out[d] = y->dims[d];
    p.scale[d] = p.roi_end[d] = 1;
  }
  CARNOT_TRY(resize_scales(step, &a, inputs, &p));
  return carnot_cuda_each_shape(step, inputs, outputs, "resize", carnot_cuda_count(y), &p,
                                sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(resize_row, "cuda_resize", CARNOT_OP_RESIZE, resize_reject, resize_shape);

// ---- transposed convolution ----

static const char* conv_transpose_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_CONV_TRANSPOSE) &&
      (problem->inputs[0].rank < 3 || problem->inputs[0].rank > 5))
    return carnot_cuda_because(reason, size, "rank %d, takes 3 to 5", problem->inputs[0].rank);
  return carnot_cuda_each_reject(problem, CARNOT_OP_CONV_TRANSPOSE, 0, reason, size);
}

// Padding that follows from the result's size.
static void resolve_padding(const carnot_cuda_attrs* a, const carnot_operand* x,
                            const carnot_operand* y, carnot_sliding_window* w) {
  bool same = w->auto_pad == CARNOT_PAD_SAME_UPPER || w->auto_pad == CARNOT_PAD_SAME_LOWER;
  size_t count;
  const int64_t* extra = carnot_attr_ints(a->attrs, "output_padding", &count);
  if (!same && !carnot_attr_has(a->attrs, "output_shape")) return;
  for (int i = 0; i < w->rank; i++) {
    int64_t total = w->strides[i] * (x->dims[i + 2] - 1) +
                    (extra && (int)count > i ? extra[i] : 0) +
                    (w->kernel[i] - 1) * w->dilations[i] + 1 - y->dims[i + 2];
    total = carnot_max_i64(0, total);
    w->begin[i] = w->auto_pad == CARNOT_PAD_SAME_UPPER ? total / 2 : total - total / 2;
  }
}

static carnot_status* conv_transpose_shape(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *w = &inputs[1], *y = &outputs[0],
                       *bias = carnot_cuda_optional(step, inputs, 2);
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  CARNOT_TRY(carnot_cuda_on_device(inputs, 2));
  if (bias->format.dtype) CARNOT_TRY(carnot_cuda_on_device(bias, 1));
  int rank = x->rank - 2;
  int64_t groups = carnot_cuda_attr(&a, "group");
  CARNOT_CHECK(rank >= 1 && rank <= 3 && w->rank == x->rank && y->rank == x->rank && groups > 0 &&
                   w->dims[0] == x->dims[1] && x->dims[1] % groups == 0 &&
                   y->dims[1] == w->dims[1] * groups && y->dims[0] == x->dims[0],
               INVALID_ARGUMENT, "weights do not fit %lld channels in %lld groups",
               (long long)x->dims[1], (long long)groups);
  CARNOT_CHECK(!bias->format.dtype || carnot_cuda_count(bias) == y->dims[1], INVALID_ARGUMENT,
               "bias has %lld elements; %lld are required", (long long)carnot_cuda_count(bias),
               (long long)y->dims[1]);
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .rank = w->rank};
  for (int d = 0; d < w->rank; d++) type.dims[d] = carnot_sym_of(w->dims[d]);
  carnot_sliding_window window;
  CARNOT_TRY(carnot_sliding_window_read(a.row, a.attrs, rank, &type, &window));
  resolve_padding(&a, x, y, &window);
  carnot_cuda_conv_transpose p = {.channels = x->dims[1], .filters = y->dims[1], .groups = groups};
  for (int d = 0; d < 3; d++) {
    int at = d - (3 - rank);
    bool used = at >= 0;
    p.in[d] = used ? x->dims[at + 2] : 1, p.out[d] = used ? y->dims[at + 2] : 1;
    p.kernel[d] = used ? window.kernel[at] : 1, p.step[d] = used ? window.strides[at] : 1;
    p.dilation[d] = used ? window.dilations[at] : 1, p.begin[d] = used ? window.begin[at] : 0;
    CARNOT_CHECK(p.kernel[d] > 0 && p.step[d] > 0 && p.dilation[d] > 0, INVALID_MODEL,
                 "a window of size or step 0");
    CARNOT_CHECK(!used || p.kernel[d] == w->dims[at + 2], INVALID_MODEL,
                 "kernel_shape[%d] is %lld, the weights' %lld", at, (long long)p.kernel[d],
                 (long long)w->dims[at + 2]);
  }
  return carnot_cuda_each_shape(step, inputs, outputs, "conv_transpose", carnot_cuda_count(y), &p,
                                sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(conv_transpose_row, "cuda_conv_transpose", CARNOT_OP_CONV_TRANSPOSE,
                     conv_transpose_reject, conv_transpose_shape);

// ---- sums of products over named dimensions ----

static const char* einsum_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_EINSUM)) return "";
  if (problem->input_count > 3)
    return carnot_cuda_because(reason, size, "%u operands, takes up to 3", problem->input_count);
  int axes = 0;
  for (uint32_t i = 0; i < problem->input_count; i++)
    axes += (int)carnot_max_i64(0, problem->inputs[i].rank);
  if (axes - problem->outputs[0].rank > CARNOT_CUDA_RANK) return "too many axes";
  return carnot_cuda_each_reject(problem, CARNOT_OP_EINSUM, 0, reason, size);
}

static carnot_status* einsum_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  int ranks[3], count = (int)step->input_count;
  const int64_t* dims[3];
  carnot_einsum plan;
  CARNOT_CHECK(count <= 3, INVALID_MODEL, "%d operands", count);
  CARNOT_TRY(carnot_cuda_on_device(inputs, step->input_count));
  for (int i = 0; i < count; i++) ranks[i] = inputs[i].rank, dims[i] = inputs[i].dims;
  CARNOT_TRY(
      carnot_einsum_plan(carnot_attr_text(a.row, a.attrs, "equation"), count, ranks, dims, &plan));
  CARNOT_CHECK(plan.out_rank <= CARNOT_CUDA_RANK && plan.sum_rank <= CARNOT_CUDA_RANK &&
                   plan.out_count == carnot_cuda_count(&outputs[0]),
               INVALID_MODEL, "%d axes are summed", plan.sum_rank);
  carnot_cuda_einsum p = {.operands = count,
                          .kept_rank = plan.out_rank,
                          .summed_rank = plan.sum_rank,
                          .summed_count = plan.sum_count};
  for (int d = 0; d < plan.out_rank; d++) {
    p.kept[d] = plan.out_dims[d];
    for (int k = 0; k < count; k++) p.kept_s[k][d] = plan.out_strides[k][d];
  }
  for (int d = 0; d < plan.sum_rank; d++) {
    p.summed[d] = plan.sum_dims[d];
    for (int k = 0; k < count; k++) p.summed_s[k][d] = plan.sum_strides[k][d];
  }
  return carnot_cuda_each_shape(step, inputs, outputs, "einsum", plan.out_count, &p, sizeof(p),
                                state);
}
CARNOT_CUDA_EACH_ROW(einsum_row, "cuda_einsum", CARNOT_OP_EINSUM, einsum_reject, einsum_shape);

// ---- samples at given places ----

static const char* grid_sample_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_GRID_SAMPLE) && problem->inputs[0].rank > 5)
    return carnot_cuda_because(reason, size, "rank %d, takes up to 5", problem->inputs[0].rank);
  return carnot_cuda_each_reject(problem, CARNOT_OP_GRID_SAMPLE, 0, reason, size);
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
  int mode = word(&a, "mode", kModes, 3), rank = x->rank - 2;
  carnot_cuda_grid_sample p = {.rank = rank,
                               .taps = 1 << mode,
                               .before = mode == 2,
                               .padding = word(&a, "padding_mode", kPaddings, 3),
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
  return carnot_cuda_each_shape(step, inputs, outputs, "grid_sample", carnot_cuda_count(y), &p,
                                sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(grid_sample_row, "cuda_grid_sample", CARNOT_OP_GRID_SAMPLE, grid_sample_reject,
                     grid_sample_shape);
