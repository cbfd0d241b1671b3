// Discrete Fourier transforms in double.
//   dft:  y[k] = sum_n x[n] * e^(-2*pi*i*k*n/N) along |axis| (input 2, default -2), N = dft_length
//   (input 1, default the
//         dimension); inverse: e^(+...) / N. x is cut or padded with zeros to N. The last dimension
//         is 1 (real) or 2 (real, imaginary). onesided: N/2 + 1 values; with inverse: from those to
//         N real ones, N default 2*(d-1).
//   stft: dft of frames of signal [B,L,1|2] or [B,L] (as PyTorch writes it), frame_step apart, each
//   times |window|; → [B, frames, bins, 2]
#include "ops/util.h"

// ---- the transform: radix 2 while the length is even, then by the definition ----

typedef struct transform {
  int64_t n;
  const double* roots;  // cos, sin of 2*pi*k/n, sign of the direction
} transform;

static carnot_status* transform_init(const carnot_call* call, int64_t n, bool inverse,
                                     transform* t) {
  double* roots = NULL;
  CARNOT_TRY(carnot_call_array(call, 2 * n, sizeof(double), &roots));
  for (int64_t k = 0; k < n; k++) {
    double turn = 2 * 3.14159265358979323846 * (double)k / (double)n;
    roots[2 * k] = cos(turn);
    roots[2 * k + 1] = inverse ? sin(turn) : -sin(turn);
  }
  *t = (transform){n, roots};
  return NULL;
}

// |out| [n] complex of |in| [n] complex, |stride| apart.
static void transform_run(const transform* t, int64_t n, const double* in, int64_t stride,
                          double* out) {
  int64_t each = t->n / n;  // roots of n among those of t->n
  if (n % 2) {
    for (int64_t k = 0; k < n; k++) {
      double re = 0, im = 0;
      for (int64_t j = 0, root = 0; j < n; j++, root = (root + k) % n) {
        const double *x = in + 2 * j * stride, *w = t->roots + 2 * root * each;
        re += x[0] * w[0] - x[1] * w[1];
        im += x[0] * w[1] + x[1] * w[0];
      }
      out[2 * k] = re;
      out[2 * k + 1] = im;
    }
    return;
  }
  transform_run(t, n / 2, in, 2 * stride, out);
  transform_run(t, n / 2, in + 2 * stride, 2 * stride, out + n);
  for (int64_t k = 0; k < n / 2; k++) {
    double *a = out + 2 * k, *b = out + n + 2 * k;
    const double* w = t->roots + 2 * k * each;
    double re = b[0] * w[0] - b[1] * w[1], im = b[0] * w[1] + b[1] * w[0];
    b[0] = a[0] - re;
    b[1] = a[1] - im;
    a[0] += re;
    a[1] += im;
  }
}

// ---- dft ----

static carnot_status* check_complex(const carnot_type* x) {
  carnot_sym last = x->dims[x->rank - 1];
  CARNOT_CHECK(!carnot_sym_is_const(last) || last.bits == 1 || last.bits == 2, INVALID_MODEL,
               "the last dimension is %lld; 1 (real) or 2 (complex) is required",
               (long long)last.bits);
  return NULL;
}

static carnot_status* infer_dft(carnot_infer* infer) {
  const carnot_type* x;
  const carnot_sym *length, *axis_syms;
  size_t count;
  int64_t axis_value = -2;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 2, CARNOT_MAX_RANK, &x));
  bool has_length = carnot_infer_has(infer, 1), known = true;
  if (has_length) CARNOT_TRY(carnot_infer_ints(infer, 1, &length, &count));
  if (carnot_infer_has(infer, 2)) {
    CARNOT_TRY(carnot_infer_ints(infer, 2, &axis_syms, &count));
    known = count == 1 && carnot_syms_plain(axis_syms, 1, &axis_value);
  }
  carnot_sym dims[CARNOT_MAX_RANK];
  bool onesided = carnot_infer_int(infer, "onesided"), inverse = carnot_infer_int(infer, "inverse");
  if (x->rank > 0) {
    int axis = 0;
    CARNOT_TRY(check_complex(x));
    if (known) CARNOT_TRY(carnot_axis(axis_value, x->rank, "axis", &axis));
    CARNOT_CHECK(axis != x->rank - 1, INVALID_MODEL, "axis %d holds the parts of a number", axis);
    for (int i = 0; i < x->rank; i++) {
      dims[i] = known ? x->dims[i] : carnot_infer_unknown(infer, INT64_MAX / 2);
    }
    carnot_sym n = dims[axis], one = carnot_sym_of(1), two = carnot_sym_of(2);
    if (onesided && inverse) {
      n = carnot_sym_mul(infer->syms, carnot_sym_sub(infer->syms, n, one), two);
    }
    if (has_length) n = length ? length[0] : carnot_infer_unknown(infer, INT64_MAX / 2);
    if (onesided && !inverse) {
      n = carnot_sym_add(infer->syms, carnot_sym_floordiv(infer->syms, n, two), one);
    }
    if (known) dims[axis] = n;
    dims[x->rank - 1] = onesided && inverse ? one : two;
  }
  carnot_infer_set(infer, 0, x->dtype, x->rank, dims);
  return NULL;
}

