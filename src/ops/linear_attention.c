// Linear attention as a recurrence over time, with a state S [d,e] for each batch and key head:
//   linear:      S' = S + k*v^T                      gated:       S' = exp(g)*S + k*v^T
//   delta:       S' = S + beta * k*(v - S^T*k)^T     gated_delta: the same after S = exp(g)*S
//   o = scale * S'^T*q;  |scale| 0: 1/sqrt(d)
// Q [B,T,Hq*d], K [B,T,Hk*d], V [B,T,Hk*e], past_state [B,Hk,d,e] (absent: zeros), decay [B,T,Hk*d]
// or [B,T,Hk], beta [B,T,Hk] or [B,T,1] → output [B,T,Hq*e], present_state. Query heads share key
// heads in turn. Computed in double.
#include "ops/util.h"

static bool rule_is(const carnot_op_row* row, const carnot_attrs* attrs, const char* a,
                    const char* b) {
  return carnot_attr_is(row, attrs, "update_rule", a) ||
         carnot_attr_is(row, attrs, "update_rule", b);
}

static carnot_status* infer_linear(carnot_infer* infer) {
  const carnot_type *q, *k, *v;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 3, 3, &q));
  CARNOT_TRY(carnot_infer_rank(infer, 1, 3, 3, &k));
  CARNOT_TRY(carnot_infer_rank(infer, 2, 3, 3, &v));
  int64_t hq = carnot_infer_int(infer, "q_num_heads"), hk = carnot_infer_int(infer, "kv_num_heads");
  CARNOT_CHECK(hq > 0 && hk > 0 && hq % hk == 0, INVALID_MODEL,
               "%lld query heads and %lld key heads; a multiple is required", (long long)hq,
               (long long)hk);
  bool gated = rule_is(infer->row, infer->attrs, "gated", "gated_delta");
  bool delta = rule_is(infer->row, infer->attrs, "delta", "gated_delta");
  CARNOT_CHECK(gated == carnot_infer_has(infer, 4) && delta == carnot_infer_has(infer, 5),
               INVALID_MODEL, "decay and beta must be there as update_rule takes them");
  carnot_dtype state = q->dtype;
  if (carnot_infer_has(infer, 3)) state = infer->inputs[3].type->dtype;
  if (q->rank < 0 || v->rank < 0) {
    carnot_infer_set(infer, 0, q->dtype, -1, NULL);
    if (infer->output_count > 1) carnot_infer_set(infer, 1, state, -1, NULL);
    return NULL;
  }
  carnot_syms* t = infer->syms;
  carnot_sym size = carnot_sym_floordiv(t, q->dims[2], carnot_sym_of(hq));
  carnot_sym value_size = carnot_sym_floordiv(t, v->dims[2], carnot_sym_of(hk));
  carnot_sym y[3] = {q->dims[0], q->dims[1], carnot_sym_mul(t, value_size, carnot_sym_of(hq))};
  carnot_sym s[4] = {q->dims[0], carnot_sym_of(hk), size, value_size};
  carnot_infer_set(infer, 0, q->dtype, 3, y);
  if (infer->output_count > 1) carnot_infer_set(infer, 1, state, 4, s);
  return NULL;
}

typedef struct linear_run {
  int64_t time, q_heads, kv_heads, size, value_size;
  const double *q, *k, *v, *decay, *beta;
  int64_t decay_width, beta_width;  // of the last dimension
  double *state, *y, *scratch;
  double scale;
} linear_run;

// Moves the state of head |h| of batch |b| over step |t|.
static void advance(const linear_run* r, int64_t b, int64_t h, int64_t t, double* state,
                    double* update) {
  int64_t at = b * r->time + t;
  const double* k = r->k + (at * r->kv_heads + h) * r->size;
  const double* v = r->v + (at * r->kv_heads + h) * r->value_size;
  bool by_key = r->decay_width != r->kv_heads;
  for (int64_t i = 0; r->decay && i < r->size; i++) {
    double g = r->decay[at * r->decay_width + (by_key ? h * r->size + i : h)];
    for (int64_t j = 0; j < r->value_size; j++) state[i * r->value_size + j] *= exp(g);
  }
  memcpy(update, v, (size_t)r->value_size * sizeof(double));
  if (r->beta) {
    double beta = r->beta[at * r->beta_width + (r->beta_width > 1 ? h : 0)];
    for (int64_t i = 0; i < r->size; i++) {
      for (int64_t j = 0; j < r->value_size; j++) update[j] -= k[i] * state[i * r->value_size + j];
    }
    for (int64_t j = 0; j < r->value_size; j++) update[j] *= beta;
  }
  for (int64_t i = 0; i < r->size; i++) {
    for (int64_t j = 0; j < r->value_size; j++) state[i * r->value_size + j] += k[i] * update[j];
  }
}

