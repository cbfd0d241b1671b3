// Attention regions: heads are read and written in place, by strides.
#include "backend/cpu/attention/attention.h"

#include "backend/cpu/common/isa_variants.h"

static const char* read_f32(const carnot_problem* problem, void* params, char* reason,
                            size_t size) {
  return carnot_attention_read(problem, CARNOT_DTYPE_F32, params, reason, size);
}

void carnot_attention_want_row_major(carnot_problem* problem) {
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
}

static const char* attention_reject(carnot_problem* problem, char* reason, size_t size) {
  if (problem->region->node_count < 3) return "";
  carnot_attention_params p;
  const char* why = read_f32(problem, &p, reason, size);
  if (!why) carnot_attention_want_row_major(problem);
  return why;
}

static carnot_status* attention_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_f32, sizeof(carnot_attention_params), out);
}

int64_t carnot_attention_rows_per_part(int threads, int64_t rows, int64_t heads, int64_t tile) {
  enum { kPackingRows = 16 };  // that take as long as packing keys and values
  const int64_t tiles = carnot_max_i64(1, carnot_ceildiv(rows, tile));
  heads = carnot_max_i64(1, heads);
  int64_t cuts = carnot_min_i64(tiles, carnot_ceildiv(CARNOT_FEW_PARTS, heads));
  if (threads <= CARNOT_FEW_THREADS) return carnot_ceildiv(tiles, cuts) * tile;
  const int64_t most = carnot_min_i64(tiles, carnot_ceildiv(carnot_most_parts(threads), heads));
  double least = 0;
  for (int64_t c = 1; c <= most; c++) {
    const double time = carnot_parts_time(threads, heads * c) *
                        (double)(carnot_ceildiv(tiles, c) * tile + kPackingRows);
    if (least > 0 && time >= least) continue;
    least = time;
    cuts = c;
  }
  return carnot_ceildiv(tiles, cuts) * tile;
}

carnot_status* carnot_attention_sizes_make(int threads, const carnot_attention_params* p,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, int64_t tile,
                                           carnot_attention_sizes* out) {
  carnot_attention_sizes* s = out;
  *s = (carnot_attention_sizes){0};
  const carnot_operand *q = &inputs[p->q.input], *k = &inputs[p->k.input], *v = &inputs[p->v.input];
  CARNOT_TRY(carnot_heads_make(&p->q, q, q->format.dtype, &s->q));
  CARNOT_TRY(carnot_heads_make(&p->k, k, k->format.dtype, &s->k));
  CARNOT_TRY(carnot_heads_make(&p->v, v, v->format.dtype, &s->v));
  CARNOT_TRY(carnot_heads_make(&p->out, &outputs[0], outputs[0].format.dtype, &s->out));
  CARNOT_TRY(carnot_heads_check(&s->q, &s->k, &s->v, &s->out));
  if (p->mask >= 0) {
    CARNOT_CHECK(inputs[p->mask].format.dtype == CARNOT_DTYPE_F32, INVALID_ARGUMENT,
                 "the mask is %s, must be float32",
                 carnot_dtype_name(inputs[p->mask].format.dtype));
    CARNOT_TRY(
        carnot_attention_mask(&inputs[p->mask], &s->out, s->k.rows, s->mask_strides, &s->mask_ld));
  }
  s->rows_per_part = carnot_attention_rows_per_part(threads, s->q.rows, s->q.batch, tile);
  s->parts_per_head = carnot_ceildiv(s->q.rows, s->rows_per_part);
  return NULL;
}

carnot_status* carnot_attention_check_types(const carnot_step_view* step,
                                            const carnot_attention_params* p,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs) {
  const carnot_operand* operands[] = {&inputs[p->q.input], &inputs[p->k.input], &inputs[p->v.input],
                                      &outputs[0]};
  for (int i = 0; i < 4; i++)
    CARNOT_CHECK(carnot_cpu_is_f32_value(step, operands[i]), INVALID_ARGUMENT,
                 "an operand of attention is %s, must be float32",
                 carnot_dtype_name(operands[i]->format.dtype));
  return NULL;
}

