// Attention with a cache: few queries in parts of the past that are combined, many by blocks.
#include "backend/cpu/attention/cached_attention.h"

#include "backend/cpu/common/isa_variants.h"

static const char* read_f32(const carnot_problem* problem, void* params, char* reason,
                            size_t size) {
  return carnot_cached_attention_read(problem, params, reason, size);
}

static const char* cached_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cached_attention_params p;
  const char* why = carnot_cached_attention_read(problem, &p, reason, size);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < problem->output_count; i++)
    problem->outputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* cached_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_f32, sizeof(carnot_cached_attention_params), out);
}

static carnot_status* cached_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  int64_t floats;
  CARNOT_TRY(carnot_cached_attention_sizes_make(step->threads, step->params, inputs, outputs, state,
                                                &floats));
  *out_workspace_bytes = (size_t)floats * sizeof(float);
  return NULL;
}

static const float* mask_of(const carnot_cached_attention_run* run, int64_t b, int64_t head) {
  const carnot_cached_attention_sizes* s = run->s;
  if (run->p->mask < 0) return NULL;
  const carnot_operand* mask = &run->inputs[run->p->mask];
  const float* data = mask->format.dtype == CARNOT_DTYPE_BOOL ? run->workspace + s->mask_at
                                                              : (const float*)mask->data;
  return data + b * s->mask_strides[0] + head * s->mask_strides[1];
}

static float* result_at(const carnot_cached_attention_run* run, int64_t b, int64_t head) {
  const carnot_head_strides* y = &run->s->y;
  return (float*)run->outputs[run->p->y].data + b * y->batch + head * y->head;
}

// ---- few queries ----

// The keys [*low, *high) that a query of sample |b| sees.
static void visible(const carnot_cached_attention_run* run, int64_t b, int64_t query, int64_t* low,
                    int64_t* high) {
  const carnot_cached_attention_params* p = run->p;
  const int64_t at = query + carnot_cached_offset(run, b);
  *high = carnot_min_i64(carnot_cached_length(run, b), run->s->mask_length);
  if (p->causal) *high = carnot_min_i64(*high, at + 1);
  if (p->right >= 0) *high = carnot_min_i64(*high, at + p->right + 1);
  *low = p->left >= 0 ? carnot_max_i64(0, at - p->left) : 0;
}

static float* part_of(const carnot_cached_attention_run* run, int64_t b, int64_t head,
                      int64_t query) {
  const carnot_cached_attention_sizes* s = run->s;
  return run->workspace + s->parts_at +
         ((b * run->p->heads + head) * s->rows + query) * s->blocks * (run->p->value_size + 2);
}

// One block of keys of a key head against up to CARNOT_DECODE_ROWS rows from |first_row| on.
static void decode_rows(const carnot_cached_attention_run* run, int64_t b, int64_t kv_head,
                        int64_t block, int64_t first_row, carnot_attention_decode_f32* call) {
  const carnot_cached_attention_sizes* s = run->s;
  const carnot_cached_attention_params* p = run->p;
  const int64_t group = p->heads / p->kv_heads;
  int64_t last = 0, ld;
  call->rows = carnot_min_i64(CARNOT_DECODE_ROWS, group * s->rows - first_row);
  for (int64_t r = 0; r < call->rows; r++) {
    const int64_t head = kv_head * group + (first_row + r) / s->rows,
                  query = (first_row + r) % s->rows;
    const float* mask = mask_of(run, b, head);
    call->q[r] = carnot_cached_queries(run, b, head, &ld) + query * ld;
    call->mask[r] = mask ? mask + query * s->mask_strides[2] : NULL;
    call->parts[r] = part_of(run, b, head, query) + block * (p->value_size + 2);
    visible(run, b, query, &call->low[r], &call->high[r]);
    last = carnot_max_i64(last, call->high[r]);
  }
  const float *k = carnot_cached_rows(run, false, b, kv_head, &call->k_ld),
              *v = carnot_cached_rows(run, true, b, kv_head, &call->v_ld);
  call->first = block * CARNOT_DECODE_KEYS;
  call->count = carnot_max_i64(0, carnot_min_i64(CARNOT_DECODE_KEYS, last - call->first));
  call->k = k + call->first * call->k_ld, call->v = v + call->first * call->v_ld;
  run->kernels->attention_decode_f32(call);
}

static void decode_part(void* argument, int64_t part) {
  const carnot_cached_attention_run* run = argument;
  const carnot_cached_attention_params* p = run->p;
  const int64_t block = part % run->s->blocks, head = part / run->s->blocks,
                rows = p->heads / p->kv_heads * run->s->rows;
  carnot_attention_decode_f32 call = {
      .d = p->size, .dv = p->value_size, .scale = p->scale, .softcap = p->softcap};
  for (int64_t r = 0; r < rows; r += CARNOT_DECODE_ROWS)
    decode_rows(run, head / p->kv_heads, head % p->kv_heads, block, r, &call);
}

