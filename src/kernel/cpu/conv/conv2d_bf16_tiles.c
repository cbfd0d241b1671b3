// Convolution of BF16 operands by AMX: four accumulators of 16 pixels by 16 channels, loaded and
// stored once for all of K.
#include "kernel/cpu/conv/conv2d_bf16_tiles.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/conv/conv2d_bf16_tiles_layout.h"
#include "kernel/cpu/gemm/amx_tiles.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

enum {
  kPanel = TILE_PANEL,
  kStepColumns = 2 * kPanel,
  kTileBytes = 1024,
  kMostSteps = 64  // of a block
};

// ---- the copy of pixels ----

CARNOT_INLINE void copy_pixel(const carnot_conv2d_bf16_tiles* p, int64_t at, int64_t depth,
                              uint16_t* dst) {
  const int64_t channels = p->conv.c;
  int64_t k = 0;
  if (p->src_is_bf16) {
    const uint16_t* src = (const uint16_t*)(const void*)p->conv.src + at;
    for (; k + 32 <= channels; k += 32) _mm512_store_si512(dst + k, _mm512_loadu_si512(src + k));
    if (k < channels) {
      const __mmask32 mask = (__mmask32)((UINT64_C(1) << (channels - k)) - 1);
      _mm512_store_si512(dst + k, _mm512_maskz_loadu_epi16(mask, src + k));
    }
  } else {
    const float* src = p->conv.src + at;
    for (; k < depth; k += 32) {
      const int64_t left = channels - k;
      const vf32 low = v_load_upto(src + k, left);
      const vf32 high = left > 16 ? v_load_upto(src + k + 16, left - 16) : v_zero();
      _mm512_store_si512(dst + k, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    }
  }
}

// The numbers under a filter row that begins at column |w0| of an input row, as one pixel.
CARNOT_INLINE void copy_filter_row(const carnot_conv2d_bf16_tiles* p, int64_t row_at, int64_t w0,
                                   int64_t channels, uint16_t* dst) {
  const carnot_conv2d_f32* c = &p->conv;
  const int64_t at = row_at + w0 * c->src_w;
  const __mmask32 mask = (__mmask32)((UINT64_C(1) << channels) - 1);
  if (w0 >= 0 && w0 + c->s <= c->w && c->src_w == c->c) {
    if (p->src_is_bf16) {
      const uint16_t* src = (const uint16_t*)(const void*)c->src + at;
      _mm512_store_si512(dst, _mm512_maskz_loadu_epi16(mask, src));
      return;
    }
    const __m512 low = _mm512_maskz_loadu_ps((__mmask16)mask, c->src + at);
    const __m512 high = _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), c->src + at + 16);
    _mm512_store_si512(dst, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    return;
  }
  float row[kTileDepth] __attribute__((aligned(64))) = {0};
  for (int64_t s = max_i64(0, -w0); s < c->s && w0 + s < c->w; ++s)
    for (int64_t k = 0; k < c->c; ++k) {
      const int64_t from = at + s * c->src_w + k;
      const uint16_t* half = (const uint16_t*)(const void*)c->src;
      uint32_t bits = p->src_is_bf16 ? (uint32_t)half[from] << 16 : 0;
      if (p->src_is_bf16)
        memcpy(&row[s * c->c + k], &bits, sizeof bits);
      else
        row[s * c->c + k] = c->src[from];
    }
  _mm512_store_si512(dst,
                     (__m512i)_mm512_cvtne2ps_pbh(_mm512_load_ps(row + 16), _mm512_load_ps(row)));
}

// A block of results, and the copy of the pixels under it.
typedef struct block {
  int64_t n, p0, rows, q0, columns;
  uint16_t* copy;
} block;

// One row of one phase: columns j of the copy are input columns j * stride + first.
static void copy_row(const carnot_conv2d_bf16_tiles* p, const tiles_layout* l, int64_t columns,
                     int64_t row_at, int64_t first, uint16_t* dst) {
  const carnot_conv2d_f32* c = &p->conv;
  for (int64_t j = 0; j < columns; ++j, dst += l->depth) {
    const int64_t w = j * c->stride_w + first;
    if (l->joins) {
      copy_filter_row(p, row_at, w, l->channels, dst);
    } else if ((uint64_t)w < (uint64_t)c->w) {
      copy_pixel(p, row_at + w * c->src_w, l->depth, dst);
    } else {
      memset(dst, 0, (size_t)l->depth * sizeof *dst);
    }
  }
}

