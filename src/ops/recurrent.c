// What LSTM, GRU and RNN share: operands, directions, sequence lengths, gates.
#include "ops/recurrent.h"

#include <strings.h>

#include "ops/gemm.h"

carnot_status* carnot_recurrent_infer(carnot_infer* infer, int64_t gates) {
  const carnot_type *x, *w, *r;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 3, 3, &x));
  CARNOT_TRY(carnot_infer_rank(infer, 1, 3, 3, &w));
  CARNOT_TRY(carnot_infer_rank(infer, 2, 3, 3, &r));
  carnot_strview direction = carnot_attr_text(infer->row, infer->attrs, "direction");
  bool both = carnot_view_is(direction, "bidirectional");
  CARNOT_CHECK(both || carnot_view_is(direction, "forward") || carnot_view_is(direction, "reverse"),
               INVALID_MODEL,
               "direction is \"" CARNOT_VIEW_FMT
               "\"; forward, reverse or bidirectional is required",
               CARNOT_VIEW_ARG(direction));
  carnot_sym directions = carnot_sym_of(both ? 2 : 1), merged;
  if (w->rank == 3) {
    CARNOT_TRY(carnot_infer_merge(infer, w->dims[0], directions, "directions of W", &merged));
  }
  carnot_sym hidden = carnot_sym_of(carnot_infer_int(infer, "hidden_size"));
  if (r->rank == 3) {
    if (!carnot_sym_is(hidden, 0)) {
      CARNOT_TRY(carnot_infer_merge(infer, r->dims[2], hidden, "hidden_size and R", &hidden));
    }
    hidden = r->dims[2];
    carnot_sym rows = carnot_sym_mul(infer->syms, hidden, carnot_sym_of(gates));
    CARNOT_TRY(carnot_infer_merge(infer, r->dims[1], rows, "rows of R", &merged));
  }
  bool batch_first = carnot_infer_int(infer, "layout") != 0;
  carnot_sym time = x->rank == 3 ? x->dims[batch_first] : carnot_infer_unknown(infer, INT32_MAX);
  carnot_sym batch = x->rank == 3 ? x->dims[!batch_first] : carnot_infer_unknown(infer, INT32_MAX);
  const carnot_type* mask =
      infer->input_count > CARNOT_RECURRENT_MASK ? infer->inputs[CARNOT_RECURRENT_MASK].type : NULL;
  CARNOT_CHECK(!mask || (mask->kind == CARNOT_VALUE_TENSOR && mask->dtype == CARNOT_DTYPE_BOOL &&
                         (mask->rank == 2 || mask->rank < 0)),
               INVALID_MODEL, "input %d is no mask: a BOOL tensor of 2 dimensions is required",
               CARNOT_RECURRENT_MASK);
  carnot_sym y[4] = {time, directions, batch, hidden},
             y_first[4] = {batch, time, directions, hidden};
  carnot_sym h[3] = {directions, batch, hidden}, h_first[3] = {batch, directions, hidden};
  carnot_infer_set(infer, 0, x->dtype, 4, batch_first ? y_first : y);
  for (int i = 1; i < infer->output_count; i++) {
    carnot_infer_set(infer, i, x->dtype, 3, batch_first ? h_first : h);
  }
  return NULL;
}

// ---- activations ----

typedef struct activation {
  const char* name;
  carnot_fn fn;
  bool takes_alpha, takes_beta;
  double alpha, beta;  // where the model says none
} activation;
static const activation kActivations[] = {
    {"Relu", CARNOT_FN_RELU, false, false, 0, 0},
    {"Tanh", CARNOT_FN_TANH, false, false, 0, 0},
    {"Sigmoid", CARNOT_FN_SIGMOID, false, false, 0, 0},
    {"Affine", CARNOT_FN_AFFINE, true, true, 1, 0},
    {"LeakyRelu", CARNOT_FN_LEAKY_RELU, true, false, 0.01, 0},
    {"ThresholdedRelu", CARNOT_FN_THRESHOLDED_RELU, true, false, 1, 0},
    {"ScaledTanh", CARNOT_FN_SCALED_TANH, true, true, 1, 1},
    {"HardSigmoid", CARNOT_FN_HARD_SIGMOID, true, true, 0.2, 0.5},
    {"Elu", CARNOT_FN_ELU, true, false, 1, 0},
    {"Softsign", CARNOT_FN_SOFTSIGN, false, false, 0, 0},
    {"Softplus", CARNOT_FN_SOFTPLUS, false, false, 1, 1},
};

