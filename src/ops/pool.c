// Pooling over sliding windows; sizes as in window.h, padding never takes part in max and lp.
//   max_pool:     y = max of the window; indices (int64) of the first maximum, flat over [N,C,D..];
//   |storage_order| 1
//                 counts the spatial dimensions column first. NaN wins.
//   average_pool: y = sum / elements; |count_include_pad|: of the window inside the padded input
//   lp_pool:      y = (sum |x|^p)^(1/p)
// |x| [N,C,D..] → [N,C,O..]. Computed in double.
#include "ops/sliding_window.h"

typedef enum pool_kind { POOL_MAX, POOL_AVERAGE, POOL_LP } pool_kind;

typedef struct pool_run {
  carnot_sliding_window window;
  pool_kind kind;
  double p;
  bool count_pad, column_major;
  const double* x;
  double* y;
  int64_t* indices;  // may be NULL
  int64_t in_dims[CARNOT_SLIDING_WINDOW_RANK], out_dims[CARNOT_SLIDING_WINDOW_RANK];
  int64_t in_size, out_size, tap_count;
} pool_run;

static carnot_status* infer_pool(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 2, CARNOT_MAX_RANK, &x));
  int rank = x->rank;
  carnot_sym dims[CARNOT_MAX_RANK];
  if (rank >= 0) {
    carnot_sliding_window window;
    CARNOT_TRY(carnot_sliding_window_read(infer->row, infer->attrs, rank - 2, NULL, &window));
    window.ceil_mode = carnot_infer_int(infer, "ceil_mode") != 0;
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    CARNOT_TRY(carnot_sliding_window_infer(infer, &window, x->dims + 2, dims + 2));
  }
  carnot_infer_set(infer, 0, x->dtype, rank, dims);
  if (infer->output_count > 1) carnot_infer_set(infer, 1, CARNOT_DTYPE_I64, rank, dims);
  return NULL;
}

// The position of coordinates |at| among the elements of a plane, in the order asked for.
static int64_t flat_index(const pool_run* r, const int64_t* at) {
  int64_t index = 0, rank = r->window.rank;
  for (int64_t d = 0; d < rank; d++) {
    int64_t i = r->column_major ? rank - 1 - d : d;
    index = index * r->in_dims[i] + at[i];
  }
  return index;
}

// Steps to the next tap in row-major order.
static void next_tap(const carnot_sliding_window* w, int64_t* tap) {
  for (int d = w->rank - 1; d >= 0; d--) {
    if (++tap[d] < w->kernel[d]) return;
    tap[d] = 0;
  }
}

static double pool_window(const pool_run* r, const double* plane, const int64_t* out_at,
                          int64_t* out_index) {
  const carnot_sliding_window* w = &r->window;
  int64_t tap[CARNOT_SLIDING_WINDOW_RANK] = {0}, count = 0;
  double best = -(double)INFINITY, sum = 0;
  *out_index = -1;
  for (int64_t t = 0; t < r->tap_count; t++, next_tap(w, tap)) {
    int64_t at[CARNOT_SLIDING_WINDOW_RANK], offset = 0;
    bool inside = true, padded = true;
    for (int d = 0; d < w->rank; d++) {
      at[d] = out_at[d] * w->strides[d] - w->begin[d] + tap[d] * w->dilations[d];
      inside &= at[d] >= 0 && at[d] < r->in_dims[d];
      padded &= at[d] < r->in_dims[d] + w->end[d];
      offset = offset * r->in_dims[d] + at[d];
    }
    count += r->count_pad ? padded : inside;
    if (!inside) continue;
    double x = plane[offset];
    if (r->kind == POOL_LP) {
      sum += pow(fabs(x), r->p);
    } else if (r->kind == POOL_AVERAGE) {
      sum += x;
    } else if (*out_index < 0 || x > best || (x != x && best == best)) {
      best = x;
      *out_index = flat_index(r, at);
    }
  }
  if (r->kind == POOL_MAX) return best;
  if (r->kind == POOL_LP) return pow(sum, 1 / r->p);
  return count ? sum / (double)count : 0;
}