static void copy_block(const carnot_conv2d_bf16_tiles* p, const tiles_layout* l, const block* b) {
  const carnot_conv2d_f32* c = &p->conv;
  const int64_t count = b->rows + l->copied_rows - l->rows, row = l->columns * l->depth;
  const int64_t columns = b->columns + l->columns - l->out_columns;
  uint16_t* dst = b->copy;
  for (int64_t y = 0; y < l->row_phases; ++y)
    for (int64_t x = 0; x < l->column_phases; ++x, dst += (l->copied_rows - count) * row)
      for (int64_t i = 0; i < count; ++i, dst += row) {
        const int64_t h = (b->p0 + i) * c->stride_h + y - c->pad_h;
        if ((uint64_t)h < (uint64_t)c->h) {
          copy_row(p, l, columns, b->n * c->src_n + h * c->src_h,
                   b->q0 * c->stride_w + x - c->pad_w, dst);
        } else {
          memset(dst, 0, (size_t)(columns * l->depth) * sizeof *dst);
        }
      }
}

static void find_offsets(const carnot_conv2d_f32* c, const tiles_layout* l, int64_t* offsets) {
  const int64_t columns = l->taps / c->r;
  for (int64_t r = 0; r < c->r; ++r)
    for (int64_t s = 0; s < columns; ++s) {
      const int64_t y = r * c->dilation_h, x = s * c->dilation_w;
      const int64_t phase = y % c->stride_h * l->column_phases + x % c->stride_w;
      const int64_t pixel =
          (phase * l->copied_rows + y / c->stride_h) * l->columns + x / c->stride_w;
      offsets[r * columns + s] = pixel * l->depth;
    }
}

// ---- a step: 32 pixels by 32 channels over all of K ----

typedef struct step {
  const uint16_t* a[2];    // the first pixels of two groups of 16 under tap offset 0
  int64_t stride[2];       // bytes from one pixel of a group to the next
  int groups;              // 1 or 2
  int count;               // pixels
  bool dense;              // pixels are |out[0]| and those behind it, all stored
  int64_t out[kTileRows];  // output pixels; -1: not stored
} step;

// What the steps of a call share.
typedef struct tiles_call {
  const carnot_conv2d_bf16_tiles* p;
  int64_t taps, depth, n0, n1;
  int64_t panel;  // bytes from one panel of weights to the next
  int64_t offsets[CARNOT_BF16_TILES_MAX_TAPS];
} tiles_call;

// Memory that a later step reads, some lines of which are fetched beside each tile.
typedef struct ahead {
  const char* from;
  int64_t lines;  // for each 32 elements of K
} ahead;

CARNOT_INLINE void fetch(ahead* next) {
  for (int64_t i = 0; i < next->lines; ++i, next->from += 64) _mm_prefetch(next->from, _MM_HINT_T1);
}

CARNOT_INLINE void accumulate(int groups, int panels, const step* s, int64_t a, const char* b,
                              int64_t b_panel, int64_t depth, ahead* next) {
  for (int64_t k = 0; k < depth; k += kTileDepth, b += kTileBytes) {
    _tile_loadd(6, b, 64);
    _tile_loadd(4, s->a[0] + a + k, s->stride[0]);
    if (panels > 1) _tile_loadd(7, b + b_panel, 64);
    if (groups > 1) _tile_loadd(5, s->a[1] + a + k, s->stride[1]);
    fetch(next);
    _tile_dpbf16ps(0, 4, 6);
    if (panels > 1) _tile_dpbf16ps(1, 4, 7);
    if (groups > 1) _tile_dpbf16ps(2, 5, 6);
    if (groups > 1 && panels > 1) _tile_dpbf16ps(3, 5, 7);
  }
}

CARNOT_INLINE void sums_of_step(int groups, int panels, const tiles_call* call, const step* s,
                                const char* b, ahead* next, float* sums) {
  const int64_t ld = kStepColumns * sizeof *sums;
  AMX_BARRIER();
  _tile_zero(0);
  if (panels > 1) _tile_zero(1);
  if (groups > 1) _tile_zero(2);
  if (groups > 1 && panels > 1) _tile_zero(3);
  for (int64_t k = 0; k < call->depth; k += kChannelBlock) {
    const int64_t part = min_i64(kChannelBlock, call->depth - k);
    for (int64_t t = 0; t < call->taps; ++t) {
      accumulate(groups, panels, s, call->offsets[t] + k, b + (t * call->depth + k) * kPanel * 2,
                 call->panel, part, next);
    }
  }
  _tile_stored(0, sums, ld);
  if (panels > 1) _tile_stored(1, sums + kPanel, ld);
  if (groups > 1) _tile_stored(2, sums + kAmxRows * kStepColumns, ld);
  if (groups > 1 && panels > 1) _tile_stored(3, sums + kAmxRows * kStepColumns + kPanel, ld);
  AMX_BARRIER();
}

