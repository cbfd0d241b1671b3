// Convolution of BF16 operands by AMX: float32 sums, see conv2d_tiles_loop.h.
#include "kernel/cpu/conv/conv2d_bf16_tiles.h"

#include "kernel/cpu/common/gate_bf16.h"
#include "kernel/cpu/conv/conv2d_tiles_loop.h"
#include "kernel/cpu/gemm/load_bf16.h"

// ---- the copy of pixels ----

CARNOT_INLINE void copy_pixels_of(bool is_bf16, const tiles_call* call, const char* from,
                                  int64_t stride, int64_t count, char* to) {
  const int64_t channels = call->conv.c, depth = call->layout.depth;
  // One tile's row a pixel: the masks of all pixels are the same.
  if (channels <= 32) {
    for (int64_t i = 0; i < count; ++i, from += stride, to += kTileBytes)
      _mm512_store_si512(to, load_bf16_32(is_bf16, from, 0, channels));
    return;
  }
  for (int64_t i = 0; i < count; ++i, from += stride, to += depth)
    for (int64_t k = 0; k < channels; k += 32)
      _mm512_store_si512(to + k * 2, load_bf16_32(is_bf16, from, k, channels - k));
}

static void copy_pixels(const tiles_call* call, const char* from, int64_t stride, int64_t count,
                        char* to) {
  if (((const carnot_conv2d_bf16_tiles*)call->problem)->src_is_bf16)
    copy_pixels_of(true, call, from, stride, count, to);
  else
    copy_pixels_of(false, call, from, stride, count, to);
}

// |count| numbers from |from| on; returns whether all are finite.
CARNOT_INLINE bool copy_numbers(bool is_bf16, const char* from, int64_t count, char* to) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  __mmask32 wrong = 0;
  for (int64_t k = 0; k < count; k += 32) {
    const __m512i x = load_bf16_32(is_bf16, from, k, count - k);
    wrong |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
    if (count - k >= 32)
      _mm512_storeu_si512(to + k * 2, x);
    else
      _mm512_mask_storeu_epi16(to + k * 2, (__mmask32)((UINT64_C(1) << (count - k)) - 1), x);
  }
  return !wrong;
}

// Element |e| of interleaved pixels of |c| channels among 32 pixels of channels 0 and 1, or 2
// and 3.
#define PLANE_LANE(c, e) ((uint16_t)((e) / (c) + 32 * ((e) % (c) % 2)))
#define PLANE_LANES4(c, e) \
  PLANE_LANE(c, e), PLANE_LANE(c, (e) + 1), PLANE_LANE(c, (e) + 2), PLANE_LANE(c, (e) + 3)
#define PLANE_LANES16(c, e) \
  PLANE_LANES4(c, e), PLANE_LANES4(c, (e) + 4), PLANE_LANES4(c, (e) + 8), PLANE_LANES4(c, (e) + 12)
#define PLANE_LANES(c, v) \
  { PLANE_LANES16(c, 32 * (v)), PLANE_LANES16(c, 32 * (v) + 16) }

// The same of pixels whose channels lie |src_c| elements apart, |channels| a constant.
CARNOT_INLINE bool interleave_planes(int channels, bool is_bf16, const char* from, int64_t src_c,
                                     int64_t count, char* to) {
  static const uint16_t lanes[3][4][32] = {
      {PLANE_LANES(2, 0), PLANE_LANES(2, 1)},
      {PLANE_LANES(3, 0), PLANE_LANES(3, 1), PLANE_LANES(3, 2)},
      {PLANE_LANES(4, 0), PLANE_LANES(4, 1), PLANE_LANES(4, 2), PLANE_LANES(4, 3)}};
  static const uint32_t upper[3][4] = {// elements of channels 2 and 3
                                       {0},
                                       {0x24924924, 0x49249249, 0x92492492},
                                       {0xcccccccc, 0xcccccccc, 0xcccccccc, 0xcccccccc}};
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  const int64_t plane = src_c * (is_bf16 ? 2 : 4);
  __mmask32 wrong = 0;
  for (int64_t j = 0; j < count; j += 32, to += 64 * channels) {
    __m512i x[4];
    CARNOT_UNROLL
    for (int k = 0; k < channels; ++k) {
      x[k] = load_bf16_32(is_bf16, from + k * plane, j, count - j);
      wrong |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x[k], exponent), exponent);
    }
    const int64_t left = (count - j) * channels;
    CARNOT_UNROLL
    for (int v = 0; v < channels; ++v) {
      const __m512i lane = _mm512_loadu_si512(lanes[channels - 2][v]);
      __m512i y = _mm512_permutex2var_epi16(x[0], lane, x[1]);
      if (channels > 2)
        y = _mm512_mask_blend_epi16(upper[channels - 2][v], y,
                                    _mm512_permutex2var_epi16(x[2], lane, x[channels > 3 ? 3 : 2]));
      if (left >= 32 * (v + 1))
        _mm512_storeu_si512(to + 64 * v, y);
      else if (left > 32 * v)
        _mm512_mask_storeu_epi16(to + 64 * v, (__mmask32)((UINT64_C(1) << (left - 32 * v)) - 1), y);
    }
  }
  return !wrong;
}

