// Reads QLinearConv problems, and checks what engines store of them.
#include "backend/cpu/conv/qlinear_conv.h"

#include "kernel/cpu/gemm/gemm_u8s8.h"
#include "tactic/problem/conv.h"

// What must be constant, and how many elements it may have besides one.
static const char* check_constants(const carnot_problem* problem, int64_t filters) {
  static const struct {
    uint32_t input;
    bool per_filter, is_scale;
  } kNeeded[] = {{CARNOT_QLINEAR_X_SCALE, false, true}, {CARNOT_QLINEAR_X_ZERO, false, false},
                 {CARNOT_QLINEAR_W_SCALE, true, true},  {CARNOT_QLINEAR_W_ZERO, true, false},
                 {CARNOT_QLINEAR_Y_SCALE, false, true}, {CARNOT_QLINEAR_Y_ZERO, false, false}};
  for (size_t i = 0; i < sizeof(kNeeded) / sizeof(kNeeded[0]); i++) {
    const carnot_tensor* t = carnot_qlinear_constant(problem, kNeeded[i].input);
    if (!t) return "a scale or zero point is not constant";
    int64_t count = carnot_tensor_count(t);
    if (count != 1 && !(kNeeded[i].per_filter && count == filters))
      return "a scale or zero point has another size";
    if (kNeeded[i].is_scale && t->dtype != CARNOT_DTYPE_F32) return "a scale is not float32";
  }
  const carnot_tensor* zero = carnot_qlinear_constant(problem, CARNOT_QLINEAR_W_ZERO);
  for (int64_t i = 0; i < carnot_tensor_count(zero); i++)
    if (carnot_load_i64(zero->dtype, zero->data, (size_t)i)) return "the weights' zero is not 0";
  if (problem->input_count > CARNOT_QLINEAR_BIAS &&
      problem->inputs[CARNOT_QLINEAR_BIAS].kind == CARNOT_VALUE_TENSOR) {
    const carnot_tensor* bias = carnot_qlinear_constant(problem, CARNOT_QLINEAR_BIAS);
    if (!bias || bias->dtype != CARNOT_DTYPE_I32 || carnot_tensor_count(bias) != filters)
      return "the bias is not constant int32 of one number per filter";
  }
  return NULL;
}

const char* carnot_qlinear_read(const carnot_problem* problem, carnot_qlinear_conv_params* out,
                                char* reason, size_t size) {
  carnot_conv_problem conv;
  const char* why = carnot_conv_problem_read(problem, &conv, reason, size);
  if (why) return why;
  if (conv.node->op != CARNOT_OP_QLINEAR_CONV || problem->region->node_count != 1) return "";
  for (uint32_t i = 0; i < conv.node->input_count; i++)
    if (conv.node->inputs[i] != CARNOT_PLAN_NONE && conv.node->inputs[i] != i)
      return "operands repeat";
  const carnot_operand_desc *x = &problem->inputs[CARNOT_QLINEAR_X], *y = &problem->outputs[0];
  const carnot_tensor* w = carnot_qlinear_constant(problem, CARNOT_QLINEAR_W);
  if (!carnot_is_8bit(x->format.dtype) || !carnot_is_8bit(y->format.dtype) || x->rank < 3 ||
      x->rank > 4)
    return "the activations are not 8-bit tensors of rank 3 or 4";
  if (!w || w->dtype != CARNOT_DTYPE_I8 || w->rank != x->rank)
    return "the weights are not constant int8";
  *out = (carnot_qlinear_conv_params){.window = conv.window,
                                      .group = conv.group,
                                      .channels = conv.channels,
                                      .filters = conv.filters};
  if (out->filters < 1 || out->filters > CARNOT_QLINEAR_MAX_FILTERS || w->dims[1] < 1 ||
      out->channels > CARNOT_QLINEAR_MAX_CHANNELS || out->filters % out->group)
    return carnot_because(reason, size, "%lld channels and %lld filters", (long long)out->channels,
                          (long long)out->filters);
  if (carnot_qlinear_taps(out) > CARNOT_INT8_MAX_TAPS)
    return carnot_because(reason, size, "%lld taps, takes up to %d",
                          (long long)carnot_qlinear_taps(out), CARNOT_INT8_MAX_TAPS);
  why = check_constants(problem, out->filters);
  if (why) return why;
  const carnot_tensor *x_zero = carnot_qlinear_constant(problem, CARNOT_QLINEAR_X_ZERO),
                      *y_zero = carnot_qlinear_constant(problem, CARNOT_QLINEAR_Y_ZERO);
  out->x_zero = (int32_t)carnot_load_i64(x_zero->dtype, x_zero->data, 0);
  out->y_zero = (int32_t)carnot_load_i64(y_zero->dtype, y_zero->data, 0);
  out->x_signed = x->format.dtype == CARNOT_DTYPE_I8;
  out->y_signed = y->format.dtype == CARNOT_DTYPE_I8;
  return NULL;
}