static const activation* find_activation(carnot_strview name) {
  for (size_t i = 0; i < sizeof(kActivations) / sizeof(kActivations[0]); i++) {
    size_t length = strlen(kActivations[i].name);
    if (name.size == length && strncasecmp(name.data, kActivations[i].name, length) == 0) {
      return &kActivations[i];
    }
  }
  return NULL;
}

// Parameters are handed out in order to the functions that take them.
static carnot_status* read_activations(const carnot_call* call, const char* const* defaults,
                                       int count, carnot_recurrent* r) {
  const carnot_attr* names = carnot_attrs_find(call->attrs, "activations");
  size_t alpha_count = 0, beta_count = 0, next_alpha = 0, next_beta = 0;
  const double* alphas = carnot_attr_floats(call->attrs, "activation_alpha", &alpha_count);
  const double* betas = carnot_attr_floats(call->attrs, "activation_beta", &beta_count);
  size_t wanted = (size_t)(count * r->directions);
  CARNOT_CHECK(!names || names->count == 0 || names->count >= wanted, INVALID_MODEL,
               "activations has %zu elements; %zu are required", names->count, wanted);
  for (size_t i = 0; i < wanted; i++) {
    carnot_strview name =
        names && names->count ? names->strings[i] : carnot_view(defaults[i % (size_t)count]);
    const activation* a = find_activation(name);
    CARNOT_CHECK(a, INVALID_MODEL, "there is no activation \"" CARNOT_VIEW_FMT "\"",
                 CARNOT_VIEW_ARG(name));
    carnot_fn_call* fn = &r->activations[i / (size_t)count][i % (size_t)count];
    *fn = (carnot_fn_call){.fn = a->fn, .a = a->alpha, .b = a->beta};
    if (a->takes_alpha && next_alpha < alpha_count) fn->a = alphas[next_alpha++];
    if (a->takes_beta && next_beta < beta_count) fn->b = betas[next_beta++];
  }
  return NULL;
}

void carnot_recurrent_activate(const carnot_recurrent* r, int direction, int which, double* v,
                               int64_t count) {
  for (int64_t i = 0; r->clip > 0 && i < count; i++) {
    if (v[i] > r->clip) v[i] = r->clip;
    if (v[i] < -r->clip) v[i] = -r->clip;
  }
  carnot_fn_apply_f64(&r->activations[direction][which], v, NULL, NULL, v, (size_t)count);
}

void carnot_recurrent_project(const carnot_recurrent* r, int direction, int64_t from, int64_t count,
                              const double* h, double* out) {
  int64_t rows = r->gates * r->hidden, n = count * r->hidden;
  for (int64_t k = 0; k < r->hidden; k++) {
    const double* column = r->transposed[direction] + k * rows + from * r->hidden;
    for (int64_t j = 0; j < n; j++) out[j] += h[k] * column[j];
  }
  if (!r->bias) return;
  const double* bias = r->bias + (direction * 2 + 1) * rows + from * r->hidden;
  for (int64_t j = 0; j < n; j++) out[j] += bias[j];
}

// ---- running ----

typedef struct recurrent_part {
  const carnot_recurrent* r;
  carnot_recurrent_step step;
  const void* context;
} recurrent_part;