CARNOT_INLINE bool copy_planes(int64_t channels, bool is_bf16, const char* from, int64_t src_c,
                               int64_t count, char* to) {
  switch (channels) {
    case 1: return copy_numbers(is_bf16, from, count, to);
    case 2: return interleave_planes(2, is_bf16, from, src_c, count, to);
    case 3: return interleave_planes(3, is_bf16, from, src_c, count, to);
    default: return interleave_planes(4, is_bf16, from, src_c, count, to);
  }
}

static bool copy_dense(const tiles_call* call, const char* row, int64_t w, int64_t count,
                       char* to) {
  const carnot_conv2d_bf16_tiles* p = call->problem;
  const tiles_conv* c = &call->conv;
  const int64_t pixel = c->c * c->element;
  const int64_t begin = min_i64(count, max_i64(0, -w)),
                end = max_i64(begin, min_i64(count, c->w - w));
  const int64_t element = p->src_is_bf16 ? 2 : 4;
  const bool planes = p->src_c > 1, together = planes || c->src_w == c->c * element;
  const int64_t at_once = together ? end - begin : 1;
  bool finite = true;
  memset(to, 0, (size_t)(begin * pixel));
  for (int64_t j = begin; j < end; j += at_once) {
    const char* from = row + (w + j) * c->src_w;
    if (planes)
      finite &= p->src_is_bf16 ? copy_planes(c->c, true, from, p->src_c, at_once, to + j * pixel)
                               : copy_planes(c->c, false, from, p->src_c, at_once, to + j * pixel);
    else
      finite &= p->src_is_bf16 ? copy_numbers(true, from, at_once * c->c, to + j * pixel)
                               : copy_numbers(false, from, at_once * c->c, to + j * pixel);
  }
  memset(to + end * pixel, 0, (size_t)((count - end) * pixel));
  return finite;
}

// ---- the epilogue ----

typedef enum residual_type { RESIDUAL_NONE, RESIDUAL_F32, RESIDUAL_BF16 } residual_type;

typedef struct epilogue {
  vf32 bias[2], lo, hi;
  __mmask32 columns;  // of 32 that exist
  // Of BF16 results without a residual; else activate_f32 computes it.
  carnot_kernel_activation rough;
  bool stores;
} epilogue;

_Static_assert(sizeof(epilogue) <= kEpilogueBytes, "kEpilogueBytes is too small");

// x Phi(x) for results in BF16: Phi as an odd polynomial on [-4, 4], 2.3e-5, and 0 below -5.5.
CARNOT_INLINE vf32 gelu_roughly(vf32 x) {
  static const float c[] = {0.3988475f,     -0.06617533f,    0.009664837f,   -0.001048193f,
                            8.0665595e-05f, -4.1007147e-06f, 1.2170462e-07f, -1.5806754e-09f};
  const vf32 near = v_min_to(v_set(4), v_max_to(v_set(-4), x)), z = v_mul(near, near);
  vf32 y = v_set(c[7]);
  CARNOT_UNROLL
  for (int i = 6; i >= 0; --i) y = v_fma(y, z, v_set(c[i]));
  const __mmask16 some = _mm512_cmp_ps_mask(x, v_set(-5.5f), _CMP_NLT_UQ);
  return _mm512_maskz_mul_ps(some, x, v_fma(near, y, v_set(0.5f)));
}

CARNOT_INLINE vf32 residual_of(residual_type type, const float* residual, int64_t at,
                               __mmask16 columns) {
  if (type == RESIDUAL_F32) return _mm512_maskz_loadu_ps(columns, residual + at);
  const uint16_t* bf16 = (const uint16_t*)(const void*)residual;
  return v_widen_bf16(_mm256_maskz_loadu_epi16(columns, bf16 + at));
}

CARNOT_INLINE vf32 activate_roughly(carnot_kernel_activation activation, vf32 x) {
  return activation == CARNOT_KERNEL_ACTIVATION_GELU_ERF ? gelu_roughly(x)
                                                         : v_gate_bf16(activation, x);
}

