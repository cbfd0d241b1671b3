// Scaled dot-product attention of query heads over key and value heads.
//   s = scale * Q*K^T;  s' = softcap * tanh(s / softcap);  p = softmax(s' + bias);  Y = p * V
// Q [B,Hq,S,d], K [B,Hk,T,d], V [B,Hk,T,e], or all of rank 3 with the heads inside the last
// dimension ([B,S,Hq*d]); Hq is a multiple of Hk, neighbouring query heads share a key head.
// past_key and past_value [B,Hk,P,·] come before K and V; the whole comes out as present_key and
// present_value. |scale| defaults to 1/sqrt(d). bias is -inf where key j may not be seen by query i
// of batch b, else the mask's number:
//   - attn_mask, broadcast to [B,Hq,S,T]: bool false, or -inf; short of T it is padded with -inf
//   - is_causal: j > i + offset;  left/right_window_size: j outside [i + offset - left, i + offset
//   + right]
//   - nonpad_kv_seqlen: j >= length[b]
// with offset = P, or length[b] - S with nonpad_kv_seqlen. A query that sees no key gives zeros.
// Output 3 is s, s', s' + bias or p as qk_matmul_output_mode says. Computed in double.
#include "ops/gemm.h"
#include "ops/util.h"

// ---- infer ----

typedef struct heads {
  carnot_sym batch, count, length, size;
} heads;

// The parts of a query, key or value; for rank 3 the heads come from attribute |name|.
static carnot_status* heads_of(carnot_infer* infer, const carnot_type* t, const char* name,
                               heads* out) {
  if (t->rank == 4) {
    *out = (heads){t->dims[0], t->dims[1], t->dims[2], t->dims[3]};
    return NULL;
  }
  int64_t count = carnot_infer_int(infer, name);
  CARNOT_CHECK(count > 0, INVALID_MODEL, "inputs of rank 3 require attribute %s", name);
  carnot_sym n = carnot_sym_of(count);
  CARNOT_CHECK(!carnot_sym_is_const(t->dims[2]) || t->dims[2].bits % count == 0, INVALID_MODEL,
               "%lld elements do not divide into %lld heads", (long long)t->dims[2].bits,
               (long long)count);
  *out = (heads){t->dims[0], n, t->dims[1], carnot_sym_floordiv(infer->syms, t->dims[2], n)};
  return NULL;
}

static carnot_status* infer_attention(carnot_infer* infer) {
  const carnot_type *q, *k, *v, *past = NULL;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 3, 4, &q));
  CARNOT_TRY(carnot_infer_rank(infer, 1, 3, 4, &k));
  CARNOT_TRY(carnot_infer_rank(infer, 2, 3, 4, &v));
  CARNOT_TRY(carnot_infer_same_dtype(infer, 0, 1));
  if (carnot_infer_has(infer, 4)) CARNOT_TRY(carnot_infer_rank(infer, 4, 4, 4, &past));
  CARNOT_CHECK((past != NULL) == carnot_infer_has(infer, 5), INVALID_MODEL,
               "past_key and past_value go together");
  if (q->rank < 0 || k->rank < 0 || v->rank < 0 || (past && past->rank < 0)) {
    for (int i = 0; i < infer->output_count; i++) {
      carnot_infer_set(infer, i, i == 2 ? v->dtype : q->dtype, -1, NULL);
    }
    return NULL;
  }
  CARNOT_CHECK(q->rank == k->rank && q->rank == v->rank, INVALID_MODEL,
               "Q, K and V have rank %d, %d and %d; all must be equal", q->rank, k->rank, v->rank);
  heads hq, hk, hv;
  carnot_sym both;
  CARNOT_TRY(heads_of(infer, q, "q_num_heads", &hq));
  CARNOT_TRY(heads_of(infer, k, "kv_num_heads", &hk));
  CARNOT_TRY(heads_of(infer, v, "kv_num_heads", &hv));
  CARNOT_TRY(carnot_infer_merge(infer, hq.size, hk.size, "head size of Q and K", &both));
  CARNOT_TRY(carnot_infer_merge(infer, hk.length, hv.length, "length of K and V", &both));
  carnot_sym total = past ? carnot_sym_add(infer->syms, past->dims[2], hk.length) : hk.length;
  carnot_sym y4[4] = {hq.batch, hq.count, hq.length, hv.size};
  carnot_sym y3[3] = {hq.batch, hq.length, carnot_sym_mul(infer->syms, hq.count, hv.size)};
  carnot_sym key[4] = {hk.batch, hk.count, total, hk.size};
  carnot_sym value[4] = {hv.batch, hv.count, total, hv.size};
  carnot_sym scores[4] = {hq.batch, hq.count, hq.length, total};
  carnot_infer_set(infer, 0, q->dtype, q->rank, q->rank == 4 ? y4 : y3);
  if (infer->output_count > 1) carnot_infer_set(infer, 1, k->dtype, 4, key);
  if (infer->output_count > 2) carnot_infer_set(infer, 2, v->dtype, 4, value);
  if (infer->output_count > 3) carnot_infer_set(infer, 3, q->dtype, 4, scores);
  return NULL;
}

