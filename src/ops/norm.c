// Normalisation of rows by their own statistics: with m the mean and v the population variance of a
// row,
//   layer_norm:    y = (x - m) / sqrt(v + epsilon) * scale + bias    row: the dimensions from
//   |axis| on;
//                  outputs 1 and 2: m and 1 / sqrt(v + epsilon), of type stash_type
//   rms_norm:      y = x / sqrt(mean(x^2) + epsilon) * scale         rows as above, the type of
//   scale instance_norm: as layer_norm; row: all D of one channel of [N,C,D..] group_norm:    as
//   layer_norm; row: all D of C/num_groups channels
// |scale|, |bias| broadcast to x for the first two, [C] for the others. Statistics are double,
// variance in two passes.
#include "ops/axis_iter.h"

typedef struct norm_run {
  const double *scale, *bias;  // bias may be NULL
  int rank;
  int64_t dims[CARNOT_MAX_RANK];
  int64_t scale_strides[CARNOT_MAX_RANK], bias_strides[CARNOT_MAX_RANK];
  bool scale_by_row, bias_by_row;  // one value an element of the row
  double epsilon;
  bool rms;
  double *means, *inverses;  // may be NULL
} norm_run;

static double param_at(const double* values, const norm_run* r, const int64_t* strides, bool by_row,
                       int64_t row_start, int64_t i) {
  return values[by_row ? i : carnot_offset(row_start + i, r->dims, strides, r->rank)];
}

static void norm_row(const void* context, int64_t lane, const double* x, double* y, int64_t n) {
  const norm_run* r = context;
  double mean = 0, square = 0;
  for (int64_t i = 0; i < n && !r->rms; i++) mean += x[i];
  mean /= (double)n;
  for (int64_t i = 0; i < n; i++) square += (x[i] - mean) * (x[i] - mean);
  double inverse = 1 / sqrt(square / (double)n + r->epsilon);
  for (int64_t i = 0; i < n; i++) {
    double scale = param_at(r->scale, r, r->scale_strides, r->scale_by_row, lane * n, i);
    y[i] = (x[i] - mean) * inverse * scale;
    if (r->bias) y[i] += param_at(r->bias, r, r->bias_strides, r->bias_by_row, lane * n, i);
  }
  if (r->means) r->means[lane] = mean;
  if (r->inverses) r->inverses[lane] = inverse;
}

// |t| takes its place under x as broadcasting says, or along dimension 1.
static carnot_status* place_param(const carnot_tensor* x, const carnot_tensor* t, bool by_channel,
                                  int64_t row, int64_t* strides, bool* out_by_row) {
  *out_by_row = false;
  if (by_channel) {
    CARNOT_CHECK(carnot_tensor_count(t) == x->dims[1], INVALID_MODEL,
                 "a parameter has %lld elements; %lld are required",
                 (long long)carnot_tensor_count(t), (long long)x->dims[1]);
    memset(strides, 0, CARNOT_MAX_RANK * sizeof(*strides));
    strides[1] = 1;
    return NULL;
  }
  bool fits = t->rank <= x->rank;
  for (int i = 1; fits && i <= t->rank; i++) {
    fits = t->dims[t->rank - i] == 1 || t->dims[t->rank - i] == x->dims[x->rank - i];
  }
  CARNOT_CHECK(fits, INVALID_MODEL, "a parameter of rank %d does not broadcast to the input",
               t->rank);
  carnot_broadcast_strides(t, x->rank, strides);
  bool suffix = true;
  for (int i = 1; i <= t->rank; i++) {
    suffix &= t->dims[t->rank - i] == x->dims[x->rank - i] || i > x->rank;
  }
  *out_by_row = suffix && carnot_tensor_count(t) == row;
  return NULL;
}

static carnot_status* run_norm(carnot_call* call, int64_t row, bool by_channel, norm_run* r) {
  const carnot_tensor *x = carnot_call_in(call, 0), *scale = carnot_call_in(call, 1),
                      *bias = carnot_call_in(call, 2);
  r->rank = x->rank;
  memcpy(r->dims, x->dims, sizeof(r->dims));
  r->epsilon = carnot_call_float(call, "epsilon");
  CARNOT_TRY(place_param(x, scale, by_channel, row, r->scale_strides, &r->scale_by_row));
  CARNOT_TRY(carnot_call_f64(call, scale, &r->scale));
  if (bias) CARNOT_TRY(place_param(x, bias, by_channel, row, r->bias_strides, &r->bias_by_row));
  CARNOT_TRY(carnot_call_f64(call, bias, &r->bias));
  return carnot_for_each_row(call, x, carnot_call_out(call, 0), row, norm_row, r);
}

// ---- layer_norm and rms_norm ----

static carnot_status* infer_layer(carnot_infer* infer) {
  const carnot_type* x;
  int axis = 0;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 1, CARNOT_MAX_RANK, &x));
  if (x->rank > 0) CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
  CARNOT_TRY(carnot_infer_like(infer, 0, 0, x->dtype));
  carnot_sym dims[CARNOT_MAX_RANK];
  for (int i = 0; i < x->rank; i++) dims[i] = i < axis ? x->dims[i] : carnot_sym_of(1);
  int64_t stash = carnot_infer_int(infer, "stash_type");
  CARNOT_CHECK(carnot_dtype_is_float((carnot_dtype)stash), INVALID_MODEL,
               "stash_type is %lld; a floating type is required", (long long)stash);
  for (int i = 1; i < infer->output_count; i++) {
    carnot_infer_set(infer, i, (carnot_dtype)stash, x->rank, dims);
  }
  return NULL;
}

