// Fourier transforms, determinants, losses, and normalization of any types.
#include "backend/cuda/each.h"

// ---- Fourier transforms ----

static const char* dft_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_DFT, 6u, reason, size);
}

// Host operand |i|, or |otherwise| where it is absent.
static carnot_status* number_or(const carnot_step_view* step, const carnot_operand* inputs,
                                uint32_t i, int64_t otherwise, int64_t* out) {
  const carnot_operand* t = carnot_cuda_optional(step, inputs, i);
  double number = (double)otherwise;
  if (t->format.dtype) CARNOT_TRY(carnot_cuda_number_of(t, 0, &number));
  *out = (int64_t)number;
  return NULL;
}

static carnot_status* dft_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* state,
                                size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  int64_t axis, n;
  int last = x->rank - 1;
  CARNOT_TRY(number_or(step, inputs, 2, -2, &axis));
  if (axis < 0) axis += x->rank;
  CARNOT_CHECK(axis >= 0 && axis < last && y->rank == x->rank, INVALID_MODEL,
               "axis %lld of rank %d", (long long)axis, x->rank);
  bool onesided = carnot_cuda_attr(&a, "onesided") != 0;
  carnot_cuda_dft p = {.inverse = carnot_cuda_attr(&a, "inverse") != 0,
                       .length = x->dims[axis],
                       .parts = (int)x->dims[last],
                       .inner = carnot_dims_count(x->dims + axis + 1, last - (int)axis - 1),
                       .frames = 1};
  p.to_real = onesided && p.inverse;
  CARNOT_TRY(number_or(step, inputs, 1, p.to_real ? 2 * (p.length - 1) : p.length, &n));
  p.n = n, p.bins = onesided && !p.inverse ? n / 2 + 1 : n;
  int64_t lanes = carnot_dims_count(x->dims, (int)axis) * p.inner;
  CARNOT_CHECK(n > 0 && n <= INT32_MAX && (p.parts == 1 || p.parts == 2), INVALID_ARGUMENT,
               "a transform of length %lld over numbers of %d parts", (long long)n, p.parts);
  CARNOT_TRY(carnot_cuda_expect(x, "x", lanes * p.length * p.parts));
  CARNOT_TRY(carnot_cuda_expect(y, "the result", lanes * p.bins * (p.to_real ? 1 : 2)));
  return carnot_cuda_each_shape(step, inputs, outputs, "dft", lanes * p.bins, &p, sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(dft_row, "cuda_dft", CARNOT_OP_DFT, dft_reject, dft_shape);

static const char* stft_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_STFT, 1u << 1 | 1u << 3, reason, size);
}

static carnot_status* stft_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *window = carnot_cuda_optional(step, inputs, 2);
  int64_t n, apart;
  CARNOT_CHECK(x->rank == 3, INVALID_MODEL, "a signal of rank %d", x->rank);
  CARNOT_TRY(number_or(step, inputs, 1, 0, &apart));
  CARNOT_TRY(number_or(step, inputs, 3,
                       window->format.dtype ? carnot_cuda_count(window) : x->dims[1], &n));
  carnot_cuda_dft p = {.length = x->dims[1],
                       .parts = (int)x->dims[2],
                       .inner = 1,
                       .frame_step = apart,
                       .n = n,
                       .bins = carnot_cuda_attr(&a, "onesided") ? n / 2 + 1 : n};
  CARNOT_CHECK(
      apart > 0 && n > 0 && n <= p.length && n <= INT32_MAX && (p.parts == 1 || p.parts == 2),
      INVALID_ARGUMENT, "frames of %lld, %lld apart, do not fit a signal of %lld", (long long)n,
      (long long)apart, (long long)p.length);
  p.frames = (p.length - n) / apart + 1;
  int64_t count = x->dims[0] * p.frames * p.bins;
  CARNOT_TRY(carnot_cuda_expect(x, "the signal", x->dims[0] * p.length * p.parts));
  CARNOT_TRY(carnot_cuda_expect(window, "the window", n));
  CARNOT_TRY(carnot_cuda_expect(&outputs[0], "the result", count * 2));
  return carnot_cuda_each_shape(step, inputs, outputs, "dft", count, &p, sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(stft_row, "cuda_stft", CARNOT_OP_STFT, stft_reject, stft_shape);

// ---- determinants ----

static carnot_status* det_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* state,
                                size_t* out_workspace_bytes) {
  const carnot_operand* x = &inputs[0];
  int64_t n = x->rank >= 2 ? x->dims[x->rank - 1] : -1, count = carnot_cuda_count(&outputs[0]);
  CARNOT_CHECK(n >= 0 && x->dims[x->rank - 2] == n, INVALID_MODEL, "x of rank %d is not square",
               x->rank);
  CARNOT_TRY(carnot_cuda_expect(x, "x", count * n * n));
  const carnot_cuda_lanes p = {.length = n};
  *out_workspace_bytes = (size_t)(count * n * n) * sizeof(double);
  return carnot_cuda_each_shape(step, inputs, outputs, "determinant", count, &p, sizeof(p), state);
}
CARNOT_CUDA_PLAIN_ROW(det, "cuda_det", DET);