static void head_part(void* arg, int64_t part) {
  const linear_run* r = arg;
  int64_t b = part / r->kv_heads, h = part % r->kv_heads, each = r->q_heads / r->kv_heads;
  double* state = r->state + part * r->size * r->value_size;
  double* update = r->scratch + part * r->value_size;
  for (int64_t t = 0; t < r->time; t++) {
    advance(r, b, h, t, state, update);
    for (int64_t g = h * each; g < (h + 1) * each; g++) {
      int64_t at = (b * r->time + t) * r->q_heads + g;
      double* y = r->y + at * r->value_size;
      for (int64_t i = 0; i < r->size; i++) {
        double q = r->scale * r->q[at * r->size + i];
        for (int64_t j = 0; j < r->value_size; j++) y[j] += q * state[i * r->value_size + j];
      }
    }
  }
}

static carnot_status* check_sizes(const carnot_call* call, const linear_run* r, int64_t batch) {
  int64_t steps = batch * r->time;
  const int64_t want[6] = {steps * r->q_heads * r->size,
                           steps * r->kv_heads * r->size,
                           steps * r->kv_heads * r->value_size,
                           batch * r->kv_heads * r->size * r->value_size,
                           0,
                           0};
  for (int i = 0; i < 4; i++) {
    const carnot_tensor* t = carnot_call_in(call, i);
    CARNOT_CHECK(!t || carnot_tensor_count(t) == want[i], INVALID_MODEL,
                 "input %d has %lld elements; %lld are required", i,
                 (long long)carnot_tensor_count(t), (long long)want[i]);
  }
  CARNOT_CHECK(
      !r->decay || r->decay_width == r->kv_heads || r->decay_width == r->kv_heads * r->size,
      INVALID_MODEL, "the last dimension of decay is %lld; %lld or %lld is required",
      (long long)r->decay_width, (long long)r->kv_heads, (long long)(r->kv_heads * r->size));
  CARNOT_CHECK(!r->beta || r->beta_width == r->kv_heads || r->beta_width == 1, INVALID_MODEL,
               "the last dimension of beta is %lld; %lld or 1 is required",
               (long long)r->beta_width, (long long)r->kv_heads);
  return NULL;
}

static carnot_status* run_linear(carnot_call* call) {
  const carnot_tensor *q = carnot_call_in(call, 0), *past = carnot_call_in(call, 3),
                      *decay = carnot_call_in(call, 4), *beta = carnot_call_in(call, 5);
  carnot_tensor *y = carnot_call_out(call, 0), *present = carnot_call_out(call, 1);
  linear_run r = {.time = q->dims[1],
                  .q_heads = carnot_call_int(call, "q_num_heads"),
                  .kv_heads = carnot_call_int(call, "kv_num_heads")};
  int64_t batch = q->dims[0];
  r.size = q->dims[2] / r.q_heads;
  r.value_size = carnot_call_in(call, 2)->dims[2] / r.kv_heads;
  r.scale = carnot_call_float(call, "scale");
  if (r.scale == 0) r.scale = 1 / sqrt((double)r.size);
  const double* before;
  CARNOT_TRY(carnot_call_f64(call, q, &r.q));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 1), &r.k));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 2), &r.v));
  CARNOT_TRY(carnot_call_f64(call, past, &before));
  CARNOT_TRY(carnot_call_f64(call, decay, &r.decay));
  CARNOT_TRY(carnot_call_f64(call, beta, &r.beta));
  r.decay_width = decay ? decay->dims[2] : 0;
  r.beta_width = beta ? beta->dims[2] : 0;
  CARNOT_TRY(check_sizes(call, &r, batch));
  int64_t heads = batch * r.kv_heads, states = heads * r.size * r.value_size;
  CARNOT_TRY(carnot_call_array(call, states, sizeof(double), &r.state));
  CARNOT_TRY(carnot_call_array(call, heads * r.value_size, sizeof(double), &r.scratch));
  CARNOT_TRY(
      carnot_call_array(call, batch * r.time * r.q_heads * r.value_size, sizeof(double), &r.y));
  if (before) memcpy(r.state, before, (size_t)states * sizeof(double));
  carnot_call_parallel(call, heads, head_part, &r);
  carnot_write_f64(y, r.y);
  carnot_write_f64(present, r.state);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {
    CARNOT_SPEC_INT("chunk_size", 64),
    CARNOT_SPEC_REQUIRED("kv_num_heads", INT),
    CARNOT_SPEC_REQUIRED("q_num_heads", INT),
    CARNOT_SPEC_FLOAT("scale", 0),
    CARNOT_SPEC_WORD("update_rule", "gated_delta", "linear gated delta gated_delta"),
    CARNOT_SPEC_END};

const carnot_op_row carnot_op_linear_attention = {
    .name = "linear_attention",
    .min_inputs = 3,
    .max_inputs = 6,
    .min_outputs = 1,
    .max_outputs = 2,
    .attrs = kAttrs,
    .infer = infer_linear,
    .reference = run_linear,
    .source = "ONNX LinearAttention-27",
    .layer_type = "ATTENTION",
};
