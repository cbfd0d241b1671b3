// Attention over bytes: two integer GEMMs with keys and values packed on the way, softmax between.
//
// With x' = x + shift, shift 128 for signed x, and w' = w - 128 for unsigned w, zeros moved along:
//   sum (x - x0) (w - w0) = sum x' w' - x0' sum w' - w0' sum (x - x0)
// of which the second term is the GEMM's bias and the third one number a row.
#include "kernel/cpu/attention/attention_u8s8.h"

#include "kernel/cpu/common/kernels_isa.h"

// ---- packing ----

// 0x80 for the bytes of |m|, which become signed by it.
static uint8_t flip_of(const carnot_byte_matrix* m) { return m->is_signed ? 0 : 0x80; }

static int32_t signed_zero(const carnot_byte_matrix* m) {
  return m->zero_point - (m->is_signed ? 0 : 128);
}

CARNOT_INLINE uint32_t word_of(const uint8_t* p, int64_t bytes) {
  uint32_t x = 0;
  memcpy(&x, p, (size_t)bytes);
  return x;
}

// The sum of |n| bytes, signed after |flip|.
static int32_t sum_of(const uint8_t* src, int64_t n, uint8_t flip) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += (int8_t)(src[i] ^ flip);
  return sum;
}

// Matrix [n,depth] whose rows become columns; |sums| [n] of the signed bytes.
static void pack_rows(const carnot_byte_matrix* m, int64_t n, int64_t depth, int8_t* packed,
                      int32_t* sums) {
  const int64_t steps = (depth + 3) / 4, whole = depth / 4, rest = depth % 4;
  const uint32_t flip = flip_of(m) * 0x01010101u;
  const uint32_t flip_rest = rest ? flip >> 8 * (4 - rest) : 0;
  for (int64_t row = 0; row < (n + 15) / 16 * 16; ++row) {
    uint32_t* dst = (uint32_t*)(void*)packed + row / 16 * steps * 16 + row % 16;
    if (row >= n) {
      for (int64_t step = 0; step < steps; ++step) dst[step * 16] = 0;
      continue;
    }
    const uint8_t* src = (const uint8_t*)m->data + row * m->ld;
    for (int64_t step = 0; step < whole; ++step) dst[step * 16] = word_of(src + 4 * step, 4) ^ flip;
    if (rest) dst[whole * 16] = word_of(src + 4 * whole, rest) ^ flip_rest;
    sums[row] = sum_of(src, depth, flip_of(m));
  }
}

// Keys of which the products with the values are summed in int32.
enum { kRun = CARNOT_ATTENTION_MOST_TERMS };

// Four rows of 16 columns side by side, and their signed bytes to |sum|.
CARNOT_INLINE void interleave(const uint8_t* src, int64_t ld, uint8_t flip, uint32_t* dst,
                              int32_t* sum) {
  for (int j = 0; j < 16; ++j) {
    const uint32_t a = src[j] ^ flip, b = src[ld + j] ^ flip, c = src[2 * ld + j] ^ flip,
                   d = src[3 * ld + j] ^ flip;
    dst[j] = a | b << 8 | c << 16 | d << 24;
    sum[j] += (int8_t)a + (int8_t)b + (int8_t)c + (int8_t)d;
  }
}

// Matrix [depth,n]; |sums| [n] of the signed bytes of a column.
static void pack_columns(const carnot_byte_matrix* m, int64_t depth, int64_t n, int8_t* packed,
                         int32_t* sums) {
  const int64_t steps = (depth + 3) / 4;
  const uint8_t flip = flip_of(m);
  for (int64_t c = 0; c < n; c += 16) {
    const int64_t columns = min_i64(16, n - c);
    int32_t sum[16] = {0};
    for (int64_t step = 0; step < steps; ++step) {
      int8_t* dst = packed + (c / 16 * steps + step) * 64;
      const uint8_t* src = (const uint8_t*)m->data + 4 * step * m->ld + c;
      if (columns == 16 && 4 * step + 4 <= depth) {
        interleave(src, m->ld, flip, (uint32_t*)(void*)dst, sum);
        continue;
      }
      memset(dst, 0, 64);
      for (int64_t i = 0; i < min_i64(4, depth - 4 * step); ++i, src += m->ld)
        for (int64_t j = 0; j < columns; ++j) {
          dst[4 * j + i] = (int8_t)(src[j] ^ flip);
          sum[j] += dst[4 * j + i];
        }
    }
    for (int64_t j = 0; j < columns; ++j) sums[c + j] = sum[j];
  }
}

