// Attention between 8-bit integers: views, scales and zero points.
#include "tactic/problem/int8_attention.h"

#include <float.h>
#include <stdio.h>

// |stored|: the type of the integers.
static const char* read_type(const carnot_problem* problem, const carnot_quantized_end* end,
                             carnot_dtype stored, carnot_quantized_type* out) {
  const carnot_operand_desc *scale = &problem->inputs[end->scale],
                            *zero =
                                end->zero == CARNOT_PLAN_NONE ? NULL : &problem->inputs[end->zero];
  if (!carnot_is_f32_constant(scale) || carnot_tensor_count(scale->tensor) != 1)
    return "a scale is not one known float32 number";
  if (zero && (!carnot_is_known(zero) || carnot_tensor_count(zero->tensor) != 1 ||
               zero->format.dtype != stored))
    return "a zero point is not one known number of the stored type";
  out->scale = *(const float*)scale->tensor->data;
  out->zero = zero ? (int32_t)carnot_load_i64(stored, zero->tensor->data, 0) : 0;
  out->is_signed = stored == CARNOT_DTYPE_I8;
  return out->scale >= FLT_MIN && out->scale <= FLT_MAX ? NULL
                                                        : "a scale is no normal positive number";
}

// The type of inner integers is that of their zero point.
static const char* read_inner(const carnot_problem* problem, const carnot_quantized_end* end,
                              carnot_quantized_type* out) {
  const carnot_dtype stored =
      end->zero == CARNOT_PLAN_NONE ? CARNOT_DTYPE_U8 : problem->inputs[end->zero].format.dtype;
  return carnot_is_8bit(stored) ? read_type(problem, end, stored, out)
                                : "an inner value is not int8 or uint8";
}

// Sums over the elements of a head fit int32 whatever the shapes are.
static const char* check_elements(const carnot_problem* problem, const carnot_attention_view* view,
                                  char* reason, size_t size) {
  const int64_t most = problem->inputs[view->input].max[view->perm[view->rank - 1]];
  if (most <= CARNOT_INT8_ATTENTION_MOST_ELEMENTS) return NULL;
  snprintf(reason, size, "up to %lld elements of a head, takes %d", (long long)most,
           CARNOT_INT8_ATTENTION_MOST_ELEMENTS);
  return reason;
}

const char* carnot_int8_attention_read(const carnot_problem* problem, carnot_int8_attention* out,
                                       char* reason, size_t size) {
  carnot_int8_attention* p = out;
  carnot_attention_conversions c;
  *p = (carnot_int8_attention){.factor = 1};
  const char* why =
      carnot_attention_read_bytes(problem, CARNOT_DTYPE_F32, &p->views, &c, reason, size);
  if (why) return why;
  const carnot_dtype y = problem->outputs[0].format.dtype;
  p->rounds_scores = carnot_is_end_bytes(&c.scores);
  p->rounds_scaled = carnot_is_end_bytes(&c.scaled);
  p->rounds_masked = carnot_is_end_bytes(&c.masked);
  p->is_quantized = carnot_is_end_bytes(&c.out);
  p->divides = c.divides, p->factor = c.factor;
  why = read_type(problem, &c.q, problem->inputs[p->views.q.input].format.dtype, &p->q);
  if (!why) why = read_type(problem, &c.k, problem->inputs[p->views.k.input].format.dtype, &p->k);
  if (!why) why = read_type(problem, &c.v, problem->inputs[p->views.v.input].format.dtype, &p->v);
  if (!why && p->rounds_scores) why = read_inner(problem, &c.scores, &p->scores);
  if (!why && p->rounds_scaled) why = read_inner(problem, &c.scaled, &p->scaled);
  if (!why && p->rounds_masked) why = read_inner(problem, &c.masked, &p->masked);
  if (!why) why = read_inner(problem, &c.weights, &p->weights);
  if (!why && p->is_quantized)
    why = carnot_is_8bit(y) ? read_type(problem, &c.out, y, &p->out)
                            : "the result is not int8 or uint8";
  else if (!why && y != CARNOT_DTYPE_F32)
    why = "the result is not float32";
  return why ? why : check_elements(problem, &p->views.q, reason, size);
}

carnot_int8_attention_scales carnot_int8_attention_scales_of(const carnot_int8_attention* p) {
  const double scores = (double)p->q.scale * (double)p->k.scale,
               mixed = (double)p->weights.scale * (double)p->v.scale;
  return (carnot_int8_attention_scales){
      .scores = (float)(p->rounds_scores ? scores / (double)p->scores.scale : scores),
      .out = (float)(p->is_quantized ? mixed / (double)p->out.scale : mixed)};
}

static carnot_status* check_zero(const carnot_quantized_type* t) {
  const int32_t low = carnot_quantized_low(t);
  CARNOT_CHECK(t->zero >= low && t->zero <= low + 255, INVALID_MODEL, "a zero point is %d",
               t->zero);
  return NULL;
}

carnot_status* carnot_int8_attention_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(carnot_int8_attention), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes,
               sizeof(carnot_int8_attention));
  const carnot_int8_attention* p = step->params;
  CARNOT_TRY(carnot_attention_check_views(&p->views, step));
  const carnot_quantized_type* types[] = {&p->q,      &p->k,      &p->v,       &p->scores,
                                          &p->scaled, &p->masked, &p->weights, &p->out};
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) CARNOT_TRY(check_zero(types[i]));
  return NULL;
}

bool carnot_int8_attention_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_attention_params* p = &((const carnot_int8_attention*)step->params)->views;
  const int64_t i = (int64_t)input;
  return i == p->q.input || i == p->k.input || i == p->v.input || i == p->mask;
}

static carnot_status* check_type(const carnot_operand* t, carnot_dtype dtype) {
  CARNOT_CHECK(t->format.dtype == dtype, INVALID_MODEL, "an operand of attention is %s, must be %s",
               carnot_dtype_name(t->format.dtype), carnot_dtype_name(dtype));
  return NULL;
}

carnot_status* carnot_int8_attention_check_types(const carnot_int8_attention* p,
                                                 const carnot_operand* inputs,
                                                 const carnot_operand* y) {
  CARNOT_TRY(check_type(&inputs[p->views.q.input], carnot_quantized_dtype(&p->q)));
  CARNOT_TRY(check_type(&inputs[p->views.k.input], carnot_quantized_dtype(&p->k)));
  CARNOT_TRY(check_type(&inputs[p->views.v.input], carnot_quantized_dtype(&p->v)));
  return check_type(y, p->is_quantized ? carnot_quantized_dtype(&p->out) : CARNOT_DTYPE_F32);
}

carnot_status* carnot_int8_attention_check_elements(const carnot_heads* q) {
  CARNOT_CHECK(q->elements <= CARNOT_INT8_ATTENTION_MOST_ELEMENTS, INVALID_ARGUMENT,
               "%lld elements of a head, takes %d", (long long)q->elements,
               CARNOT_INT8_ATTENTION_MOST_ELEMENTS);
  return NULL;
}
