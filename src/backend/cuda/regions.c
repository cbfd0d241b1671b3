// Layers that read images at regions and places of their own: regions of interest, deformable
// convolution, columns back to images, unpooling, affine grids.
#include "backend/cuda/each.h"
#include "backend/cuda/window.h"

// ---- regions of interest ----

// |regions| with |numbers| each.
static carnot_status* shape_roi(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, const char* kernel, int64_t numbers,
                                carnot_cuda_roi* p, void* state) {
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
  return carnot_cuda_each_shape(step, inputs, outputs, kernel, carnot_cuda_count(y), p, sizeof(*p),
                                state);
}

static carnot_status* roi_align_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  CARNOT_CHECK(step->input_count == 3, INVALID_MODEL, "%u operands", step->input_count);
  CARNOT_TRY(carnot_cuda_expect(&inputs[2], "batch_indices", outputs[0].dims[0]));
  bool half = carnot_attr_is(a.row, a.attrs, "coordinate_transformation_mode", "half_pixel");
  carnot_cuda_roi p = {.sampling = carnot_cuda_attr(&a, "sampling_ratio"),
                       .mean = !carnot_attr_is(a.row, a.attrs, "mode", "max"),
                       .shift = half ? 0.5 : 0};
  return shape_roi(step, inputs, outputs, "roi_align", /*numbers=*/4, &p, state);
}
CARNOT_CUDA_PLAIN_ROW(roi_align, "cuda_roi_align", ROI_ALIGN);

static carnot_status* max_roi_pool_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* state,
                                         size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_roi p = {.mean = 0};
  return shape_roi(step, inputs, outputs, "max_roi_pool", /*numbers=*/5, &p, state);
}
CARNOT_CUDA_PLAIN_ROW(max_roi_pool, "cuda_max_roi_pool", MAX_ROI_POOL);

// ---- deformable convolution ----

static void take_window(const carnot_cuda_window* window, carnot_cuda_deform* p) {
  for (int d = 0; d < 3; d++) {
    p->in[d] = window->in[d], p->out[d] = window->out[d], p->kernel[d] = window->kernel[d];
    p->step[d] = window->step[d], p->dilation[d] = window->dilation[d];
    p->begin[d] = window->begin[d];
  }
}

static const char* deform_conv_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_DEFORM_CONV) && problem->inputs[0].rank > 5)
    return carnot_cuda_because(reason, size, "rank %d, takes 3 to 5", problem->inputs[0].rank);
  return carnot_cuda_each_reject(problem, CARNOT_OP_DEFORM_CONV, 0, reason, size);
}

static carnot_status* deform_conv_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *w = &inputs[1], *y = &outputs[0];
  carnot_cuda_window window;
  CARNOT_CHECK(step->input_count >= 3, INVALID_MODEL, "%u operands", step->input_count);
  CARNOT_TRY(carnot_cuda_window_make(&step->region->nodes[0], x, w, y, &window));
  carnot_cuda_deform p = {.rank = x->rank - 2,
                          .channels = x->dims[1],
                          .filters = y->dims[1],
                          .groups = carnot_cuda_attr(&a, "group"),
                          .offset_groups = carnot_cuda_attr(&a, "offset_group")};
  take_window(&window, &p);
  CARNOT_CHECK(p.groups > 0 && p.offset_groups > 0 && p.channels % p.groups == 0 &&
                   p.filters % p.groups == 0 && p.channels % p.offset_groups == 0,
               INVALID_ARGUMENT, "%lld channels and %lld filters do not fit the groups",
               (long long)p.channels, (long long)p.filters);
  int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  int64_t places = x->dims[0] * p.offset_groups * taps * p.out[0] * p.out[1] * p.out[2];
  CARNOT_TRY(carnot_cuda_expect(x, "x", carnot_cuda_count(x)));
  CARNOT_TRY(carnot_cuda_expect(w, "weights", p.filters * (p.channels / p.groups) * taps));
  CARNOT_TRY(carnot_cuda_expect(&inputs[2], "offset", places * p.rank));
  CARNOT_TRY(carnot_cuda_expect(carnot_cuda_optional(step, inputs, 3), "the bias", p.filters));
  CARNOT_TRY(carnot_cuda_expect(carnot_cuda_optional(step, inputs, 4), "the mask", places));
  return carnot_cuda_each_shape(step, inputs, outputs, "deform_conv", carnot_cuda_count(y), &p,
                                sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(deform_conv_row, "cuda_deform_conv", CARNOT_OP_DEFORM_CONV, deform_conv_reject,
                     deform_conv_shape);

// ---- columns back to images ----

static const char* col2im_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_COL2IM) && problem->outputs[0].rank > 5)
    return carnot_cuda_because(reason, size, "rank %d, takes 3 to 5", problem->outputs[0].rank);
  return carnot_cuda_each_reject(problem, CARNOT_OP_COL2IM, 6u, reason, size);
}