static void combine_part(void* argument, int64_t part) {
  const carnot_cached_attention_run* run = argument;
  const carnot_cached_attention_params* p = run->p;
  const int64_t b = part / p->heads, head = part % p->heads;
  float* y = result_at(run, b, head);
  for (int64_t i = 0; i < run->s->rows; i++)
    run->kernels->attention_combine_f32(run->s->blocks, part_of(run, b, head, i), p->value_size + 2,
                                        p->value_size, y + i * run->s->y.row);
}

// ---- many queries ----

static void block_part(void* argument, int64_t part) {
  const carnot_cached_attention_run* run = argument;
  const carnot_cached_attention_sizes* s = run->s;
  const carnot_cached_attention_params* p = run->p;
  const int64_t index = part / s->parts_per_head, b = index / p->heads, head = index % p->heads,
                kv_head = head / (p->heads / p->kv_heads),
                first = part % s->parts_per_head * s->rows_per_part;
  carnot_attention_f32 call = {
      .q_len = s->rows,
      .kv_len = carnot_min_i64(carnot_cached_length(run, b), s->mask_length),
      .d = p->size,
      .dv = p->value_size,
      .dst = result_at(run, b, head),
      .dst_ld = s->y.row,
      .scale = p->scale,
      .causal = p->causal != 0,
      .past = carnot_cached_offset(run, b),
      .zero_empty = true,
      .mask = mask_of(run, b, head),
      .mask_ld = s->mask_strides[2],
      .workspace = run->workspace + s->parts_at +
                   part * carnot_attention_f32_workspace(p->size, p->value_size, s->rows_per_part)};
  const int64_t end = carnot_min_i64(first + s->rows_per_part, s->rows);
  for (int64_t i = first; call.kv_len <= 0 && i < end; i++)
    memset(call.dst + i * call.dst_ld, 0, (size_t)call.dv * sizeof(float));
  if (call.kv_len <= 0) return;
  call.q = carnot_cached_queries(run, b, head, &call.q_ld);
  call.k = carnot_cached_rows(run, false, b, kv_head, &call.k_ld);
  call.v = carnot_cached_rows(run, true, b, kv_head, &call.v_ld);
  run->kernels->attention_f32(&call, first, end);
}

static carnot_status* cached_run(const carnot_step_view* step, void* state,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) {
  carnot_cached_attention_run run = {
      carnot_cpu_kernels_of(step->tactic->isa), step->params, state, inputs, outputs, workspace};
  CARNOT_TRY(carnot_cached_attention_check_values(&run));
  carnot_cached_attention_join(&run, executor);
  const int64_t heads = run.s->batch * run.p->heads;
  if (run.s->by_blocks) {
    carnot_executor_parallel(executor, heads * run.s->parts_per_head, block_part, &run);
    return NULL;
  }
  carnot_executor_parallel(executor, run.s->batch * run.p->kv_heads * run.s->blocks, decode_part,
                           &run);
  carnot_executor_parallel(executor, heads, combine_part, &run);
  return NULL;
}

// A cache that keeps its size may be its own result: new rows are written, and the rest stays.
static bool cached_may_share(const carnot_step_view* step, uint32_t input, uint32_t output) {
  const carnot_cached_attention_params* p = step->params;
  return p->cache == CARNOT_CACHE_SCATTER &&
         (((int32_t)input == p->past_k && (int32_t)output == p->present_k) ||
          ((int32_t)input == p->past_v && (int32_t)output == p->present_v));
}

// Caches are full.
static void cached_fill(const carnot_step_view* step, const void* state,
                        const carnot_operand* inputs) {
  const carnot_cached_attention_params* p = step->params;
  const carnot_cached_attention_sizes* s = state;
  for (int64_t b = 0; b < s->batch; b++) {
    if (p->lengths >= 0) ((int64_t*)inputs[p->lengths].data)[b] = s->total;
    if (p->write_indices >= 0) ((int64_t*)inputs[p->write_indices].data)[b] = s->total - s->fresh;
  }
}

static void cached_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  char reason[256];
  carnot_cached_attention_params p;
  *out_flops = *out_bytes = 0;
  if (carnot_cached_attention_read(problem, &p, reason, sizeof(reason))) return;
  const carnot_operand_desc *y = &problem->outputs[p.y], *k = p.past_k >= 0
                                                                  ? &problem->inputs[p.past_k]
                                                                  : &problem->inputs[p.k.input];
  const double keys = (double)carnot_dims_count(k->dims, k->rank) / (double)p.size,
               rows = (double)carnot_dims_count(y->dims, y->rank) / (double)p.value_size;
  *out_bytes =
      4 * (keys * (double)(p.size + p.value_size) + rows * (double)(p.size + p.value_size));
  *out_flops = 2 * keys / (double)p.kv_heads * rows * (double)(p.size + p.value_size);
}

CARNOT_CPU_TACTICS(cached_attention_f32, .anchor = CARNOT_OP_ATTENTION, .empty_inputs = true,
                   .reject = cached_reject, .prepare = cached_prepare,
                   .validate = carnot_cached_attention_check, .configure = cached_configure,
                   .run = cached_run, .fill = cached_fill, .may_share = cached_may_share,
                   .work = cached_work);