static carnot_status* attention_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* memory,
                                          size_t* out_workspace_bytes) {
  const carnot_attention_params* p = step->params;
  carnot_attention_sizes* s = memory;
  CARNOT_TRY(carnot_attention_check_types(step, p, inputs, outputs));
  CARNOT_TRY(
      carnot_attention_sizes_make(step->threads, p, inputs, outputs, CARNOT_ATTENTION_ROWS, s));
  *out_workspace_bytes =
      (size_t)(carnot_attention_f32_workspace(s->q.elements, s->v.elements, s->rows_per_part) *
               s->parts_per_head * s->q.batch) *
      sizeof(float);
  return NULL;
}

typedef struct attention_run {
  carnot_attention_f32_fn* attention;
  const carnot_attention_params* params;
  const carnot_attention_sizes* state;
  const carnot_operand *inputs, *outputs;
  float* workspace;
} attention_run;

static float* head_at(const carnot_heads* h, const carnot_operand* t, int64_t batch) {
  return (float*)t->data + carnot_head_at(h, batch);
}

static void attention_part(void* argument, int64_t part) {
  const attention_run* run = argument;
  const carnot_attention_sizes* s = run->state;
  const carnot_attention_params* p = run->params;
  int64_t head = part / s->parts_per_head, first = part % s->parts_per_head * s->rows_per_part;
  carnot_attention_f32 attention = {.q_len = s->q.rows,
                                    .kv_len = s->k.rows,
                                    .d = s->q.elements,
                                    .dv = s->v.elements,
                                    .q_ld = s->q.ld,
                                    .k_ld = s->k.ld,
                                    .v_ld = s->v.ld,
                                    .dst_ld = s->out.ld,
                                    .scale = p->scale,
                                    .zero_empty = p->zero_empty != 0,
                                    .mask_ld = s->mask_ld};
  attention.q = head_at(&s->q, &run->inputs[p->q.input], head);
  attention.k = head_at(&s->k, &run->inputs[p->k.input], head);
  attention.v = head_at(&s->v, &run->inputs[p->v.input], head);
  attention.dst = head_at(&s->out, &run->outputs[0], head);
  attention.mask = carnot_attention_mask_at(s, p, run->inputs, head);
  attention.workspace = run->workspace + carnot_executor_scratch(part) *
                                             carnot_attention_f32_workspace(
                                                 s->q.elements, s->v.elements, s->rows_per_part);
  run->attention(&attention, first, carnot_min_i64(first + s->rows_per_part, s->q.rows));
}

static carnot_status* attention_run_all(const carnot_step_view* step, void* state,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_of(step->tactic->isa);
  bool half = step->tactic->precision == CARNOT_DTYPE_BF16;
  attention_run run = {half ? kernels->attention_bf16 : kernels->attention_f32,
                       step->params,
                       state,
                       inputs,
                       outputs,
                       workspace};
  carnot_executor_parallel(executor, run.state->q.batch * run.state->parts_per_head, attention_part,
                           &run);
  return NULL;
}

void carnot_attention_work(const carnot_problem* problem, const carnot_attention_params* p,
                           double* out_flops, double* out_bytes) {
  const carnot_operand_desc *q = &problem->inputs[p->q.input], *k = &problem->inputs[p->k.input],
                            *v = &problem->inputs[p->v.input], *y = &problem->outputs[0];
  const double keys = (double)k->dims[p->k.perm[p->k.rank - 2]],
               in = (double)carnot_dims_count(q->dims, q->rank),
               out = (double)carnot_dims_count(y->dims, y->rank);
  *out_flops = 2 * keys * (in + out);
  *out_bytes = (in + (double)carnot_dims_count(k->dims, k->rank) +
                (double)carnot_dims_count(v->dims, v->rank)) *
                   (carnot_dtype_bits(q->format.dtype) / 8) +
               out * (carnot_dtype_bits(y->format.dtype) / 8);
}

static void attention_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  char reason[256];
  carnot_attention_params p;
  *out_flops = *out_bytes = 0;
  if (carnot_attention_read(problem, CARNOT_DTYPE_F32, &p, reason, sizeof(reason))) return;
  carnot_attention_work(problem, &p, out_flops, out_bytes);
}

#define ATTENTION_TACTIC                                                                          \
  .anchor = CARNOT_OP_SOFTMAX, .reject = attention_reject, .prepare = attention_prepare,          \
  .validate = carnot_attention_check, .configure = attention_configure, .run = attention_run_all, \
  .work = attention_work
CARNOT_CPU_TACTICS(attention_f32, ATTENTION_TACTIC);
CARNOT_CPU_NATIVE_BF16_TACTICS(attention_bf16, ATTENTION_TACTIC);