// Sums of packed bytes -> the bias of the GEMM with |x| on the other side.
static void make_bias(const carnot_byte_matrix* x, int64_t n, int32_t* sums) {
  const int32_t zero = x->zero_point + (x->is_signed ? 128 : 0);
  for (int64_t i = 0; i < n; ++i) sums[i] *= -zero;
}

// -w0' sum (x - x0) of one row of |n| bytes.
static int32_t row_term(const carnot_byte_matrix* x, const uint8_t* row, int64_t n,
                        int32_t zero_of_w) {
  int32_t sum = 0;
  if (x->is_signed) {
    for (int64_t i = 0; i < n; ++i) sum += (int8_t)row[i];
  } else {
    for (int64_t i = 0; i < n; ++i) sum += row[i];
  }
  return -zero_of_w * (sum - (int32_t)n * x->zero_point);
}

// ---- rows ----

// |s|, an integer before it is rounded, as its dequantized value.
CARNOT_INLINE vf32 round_score(vf32 s, vf32 zero, vf32 lo, vf32 hi, vf32 scale) {
  s = v_round(s);
  s = v_add(v_select(v_is_nan(s), v_zero(), s), zero);
  return v_mul(v_sub(v_min_to(hi, v_max_to(lo, s)), zero), scale);
}

CARNOT_INLINE vf32 round_to(const carnot_score_rounding* r, vf32 s) {
  if (r->scale == 0) return s;
  const vf32 scale = v_set(r->scale);
  return round_score(v_div(s, scale), v_set((float)r->zero), v_set((float)r->low),
                     v_set((float)r->high), scale);
}

// Scores of one row in place: sums become floats.
static void score_row(const carnot_attention_u8s8* p, int32_t term, const float* mask,
                      int32_t* sums) {
  const vf32 m = v_set(p->score_scale), zero = v_set((float)p->s_zero), scale = v_set(p->s_scale);
  const vf32 lo = v_set((float)p->s_low), hi = v_set((float)p->s_high), factor = v_set(p->factor);
  for (int64_t j = 0; j < p->kv_len; j += V_LANES) {
    const int64_t left = p->kv_len - j;
    vf32 s = v_mul(v_of_int(v_iadd(v_iload(sums + j), v_iset(term))), m);
    if (p->rounds_scores) s = round_score(s, zero, lo, hi, scale);
    s = round_to(&p->scaled, p->divides ? v_div(s, factor) : v_mul(s, factor));
    if (mask) s = v_add(s, v_load_upto(mask + j, left));
    s = round_to(&p->masked, s);
    v_store((float*)(void*)(sums + j), s);
  }
}

// Results of a row from column |j| on, of sums as floats.
CARNOT_INLINE void store_results(const carnot_attention_u8s8* p, int64_t row, int64_t j,
                                 vf32 sums) {
  const int64_t left = p->dv - j, at = row * p->dst_ld + j;
  vf32 y = v_mul(sums, v_set(p->out_scale));
  if (p->output == CARNOT_INT8_OUTPUT_F32) {
    v_store_upto((float*)p->dst + at, y, left);
    return;
  }
  y = v_round(y);
  y = v_add(v_select(v_is_nan(y), v_zero(), y), v_set((float)p->y_zero));
  y = v_min_to(v_set((float)p->y_high), v_max_to(v_set((float)p->y_low), y));
  v_store_bytes_upto((uint8_t*)p->dst + at, v_to_int(y), left);
}

static void store_sums(const carnot_attention_u8s8* p, const int32_t* sums, int32_t term,
                       int64_t row) {
  for (int64_t j = 0; j < p->dv; j += V_LANES)
    store_results(p, row, j, v_of_int(v_iadd(v_iload(sums + j), v_iset(term))));
}

