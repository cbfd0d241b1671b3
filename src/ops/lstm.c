// Long short-term memory, gates in the order i, o, f, c; f = Sigmoid, g = h = Tanh unless
// |activations| says else:
//   i = f(X*Wi^T + H*Ri^T + Pi*C + Wbi + Rbi)         input;  with input_forget: forget = 1 - i
//   f = f(X*Wf^T + H*Rf^T + Pf*C + Wbf + Rbf)         forget
//   c = g(X*Wc^T + H*Rc^T + Wbc + Rbc);  C' = f*C + i*c
//   o = f(X*Wo^T + H*Ro^T + Po*C' + Wbo + Rbo);  H' = o * h(C')
// Inputs: X, W, R, bias, lengths, initial H, initial C, P [D,3*H] in the order i, o, f. Outputs: Y,
// Y_h, Y_c.
#include "ops/recurrent.h"

static carnot_status* infer_lstm(carnot_infer* infer) { return carnot_recurrent_infer(infer, 4); }

typedef struct lstm {
  const double* peepholes;  // may be NULL
  bool input_forget;
} lstm;

static void step(const void* context, const carnot_recurrent* r, int d, double* gates, double* h,
                 double* c, double* scratch) {
  const lstm* l = context;
  int64_t n = r->hidden;
  double *i = gates, *o = gates + n, *f = gates + 2 * n, *g = gates + 3 * n;
  const double* p = l->peepholes ? l->peepholes + d * 3 * n : NULL;
  carnot_recurrent_project(r, d, 0, 4, h, gates);
  for (int64_t k = 0; p && k < n; k++) {
    i[k] += p[k] * c[k];
    f[k] += p[2 * n + k] * c[k];
  }
  carnot_recurrent_activate(r, d, 0, i, n);
  carnot_recurrent_activate(r, d, 0, f, n);
  carnot_recurrent_activate(r, d, 1, g, n);
  for (int64_t k = 0; k < n; k++) {
    double forget = l->input_forget ? 1 - i[k] : f[k];
    c[k] = forget * c[k] + i[k] * g[k];
    if (p) o[k] += p[n + k] * c[k];
    scratch[k] = c[k];
  }
  carnot_recurrent_activate(r, d, 0, o, n);
  carnot_recurrent_activate(r, d, 2, scratch, n);
  for (int64_t k = 0; k < n; k++) h[k] = o[k] * scratch[k];
}

static carnot_status* run_lstm(carnot_call* call) {
  static const char* const kDefaults[] = {"Sigmoid", "Tanh", "Tanh"};
  const carnot_tensor *p = carnot_call_in(call, 7), *r = carnot_call_in(call, 2);
  lstm l = {NULL, carnot_call_int(call, "input_forget") != 0};
  int64_t want = r->dims[0] * 3 * r->dims[2];
  CARNOT_CHECK(!p || carnot_tensor_count(p) == want, INVALID_MODEL,
               "P has %lld elements; %lld are required", (long long)carnot_tensor_count(p),
               (long long)want);
  CARNOT_TRY(carnot_call_f64(call, p, &l.peepholes));
  return carnot_recurrent_run(call, 4, kDefaults, 3, step, &l);
}

static const carnot_attr_spec kAttrs[] = {CARNOT_RECURRENT_ATTRS,
                                          CARNOT_SPEC_INT("input_forget", 0), CARNOT_SPEC_END};

const carnot_op_row carnot_op_lstm = {
    .name = "lstm",
    .min_inputs = 3,
    .max_inputs = CARNOT_RECURRENT_MASK + 1,
    .min_outputs = 0,
    .max_outputs = 3,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_RECURRENCE,
    .infer = infer_lstm,
    .reference = run_lstm,
    .source = "ONNX LSTM-22",
    .layer_type = "RECURRENCE",
};
