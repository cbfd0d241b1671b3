// Sampling at given positions, and the grids of affine maps.
//   grid_sample: y[n,c,p..] = x[n,c] at grid[n,p..,:], interpolated (mode nearest, linear, cubic)
//     |x| [N,C,D1..Dr]  |grid| [N,O1..Or,r], last coordinate first, -1 and 1 the centres
//     (align_corners) or the outer edges of the border elements; outside: padding_mode zeros,
//     border or reflection
//   affine_grid: grid[n,p..,:] = theta[n] * (coordinates of p, 1)
//     |theta| [N,r,r+1], |size| (N,C,D1..Dr) → [N,D1..Dr,r], r = 2 or 3
// Coordinates are f32 as the grid is (f64 where it is), the rest double.
#include "ops/grid_sample.h"

enum { kSpatial = CARNOT_MAX_RANK - 2 };

static carnot_status* infer_grid_sample(carnot_infer* infer) {
  const carnot_type *x, *grid;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 3, CARNOT_MAX_RANK, &x));
  CARNOT_TRY(carnot_infer_rank(infer, 1, 3, CARNOT_MAX_RANK, &grid));
  carnot_sym dims[CARNOT_MAX_RANK];
  int rank = grid->rank < 0 ? x->rank : grid->rank;
  CARNOT_CHECK(x->rank < 0 || rank == x->rank, INVALID_MODEL,
               "the grid has rank %d; the input's rank %d is required", rank, x->rank);
  for (int i = 0; i < rank; i++) dims[i] = carnot_infer_unknown(infer, INT32_MAX);
  if (x->rank > 0) dims[0] = x->dims[0], dims[1] = x->dims[1];
  for (int i = 2; grid->rank > 0 && i < rank; i++) dims[i] = grid->dims[i - 1];
  if (grid->rank > 0) {
    carnot_sym both;
    CARNOT_TRY(carnot_infer_merge(infer, grid->dims[rank - 1], carnot_sym_of(rank - 2),
                                  "coordinates of the grid", &both));
  }
  carnot_infer_set(infer, 0, x->dtype, rank, dims);
  return NULL;
}

typedef struct sample_run {
  int rank;  // spatial
  const double *x, *grid;
  double* y;
  int64_t in_dims[kSpatial], in_size, out_size, channels;
  carnot_sample_rule rule;
} sample_run;

// |at| mirrored at the borders until it lies between them.
static double reflect(double at, double low, double high) {
  double range = high - low;
  if (range <= 0) return low;
  if (at >= low && at <= high) return at;
  double over = at < low ? low - at : at - high, turns = floor(over / range);
  double rest = over - turns * range;
  bool from_near = fmod(turns, 2) == 0;
  if (at < low) return from_near ? low + rest : high - rest;
  return from_near ? high - rest : low + rest;
}

static void borders(const carnot_sample_rule* r, int64_t size, double* low, double* high) {
  *low = r->align_corners ? 0 : -0.5;
  *high = (double)size - (r->align_corners ? 1 : 0.5);
}

// A grid coordinate as a place in a dimension of |size|.
static double place_of(const carnot_sample_rule* r, double n, int64_t size) {
  double low, high, at;
  if (r->wide) {
    at = r->align_corners ? (n + 1) / 2 * (double)(size - 1) : ((n + 1) * (double)size - 1) / 2;
  } else {
    float f = (float)n + 1;
    at = (double)(r->align_corners ? f / 2 * (float)(size - 1) : (f * (float)size - 1) / 2);
  }
  if (r->taps == 1) at = rint(at);
  borders(r, size, &low, &high);
  if (!(at < low || at > high)) return at;
  if (r->pad == CARNOT_SAMPLE_BORDER) return at < 0 ? 0 : (double)size - 1;
  return r->pad == CARNOT_SAMPLE_REFLECTION ? reflect(at, low, high) : at;
}

// The element that tap |i| reads; -1: none.
static int64_t element_of(const carnot_sample_rule* r, double i, int64_t size) {
  double low, high;
  if (r->pad == CARNOT_SAMPLE_BORDER) i = fmin(fmax(i, 0), (double)size - 1);
  if (r->pad == CARNOT_SAMPLE_REFLECTION) {
    borders(r, size, &low, &high);
    i = trunc(reflect(i, low, high));
  }
  return i >= 0 && i < (double)size ? (int64_t)i : -1;
}