// ---- reference ----

enum { kQueries = 64 };  // scored at a time

typedef struct attention_run {
  int64_t batch, q_heads, kv_heads, queries, keys, past, size, value_size;
  bool heads_last;  // rank 3
  const double *q, *mask;
  double *k, *v;  // [B,Hk,T,·], past included
  double *y, *scores_out, *scratch;
  bool mask_is_bool;
  int64_t mask_strides[4], mask_length;
  const int64_t* lengths;  // nonpad_kv_seqlen or NULL
  double scale, softcap;
  bool causal;
  int64_t left, right, mode, first;  // first: query of the block
} attention_run;

static double bias_at(const attention_run* r, int64_t b, int64_t h, int64_t i, int64_t j) {
  int64_t offset = r->lengths ? r->lengths[b] - r->queries : r->past, at = i + offset;
  if (r->lengths && j >= r->lengths[b]) return -(double)INFINITY;
  if (r->causal && j > at) return -(double)INFINITY;
  if ((r->left >= 0 && j < at - r->left) || (r->right >= 0 && j > at + r->right)) {
    return -(double)INFINITY;
  }
  if (!r->mask) return 0;
  if (j >= r->mask_length) return -(double)INFINITY;
  const int64_t* s = r->mask_strides;
  double m = r->mask[b * s[0] + h * s[1] + i * s[2] + j * s[3]];
  if (r->mask_is_bool) return m != 0 ? 0 : -(double)INFINITY;
  return m;
}

// Scores of one query to probabilities; |out| (or NULL) receives what output 3 shows.
static void softmax_row(const attention_run* r, int64_t b, int64_t h, int64_t i, double* s,
                        double* out) {
  bool seen = false;
  double top = -(double)INFINITY, sum = 0;
  for (int64_t j = 0; j < r->keys; j++) {
    s[j] *= r->scale;
    if (out && r->mode == 0) out[j] = s[j];
    if (r->softcap > 0) s[j] = r->softcap * tanh(s[j] / r->softcap);
    if (out && r->mode == 1) out[j] = s[j];
    double bias = bias_at(r, b, h, i, j);
    seen |= bias != -(double)INFINITY;
    s[j] += bias;
    if (out && r->mode == 2) out[j] = s[j];
    if (s[j] > top || s[j] != s[j]) top = s[j];
  }
  for (int64_t j = 0; j < r->keys; j++) sum += s[j] = exp(s[j] - top);
  bool empty = !seen || top == -(double)INFINITY;
  for (int64_t j = 0; j < r->keys; j++) {
    s[j] = empty ? 0 : s[j] / sum;
    if (out && r->mode == 3) out[j] = s[j];
  }
}

static void multiply(const carnot_gemm* gemm) {
  for (int64_t i = 0; i < carnot_gemm_parts(gemm); i++) carnot_gemm_part_f64(gemm, i);
}

