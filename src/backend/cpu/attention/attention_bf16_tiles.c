// Attention regions by AMX tiles; heads lie in memory as float32 or BF16 and are read and written
// in place, by strides.
#include "backend/cpu/attention/attention.h"
#include "backend/cpu/common/isa_variants.h"

enum { kLeastRows = 16 };

static const char* read_tiles(const carnot_problem* problem, void* params, char* reason,
                              size_t size) {
  carnot_attention_params* p = params;
  const char* why = carnot_attention_read(problem, CARNOT_DTYPE_F32, p, reason, size);
  if (why) return why;
  if (p->mask >= 0 && problem->inputs[p->mask].format.dtype != CARNOT_DTYPE_F32)
    return "the mask is not float32";
  const int64_t rows = problem->inputs[p->q.input].dims[p->q.perm[p->q.rank - 2]];
  return rows >= 0 && rows < kLeastRows
             ? carnot_because(reason, size, "%lld queries, takes %d and more", (long long)rows,
                              kLeastRows)
             : NULL;
}

static const char* attention_reject(carnot_problem* problem, char* reason, size_t size) {
  if (problem->region->node_count < 3) return "";
  carnot_attention_params p;
  const char* why = read_tiles(problem, &p, reason, size);
  if (!why) carnot_attention_want_row_major(problem);
  return why;
}

static carnot_status* attention_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_tiles, sizeof(carnot_attention_params), out);
}

static int64_t workspace_of(const carnot_attention_sizes* s) {
  return carnot_attention_bf16_tiles_workspace(s->k.rows, s->q.elements, s->v.elements);
}

static carnot_status* attention_configure(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* memory,
                                          size_t* out_workspace_bytes) {
  const carnot_attention_params* p = step->params;
  carnot_attention_sizes* s = memory;
  CARNOT_TRY(carnot_attention_check_types(step, p, inputs, outputs));
  CARNOT_TRY(carnot_attention_sizes_make(step->threads, p, inputs, outputs,
                                         2 * CARNOT_ATTENTION_TILES_ROWS, s));
  *out_workspace_bytes = (size_t)(workspace_of(s) * s->parts_per_head * s->q.batch);
  return NULL;
}

typedef struct attention_run {
  carnot_attention_bf16_tiles_fn* attention;
  const carnot_attention_params* params;
  const carnot_attention_sizes* state;
  const carnot_operand *inputs, *outputs;
  char* workspace;
} attention_run;

static void* head_at(const carnot_heads* h, const carnot_operand* t, int64_t batch) {
  return (char*)t->data + carnot_head_at(h, batch) * (carnot_dtype_bits(t->format.dtype) / 8);
}

static carnot_attention_operand operand_at(const carnot_heads* h, const carnot_operand* t,
                                           int64_t batch) {
  return (carnot_attention_operand){
      .data = head_at(h, t, batch), .ld = h->ld, .is_bf16 = t->format.dtype == CARNOT_DTYPE_BF16};
}

static void attention_part(void* argument, int64_t part) {
  const attention_run* run = argument;
  const carnot_attention_sizes* s = run->state;
  const carnot_attention_params* p = run->params;
  const int64_t head = part / s->parts_per_head,
                first = part % s->parts_per_head * s->rows_per_part;
  const carnot_attention_bf16_tiles attention = {
      .q_len = s->q.rows,
      .kv_len = s->k.rows,
      .d = s->q.elements,
      .dv = s->v.elements,
      .q = operand_at(&s->q, &run->inputs[p->q.input], head),
      .k = operand_at(&s->k, &run->inputs[p->k.input], head),
      .v = operand_at(&s->v, &run->inputs[p->v.input], head),
      .dst = head_at(&s->out, &run->outputs[0], head),
      .dst_ld = s->out.ld,
      .dst_is_bf16 = run->outputs[0].format.dtype == CARNOT_DTYPE_BF16,
      .scale = p->scale,
      .zero_empty = p->zero_empty != 0,
      .mask = carnot_attention_mask_at(s, p, run->inputs, head),
      .mask_ld = s->mask_ld,
      .workspace = run->workspace + carnot_executor_scratch(part) * workspace_of(s)};
  run->attention(&attention, first, carnot_min_i64(first + s->rows_per_part, s->q.rows));
}

static carnot_status* attention_run_all(const carnot_step_view* step, void* state,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_of(step->tactic->isa);
  attention_run run = {
      kernels->attention_bf16_tiles, step->params, state, inputs, outputs, workspace};
  carnot_executor_parallel(executor, run.state->q.batch * run.state->parts_per_head, attention_part,
                           &run);
  return NULL;
}

static void attention_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  char reason[256];
  carnot_attention_params p;
  *out_flops = *out_bytes = 0;
  if (read_tiles(problem, &p, reason, sizeof(reason))) return;
  carnot_attention_work(problem, &p, out_flops, out_bytes);
}

CARNOT_CPU_TACTIC(attention_bf16_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_HALF,
                  .precision = CARNOT_DTYPE_BF16, .takes_bf16 = true, .anchor = CARNOT_OP_SOFTMAX,
                  .reject = attention_reject, .prepare = attention_prepare,
                  .validate = carnot_attention_check, .configure = attention_configure,
                  .run = attention_run_all, .work = attention_work);
