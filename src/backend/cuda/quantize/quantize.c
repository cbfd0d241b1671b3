// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear and the casts that generated programs do
// not cover, by generic kernels.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/quantize/quantize_params.h"
#include "kernel/cuda/reduce/axis_ops_params.h"

// ---- quantization ----

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
                                  carnot_cuda_quantize_params* p) {
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
                                   const carnot_operand* outputs, carnot_cuda_kernel_id kernel,
                                   void* state) {
  const carnot_operand *x = &inputs[0], *scale = &inputs[1],
                       *zero = carnot_cuda_optional(step, inputs, 2);
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  CARNOT_TRY(carnot_cuda_on_device(inputs, 2));
  if (zero->format.dtype) CARNOT_TRY(carnot_cuda_on_device(zero, 1));
  CARNOT_CHECK(carnot_cuda_count(x) == carnot_cuda_count(&outputs[0]) &&
                   (!zero->format.dtype || carnot_cuda_count(zero) == carnot_cuda_count(scale)),
               INVALID_ARGUMENT, "zero_point has %lld elements and scale %lld",
               (long long)carnot_cuda_count(zero), (long long)carnot_cuda_count(scale));
  carnot_cuda_quantize_params p = {.precision = precision_of(&a, scale->format.dtype),
                                   .saturate = carnot_cuda_attr(&a, "saturate") != 0};
  CARNOT_TRY(granularity(step, &a, x, scale, &p));
  return carnot_cuda_generic_shape(step, inputs, outputs, kernel, carnot_cuda_count(x), &p,
                                   sizeof(p), state);
}

static carnot_status* quantize_linear_shape(const carnot_step_view* step,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs, void* state,
                                            size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  return shape_linear(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_quantize_linear, state);
}
static carnot_status* dequantize_linear_shape(const carnot_step_view* step,
                                              const carnot_operand* inputs,
                                              const carnot_operand* outputs, void* state,
                                              size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  return shape_linear(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_dequantize_linear, state);
}
CARNOT_CUDA_GENERIC_OP_TACTIC(quantize_linear, "cuda_quantize_linear", QUANTIZE_LINEAR);
CARNOT_CUDA_GENERIC_OP_TACTIC(dequantize_linear, "cuda_dequantize_linear", DEQUANTIZE_LINEAR);

// ---- casts that generated programs do not cover ----

static const char* cast_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_CAST) &&
      carnot_cuda_type(problem->inputs[0].format.dtype) &&
      carnot_cuda_type(problem->outputs[0].format.dtype))
    return "a generated program computes it";
  return carnot_cuda_generic_reject(problem, CARNOT_OP_CAST, 0, reason, size);
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
  const carnot_cuda_cast_params p = {
      .saturate = carnot_cuda_attr(&a, "saturate") != 0,
      .round_mode = carnot_cuda_attr_word(&a, "round_mode", kModes, 2)};
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_cast,
                                   carnot_cuda_count(&outputs[0]), &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_TACTIC(cast, "cuda_cast", CARNOT_OP_CAST, cast_reject, cast_shape);

// ---- scale and zero point from the range ----

static const char* dynamic_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR) &&
      problem->inputs[0].format.dtype != CARNOT_DTYPE_F32)
    return carnot_cuda_reject_reason(reason, size, "x is %s",
                                     carnot_dtype_name(problem->inputs[0].format.dtype));
  return carnot_cuda_generic_reject(problem, CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR, 0, reason, size);
}

static carnot_status* dynamic_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  const carnot_cuda_axis_params p = {.length = carnot_cuda_count(x)};
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
  CARNOT_TRY(carnot_cuda_generic_shape(
      step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_dynamic_quantize, 1, &p, sizeof(p), state));
  ((carnot_cuda_generic_state*)state)->blocks = true;
  return NULL;
}
CARNOT_CUDA_GENERIC_TACTIC(dynamic_quantize, "cuda_dynamic_quantize",
                           CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR, dynamic_reject, dynamic_shape);
