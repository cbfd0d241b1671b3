// Batch normalisation.
//   y = (x - mean[c]) / sqrt(var[c] + epsilon) * scale[c] + bias[c]
// |x| [N,C,D..] or [N]; parameters [C]. With training_mode the statistics are those of x
// (population variance), and
//   running_mean = mean_in * momentum + mean * (1 - momentum), likewise running_var.
// Computed in double, variance in two passes.
#include "ops/util.h"

// [N,C,D..]; a tensor of rank 1 has one channel.
static carnot_sym channels_of(const carnot_type* x) {
  return x->rank > 1 ? x->dims[1] : carnot_sym_of(1);
}

static carnot_status* infer_batch_norm(carnot_infer* infer) {
  const carnot_type *x, *mean, *param;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 1, CARNOT_MAX_RANK, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, 3, &mean));
  CARNOT_TRY(carnot_infer_like(infer, 0, 0, x->dtype));
  for (int i = 1; i < 5; i++) {
    CARNOT_TRY(carnot_infer_rank(infer, i, 1, 1, &param));
    carnot_sym both;
    if (x->rank < 0 || param->rank < 0) continue;
    CARNOT_TRY(carnot_infer_merge(infer, channels_of(x), param->dims[0],
                                  "channels of input and parameter", &both));
  }
  for (int i = 1; i < infer->output_count; i++) {
    CARNOT_TRY(carnot_infer_like(infer, i, 3, mean->dtype));
  }
  return NULL;
}

typedef struct batch_run {
  int64_t images, channels, size;
  const double *x, *scale, *bias, *mean, *var;
  double *y, *running_mean, *running_var;
  double epsilon, momentum;
  bool training;
} batch_run;

// Mean and population variance of one channel over all images.
static void statistics(const batch_run* r, int64_t c, double* mean, double* var) {
  double sum = 0, square = 0, count = (double)(r->images * r->size);
  for (int64_t n = 0; n < r->images; n++) {
    const double* x = r->x + (n * r->channels + c) * r->size;
    for (int64_t i = 0; i < r->size; i++) sum += x[i];
  }
  *mean = sum / count;
  for (int64_t n = 0; n < r->images; n++) {
    const double* x = r->x + (n * r->channels + c) * r->size;
    for (int64_t i = 0; i < r->size; i++) square += (x[i] - *mean) * (x[i] - *mean);
  }
  *var = square / count;
}

static void batch_part(void* arg, int64_t c) {
  const batch_run* r = arg;
  double mean = r->mean[c], var = r->var[c];
  if (r->training) {
    statistics(r, c, &mean, &var);
    if (r->running_mean) {
      r->running_mean[c] = r->mean[c] * r->momentum + mean * (1 - r->momentum);
    }
    if (r->running_var) r->running_var[c] = r->var[c] * r->momentum + var * (1 - r->momentum);
  }
  double factor = r->scale[c] / sqrt(var + r->epsilon);
  for (int64_t n = 0; n < r->images; n++) {
    int64_t at = (n * r->channels + c) * r->size;
    for (int64_t i = 0; i < r->size; i++) {
      r->y[at + i] = (r->x[at + i] - mean) * factor + r->bias[c];
    }
  }
}

static carnot_status* run_batch_norm(carnot_call* call) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  carnot_tensor *y = carnot_call_out(call, 0), *running_mean = carnot_call_out(call, 1),
                *running_var = carnot_call_out(call, 2);
  if (!y) return NULL;
  batch_run r = {.images = x->dims[0], .channels = x->rank > 1 ? x->dims[1] : 1};
  r.size = x->rank > 2 ? carnot_dims_count(x->dims + 2, x->rank - 2) : 1;
  r.epsilon = carnot_call_float(call, "epsilon");
  r.momentum = carnot_call_float(call, "momentum");
  r.training = carnot_call_int(call, "training_mode") != 0;
  for (int i = 1; i < 5; i++) {
    CARNOT_CHECK(carnot_tensor_count(carnot_call_in(call, i)) == r.channels, INVALID_MODEL,
                 "input %d has %lld elements; %lld are required", i,
                 (long long)carnot_tensor_count(carnot_call_in(call, i)), (long long)r.channels);
  }
  CARNOT_TRY(carnot_call_f64(call, x, &r.x));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 1), &r.scale));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 2), &r.bias));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 3), &r.mean));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 4), &r.var));
  CARNOT_TRY(carnot_call_f64_out(call, y, &r.y));
  CARNOT_TRY(carnot_call_f64_out(call, running_mean, &r.running_mean));
  CARNOT_TRY(carnot_call_f64_out(call, running_var, &r.running_var));
  for (int64_t c = 0; c < r.channels && !r.training; c++) {
    if (r.running_mean) r.running_mean[c] = r.mean[c];
    if (r.running_var) r.running_var[c] = r.var[c];
  }
  carnot_call_parallel(call, r.channels, batch_part, &r);
  carnot_write_f64(y, r.y);
  carnot_write_f64(running_mean, r.running_mean);
  carnot_write_f64(running_var, r.running_var);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_FLOAT("epsilon", 1e-5),
                                          CARNOT_SPEC_FLOAT("momentum", 0.9),
                                          CARNOT_SPEC_INT("training_mode", 0), CARNOT_SPEC_END};

const carnot_op_row carnot_op_batch_norm = {
    .name = "batch_norm",
    .min_inputs = 5,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 3,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_F32_AS_HALF,
    .infer = infer_batch_norm,
    .reference = run_batch_norm,
    .source = "ONNX BatchNormalization-15",
    .layer_type = "SCALE",
};
