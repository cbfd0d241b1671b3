// Writes new keys and values behind the past, or into its buffer, rotated where the region says so.
// Where the user gave one buffer for a cache and its result, only the new rows are written.
#include <math.h>

#include "backend/cpu/attention/cached_attention.h"

static int64_t index_of(const carnot_cached_attention_run* run, int32_t input, int64_t i) {
  return input < 0 ? 0 : ((const int64_t*)run->inputs[input].data)[i];
}

static carnot_status* check_positions(const carnot_cached_attention_run* run,
                                      const carnot_cached_source* source) {
  if (source->cosines < 0 || source->positions < 0) return NULL;
  const carnot_operand *c = &run->inputs[source->cosines], *t = &run->inputs[source->positions];
  const int64_t rows = carnot_dims_count(c->dims, c->rank) / (source->turned / 2);
  for (int64_t i = 0; i < carnot_dims_count(t->dims, t->rank); i++) {
    const int64_t at = index_of(run, source->positions, i);
    CARNOT_CHECK(at >= 0 && at < rows, INVALID_ARGUMENT, "position %lld is outside [0, %lld)",
                 (long long)at, (long long)rows);
  }
  return NULL;
}

carnot_status* carnot_cached_attention_check_values(const carnot_cached_attention_run* run) {
  const carnot_cached_attention_sizes* s = run->s;
  const carnot_cached_attention_params* p = run->p;
  for (int64_t b = 0; b < s->batch; b++) {
    const int64_t length = carnot_cached_length(run, b), at = index_of(run, p->write_indices, b);
    CARNOT_CHECK(p->cache != CARNOT_CACHE_SCATTER || (at >= 0 && at <= s->total - s->fresh),
                 INVALID_ARGUMENT, "%lld steps from place %lld of sample %lld do not fit into %lld",
                 (long long)s->fresh, (long long)at, (long long)b, (long long)s->total);
    CARNOT_CHECK(length >= 0 && length <= s->total, INVALID_ARGUMENT,
                 "nonpad_kv_seqlen[%lld] is %lld; 0 to %lld is required", (long long)b,
                 (long long)length, (long long)s->total);
  }
  CARNOT_TRY(check_positions(run, &p->q));
  return check_positions(run, &p->k);
}

// Row |row| of |src|, |size| floats, to |dst|; rotated where the source is.
static void put_row(const carnot_cached_attention_run* run, const carnot_cached_source* source,
                    int64_t b, int64_t row, int64_t rows, int64_t size, const float* src,
                    float* dst) {
  if (source->cosines < 0) {
    memcpy(dst, src, (size_t)size * sizeof(float));
    return;
  }
  const int64_t half = source->turned / 2, i = b * rows + row,
                at = (source->positions < 0 ? i : index_of(run, source->positions, i)) * half;
  run->kernels->rotary_f32(size, half, source->interleaved != 0, src,
                           (const float*)run->inputs[source->cosines].data + at,
                           (const float*)run->inputs[source->sines].data + at, dst);
}

static float* joined(const carnot_cached_attention_run* run, bool values) {
  const carnot_cached_attention_params* p = run->p;
  const int32_t present = values ? p->present_v : p->present_k;
  return present >= 0 ? (float*)run->outputs[present].data
                      : run->workspace + (values ? run->s->v_at : run->s->k_at);
}

static const float* source_rows(const carnot_cached_attention_run* run,
                                const carnot_cached_source* source,
                                const carnot_head_strides* strides, int64_t b, int64_t head) {
  return (const float*)run->inputs[source->input].data + strides->first + b * strides->batch +
         head * strides->head;
}

