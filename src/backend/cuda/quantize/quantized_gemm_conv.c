// MatMulInteger, QLinearMatMul, ConvInteger and QLinearConv by generic kernels.
#include "backend/cuda/common/generic.h"
#include "backend/cuda/common/sliding_window.h"
#include "kernel/cuda/quantize/quantize_params.h"

static const carnot_cuda_quantized_operands kPlain = {1, -1, 2, -1, 3, -1, -1, -1, 0, 0, 0, 0},
                                            kScaled = {3, 1, 2, 4, 5, 6, 7, 8, 0, 0, 0, 0};

static const char* matmul_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_op op = problem->region->nodes[0].op;
  if (op != CARNOT_OP_MATMUL_INTEGER && op != CARNOT_OP_QLINEAR_MATMUL) return "";
  return carnot_cuda_generic_reject(problem, op, 0, reason, size);
}
static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_op op = problem->region->nodes[0].op;
  if (op != CARNOT_OP_CONV_INTEGER && op != CARNOT_OP_QLINEAR_CONV) return "";
  if (problem->inputs[0].rank < 3 || problem->inputs[0].rank > 5)
    return carnot_cuda_reject_reason(reason, size, "rank %d, takes 3 to 5",
                                     problem->inputs[0].rank);
  return carnot_cuda_generic_reject(problem, op, 0, reason, size);
}

// How many numbers input |i| holds: 0 where it is absent; all operands are on the device.
static carnot_status* list_of(const carnot_step_view* step, const carnot_operand* inputs, int i,
                              long long* out) {
  *out = 0;
  if (i < 0) return NULL;
  const carnot_operand* t = carnot_cuda_optional(step, inputs, (uint32_t)i);
  CARNOT_TRY(carnot_cuda_on_device(t, 1));
  if (t->format.dtype) *out = carnot_cuda_count(t);
  return NULL;
}

static carnot_status* read_scales(const carnot_step_view* step, const carnot_operand* inputs,
                                  carnot_cuda_quantized_operands* s) {
  long long one;
  CARNOT_TRY(list_of(step, inputs, s->x_scale, &s->x_scales));
  CARNOT_TRY(list_of(step, inputs, s->x_zero, &s->x_zeros));
  CARNOT_TRY(list_of(step, inputs, s->w_scale, &s->w_scales));
  CARNOT_TRY(list_of(step, inputs, s->w_zero, &s->w_zeros));
  for (int i = s->y_scale; s->y_scale >= 0 && i <= s->y_zero; i++) {
    CARNOT_TRY(list_of(step, inputs, i, &one));
    CARNOT_CHECK(one == 1, INVALID_ARGUMENT, "input %d has %lld elements; 1 is required", i, one);
  }
  CARNOT_CHECK(
      (int)step->input_count > s->w && (s->y_scale < 0 || (s->x_scales > 0 && s->w_scales > 0)),
      INVALID_MODEL, "%u operands", step->input_count);
  return carnot_cuda_on_device(inputs, (uint32_t)s->w + 1);
}

// Lists of one value, one per row, or one per row of every matrix.
static carnot_status* check_list(long long count, int64_t rows, const char* what) {
  CARNOT_CHECK(count <= 1 || (rows > 0 && count % rows == 0), INVALID_ARGUMENT,
               "%s has %lld elements; 1 or a multiple of %lld are required", what, count,
               (long long)rows);
  return NULL;
}

