// Depthwise convolution along time that sees only the past, with its state carried from call to
// call.
//   s = concat(past [B,C,k-1], x [B,C,T]);  y[b,c,t] = act(bias[c] + sum_j w[c,0,j] * s[b,c,t+j])
//   present = the last k-1 elements of s
// |w| [C,1,k]  |bias| [C] or absent  |past| absent: zeros; act is none, silu or swish. Computed in
// double.
#include "ops/util.h"

static carnot_status *infer_causal(carnot_infer *infer) {
  const carnot_type *x, *w;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 3, 3, &x));
  CARNOT_TRY(carnot_infer_rank(infer, 1, 3, 3, &w));
  CARNOT_TRY(carnot_infer_same_dtype(infer, 0, 1));
  CARNOT_TRY(carnot_infer_like(infer, 0, 0, x->dtype));
  if (infer->output_count < 2) return NULL;
  if (x->rank < 0 || w->rank < 0) {
    carnot_infer_set(infer, 1, x->dtype, -1, NULL);
    return NULL;
  }
  carnot_sym channels;
  CARNOT_TRY(carnot_infer_merge(infer, x->dims[1], w->dims[0], "channels", &channels));
  carnot_sym dims[3] = {x->dims[0], channels,
                        carnot_sym_add(infer->syms, w->dims[2], carnot_sym_of(-1))};
  carnot_infer_set(infer, 1, x->dtype, 3, dims);
  return NULL;
}

static carnot_status *run_causal(carnot_call *call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *w = carnot_call_in(call, 1),
                      *past = carnot_call_in(call, 3);
  carnot_tensor *y = carnot_call_out(call, 0), *present = carnot_call_out(call, 1);
  const double *xv, *wv, *bias, *pv;
  double *yv, *out, *lane = NULL;
  CARNOT_TRY(carnot_call_f64(call, x, &xv));
  CARNOT_TRY(carnot_call_f64(call, w, &wv));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 2), &bias));
  CARNOT_TRY(carnot_call_f64(call, past, &pv));
  CARNOT_TRY(carnot_call_f64_out(call, y, &yv));
  CARNOT_TRY(carnot_call_f64_out(call, present, &out));
  int64_t channels = x->dims[1], length = x->dims[2], k = w->dims[2], before = k - 1;
  bool silu = !carnot_call_is(call, "activation", "none");
  CARNOT_CHECK(k > 0 && w->dims[0] == channels, INVALID_MODEL,
               "the weights have %lld channels and %lld taps; %lld channels are required",
               (long long)w->dims[0], (long long)k, (long long)channels);
  CARNOT_CHECK(!past || carnot_tensor_count(past) == x->dims[0] * channels * before, INVALID_MODEL,
               "past_state has %lld elements; %lld are required",
               (long long)carnot_tensor_count(past), (long long)(x->dims[0] * channels * before));
  CARNOT_TRY(carnot_call_array(call, before + length, sizeof(double), &lane));
  for (int64_t i = 0; i < x->dims[0] * channels; i++) {
    if (pv) memcpy(lane, pv + i * before, (size_t)before * sizeof(double));
    memcpy(lane + before, xv + i * length, (size_t)length * sizeof(double));
    for (int64_t t = 0; yv && t < length; t++) {
      double sum = bias ? bias[i % channels] : 0;
      for (int64_t j = 0; j < k; j++) sum += wv[i % channels * k + j] * lane[t + j];
      yv[i * length + t] = silu ? sum / (1 + exp(-sum)) : sum;
    }
    if (out) memcpy(out + i * before, lane + length, (size_t)before * sizeof(double));
  }
  carnot_write_f64(y, yv);
  carnot_write_f64(present, out);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_WORD("activation", "none", "none silu swish"),
                                          CARNOT_SPEC_END};

const carnot_op_row carnot_op_causal_conv_with_state = {
    .name = "causal_conv_with_state",
    .min_inputs = 2,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 2,
    .attrs = kAttrs,
    .infer = infer_causal,
    .reference = run_causal,
    .source = "ONNX CausalConvWithState-27",
    .layer_type = "CONVOLUTION",
};