static carnot_status* infer_rms(carnot_infer* infer) {
  const carnot_type *x, *scale;
  int axis;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 1, CARNOT_MAX_RANK, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &scale));
  if (x->rank > 0) CARNOT_TRY(carnot_axis(carnot_infer_int(infer, "axis"), x->rank, "axis", &axis));
  return carnot_infer_like(infer, 0, 0, scale->dtype);
}

// Elements from |axis| on.
static carnot_status* row_length(const carnot_call* call, int64_t* out_row) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  int axis;
  CARNOT_TRY(carnot_axis(carnot_call_int(call, "axis"), x->rank, "axis", &axis));
  *out_row = carnot_dims_count(x->dims + axis, x->rank - axis);
  return NULL;
}

static carnot_status* run_layer(carnot_call* call) {
  norm_run r = {0};
  int64_t row;
  CARNOT_TRY(row_length(call, &row));
  carnot_tensor *means = carnot_call_out(call, 1), *inverses = carnot_call_out(call, 2);
  CARNOT_TRY(carnot_call_f64_out(call, means, &r.means));
  CARNOT_TRY(carnot_call_f64_out(call, inverses, &r.inverses));
  CARNOT_TRY(run_norm(call, row, /*by_channel=*/false, &r));
  carnot_write_f64(means, r.means);
  carnot_write_f64(inverses, r.inverses);
  return NULL;
}

static carnot_status* run_rms(carnot_call* call) {
  norm_run r = {.rms = true};
  int64_t row;
  CARNOT_TRY(row_length(call, &row));
  return run_norm(call, row, /*by_channel=*/false, &r);
}

// ---- instance_norm and group_norm ----

static carnot_status* infer_channels(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 2, CARNOT_MAX_RANK, &x));
  return carnot_infer_like(infer, 0, 0, x->dtype);
}

static carnot_status* run_instance(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  norm_run r = {0};
  return run_norm(call, carnot_dims_count(x->dims + 2, x->rank - 2), /*by_channel=*/true, &r);
}

static carnot_status* run_group(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  int64_t groups = carnot_call_int(call, "num_groups");
  CARNOT_CHECK(groups > 0 && x->dims[1] % groups == 0, INVALID_MODEL,
               "%lld channels do not divide into %lld groups", (long long)x->dims[1],
               (long long)groups);
  norm_run r = {0};
  int64_t row = x->dims[1] / groups * carnot_dims_count(x->dims + 2, x->rank - 2);
  return run_norm(call, row, /*by_channel=*/true, &r);
}

static const carnot_attr_spec kLayerAttrs[] = {
    CARNOT_SPEC_INT("axis", -1), CARNOT_SPEC_FLOAT("epsilon", 1e-5),
    CARNOT_SPEC_INT("stash_type", CARNOT_DTYPE_F32), CARNOT_SPEC_END};
static const carnot_attr_spec kInstanceAttrs[] = {CARNOT_SPEC_FLOAT("epsilon", 1e-5),
                                                  CARNOT_SPEC_END};
static const carnot_attr_spec kGroupAttrs[] = {
    CARNOT_SPEC_FLOAT("epsilon", 1e-5), CARNOT_SPEC_REQUIRED("num_groups", INT),
    CARNOT_SPEC_INT("stash_type", CARNOT_DTYPE_F32), CARNOT_SPEC_END};

const carnot_op_row carnot_op_layer_norm = {
    .name = "layer_norm",
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 3,
    .attrs = kLayerAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_F32_AS_HALF | CARNOT_TRAIT_BYTE_ENDS,
    .infer = infer_layer,
    .reference = run_layer,
    .source = "ONNX LayerNormalization-17",
    .layer_type = "NORMALIZATION",
};
const carnot_op_row carnot_op_rms_norm = {
    .name = "rms_norm",
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kLayerAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_F32_AS_HALF | CARNOT_TRAIT_BYTE_ENDS,
    .infer = infer_rms,
    .reference = run_rms,
    .source = "ONNX RMSNormalization-23",
    .layer_type = "NORMALIZATION",
};
const carnot_op_row carnot_op_instance_norm = {
    .name = "instance_norm",
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kInstanceAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_F32_AS_HALF | CARNOT_TRAIT_BYTE_ENDS,
    .infer = infer_channels,
    .reference = run_instance,
    .source = "ONNX InstanceNormalization-22",
    .layer_type = "NORMALIZATION",
};
const carnot_op_row carnot_op_group_norm = {
    .name = "group_norm",
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kGroupAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_F32_AS_HALF | CARNOT_TRAIT_BYTE_ENDS,
    .infer = infer_channels,
    .reference = run_group,
    .source = "ONNX GroupNormalization-21",
    .layer_type = "NORMALIZATION",
};
