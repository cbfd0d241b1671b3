// Operands of GEMMs and convolutions whose activations the run quantizes.
#include "backend/cpu/quantize/dynamic_operands.h"

#include "backend/cpu/common/epilogue.h"
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
                                         const carnot_dynamic_gemm* view, int channel_axis,
                                         carnot_dynamic_operands* out, char* reason, size_t size) {
  const carnot_operand_desc *x = &problem->inputs[view->x], *zero = given(problem, view->x_zero);
  const char* why = NULL;
  if (view->quantizes) why = carnot_not_f32(x, "the operand", 2, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  if (!view->quantizes && (x->rank < 2 || !carnot_is_8bit(x->format.dtype)))
    return "the operand is no tensor of 8 bits";
  if (zero && (zero->rank != 0 || zero->format.dtype != x->format.dtype))
    return "the operand's zero point is not one number of its type";
  const int activation = carnot_epilogue_kernel_activation(view->activation.kind);
  if (view->activation.kind != CARNOT_FUSED_NONE && activation == CARNOT_KERNEL_ACTIVATION_NONE)
    return "the kernels do not apply its activation";
  *out = (carnot_dynamic_operands){.quantizes = view->quantizes,
                                   .x = (int32_t)view->x,
                                   .x_scale = index_of(problem, view->x_scale),
                                   .x_zero = index_of(problem, view->x_zero),
                                   .w_scale = (int32_t)view->w_scale,
                                   .bias = index_of(problem, view->bias),
                                   .residual = index_of(problem, view->residual),
                                   .channel_axis = channel_axis,
                                   .activation = activation,
                                   .a = view->activation.a,
                                   .b = view->activation.b,
                                   .writes_y = view->writes_y,
                                   .quantizes_y = view->quantizes_y};
  return NULL;
}

void carnot_dynamic_operands_set_layouts(const carnot_problem* problem,
                                         const carnot_dynamic_gemm* view, carnot_layout layout) {
  const uint32_t tensors = view->writes_y + view->quantizes_y;
  problem->inputs[view->x].format.layout = layout;
  if (view->residual != CARNOT_PLAN_NONE) problem->inputs[view->residual].format.layout = layout;
  for (uint32_t i = 0; i < problem->output_count; i++)
    problem->outputs[i].format.layout = i < tensors ? layout : CARNOT_LAYOUT_ROW_MAJOR;
}

carnot_status* carnot_dynamic_operands_validate(const carnot_dynamic_operands* o,
                                                const carnot_step_view* step) {
  const int64_t inputs = step->input_count;
  CARNOT_CHECK(o->x >= 0 && o->x < inputs && o->w_scale >= 0 && o->w_scale < inputs &&
                   o->x_scale >= (o->quantizes ? -1 : 0) && o->x_scale < inputs &&
                   o->x_zero >= -1 && o->x_zero < inputs && o->bias >= -1 && o->bias < inputs &&
                   o->residual >= -1 && o->residual < inputs,
               INVALID_MODEL, "operands %d, %d, %d, %d, %d and %d of %u inputs", o->x, o->x_scale,
               o->x_zero, o->w_scale, o->bias, o->residual, step->input_count);
  CARNOT_CHECK((o->writes_y == 1 || o->quantizes_y == 1) && (o->writes_y & ~1) == 0 &&
                   (o->quantizes_y & ~1) == 0 &&
                   step->output_count == (uint32_t)(o->writes_y + 3 * o->quantizes_y),
               INVALID_MODEL, "%u results, with flags %d and %d", step->output_count, o->writes_y,
               o->quantizes_y);
  CARNOT_CHECK(o->activation >= 0 && o->activation < CARNOT_KERNEL_ACTIVATION_COUNT &&
                   o->channel_axis >= 1 && o->channel_axis <= CARNOT_MAX_RANK,
               INVALID_MODEL, "activation %d, channels along axis %d from the end", o->activation,
               o->channel_axis);
  return NULL;
}

bool carnot_dynamic_operands_uses(const carnot_dynamic_operands* o, uint32_t input) {
  const int64_t i = input;
  return i == o->x || i == o->x_scale || i == o->x_zero || i == o->w_scale || i == o->bias ||
         i == o->residual;
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

// A tensor of |type| with the dimensions of |like| whose rows are evenly spaced.
static carnot_status* check_rows(const carnot_dynamic_operands* o, const carnot_operand* t,
                                 carnot_dtype type, const carnot_operand* like, const char* what) {
  bool same = t->rank == like->rank && t->rank >= o->channel_axis;
  for (int d = 0; same && d < t->rank; d++) same = t->dims[d] == like->dims[d];
  CARNOT_CHECK(same && t->format.dtype == type && carnot_epilogue_is_even(t, o->channel_axis),
               INVALID_MODEL, "%s: %s of rank %d, must be %s of the result's dimensions", what,
               carnot_dtype_name(t->format.dtype), t->rank, carnot_dtype_name(type));
  return NULL;
}

static bool is_one(const carnot_operand* t, carnot_dtype type) {
  return t->format.dtype == type && count_of(t) == 1;
}

static carnot_status* check_results(const carnot_dynamic_operands* o,
                                    const carnot_operand* outputs) {
  const carnot_operand* quantized = outputs + o->writes_y;
  if (o->writes_y) CARNOT_TRY(check_rows(o, outputs, CARNOT_DTYPE_F32, outputs, "the result"));
  if (!o->quantizes_y) return NULL;
  CARNOT_TRY(check_rows(o, quantized, CARNOT_DTYPE_U8, outputs, "the quantized result"));
  CARNOT_CHECK(is_one(&quantized[1], CARNOT_DTYPE_F32) && is_one(&quantized[2], CARNOT_DTYPE_U8),
               INVALID_MODEL, "the result's scale is no float32 number, or its zero point no byte");
  return NULL;
}

static carnot_status* check_operands(const carnot_dynamic_operands* o, const carnot_operand* inputs,
                                     const carnot_operand* outputs, int64_t columns) {
  const carnot_dtype type = inputs[o->x].format.dtype;
  CARNOT_CHECK(o->quantizes ? type == CARNOT_DTYPE_F32 : carnot_is_8bit(type), INVALID_MODEL,
               "the operand is %s", carnot_dtype_name(type));
  CARNOT_TRY(check_row(&inputs[o->w_scale], "the weights' scales", columns));
  if (o->bias >= 0) {
    CARNOT_TRY(check_row(&inputs[o->bias], "the bias", columns));
    CARNOT_CHECK(count_of(&inputs[o->bias]) == columns, INVALID_MODEL, "a bias of one number");
  }
  if (o->residual >= 0)
    CARNOT_TRY(check_rows(o, &inputs[o->residual], CARNOT_DTYPE_F32, outputs, "what is added"));
  if (!o->quantizes) CARNOT_TRY(check_row(&inputs[o->x_scale], "the operand's scale", 1));
  if (o->x_zero >= 0)
    CARNOT_CHECK(is_one(&inputs[o->x_zero], type), INVALID_MODEL,
                 "the operand's zero point is not one of its type");
  return check_results(o, outputs);
}

carnot_status* carnot_dynamic_operands_configure(const carnot_dynamic_operands* o,
                                                 const carnot_operand* inputs,
                                                 const carnot_operand* outputs, int64_t columns,
                                                 int64_t parts, carnot_dynamic_offsets* out) {
  CARNOT_TRY(check_operands(o, inputs, outputs, columns));
  *out = (carnot_dynamic_offsets){.count = count_of(&inputs[o->x]),
                                  .rows = count_of(outputs) / columns,
                                  .columns = columns,
                                  .parts = parts};
  out->y_ld = carnot_epilogue_row_distance(outputs, o->channel_axis);
  if (o->quantizes_y)
    out->q_ld = carnot_epilogue_row_distance(outputs + o->writes_y, o->channel_axis);
  const bool keeps_y = !o->writes_y;
  out->bytes = carnot_align_up((size_t)columns * sizeof(float), 64);
  out->ranges = out->bytes + (o->quantizes ? carnot_align_up((size_t)out->count, 64) : 0);
  out->y = carnot_align_up(
      out->ranges + (o->quantizes ? carnot_dynamic_quantize_workspace(out->count) : 0), 64);
  out->y_ranges =
      out->y + (keeps_y ? carnot_align_up((size_t)(out->rows * out->y_ld) * sizeof(float), 64) : 0);
  out->end = out->y_ranges +
             (o->quantizes_y ? (size_t)parts * 2 * CARNOT_INT8_RANGE_LANES * sizeof(float) : 0);
  return NULL;
}

static float* result_of(const carnot_dynamic_run* run) {
  return run->operands->writes_y ? run->outputs[0].data : (void*)(run->workspace + run->offsets->y);
}

carnot_dynamic_activations carnot_dynamic_operands_begin(const carnot_dynamic_run* run) {
  const carnot_dynamic_operands* o = run->operands;
  const carnot_dynamic_offsets* offsets = run->offsets;
  const carnot_operand *inputs = run->inputs, *x = &inputs[o->x], *w_scale = &inputs[o->w_scale];
  char* memory = run->workspace;
  float *scales = (void*)(memory + offsets->scale), x_scale;
  carnot_dynamic_activations out = {
      .x = x->data, .is_signed = x->format.dtype == CARNOT_DTYPE_I8, .y = result_of(run)};
  if (o->quantizes) {
    uint8_t found;
    out.x = memory + offsets->bytes;
    carnot_dynamic_quantize(run->kernels, x->data, offsets->count, memory + offsets->ranges,
                            run->executor, (uint8_t*)memory + offsets->bytes, &x_scale, &found);
    out.zero = found;
  } else {
    x_scale = *(const float*)inputs[o->x_scale].data;
    if (o->x_zero >= 0) out.zero = carnot_load_i64(x->format.dtype, inputs[o->x_zero].data, 0);
  }
  const int64_t each = count_of(w_scale) > 1;
  for (int64_t n = 0; n < offsets->columns; n++)
    scales[n] = x_scale * ((const float*)w_scale->data)[each * n];
  out.epilogue =
      (carnot_int8_epilogue){.scale = scales,
                             .offset = o->bias < 0 ? NULL : inputs[o->bias].data,
                             .activation = (carnot_kernel_activation)o->activation,
                             .a = o->a,
                             .b = o->b,
                             .range = o->quantizes_y ? (void*)(memory + offsets->y_ranges) : NULL,
                             .output = CARNOT_INT8_OUTPUT_F32};
  if (o->residual >= 0) {
    out.epilogue.residual_type = CARNOT_INT8_RESIDUAL_F32;
    out.epilogue.residual = inputs[o->residual].data;
    out.epilogue.residual_ld = carnot_epilogue_row_distance(&inputs[o->residual], o->channel_axis);
  }
  return out;
}

void carnot_dynamic_operands_end(const carnot_dynamic_run* run) {
  const carnot_dynamic_operands* o = run->operands;
  const carnot_dynamic_offsets* offsets = run->offsets;
  if (!o->quantizes_y) return;
  const float* ranges = (const void*)(run->workspace + offsets->y_ranges);
  float range[2] = {0, 0};
  for (int64_t i = 0; i < offsets->parts * 2 * CARNOT_INT8_RANGE_LANES; i++) {
    const bool high = i / CARNOT_INT8_RANGE_LANES % 2;
    if (high ? ranges[i] > range[1] : ranges[i] < range[0]) range[high] = ranges[i];
  }
  const carnot_operand* quantized = run->outputs + o->writes_y;
  float* scale = quantized[1].data;
  uint8_t* zero = quantized[2].data;
  carnot_dynamic_scale(range, scale, zero);
  const carnot_quantize q = {.n = offsets->columns, .scale = scale, .zero_point = zero};
  carnot_dynamic_quantize_rows(run->kernels, &q, offsets->rows, result_of(run), offsets->y_ld,
                               quantized[0].data, offsets->q_ld, run->executor);
}