// Runs sequence |part| % batch in direction |part| / batch.
static void run_sequence(void* arg, int64_t part) {
  const recurrent_part* p = arg;
  const carnot_recurrent* r = p->r;
  int64_t d = part / r->batch, b = part % r->batch, hidden = r->hidden, rows = r->gates * hidden;
  double *h = r->scratch + part * (2 * hidden + 2 * rows), *c = h + hidden, *gates = c + hidden;
  int64_t state = (r->batch_first ? b * r->directions + d : d * r->batch + b) * hidden;
  size_t bytes = (size_t)hidden * sizeof(double);
  if (r->initial_h) memcpy(h, r->initial_h + state, bytes);
  if (r->initial_c) memcpy(c, r->initial_c + state, bytes);
  int64_t length = r->lengths ? r->lengths[b] : r->time;
  bool backward = d == 1 || r->reverse;
  for (int64_t s = 0; s < length; s++) {
    int64_t t = backward ? length - 1 - s : s;
    int64_t at = r->batch_first ? b * r->time + t : t * r->batch + b;
    if (!r->mask || r->mask[at]) {
      memcpy(gates, r->input_gates[d] + at * rows, (size_t)rows * sizeof(double));
      p->step(p->context, r, (int)d, gates, h, c, gates + rows);
    }
    if (!r->y) continue;
    int64_t to = r->batch_first ? (b * r->time + t) * r->directions + d
                                : (t * r->directions + d) * r->batch + b;
    memcpy(r->y + to * hidden, h, bytes);
  }
  if (r->last_h) memcpy(r->last_h + state, h, bytes);
  if (r->last_c) memcpy(r->last_c + state, c, bytes);
}

static void run_gemm_part(void* arg, int64_t part) { carnot_gemm_part_f64(arg, part); }

// x*W^T + Wb for every time and sequence, and R transposed.
static carnot_status* prepare(const carnot_call* call, carnot_recurrent* r, const double* w,
                              const double* recurrence) {
  int64_t rows = r->gates * r->hidden, steps = r->time * r->batch;
  for (int64_t d = 0; d < r->directions; d++) {
    CARNOT_TRY(carnot_call_array(call, steps * rows, sizeof(double), &r->input_gates[d]));
    CARNOT_TRY(carnot_call_array(call, rows * r->hidden, sizeof(double), &r->transposed[d]));
    carnot_gemm gemm = {steps,
                        rows,
                        r->input,
                        r->x,
                        r->input,
                        1,
                        w + d * rows * r->input,
                        /*b_row=*/1,
                        /*b_col=*/r->input,
                        r->input_gates[d],
                        rows};
    carnot_call_parallel(call, carnot_gemm_parts(&gemm), run_gemm_part, &gemm);
    for (int64_t i = 0; r->bias && i < steps; i++) {
      for (int64_t j = 0; j < rows; j++) {
        r->input_gates[d][i * rows + j] += r->bias[d * 2 * rows + j];
      }
    }
    for (int64_t j = 0; j < rows; j++) {
      for (int64_t k = 0; k < r->hidden; k++) {
        r->transposed[d][k * rows + j] = recurrence[(d * rows + j) * r->hidden + k];
      }
    }
  }
  return NULL;
}

// An optional input of exactly |count| elements.
static carnot_status* optional_input(const carnot_call* call, int i, int64_t count,
                                     const double** out) {
  const carnot_tensor* t = carnot_call_in(call, i);
  CARNOT_CHECK(!t || carnot_tensor_count(t) == count, INVALID_MODEL,
               "input %d has %lld elements; %lld are required", i,
               (long long)carnot_tensor_count(t), (long long)count);
  return carnot_call_f64(call, t, out);
}