// |count| complex numbers of a lane, padded with zeros to |n|; a one-sided spectrum is completed by
// its mirror image.
static void load_lane(const carnot_tensor* x, int64_t start, int64_t step, int64_t parts,
                      int64_t count, int64_t n, bool mirror, double* out) {
  memset(out, 0, (size_t)(2 * n) * sizeof(double));
  int64_t have = carnot_min_i64(count, mirror ? n / 2 + 1 : n);
  for (int64_t i = 0; i < have; i++) {
    for (int64_t k = 0; k < parts; k++) {
      out[2 * i + k] = carnot_load_f64(x->dtype, x->data, (size_t)((start + i * step) * parts + k));
    }
  }
  if (!mirror) return;
  if (n > 0) out[1] = 0;
  if (n % 2 == 0 && n > 0) out[n + 1] = 0;
  for (int64_t i = 1; i < (n + 1) / 2; i++) {
    out[2 * (n - i)] = out[2 * i];
    out[2 * (n - i) + 1] = -out[2 * i + 1];
  }
}

static carnot_status* run_dft(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *length = carnot_call_in(call, 1);
  int axis, last = x->rank - 1;
  CARNOT_TRY(carnot_axis(carnot_scalar_i64(carnot_call_in(call, 2), -2), x->rank, "axis", &axis));
  CARNOT_CHECK(axis != last, INVALID_MODEL, "axis %d holds the parts of a number", axis);
  bool onesided = carnot_call_int(call, "onesided"), inverse = carnot_call_int(call, "inverse");
  bool to_real = onesided && inverse;
  int64_t parts = x->dims[last], size = x->dims[axis];
  int64_t n = carnot_scalar_i64(length, to_real ? 2 * (size - 1) : size), dims[CARNOT_MAX_RANK];
  CARNOT_CHECK(n > 0 && n <= INT32_MAX && parts >= 1 && parts <= 2, INVALID_ARGUMENT,
               "dft of length %lld over numbers of %lld parts", (long long)n, (long long)parts);
  memcpy(dims, x->dims, sizeof(dims));
  dims[axis] = onesided && !inverse ? n / 2 + 1 : n;
  dims[last] = to_real ? 1 : 2;
  CARNOT_TRY(carnot_call_size_output(call, 0, x->dtype, x->rank, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  double *in = NULL, *out = NULL;
  transform t = {0, NULL};
  CARNOT_TRY(carnot_call_array(call, 2 * n, sizeof(double), &in));
  CARNOT_TRY(carnot_call_array(call, 2 * n, sizeof(double), &out));
  CARNOT_TRY(transform_init(call, n, inverse, &t));
  carnot_axis_view from = carnot_axis_view_of(x->dims, last, axis),
                   to = carnot_axis_view_of(dims, last, axis);
  for (int64_t lane = 0; lane < from.outer * from.inner; lane++) {
    int64_t start = carnot_axis_slice_start(&from, lane), end = carnot_axis_slice_start(&to, lane);
    load_lane(x, start, from.inner, parts, size, n, to_real, in);
    transform_run(&t, n, in, 1, out);
    for (int64_t i = 0; i < to.length * dims[last]; i++) {
      double value = out[to_real ? 2 * i : i];
      int64_t at = (end + i / dims[last] * to.inner) * dims[last] + i % dims[last];
      carnot_store_f64(y->dtype, y->data, (size_t)at, inverse ? value / (double)n : value);
    }
  }
  return NULL;
}

// ---- stft ----

// An input that is one integer; *out_known false: it is absent or not known.
static carnot_status* one_integer(carnot_infer* infer, int input, carnot_sym* out,
                                  bool* out_known) {
  *out_known = false;
  if (!carnot_infer_has(infer, input)) return NULL;
  const carnot_sym* syms;
  size_t count;
  CARNOT_TRY(carnot_infer_ints(infer, input, &syms, &count));
  *out_known = syms && count == 1;
  if (*out_known) *out = syms[0];
  return NULL;
}

static carnot_status* infer_stft(carnot_infer* infer) {
  const carnot_type *x, *window;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 2, 3, &x));
  carnot_sym step, length, one = carnot_sym_of(1);
  bool has_step, has_length;
  CARNOT_TRY(one_integer(infer, 1, &step, &has_step));
  CARNOT_TRY(one_integer(infer, 3, &length, &has_length));
  if (!has_length && !carnot_infer_has(infer, 3)) {
    if (carnot_infer_has(infer, 2)) {
      CARNOT_TRY(carnot_infer_rank(infer, 2, 1, 1, &window));
      has_length = window->rank == 1;
      if (has_length) length = window->dims[0];
    } else {
      has_length = x->rank >= 2;
      if (has_length) length = x->dims[1];
    }
  }
  carnot_sym dims[4] = {carnot_infer_unknown(infer, INT32_MAX),
                        carnot_infer_unknown(infer, INT32_MAX),
                        carnot_infer_unknown(infer, INT32_MAX), carnot_sym_of(2)};
  carnot_syms* t = infer->syms;
  if (x->rank == 3) CARNOT_TRY(check_complex(x));
  if (x->rank >= 2) dims[0] = x->dims[0];
  if (x->rank >= 2 && has_length && has_step) {
    CARNOT_CHECK(!carnot_sym_is_const(step) || step.bits > 0, INVALID_MODEL,
                 "frame_step is %lld; at least 1 is required", (long long)step.bits);
    carnot_sym room = carnot_sym_sub(t, x->dims[1], length);
    dims[1] = carnot_sym_add(t, carnot_sym_floordiv(t, room, step), one);
  }
  if (has_length) {
    dims[2] = carnot_infer_int(infer, "onesided")
                  ? carnot_sym_add(t, carnot_sym_floordiv(t, length, carnot_sym_of(2)), one)
                  : length;
  }
  carnot_infer_set(infer, 0, x->dtype, 4, dims);
  return NULL;
}

