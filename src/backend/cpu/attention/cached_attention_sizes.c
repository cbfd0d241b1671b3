// The sizes of attention with a cache, when shapes are set.
#include "backend/cpu/attention/attention.h"
#include "backend/cpu/attention/cached_attention.h"

// Queries of a group of heads that are computed key by key; more go by packed blocks.
enum { kFewRows = 32 };

static carnot_status* is_dense_f32(const carnot_operand* t, int rank, const char* what) {
  CARNOT_CHECK(t->format.dtype == CARNOT_DTYPE_F32 && t->rank == rank && carnot_cpu_is_dense(t),
               INVALID_ARGUMENT, "%s is %s of rank %d, must be row-major float32 of rank %d", what,
               carnot_dtype_name(t->format.dtype), t->rank, rank);
  return NULL;
}

static carnot_status* read_strides(const carnot_operand* t, int32_t layout, int64_t first,
                                   int64_t heads, int64_t size, const char* what, int64_t* batch,
                                   int64_t* rows, carnot_head_strides* out) {
  CARNOT_TRY(is_dense_f32(t, layout == CARNOT_HEADS_FLAT ? 3 : 4, what));
  const int64_t* d = t->dims;
  bool is_first = layout == CARNOT_HEADS_FIRST;
  int64_t row = layout == CARNOT_HEADS_FLAT ? d[2] : is_first ? d[3] : d[2] * d[3];
  *batch = d[0], *rows = is_first ? d[2] : d[1];
  *out = (carnot_head_strides){.first = first,
                               .batch = is_first ? d[1] * d[2] * d[3] : d[1] * row,
                               .head = is_first ? d[2] * d[3] : size,
                               .row = row};
  bool fits = is_first
                  ? d[1] == heads && d[3] == size && first == 0
                  : first + heads * size <= row && (layout == CARNOT_HEADS_FLAT || d[3] == size);
  CARNOT_CHECK(fits, INVALID_ARGUMENT, "%s does not hold %lld heads of %lld from element %lld on",
               what, (long long)heads, (long long)size, (long long)first);
  return NULL;
}

// cos and sin [positions, half] with positions [B,S], or one row for each query without them.
static carnot_status* check_rotary(const carnot_cached_source* source, const carnot_operand* inputs,
                                   int64_t batch, int64_t rows) {
  if (source->cosines < 0) return NULL;
  const carnot_operand *c = &inputs[source->cosines], *s = &inputs[source->sines];
  const int64_t half = source->turned / 2;
  CARNOT_CHECK(c->rank >= 1 && c->dims[c->rank - 1] == half && carnot_cpu_is_dense(c),
               INVALID_ARGUMENT, "the last dimension of the caches is %lld; %lld is required",
               (long long)(c->rank ? c->dims[c->rank - 1] : 0), (long long)half);
  CARNOT_CHECK(carnot_dims_count(c->dims, c->rank) == carnot_dims_count(s->dims, s->rank) &&
                   carnot_cpu_is_dense(s),
               INVALID_ARGUMENT, "%lld cosines and %lld sines",
               (long long)carnot_dims_count(c->dims, c->rank),
               (long long)carnot_dims_count(s->dims, s->rank));
  const carnot_operand* at = source->positions < 0 ? NULL : &inputs[source->positions];
  int64_t given =
      at ? carnot_dims_count(at->dims, at->rank) : carnot_dims_count(c->dims, c->rank) / half;
  CARNOT_CHECK(given == batch * rows && (!at || carnot_cpu_is_dense(at)), INVALID_ARGUMENT,
               "%lld positions for %lld batches of %lld", (long long)given, (long long)batch,
               (long long)rows);
  return NULL;
}

static carnot_status* check_past(const carnot_operand* past, int64_t batch, int64_t heads,
                                 int64_t size, const char* what) {
  CARNOT_TRY(is_dense_f32(past, 4, what));
  CARNOT_CHECK(past->dims[0] == batch && past->dims[1] == heads && past->dims[3] == size,
               INVALID_ARGUMENT,
               "%s is [%lld,%lld,%lld,%lld]; %lld samples of %lld heads of %lld are required", what,
               (long long)past->dims[0], (long long)past->dims[1], (long long)past->dims[2],
               (long long)past->dims[3], (long long)batch, (long long)heads, (long long)size);
  return NULL;
}