static void store_totals(const carnot_attention_u8s8* p, const int64_t* totals, int64_t row) {
  for (int64_t j = 0; j < p->dv; j += V_LANES) {
    float lanes[V_LANES] = {0};
    for (int64_t i = 0; i < min_i64(p->dv - j, V_LANES); ++i) lanes[i] = (float)totals[j + i];
    store_results(p, row, j, v_load(lanes));
  }
}

typedef struct buffers {
  int8_t *keys, *values;           // packed; values in runs of |run_bytes|
  int32_t *key_bias, *value_bias;  // of the GEMMs; [dv] for each run
  int32_t* sums;                   // [rows, sum_ld], and the scores in place
  uint8_t* weights;                // [rows, kv_len]
  int64_t* totals;                 // [rows, dv]
  int64_t sum_ld, run_bytes, run_columns;
} buffers;

static void* take(char** at, int64_t bytes) {
  char* taken = *at;
  *at += (bytes + 63) / 64 * 64;
  return taken;
}

static buffers make_buffers(const carnot_attention_u8s8* p) {
  char* at = p->workspace;
  const int64_t rows = carnot_attention_u8s8_rows(p->kv_len), runs = (p->kv_len + kRun - 1) / kRun;
  buffers b = {.sum_ld = (max_i64(p->kv_len, p->dv) + 15) / 16 * 16,
               .run_columns = (p->dv + 15) / 16 * 16};
  b.run_bytes = (carnot_packed_k4n16_bytes(1, min_i64(p->kv_len, kRun), p->dv) + 63) / 64 * 64;
  b.keys = take(&at, carnot_packed_k4n16_bytes(1, p->d, p->kv_len));
  b.values = take(&at, runs * b.run_bytes);
  b.key_bias = take(&at, p->kv_len * 4);
  b.value_bias = take(&at, runs * b.run_columns * 4);
  b.sums = take(&at, rows * b.sum_ld * 4);
  b.weights = take(&at, rows * p->kv_len);
  b.totals = take(&at, rows * p->dv * 8);
  return b;
}

static void soften(const carnot_attention_u8s8* p, const buffers* b, int64_t rows) {
  const carnot_softmax_f32 softmax = {.n = p->kv_len,
                                      .inner = 1,
                                      .src = (const float*)(const void*)b->sums,
                                      .src_outer = b->sum_ld,
                                      .src_axis = 1,
                                      .dst = (float*)(void*)b->sums,
                                      .dst_outer = b->sum_ld,
                                      .dst_axis = 1};
  const uint8_t zero = (uint8_t)p->p_zero;
  const carnot_quantize quantize = {
      .n = p->kv_len, .is_signed = p->p_signed, .scale = &p->p_scale, .zero_point = &zero};
  CARNOT_KERNEL(softmax_f32)(&softmax, 0, rows);
  CARNOT_KERNEL(quantize_f32)
  (&quantize, rows, (const float*)(const void*)b->sums, b->sum_ld, b->weights, p->kv_len);
}

// The weights of a run of keys from |first| on.
static carnot_byte_matrix weights_of(const carnot_attention_u8s8* p, const buffers* b,
                                     int64_t first) {
  return (carnot_byte_matrix){b->weights + first, p->kv_len, p->p_signed, p->p_zero};
}

// Weights * values of the run of keys from |first| on -> the sums.
static void multiply_values(const carnot_attention_u8s8* p, const buffers* b, int64_t rows,
                            int64_t first) {
  const carnot_byte_matrix weights = weights_of(p, b, first);
  const int64_t run = first / kRun;
  const carnot_gemm_u8s8 gemm = {
      .m = rows,
      .n = p->dv,
      .k = min_i64(kRun, p->kv_len - first),
      .a = weights.data,
      .lda = p->kv_len,
      .a_signed = p->p_signed,
      .b = b->values + run * b->run_bytes,
      .dst = b->sums,
      .ld = b->sum_ld,
      .epilogue = {.bias = b->value_bias + run * b->run_columns, .output = CARNOT_INT8_OUTPUT_S32}};
  p->gemm(&gemm, 0, rows, 0, p->dv);
}