static void pool_plane(void* arg, int64_t plane) {
  const pool_run* r = arg;
  int64_t at[CARNOT_SLIDING_WINDOW_RANK], index;
  for (int64_t i = 0; i < r->out_size; i++) {
    carnot_unravel(i, r->out_dims, r->window.rank, at);
    r->y[plane * r->out_size + i] = pool_window(r, r->x + plane * r->in_size, at, &index);
    if (r->indices) {
      r->indices[plane * r->out_size + i] = plane * r->in_size + carnot_max_i64(index, 0);
    }
  }
}

static carnot_status* run_pool(carnot_call* call, pool_run* r) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor *y = carnot_call_out(call, 0), *indices = carnot_call_out(call, 1);
  const carnot_tensor* shape = y ? y : indices;
  if (!shape || carnot_tensor_count(shape) == 0) return NULL;
  int rank = x->rank - 2;
  CARNOT_TRY(carnot_sliding_window_of_call(call, rank, NULL, &r->window));
  carnot_sliding_window_resolve(&r->window, x->dims + 2, shape->dims + 2);
  memcpy(r->in_dims, x->dims + 2, (size_t)rank * sizeof(int64_t));
  memcpy(r->out_dims, shape->dims + 2, (size_t)rank * sizeof(int64_t));
  r->in_size = carnot_dims_count(r->in_dims, rank);
  r->out_size = carnot_dims_count(r->out_dims, rank);
  r->tap_count = carnot_dims_count(r->window.kernel, rank);
  CARNOT_TRY(carnot_call_f64(call, x, &r->x));
  if (y) {
    CARNOT_TRY(carnot_call_f64_out(call, y, &r->y));
  } else {
    CARNOT_TRY(carnot_call_array(call, carnot_tensor_count(shape), sizeof(double), &r->y));
  }
  if (indices) r->indices = indices->data;
  carnot_call_parallel(call, shape->dims[0] * shape->dims[1], pool_plane, r);
  carnot_write_f64(y, r->y);
  return NULL;
}

static carnot_status* run_max(carnot_call* call) {
  pool_run r = {.kind = POOL_MAX, .column_major = carnot_call_int(call, "storage_order") != 0};
  return run_pool(call, &r);
}
static carnot_status* run_average(carnot_call* call) {
  pool_run r = {.kind = POOL_AVERAGE, .count_pad = carnot_call_int(call, "count_include_pad") != 0};
  return run_pool(call, &r);
}
static carnot_status* run_lp(carnot_call* call) {
  pool_run r = {.kind = POOL_LP, .p = (double)carnot_call_int(call, "p")};
  return run_pool(call, &r);
}

#define POOL_ATTRS                                                                           \
  CARNOT_SPEC_WORD("auto_pad", "NOTSET", CARNOT_AUTO_PADS), CARNOT_SPEC_INT("ceil_mode", 0), \
      CARNOT_SPEC_LIST("dilations", INTS), CARNOT_SPEC_REQUIRED("kernel_shape", INTS),       \
      CARNOT_SPEC_LIST("pads", INTS), CARNOT_SPEC_LIST("strides", INTS)
static const carnot_attr_spec kMaxAttrs[] = {POOL_ATTRS, CARNOT_SPEC_INT("storage_order", 0),
                                             CARNOT_SPEC_END};
static const carnot_attr_spec kAverageAttrs[] = {
    POOL_ATTRS, CARNOT_SPEC_INT("count_include_pad", 0), CARNOT_SPEC_END};
static const carnot_attr_spec kLpAttrs[] = {POOL_ATTRS, CARNOT_SPEC_INT("p", 2), CARNOT_SPEC_END};

const carnot_op_row carnot_op_max_pool = {
    .name = "max_pool",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 2,
    .attrs = kMaxAttrs,
    .traits = CARNOT_TRAIT_MAXIMUM | CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_F32_AS_HALF,
    .infer = infer_pool,
    .reference = run_max,
    .source = "ONNX MaxPool-22",
    .layer_type = "POOLING",
};
const carnot_op_row carnot_op_average_pool = {
    .name = "average_pool",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAverageAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_F32_AS_HALF,
    .infer = infer_pool,
    .reference = run_average,
    .source = "ONNX AveragePool-22",
    .layer_type = "POOLING",
};
const carnot_op_row carnot_op_lp_pool = {
    .name = "lp_pool",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kLpAttrs,
    .infer = infer_pool,
    .reference = run_lp,
    .source = "ONNX LpPool-22",
    .layer_type = "POOLING",
};
