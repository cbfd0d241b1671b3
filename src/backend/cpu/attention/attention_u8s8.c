// Attention regions between bytes: heads are read and written in place, by strides, with sums in
// INT32.
#include <float.h>

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/quantize/int8_region.h"
#include "kernel/cpu/attention/attention_u8s8.h"

// Scale, zero point and type of an end.
typedef struct attention_number {
  float scale;
  int32_t zero, is_signed;
} attention_number;

// Stored in engines.
typedef struct attention_bytes {
  carnot_attention_params views;
  attention_number q, k, v, scores, weights, out;
  int32_t rounds_scores, output;  // output: carnot_int8_output
  int32_t divides;
  float factor;
} attention_bytes;

// |stored|: the type of the bytes.
static const char* read_number(const carnot_problem* problem, const carnot_quantized_end* end,
                               carnot_dtype stored, attention_number* out) {
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

// The type of inner bytes is that of their zero point.
static const char* read_inner(const carnot_problem* problem, const carnot_quantized_end* end,
                              attention_number* out) {
  const carnot_dtype stored =
      end->zero == CARNOT_PLAN_NONE ? CARNOT_DTYPE_U8 : problem->inputs[end->zero].format.dtype;
  return carnot_is_8bit(stored) ? read_number(problem, end, stored, out)
                                : "an inner value is not int8 or uint8";
}

// Products of queries and keys fit int32 whatever the shapes are.
static const char* check_elements(const carnot_problem* problem, const carnot_attention_view* view,
                                  char* reason, size_t size) {
  const int64_t most = problem->inputs[view->input].max[view->perm[view->rank - 1]];
  return most <= CARNOT_ATTENTION_MOST_TERMS
             ? NULL
             : carnot_because(reason, size, "up to %lld elements of a head, takes %d",
                              (long long)most, CARNOT_ATTENTION_MOST_TERMS);
}

static const char* read_bytes(const carnot_problem* problem, void* params, char* reason,
                              size_t size) {
  attention_bytes* p = params;
  carnot_attention_conversions c;
  *p = (attention_bytes){.output = CARNOT_INT8_OUTPUT_F32};
  const char* why =
      carnot_attention_read_bytes(problem, CARNOT_DTYPE_F32, &p->views, &c, reason, size);
  if (why) return why;
  const carnot_dtype out = problem->outputs[0].format.dtype;
  p->rounds_scores = carnot_is_end_bytes(&c.scores);
  p->divides = c.divides, p->factor = c.factor;
  why = read_number(problem, &c.q, problem->inputs[p->views.q.input].format.dtype, &p->q);
  if (!why) why = read_number(problem, &c.k, problem->inputs[p->views.k.input].format.dtype, &p->k);
  if (!why) why = read_number(problem, &c.v, problem->inputs[p->views.v.input].format.dtype, &p->v);
  if (!why && p->rounds_scores) why = read_inner(problem, &c.scores, &p->scores);
  if (!why) why = read_inner(problem, &c.weights, &p->weights);
  if (!why && carnot_is_end_bytes(&c.out)) {
    p->output = out == CARNOT_DTYPE_I8 ? CARNOT_INT8_OUTPUT_S8 : CARNOT_INT8_OUTPUT_U8;
    why = carnot_is_8bit(out) ? read_number(problem, &c.out, out, &p->out)
                              : "the result is not int8 or uint8";
  } else if (!why && out != CARNOT_DTYPE_F32) {
    why = "the result is not float32";
  }
  return why ? why : check_elements(problem, &p->views.q, reason, size);
}

static const char* attention_reject(carnot_problem* problem, char* reason, size_t size) {
  if (problem->region->node_count < 3) return "";
  attention_bytes p;
  const char* why = read_bytes(problem, &p, reason, size);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* attention_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_bytes, sizeof(attention_bytes), out);
}

static carnot_status* check_number(const attention_number* n) {
  const int32_t low = n->is_signed ? -128 : 0;
  CARNOT_CHECK(n->zero >= low && n->zero <= low + 255, INVALID_MODEL, "a zero point is %d",
               n->zero);
  return NULL;
}

static carnot_status* attention_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(attention_bytes), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(attention_bytes));
  const attention_bytes* p = step->params;
  CARNOT_TRY(carnot_attention_check_views(&p->views, step));
  const attention_number* numbers[] = {&p->q, &p->k, &p->v, &p->scores, &p->weights, &p->out};
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
    CARNOT_TRY(check_number(numbers[i]));
  CARNOT_CHECK(p->output > CARNOT_INT8_OUTPUT_S32 && p->output < CARNOT_INT8_OUTPUT_COUNT,
               INVALID_MODEL, "a result of type %d", p->output);
  return NULL;
}

static bool attention_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_attention_params* p = &((const attention_bytes*)step->params)->views;
  const int64_t i = (int64_t)input;
  return i == p->q.input || i == p->k.input || i == p->v.input || i == p->mask;
}

static carnot_status* check_type(const carnot_operand* t, const attention_number* n) {
  const carnot_dtype dtype = n->is_signed ? CARNOT_DTYPE_I8 : CARNOT_DTYPE_U8;
  CARNOT_CHECK(t->format.dtype == dtype, INVALID_MODEL, "an operand of attention is %s, must be %s",
               carnot_dtype_name(t->format.dtype), carnot_dtype_name(dtype));
  return NULL;
}

