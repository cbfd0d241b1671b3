// Convolution as an implicit GEMM: row pointers to input pixels for the GEMM macro-kernel.
#include "kernel/cpu/conv/conv2d_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

// The output pixel that pointers are being found for, and the input pixels under its filter. A 2-D
// convolution is a 3-D one of depth 1.
typedef struct pixel {
  int64_t n, o, p, q;
  int64_t z0, h0, w0;  // input pixel under the first tap
} pixel;

static carnot_conv_depth depth_of(const carnot_conv2d_f32* c) {
  const carnot_conv_depth flat = {.taps = 1, .in = 1, .out = 1, .stride = 1, .dilation = 1};
  return c->depth.taps ? c->depth : flat;
}

static pixel pixel_at(const carnot_conv2d_f32* c, const carnot_conv_depth* d, int64_t m) {
  const int64_t plane = c->p * c->q;
  pixel at = {m / (plane * d->out), m / plane % d->out, m / c->q % c->p, m % c->q, 0, 0, 0};
  at.z0 = at.o * d->stride - d->pad;
  at.h0 = at.p * c->stride_h - c->pad_h, at.w0 = at.q * c->stride_w - c->pad_w;
  return at;
}

static void pixel_next(const carnot_conv2d_f32* c, const carnot_conv_depth* d, pixel* at) {
  at->w0 += c->stride_w;
  if (++at->q < c->q) return;
  at->q = 0, at->w0 = -c->pad_w, at->h0 += c->stride_h;
  if (++at->p < c->p) return;
  at->p = 0, at->h0 = -c->pad_h, at->z0 += d->stride;
  if (++at->o < d->out) return;
  at->o = 0, at->z0 = -d->pad, ++at->n;
}

static bool planes_inside(const carnot_conv_depth* d, const pixel* at) {
  return at->z0 >= 0 && at->z0 + (d->taps - 1) * d->dilation < d->in;
}

static bool rows_inside(const carnot_conv2d_f32* c, const pixel* at) {
  return at->h0 >= 0 && at->h0 + (c->r - 1) * c->dilation_h < c->h;
}

static bool columns_inside(const carnot_conv2d_f32* c, const pixel* at) {
  return at->w0 >= 0 && at->w0 + (c->s - 1) * c->dilation_w < c->w;
}

// Pointers to the input pixels under taps t0 .. t1 - 1 of |count| output pixels from m on.
static void pixels_under_taps(const void* problem, int64_t m, int count, int64_t t0, int64_t t1,
                              const void** out_rows) {
  const carnot_conv2d_f32* c = problem;
  const carnot_conv_depth d = depth_of(c);
  const int64_t right = c->dilation_w * c->src_w, down = c->dilation_h * c->src_h,
                back = d.dilation * d.src;
  const int64_t first_z = t0 / (c->r * c->s), first_r = t0 / c->s % c->r, first_s = t0 % c->s;
  pixel at = pixel_at(c, &d, m);
  for (int i = 0; i < count; ++i, pixel_next(c, &d, &at)) {
    const float* src = c->src + at.n * c->src_n;
    const bool whole = planes_inside(&d, &at) && rows_inside(c, &at) && columns_inside(c, &at);
    const int64_t offset = at.z0 * d.src + at.h0 * c->src_h + at.w0 * c->src_w;
    int64_t z = first_z, r = first_r, s = first_s;
    const void** out = out_rows + i;
    for (int64_t t = t0; t < t1; ++t, out += count) {
      const int64_t depth = at.z0 + z * d.dilation, h = at.h0 + r * c->dilation_h,
                    w = at.w0 + s * c->dilation_w;
      const bool inside = whole || ((uint64_t)depth < (uint64_t)d.in &&
                                    (uint64_t)h < (uint64_t)c->h && (uint64_t)w < (uint64_t)c->w);
      *out = inside ? src + (offset + z * back + r * down + s * right) : c->zeros;
      if (++s < c->s) continue;
      s = 0;
      if (++r == c->r) r = 0, ++z;
    }
  }
}

// Taps of a large dilation are in the padding for a good part of a row: tiles end where one comes
// in or goes out, so that what lies in the padding for a whole tile is left out.
enum { kLeastRunDilation = 4 };

