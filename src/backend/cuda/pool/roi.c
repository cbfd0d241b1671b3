// RoiAlign, MaxRoiPool and MaxUnpool by generic kernels.
#include "backend/cuda/common/generic.h"
#include "backend/cuda/common/sliding_window.h"
#include "kernel/cuda/pool/roi_params.h"

// ---- regions of interest ----

// |regions| with |numbers| each.
static carnot_status* shape_roi(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, carnot_cuda_kernel_id kernel,
                                int64_t numbers, carnot_cuda_roi_params* p, void* state) {
  const carnot_operand *x = &inputs[0], *regions = &inputs[1], *y = &outputs[0];
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  CARNOT_CHECK(step->input_count >= 2 && x->rank == 4 && regions->rank == 2 && y->rank == 4,
               INVALID_MODEL, "images of rank %d", x->rank);
  p->images = x->dims[0], p->channels = x->dims[1], p->height = x->dims[2], p->width = x->dims[3];
  p->rows = y->dims[2], p->columns = y->dims[3];
  p->scale = carnot_attr_float(a.row, a.attrs, "spatial_scale");
  CARNOT_TRY(carnot_cuda_expect(x, "x", p->images * p->channels * p->height * p->width));
  CARNOT_TRY(carnot_cuda_expect(regions, "the regions", y->dims[0] * numbers));
  CARNOT_CHECK(y->dims[1] == p->channels, INVALID_ARGUMENT, "the result has %lld channels",
               (long long)y->dims[1]);
  return carnot_cuda_generic_shape(step, inputs, outputs, kernel, carnot_cuda_count(y), p,
                                   sizeof(*p), state);
}

static carnot_status* roi_align_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  CARNOT_CHECK(step->input_count == 3, INVALID_MODEL, "%u operands", step->input_count);
  CARNOT_TRY(carnot_cuda_expect(&inputs[2], "batch_indices", outputs[0].dims[0]));
  bool half = carnot_attr_is(a.row, a.attrs, "coordinate_transformation_mode", "half_pixel");
  carnot_cuda_roi_params p = {.sampling = carnot_cuda_attr(&a, "sampling_ratio"),
                              .mean = !carnot_attr_is(a.row, a.attrs, "mode", "max"),
                              .shift = half ? 0.5 : 0};
  return shape_roi(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_roi_align, /*numbers=*/4, &p,
                   state);
}
CARNOT_CUDA_GENERIC_OP_TACTIC(roi_align, "cuda_roi_align", ROI_ALIGN);

static carnot_status* max_roi_pool_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* state,
                                         size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_roi_params p = {.mean = 0};
  return shape_roi(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_max_roi_pool, /*numbers=*/5,
                   &p, state);
}
CARNOT_CUDA_GENERIC_OP_TACTIC(max_roi_pool, "cuda_max_roi_pool", MAX_ROI_POOL);

// ---- MaxUnpool ----

static const char* max_unpool_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_generic_reject(problem, CARNOT_OP_MAX_UNPOOL, 1u << 2, reason, size);
}

static carnot_status* max_unpool_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  carnot_sliding_window w;
  CARNOT_CHECK(step->input_count >= 2 && x->rank >= 2 && x->rank <= CARNOT_CUDA_RANK &&
                   y->rank == x->rank && y->format.dtype == x->format.dtype,
               INVALID_MODEL, "ranks %d and %d", x->rank, y->rank);
  CARNOT_TRY(carnot_sliding_window_read(a.row, a.attrs, x->rank - 2, NULL, &w));
  carnot_cuda_max_unpool_params p = {.rank = x->rank,
                                     .size = carnot_dims_count(x->dims + 2, x->rank - 2),
                                     .inner = {x->dims[0], x->dims[1]}};
  p.io.bytes = carnot_cuda_bytes(x);
  for (int d = 0; d < x->rank; d++) {
    if (d > 1)
      p.inner[d] =
          (x->dims[d] - 1) * w.strides[d - 2] + w.kernel[d - 2] - w.begin[d - 2] - w.end[d - 2];
    p.dims[d] = y->dims[d];
    CARNOT_CHECK(p.inner[d] > 0, INVALID_ARGUMENT,
                 "dimension %d of the unpooled result has size %lld", d, (long long)p.inner[d]);
  }
  CARNOT_TRY(carnot_cuda_expect(x, "x", carnot_cuda_count(x)));
  CARNOT_TRY(carnot_cuda_expect(&inputs[1], "the indices", carnot_cuda_count(x)));
  CARNOT_TRY(carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_max_unpool,
                                       x->dims[0] * x->dims[1], &p, sizeof(p), state));
  ((carnot_cuda_generic_state*)state)->cleared = (size_t)(carnot_cuda_count(y) * p.io.bytes);
  return NULL;
}
CARNOT_CUDA_GENERIC_TACTIC(max_unpool, "cuda_max_unpool", CARNOT_OP_MAX_UNPOOL, max_unpool_reject,
                           max_unpool_shape);