static double cubic(double d) {
  const double a = -0.75;
  d = fabs(d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

carnot_sample_rule carnot_sample_rule_of(const carnot_attrs* attrs) {
  const carnot_op_row* row = &carnot_op_grid_sample;
  carnot_sample_rule r = {.taps = carnot_attr_is(row, attrs, "mode", "nearest") ? 1 : 2};
  if (carnot_attr_is(row, attrs, "mode", "cubic")) r.taps = 4, r.before = 1;
  r.align_corners = carnot_attr_int(row, attrs, "align_corners") != 0;
  r.pad = carnot_attr_is(row, attrs, "padding_mode", "border")       ? CARNOT_SAMPLE_BORDER
          : carnot_attr_is(row, attrs, "padding_mode", "reflection") ? CARNOT_SAMPLE_REFLECTION
                                                                     : CARNOT_SAMPLE_ZEROS;
  return r;
}

void carnot_sample_taps(const carnot_sample_rule* r, double n, int64_t size,
                        int64_t elements[CARNOT_SAMPLE_TAPS], double weights[CARNOT_SAMPLE_TAPS]) {
  double at = place_of(r, n, size), low = floor(at);
  for (int64_t k = 0; k < r->taps; k++) {
    double i = r->taps == 1 ? at : low + (double)(k - r->before), distance = fabs(at - i);
    elements[k] = element_of(r, i, size);
    weights[k] = r->taps == 1 ? 1 : r->taps == 2 ? 1 - distance : cubic(distance);
  }
}

typedef struct spread {
  int64_t element[kSpatial][CARNOT_SAMPLE_TAPS];
  double weight[kSpatial][CARNOT_SAMPLE_TAPS];
} spread;

static void spread_of(const sample_run* r, const double* point, spread* s) {
  for (int d = 0; d < r->rank; d++)
    carnot_sample_taps(&r->rule, point[r->rank - 1 - d], r->in_dims[d], s->element[d],
                       s->weight[d]);
}

static void sample_image(void* arg, int64_t part) {
  const sample_run* r = arg;
  int64_t n = part / r->out_size, p = part % r->out_size, total = 1;
  spread s;
  spread_of(r, r->grid + part * r->rank, &s);
  for (int d = 0; d < r->rank; d++) total *= r->rule.taps;
  for (int64_t c = 0; c < r->channels; c++) {
    const double* plane = r->x + (n * r->channels + c) * r->in_size;
    double sum = 0;
    for (int64_t t = 0; t < total; t++) {
      double weight = 1;
      int64_t offset = 0, rest = t;
      bool inside = true;
      for (int d = 0; d < r->rank; d++) {
        int64_t k = rest % r->rule.taps, i = s.element[d][k];
        rest /= r->rule.taps;
        weight *= s.weight[d][k];
        inside &= i >= 0;
        offset = offset * r->in_dims[d] + i;
      }
      if (inside) sum += weight * plane[offset];
    }
    r->y[(n * r->channels + c) * r->out_size + p] = sum;
  }
}

static carnot_status* run_grid_sample(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *grid = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  sample_run r = {.rank = x->rank - 2, .channels = x->dims[1]};
  memcpy(r.in_dims, x->dims + 2, (size_t)r.rank * sizeof(int64_t));
  r.in_size = carnot_dims_count(r.in_dims, r.rank);
  r.out_size = carnot_dims_count(y->dims + 2, r.rank);
  CARNOT_CHECK(carnot_tensor_count(grid) == x->dims[0] * r.out_size * r.rank, INVALID_MODEL,
               "the grid has %lld elements; %lld are required",
               (long long)carnot_tensor_count(grid), (long long)(x->dims[0] * r.out_size * r.rank));
  r.rule = carnot_sample_rule_of(call->attrs);
  r.rule.wide = grid->dtype == CARNOT_DTYPE_F64;
  CARNOT_TRY(carnot_call_f64(call, x, &r.x));
  CARNOT_TRY(carnot_call_f64(call, grid, &r.grid));
  CARNOT_TRY(carnot_call_f64_out(call, y, &r.y));
  carnot_call_parallel(call, x->dims[0] * r.out_size, sample_image, &r);
  carnot_write_f64(y, r.y);
  return NULL;
}

// ---- affine_grid ----

static carnot_status* infer_affine(carnot_infer* infer) {
  const carnot_type* theta;
  const carnot_sym* size;
  size_t count;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 3, 3, &theta));
  CARNOT_TRY(carnot_infer_ints(infer, 1, &size, &count));
  if (!size) {
    carnot_infer_set(infer, 0, theta->dtype, -1, NULL);
    return NULL;
  }
  CARNOT_CHECK(count == 4 || count == 5, INVALID_MODEL,
               "size has %zu elements; 4 or 5 are required", count);
  carnot_sym dims[5];
  dims[0] = size[0];
  for (size_t i = 2; i < count; i++) dims[i - 1] = size[i];
  dims[count - 1] = carnot_sym_of((int64_t)count - 2);
  carnot_infer_set(infer, 0, theta->dtype, (int)count, dims);
  return NULL;
}

