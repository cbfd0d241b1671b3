// Complex numbers and Fourier transforms. Source: tensorflow/core/ops/math_ops.cc,
// spectral_ops.cc.
#include "import/tensorflow/complex.h"

#include <math.h>

#include "import/tensorflow/rows.h"

// ---- parts ----

static carnot_value* part(tf_import* n, int index) {
  return tf_complex_part(n, n->inputs[0], index);
}
static bool same_sizes(const carnot_type* x, const carnot_type* y) {
  bool same = x->rank == y->rank && x->rank >= 0;
  for (int i = 0; same && i < x->rank; i++) same = carnot_sym_same(x->dims[i], y->dims[i]);
  return same;
}
// Parts of sizes that differ broadcast.
static void handle_complex(tf_import* n) {
  carnot_value *re = n->inputs[0], *im = n->inputs[1];
  if (!same_sizes(&re->type, &im->type)) {
    carnot_value* shape = import_shape_of(&n->node, re);
    re = import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, re, import_shape_of(&n->node, im));
    im = import_op(&n->node, CARNOT_OP_EXPAND, NULL, 2, im, shape);
  }
  n->outputs[0] = n->node.status ? NULL : tf_complex_new(n, re, im);
}
static void handle_part(tf_import* n) { n->outputs[0] = part(n, n->row->code); }
static void handle_conj(tf_import* n) {
  n->outputs[0] = n->inputs[0];
  if (tf_is_complex(n->inputs[0]))
    n->outputs[0] =
        tf_complex_new(n, part(n, 0), import_unary(&n->node, CARNOT_FN_NEG, part(n, 1)));
}
static void handle_conjugate_transpose(tf_import* n) {
  size_t count = 0;
  const int64_t* perm = tf_need_ints(n, 1, "the permutation", &count);
  if (!perm) return;
  carnot_value* re = import_transpose(&n->node, part(n, 0), perm, (int)count);
  n->outputs[0] = re;
  if (!tf_is_complex(n->inputs[0])) return;
  carnot_value* im = import_transpose(&n->node, part(n, 1), perm, (int)count);
  n->outputs[0] = tf_complex_new(n, re, import_unary(&n->node, CARNOT_FN_NEG, im));
}
static void handle_angle(tf_import* n) { n->outputs[0] = tf_atan2(n, part(n, 1), part(n, 0)); }

// larger * sqrt(1 + (smaller / larger)^2), which neither overflows nor vanishes on the way.
static void handle_magnitude(tf_import* n) {
  import_node* e = &n->node;
  carnot_value *re = import_unary(e, CARNOT_FN_ABS, part(n, 0)),
               *im = import_unary(e, CARNOT_FN_ABS, part(n, 1)),
               *large = import_binary(e, CARNOT_FN_MAX, re, im),
               *small = import_binary(e, CARNOT_FN_MIN, re, im);
  carnot_value* zero = import_number(e, re, 0);
  carnot_value* ratio = import_binary(e, CARNOT_FN_DIV, small, large);
  carnot_value* root =
      import_unary(e, CARNOT_FN_SQRT,
                   import_binary(e, CARNOT_FN_ADD, import_binary(e, CARNOT_FN_MUL, ratio, ratio),
                                 import_number(e, re, 1)));
  carnot_value* size = import_binary(e, CARNOT_FN_MUL, large, root);
  // 0 / 0 at the origin.
  carnot_value* origin = import_binary(e, CARNOT_FN_EQUAL, large, zero);
  n->outputs[0] = import_ternary(e, CARNOT_FN_SELECT, origin, zero, size);
}

// ---- Fourier transforms over the last 1, 2 or 3 dimensions (the row's code) ----

enum { kWhole, kOneSided, kFromOneSided };

// Along |axis| of [.., 1 or 2]; |length| NULL: the dimension's.
static carnot_value* transform(tf_import* n, carnot_value* x, carnot_value* length, int64_t axis,
                               bool inverse, bool one_sided) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "inverse", inverse);
  carnot_attrs_set_int(&attrs, n->node.arena, "onesided", one_sided);
  return import_op(&n->node, CARNOT_OP_DFT, &attrs, 3, x, length, import_int(&n->node, axis));
}

static int check_rank(tf_import* n, const carnot_value* x) {
  const int rank = import_rank(&n->node, x);
  if (rank < n->row->code)
    TF_FAIL(n, INVALID_MODEL, "%d dimensions; %d are required", rank, n->row->code);
  return rank;
}

static void handle_fft(tf_import* n) {
  const bool inverse = n->row->text != NULL;
  if (!tf_is_complex(n->inputs[0])) {
    TF_FAIL(n, INVALID_MODEL, "its input is no complex number");
    return;
  }
  const int rank = check_rank(n, part(n, 0));
  carnot_value* y = tf_complex_joined(n, n->inputs[0]);
  for (int i = 0; i < n->row->code && !n->node.status; i++)
    y = transform(n, y, NULL, rank - 1 - i, inverse, false);
  if (!n->node.status) n->outputs[0] = tf_complex_split(n, y);
}

static carnot_value* length_of(tf_import* n, int dimension) {
  return import_gather(&n->node, tf_int64(n, n->inputs[1]), import_int(&n->node, dimension), 0);
}