// One head of one batch, for the queries of the block.
static void head_part(void* arg, int64_t part) {
  const attention_run* r = arg;
  int64_t b = part / r->q_heads, h = part % r->q_heads;
  int64_t kv = b * r->kv_heads + h / (r->q_heads / r->kv_heads);
  int64_t count = carnot_min_i64(kQueries, r->queries - r->first);
  double* s = r->scratch + part * kQueries * r->keys;
  int64_t q_row = r->heads_last ? r->q_heads * r->size : r->size;
  int64_t y_row = r->heads_last ? r->q_heads * r->value_size : r->value_size;
  int64_t q_at = r->heads_last ? b * r->queries * q_row + h * r->size : part * r->queries * q_row;
  int64_t y_at =
      r->heads_last ? b * r->queries * y_row + h * r->value_size : part * r->queries * y_row;
  multiply(&(carnot_gemm){count, r->keys, r->size, r->q + q_at + r->first * q_row, q_row, 1,
                          r->k + kv * r->keys * r->size, /*b_row=*/1, /*b_col=*/r->size, s,
                          r->keys});
  for (int64_t i = 0; i < count; i++) {
    int64_t query = r->first + i;
    double* out = r->scores_out ? r->scores_out + (part * r->queries + query) * r->keys : NULL;
    softmax_row(r, b, h, query, s + i * r->keys, out);
  }
  multiply(&(carnot_gemm){count, r->value_size, r->keys, s, r->keys, 1,
                          r->v + kv * r->keys * r->value_size, r->value_size, 1,
                          r->y + y_at + r->first * y_row, y_row});
}

// Past and new keys or values as [B,Hk,T,size].
static carnot_status* join(const carnot_call* call, const attention_run* r, int new_input,
                           int past_input, int64_t size, double** out) {
  const double *fresh, *past;
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, new_input), &fresh));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, past_input), &past));
  CARNOT_TRY(carnot_call_array(call, r->batch * r->kv_heads * r->keys * size, sizeof(double), out));
  int64_t length = r->keys - r->past;
  for (int64_t i = 0; i < r->batch * r->kv_heads; i++) {
    double* to = *out + i * r->keys * size;
    if (past) memcpy(to, past + i * r->past * size, (size_t)(r->past * size) * sizeof(double));
    for (int64_t t = 0; t < length; t++) {
      int64_t b = i / r->kv_heads, h = i % r->kv_heads;
      int64_t from = r->heads_last ? (b * length + t) * r->kv_heads + h : i * length + t;
      memcpy(to + (r->past + t) * size, fresh + from * size, (size_t)size * sizeof(double));
    }
  }
  return NULL;
}

static carnot_status* read_sizes(const carnot_call* call, attention_run* r) {
  const carnot_tensor *q = carnot_call_in(call, 0), *k = carnot_call_in(call, 1),
                      *v = carnot_call_in(call, 2), *past = carnot_call_in(call, 4),
                      *past_v = carnot_call_in(call, 5);
  r->heads_last = q->rank == 3;
  r->batch = q->dims[0];
  r->q_heads = r->heads_last ? carnot_call_int(call, "q_num_heads") : q->dims[1];
  r->kv_heads = r->heads_last ? carnot_call_int(call, "kv_num_heads") : k->dims[1];
  r->queries = q->dims[r->heads_last ? 1 : 2];
  CARNOT_CHECK(r->q_heads > 0 && r->kv_heads > 0 && r->q_heads % r->kv_heads == 0, INVALID_MODEL,
               "%lld query heads and %lld key heads; a multiple is required", (long long)r->q_heads,
               (long long)r->kv_heads);
  r->size = r->heads_last ? q->dims[2] / r->q_heads : q->dims[3];
  r->value_size = r->heads_last ? v->dims[2] / r->kv_heads : v->dims[3];
  r->past = past ? past->dims[2] : 0;
  int64_t fresh = k->dims[r->heads_last ? 1 : 2], kv = r->batch * r->kv_heads;
  r->keys = r->past + fresh;
  CARNOT_CHECK(carnot_tensor_count(k) == kv * fresh * r->size &&
                   carnot_tensor_count(v) == kv * fresh * r->value_size &&
                   (!past || (carnot_tensor_count(past) == kv * r->past * r->size && past_v &&
                              carnot_tensor_count(past_v) == kv * r->past * r->value_size)),
               INVALID_MODEL, "keys and values do not have %lld heads of %lld and %lld",
               (long long)r->kv_heads, (long long)r->size, (long long)r->value_size);
  return NULL;
}