static carnot_status* matmul_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  bool scaled = step->region->nodes[0].op == CARNOT_OP_QLINEAR_MATMUL;
  carnot_cuda_quantized_matmul_params p = {.scales = scaled ? kScaled : kPlain};
  CARNOT_TRY(read_scales(step, inputs, &p.scales));
  const carnot_operand *a = &inputs[0], *b = &inputs[p.scales.w], *y = &outputs[0];
  CARNOT_CHECK(a->rank > 0 && b->rank > 0, INVALID_MODEL, "ranks %d and %d", a->rank, b->rank);
  int drop_a = a->rank > 1 ? 2 : 1, drop_b = b->rank > 1 ? 2 : 1;
  p.k = a->dims[a->rank - 1];
  p.m = a->rank > 1 ? a->dims[a->rank - 2] : 1, p.n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
  p.rank = y->rank - (drop_a + drop_b - 2);
  CARNOT_CHECK(p.rank >= 0 && p.rank <= CARNOT_CUDA_RANK && b->dims[b->rank - drop_b] == p.k,
               INVALID_ARGUMENT, "a GEMM over %lld and %lld elements", (long long)p.k,
               (long long)b->dims[b->rank - drop_b]);
  int64_t of_a = 1, of_b = 1, matrices = 1;
  for (int d = p.rank - 1; d >= 0; d--) {
    int at_a = d - p.rank + a->rank - drop_a, at_b = d - p.rank + b->rank - drop_b;
    int64_t in_a = at_a >= 0 ? a->dims[at_a] : 1, in_b = at_b >= 0 ? b->dims[at_b] : 1;
    p.dims[d] = y->dims[d];
    CARNOT_CHECK((in_a == 1 || in_a == p.dims[d]) && (in_b == 1 || in_b == p.dims[d]),
                 INVALID_ARGUMENT, "batches do not fit along axis %d", d);
    p.a_s[d] = in_a > 1 ? of_a : 0, p.b_s[d] = in_b > 1 ? of_b : 0;
    of_a *= in_a, of_b *= in_b, matrices *= p.dims[d];
  }
  CARNOT_CHECK(carnot_cuda_count(y) == matrices * p.m * p.n &&
                   carnot_cuda_count(a) == of_a * p.m * p.k &&
                   carnot_cuda_count(b) == of_b * p.k * p.n,
               INVALID_ARGUMENT, "operands and result do not fit");
  CARNOT_TRY(check_list(p.scales.x_scales, p.m, "a_scale"));
  CARNOT_TRY(check_list(p.scales.x_zeros, p.m, "a_zero_point"));
  CARNOT_TRY(check_list(p.scales.w_scales, p.n, "b_scale"));
  CARNOT_TRY(check_list(p.scales.w_zeros, p.n, "b_zero_point"));
  return carnot_cuda_generic_shape(step, inputs, outputs,
                                   CARNOT_CUDA_KERNEL_generic_quantized_matmul,
                                   carnot_cuda_count(y), &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_TACTIC(quantized_matmul, "cuda_quantized_matmul", CARNOT_OP_COUNT,
                           matmul_reject, matmul_shape);

static carnot_status* conv_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  bool scaled = step->region->nodes[0].op == CARNOT_OP_QLINEAR_CONV;
  carnot_cuda_quantized_conv_params p = {.scales = scaled ? kScaled : kPlain};
  CARNOT_TRY(read_scales(step, inputs, &p.scales));
  const carnot_operand *x = &inputs[0], *w = &inputs[p.scales.w], *y = &outputs[0];
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  carnot_cuda_sliding_window window;
  carnot_operand sized = *x;  // the window does not depend on the type
  sized.format.dtype = y->format.dtype;
  CARNOT_TRY(carnot_cuda_sliding_window_make(&step->region->nodes[0], &sized, w, y, &window));
  p.channels = x->dims[1], p.filters = y->dims[1], p.groups = carnot_cuda_attr(&a, "group");
  CARNOT_CHECK(p.groups > 0 && w->rank == x->rank && w->dims[0] == p.filters &&
                   p.filters % p.groups == 0 && w->dims[1] * p.groups == p.channels,
               INVALID_ARGUMENT, "weights do not fit %lld channels in %lld groups",
               (long long)p.channels, (long long)p.groups);
  for (int d = 0; d < 3; d++) {
    p.in[d] = window.in[d], p.out[d] = window.out[d], p.kernel[d] = window.kernel[d];
    p.step[d] = window.step[d], p.dilation[d] = window.dilation[d], p.begin[d] = window.begin[d];
  }
  CARNOT_CHECK(
      carnot_cuda_count(w) == p.filters * w->dims[1] * p.kernel[0] * p.kernel[1] * p.kernel[2],
      INVALID_ARGUMENT, "the window is not the weights'");
  long long biases;
  CARNOT_TRY(list_of(step, inputs, p.scales.bias, &biases));
  CARNOT_CHECK(p.scales.x_scales <= 1 && p.scales.x_zeros <= 1 &&
                   (p.scales.w_scales <= 1 || p.scales.w_scales == p.filters) &&
                   (p.scales.w_zeros <= 1 || p.scales.w_zeros == p.filters) &&
                   (!biases || biases == p.filters),
               INVALID_ARGUMENT, "scales, zero points or bias are not one a filter");
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_quantized_conv,
                                   carnot_cuda_count(y), &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_TACTIC(quantized_conv, "cuda_quantized_conv", CARNOT_OP_COUNT, conv_reject,
                           conv_shape);