static carnot_status* col2im_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  carnot_type block = {.kind = CARNOT_VALUE_TENSOR, .rank = y->rank};
  int rank = y->rank - 2, count;
  int64_t sizes[CARNOT_MAX_RANK];
  CARNOT_CHECK(step->input_count == 3, INVALID_MODEL, "%u operands", step->input_count);
  CARNOT_TRY(carnot_cuda_ints(&inputs[2], sizes, CARNOT_MAX_RANK, &count));
  CARNOT_CHECK(rank >= 1 && rank <= 3 && count == rank && x->rank == 3, INVALID_MODEL,
               "blocks of %d dimensions in an image of %d", count, rank);
  for (int d = 0; d < rank; d++) block.dims[d + 2] = carnot_sym_of(sizes[d]);
  carnot_sliding_window w;
  CARNOT_TRY(carnot_sliding_window_read(a.row, a.attrs, rank, &block, &w));
  carnot_cuda_deform p = {.rank = rank};
  int64_t places = 1, taps = 1;
  for (int d = 0; d < 3; d++) {
    int at = d - (3 - rank);
    bool used = at >= 0;
    p.in[d] = used ? y->dims[at + 2] : 1, p.kernel[d] = used ? w.kernel[at] : 1;
    p.step[d] = used ? w.strides[at] : 1, p.dilation[d] = used ? w.dilations[at] : 1;
    p.begin[d] = used ? w.begin[at] : 0;
    CARNOT_CHECK(p.kernel[d] > 0 && p.step[d] > 0 && p.dilation[d] > 0, INVALID_MODEL,
                 "a block of size or step 0");
    int64_t room =
        p.in[d] + p.begin[d] + (used ? w.end[at] : 0) - ((p.kernel[d] - 1) * p.dilation[d] + 1);
    CARNOT_CHECK(room >= 0, INVALID_ARGUMENT, "a block does not fit dimension %d of %lld", at,
                 (long long)p.in[d]);
    p.out[d] = room / p.step[d] + 1;
    places *= p.out[d], taps *= p.kernel[d];
  }
  CARNOT_TRY(carnot_cuda_expect(x, "x", y->dims[0] * y->dims[1] * taps * places));
  return carnot_cuda_each_shape(step, inputs, outputs, "col2im", carnot_cuda_count(y), &p,
                                sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(col2im_row, "cuda_col2im", CARNOT_OP_COL2IM, col2im_reject, col2im_shape);

// ---- unpooling ----

static const char* max_unpool_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_MAX_UNPOOL, 1u << 2, reason, size);
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
  carnot_cuda_unpool p = {.rank = x->rank,
                          .size = carnot_dims_count(x->dims + 2, x->rank - 2),
                          .inner = {x->dims[0], x->dims[1]}};
  p.io.bytes = carnot_cuda_bytes(x);
  for (int d = 0; d < x->rank; d++) {
    if (d > 1)
      p.inner[d] =
          (x->dims[d] - 1) * w.strides[d - 2] + w.kernel[d - 2] - w.begin[d - 2] - w.end[d - 2];
    p.dims[d] = y->dims[d];
    CARNOT_CHECK(p.inner[d] > 0, INVALID_ARGUMENT, "dimension %d has %lld places", d,
                 (long long)p.inner[d]);
  }
  CARNOT_TRY(carnot_cuda_expect(x, "x", carnot_cuda_count(x)));
  CARNOT_TRY(carnot_cuda_expect(&inputs[1], "the indices", carnot_cuda_count(x)));
  CARNOT_TRY(carnot_cuda_each_shape(step, inputs, outputs, "max_unpool", x->dims[0] * x->dims[1],
                                    &p, sizeof(p), state));
  ((carnot_cuda_each*)state)->cleared = (size_t)(carnot_cuda_count(y) * p.io.bytes);
  return NULL;
}
CARNOT_CUDA_EACH_ROW(max_unpool_row, "cuda_max_unpool", CARNOT_OP_MAX_UNPOOL, max_unpool_reject,
                     max_unpool_shape);

// ---- affine grids ----

static const char* affine_grid_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_AFFINE_GRID, 1u << 1, reason, size);
}

static carnot_status* affine_grid_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand* y = &outputs[0];
  int rank = y->rank - 2;
  CARNOT_CHECK((rank == 2 || rank == 3) && y->dims[rank + 1] == rank, INVALID_MODEL,
               "a grid of rank %d", y->rank);
  carnot_cuda_deform p = {
      .rank = rank, .align_corners = carnot_cuda_attr(&a, "align_corners") != 0, .out = {1, 1, 1}};
  for (int d = 0; d < rank; d++) p.out[3 - rank + d] = y->dims[d + 1];
  CARNOT_TRY(carnot_cuda_expect(&inputs[0], "theta", y->dims[0] * rank * (rank + 1)));
  return carnot_cuda_each_shape(step, inputs, outputs, "affine_grid", carnot_cuda_count(y), &p,
                                sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(affine_grid_row, "cuda_affine_grid", CARNOT_OP_AFFINE_GRID, affine_grid_reject,
                     affine_grid_shape);