// ---- losses ----

static const char* loss_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_op op = problem->region->nodes[0].op;
  if (op != CARNOT_OP_NLL_LOSS && op != CARNOT_OP_SOFTMAX_CROSS_ENTROPY) return "";
  return carnot_cuda_each_reject(problem, op, 0, reason, size);
}

static carnot_status* loss_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand* x = &inputs[0];
  CARNOT_CHECK(step->input_count >= 2 && x->rank >= 2, INVALID_MODEL, "scores of rank %d", x->rank);
  carnot_cuda_loss p = {.classes = x->dims[1],
                        .size = carnot_dims_count(x->dims + 2, x->rank - 2),
                        .softmax = step->region->nodes[0].op == CARNOT_OP_SOFTMAX_CROSS_ENTROPY,
                        .ignores = carnot_attr_has(a.attrs, "ignore_index"),
                        .ignored = carnot_cuda_attr(&a, "ignore_index"),
                        .none = carnot_attr_is(a.row, a.attrs, "reduction", "none"),
                        .mean = carnot_attr_is(a.row, a.attrs, "reduction", "mean")};
  p.places = x->dims[0] * p.size;
  CARNOT_TRY(carnot_cuda_expect(x, "x", p.places * p.classes));
  CARNOT_TRY(carnot_cuda_expect(&inputs[1], "the targets", p.places));
  CARNOT_TRY(carnot_cuda_expect(carnot_cuda_optional(step, inputs, 2), "weight", p.classes));
  CARNOT_TRY(
      carnot_cuda_expect(carnot_cuda_output(step, outputs, 0), "the loss", p.none ? p.places : 1));
  CARNOT_TRY(
      carnot_cuda_expect(carnot_cuda_output(step, outputs, 1), "log_prob", carnot_cuda_count(x)));
  CARNOT_TRY(carnot_cuda_each_shape(step, inputs, outputs, "loss", 1, &p, sizeof(p), state));
  ((carnot_cuda_each*)state)->blocks = true;
  return NULL;
}
CARNOT_CUDA_EACH_ROW(loss_row, "cuda_loss", CARNOT_OP_COUNT, loss_reject, loss_shape);

// ---- normalization of types that differ, or by scales of any broadcast ----

static const char* norm_plain_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_op op = problem->region->nodes[0].op;
  if (op != CARNOT_OP_LAYER_NORM && op != CARNOT_OP_RMS_NORM && op != CARNOT_OP_GROUP_NORM &&
      op != CARNOT_OP_INSTANCE_NORM)
    return "";
  return carnot_cuda_each_reject(problem, op, 0, reason, size);
}

// Distances of |t| where it is broadcast to |x|.
static carnot_status* broadcast(const carnot_operand* t, const carnot_operand* x,
                                long long* out_strides) {
  CARNOT_TRY(carnot_cuda_on_device(t, 1));
  if (!t->format.dtype) return NULL;
  CARNOT_CHECK(t->rank <= x->rank, INVALID_ARGUMENT, "a parameter of rank %d", t->rank);
  long long stride = 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    int to = d + x->rank - t->rank;
    CARNOT_CHECK(t->dims[d] == 1 || t->dims[d] == x->dims[to], INVALID_ARGUMENT,
                 "dimension %d of a parameter is %lld, the input's %lld", d, (long long)t->dims[d],
                 (long long)x->dims[to]);
    out_strides[to] = t->dims[d] == 1 ? 0 : stride;
    stride *= t->dims[d];
  }
  return NULL;
}

