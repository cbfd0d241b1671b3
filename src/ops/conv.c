// N-dimensional convolution.
//   y[n,m,p..] = bias[m] + sum_{c,t..} x[n, c, p*stride + t*dilation - begin ..] * w[m,c,t..]
// |x| [N,C,D..]  |w| [M,C/group,K..]  |bias| [M] or absent  y [N,M,O..]; sizes as in window.h. Sums
// of types up to 32 bits accumulate in f32, of F64 in f64. INVALID_MODEL when channels and groups
// do not agree.
#include "ops/conv.h"

#include "ops/gemm.h"

carnot_status* carnot_conv_infer(carnot_infer* infer, int x_input, int w_input,
                                 carnot_dtype dtype) {
  const carnot_type *x, *w;
  CARNOT_TRY(carnot_infer_rank(infer, x_input, 2, CARNOT_MAX_RANK, &x));
  CARNOT_TRY(carnot_infer_rank(infer, w_input, 2, CARNOT_MAX_RANK, &w));
  int64_t group = carnot_infer_int(infer, "group");
  CARNOT_CHECK(group > 0, INVALID_MODEL, "group is %lld; at least 1 is required", (long long)group);
  if (x->rank < 0) {
    carnot_infer_set(infer, 0, dtype, -1, NULL);
    return NULL;
  }
  CARNOT_CHECK(w->rank < 0 || w->rank == x->rank, INVALID_MODEL,
               "the weights have rank %d; the input's rank %d is required", w->rank, x->rank);
  carnot_sliding_window window;
  CARNOT_TRY(carnot_sliding_window_read(infer->row, infer->attrs, x->rank - 2, w, &window));
  carnot_sym dims[CARNOT_MAX_RANK];
  dims[0] = x->dims[0];
  dims[1] = w->rank < 0 ? carnot_infer_unknown(infer, INT32_MAX) : w->dims[0];
  if (w->rank > 0) {
    carnot_sym channels = carnot_sym_mul(infer->syms, w->dims[1], carnot_sym_of(group)), both;
    CARNOT_TRY(
        carnot_infer_merge(infer, x->dims[1], channels, "channels of input and weights", &both));
    CARNOT_CHECK(!carnot_sym_is_const(w->dims[0]) || w->dims[0].bits % group == 0, INVALID_MODEL,
                 "%lld filters do not divide into %lld groups", (long long)w->dims[0].bits,
                 (long long)group);
  }
  CARNOT_TRY(carnot_sliding_window_infer(infer, &window, x->dims + 2, dims + 2));
  carnot_infer_set(infer, 0, dtype, x->rank, dims);
  return NULL;
}

// ---- reference ----

enum { kPixels = 64, kTaps = 256 };

typedef struct conv_run {
  carnot_sliding_window window;
  const void *x, *w, *bias;
  void* y;
  int64_t groups, group_channels, group_filters;
  int64_t in_size, out_size, tap_count;  // elements of one plane and of one kernel
  int64_t in_dims[CARNOT_SLIDING_WINDOW_RANK], out_dims[CARNOT_SLIDING_WINDOW_RANK];
  int64_t blocks;  // of kPixels outputs each
} conv_run;

// Where the taps of a panel's pixels lie in a plane of the input; -1 outside.
typedef struct taps {
  int64_t count;                                            // pixels of the panel
  int64_t base[CARNOT_GEMM_N][CARNOT_SLIDING_WINDOW_RANK];  // of the kernel's first tap
  int64_t offsets[kTaps][CARNOT_GEMM_N];
} taps;

static void tap_offsets(const conv_run* r, const taps* t, int64_t tap, int64_t* out) {
  const carnot_sliding_window* w = &r->window;
  int64_t at[CARNOT_SLIDING_WINDOW_RANK];
  carnot_unravel(tap, w->kernel, w->rank, at);
  for (int j = 0; j < CARNOT_GEMM_N; j++) {
    int64_t offset = j < t->count ? 0 : -1;
    for (int d = 0; d < w->rank && offset >= 0; d++) {
      int64_t i = t->base[j][d] + at[d] * w->dilations[d];
      offset = i >= 0 && i < r->in_dims[d] ? offset * r->in_dims[d] + i : -1;
    }
    out[j] = offset;
  }
}

static void taps_begin(const conv_run* r, int64_t pixel, int64_t count, taps* t) {
  const carnot_sliding_window* w = &r->window;
  t->count = count;
  for (int64_t j = 0; j < count; j++) {
    carnot_unravel(pixel + j, r->out_dims, w->rank, t->base[j]);
    for (int d = 0; d < w->rank; d++) t->base[j][d] = t->base[j][d] * w->strides[d] - w->begin[d];
  }
  for (int64_t tap = 0; r->tap_count <= kTaps && tap < r->tap_count; tap++) {
    tap_offsets(r, t, tap, t->offsets[tap]);
  }
}