// ---- the epilogue ----

typedef enum residual_type { RESIDUAL_NONE, RESIDUAL_F32, RESIDUAL_BF16 } residual_type;

typedef struct epilogue {
  vf32 bias[2], lo, hi;
  __mmask32 columns;  // of 32 that exist
  bool clips, stores;
} epilogue;

CARNOT_INLINE vf32 residual_of(residual_type type, const float* residual, int64_t at,
                               __mmask16 columns) {
  if (type == RESIDUAL_F32) return _mm512_maskz_loadu_ps(columns, residual + at);
  const uint16_t* bf16 = (const uint16_t*)(const void*)residual;
  return v_widen_bf16(_mm256_maskz_loadu_epi16(columns, bf16 + at));
}

CARNOT_INLINE void finish_rows(residual_type type, bool as_bf16, bool whole,
                               const carnot_conv2d_bf16_tiles* p, const epilogue* e, const step* s,
                               int64_t n, float* sums) {
  const float* residual = p->conv.epilogue.residual;
  const int64_t residual_ld = p->conv.epilogue.residual_ld, ld = p->conv.ld;
  const __mmask32 mask = whole ? 0xffffffff : e->columns;
  const vf32 lo = e->lo, hi = e->hi, bias[2] = {e->bias[0], e->bias[1]};
  float* f32 = p->conv.dst + n;
  uint16_t* bf16 = (uint16_t*)(void*)p->conv.dst + n;
  for (int i = 0; i < s->count; ++i, sums += kStepColumns) {
    const int64_t m = s->dense ? s->out[0] + i : s->out[i];
    if (m < 0) continue;
    vf32 x[2];
    CARNOT_UNROLL
    for (int v = 0; v < 2; ++v) {
      const __mmask16 part = (__mmask16)(mask >> 16 * v);
      x[v] = v_add(v_load(sums + v * kPanel), bias[v]);
      if (type != RESIDUAL_NONE)
        x[v] = v_add(x[v], residual_of(type, residual, m * residual_ld + n + v * kPanel, part));
      x[v] = v_min_to(hi, v_max_to(lo, x[v]));
      if (!e->stores) v_store(sums + v * kPanel, x[v]);
      if (e->stores && !as_bf16) _mm512_mask_storeu_ps(f32 + m * ld + v * kPanel, part, x[v]);
    }
    if (e->stores && as_bf16) {
      const __m512i pair = (__m512i)_mm512_cvtne2ps_pbh(x[1], x[0]);
      if (whole)
        _mm512_storeu_si512(bf16 + m * ld, pair);
      else
        _mm512_mask_storeu_epi16(bf16 + m * ld, mask, pair);
    }
  }
}

CARNOT_INLINE void finish_as(residual_type type, const carnot_conv2d_bf16_tiles* p,
                             const epilogue* e, const step* s, int64_t n, float* sums) {
  const bool whole = e->columns == 0xffffffff;
  if (p->dst_is_bf16 && whole) finish_rows(type, true, true, p, e, s, n, sums);
  if (p->dst_is_bf16 && !whole) finish_rows(type, true, false, p, e, s, n, sums);
  if (!p->dst_is_bf16 && whole) finish_rows(type, false, true, p, e, s, n, sums);
  if (!p->dst_is_bf16 && !whole) finish_rows(type, false, false, p, e, s, n, sums);
}

static void finish(const carnot_conv2d_bf16_tiles* p, const epilogue* e, const step* s, int64_t n,
                   bool adds, float* sums) {
  if (!adds || !p->conv.epilogue.residual)
    finish_as(RESIDUAL_NONE, p, e, s, n, sums);
  else if (p->residual_is_bf16)
    finish_as(RESIDUAL_BF16, p, e, s, n, sums);
  else
    finish_as(RESIDUAL_F32, p, e, s, n, sums);
}