static void join_head(const carnot_cached_attention_run* run, bool values, int64_t b,
                      int64_t head) {
  const carnot_cached_attention_sizes* s = run->s;
  const carnot_cached_attention_params* p = run->p;
  const carnot_cached_source* source = values ? &p->v : &p->k;
  const carnot_head_strides* strides = values ? &s->v : &s->k;
  const int64_t size = values ? p->value_size : p->size, index = b * p->kv_heads + head;
  const int32_t past_input = values ? p->past_v : p->past_k;
  float* dst = joined(run, values) + index * s->total * size;
  const float* past =
      s->past ? (const float*)run->inputs[past_input].data + index * s->past * size : NULL;
  const int64_t at =
      p->cache == CARNOT_CACHE_SCATTER ? index_of(run, p->write_indices, b) : s->past;
  if (past && past != dst) memcpy(dst, past, (size_t)(s->past * size) * sizeof(float));
  if (p->cache == CARNOT_CACHE_SCATTER && s->total > s->past)
    memset(dst + s->past * size, 0, (size_t)((s->total - s->past) * size) * sizeof(float));
  const float* src = source_rows(run, source, strides, b, head);
  for (int64_t i = 0; i < s->fresh; i++)
    put_row(run, source, b, i, s->fresh, size, src + i * strides->row, dst + (at + i) * size);
}

static void rotate_queries(const carnot_cached_attention_run* run, int64_t b, int64_t head) {
  const carnot_cached_attention_sizes* s = run->s;
  const carnot_cached_attention_params* p = run->p;
  const float* src = source_rows(run, &p->q, &s->q, b, head);
  float* dst = run->workspace + s->q_at + (b * p->heads + head) * s->rows * p->size;
  for (int64_t i = 0; i < s->rows; i++)
    put_row(run, &p->q, b, i, s->rows, p->size, src + i * s->q.row, dst + i * p->size);
}

// Keys of a head, then its values; the queries that share it.
static void join_part(void* argument, int64_t part) {
  const carnot_cached_attention_run* run = argument;
  const carnot_cached_attention_params* p = run->p;
  const bool values = part % 2 != 0;
  const int64_t b = part / 2 / p->kv_heads, head = part / 2 % p->kv_heads,
                group = p->heads / p->kv_heads;
  if (values ? run->s->joins_v : run->s->joins_k) join_head(run, values, b, head);
  for (int64_t g = 0; !values && p->q.cosines >= 0 && g < group; g++)
    rotate_queries(run, b, head * group + g);
}

void carnot_cached_attention_join(const carnot_cached_attention_run* run,
                                  carnot_executor* executor) {
  const carnot_cached_attention_params* p = run->p;
  if (p->mask >= 0 && run->inputs[p->mask].format.dtype == CARNOT_DTYPE_BOOL) {
    const carnot_operand* mask = &run->inputs[p->mask];
    float* to = run->workspace + run->s->mask_at;
    for (int64_t i = 0; i < carnot_dims_count(mask->dims, mask->rank); i++)
      to[i] = ((const bool*)mask->data)[i] ? 0 : -INFINITY;
  }
  if (!run->s->joins_k && !run->s->joins_v && p->q.cosines < 0) return;
  carnot_executor_parallel(executor, 2 * run->s->batch * p->kv_heads, join_part,
                           (void*)(uintptr_t)run);
}

const float* carnot_cached_queries(const carnot_cached_attention_run* run, int64_t b, int64_t head,
                                   int64_t* out_ld) {
  const carnot_cached_attention_sizes* s = run->s;
  const carnot_cached_attention_params* p = run->p;
  *out_ld = p->q.cosines < 0 ? s->q.row : p->size;
  if (p->q.cosines < 0) return source_rows(run, &p->q, &s->q, b, head);
  return run->workspace + s->q_at + (b * p->heads + head) * s->rows * p->size;
}

const float* carnot_cached_rows(const carnot_cached_attention_run* run, bool values, int64_t b,
                                int64_t kv_head, int64_t* out_ld) {
  const carnot_cached_attention_sizes* s = run->s;
  const carnot_cached_attention_params* p = run->p;
  const bool joins = values ? s->joins_v : s->joins_k;
  const carnot_head_strides* strides = values ? &s->v : &s->k;
  *out_ld = !joins ? strides->row : values ? p->value_size : p->size;
  if (!joins) return source_rows(run, values ? &p->v : &p->k, strides, b, kv_head);
  return joined(run, values) + (b * p->kv_heads + kv_head) * s->total * *out_ld;
}