static carnot_status* norm_plain_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  carnot_op op = step->region->nodes[0].op;
  const carnot_operand *x = &inputs[0], *scale = carnot_cuda_optional(step, inputs, 1),
                       *bias = carnot_cuda_optional(step, inputs, 2);
  carnot_cuda_any_norm p = {.rms = op == CARNOT_OP_RMS_NORM,
                            .per_element = op == CARNOT_OP_LAYER_NORM || op == CARNOT_OP_RMS_NORM,
                            .spatial = 1,
                            .channels = 1,
                            .rank = x->rank,
                            .epsilon = carnot_attr_float(a.row, a.attrs, "epsilon")};
  CARNOT_CHECK(x->rank >= (p.per_element ? 1 : 2) && x->rank <= CARNOT_CUDA_RANK, INVALID_MODEL,
               "x of rank %d", x->rank);
  for (int d = 0; d < x->rank; d++) p.dims[d] = x->dims[d];
  if (p.per_element) {
    int axis;
    CARNOT_TRY(carnot_cuda_axis(step, "axis", x->rank, &axis));
    p.size = carnot_dims_count(x->dims + axis, x->rank - axis);
    CARNOT_TRY(broadcast(scale, x, p.scale_s));
    CARNOT_TRY(broadcast(bias, x, p.bias_s));
  } else {
    p.channels = x->dims[1], p.spatial = carnot_dims_count(x->dims + 2, x->rank - 2);
    int64_t groups =
        op == CARNOT_OP_INSTANCE_NORM ? p.channels : carnot_cuda_attr(&a, "num_groups");
    CARNOT_CHECK(groups > 0 && p.channels % groups == 0, INVALID_MODEL,
                 "%lld groups of %lld channels", (long long)groups, (long long)p.channels);
    p.size = p.channels / groups * p.spatial;
    CARNOT_TRY(carnot_cuda_expect(scale, "scale", p.channels));
    CARNOT_TRY(carnot_cuda_expect(bias, "the bias", p.channels));
  }
  int64_t count = carnot_cuda_count(x), groups = p.size ? count / p.size : 0;
  CARNOT_TRY(carnot_cuda_expect(x, "x", count));
  CARNOT_CHECK(outputs[0].format.dtype, INVALID_MODEL, "no result");
  for (uint32_t i = 0; i < 3; i++)
    CARNOT_TRY(
        carnot_cuda_expect(carnot_cuda_output(step, outputs, i), "a result", i ? groups : count));
  CARNOT_TRY(
      carnot_cuda_each_shape(step, inputs, outputs, "norm_plain", groups, &p, sizeof(p), state));
  ((carnot_cuda_each*)state)->blocks = true;
  return NULL;
}
CARNOT_CUDA_EACH_ROW(norm_plain_row, "cuda_norm_plain", CARNOT_OP_COUNT, norm_plain_reject,
                     norm_plain_shape);

// ---- batch normalization by the batch, or of types that differ ----

static carnot_status* batch_norm_plain_shape(const carnot_step_view* step,
                                             const carnot_operand* inputs,
                                             const carnot_operand* outputs, void* state,
                                             size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *y = carnot_cuda_output(step, outputs, 0);
  CARNOT_CHECK(step->input_count == 5 && x->rank >= 1 && y->format.dtype, INVALID_MODEL,
               "%u operands", step->input_count);
  carnot_cuda_statistics p = {.images = x->dims[0],
                              .channels = x->rank > 1 ? x->dims[1] : 1,
                              .size = x->rank > 2 ? carnot_dims_count(x->dims + 2, x->rank - 2) : 1,
                              .given = !carnot_cuda_attr(&a, "training_mode"),
                              .epsilon = carnot_attr_float(a.row, a.attrs, "epsilon"),
                              .momentum = carnot_attr_float(a.row, a.attrs, "momentum")};
  CARNOT_TRY(carnot_cuda_expect(x, "x", p.images * p.channels * p.size));
  CARNOT_TRY(carnot_cuda_expect(y, "the result", carnot_cuda_count(x)));
  for (uint32_t i = 1; i < 5; i++)
    CARNOT_TRY(carnot_cuda_expect(&inputs[i], "a parameter", p.channels));
  for (uint32_t i = 1; i < 3; i++)
    CARNOT_TRY(carnot_cuda_expect(carnot_cuda_output(step, outputs, i), "a statistic", p.channels));
  CARNOT_TRY(carnot_cuda_each_shape(step, inputs, outputs, "batch_norm_plain", p.channels, &p,
                                    sizeof(p), state));
  ((carnot_cuda_each*)state)->blocks = true;
  return NULL;
}

CARNOT_CUDA_PLAIN_ROW(batch_norm_plain, "cuda_batch_norm_plain", BATCH_NORM);