// Of columns [n, n + 32) or up to |n1|. Bounds are infinite where there are none; NaN passes both.
static epilogue epilogue_at(const carnot_epilogue_f32* e, int64_t n, int64_t n1) {
  const int64_t left = n1 - n;
  epilogue at = {
      .lo = v_set(-__builtin_inff()),
      .hi = v_set(__builtin_inff()),
      .columns = left >= kStepColumns ? 0xffffffff : (__mmask32)((UINT64_C(1) << left) - 1)};
  for (int v = 0; v < 2; ++v) {
    const __mmask16 part = (__mmask16)(at.columns >> 16 * v);
    at.bias[v] = e->bias ? _mm512_maskz_loadu_ps(part, e->bias + n + v * kPanel) : v_zero();
  }
  if (e->activation == CARNOT_KERNEL_ACTIVATION_RELU) at.lo = v_zero();
  if (e->activation == CARNOT_KERNEL_ACTIVATION_CLIP) at.lo = v_set(e->a), at.hi = v_set(e->b);
  at.stores = e->activation == CARNOT_KERNEL_ACTIVATION_NONE ||
              e->activation == CARNOT_KERNEL_ACTIVATION_RELU ||
              e->activation == CARNOT_KERNEL_ACTIVATION_CLIP;
  return at;
}

static void apply_epilogue(const carnot_conv2d_bf16_tiles* p, const epilogue* e, const step* s,
                           int64_t n, float* sums) {
  const carnot_epilogue_f32* ep = &p->conv.epilogue;
  finish(p, e, s, n, /*adds=*/true, sums);
  if (e->stores) return;
  CARNOT_KERNEL(activate_f32)
  (ep->activation, ep->a, ep->b, sums, kStepColumns, s->count, kStepColumns);
  epilogue store = *e;
  store.stores = true;
  store.bias[0] = store.bias[1] = v_zero();
  finish(p, &store, s, n, /*adds=*/false, sums);
}

// ---- loops ----

static void step_columns(const tiles_call* call, const step* s, const epilogue* e, int64_t n,
                         ahead* next) {
  float sums[kTileRows * kStepColumns] __attribute__((aligned(64)));
  const char* b = (const char*)call->p->conv.weights + n / kPanel * call->panel;
  const bool two = call->n1 - n > kPanel;
  if (s->groups == 2 && two)
    sums_of_step(2, 2, call, s, b, next, sums);
  else if (s->groups == 2)
    sums_of_step(2, 1, call, s, b, next, sums);
  else if (two)
    sums_of_step(1, 2, call, s, b, next, sums);
  else
    sums_of_step(1, 1, call, s, b, next, sums);
  apply_epilogue(call->p, e, s, n, sums);
}

// The columns that meet all pixels of a block before the next ones do: all where their weights stay
// in L2.
static int64_t columns_of_pass(const tiles_call* call) {
  const int64_t fits = kWeightBytes / (call->panel / kPanel) / kStepColumns * kStepColumns;
  return max_i64(fits, kStepColumns);
}

// The steps of a block, whose pixels stay in L1 while the columns meet them. The first step of a
// call fetches the next columns meanwhile.
static void compute_steps(const tiles_call* call, const step* steps, int count, bool is_first) {
  const int64_t pass = columns_of_pass(call);
  for (int64_t first = call->n0; first < call->n1; first += pass)
    for (int i = 0; i < count; ++i) {
      const int64_t end = min_i64(first + pass, call->n1);
      for (int64_t n = first; n < end; n += kStepColumns) {
        const epilogue e = epilogue_at(&call->p->conv.epilogue, n, call->n1);
        const int64_t left = min_i64(2, (call->n1 - n - 1) / kPanel - 1);  // panels behind these
        ahead next = {(const char*)call->p->conv.weights + (n / kPanel + 2) * call->panel,
                      is_first && i == 0 && left > 0 ? left * kTileBytes / 64 : 0};
        step_columns(call, &steps[i], &e, n, &next);
      }
    }
}

// Pixels of a block from row |at| of its matrix on.
static void find_step(const tiles_call* call, const tiles_layout* l, const block* b, int64_t at,
                      int64_t end, int64_t m0, int64_t m1, step* s) {
  const carnot_conv2d_f32* c = &call->p->conv;
  s->a[0] = b->copy + at * l->depth;
  s->a[1] = s->a[0] + kAmxRows * l->depth;
  s->stride[0] = s->stride[1] = l->depth * 2;
  s->count = (int)min_i64(kTileRows, end - at);
  s->groups = s->count > kAmxRows ? 2 : 1;
  s->dense = true;
  int64_t i = at / l->columns, j = at % l->columns;
  for (int k = 0; k < s->count; ++k) {
    const int64_t m = (b->n * c->p + b->p0 + i) * c->q + b->q0 + j;
    s->out[k] = j < b->columns && m >= m0 && m < m1 ? m : -1;
    s->dense = s->dense && s->out[k] >= 0 && s->out[k] == s->out[0] + k;
    if (++j == l->columns) j = 0, ++i;
  }
}