// Rows [begin, end) of a step.
typedef struct finished_rows {
  const tiles_step* step;
  int64_t n;
  int begin, end;
  float* sums;
} finished_rows;

// Results of whole vectors in BF16, of pixels that lie one behind the other.
CARNOT_INLINE void finish_dense(residual_type type, const carnot_conv2d_bf16_tiles* p,
                                const epilogue* e, const finished_rows* r) {
  const int64_t m = r->step->out[0] + r->begin, ld = p->conv.ld,
                residual_ld = p->conv.epilogue.residual_ld;
  const vf32 lo = e->lo, hi = e->hi, bias[2] = {e->bias[0], e->bias[1]};
  const float *sums = r->sums + r->begin * kStepColumns, *end = r->sums + r->end * kStepColumns,
              *residual = p->conv.epilogue.residual;
  uint16_t* dst = (uint16_t*)(void*)p->conv.dst + m * ld + r->n;
  int64_t at = m * residual_ld + r->n;
  for (; sums < end; sums += kStepColumns, dst += ld, at += residual_ld) {
    vf32 x[2];
    CARNOT_UNROLL
    for (int v = 0; v < 2; ++v) {
      x[v] = v_add(v_load(sums + v * kPanel), bias[v]);
      if (type != RESIDUAL_NONE)
        x[v] = v_add(x[v], residual_of(type, residual, at + v * kPanel, 0xffff));
      x[v] = v_min_to(hi, v_max_to(lo, x[v]));
    }
    _mm512_storeu_si512(dst, (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]));
  }
}

// |vectors| of 16 columns, |whole| or masked.
CARNOT_INLINE void finish_rows(residual_type type, carnot_kernel_activation rough, bool as_bf16,
                               int vectors, bool whole, const carnot_conv2d_bf16_tiles* p,
                               const epilogue* e, const finished_rows* r) {
  const tiles_step* s = r->step;
  const float* residual = p->conv.epilogue.residual;
  const int64_t residual_ld = p->conv.epilogue.residual_ld, ld = p->conv.ld, n = r->n;
  const __mmask32 mask = whole ? 0xffffffff : e->columns;
  const vf32 lo = e->lo, hi = e->hi, bias[2] = {e->bias[0], e->bias[1]};
  float* f32 = p->conv.dst + n;
  uint16_t* bf16 = (uint16_t*)(void*)p->conv.dst + n;
  float* sums = r->sums + r->begin * kStepColumns;
  for (int i = r->begin; i < r->end; ++i, sums += kStepColumns) {
    const int64_t m = s->dense ? s->out[0] + i : s->out[i];
    if (m < 0) continue;
    vf32 x[2];
    CARNOT_UNROLL
    for (int v = 0; v < vectors; ++v) {
      const __mmask16 part = (__mmask16)(mask >> 16 * v);
      x[v] = v_add(v_load(sums + v * kPanel), bias[v]);
      if (type != RESIDUAL_NONE)
        x[v] = v_add(x[v], residual_of(type, residual, m * residual_ld + n + v * kPanel, part));
      x[v] = rough ? activate_roughly(rough, x[v]) : v_min_to(hi, v_max_to(lo, x[v]));
      if (!e->stores) v_store(sums + v * kPanel, x[v]);
      if (e->stores && !as_bf16) _mm512_mask_storeu_ps(f32 + m * ld + v * kPanel, part, x[v]);
    }
    if (e->stores && as_bf16) {
      if (vectors == 1)
        _mm256_mask_storeu_epi16(bf16 + m * ld, (__mmask16)mask, v_narrow_bf16(x[0]));
      else if (whole)
        _mm512_storeu_si512(bf16 + m * ld, (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]));
      else
        _mm512_mask_storeu_epi16(bf16 + m * ld, mask, (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]));
    }
  }
}

CARNOT_INLINE void finish_columns(residual_type type, carnot_kernel_activation rough, bool as_bf16,
                                  const carnot_conv2d_bf16_tiles* p, const epilogue* e,
                                  const finished_rows* r) {
  if (!rough && as_bf16 && e->columns == 0xffffffff && e->stores && r->step->dense)
    finish_dense(type, p, e, r);
  else if (e->columns == 0xffffffff)
    finish_rows(type, rough, as_bf16, 2, true, p, e, r);
  else if (e->columns > 0xffff)
    finish_rows(type, rough, as_bf16, 2, false, p, e, r);
  else
    finish_rows(type, rough, as_bf16, 1, false, p, e, r);
}