static carnot_status* run_stft(carnot_call* call) {
  const carnot_tensor *x = carnot_call_in(call, 0), *window = carnot_call_in(call, 2);
  int64_t step = carnot_scalar_i64(carnot_call_in(call, 1), 0);
  int64_t parts = x->rank == 3 ? x->dims[2] : 1;
  CARNOT_CHECK(parts == 1 || parts == 2, INVALID_ARGUMENT,
               "numbers of %lld parts, must have 1 (real) or 2 (complex)", (long long)parts);
  int64_t n = carnot_scalar_i64(carnot_call_in(call, 3), window ? window->dims[0] : x->dims[1]);
  CARNOT_CHECK(
      step > 0 && n > 0 && n <= x->dims[1] && (!window || carnot_tensor_count(window) == n),
      INVALID_ARGUMENT, "frames of %lld, %lld apart, do not fit a signal of %lld", (long long)n,
      (long long)step, (long long)x->dims[1]);
  bool onesided = carnot_call_int(call, "onesided") != 0;
  int64_t dims[4] = {x->dims[0], (x->dims[1] - n) / step + 1, onesided ? n / 2 + 1 : n, 2};
  CARNOT_TRY(carnot_call_size_output(call, 0, x->dtype, 4, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  const double* weights;
  double *in = NULL, *out = NULL;
  transform t = {0, NULL};
  CARNOT_TRY(carnot_call_f64(call, window, &weights));
  CARNOT_TRY(carnot_call_array(call, 2 * n, sizeof(double), &in));
  CARNOT_TRY(carnot_call_array(call, 2 * n, sizeof(double), &out));
  CARNOT_TRY(transform_init(call, n, /*inverse=*/false, &t));
  for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
    int64_t start = i / dims[1] * x->dims[1] + i % dims[1] * step;
    load_lane(x, start, 1, parts, n, n, /*mirror=*/false, in);
    for (int64_t k = 0; weights && k < 2 * n; k++) in[k] *= weights[k / 2];
    transform_run(&t, n, in, 1, out);
    carnot_store_block_f64(y->dtype, y->data, (size_t)(i * dims[2] * 2), 1, (size_t)(dims[2] * 2),
                           out);
  }
  return NULL;
}

static const carnot_attr_spec kDftAttrs[] = {CARNOT_SPEC_INT("inverse", 0),
                                             CARNOT_SPEC_INT("onesided", 0), CARNOT_SPEC_END};
static const carnot_attr_spec kStftAttrs[] = {CARNOT_SPEC_INT("onesided", 1), CARNOT_SPEC_END};

const carnot_op_row carnot_op_dft = {
    .name = "dft",
    .min_inputs = 1,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kDftAttrs,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .infer = infer_dft,
    .reference = run_dft,
    .source = "ONNX DFT-20",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_stft = {
    .name = "stft",
    .min_inputs = 2,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kStftAttrs,
    .sized_by = CARNOT_SIZED_BY_INPUT(1),
    .infer = infer_stft,
    .reference = run_stft,
    .source = "ONNX STFT-17",
    .layer_type = "REFERENCE",
};