static carnot_status* read_inputs(const carnot_call* call, int64_t gates, carnot_recurrent* r) {
  const carnot_tensor *x = carnot_call_in(call, 0), *w = carnot_call_in(call, 1),
                      *recurrence = carnot_call_in(call, 2), *lengths = carnot_call_in(call, 4);
  r->batch_first = carnot_call_int(call, "layout") != 0;
  r->time = x->dims[r->batch_first];
  r->batch = x->dims[!r->batch_first];
  r->input = x->dims[2];
  r->hidden = recurrence->dims[2];
  r->directions = w->dims[0];
  r->gates = gates;
  r->reverse = carnot_call_is(call, "direction", "reverse");
  r->clip = carnot_call_float(call, "clip");
  int64_t want = carnot_call_is(call, "direction", "bidirectional") ? 2 : 1,
          rows = gates * r->hidden;
  CARNOT_CHECK(r->directions == want && recurrence->dims[0] == want && w->dims[1] == rows &&
                   recurrence->dims[1] == rows && w->dims[2] == r->input,
               INVALID_MODEL, "W is [%lld,%lld,%lld]; [%lld,%lld,%lld] is required",
               (long long)w->dims[0], (long long)w->dims[1], (long long)w->dims[2], (long long)want,
               (long long)rows, (long long)r->input);
  CARNOT_CHECK(!lengths || carnot_tensor_count(lengths) == r->batch, INVALID_MODEL,
               "sequence_lens has %lld elements; %lld are required",
               (long long)carnot_tensor_count(lengths), (long long)r->batch);
  CARNOT_TRY(carnot_call_i64(call, lengths, &r->lengths));
  for (int64_t i = 0; r->lengths && i < r->batch; i++) {
    CARNOT_CHECK(r->lengths[i] >= 0 && r->lengths[i] <= r->time, INVALID_ARGUMENT,
                 "sequence_lens[%lld] is %lld; 0 to %lld is required", (long long)i,
                 (long long)r->lengths[i], (long long)r->time);
  }
  const carnot_tensor* mask = carnot_call_in(call, CARNOT_RECURRENT_MASK);
  CARNOT_CHECK(!mask || (mask->dtype == CARNOT_DTYPE_BOOL && mask->rank == 2 &&
                         mask->dims[0] == x->dims[0] && mask->dims[1] == x->dims[1]),
               INVALID_MODEL, "the mask is no BOOL tensor of %lld by %lld elements",
               (long long)x->dims[0], (long long)x->dims[1]);
  r->mask = mask ? mask->data : NULL;
  CARNOT_TRY(carnot_call_f64(call, x, &r->x));
  CARNOT_TRY(optional_input(call, 3, want * 2 * rows, &r->bias));
  CARNOT_TRY(optional_input(call, 5, want * r->batch * r->hidden, &r->initial_h));
  if (gates == 4) {
    CARNOT_TRY(optional_input(call, 6, want * r->batch * r->hidden, &r->initial_c));
  }
  return NULL;
}

carnot_status* carnot_recurrent_run(carnot_call* call, int64_t gates, const char* const* defaults,
                                    int count, carnot_recurrent_step step, const void* context) {
  carnot_recurrent r = {0};
  const double *w, *recurrence;
  CARNOT_TRY(read_inputs(call, gates, &r));
  CARNOT_TRY(read_activations(call, defaults, count, &r));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 1), &w));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 2), &recurrence));
  CARNOT_TRY(prepare(call, &r, w, recurrence));
  carnot_tensor *y = carnot_call_out(call, 0), *h = carnot_call_out(call, 1),
                *c = carnot_call_out(call, 2);
  CARNOT_TRY(carnot_call_f64_out(call, y, &r.y));
  CARNOT_TRY(carnot_call_f64_out(call, h, &r.last_h));
  CARNOT_TRY(carnot_call_f64_out(call, c, &r.last_c));
  if (y) memset(r.y, 0, (size_t)carnot_tensor_count(y) * sizeof(double));
  int64_t sequences = r.directions * r.batch;
  CARNOT_TRY(
      carnot_call_array(call, sequences * (2 + 2 * gates) * r.hidden, sizeof(double), &r.scratch));
  recurrent_part part = {&r, step, context};
  carnot_call_parallel(call, sequences, run_sequence, &part);
  carnot_write_f64(y, r.y);
  carnot_write_f64(h, r.last_h);
  carnot_write_f64(c, r.last_c);
  return NULL;
}
