// Simple recurrent network, f = Tanh unless |activations| says else:
//   H' = f(X*W^T + H*R^T + Wb + Rb)
// Inputs: X, W, R, bias, lengths, initial H. Outputs: Y, Y_h.
#include "ops/recurrent.h"

static carnot_status* infer_rnn(carnot_infer* infer) { return carnot_recurrent_infer(infer, 1); }

static void step(const void* context, const carnot_recurrent* r, int d, double* gates, double* h,
                 double* c, double* scratch) {
  (void)context, (void)c, (void)scratch;
  carnot_recurrent_project(r, d, 0, 1, h, gates);
  carnot_recurrent_activate(r, d, 0, gates, r->hidden);
  memcpy(h, gates, (size_t)r->hidden * sizeof(double));
}

static carnot_status* run_rnn(carnot_call* call) {
  static const char* const kDefaults[] = {"Tanh"};
  return carnot_recurrent_run(call, 1, kDefaults, 1, step, NULL);
}

static const carnot_attr_spec kAttrs[] = {CARNOT_RECURRENT_ATTRS, CARNOT_SPEC_END};

const carnot_op_row carnot_op_rnn = {
    .name = "rnn",
    .min_inputs = 3,
    .max_inputs = CARNOT_RECURRENT_MASK + 1,
    .min_outputs = 0,
    .max_outputs = 2,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_RECURRENCE,
    .infer = infer_rnn,
    .reference = run_rnn,
    .source = "ONNX RNN-22",
    .layer_type = "RECURRENCE",
};