const char* carnot_qlinear_want_channels_last(carnot_problem* problem, const char* why) {
  if (!why)
    problem->inputs[CARNOT_QLINEAR_X].format.layout = problem->outputs[0].format.layout =
        CARNOT_LAYOUT_CHANNELS_LAST;
  return why;
}

carnot_status* carnot_qlinear_check_params(const carnot_step_view* step, uint32_t constants,
                                           const carnot_qlinear_conv_params** out) {
  CARNOT_CHECK(
      step->param_bytes == sizeof(carnot_qlinear_conv_params) && step->constant_count == constants,
      INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and %u",
      step->param_bytes, step->constant_count, sizeof(carnot_qlinear_conv_params), constants);
  const carnot_qlinear_conv_params* p = step->params;
  const carnot_sliding_window* w = &p->window;
  CARNOT_CHECK(step->region->nodes[0].op == CARNOT_OP_QLINEAR_CONV &&
                   step->input_count >= CARNOT_QLINEAR_BIAS,
               INVALID_MODEL, "the step is not a quantized convolution");
  CARNOT_TRY(carnot_sliding_window_check(w, 1, 2));
  CARNOT_CHECK(p->group >= 1 && p->channels >= 1 && p->channels <= CARNOT_QLINEAR_MAX_CHANNELS &&
                   p->filters >= 1 && p->filters <= CARNOT_QLINEAR_MAX_FILTERS &&
                   p->channels % p->group == 0 && p->filters % p->group == 0 &&
                   carnot_qlinear_taps(p) <= CARNOT_INT8_MAX_TAPS,
               INVALID_MODEL, "%lld channels, %lld filters, %lld groups", (long long)p->channels,
               (long long)p->filters, (long long)p->group);
  *out = p;
  return NULL;
}

carnot_status* carnot_qlinear_check_constants(const carnot_step_view* step, const size_t* wanted,
                                              int count) {
  for (int i = 0; i < count; i++)
    CARNOT_CHECK(step->constant_bytes[i] == wanted[i], INVALID_MODEL,
                 "packed constant %d has %zu bytes, must have %zu", i, step->constant_bytes[i],
                 wanted[i]);
  return NULL;
}

bool carnot_qlinear_uses_input(const carnot_step_view* step, uint32_t input) {
  (void)step;
  return input == CARNOT_QLINEAR_X;
}

carnot_status* carnot_qlinear_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs,
                                        carnot_window_geometry* geometry) {
  const carnot_qlinear_conv_params* p = step->params;
  CARNOT_CHECK(
      inputs[CARNOT_QLINEAR_X].format.dtype == (p->x_signed ? CARNOT_DTYPE_I8 : CARNOT_DTYPE_U8) &&
          outputs[0].format.dtype == (p->y_signed ? CARNOT_DTYPE_I8 : CARNOT_DTYPE_U8),
      INVALID_MODEL, "operands are %s and %s",
      carnot_dtype_name(inputs[CARNOT_QLINEAR_X].format.dtype),
      carnot_dtype_name(outputs[0].format.dtype));
  CARNOT_TRY(
      carnot_window_geometry_of(&p->window, &inputs[CARNOT_QLINEAR_X], &outputs[0], geometry));
  CARNOT_CHECK(geometry->c == p->channels && geometry->k == p->filters, INVALID_ARGUMENT,
               "%lld channels and %lld filters; the packed weights have %lld and %lld",
               (long long)geometry->c, (long long)geometry->k, (long long)p->channels,
               (long long)p->filters);
  return NULL;
}

void carnot_qlinear_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const carnot_operand_desc *x = &problem->inputs[CARNOT_QLINEAR_X], *y = &problem->outputs[0];
  double results = (double)carnot_dims_count(y->dims, y->rank),
         weights = (double)carnot_tensor_count(problem->inputs[CARNOT_QLINEAR_W].tensor);
  *out_flops =
      2 * results * weights / (double)carnot_max_i64(1, problem->inputs[CARNOT_QLINEAR_W].dims[0]);
  *out_bytes = results + weights + (double)carnot_dims_count(x->dims, x->rank);
}
