// Quantization, casts that generated programs leave, and layers over quantized numbers.
#include "backend/cuda/each.h"
#include "backend/cuda/window.h"

// Which of |words| the attribute is; |count| for none.
static int word(const carnot_cuda_attrs* a, const char* name, const char* const* words, int count) {
  int at = 0;
  while (at < count && !carnot_attr_is(a->row, a->attrs, name, words[at])) at++;
  return at;
}

// ---- quantization ----

static const char* quantize_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_QUANTIZE_LINEAR, 0, reason, size);
}
static const char* dequantize_reject(carnot_problem* problem, char* reason, size_t size) {
  return carnot_cuda_each_reject(problem, CARNOT_OP_DEQUANTIZE_LINEAR, 0, reason, size);
}

static int precision_of(const carnot_cuda_attrs* a, carnot_dtype scale) {
  int64_t wanted = carnot_attr_has(a->attrs, "precision") ? carnot_cuda_attr(a, "precision") : 0;
  switch (wanted ? (carnot_dtype)wanted : scale) {
    case CARNOT_DTYPE_F64: return CARNOT_CUDA_F64;
    case CARNOT_DTYPE_F16: return CARNOT_CUDA_F16;
    case CARNOT_DTYPE_BF16: return CARNOT_CUDA_BF16;
    default: return CARNOT_CUDA_F32;
  }
}

// Where the scales lie: one, one along the axis, or one a block.
static carnot_status* granularity(const carnot_step_view* step, const carnot_cuda_attrs* a,
                                  const carnot_operand* x, const carnot_operand* scale,
                                  carnot_cuda_quantize* p) {
  int64_t scales = carnot_cuda_count(scale), block = carnot_cuda_attr(a, "block_size");
  p->per_tensor = x->rank == 0 || (scales == 1 && (scale->rank < 2 || x->rank < 2));
  p->inner = p->length = 1;
  if (p->per_tensor) return NULL;
  int axis = 0;
  if (x->rank > 1) CARNOT_TRY(carnot_cuda_axis(step, "axis", x->rank, &axis));
  p->length = x->dims[axis];
  p->inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1);
  bool blocked = scale->rank == x->rank && (block > 0 || scale->rank > 1);
  p->blocks = blocked ? scale->dims[axis] : 0;
  CARNOT_CHECK(blocked || scales == p->length, INVALID_ARGUMENT,
               "scale has %lld elements; dimension %d of x is %lld", (long long)scales, axis,
               (long long)p->length);
  if (!blocked) return NULL;
  CARNOT_CHECK(p->blocks > 0, INVALID_ARGUMENT, "scale has 0 blocks along dimension %d", axis);
  int64_t least = carnot_ceildiv(p->length, p->blocks),
          wanted = carnot_dims_count(x->dims, axis) * p->blocks * p->inner;
  p->block_size = block > 0 ? block : least;
  CARNOT_CHECK(scales == wanted && p->block_size >= least, INVALID_ARGUMENT,
               "scale has %lld elements in blocks of %lld; %lld are required", (long long)scales,
               (long long)p->block_size, (long long)wanted);
  return NULL;
}

static carnot_status* shape_linear(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, const char* kernel, void* state) {
  const carnot_operand *x = &inputs[0], *scale = &inputs[1],
                       *zero = carnot_cuda_optional(step, inputs, 2);
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  CARNOT_TRY(carnot_cuda_on_device(inputs, 2));
  if (zero->format.dtype) CARNOT_TRY(carnot_cuda_on_device(zero, 1));
  CARNOT_CHECK(carnot_cuda_count(x) == carnot_cuda_count(&outputs[0]) &&
                   (!zero->format.dtype || carnot_cuda_count(zero) == carnot_cuda_count(scale)),
               INVALID_ARGUMENT, "zero_point has %lld elements and scale %lld",
               (long long)carnot_cuda_count(zero), (long long)carnot_cuda_count(scale));
  carnot_cuda_quantize p = {.precision = precision_of(&a, scale->format.dtype),
                            .saturate = carnot_cuda_attr(&a, "saturate") != 0};
  CARNOT_TRY(granularity(step, &a, x, scale, &p));
  return carnot_cuda_each_shape(step, inputs, outputs, kernel, carnot_cuda_count(x), &p, sizeof(p),
                                state);
}

static carnot_status* quantize_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  return shape_linear(step, inputs, outputs, "quantize_linear", state);
}
static carnot_status* dequantize_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  return shape_linear(step, inputs, outputs, "dequantize_linear", state);
}
CARNOT_CUDA_EACH_ROW(quantize_linear_row, "cuda_quantize_linear", CARNOT_OP_QUANTIZE_LINEAR,
                     quantize_reject, quantize_shape);
CARNOT_CUDA_EACH_ROW(dequantize_linear_row, "cuda_dequantize_linear", CARNOT_OP_DEQUANTIZE_LINEAR,
                     dequantize_reject, dequantize_shape);

// ---- casts that the generated programs leave ----

static const char* cast_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_CAST) &&
      carnot_cuda_type(problem->inputs[0].format.dtype) &&
      carnot_cuda_type(problem->outputs[0].format.dtype))
    return "a generated program computes it";
  return carnot_cuda_each_reject(problem, CARNOT_OP_CAST, 0, reason, size);
}

