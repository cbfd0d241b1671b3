#include "kernel/cpu/conv2d_f32.h"

#include "kernel/cpu/gemm_loop_f32.h"
#include "kernel/cpu/kernels_isa.h"

// Pointers to the input pixels under taps t0 .. t1 - 1 of |count| output pixels from m on.
static void pixels_under_taps(const void* problem, int64_t m, int count, int64_t t0, int64_t t1,
                              const float** out_rows) {
  const carnot_conv2d_f32* c = problem;
  int64_t q = m % c->q, p = m / c->q % c->p, n = m / (c->q * c->p);
  for (int i = 0; i < count; ++i) {
    const int64_t h0 = p * c->stride_h - c->pad_h, w0 = q * c->stride_w - c->pad_w;
    const float* image = c->src + n * c->src_n;
    int64_t r = t0 / c->s, s = t0 % c->s;
    for (int64_t t = t0; t < t1; ++t) {
      const int64_t h = h0 + r * c->dilation_h, w = w0 + s * c->dilation_w;
      const bool inside = (uint64_t)h < (uint64_t)c->h && (uint64_t)w < (uint64_t)c->w;
      out_rows[(t - t0) * count + i] = inside ? image + h * c->src_h + w * c->src_w : c->zeros;
      if (++s == c->s) s = 0, ++r;
    }
    if (++q == c->q) {
      q = 0;
      if (++p == c->p) p = 0, ++n;
    }
  }
}

// With few channels (a first layer) the inner loop over one tap would be too short. Where the
// pixels of an input row touch, the S taps of a filter row are one run of S * C floats: it is one
// tap then. Runs that reach over the border are copied with zeros in the place of the padding.
enum { kRun = 64, kRunFloats = 512 };
static const float kZeroRun[kRun];

typedef struct run_problem {
  const carnot_conv2d_f32* conv;
  float border[TILE_MAX_ROWS * kRunFloats];
} run_problem;

static bool has_runs(const carnot_conv2d_f32* c) {
  return c->s > 1 && c->dilation_w == 1 && c->src_w == c->c && c->s * c->c <= kRun &&
         c->r * c->s * c->c <= kRunFloats;
}

// The run at column |w0| of an input row that is partly outside, copied to |run|.
static const float* border_run(const carnot_conv2d_f32* c, const float* row, int64_t w0,
                               float* run) {
  const int64_t begin = min_i64(max_i64(-w0, 0), c->s),
                end = max_i64(begin, min_i64(c->s, c->w - w0));
  memset(run, 0, (size_t)(c->s * c->c) * sizeof *run);
  for (int64_t i = begin * c->c; i < end * c->c; ++i) run[i] = row[w0 * c->c + i];
  return run;
}

static void runs_under_taps(const void* problem, int64_t m, int count, int64_t r0, int64_t r1,
                            const float** out_rows) {
  run_problem* runs = (run_problem*)problem;
  const carnot_conv2d_f32* c = runs->conv;
  float* border = runs->border;
  int64_t q = m % c->q, p = m / c->q % c->p, n = m / (c->q * c->p);
  for (int i = 0; i < count; ++i) {
    const int64_t h0 = p * c->stride_h - c->pad_h, w0 = q * c->stride_w - c->pad_w;
    const bool whole = w0 >= 0 && w0 + c->s <= c->w;
    for (int64_t r = r0; r < r1; ++r) {
      const int64_t h = h0 + r * c->dilation_h;
      const float** out = &out_rows[(r - r0) * count + i];
      if ((uint64_t)h >= (uint64_t)c->h) {
        *out = kZeroRun;
      } else if (whole) {
        *out = c->src + n * c->src_n + h * c->src_h + w0 * c->c;
      } else {
        *out = border_run(c, c->src + n * c->src_n + h * c->src_h, w0, border);
        border += c->s * c->c;
      }
    }
    if (++q == c->q) {
      q = 0;
      if (++p == c->p) p = 0, ++n;
    }
  }
}

void CARNOT_KERNEL(conv2d_f32)(const carnot_conv2d_f32* p, int64_t m0, int64_t m1, int64_t n0,
                               int64_t n1) {
  if (has_runs(p)) {
    run_problem runs;
    runs.conv = p;
    const gemm_loop_f32 loop = {runs_under_taps, &runs,  p->r,  p->s * p->c, p->k,
                                p->weights,      p->dst, p->ld, &p->epilogue};
    CARNOT_KERNEL(gemm_loop_f32)(&loop, m0, m1, n0, n1);
    return;
  }
  const gemm_loop_f32 loop = {pixels_under_taps, p,      p->r * p->s, p->c,        p->k,
                              p->weights,        p->dst, p->ld,       &p->epilogue};
  CARNOT_KERNEL(gemm_loop_f32)(&loop, m0, m1, n0, n1);
}