static bool has_cut_rows(const carnot_conv2d_f32* c) {
  return c->dilation_w >= kLeastRunDilation && c->s > 1 && c->stride_w == 1;
}

static int64_t run_of_pixels(const void* problem, int64_t m) {
  const carnot_conv2d_f32* c = problem;
  const int64_t q = m % c->q;
  int64_t end = c->q;
  for (int64_t s = 0; s < c->s; ++s) {
    const int64_t in = c->pad_w - s * c->dilation_w, out = in + c->w;
    if (in > q) end = min_i64(end, in);
    if (out > q) end = min_i64(end, out);
  }
  return end - q;
}

// With few channels (a first layer) the inner loop over one tap would be too short. Where the
// pixels of an input row touch, the S taps of a filter row are one run of S * C floats: it is one
// tap then. Runs that reach over the border are copied with zeros for the padding.
enum { kRun = 64, kRunFloats = 512 };
static const float kZeroRun[kRun];

typedef struct run_problem {
  const carnot_conv2d_f32* conv;
  float border[TILE_F32_ROWS * kRunFloats];
} run_problem;

static bool has_runs(const carnot_conv2d_f32* c) {
  return c->s > 1 && c->dilation_w == 1 && c->src_w == c->c && c->s * c->c <= kRun &&
         depth_of(c).taps * c->r * c->s * c->c <= kRunFloats;
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

static void runs_under_taps(const void* problem, int64_t m, int count, int64_t t0, int64_t t1,
                            const void** out_rows) {
  run_problem* runs = (run_problem*)problem;
  const carnot_conv2d_f32* c = runs->conv;
  const carnot_conv_depth d = depth_of(c);
  float* border = runs->border;
  pixel at = pixel_at(c, &d, m);
  for (int i = 0; i < count; ++i, pixel_next(c, &d, &at)) {
    const float* image = c->src + at.n * c->src_n;
    const bool whole = columns_inside(c, &at);
    int64_t z = at.z0 + t0 / c->r * d.dilation, r = t0 % c->r;
    const void** out = out_rows + i;
    for (int64_t t = t0; t < t1; ++t, out += count) {
      const int64_t h = at.h0 + r * c->dilation_h;
      const float* row = image + z * d.src + h * c->src_h;
      if ((uint64_t)h >= (uint64_t)c->h || (uint64_t)z >= (uint64_t)d.in) {
        *out = kZeroRun;
      } else if (whole) {
        *out = row + at.w0 * c->c;
      } else {
        *out = border_run(c, row, at.w0, border);
        border += c->s * c->c;
      }
      if (++r == c->r) r = 0, z += d.dilation;
    }
  }
}

void CARNOT_KERNEL(conv2d_tiled_f32)(const carnot_conv2d_f32* p, const gemm_ukernels_f32* tiles,
                                     int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  run_problem runs;
  gemm_macro_kernel_f32 loop = {.rows = pixels_under_taps,
                                .problem = p,
                                .zeros = p->zeros,
                                .taps = p->r * p->s,
                                .depth = p->c,
                                .tiles = tiles,
                                .weights = p->weights,
                                .dst = p->dst,
                                .ld = p->ld,
                                .epilogue = &p->epilogue};
  if (p->depth.taps) loop.taps *= p->depth.taps;
  if (has_cut_rows(p)) loop.run = run_of_pixels;
  if (tiles->depth_unit == 1 && has_runs(p)) {  // pairs are packed within a tap
    runs.conv = p;
    loop.rows = runs_under_taps;
    loop.problem = &runs;
    loop.zeros = kZeroRun;
    loop.taps /= p->s;
    loop.depth = p->s * p->c;
  }
  CARNOT_KERNEL(gemm_macro_kernel_f32)(&loop, m0, m1, n0, n1);
}

void CARNOT_KERNEL(conv2d_f32)(const carnot_conv2d_f32* p, int64_t m0, int64_t m1, int64_t n0,
                               int64_t n1) {
  CARNOT_KERNEL(conv2d_tiled_f32)(p, &CARNOT_KERNEL(gemm_ukernels_f32), m0, m1, n0, n1);
}
