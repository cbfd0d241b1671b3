// Columns of blocks summed back to an image.
//   y[n,c, o*stride + t*dilation - begin ..] += x[n, c*taps + t, o]
// |x| [N, C*taps, L], L the block positions; input 1: the image's spatial dimensions, input 2:
// those of a block (taps = their product). → [N,C,image..]. Summed in double.
#include "ops/sliding_window.h"

static carnot_status* infer_col2im(carnot_infer* infer) {
  const carnot_type* x;
  const carnot_sym *image, *block;
  size_t count, block_count;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 3, 3, &x));
  CARNOT_TRY(carnot_infer_ints(infer, 1, &image, &count));
  CARNOT_TRY(carnot_infer_ints(infer, 2, &block, &block_count));
  if (!image) {
    carnot_infer_set(infer, 0, x->dtype, -1, NULL);
    return NULL;
  }
  CARNOT_CHECK(count <= CARNOT_SLIDING_WINDOW_RANK && (!block || block_count == count),
               INVALID_MODEL, "image_shape has %zu elements and block_shape %zu", count,
               block_count);
  carnot_sym dims[CARNOT_MAX_RANK] = {carnot_infer_unknown(infer, INT32_MAX),
                                      carnot_infer_unknown(infer, INT32_MAX)};
  if (x->rank == 3) dims[0] = x->dims[0];
  if (x->rank == 3 && block) {
    carnot_sym taps = carnot_sym_product(infer->syms, block, count);
    CARNOT_CHECK(!carnot_sym_is_const(taps) || taps.bits > 0, INVALID_MODEL,
                 "block_shape has %lld elements", (long long)taps.bits);
    dims[1] = carnot_sym_floordiv(infer->syms, x->dims[1], taps);
  }
  for (size_t i = 0; i < count; i++) dims[i + 2] = image[i];
  carnot_infer_set(infer, 0, x->dtype, (int)count + 2, dims);
  return NULL;
}

// Adds the column elements of one tap of one plane.
static void add_tap(const carnot_sliding_window* w, const int64_t* image, const int64_t* positions,
                    const int64_t* tap, const double* x, double* y) {
  int64_t count = carnot_dims_count(positions, w->rank), at[CARNOT_SLIDING_WINDOW_RANK];
  for (int64_t i = 0; i < count; i++) {
    carnot_unravel(i, positions, w->rank, at);
    int64_t offset = 0;
    bool inside = true;
    for (int d = 0; d < w->rank; d++) {
      int64_t p = at[d] * w->strides[d] + tap[d] * w->dilations[d] - w->begin[d];
      inside &= p >= 0 && p < image[d];
      offset = offset * image[d] + p;
    }
    if (inside) y[offset] += x[i];
  }
}

static carnot_status* run_col2im(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  int64_t image[CARNOT_SLIDING_WINDOW_RANK], positions[CARNOT_SLIDING_WINDOW_RANK],
      dims[CARNOT_MAX_RANK];
  size_t count, block_count;
  CARNOT_TRY(carnot_call_list(call, 1, CARNOT_SLIDING_WINDOW_RANK, image, &count));
  carnot_tensor block = {.rank = (int)count + 2};
  CARNOT_TRY(carnot_call_list(call, 2, CARNOT_SLIDING_WINDOW_RANK, block.dims + 2, &block_count));
  CARNOT_CHECK(count == block_count, INVALID_ARGUMENT,
               "image_shape has %zu elements and block_shape %zu", count, block_count);
  carnot_sliding_window w;
  CARNOT_TRY(carnot_sliding_window_of_call(call, (int)count, &block, &w));
  int64_t taps = carnot_dims_count(w.kernel, w.rank);
  for (int d = 0; d < w.rank; d++) {
    int64_t reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
    int64_t room = image[d] + w.begin[d] + w.end[d] - reach;
    CARNOT_CHECK(w.kernel[d] > 0 && room >= 0, INVALID_ARGUMENT,
                 "a block of %lld does not fit dimension %d of %lld", (long long)reach, d,
                 (long long)image[d]);
    positions[d] = room / w.strides[d] + 1;
  }
  int64_t each = carnot_dims_count(positions, w.rank), size = carnot_dims_count(image, w.rank);
  CARNOT_CHECK(x->dims[1] % taps == 0 && x->dims[2] == each, INVALID_ARGUMENT,
               "the input has %lld rows and %lld columns; multiples of %lld and %lld are required",
               (long long)x->dims[1], (long long)x->dims[2], (long long)taps, (long long)each);
  dims[0] = x->dims[0];
  dims[1] = x->dims[1] / taps;
  memcpy(dims + 2, image, count * sizeof(int64_t));
  CARNOT_TRY(carnot_call_size_output(call, 0, x->dtype, (int)count + 2, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  const double* in;
  double* out = NULL;
  CARNOT_TRY(carnot_call_f64(call, x, &in));
  CARNOT_TRY(carnot_call_array(call, carnot_tensor_count(y), sizeof(double), &out));
  for (int64_t row = 0; row < dims[0] * x->dims[1]; row++) {
    int64_t tap[CARNOT_SLIDING_WINDOW_RANK];
    carnot_unravel(row % taps, w.kernel, w.rank, tap);
    add_tap(&w, image, positions, tap, in + row * each, out + row / taps * size);
  }
  carnot_write_f64(y, out);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_LIST("dilations", INTS),
                                          CARNOT_SPEC_LIST("pads", INTS),
                                          CARNOT_SPEC_LIST("strides", INTS), CARNOT_SPEC_END};

const carnot_op_row carnot_op_col2im = {
    .name = "col2im",
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .infer = infer_col2im,
    .reference = run_col2im,
    .source = "ONNX Col2Im-18",
    .layer_type = "REFERENCE",
};