static carnot_status* check_present(const carnot_operand* outputs, int32_t output, int64_t batch,
                                    int64_t heads, int64_t total, int64_t size) {
  if (output < 0) return NULL;
  const carnot_operand* t = &outputs[output];
  CARNOT_TRY(is_dense_f32(t, 4, "the result for the cache"));
  CARNOT_CHECK(
      t->dims[0] == batch && t->dims[1] == heads && t->dims[2] == total && t->dims[3] == size,
      INVALID_ARGUMENT, "the result for the cache has %lld rows, must have %lld",
      (long long)t->dims[2], (long long)total);
  return NULL;
}

static carnot_status* read_keys(const carnot_cached_attention_params* p,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                carnot_cached_attention_sizes* s) {
  int64_t batch, rows;
  CARNOT_TRY(read_strides(&inputs[p->k.input], p->k.layout, p->k.first, p->kv_heads, p->size,
                          "the keys", &batch, &s->fresh, &s->k));
  CARNOT_CHECK(batch == s->batch, INVALID_ARGUMENT, "%lld samples of keys, %lld of queries",
               (long long)batch, (long long)s->batch);
  CARNOT_TRY(read_strides(&inputs[p->v.input], p->v.layout, p->v.first, p->kv_heads, p->value_size,
                          "the values", &batch, &rows, &s->v));
  CARNOT_CHECK(batch == s->batch && rows == s->fresh, INVALID_ARGUMENT,
               "%lld samples of %lld values, %lld of %lld keys", (long long)batch, (long long)rows,
               (long long)s->batch, (long long)s->fresh);
  s->past = 0, s->total = s->fresh;
  if (p->cache != CARNOT_CACHE_NONE) {
    const carnot_operand *k = &inputs[p->past_k], *v = &inputs[p->past_v];
    CARNOT_TRY(check_past(k, s->batch, p->kv_heads, p->size, "past keys"));
    CARNOT_TRY(check_past(v, s->batch, p->kv_heads, p->value_size, "past values"));
    CARNOT_CHECK(k->dims[2] == v->dims[2], INVALID_ARGUMENT, "%lld past keys, %lld past values",
                 (long long)k->dims[2], (long long)v->dims[2]);
    s->past = k->dims[2];
    s->total = p->cache == CARNOT_CACHE_CONCAT ? s->past + s->fresh : s->past;
    // A buffer may become longer, as the operator's fourth input says.
    const int32_t output = p->present_k >= 0 ? p->present_k : p->present_v;
    if (p->cache == CARNOT_CACHE_SCATTER && output >= 0)
      s->total = carnot_max_i64(s->total, outputs[output].dims[2]);
  }
  CARNOT_TRY(check_present(outputs, p->present_k, s->batch, p->kv_heads, s->total, p->size));
  CARNOT_TRY(check_present(outputs, p->present_v, s->batch, p->kv_heads, s->total, p->value_size));
  const bool has_cache = p->cache != CARNOT_CACHE_NONE;
  s->joins_k = has_cache || p->k.cosines >= 0 || p->present_k >= 0;
  s->joins_v = has_cache || p->present_v >= 0;
  return check_rotary(&p->k, inputs, s->batch, s->fresh);
}

static carnot_status* read_mask(const carnot_cached_attention_params* p,
                                const carnot_operand* inputs, carnot_cached_attention_sizes* s) {
  s->mask_length = s->total;
  if (p->mask < 0) return NULL;
  const carnot_operand* mask = &inputs[p->mask];
  const int64_t full[3] = {s->batch, p->heads, s->rows};
  CARNOT_CHECK(mask->rank >= 1 && mask->rank <= 4 && carnot_cpu_is_dense(mask) &&
                   mask->dims[mask->rank - 1] <= s->total,
               INVALID_ARGUMENT, "the mask has %lld columns, must have up to %lld",
               (long long)(mask->rank ? mask->dims[mask->rank - 1] : 0), (long long)s->total);
  s->mask_length = mask->dims[mask->rank - 1];
  for (int d = 0; d < 3; d++) {
    const int at = d - (4 - mask->rank);
    const int64_t dim = at < 0 ? 1 : mask->dims[at];
    CARNOT_CHECK(dim == 1 || dim == full[d], INVALID_ARGUMENT,
                 "dimension %d of the mask is %lld, must be 1 or %lld", at, (long long)dim,
                 (long long)full[d]);
    s->mask_strides[d] = dim == 1 ? 0 : mask->strides[at];
  }
  return NULL;
}