static carnot_status* read_mask(const carnot_call* call, attention_run* r) {
  const carnot_tensor *mask = carnot_call_in(call, 3), *lengths = carnot_call_in(call, 6);
  CARNOT_CHECK(!lengths || carnot_tensor_count(lengths) == r->batch, INVALID_MODEL,
               "nonpad_kv_seqlen has %lld elements; %lld are required",
               (long long)carnot_tensor_count(lengths), (long long)r->batch);
  CARNOT_TRY(carnot_call_i64(call, lengths, &r->lengths));
  for (int64_t i = 0; r->lengths && i < r->batch; i++) {
    CARNOT_CHECK(r->lengths[i] >= 0 && r->lengths[i] <= r->keys, INVALID_ARGUMENT,
                 "nonpad_kv_seqlen[%lld] is %lld; 0 to %lld is required", (long long)i,
                 (long long)r->lengths[i], (long long)r->keys);
  }
  if (!mask) return NULL;
  const int64_t want[4] = {r->batch, r->q_heads, r->queries, r->keys};
  bool fits = mask->rank >= 1 && mask->rank <= 4 && mask->dims[mask->rank - 1] <= r->keys;
  for (int i = 2; fits && i <= mask->rank; i++) {
    fits = mask->dims[mask->rank - i] == 1 || mask->dims[mask->rank - i] == want[4 - i];
  }
  char dims[128];
  carnot_dims_print(mask->dims, mask->rank, dims, sizeof(dims));
  CARNOT_CHECK(fits, INVALID_MODEL, "attn_mask %s does not broadcast to [%lld,%lld,%lld,%lld]",
               dims, (long long)want[0], (long long)want[1], (long long)want[2],
               (long long)want[3]);
  carnot_broadcast_strides(mask, 4, r->mask_strides);
  r->mask_strides[3] = 1;
  r->mask_length = mask->dims[mask->rank - 1];
  r->mask_is_bool = mask->dtype == CARNOT_DTYPE_BOOL;
  return carnot_call_f64(call, mask, &r->mask);
}

static carnot_status* run_attention(carnot_call* call) {
  attention_run r = {0};
  carnot_tensor *y = carnot_call_out(call, 0), *key = carnot_call_out(call, 1),
                *value = carnot_call_out(call, 2), *scores = carnot_call_out(call, 3);
  CARNOT_TRY(read_sizes(call, &r));
  CARNOT_TRY(read_mask(call, &r));
  CARNOT_TRY(join(call, &r, 1, 4, r.size, &r.k));
  CARNOT_TRY(join(call, &r, 2, 5, r.value_size, &r.v));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 0), &r.q));
  CARNOT_TRY(carnot_call_f64_out(call, scores, &r.scores_out));
  CARNOT_TRY(carnot_call_array(call, r.batch * r.queries * r.q_heads * r.value_size, sizeof(double),
                               &r.y));
  int64_t heads = r.batch * r.q_heads;
  CARNOT_TRY(carnot_call_array(call, heads * kQueries * r.keys, sizeof(double), &r.scratch));
  bool has_scale = carnot_attr_has(call->attrs, "scale");
  r.scale = has_scale ? carnot_call_float(call, "scale") : 1 / sqrt((double)r.size);
  r.softcap = carnot_call_float(call, "softcap");
  r.causal = carnot_call_int(call, "is_causal") != 0;
  r.left = carnot_min_i64(carnot_call_int(call, "left_window_size"), INT32_MAX);
  r.right = carnot_min_i64(carnot_call_int(call, "right_window_size"), INT32_MAX);
  r.mode = carnot_call_int(call, "qk_matmul_output_mode");
  for (r.first = 0; r.first < r.queries; r.first += kQueries) {
    carnot_call_parallel(call, heads, head_part, &r);
  }
  carnot_write_f64(y, r.y);
  carnot_write_f64(key, r.k);
  carnot_write_f64(value, r.v);
  carnot_write_f64(scores, r.scores_out);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {CARNOT_SPEC_INT("is_causal", 0),
                                          CARNOT_SPEC_INT("kv_num_heads", 0),
                                          CARNOT_SPEC_INT("left_window_size", -1),
                                          CARNOT_SPEC_INT("q_num_heads", 0),
                                          CARNOT_SPEC_INT("qk_matmul_output_mode", 0),
                                          CARNOT_SPEC_INT("right_window_size", -1),
                                          CARNOT_SPEC_FLOAT("scale", 0),
                                          CARNOT_SPEC_FLOAT("softcap", 0),
                                          CARNOT_SPEC_INT("softmax_precision", 0),
                                          CARNOT_SPEC_END};

const carnot_op_row carnot_op_attention = {
    .name = "attention",
    .min_inputs = 3,
    .max_inputs = 7,
    .min_outputs = 1,
    .max_outputs = 4,
    .attrs = kAttrs,
    .infer = infer_attention,
    .reference = run_attention,
    .source = "ONNX Attention-25",
    .layer_type = "ATTENTION",
};