CARNOT_INLINE void finish_as(residual_type type, const carnot_conv2d_bf16_tiles* p,
                             const epilogue* e, const finished_rows* r) {
  if (p->dst_is_bf16)
    finish_columns(type, 0, true, p, e, r);
  else
    finish_columns(type, 0, false, p, e, r);
}

static void finish(const carnot_conv2d_bf16_tiles* p, const epilogue* e, bool adds,
                   const finished_rows* r) {
  if (e->rough == CARNOT_KERNEL_ACTIVATION_SILU)
    finish_columns(RESIDUAL_NONE, CARNOT_KERNEL_ACTIVATION_SILU, true, p, e, r);
  else if (e->rough == CARNOT_KERNEL_ACTIVATION_HARD_SWISH)
    finish_columns(RESIDUAL_NONE, CARNOT_KERNEL_ACTIVATION_HARD_SWISH, true, p, e, r);
  else if (e->rough)
    finish_columns(RESIDUAL_NONE, CARNOT_KERNEL_ACTIVATION_GELU_ERF, true, p, e, r);
  else if (!adds || !p->conv.epilogue.residual)
    finish_as(RESIDUAL_NONE, p, e, r);
  else if (p->residual_is_bf16)
    finish_as(RESIDUAL_BF16, p, e, r);
  else
    finish_as(RESIDUAL_F32, p, e, r);
}

// ---- steps ----

static void sum(const tiles_call* call, const tiles_step* s, int64_t n, tiles_overlap* overlap,
                char* sums) {
  sums_of_step(TILES_BF16, call, s, n, overlap, sums);
}

// Of columns [n, n + 32) or up to n1. Bounds are infinite where there are none; NaN passes both.
// Fields are written one by one: a copy of the whole would wait for all stores before it.
static void prepare(const tiles_call* call, int64_t n, void* state) {
  const carnot_conv2d_bf16_tiles* p = call->problem;
  const carnot_epilogue_f32* ep = &p->conv.epilogue;
  epilogue* e = state;
  const int64_t left = call->n1 - n;
  const carnot_kernel_activation activation = ep->activation;
  const bool clips = activation == CARNOT_KERNEL_ACTIVATION_CLIP;
  const bool rectifies = activation == CARNOT_KERNEL_ACTIVATION_RELU;
  const __mmask32 columns =
      left >= kStepColumns ? 0xffffffff : (__mmask32)((UINT64_C(1) << left) - 1);
  e->columns = columns;
  for (int v = 0; v < 2; ++v) {
    const __mmask16 part = (__mmask16)(columns >> 16 * v);
    e->bias[v] = ep->bias ? _mm512_maskz_loadu_ps(part, ep->bias + n + v * kPanel) : v_zero();
  }
  e->lo = v_set(clips ? ep->a : rectifies ? 0 : -__builtin_inff());
  e->hi = v_set(clips ? ep->b : __builtin_inff());
  const bool is_rough =
      p->dst_is_bf16 && !ep->residual &&
      (activation == CARNOT_KERNEL_ACTIVATION_GELU_ERF || carnot_kernel_is_gate(activation));
  e->rough = is_rough ? activation : CARNOT_KERNEL_ACTIVATION_NONE;
  e->stores = is_rough || clips || rectifies || activation == CARNOT_KERNEL_ACTIVATION_NONE;
}

static void store(const tiles_call* call, const void* state, const tiles_step* s, int64_t n,
                  int begin, int end, void* sums) {
  const carnot_conv2d_bf16_tiles* p = call->problem;
  const carnot_epilogue_f32* ep = &p->conv.epilogue;
  const finished_rows rows = {s, n, begin, end, sums};
  finish(p, state, /*adds=*/true, &rows);
  if (((const epilogue*)state)->stores) return;
  CARNOT_KERNEL(activate_f32)
  (ep->activation, ep->a, ep->b, rows.sums + begin * kStepColumns, kStepColumns, end - begin,
   kStepColumns);
  epilogue last = *(const epilogue*)state;
  last.stores = true;
  last.bias[0] = last.bias[1] = v_zero();
  finish(p, &last, /*adds=*/false, &rows);
}

void CARNOT_KERNEL(conv2d_bf16_tiles)(const carnot_conv2d_bf16_tiles* p, int64_t m0, int64_t m1,
                                      int64_t n0, int64_t n1) {
  tiles_call call = {.conv = tiles_conv_of_bf16(p),
                     .problem = p,
                     .copy_pixels = copy_pixels,
                     .copy_dense = copy_dense,
                     .sum = sum,
                     .prepare = prepare,
                     .store = store,
                     .scratch = p->scratch,
                     .weights = p->conv.weights,
                     .n0 = n0,
                     .n1 = n1};
  run_tiles(&call, m0, m1);
}