static int32_t value_term(const carnot_attention_u8s8* p, const carnot_byte_matrix* weights,
                          int64_t i, int64_t keys) {
  const uint8_t* row = (const uint8_t*)weights->data + i * p->kv_len;
  return row_term(weights, row, keys, signed_zero(&p->v));
}

// totals += weights * values of the run of keys from |first| on.
static void add_values(const carnot_attention_u8s8* p, const buffers* b, int64_t rows,
                       int64_t first) {
  const carnot_byte_matrix weights = weights_of(p, b, first);
  const int64_t keys = min_i64(kRun, p->kv_len - first);
  multiply_values(p, b, rows, first);
  for (int64_t i = 0; i < rows; ++i) {
    const int32_t term = value_term(p, &weights, i, keys);
    const int32_t* sums = b->sums + i * b->sum_ld;
    for (int64_t j = 0; j < p->dv; ++j)
      b->totals[i * p->dv + j] += (int32_t)((uint32_t)sums[j] + (uint32_t)term);
  }
}

// Results of rows from |m| on. The sums of one run of keys fit in int32.
static void attend_values(const carnot_attention_u8s8* p, const buffers* b, int64_t m,
                          int64_t rows) {
  if (p->kv_len <= kRun) {
    const carnot_byte_matrix weights = weights_of(p, b, 0);
    multiply_values(p, b, rows, 0);
    for (int64_t i = 0; i < rows; ++i)
      store_sums(p, b->sums + i * b->sum_ld, value_term(p, &weights, i, p->kv_len), m + i);
    return;
  }
  memset(b->totals, 0, (size_t)(rows * p->dv) * sizeof *b->totals);
  for (int64_t j = 0; j < p->kv_len; j += kRun) add_values(p, b, rows, j);
  for (int64_t i = 0; i < rows; ++i) store_totals(p, b->totals + i * p->dv, m + i);
}

static void attend_tile(const carnot_attention_u8s8* p, const buffers* b, int64_t m, int64_t rows) {
  const uint8_t* q = (const uint8_t*)p->q.data + m * p->q.ld;
  const carnot_gemm_u8s8 gemm = {
      .m = rows,
      .n = p->kv_len,
      .k = p->d,
      .a = q,
      .lda = p->q.ld,
      .a_signed = p->q.is_signed,
      .b = b->keys,
      .dst = b->sums,
      .ld = b->sum_ld,
      .epilogue = {.bias = b->key_bias, .output = CARNOT_INT8_OUTPUT_S32}};
  p->gemm(&gemm, 0, rows, 0, p->kv_len);
  for (int64_t i = 0; i < rows; ++i) {
    const float* mask = p->mask ? p->mask + (m + i) * p->mask_ld : NULL;
    score_row(p, row_term(&p->q, q + i * p->q.ld, p->d, signed_zero(&p->k)), mask,
              b->sums + i * b->sum_ld);
  }
  soften(p, b, rows);
  attend_values(p, b, m, rows);
}

void CARNOT_KERNEL(attention_u8s8)(const carnot_attention_u8s8* p, int64_t q0, int64_t q1) {
  const buffers b = make_buffers(p);
  const carnot_byte_matrix weights = {NULL, 0, p->p_signed, p->p_zero};
  pack_rows(&p->k, p->kv_len, p->d, b.keys, b.key_bias);
  make_bias(&p->q, p->kv_len, b.key_bias);
  for (int64_t j = 0; j < p->kv_len; j += kRun) {
    const carnot_byte_matrix run = {(const uint8_t*)p->v.data + j * p->v.ld, p->v.ld,
                                    p->v.is_signed, p->v.zero_point};
    int32_t* bias = b.value_bias + j / kRun * b.run_columns;
    pack_columns(&run, min_i64(kRun, p->kv_len - j), p->dv, b.values + j / kRun * b.run_bytes,
                 bias);
    make_bias(&weights, p->dv, bias);
  }
  const int64_t tile = carnot_attention_u8s8_rows(p->kv_len);
  for (int64_t m = q0; m < q1; m += tile) attend_tile(p, &b, m, min_i64(tile, q1 - m));
}
