// Windows over pictures [N, H, W, C], tap by tap: patches and dilation. Source:
// tensorflow/core/ops/array_ops.cc, nn_ops.cc.
#include <float.h>

#include "import/tensorflow/rows.h"

enum { kMostTaps = 1024 };

typedef struct windows {
  int64_t kernel[2], stride[2], rate[2];
} windows;

// Entries 1 and 2 of the list |name|; 0 and 3 must be 1.
static void read_list(tf_import* n, const char* name, int64_t* out) {
  const tf_int_list list = tf_ints(n, name);
  if (list.count != 4) {
    TF_FAIL(n, INVALID_MODEL, "%zu numbers of %s; 4 are required", list.count, name);
    return;
  }
  for (int d = 0; d < 4; d++) {
    const int64_t most = d % 3 == 0 ? 1 : 1 << 20;
    if (list.items[d] < 1 || list.items[d] > most)
      TF_FAIL(n, INVALID_MODEL, "%s of dimension %d is %lld; 1 to %lld are possible", name, d,
              (long long)list.items[d], (long long)most);
    if (d % 3) out[d - 1] = list.items[d];
  }
}

// What SAME pads dimension |d| with before and behind it, as lists of one number.
static void same_pads(tf_import* n, carnot_value* x, const windows* w, int d, carnot_value** out) {
  import_node* e = &n->node;
  const int64_t step = w->stride[d], less = step - 1, reach = (w->kernel[d] - 1) * w->rate[d] + 1,
                behind_last = reach - step, zero = 0, two = 2;
  carnot_value *size = import_shape_part(e, x, 1 + d, 2 + d), *stride = import_ints(e, &step, 1);
  // (ceil(size / step) - 1) * step + reach - size, or 0.
  carnot_value* count = import_binary(
      e, CARNOT_FN_DIV, import_binary(e, CARNOT_FN_ADD, size, import_ints(e, &less, 1)), stride);
  carnot_value* total =
      import_binary(e, CARNOT_FN_SUB,
                    import_binary(e, CARNOT_FN_ADD, import_binary(e, CARNOT_FN_MUL, count, stride),
                                  import_ints(e, &behind_last, 1)),
                    size);
  total = import_binary(e, CARNOT_FN_MAX, total, import_ints(e, &zero, 1));
  out[0] = import_binary(e, CARNOT_FN_DIV, total, import_ints(e, &two, 1));
  out[1] = import_binary(e, CARNOT_FN_SUB, total, out[0]);
}

static carnot_value* padded(tf_import* n, carnot_value* x, const windows* w, double value) {
  static const int64_t kZero[] = {0};
  if (!tf_is(n, "padding", "SAME", "VALID")) return x;
  carnot_value *pads[2][2], *zero = import_ints(&n->node, kZero, 1);
  for (int d = 0; d < 2; d++) same_pads(n, x, w, d, pads[d]);
  carnot_value* widths[8] = {zero, pads[0][0], pads[1][0], zero,
                             zero, pads[0][1], pads[1][1], zero};
  return import_op(&n->node, CARNOT_OP_PAD, NULL, 3, x, import_concat(&n->node, 0, widths, 8),
                   import_number(&n->node, x, value));
}

// Tap (i, j) of all windows over |x|, which is padded: what is behind the reach of the tap in the
// last window is cut off.
static carnot_value* tap(tf_import* n, carnot_value* x, const windows* w, int64_t i, int64_t j) {
  static const int64_t kAxes[] = {1, 2};
  const int64_t starts[2] = {i * w->rate[0], j * w->rate[1]},
                left[2] = {(w->kernel[0] - 1 - i) * w->rate[0],
                           (w->kernel[1] - 1 - j) * w->rate[1]},
                ends[2] = {left[0] ? -left[0] : INT64_MAX, left[1] ? -left[1] : INT64_MAX};
  return import_op(&n->node, CARNOT_OP_SLICE, NULL, 5, x, import_ints(&n->node, starts, 2),
                   import_ints(&n->node, ends, 2), import_ints(&n->node, kAxes, 2),
                   import_ints(&n->node, w->stride, 2));
}

static bool windows_fit(tf_import* n, const carnot_value* x, const windows* w) {
  if (import_rank(&n->node, x) != 4)
    TF_FAIL(n, INVALID_MODEL, "a picture of 4 dimensions is required");
  if (!n->node.status && (w->kernel[0] > kMostTaps || w->kernel[1] > kMostTaps ||
                          w->kernel[0] * w->kernel[1] > kMostTaps))
    TF_FAIL(n, UNSUPPORTED, "windows of %lld x %lld", (long long)w->kernel[0],
            (long long)w->kernel[1]);
  return !n->node.status;
}

// [N, h, w, taps * C]
static void handle_patches(tf_import* n) {
  windows w = {0};
  carnot_value *x = n->inputs[0], *parts[kMostTaps];
  read_list(n, "ksizes", w.kernel);
  read_list(n, "strides", w.stride);
  read_list(n, "rates", w.rate);
  if (!windows_fit(n, x, &w)) return;
  x = padded(n, x, &w, 0);
  int count = 0;
  for (int64_t i = 0; i < w.kernel[0]; i++)
    for (int64_t j = 0; j < w.kernel[1]; j++) parts[count++] = tap(n, x, &w, i, j);
  n->outputs[0] = import_concat(&n->node, 3, parts, count);
}

// The largest sum of a pixel and the filter's value [h, w, C] for it.
static void handle_dilation(tf_import* n) {
  windows w = {0};
  carnot_value *x = n->inputs[0], *filter = n->inputs[1], *y = NULL;
  static const int64_t kAxes[] = {0, 1};
  for (int d = 0; d < 2; d++) w.kernel[d] = import_dim(filter, d);
  if (w.kernel[0] < 1 || w.kernel[1] < 1 || import_rank(&n->node, filter) != 3)
    TF_FAIL(n, UNSUPPORTED, "a filter of three dimensions of known size is required");
  read_list(n, "strides", w.stride);
  read_list(n, "rates", w.rate);
  if (!carnot_dtype_is_float(x->type.dtype)) TF_FAIL(n, UNSUPPORTED, "pictures of integers");
  if (!windows_fit(n, x, &w)) return;
  x = padded(n, x, &w, x->type.dtype == CARNOT_DTYPE_F16 ? -65504 : -FLT_MAX);
  for (int64_t i = 0; i < w.kernel[0]; i++)
    for (int64_t j = 0; j < w.kernel[1]; j++) {
      carnot_value* weight =
          import_slice(&n->node, import_slice(&n->node, filter, 0, i, i + 1), 1, j, j + 1);
      carnot_value* sum = import_binary(&n->node, CARNOT_FN_ADD, tap(n, x, &w, i, j),
                                        import_squeeze(&n->node, weight, kAxes, 2));
      y = y ? import_binary(&n->node, CARNOT_FN_MAX, y, sum) : sum;
    }
  n->outputs[0] = y;
}

static const tf_row kRows[] = {
    {"ExtractImagePatches", handle_patches, 1, 1, 0, NULL, NULL},
    {"Dilation2D", handle_dilation, 2, 2, 0, NULL, NULL},
};
const tf_row_table tf_rows_patches = TF_ROW_TABLE(kRows);