static carnot_status* check_small(const carnot_operand* inputs, int32_t input, int64_t batch,
                                  const char* what) {
  if (input < 0) return NULL;
  const carnot_operand* t = &inputs[input];
  CARNOT_CHECK(t->format.dtype == CARNOT_DTYPE_I64 &&
                   carnot_dims_count(t->dims, t->rank) == batch && carnot_cpu_is_dense(t),
               INVALID_ARGUMENT, "%s has %lld elements; %lld are required", what,
               (long long)carnot_dims_count(t->dims, t->rank), (long long)batch);
  return NULL;
}

static int64_t take(int64_t* floats, int64_t count) {
  const int64_t at = *floats;
  *floats += (count + 15) / 16 * 16;
  return at;
}

// Parts of the queries of a head, each with its packed keys and values.
static int64_t cut_queries(int threads, const carnot_cached_attention_params* p,
                           carnot_cached_attention_sizes* s) {
  const int64_t heads = s->batch * p->heads;
  s->rows_per_part = carnot_attention_rows_per_part(threads, s->rows, heads, CARNOT_ATTENTION_ROWS);
  s->parts_per_head = carnot_ceildiv(s->rows, s->rows_per_part);
  return heads * s->parts_per_head *
         carnot_attention_f32_workspace(p->size, p->value_size, s->rows_per_part);
}

carnot_status* carnot_cached_attention_sizes_make(int threads,
                                                  const carnot_cached_attention_params* p,
                                                  const carnot_operand* inputs,
                                                  const carnot_operand* outputs,
                                                  carnot_cached_attention_sizes* s,
                                                  int64_t* out_workspace_floats) {
  int64_t batch, rows, floats = 0;
  *s = (carnot_cached_attention_sizes){0};
  CARNOT_TRY(read_strides(&inputs[p->q.input], p->q.layout, p->q.first, p->heads, p->size,
                          "the queries", &s->batch, &s->rows, &s->q));
  CARNOT_TRY(check_rotary(&p->q, inputs, s->batch, s->rows));
  CARNOT_TRY(read_keys(p, inputs, outputs, s));
  CARNOT_TRY(read_strides(&outputs[p->y], p->y_layout, 0, p->heads, p->value_size, "the result",
                          &batch, &rows, &s->y));
  CARNOT_CHECK(batch == s->batch && rows == s->rows, INVALID_ARGUMENT,
               "the result has %lld samples of %lld rows, must have %lld of %lld", (long long)batch,
               (long long)rows, (long long)s->batch, (long long)s->rows);
  CARNOT_TRY(read_mask(p, inputs, s));
  CARNOT_TRY(check_small(inputs, p->lengths, s->batch, "nonpad_kv_seqlen"));
  CARNOT_TRY(check_small(inputs, p->write_indices, s->batch, "write_indices"));
  s->by_blocks = s->rows * (p->heads / p->kv_heads) > kFewRows && p->softcap == 0 && p->left < 0 &&
                 p->right < 0;
  const int64_t kv = s->batch * p->kv_heads * s->total;
  if (p->q.cosines >= 0) s->q_at = take(&floats, s->batch * p->heads * s->rows * p->size);
  if (s->joins_k && p->present_k < 0) s->k_at = take(&floats, kv * p->size);
  if (s->joins_v && p->present_v < 0) s->v_at = take(&floats, kv * p->value_size);
  if (p->mask >= 0 && inputs[p->mask].format.dtype == CARNOT_DTYPE_BOOL)
    s->mask_at = take(&floats, carnot_dims_count(inputs[p->mask].dims, inputs[p->mask].rank));
  s->blocks = carnot_ceildiv(s->total, CARNOT_DECODE_KEYS);
  s->parts_at =
      take(&floats, s->by_blocks ? cut_queries(threads, p, s)
                                 : s->batch * p->heads * s->rows * s->blocks * (p->value_size + 2));
  *out_workspace_floats = floats;
  return NULL;
}
