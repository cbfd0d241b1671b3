// Trilu, ConstantOfShape, Dropout, OneHot, ReverseSequence, Range and EyeLike by generic kernels.
#include <string.h>

#include "backend/cuda/common/generic.h"
#include "kernel/cuda/generators/generators_params.h"

static carnot_status* trilu_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* outputs, void* state,
                                  size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *diagonal = carnot_cuda_optional(step, inputs, 1);
  CARNOT_TRY(carnot_cuda_check_copied(x, x, &outputs[0]));
  CARNOT_CHECK(x->rank >= 2, INVALID_MODEL, "rank %d, must be 2 or more", x->rank);
  CARNOT_TRY(carnot_cuda_on_device(diagonal, 1));
  CARNOT_CHECK(!diagonal->format.dtype || carnot_cuda_count(diagonal) == 1, INVALID_MODEL,
               "%lld diagonals", (long long)carnot_cuda_count(diagonal));
  carnot_cuda_generator_params p = {.rows = x->dims[x->rank - 2],
                                    .columns = x->dims[x->rank - 1],
                                    .flag = carnot_cuda_step_attr(step, "upper") != 0};
  p.io.bytes = carnot_cuda_bytes(x);
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_trilu,
                                   carnot_cuda_count(x), &p, sizeof(p), state);
}

static carnot_status* fill_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* y = &outputs[0];
  const carnot_attr* value = carnot_attrs_find(&carnot_cuda_node_of(step)->attrs, "value");
  const carnot_tensor* given =
      value && value->type == CARNOT_ATTR_TENSOR ? value->tensor : NULL;  // else zero, float32
  carnot_cuda_generator_params p = {.bits = 0};
  p.io.bytes = carnot_cuda_bytes(y);
  CARNOT_CHECK(p.io.bytes <= 8 && (!given || (given->dtype == y->format.dtype && given->data &&
                                              carnot_tensor_count(given) == 1)),
               INVALID_MODEL, "a fill of %s", carnot_dtype_name(y->format.dtype));
  if (given) memcpy(&p.bits, given->data, (size_t)p.io.bytes);
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_fill,
                                   carnot_cuda_count(y), &p, sizeof(p), state);
}

// Input |i| is absent or a constant 0.
static bool is_zero(const carnot_problem* problem, uint32_t i) {
  if (i >= problem->input_count || problem->inputs[i].kind != CARNOT_VALUE_TENSOR) return true;
  const carnot_operand_desc* t = &problem->inputs[i];
  return carnot_is_known(t) && carnot_tensor_count(t->tensor) == 1 &&
         carnot_load_f64(t->format.dtype, t->tensor->data, 0) == 0;
}

static const char* dropout_reject(carnot_problem* problem, char* reason, size_t size) {
  if (carnot_cuda_is_single(problem, CARNOT_OP_DROPOUT) && !is_zero(problem, 2))
    return "it draws by the seed of the run";
  return carnot_cuda_generic_reject(problem, CARNOT_OP_DROPOUT, 6u, reason, size);
}

static carnot_status* dropout_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = carnot_cuda_output(step, outputs, 0);
  carnot_cuda_generator_params p = {.k = 0};
  p.io.bytes = carnot_cuda_bytes(x);
  const carnot_operand* mask = carnot_cuda_output(step, outputs, 1);
  CARNOT_CHECK((!y->format.dtype || y->format.dtype == x->format.dtype) &&
                   (!mask->format.dtype || mask->format.dtype == CARNOT_DTYPE_BOOL),
               INVALID_ARGUMENT, "the result or the mask has another type");
  CARNOT_TRY(carnot_cuda_expect(x, "x", carnot_cuda_count(x)));
  CARNOT_TRY(carnot_cuda_expect(y, "the result", carnot_cuda_count(x)));
  CARNOT_TRY(carnot_cuda_expect(mask, "the mask", carnot_cuda_count(x)));
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_dropout,
                                   carnot_cuda_count(x), &p, sizeof(p), state);
}

