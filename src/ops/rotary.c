// Rotary position embedding: pairs (a, b) of each head are turned by the angle of their position.
//   a' = cos*a - sin*b;  b' = sin*a + cos*b
// X [B,H,T,d], or [B,T,H*d] with num_heads. The first |rotary_embedding_dim| elements r of a head
// turn (0: all d), the rest stay; pairs are (i, i + r/2), with |interleaved| (2i, 2i+1). cos and
// sin [P,r/2], taken at position_ids [B,T], or [B,T,r/2] without them; [1,T,r/2] serves the whole
// batch. Computed in double.
#include "ops/util.h"

static carnot_status* infer_rotary(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_rank(infer, 0, 3, 4, &x));
  CARNOT_CHECK(x->rank != 3 || carnot_infer_int(infer, "num_heads") > 0, INVALID_MODEL,
               "an input of rank 3 requires attribute num_heads");
  return carnot_infer_like(infer, 0, 0, x->dtype);
}

typedef struct rotary {
  int64_t batch, heads, time, size, turned;
  bool heads_last, interleaved;
} rotary;

static carnot_status* read_sizes(const carnot_call* call, rotary* r) {
  const carnot_tensor* x = carnot_call_in(call, 0);
  r->heads_last = x->rank == 3;
  r->batch = x->dims[0];
  r->heads = r->heads_last ? carnot_call_int(call, "num_heads") : x->dims[1];
  r->time = x->dims[r->heads_last ? 1 : 2];
  CARNOT_CHECK(!r->heads_last || x->dims[2] % r->heads == 0, INVALID_MODEL,
               "%lld elements do not divide into %lld heads", (long long)x->dims[2],
               (long long)r->heads);
  r->size = r->heads_last ? x->dims[2] / r->heads : x->dims[3];
  r->turned = carnot_call_int(call, "rotary_embedding_dim");
  if (r->turned == 0) r->turned = r->size;
  r->interleaved = carnot_call_int(call, "interleaved") != 0;
  CARNOT_CHECK(r->turned > 0 && r->turned % 2 == 0 && r->turned <= r->size, INVALID_MODEL,
               "%lld elements turn of a head of %lld; an even number up to it is required",
               (long long)r->turned, (long long)r->size);
  return NULL;
}

// The row of the caches for every batch and time.
static carnot_status* read_rows(const carnot_call* call, const rotary* r, int64_t** out_rows) {
  const carnot_tensor *cos_cache = carnot_call_in(call, 1), *sin_cache = carnot_call_in(call, 2),
                      *ids = carnot_call_in(call, 3);
  int64_t half = r->turned / 2, rows = carnot_tensor_count(cos_cache) / half, *list = NULL;
  CARNOT_CHECK(cos_cache->rank > 0 && cos_cache->dims[cos_cache->rank - 1] == half &&
                   carnot_tensor_count(sin_cache) == rows * half,
               INVALID_MODEL, "the last dimension of the caches is %lld; %lld is required",
               (long long)(cos_cache->rank ? cos_cache->dims[cos_cache->rank - 1] : 0),
               (long long)half);
  CARNOT_CHECK(ids ? carnot_tensor_count(ids) == r->batch * r->time
                   : rows == r->batch * r->time || rows == r->time,
               INVALID_MODEL, "%lld positions for %lld batches of %lld",
               (long long)(ids ? carnot_tensor_count(ids) : rows), (long long)r->batch,
               (long long)r->time);
  CARNOT_TRY(carnot_call_array(call, r->batch * r->time, sizeof(int64_t), &list));
  for (int64_t i = 0; i < r->batch * r->time; i++) {
    list[i] = ids ? carnot_load_i64(ids->dtype, ids->data, (size_t)i) : i % rows;
    CARNOT_CHECK(list[i] >= 0 && list[i] < rows, INVALID_ARGUMENT,
                 "position %lld is outside [0, %lld)", (long long)list[i], (long long)rows);
  }
  *out_rows = list;
  return NULL;
}

static carnot_status* run_rotary(carnot_call* call) {
  carnot_tensor* y = carnot_call_out(call, 0);
  if (!y || carnot_tensor_count(y) == 0) return NULL;
  rotary r = {0};
  const double *x, *cosines, *sines;
  double* out;
  int64_t* rows = NULL;
  CARNOT_TRY(read_sizes(call, &r));
  CARNOT_TRY(read_rows(call, &r, &rows));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 0), &x));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 1), &cosines));
  CARNOT_TRY(carnot_call_f64(call, carnot_call_in(call, 2), &sines));
  CARNOT_TRY(carnot_call_f64_out(call, y, &out));
  int64_t half = r.turned / 2;
  for (int64_t i = 0; i < r.batch * r.heads * r.time; i++) {
    int64_t b = i / (r.heads * r.time), h = i / r.time % r.heads, t = i % r.time;
    int64_t at = (r.heads_last ? (b * r.time + t) * r.heads + h : i) * r.size;
    const double* c = cosines + rows[b * r.time + t] * half;
    const double* s = sines + rows[b * r.time + t] * half;
    for (int64_t k = r.turned; k < r.size; k++) out[at + k] = x[at + k];
    for (int64_t k = 0; k < half; k++) {
      int64_t first = at + (r.interleaved ? 2 * k : k), second = first + (r.interleaved ? 1 : half);
      double p = x[first], q = x[second];
      out[first] = c[k] * p - s[k] * q;
      out[second] = s[k] * p + c[k] * q;
    }
  }
  carnot_write_f64(y, out);
  return NULL;
}

static const carnot_attr_spec kAttrs[] = {
    CARNOT_SPEC_INT("interleaved", 0), CARNOT_SPEC_INT("num_heads", 0),
    CARNOT_SPEC_INT("rotary_embedding_dim", 0), CARNOT_SPEC_END};

const carnot_op_row carnot_op_rotary_embedding = {
    .name = "rotary_embedding",
    .min_inputs = 3,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kAttrs,
    .infer = infer_rotary,
    .reference = run_rotary,
    .source = "ONNX RotaryEmbedding-23; Su et al., RoFormer, section 3.4",
    .layer_type = "ROTARY_EMBEDDING",
};