#define REAL    float
#define N(name) name##_f32
#include "ops/conv_kernel.inl"
#undef REAL
#undef N

#define REAL    double
#define N(name) name##_f64
#include "ops/conv_kernel.inl"
#undef REAL
#undef N

#define REAL    uint32_t
#define N(name) name##_u32
#include "ops/conv_kernel.inl"
#undef REAL
#undef N

carnot_status* carnot_conv_run(carnot_call* call, carnot_conv_type type, const carnot_tensor* x,
                               const carnot_tensor* w, const carnot_tensor* y, const void* x_data,
                               const void* w_data, const void* bias, void* y_data) {
  conv_run r = {.x = x_data, .w = w_data, .bias = bias, .y = y_data};
  int rank = x->rank - 2;
  CARNOT_TRY(carnot_sliding_window_of_call(call, rank, w, &r.window));
  carnot_sliding_window_resolve(&r.window, x->dims + 2, y->dims + 2);
  r.groups = carnot_call_int(call, "group");
  r.group_channels = w->dims[1];
  r.group_filters = w->dims[0] / r.groups;
  CARNOT_CHECK(r.group_channels * r.groups == x->dims[1] && w->dims[0] % r.groups == 0,
               INVALID_MODEL, "%lld channels and %lld filters do not fit %lld groups of %lld",
               (long long)x->dims[1], (long long)w->dims[0], (long long)r.groups,
               (long long)r.group_channels);
  r.in_size = carnot_dims_count(x->dims + 2, rank);
  r.out_size = carnot_dims_count(y->dims + 2, rank);
  r.tap_count = carnot_dims_count(w->dims + 2, rank);
  memcpy(r.in_dims, x->dims + 2, (size_t)rank * sizeof(int64_t));
  memcpy(r.out_dims, y->dims + 2, (size_t)rank * sizeof(int64_t));
  r.blocks = carnot_ceildiv(r.out_size, kPixels);
  void (*part)(void*, int64_t) = type == CARNOT_CONV_F32   ? conv_part_f32
                                 : type == CARNOT_CONV_F64 ? conv_part_f64
                                                           : conv_part_u32;
  carnot_call_parallel(call, x->dims[0] * r.groups * r.blocks, part, &r);
  return NULL;
}

static carnot_status* infer_conv(carnot_infer* infer) {
  CARNOT_TRY(carnot_infer_same_dtype(infer, 0, 1));
  return carnot_conv_infer(infer, 0, 1, infer->inputs[0].type->dtype);
}

static carnot_status* run_conv(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *w = carnot_call_in(call, 1),
                      *bias = carnot_call_in(call, 2);
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  CARNOT_CHECK(!bias || carnot_tensor_count(bias) == w->dims[0], INVALID_MODEL,
               "bias has %lld elements; %lld are required", (long long)carnot_tensor_count(bias),
               (long long)w->dims[0]);
#define CONVOLVE(suffix, ctype, TYPE)                               \
  const ctype *xv, *wv, *bv;                                        \
  ctype* yv;                                                        \
  CARNOT_TRY(carnot_call_##suffix(call, x, &xv));                   \
  CARNOT_TRY(carnot_call_##suffix(call, w, &wv));                   \
  CARNOT_TRY(carnot_call_##suffix(call, bias, &bv));                \
  CARNOT_TRY(carnot_call_##suffix##_out(call, y, &yv));             \
  CARNOT_TRY(carnot_conv_run(call, TYPE, x, w, y, xv, wv, bv, yv)); \
  carnot_write_##suffix(y, yv)
  if (y->dtype == CARNOT_DTYPE_F64) {
    CONVOLVE(f64, double, CARNOT_CONV_F64);
  } else {
    CONVOLVE(f32, float, CARNOT_CONV_F32);
  }
#undef CONVOLVE
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_WORD("auto_pad", "NOTSET", CARNOT_AUTO_PADS),
                                          CARNOT_SPEC_LIST("dilations", INTS),
                                          CARNOT_SPEC_INT("group", 1),
                                          CARNOT_SPEC_LIST("kernel_shape", INTS),
                                          CARNOT_SPEC_LIST("pads", INTS),
                                          CARNOT_SPEC_LIST("strides", INTS),
                                          CARNOT_SPEC_END};

const carnot_op_row carnot_op_conv = {
    .name = "conv",
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .traits = CARNOT_TRAIT_CONTRACTION | CARNOT_TRAIT_HALF_AS_F32,
    .infer = infer_conv,
    .reference = run_conv,
    .source = "ONNX Conv-22",
    .layer_type = "CONVOLUTION",
};
