// Attention regions between bytes: heads are read and written in place, by strides, with sums in
// INT32.
#include "kernel/cpu/attention/attention_u8s8.h"

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/quantize/int8_region.h"
#include "tactic/problem/int8_attention.h"

_Static_assert((int)CARNOT_INT8_ATTENTION_MOST_ELEMENTS == (int)CARNOT_ATTENTION_MOST_TERMS,
               "the kernel sums what the problem admits");

static const char* read_region(const carnot_problem* problem, void* params, char* reason,
                               size_t size) {
  return carnot_int8_attention_read(problem, params, reason, size);
}

static const char* attention_reject(carnot_problem* problem, char* reason, size_t size) {
  if (problem->region->node_count < 3) return "";
  carnot_int8_attention p;
  const char* why = carnot_int8_attention_read(problem, &p, reason, size);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* attention_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_region, sizeof(carnot_int8_attention), out);
}

static carnot_status* attention_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* memory,
                                          size_t* out_workspace_bytes) {
  const carnot_int8_attention* p = step->params;
  carnot_attention_sizes* s = memory;
  CARNOT_TRY(carnot_int8_attention_check_types(p, inputs, &outputs[0]));
  CARNOT_TRY(carnot_attention_sizes_make(step->threads, &p->views, inputs, outputs, 64, s));
  CARNOT_TRY(carnot_int8_attention_check_elements(&s->q));
  *out_workspace_bytes =
      (size_t)(carnot_attention_u8s8_workspace(s->k.rows, s->q.elements, s->v.elements) *
               s->parts_per_head * s->q.batch) +
      64;
  return NULL;
}

typedef struct attention_run {
  carnot_attention_u8s8_fn* attention;
  carnot_attention_u8s8 numbers;  // all but operands and workspace
  const carnot_int8_attention* params;
  const carnot_attention_sizes* sizes;
  const carnot_operand *inputs, *outputs;
  char* workspace;
} attention_run;

static carnot_byte_matrix head_of(const attention_run* run, const carnot_attention_view* view,
                                  const carnot_heads* heads, const carnot_quantized_type* type,
                                  int64_t head) {
  return (carnot_byte_matrix){
      .data = (const uint8_t*)run->inputs[view->input].data + carnot_head_at(heads, head),
      .ld = heads->ld,
      .is_signed = type->is_signed != 0,
      .zero_point = type->zero};
}

static void attention_part(void* argument, int64_t part) {
  const attention_run* run = argument;
  const carnot_attention_sizes* s = run->sizes;
  const carnot_int8_attention* p = run->params;
  const int64_t head = part / s->parts_per_head,
                first = part % s->parts_per_head * s->rows_per_part;
  carnot_attention_u8s8 a = run->numbers;
  a.q = head_of(run, &p->views.q, &s->q, &p->q, head);
  a.k = head_of(run, &p->views.k, &s->k, &p->k, head);
  a.v = head_of(run, &p->views.v, &s->v, &p->v, head);
  a.mask = carnot_attention_mask_at(s, &p->views, run->inputs, head);
  const int64_t width = p->is_quantized ? 1 : 4;
  a.dst = (char*)run->outputs[0].data + carnot_head_at(&s->out, head) * width;
  a.workspace = run->workspace + carnot_executor_scratch(part) *
                                     carnot_attention_u8s8_workspace(a.kv_len, a.d, a.dv);
  run->attention(&a, first, carnot_min_i64(first + s->rows_per_part, s->q.rows));
}

static carnot_score_rounding rounding_of(bool rounds, const carnot_quantized_type* t) {
  if (!rounds) return (carnot_score_rounding){.scale = 0};
  const int32_t low = carnot_quantized_low(t);
  return (carnot_score_rounding){t->scale, t->zero, low, low + 255};
}

// The numbers of the kernel by the rule in its header.
static carnot_attention_u8s8 numbers_of(const carnot_int8_attention* p,
                                        const carnot_attention_sizes* s) {
  const carnot_int8_attention_scales scales = carnot_int8_attention_scales_of(p);
  const int32_t s_low = carnot_quantized_low(&p->scores), y_low = carnot_quantized_low(&p->out);
  return (carnot_attention_u8s8){.q_len = s->q.rows,
                                 .kv_len = s->k.rows,
                                 .d = s->q.elements,
                                 .dv = s->v.elements,
                                 .score_scale = scales.scores,
                                 .rounds_scores = p->rounds_scores != 0,
                                 .s_zero = p->scores.zero,
                                 .s_low = s_low,
                                 .s_high = s_low + 255,
                                 .s_scale = p->scores.scale,
                                 .divides = p->divides != 0,
                                 .factor = p->factor,
                                 .scaled = rounding_of(p->rounds_scaled, &p->scaled),
                                 .masked = rounding_of(p->rounds_masked, &p->masked),
                                 .mask_ld = s->mask_ld,
                                 .p_signed = p->weights.is_signed != 0,
                                 .p_zero = p->weights.zero,
                                 .p_scale = p->weights.scale,
                                 .out_scale = scales.out,
                                 .output = !p->is_quantized   ? CARNOT_INT8_OUTPUT_F32
                                           : p->out.is_signed ? CARNOT_INT8_OUTPUT_S8
                                                              : CARNOT_INT8_OUTPUT_U8,
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
  carnot_int8_attention p;
  *out_flops = *out_bytes = 0;
  if (!carnot_int8_attention_read(problem, &p, reason, sizeof(reason)))
    carnot_attention_work(problem, &p.views, out_flops, out_bytes);
}

CARNOT_CPU_TACTICS(attention_u8s8, .anchor = CARNOT_OP_SOFTMAX, .reject = attention_reject,
                   .prepare = attention_prepare, .validate = carnot_int8_attention_validate,
                   .uses_input = carnot_int8_attention_uses_input, .configure = attention_configure,
                   .run = attention_run_all, .work = attention_work);
