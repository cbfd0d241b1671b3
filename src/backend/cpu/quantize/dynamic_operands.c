// Operands of GEMMs and convolutions whose activations the run quantizes.
#include "backend/cpu/quantize/dynamic_operands.h"

#include "backend/cpu/quantize/dynamic_quantize.h"

static const carnot_operand_desc* given(const carnot_problem* problem, uint32_t input) {
  return input == CARNOT_PLAN_NONE || problem->inputs[input].kind != CARNOT_VALUE_TENSOR
             ? NULL
             : &problem->inputs[input];
}

static int32_t index_of(const carnot_problem* problem, uint32_t input) {
  return given(problem, input) ? (int32_t)input : -1;
}

const char* carnot_dynamic_operands_read(const carnot_problem* problem,
                                         const carnot_dynamic_gemm* view,
                                         carnot_dynamic_operands* out, char* reason, size_t size) {
  const carnot_operand_desc *x = &problem->inputs[view->x], *zero = given(problem, view->x_zero);
  const char* why = NULL;
  if (view->quantizes) why = carnot_not_f32(x, "the operand", 2, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  if (!view->quantizes && (x->rank < 2 || !carnot_is_8bit(x->format.dtype)))
    return "the operand is no tensor of 8 bits";
  if (zero && (zero->rank != 0 || zero->format.dtype != x->format.dtype))
    return "the operand's zero point is not one number of its type";
  *out = (carnot_dynamic_operands){.quantizes = view->quantizes,
                                   .x = (int32_t)view->x,
                                   .x_scale = index_of(problem, view->x_scale),
                                   .x_zero = index_of(problem, view->x_zero),
                                   .w_scale = (int32_t)view->w_scale,
                                   .bias = index_of(problem, view->bias),
                                   .has_relu = view->has_relu};
  return NULL;
}

carnot_status* carnot_dynamic_operands_validate(const carnot_dynamic_operands* o,
                                                const carnot_step_view* step) {
  const int64_t inputs = step->input_count;
  CARNOT_CHECK(o->x >= 0 && o->x < inputs && o->w_scale >= 0 && o->w_scale < inputs &&
                   o->x_scale >= (o->quantizes ? -1 : 0) && o->x_scale < inputs &&
                   o->x_zero >= -1 && o->x_zero < inputs && o->bias >= -1 && o->bias < inputs &&
                   step->output_count == 1,
               INVALID_MODEL, "operands %d, %d, %d, %d and %d of %u inputs", o->x, o->x_scale,
               o->x_zero, o->w_scale, o->bias, step->input_count);
  return NULL;
}

bool carnot_dynamic_operands_uses(const carnot_dynamic_operands* o, uint32_t input) {
  const int64_t i = input;
  return i == o->x || i == o->x_scale || i == o->x_zero || i == o->w_scale || i == o->bias;
}

static int64_t count_of(const carnot_operand* t) { return carnot_dims_count(t->dims, t->rank); }

static carnot_status* check_row(const carnot_operand* t, const char* what, int64_t columns) {
  const int64_t count = count_of(t);
  CARNOT_CHECK(t->format.dtype == CARNOT_DTYPE_F32 && carnot_cpu_is_dense(t) &&
                   (count == columns || count == 1),
               INVALID_MODEL, "%s: %lld numbers of %s, must be %lld of float32", what,
               (long long)count, carnot_dtype_name(t->format.dtype), (long long)columns);
  return NULL;
}

carnot_status* carnot_dynamic_operands_configure(const carnot_dynamic_operands* o,
                                                 const carnot_operand* inputs,
                                                 const carnot_operand* y, int64_t columns,
                                                 carnot_dynamic_places* out) {
  const carnot_operand* x = &inputs[o->x];
  const carnot_dtype type = x->format.dtype;
  CARNOT_CHECK(o->quantizes ? type == CARNOT_DTYPE_F32 : carnot_is_8bit(type), INVALID_MODEL,
               "the operand is %s", carnot_dtype_name(type));
  CARNOT_CHECK(y->format.dtype == CARNOT_DTYPE_F32, INVALID_MODEL, "the result is %s",
               carnot_dtype_name(y->format.dtype));
  CARNOT_TRY(check_row(&inputs[o->w_scale], "the weights' scales", columns));
  if (o->bias >= 0) {
    CARNOT_TRY(check_row(&inputs[o->bias], "the bias", columns));
    CARNOT_CHECK(count_of(&inputs[o->bias]) == columns, INVALID_MODEL, "a bias of one number");
  }
  if (!o->quantizes) CARNOT_TRY(check_row(&inputs[o->x_scale], "the operand's scale", 1));
  if (o->x_zero >= 0)
    CARNOT_CHECK(inputs[o->x_zero].format.dtype == type && count_of(&inputs[o->x_zero]) == 1,
                 INVALID_MODEL, "the operand's zero point is not one of its type");
  *out = (carnot_dynamic_places){.count = count_of(x), .scale = 0};
  out->bytes = carnot_align_up((size_t)columns * sizeof(float), 64);
  out->ranges = out->bytes + (o->quantizes ? carnot_align_up((size_t)out->count, 64) : 0);
  out->end = carnot_align_up(
      out->ranges + (o->quantizes ? carnot_dynamic_quantize_workspace(out->count) : 0), 64);
  return NULL;
}

carnot_dynamic_activations carnot_dynamic_operands_run(const carnot_dynamic_operands* o,
                                                       const carnot_dynamic_places* places,
                                                       const carnot_step_view* step,
                                                       const carnot_operand* inputs,
                                                       int64_t columns, void* workspace,
                                                       carnot_executor* executor) {
  const carnot_operand *x = &inputs[o->x], *w_scale = &inputs[o->w_scale];
  char* memory = workspace;
  float *scales = (void*)(memory + places->scale), x_scale;
  carnot_dynamic_activations out = {.x = x->data, .is_signed = x->format.dtype == CARNOT_DTYPE_I8};
  if (o->quantizes) {
    uint8_t found;
    out.x = memory + places->bytes;
    carnot_dynamic_quantize(carnot_cpu_kernels_of(step->tactic->isa), x->data, places->count,
                            memory + places->ranges, executor, (uint8_t*)memory + places->bytes,
                            &x_scale, &found);
    out.zero = found;
  } else {
    x_scale = *(const float*)inputs[o->x_scale].data;
    if (o->x_zero >= 0) out.zero = carnot_load_i64(x->format.dtype, inputs[o->x_zero].data, 0);
  }
  const int64_t each = count_of(w_scale) > 1;
  for (int64_t n = 0; n < columns; n++)
    scales[n] = x_scale * ((const float*)w_scale->data)[each * n];
  // The bias in float32 is a residual of one row.
  out.epilogue = (carnot_int8_epilogue){
      .scale = scales,
      .residual_type = o->bias < 0 ? CARNOT_INT8_RESIDUAL_NONE : CARNOT_INT8_RESIDUAL_F32,
      .residual = o->bias < 0 ? NULL : inputs[o->bias].data,
      .residual_ld = 0,
      .activation = o->has_relu ? CARNOT_KERNEL_ACTIVATION_RELU : CARNOT_KERNEL_ACTIVATION_NONE,
      .output = CARNOT_INT8_OUTPUT_F32};
  return out;
}