static carnot_status* cast_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  static const char* const kModes[] = {"up", "down", "nearest"};
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  CARNOT_TRY(carnot_cuda_on_device(inputs, 1));
  CARNOT_CHECK(carnot_cuda_count(&inputs[0]) == carnot_cuda_count(&outputs[0]), INVALID_ARGUMENT,
               "a cast of %lld elements to %lld", (long long)carnot_cuda_count(&inputs[0]),
               (long long)carnot_cuda_count(&outputs[0]));
  const carnot_cuda_cast p = {.saturate = carnot_cuda_attr(&a, "saturate") != 0,
                              .round_mode = word(&a, "round_mode", kModes, 2)};
  return carnot_cuda_each_shape(step, inputs, outputs, "cast", carnot_cuda_count(&outputs[0]), &p,
                                sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(cast_row, "cuda_cast", CARNOT_OP_CAST, cast_reject, cast_shape);

// ---- products and convolutions of quantized numbers ----

static const carnot_cuda_scales kPlain = {1, -1, 2, -1, 3, -1, -1, -1, 0, 0, 0, 0},
                                kScaled = {3, 1, 2, 4, 5, 6, 7, 8, 0, 0, 0, 0};

static const char* matmul_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_op op = problem->region->nodes[0].op;
  if (op != CARNOT_OP_MATMUL_INTEGER && op != CARNOT_OP_QLINEAR_MATMUL) return "";
  return carnot_cuda_each_reject(problem, op, 0, reason, size);
}
static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_op op = problem->region->nodes[0].op;
  if (op != CARNOT_OP_CONV_INTEGER && op != CARNOT_OP_QLINEAR_CONV) return "";
  if (problem->inputs[0].rank < 3 || problem->inputs[0].rank > 5)
    return carnot_cuda_because(reason, size, "rank %d, takes 3 to 5", problem->inputs[0].rank);
  return carnot_cuda_each_reject(problem, op, 0, reason, size);
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
                                  carnot_cuda_scales* s) {
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

// Lists of one number, one of each of |rows|, or one of each row of every matrix.
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
  carnot_cuda_quantized_matmul p = {.scales = scaled ? kScaled : kPlain};
  CARNOT_TRY(read_scales(step, inputs, &p.scales));
  const carnot_operand *a = &inputs[0], *b = &inputs[p.scales.w], *y = &outputs[0];
  CARNOT_CHECK(a->rank > 0 && b->rank > 0, INVALID_MODEL, "ranks %d and %d", a->rank, b->rank);
  int drop_a = a->rank > 1 ? 2 : 1, drop_b = b->rank > 1 ? 2 : 1;
  p.k = a->dims[a->rank - 1];
  p.m = a->rank > 1 ? a->dims[a->rank - 2] : 1, p.n = b->rank > 1 ? b->dims[b->rank - 1] : 1;
  p.rank = y->rank - (drop_a + drop_b - 2);
  CARNOT_CHECK(p.rank >= 0 && p.rank <= CARNOT_CUDA_RANK && b->dims[b->rank - drop_b] == p.k,
               INVALID_ARGUMENT, "a product over %lld and %lld elements", (long long)p.k,
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
  return carnot_cuda_each_shape(step, inputs, outputs, "quantized_matmul", carnot_cuda_count(y), &p,
                                sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(quantized_matmul_row, "cuda_quantized_matmul", CARNOT_OP_COUNT, matmul_reject,
                     matmul_shape);

static carnot_status* conv_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  bool scaled = step->region->nodes[0].op == CARNOT_OP_QLINEAR_CONV;
  carnot_cuda_quantized_conv p = {.scales = scaled ? kScaled : kPlain};
  CARNOT_TRY(read_scales(step, inputs, &p.scales));
  const carnot_operand *x = &inputs[0], *w = &inputs[p.scales.w], *y = &outputs[0];
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  carnot_cuda_window window;
  carnot_operand sized = *x;  // the window does not ask what is in it
  sized.format.dtype = y->format.dtype;
  CARNOT_TRY(carnot_cuda_window_make(&step->region->nodes[0], &sized, w, y, &window));
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
  return carnot_cuda_each_shape(step, inputs, outputs, "quantized_conv", carnot_cuda_count(y), &p,
                                sizeof(p), state);
}
CARNOT_CUDA_EACH_ROW(quantized_conv_row, "cuda_quantized_conv", CARNOT_OP_COUNT, conv_reject,
                     conv_shape);

// ---- scale and zero point from the range ----

static const char* dynamic_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR) &&
      problem->inputs[0].format.dtype != CARNOT_DTYPE_F32)
    return carnot_cuda_because(reason, size, "x is %s",
                               carnot_dtype_name(problem->inputs[0].format.dtype));
  return carnot_cuda_each_reject(problem, CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR, 0, reason, size);
}

static carnot_status* dynamic_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  const carnot_cuda_lanes p = {.length = carnot_cuda_count(x)};
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  for (uint32_t i = 0; i < 3; i++) {
    const carnot_operand* t = carnot_cuda_output(step, outputs, i);
    CARNOT_CHECK(
        !t->format.dtype || (t->format.dtype == (i == 1 ? CARNOT_DTYPE_F32 : CARNOT_DTYPE_U8) &&
                             carnot_cuda_count(t) == (i ? 1 : p.length)),
        INVALID_ARGUMENT, "result %u is %s of %lld elements", i, carnot_dtype_name(t->format.dtype),
        (long long)carnot_cuda_count(t));
  }
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32, INVALID_MODEL, "x is %s",
               carnot_dtype_name(x->format.dtype));
  CARNOT_TRY(
      carnot_cuda_each_shape(step, inputs, outputs, "dynamic_quantize", 1, &p, sizeof(p), state));
  ((carnot_cuda_each*)state)->blocks = true;
  return NULL;
}
CARNOT_CUDA_EACH_ROW(dynamic_quantize_row, "cuda_dynamic_quantize",
                     CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR, dynamic_reject, dynamic_shape);