static carnot_status* attention_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* memory,
                                          size_t* out_workspace_bytes) {
  const attention_bytes* p = step->params;
  carnot_attention_sizes* s = memory;
  CARNOT_TRY(check_type(&inputs[p->views.q.input], &p->q));
  CARNOT_TRY(check_type(&inputs[p->views.k.input], &p->k));
  CARNOT_TRY(check_type(&inputs[p->views.v.input], &p->v));
  if (p->output != CARNOT_INT8_OUTPUT_F32) CARNOT_TRY(check_type(&outputs[0], &p->out));
  CARNOT_CHECK(p->output != CARNOT_INT8_OUTPUT_F32 || outputs[0].format.dtype == CARNOT_DTYPE_F32,
               INVALID_MODEL, "the result is %s, must be float32",
               carnot_dtype_name(outputs[0].format.dtype));
  CARNOT_TRY(carnot_attention_sizes_make(step->threads, &p->views, inputs, outputs, 64, s));
  CARNOT_CHECK(s->q.elements <= CARNOT_ATTENTION_MOST_TERMS, INVALID_ARGUMENT,
               "%lld elements of a head, takes %d", (long long)s->q.elements,
               CARNOT_ATTENTION_MOST_TERMS);
  *out_workspace_bytes =
      (size_t)(carnot_attention_u8s8_workspace(s->k.rows, s->q.elements, s->v.elements) *
               s->parts_per_head * s->q.batch) +
      64;
  return NULL;
}

typedef struct attention_run {
  carnot_attention_u8s8_fn* attention;
  carnot_attention_u8s8 numbers;  // all but operands and workspace
  const attention_bytes* params;
  const carnot_attention_sizes* sizes;
  const carnot_operand *inputs, *outputs;
  char* workspace;
} attention_run;

static carnot_byte_matrix head_of(const attention_run* run, const carnot_attention_view* view,
                                  const carnot_heads* heads, const attention_number* number,
                                  int64_t head) {
  return (carnot_byte_matrix){
      .data = (const uint8_t*)run->inputs[view->input].data + carnot_head_at(heads, head),
      .ld = heads->ld,
      .is_signed = number->is_signed != 0,
      .zero_point = number->zero};
}

static void attention_part(void* argument, int64_t part) {
  const attention_run* run = argument;
  const carnot_attention_sizes* s = run->sizes;
  const attention_bytes* p = run->params;
  const int64_t head = part / s->parts_per_head,
                first = part % s->parts_per_head * s->rows_per_part;
  carnot_attention_u8s8 a = run->numbers;
  a.q = head_of(run, &p->views.q, &s->q, &p->q, head);
  a.k = head_of(run, &p->views.k, &s->k, &p->k, head);
  a.v = head_of(run, &p->views.v, &s->v, &p->v, head);
  a.mask = carnot_attention_mask_at(s, &p->views, run->inputs, head);
  const int64_t width = p->output == CARNOT_INT8_OUTPUT_F32 ? 4 : 1;
  a.dst = (char*)run->outputs[0].data + carnot_head_at(&s->out, head) * width;
  a.workspace = run->workspace + carnot_executor_scratch(part) *
                                     carnot_attention_u8s8_workspace(a.kv_len, a.d, a.dv);
  run->attention(&a, first, carnot_min_i64(first + s->rows_per_part, s->q.rows));
}

// The numbers of the kernel by the rule in its header.
static carnot_attention_u8s8 numbers_of(const attention_bytes* p, const carnot_attention_sizes* s) {
  const bool is_float = p->output == CARNOT_INT8_OUTPUT_F32;
  const double scores = (double)p->q.scale * (double)p->k.scale,
               mixed = (double)p->weights.scale * (double)p->v.scale;
  const int32_t s_low = p->scores.is_signed ? -128 : 0, y_low = p->out.is_signed ? -128 : 0;
  return (carnot_attention_u8s8){
      .q_len = s->q.rows,
      .kv_len = s->k.rows,
      .d = s->q.elements,
      .dv = s->v.elements,
      .score_scale = (float)(p->rounds_scores ? scores / (double)p->scores.scale : scores),
      .rounds_scores = p->rounds_scores != 0,
      .s_zero = p->scores.zero,
      .s_low = s_low,
      .s_high = s_low + 255,
      .s_scale = p->scores.scale,
      .divides = p->divides != 0,
      .factor = p->factor,
      .mask_ld = s->mask_ld,
      .p_signed = p->weights.is_signed != 0,
      .p_zero = p->weights.zero,
      .p_scale = p->weights.scale,
      .out_scale = (float)(is_float ? mixed : mixed / (double)p->out.scale),
      .output = (carnot_int8_output)p->output,
      .y_zero = p->out.zero,
      .y_low = y_low,
      .y_high = y_low + 255,
      .dst_ld = s->out.ld};
}

static carnot_status* attention_run_all(const carnot_step_view* step, void* state,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  const carnot_attention_sizes* s = state;
  attention_run run = {.attention = carnot_cpu_kernels_of(step->tactic->isa)->attention_u8s8,
                       .numbers = numbers_of(step->params, s),
                       .params = step->params,
                       .sizes = s,
                       .inputs = inputs,
                       .outputs = outputs,
                       .workspace = (char*)carnot_align_up((uintptr_t)workspace, 64)};
  run.numbers.gemm = carnot_int8_kernels(step)->gemm_u8s8;
  carnot_executor_parallel(executor, s->q.batch * s->parts_per_head, attention_part, &run);
  return NULL;
}

static void attention_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  char reason[256];
  attention_bytes p;
  *out_flops = *out_bytes = 0;
  if (!read_bytes(problem, &p, reason, sizeof(reason)))
    carnot_attention_work(problem, &p.views, out_flops, out_bytes);
}

CARNOT_CPU_TACTICS(attention_u8s8, .anchor = CARNOT_OP_SOFTMAX, .reject = attention_reject,
                   .prepare = attention_prepare, .validate = attention_validate,
                   .uses_input = attention_uses_input, .configure = attention_configure,
                   .run = attention_run_all, .work = attention_work);