static carnot_status* one_hot_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *index = &inputs[0], *values = &inputs[2], *y = &outputs[0];
  int axis;
  double depth;
  CARNOT_TRY(carnot_cuda_on_device(index, 1));
  CARNOT_TRY(carnot_cuda_on_device(values, 1));
  CARNOT_TRY(carnot_cuda_axis(step, "axis", index->rank + 1, &axis));
  CARNOT_TRY(carnot_cuda_host_number(&inputs[1], 0, &depth));
  carnot_cuda_generator_params p = {
      .k = (int64_t)depth, .inner = carnot_dims_count(index->dims + axis, index->rank - axis)};
  CARNOT_CHECK(carnot_cuda_count(values) == 2 && values->format.dtype == y->format.dtype &&
                   depth >= 0 && carnot_cuda_count(y) == carnot_cuda_count(index) * p.k,
               INVALID_ARGUMENT, "%lld values, %lld indices of depth %g, a result of %lld",
               (long long)carnot_cuda_count(values), (long long)carnot_cuda_count(index), depth,
               (long long)carnot_cuda_count(y));
  p.io.bytes = carnot_cuda_bytes(values);
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_one_hot,
                                   carnot_cuda_count(y), &p, sizeof(p), state);
}

static carnot_status* reverse_sequence_shape(const carnot_step_view* step,
                                             const carnot_operand* inputs,
                                             const carnot_operand* outputs, void* state,
                                             size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* x = &inputs[0];
  CARNOT_TRY(carnot_cuda_check_copied(x, x, &outputs[0]));
  CARNOT_TRY(carnot_cuda_check_index(&inputs[1]));
  CARNOT_CHECK(x->rank >= 2, INVALID_MODEL, "rank %d, must be 2 or more", x->rank);
  carnot_cuda_generator_params p = {.rows = x->dims[0],
                                    .columns = x->dims[1],
                                    .inner = carnot_dims_count(x->dims + 2, x->rank - 2),
                                    .flag = carnot_cuda_step_attr(step, "time_axis") != 0};
  CARNOT_CHECK(carnot_cuda_count(&inputs[1]) == (p.flag ? p.rows : p.columns), INVALID_ARGUMENT,
               "%lld lengths for %lld sequences", (long long)carnot_cuda_count(&inputs[1]),
               (long long)(p.flag ? p.rows : p.columns));
  p.io.bytes = carnot_cuda_bytes(x);
  return carnot_cuda_generic_shape(step, inputs, outputs,
                                   CARNOT_CUDA_KERNEL_generic_reverse_sequence,
                                   carnot_cuda_count(x), &p, sizeof(p), state);
}

static carnot_status* range_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* outputs, void* state,
                                  size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *start = &inputs[0], *delta = &inputs[2];
  carnot_cuda_generator_params p = {0};
  CARNOT_TRY(carnot_cuda_host_number(start, 0, &p.start));
  CARNOT_TRY(carnot_cuda_host_number(delta, 0, &p.delta));
  if (carnot_dtype_is_integer(start->format.dtype)) {
    p.start_int = carnot_load_i64(start->format.dtype, start->data, 0);
    p.delta_int = carnot_load_i64(delta->format.dtype, delta->data, 0);
  }
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_range,
                                   carnot_cuda_count(&outputs[0]), &p, sizeof(p), state);
}

static carnot_status* eye_like_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand* y = &outputs[0];
  CARNOT_CHECK(y->rank == 2, INVALID_MODEL, "rank %d, must be 2", y->rank);
  carnot_cuda_generator_params p = {.columns = y->dims[1]};
  p.k = carnot_max_i64(-y->dims[0], carnot_min_i64(y->dims[1], carnot_cuda_step_attr(step, "k")));
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_eye_like,
                                   carnot_cuda_count(y), &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_OP_TACTIC(trilu, "cuda_trilu", TRILU);
CARNOT_CUDA_GENERIC_HOST_OP_TACTIC(fill, "cuda_fill", CONSTANT_OF_SHAPE, 1u);
CARNOT_CUDA_GENERIC_TACTIC(dropout, "cuda_dropout", CARNOT_OP_DROPOUT, dropout_reject,
                           dropout_shape);
CARNOT_CUDA_GENERIC_HOST_OP_TACTIC(one_hot, "cuda_one_hot", ONE_HOT, 1u << 1);
CARNOT_CUDA_GENERIC_OP_TACTIC(reverse_sequence, "cuda_reverse_sequence", REVERSE_SEQUENCE);
CARNOT_CUDA_GENERIC_HOST_OP_TACTIC(range, "cuda_range", RANGE, 7u);
CARNOT_CUDA_GENERIC_OP_TACTIC(eye_like, "cuda_eye_like", EYE_LIKE);