static void compute_block(const tiles_call* call, const tiles_layout* l, const block* b, int64_t m0,
                          int64_t m1, bool is_first) {
  const int64_t end = (b->rows - 1) * l->columns + b->columns;
  copy_block(call->p, l, b);
  for (int64_t at = 0; at < end; is_first = false) {
    step steps[kMostSteps];
    int count = 0;
    for (; at < end && count < kMostSteps; at += kTileRows)
      find_step(call, l, b, at, end, m0, m1, &steps[count++]);
    compute_steps(call, steps, count, is_first);
  }
}

static void copied(const tiles_call* call, const tiles_layout* l, int64_t m0, int64_t m1) {
  const carnot_conv2d_f32* c = &call->p->conv;
  const int64_t image = c->p * c->q;
  bool is_first = true;
  for (int64_t n = m0 / image; n * image < m1; ++n) {
    const int64_t begin = max_i64(m0 - n * image, 0) / c->q;
    const int64_t end = (min_i64(m1 - n * image, image) + c->q - 1) / c->q;
    for (int64_t p0 = begin; p0 < end; p0 += l->rows) {
      const int64_t rows = min_i64(l->rows, end - p0), row = n * image + p0 * c->q;
      // Of a single row only the part that is asked for.
      const int64_t q_begin = rows == 1 ? max_i64(0, m0 - row) : 0;
      const int64_t q_end = rows == 1 ? min_i64(c->q, m1 - row) : c->q;
      for (int64_t q0 = q_begin; q0 < q_end; q0 += l->out_columns, is_first = false) {
        const block b = {n, p0, rows, q0, min_i64(l->out_columns, q_end - q0), call->p->scratch};
        compute_block(call, l, &b, m0, m1, is_first);
      }
    }
  }
}

// A tile has 16 rows: where so many pixels do not exist, they are copied.
static void direct_step(const tiles_call* call, int64_t m, int64_t m1, uint16_t* copy, step* s) {
  const carnot_conv2d_f32* c = &call->p->conv;
  s->count = (int)min_i64(kTileRows, m1 - m);
  s->groups = s->count > kAmxRows ? 2 : 1;
  s->dense = true, s->out[0] = m;
  for (int g = 0; g < s->groups; ++g) {
    const int64_t at = m + g * kAmxRows, there = c->n * c->h * c->w - at;
    s->a[g] = (const uint16_t*)(const void*)c->src + at * c->src_w;
    s->stride[g] = c->src_w * 2;
    if (there >= kAmxRows) continue;
    for (int64_t i = 0; i < kAmxRows; ++i)
      copy_pixel(call->p, (at + min_i64(i, there - 1)) * c->src_w, call->depth,
                 copy + i * call->depth);
    s->a[g] = copy, s->stride[g] = call->depth * 2;
  }
}

static void direct(const tiles_call* call, int64_t m0, int64_t m1) {
  const int most =
      (int)min_i64(kMostSteps, max_i64(1, kBlockBytes / (kTileRows * call->depth * 2)));
  for (int64_t m = m0; m < m1;) {
    const bool is_first = m == m0;
    step steps[kMostSteps];
    int count = 0;
    for (; m < m1 && count < most; m += kTileRows)
      direct_step(call, m, m1, call->p->scratch, &steps[count++]);
    compute_steps(call, steps, count, is_first);
  }
}

void CARNOT_KERNEL(conv2d_bf16_tiles)(const carnot_conv2d_bf16_tiles* p, int64_t m0, int64_t m1,
                                      int64_t n0, int64_t n1) {
  const tiles_layout l = tiles_layout_of(p);
  tiles_call call = {.p = p, .taps = l.taps, .depth = l.depth, .n0 = n0, .n1 = n1};
  call.panel = call.taps * call.depth * kPanel * 2;
  if (l.direct)
    call.offsets[0] = 0;
  else
    find_offsets(&p->conv, &l, call.offsets);
  amx_begin();
  if (l.direct)
    direct(&call, m0, m1);
  else
    copied(&call, &l, m0, m1);
  amx_end();
}
