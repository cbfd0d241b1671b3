// Classification losses over scores [N,C,D..] and targets [N,D..]; |weight| [C] or absent: 1.
//   nll_loss:              l = -weight[t] * x[n,t,d..]
//   softmax_cross_entropy: the same of log_softmax(x) over C, which is output 1
// |reduction|: none gives [N,D..], sum their sum, mean the sum over the sum of the weights taken. A
// target equal to ignore_index counts nothing. INVALID_ARGUMENT for other targets outside [0, C).
// Computed in double.
#include "ops/util.h"

static carnot_status* infer_loss(carnot_infer* infer) {
  const carnot_type *x, *target;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 2, CARNOT_MAX_RANK, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, 1, &target));
  CARNOT_CHECK(x->rank < 0 || target->rank < 0 || target->rank == x->rank - 1, INVALID_MODEL,
               "targets have rank %d; %d is required", target->rank, x->rank - 1);
  bool none = carnot_infer_is(infer, "reduction", "none");
  CARNOT_CHECK(none || carnot_infer_is(infer, "reduction", "sum") ||
                   carnot_infer_is(infer, "reduction", "mean"),
               INVALID_MODEL, "reduction is none of none, sum and mean");
  carnot_sym dims[CARNOT_MAX_RANK];
  for (int i = 0; i < x->rank - 1; i++) dims[i] = x->dims[i ? i + 1 : 0];
  carnot_infer_set(infer, 0, x->dtype, none ? (x->rank < 0 ? -1 : x->rank - 1) : 0, dims);
  if (infer->output_count > 1) CARNOT_TRY(carnot_infer_like(infer, 1, 0, x->dtype));
  return NULL;
}

// log_softmax over dimension 1, in place.
static void log_softmax(double* x, int64_t images, int64_t classes, int64_t size) {
  for (int64_t i = 0; i < images * size; i++) {
    double* lane = x + i / size * classes * size + i % size;
    double top = -(double)INFINITY, sum = 0;
    for (int64_t c = 0; c < classes; c++) {
      double v = lane[c * size];
      if (v > top || v != v) top = v;
    }
    for (int64_t c = 0; c < classes; c++) sum += exp(lane[c * size] - top);
    for (int64_t c = 0; c < classes; c++) lane[c * size] -= top + log(sum);
  }
}

typedef struct loss_run {
  int64_t images, classes, size;
  const double *x, *weights;
  const int64_t* targets;
} loss_run;

static carnot_status* sum_losses(const carnot_call* call, const loss_run* r, carnot_tensor* y) {
  bool ignores = carnot_attr_has(call->attrs, "ignore_index");
  int64_t ignored = carnot_call_int(call, "ignore_index"), count = r->images * r->size;
  bool none = carnot_call_is(call, "reduction", "none");
  double sum = 0, weights = 0;
  for (int64_t i = 0; i < count; i++) {
    int64_t t = r->targets[i];
    double weight = 0, loss = 0;
    if (!ignores || t != ignored) {
      CARNOT_CHECK(t >= 0 && t < r->classes, INVALID_ARGUMENT,
                   "target %lld is %lld; 0 to %lld is required", (long long)i, (long long)t,
                   (long long)r->classes - 1);
      weight = r->weights ? r->weights[t] : 1;
      loss = -weight * r->x[(i / r->size * r->classes + t) * r->size + i % r->size];
    }
    sum += loss;
    weights += weight;
    if (none && y) carnot_store_f64(y->dtype, y->data, (size_t)i, loss);
  }
  if (none || !y) return NULL;
  bool mean = carnot_call_is(call, "reduction", "mean");
  carnot_store_f64(y->dtype, y->data, 0, mean ? sum / weights : sum);
  return NULL;
}

static carnot_status* run_loss(carnot_call* call, bool softmax) {
  const carnot_tensor *x = carnot_call_in(call, 0), *target = carnot_call_in(call, 1),
                      *weights = carnot_call_in(call, 2);
  carnot_tensor* log_prob = carnot_call_out(call, 1);
  loss_run r = {x->dims[0], x->dims[1], carnot_dims_count(x->dims + 2, x->rank - 2),
                NULL,       NULL,       NULL};
  CARNOT_CHECK(carnot_tensor_count(target) == r.images * r.size, INVALID_MODEL,
               "%lld targets for %lld positions", (long long)carnot_tensor_count(target),
               (long long)(r.images * r.size));
  CARNOT_CHECK(!weights || carnot_tensor_count(weights) == r.classes, INVALID_MODEL,
               "weight has %lld elements; %lld are required",
               (long long)carnot_tensor_count(weights), (long long)r.classes);
  CARNOT_TRY(carnot_call_f64(call, x, &r.x));
  CARNOT_TRY(carnot_call_f64(call, weights, &r.weights));
  CARNOT_TRY(carnot_call_i64(call, target, &r.targets));
  if (softmax) {
    double* own = NULL;
    int64_t count = carnot_tensor_count(x);
    CARNOT_TRY(carnot_call_array(call, count, sizeof(double), &own));
    if (count) memcpy(own, r.x, (size_t)count * sizeof(double));
    log_softmax(own, r.images, r.classes, r.size);
    carnot_write_f64(log_prob, own);
    r.x = own;
  }
  return sum_losses(call, &r, carnot_call_out(call, 0));
}
static carnot_status* run_nll(carnot_call* call) { return run_loss(call, /*softmax=*/false); }
static carnot_status* run_softmax_cross_entropy(carnot_call* call) {
  return run_loss(call, /*softmax=*/true);
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_INT("ignore_index", 0),
                                          CARNOT_SPEC_WORD("reduction", "mean", "none sum mean"),
                                          CARNOT_SPEC_END};

const carnot_op_row carnot_op_nll_loss = {
    .name = "nll_loss",
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .infer = infer_loss,
    .reference = run_nll,
    .source = "ONNX NegativeLogLikelihoodLoss-22",
    .layer_type = "REDUCE",
};
const carnot_op_row carnot_op_softmax_cross_entropy = {
    .name = "softmax_cross_entropy",
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 2,
    .attrs = kAttrs,
    .infer = infer_loss,
    .reference = run_softmax_cross_entropy,
    .source = "ONNX SoftmaxCrossEntropyLoss-13",
    .layer_type = "REDUCE",
};