// Real numbers, cut or filled with zeros to fft_length.
static void handle_rfft(tf_import* n) {
  const int rank = check_rank(n, n->inputs[0]), count = n->row->code;
  const int64_t last = rank;
  carnot_value* y = import_unsqueeze(&n->node, n->inputs[0], &last, 1);
  for (int i = count - 1; i >= 0 && !n->node.status; i--)
    y = transform(n, y, length_of(n, i), rank - count + i, false, i == count - 1);
  if (!n->node.status) n->outputs[0] = tf_complex_split(n, y);
}

static void handle_irfft(tf_import* n) {
  const int count = n->row->code;
  if (!tf_is_complex(n->inputs[0])) {
    TF_FAIL(n, INVALID_MODEL, "its input is no complex number");
    return;
  }
  const int rank = check_rank(n, part(n, 0));
  const int64_t last = rank;
  carnot_value* y = tf_complex_joined(n, n->inputs[0]);
  for (int i = 0; i < count && !n->node.status; i++)
    y = transform(n, y, length_of(n, i), rank - count + i, true, i == count - 1);
  n->outputs[0] = import_squeeze(&n->node, y, &last, 1);
}

// Magnitudes of the transforms of windowed frames: [samples, channels] to [channels, frames, bins].
// Source: tensorflow/core/kernels/spectrogram.cc.
static void handle_spectrogram(tf_import* n) {
  static const int64_t kSwap[] = {1, 0}, kBehind[] = {1}, kLast[] = {3};
  import_node* e = &n->node;
  const int64_t size = tf_int(n, "window_size", 0), step = tf_int(n, "stride", 0);
  int64_t length = 1;
  if (size < 2 || size > 1 << 24 || step < 1 || import_rank(e, n->inputs[0]) != 2) {
    TF_FAIL(n, INVALID_MODEL, "a window of %lld and a stride of %lld over samples and channels",
            (long long)size, (long long)step);
    return;
  }
  while (length < size) length *= 2;
  // Sample k of frame t is t * stride + k; as many frames as lie in the samples whole.
  carnot_value* samples = import_reshape_to(e, import_shape_part(e, n->inputs[0], 0, 1), NULL, 0);
  carnot_value *zero = import_int(e, 0), *one = import_int(e, 1), *stride = import_int(e, step);
  carnot_value* frames =
      import_binary(e, CARNOT_FN_FLOOR_DIV,
                    import_binary(e, CARNOT_FN_ADD, samples, import_int(e, step - size)), stride);
  frames = import_binary(e, CARNOT_FN_MAX, frames, zero);
  carnot_value* t = import_op(e, CARNOT_OP_RANGE, NULL, 3, zero, frames, one);
  t = import_unsqueeze(e, import_binary(e, CARNOT_FN_MUL, t, stride), kBehind, 1);
  carnot_value* k = import_op(e, CARNOT_OP_RANGE, NULL, 3, zero, import_int(e, size), one);
  carnot_value* x = import_gather(e, import_transpose(e, n->inputs[0], kSwap, 2),
                                  import_binary(e, CARNOT_FN_ADD, t, k), 1);
  carnot_value* turn = import_unary_with(e, CARNOT_FN_AFFINE, import_cast(e, k, CARNOT_DTYPE_F32),
                                         2 * M_PI / (double)size, 0);
  carnot_value* window =
      import_unary_with(e, CARNOT_FN_AFFINE, import_unary(e, CARNOT_FN_COS, turn), -0.5, 0.5);
  x = import_unsqueeze(e, import_binary(e, CARNOT_FN_MUL, x, window), kLast, 1);
  carnot_value* y = transform(n, x, import_int(e, length), 2, false, true);
  y = import_squeeze(e, import_reduce(e, "sum_square", y, kLast, 1), kLast, 1);
  n->outputs[0] = tf_bool(n, "magnitude_squared", false) ? y : import_unary(e, CARNOT_FN_SQRT, y);
}

static const tf_row kRows[] = {
    {"AudioSpectrogram", handle_spectrogram, 1, 1, 0, NULL, NULL},
    {"Complex", handle_complex, 2, 2, 0, NULL, NULL},
    {"Real", handle_part, 1, 1, 0, NULL, NULL},
    {"Imag", handle_part, 1, 1, 1, NULL, NULL},
    {"Conj", handle_conj, 1, 1, 0, NULL, NULL},
    {"ConjugateTranspose", handle_conjugate_transpose, 2, 2, 0, NULL, NULL},
    {"Angle", handle_angle, 1, 1, 0, NULL, NULL},
    {"ComplexAbs", handle_magnitude, 1, 1, 0, NULL, NULL},
    {"FFT", handle_fft, 1, 1, 1, NULL, NULL},
    {"FFT2D", handle_fft, 1, 1, 2, NULL, NULL},
    {"FFT3D", handle_fft, 1, 1, 3, NULL, NULL},
    {"IFFT", handle_fft, 1, 1, 1, "inverse", NULL},
    {"IFFT2D", handle_fft, 1, 1, 2, "inverse", NULL},
    {"IFFT3D", handle_fft, 1, 1, 3, "inverse", NULL},
    {"RFFT", handle_rfft, 2, 2, 1, NULL, NULL},
    {"RFFT2D", handle_rfft, 2, 2, 2, NULL, NULL},
    {"RFFT3D", handle_rfft, 2, 2, 3, NULL, NULL},
    {"IRFFT", handle_irfft, 2, 2, 1, NULL, NULL},
    {"IRFFT2D", handle_irfft, 2, 2, 2, NULL, NULL},
    {"IRFFT3D", handle_irfft, 2, 2, 3, NULL, NULL},
};
const tf_row_table tf_rows_complex = TF_ROW_TABLE(kRows);
