// Gated recurrent unit, gates in the order z, r, h; f = Sigmoid, g = Tanh unless |activations| says
// else:
//   z = f(X*Wz^T + H*Rz^T + Wbz + Rbz);  r = f(X*Wr^T + H*Rr^T + Wbr + Rbr)
//   h = g(X*Wh^T + (r*H)*Rh^T + Rbh + Wbh);  with linear_before_reset: g(X*Wh^T + r*(H*Rh^T + Rbh)
//   + Wbh) H' = (1 - z)*h + z*H
// Inputs: X, W, R, bias, lengths, initial H. Outputs: Y, Y_h.
#include "ops/recurrent.h"

static carnot_status* infer_gru(carnot_infer* infer) { return carnot_recurrent_infer(infer, 3); }

static void step(const void* context, const carnot_recurrent* r, int d, double* gates, double* h,
                 double* c, double* scratch) {
  (void)c;
  bool linear = *(const bool*)context;
  int64_t n = r->hidden;
  double *z = gates, *reset = gates + n, *g = gates + 2 * n, *gated = scratch + n;
  carnot_recurrent_project(r, d, 0, 2, h, gates);
  carnot_recurrent_activate(r, d, 0, z, 2 * n);
  for (int64_t k = 0; k < n; k++) {
    scratch[k] = 0;
    gated[k] = linear ? h[k] : reset[k] * h[k];
  }
  carnot_recurrent_project(r, d, 2, 1, gated, scratch);
  for (int64_t k = 0; k < n; k++) g[k] += linear ? reset[k] * scratch[k] : scratch[k];
  carnot_recurrent_activate(r, d, 1, g, n);
  for (int64_t k = 0; k < n; k++) h[k] = (1 - z[k]) * g[k] + z[k] * h[k];
}

static carnot_status* run_gru(carnot_call* call) {
  static const char* const kDefaults[] = {"Sigmoid", "Tanh"};
  bool linear = carnot_call_int(call, "linear_before_reset") != 0;
  return carnot_recurrent_run(call, 3, kDefaults, 2, step, &linear);
}

static const carnot_attr_spec kAttrs[] = {
    CARNOT_RECURRENT_ATTRS, CARNOT_SPEC_INT("linear_before_reset", 0), CARNOT_SPEC_END};

const carnot_op_row carnot_op_gru = {
    .name = "gru",
    .min_inputs = 3,
    .max_inputs = CARNOT_RECURRENT_MASK + 1,
    .min_outputs = 0,
    .max_outputs = 2,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_RECURRENCE,
    .infer = infer_gru,
    .reference = run_gru,
    .source = "ONNX GRU-22",
    .layer_type = "RECURRENCE",
};
