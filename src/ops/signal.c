// Windows and mel filters.
//   window: w[i] = a - b*cos(2*pi*i/N) + c*cos(4*pi*i/N) with N = size (|periodic|) or size - 1
//           hann a = b = 1/2 · hamming a = 25/46, b = 1 - a · blackman a = 0.42, b = 1/2, c = 0.08
//   mel_weight_matrix [dft_length/2 + 1, mel bins]: triangles whose corners lie evenly on the mel
//   scale
//           mel(f) = 2595 * log10(1 + f/700)
// All inputs are scalars.
#include "ops/util.h"

// The output's type, from attribute output_datatype.
static carnot_status* output_type(const carnot_infer* infer, carnot_dtype* out) {
  int64_t dtype = carnot_infer_int(infer, "output_datatype");
  *out = (carnot_dtype)dtype;
  CARNOT_CHECK(dtype > 0 && carnot_dtype_valid((carnot_dtype)dtype), INVALID_MODEL,
               "output_datatype is %lld, which is no data type", (long long)dtype);
  return NULL;
}

// A scalar input as an expression; an unknown one where it is not known.
static carnot_status* scalar(carnot_infer* infer, int input, carnot_sym* out) {
  const carnot_sym* syms;
  size_t count;
  CARNOT_TRY(carnot_infer_ints(infer, input, &syms, &count));
  CARNOT_CHECK(!syms || count == 1, INVALID_MODEL, "input %d has %zu elements; 1 is required",
               input, count);
  CARNOT_CHECK(
      !syms || !carnot_sym_is_const(syms[0]) || (syms[0].bits >= 0 && syms[0].bits <= INT32_MAX),
      INVALID_MODEL, "input %d is %lld", input, (long long)(syms ? syms[0].bits : 0));
  *out = syms ? syms[0] : carnot_infer_unknown(infer, INT32_MAX);
  return NULL;
}

static carnot_status* infer_window(carnot_infer* infer) {
  carnot_dtype dtype;
  carnot_sym size;
  CARNOT_TRY(output_type(infer, &dtype));
  CARNOT_TRY(scalar(infer, 0, &size));
  carnot_infer_set(infer, 0, dtype, 1, &size);
  return NULL;
}

static carnot_status* run_window(carnot_call* call) {
  carnot_dtype dtype = (carnot_dtype)carnot_call_int(call, "output_datatype");
  int64_t size = carnot_scalar_i64(carnot_call_in(call, 0), 0);
  CARNOT_CHECK(size >= 0, INVALID_ARGUMENT, "size is %lld", (long long)size);
  CARNOT_TRY(carnot_call_size_output(call, 0, dtype, 1, &size));
  carnot_tensor* y = carnot_call_out(call, 0);
  double a = 0.5, b = 0.5, c = 0, n = (double)(carnot_call_int(call, "periodic") ? size : size - 1);
  if (carnot_call_is(call, "fn", "hamming")) {
    a = 25.0 / 46.0;
    b = 1 - a;
  } else if (carnot_call_is(call, "fn", "blackman")) {
    a = 0.42;
    c = 0.08;
  }
  const double pi = 3.14159265358979323846;
  for (int64_t i = 0; i < size; i++) {
    double turn = 2 * pi * (double)i / n;
    double value = n == 0 ? 1 : a - b * cos(turn) + c * cos(2 * turn);
    carnot_store_f64(y->dtype, y->data, (size_t)i, value);
  }
  return NULL;
}

// ---- mel_weight_matrix ----

static carnot_status* infer_mel(carnot_infer* infer) {
  carnot_dtype dtype;
  carnot_sym bins, length;
  CARNOT_TRY(output_type(infer, &dtype));
  CARNOT_TRY(scalar(infer, 0, &bins));
  CARNOT_TRY(scalar(infer, 1, &length));
  carnot_sym half = carnot_sym_floordiv(infer->syms, length, carnot_sym_of(2));
  carnot_sym dims[2] = {carnot_sym_add(infer->syms, half, carnot_sym_of(1)), bins};
  carnot_infer_set(infer, 0, dtype, 2, dims);
  return NULL;
}

static carnot_status* run_mel(carnot_call* call) {
  int64_t bins = carnot_scalar_i64(carnot_call_in(call, 0), 0);
  int64_t length = carnot_scalar_i64(carnot_call_in(call, 1), 0);
  double rate = carnot_scalar_f64(carnot_call_in(call, 2), 0);
  double low = 2595 * log10(1 + carnot_scalar_f64(carnot_call_in(call, 3), 0) / 700);
  double high = 2595 * log10(1 + carnot_scalar_f64(carnot_call_in(call, 4), 0) / 700);
  int64_t dims[2] = {length / 2 + 1, bins};
  CARNOT_CHECK(bins >= 0 && length >= 0 && rate > 0, INVALID_ARGUMENT,
               "%lld bins, length %lld and rate %g", (long long)bins, (long long)length, rate);
  CARNOT_TRY(carnot_call_size_output(
      call, 0, (carnot_dtype)carnot_call_int(call, "output_datatype"), 2, dims));
  carnot_tensor* y = carnot_call_out(call, 0);
  int64_t* corners = NULL;
  double* weights = NULL;
  CARNOT_TRY(carnot_call_array(call, bins + 2, sizeof(int64_t), &corners));
  CARNOT_TRY(carnot_call_array(call, dims[0] * bins, sizeof(double), &weights));
  double step = (high - low) / (double)(bins + 2);
  for (int64_t i = 0; i < bins + 2; i++) {
    double hertz = 700 * (pow(10, (low + (double)i * step) / 2595) - 1);
    double corner = floor((double)(length + 1) * hertz / rate);
    corners[i] = (int64_t)fmin(fmax(corner, 0), (double)dims[0]);
  }
  for (int64_t i = 0; i < bins; i++) {
    int64_t left = corners[i], centre = corners[i + 1], right = corners[i + 2];
    for (int64_t j = left; j < right && j < dims[0]; j++) {
      double rise = centre > left ? (double)(j - left) / (double)(centre - left) : 1;
      double fall = right > centre ? (double)(right - j) / (double)(right - centre) : 1;
      weights[j * bins + i] = j < centre ? rise : fall;
    }
    if (right == centre && centre < dims[0]) weights[centre * bins + i] = 1;
  }
  carnot_write_f64(y, weights);
  return NULL;
}

static const carnot_attr_spec kWindowAttrs[] = {
    CARNOT_SPEC_REQUIRED_WORD("fn", "hann hamming blackman"),
    CARNOT_SPEC_INT("output_datatype", CARNOT_DTYPE_F32), CARNOT_SPEC_INT("periodic", 1),
    CARNOT_SPEC_END};
static const carnot_attr_spec kMelAttrs[] = {CARNOT_SPEC_INT("output_datatype", CARNOT_DTYPE_F32),
                                             CARNOT_SPEC_END};

const carnot_op_row carnot_op_window = {
    .name = "window",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kWindowAttrs,
    .sized_by = CARNOT_SIZED_BY_INPUT(0),
    .infer = infer_window,
    .reference = run_window,
    .source = "ONNX HannWindow-17, HammingWindow-17, BlackmanWindow-17",
    .layer_type = "FILL",
};
const carnot_op_row carnot_op_mel_weight_matrix = {
    .name = "mel_weight_matrix",
    .min_inputs = 5,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kMelAttrs,
    .sized_by = CARNOT_SIZED_BY_INPUT(0),
    .infer = infer_mel,
    .reference = run_mel,
    .source = "ONNX MelWeightMatrix-17",
    .layer_type = "FILL",
};
