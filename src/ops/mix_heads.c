// Products over the heads of attention scores ("talking heads").
//   y[b,g,..] = bias[g] + sum_h x[b,h,..] * w[h,g]
// |w| [H,G]  |bias| [G] or absent. Made by pass mix_heads. Computed in double.
#include "ops/util.h"

static carnot_status* infer_mix(carnot_infer* infer) {
  const carnot_type *x, *w;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 3, CARNOT_MAX_RANK, &x));
  CARNOT_TRY(carnot_infer_rank(infer, 1, 2, 2, &w));
  CARNOT_TRY(carnot_infer_same_dtype(infer, 0, 1));
  if (x->rank < 0 || w->rank < 0) {
    carnot_infer_set(infer, 0, x->dtype, -1, NULL);
    return NULL;
  }
  carnot_sym dims[CARNOT_MAX_RANK], heads;
  CARNOT_TRY(carnot_infer_merge(infer, x->dims[1], w->dims[0], "heads", &heads));
  memcpy(dims, x->dims, sizeof(dims));
  dims[1] = w->dims[1];
  carnot_infer_set(infer, 0, x->dtype, x->rank, dims);
  return NULL;
}

static carnot_status* run_mix(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *w = carnot_call_in(call, 1);
  carnot_tensor* y = carnot_call_out(call, 0);
  const double *xv, *wv, *bias;
  double* yv;
  CARNOT_TRY(carnot_call_f64(call, x, &xv));
  CARNOT_TRY(carnot_call_f64(call, w, &wv));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 2), &bias));
  CARNOT_TRY(carnot_call_f64_out(call, y, &yv));
  const int64_t heads = x->dims[1], results = w->dims[1],
                inner = carnot_dims_count(x->dims + 2, x->rank - 2);
  CARNOT_CHECK(
      w->dims[0] == heads && (!bias || carnot_tensor_count(carnot_call_in(call, 2)) == results),
      INVALID_MODEL, "weights of %lld heads; %lld and a bias of as many as results are required",
      (long long)w->dims[0], (long long)heads);
  for (int64_t b = 0; b < x->dims[0]; b++)
    for (int64_t g = 0; g < results; g++)
      for (int64_t i = 0; i < inner; i++) {
        double sum = bias ? bias[g] : 0;
        for (int64_t h = 0; h < heads; h++)
          sum += xv[(b * heads + h) * inner + i] * wv[h * results + g];
        yv[(b * results + g) * inner + i] = sum;
      }
  carnot_write_f64(y, yv);
  return NULL;
}

static const carnot_attr_spec kNone[] = {CARNOT_SPEC_END};

const carnot_op_row carnot_op_mix_heads = {
    .name = "mix_heads",
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kNone,
    .traits = CARNOT_TRAIT_HALF_AS_F32 | CARNOT_TRAIT_F32_AS_HALF,
    .infer = infer_mix,
    .reference = run_mix,
    .source = "Talking-Heads Attention, Shazeer et al. 2020",
    .layer_type = "MATRIX_MULTIPLY",
};