// Element |at| of |size| of a dimension, from -1 to 1.
static double affine_coordinate(int64_t at, int64_t size, bool align) {
  double d = (double)size, p = (double)at;
  return align ? (d > 1 ? 2 * p / (d - 1) - 1 : 0) : (2 * p + 1) / d - 1;
}

// A row of |width| points of |r| coordinates, a constant: y[p,j] = across[p,j] + rests[j].
static inline __attribute__((always_inline)) void affine_row(int r, int64_t width,
                                                             const double* restrict across,
                                                             const double* rests,
                                                             float* restrict y) {
  for (int64_t p = 0; p < width; p++)
    for (int j = 0; j < r; j++) y[p * r + j] = (float)(across[p * r + j] + rests[j]);
}

static carnot_status* run_affine(carnot_call* call) {
  const carnot_tensor* theta = carnot_call_in(call, 0);
  int64_t size[5], dims[5], at[3];
  size_t count;
  CARNOT_TRY(carnot_call_list(call, 1, 5, size, &count));
  int r = (int)count - 2;
  CARNOT_CHECK((r == 2 || r == 3) && carnot_tensor_count(theta) == size[0] * r * (r + 1),
               INVALID_ARGUMENT, "theta has %lld elements for a size of %zu dimensions",
               (long long)carnot_tensor_count(theta), count);
  dims[0] = size[0];
  for (int i = 0; i < r; i++) dims[i + 1] = size[i + 2];
  dims[r + 1] = r;
  CARNOT_TRY(carnot_call_size_output(call, 0, theta->dtype, r + 2, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  bool align = carnot_call_int(call, "align_corners") != 0;
  const double* m;
  CARNOT_TRY(carnot_call_f64(call, theta, &m));
  int64_t rows = carnot_dims_count(dims + 1, r - 1), width = dims[r];
  double *row = NULL, *last = NULL, *across = NULL;
  CARNOT_TRY(carnot_call_array(call, width * r, sizeof(double), &row));
  CARNOT_TRY(carnot_call_array(call, width, sizeof(double), &last));
  CARNOT_TRY(carnot_call_array(call, width * r, sizeof(double), &across));
  for (int64_t p = 0; p < width; p++) last[p] = affine_coordinate(p, width, align);
  for (int64_t n = 0; n < dims[0]; n++) {
    const double* map = m + n * r * (r + 1);
    // What the first coordinate adds is that of all rows of an image.
    for (int64_t p = 0; p < width; p++)
      for (int j = 0; j < r; j++) across[p * r + j] = map[j * (r + 1)] * last[p];
    for (int64_t i = 0; i < rows; i++) {
      double v[4] = {0}, rests[3] = {0};
      carnot_unravel(i, dims + 1, r - 1, at);
      // The last dimension is the first coordinate.
      for (int k = 1; k < r; k++) v[k] = affine_coordinate(at[r - 1 - k], dims[r - k], align);
      v[r] = 1;
      for (int j = 0; j < r; j++)
        for (int k = 1; k <= r; k++) rests[j] += map[j * (r + 1) + k] * v[k];
      const int64_t first = (n * rows + i) * width * r;
      if (y->dtype == CARNOT_DTYPE_F32) {
        float* points = (float*)y->data + first;
        if (r == 2)
          affine_row(2, width, across, rests, points);
        else
          affine_row(3, width, across, rests, points);
        continue;
      }
      for (int64_t p = 0; p < width; p++)
        for (int j = 0; j < r; j++) row[p * r + j] = across[p * r + j] + rests[j];
      carnot_store_block_f64(y->dtype, y->data, (size_t)first, 1, (size_t)(width * r), row);
    }
  }
  return NULL;
}

static const carnot_attr_spec kSampleAttrs[] = {
    CARNOT_SPEC_INT("align_corners", 0), CARNOT_SPEC_WORD("mode", "linear", "linear nearest cubic"),
    CARNOT_SPEC_WORD("padding_mode", "zeros", "zeros border reflection"), CARNOT_SPEC_END};
static const carnot_attr_spec kAffineAttrs[] = {CARNOT_SPEC_INT("align_corners", 0),
                                                CARNOT_SPEC_END};

const carnot_op_row carnot_op_grid_sample = {
    .name = "grid_sample",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kSampleAttrs,
    .infer = infer_grid_sample,
    .reference = run_grid_sample,
    .source = "ONNX GridSample-22",
    .layer_type = "GRID_SAMPLE",
};
const carnot_op_row carnot_op_affine_grid = {
    .name = "affine_grid",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAffineAttrs,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .infer = infer_affine,
    .reference = run_affine,
    .source = "ONNX AffineGrid-20",
    .layer_type = "FILL",
};
