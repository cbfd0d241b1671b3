// Fourier transforms by Stockham's algorithm: the sequences are lanes, so that every step is whole
// vectors. Number i of all lanes is two vectors, the real parts and the imaginary parts.
#include "kernel/cpu/dft/dft_f32.h"

#include "kernel/cpu/common/kernels_isa.h"

enum { kNumber = 2 * V_LANES };  // floats of one number of all lanes

typedef struct cf32 {
  vf32 re, im;
} cf32;

CARNOT_INLINE cf32 c_load(const float* x) { return (cf32){v_load(x), v_load(x + V_LANES)}; }
CARNOT_INLINE void c_store(float* y, cf32 x) { v_store(y, x.re), v_store(y + V_LANES, x.im); }
CARNOT_INLINE cf32 c_add(cf32 a, cf32 b) { return (cf32){v_add(a.re, b.re), v_add(a.im, b.im)}; }
CARNOT_INLINE cf32 c_sub(cf32 a, cf32 b) { return (cf32){v_sub(a.re, b.re), v_sub(a.im, b.im)}; }
// a * |w|, a root.
CARNOT_INLINE cf32 c_mul(cf32 a, const float* w) {
  const vf32 re = v_set(w[0]), im = v_set(w[1]);
  return (cf32){v_fnma(a.im, im, v_mul(a.re, re)), v_fma(a.re, im, v_mul(a.im, re))};
}

// ---- one step: transforms of |r| numbers of x, |m| * |s| apart, into y ----

// y[q + s*(r*p + k)] = roots[p*k*s] * sum_j x[q + s*(p + m*j)] * e^(-2*pi*i*j*k/r)
typedef struct dft_step {
  const carnot_dft_f32* dft;
  int64_t r, m, s;
  const float* x;
  float* y;
} dft_step;

CARNOT_INLINE const float* at_input(const dft_step* t, int64_t p, int64_t q, int64_t j) {
  return t->x + (q + t->s * (p + t->m * j)) * kNumber;
}

CARNOT_INLINE void store_result(const dft_step* t, int64_t p, int64_t q, int64_t k, cf32 b) {
  if (p > 0 && k > 0) b = c_mul(b, t->dft->roots + 2 * (p * k * t->s));
  c_store(t->y + (q + t->s * (t->r * p + k)) * kNumber, b);
}

CARNOT_INLINE void butterfly2(const dft_step* t, int64_t p, int64_t q) {
  const cf32 a = c_load(at_input(t, p, q, 0)), b = c_load(at_input(t, p, q, 1));
  store_result(t, p, q, 0, c_add(a, b));
  store_result(t, p, q, 1, c_sub(a, b));
}

CARNOT_INLINE void butterfly4(const dft_step* t, int64_t p, int64_t q) {
  const cf32 x0 = c_load(at_input(t, p, q, 0)), x1 = c_load(at_input(t, p, q, 1));
  const cf32 x2 = c_load(at_input(t, p, q, 2)), x3 = c_load(at_input(t, p, q, 3));
  const cf32 even = c_add(x0, x2), odd = c_sub(x0, x2), sum = c_add(x1, x3), diff = c_sub(x1, x3);
  // The root of a quarter turn is -i, or i for the inverse.
  const vf32 sign = v_set(t->dft->roots[2 * (t->dft->n / 4) + 1]);
  const cf32 turned = {v_mul(sign, v_sub(v_zero(), diff.im)), v_mul(sign, diff.re)};
  store_result(t, p, q, 0, c_add(even, sum));
  store_result(t, p, q, 1, c_add(odd, turned));
  store_result(t, p, q, 2, c_sub(even, sum));
  store_result(t, p, q, 3, c_sub(odd, turned));
}

// Of an odd number |r| of inputs, a constant: numbers j and r - j meet the same cosine and opposite
// sines.
CARNOT_INLINE void butterfly_odd(const dft_step* t, int64_t p, int64_t q, int r) {
  enum { kMostHalf = 3 };
  const int half = r / 2;
  const cf32 x0 = c_load(at_input(t, p, q, 0));
  cf32 sum[kMostHalf], diff[kMostHalf], first = x0;
  CARNOT_UNROLL
  for (int j = 1; j <= half; ++j) {
    const cf32 a = c_load(at_input(t, p, q, j)), b = c_load(at_input(t, p, q, r - j));
    sum[j - 1] = c_add(a, b), diff[j - 1] = c_sub(a, b);
    first = c_add(first, sum[j - 1]);
  }
  store_result(t, p, q, 0, first);
  CARNOT_UNROLL
  for (int k = 1; k <= half; ++k) {
    cf32 even = x0, odd = {v_zero(), v_zero()};
    CARNOT_UNROLL
    for (int j = 1; j <= half; ++j) {
      const float* w = t->dft->roots + 2 * (j * k % r * (t->dft->n / r));
      const vf32 re = v_set(w[0]), im = v_set(w[1]);
      even.re = v_fma(sum[j - 1].re, re, even.re), even.im = v_fma(sum[j - 1].im, re, even.im);
      odd.re = v_fnma(diff[j - 1].im, im, odd.re), odd.im = v_fma(diff[j - 1].re, im, odd.im);
    }
    store_result(t, p, q, k, c_add(even, odd));
    store_result(t, p, q, r - k, c_sub(even, odd));
  }
}

// Of any number of inputs, by the definition.
static void butterfly_any(const dft_step* t, int64_t p, int64_t q) {
  const int64_t apart = t->dft->n / t->r;
  for (int64_t k = 0; k < t->r; ++k) {
    cf32 sum = {v_zero(), v_zero()};
    for (int64_t j = 0, root = 0; j < t->r; ++j, root = (root + k) % t->r) {
      sum = c_add(sum, c_mul(c_load(at_input(t, p, q, j)), t->dft->roots + 2 * root * apart));
    }
    store_result(t, p, q, k, sum);
  }
}

// |r| is t->r, a constant at call sites, or 0.
CARNOT_INLINE void run_step_of(const dft_step* step, int r) {
  dft_step t = *step;  // a copy that stores to y cannot change
  if (r) t.r = r;
  for (int64_t p = 0; p < t.m; ++p) {
    for (int64_t q = 0; q < t.s; ++q) {
      if (r == 2) butterfly2(&t, p, q);
      if (r == 4) butterfly4(&t, p, q);
      if (r % 2) butterfly_odd(&t, p, q, r);
      if (r == 0) butterfly_any(&t, p, q);
    }
  }
}

static void run_step(const dft_step* t) {
  switch (t->r) {
    case 2: run_step_of(t, 2); break;
    case 3: run_step_of(t, 3); break;
    case 4: run_step_of(t, 4); break;
    case 5: run_step_of(t, 5); break;
    case 7: run_step_of(t, 7); break;
    default: run_step_of(t, 0);
  }
}

// Transforms x, with y to work in; returns which of the two holds the result.
static float* transform(const carnot_dft_f32* dft, float* x, float* y) {
  int64_t s = 1, length = dft->n;
  for (int i = 0; i < dft->radix_count; ++i) {
    const int64_t r = dft->radices[i];
    length /= r;
    const dft_step step = {dft, r, length, s, x, y};
    run_step(&step);
    s *= r;
    float* done = y;
    y = x, x = done;
  }
  return x;
}

// ---- numbers in memory to lanes and back ----

// |count| <= V_LANES sequences from |lane| on: float j of number i goes to x[i*kNumber +
// j*V_LANES].
static void load_lanes(const carnot_dft_f32* dft, int64_t lane, int64_t count, float* x) {
  const float* src = dft->src + lane * dft->src_lane;
  const int64_t size = dft->size;
  if (dft->src_step == dft->parts) {
    CARNOT_KERNEL(transpose_f32)
    (count, size * dft->parts, src, dft->src_lane, x, kNumber / dft->parts);
    return;
  }
  for (int64_t i = 0; i < size; ++i)
    for (int part = 0; part < dft->parts; ++part)
      for (int64_t l = 0; l < count; ++l)
        x[i * kNumber + part * V_LANES + l] = src[l * dft->src_lane + i * dft->src_step + part];
}

// What is not in memory: zeros, the mirror image; and the window.
static void complete(const carnot_dft_f32* dft, float* x) {
  const int64_t n = dft->n;
  for (int64_t i = dft->size; i < n; ++i) memset(x + i * kNumber, 0, kNumber * sizeof(float));
  if (dft->mirror) {  // numbers that are their own images are real
    v_store(x + V_LANES, v_zero());
    if (n % 2 == 0) v_store(x + n / 2 * kNumber + V_LANES, v_zero());
    for (int64_t i = 1; i < (n + 1) / 2; ++i) {
      const cf32 a = c_load(x + i * kNumber);
      c_store(x + (n - i) * kNumber, (cf32){a.re, v_sub(v_zero(), a.im)});
    }
  }
  for (int64_t i = 0; dft->window && i < n; ++i) {
    const vf32 w = v_set(dft->window[i]);
    const cf32 a = c_load(x + i * kNumber);
    c_store(x + i * kNumber, (cf32){v_mul(a.re, w), v_mul(a.im, w)});
  }
}

// x holds |dst_parts| vectors for each bin, |number| floats apart.
static void store_lanes(const carnot_dft_f32* dft, const float* x, int64_t number, int64_t lane,
                        int64_t count) {
  float* dst = dft->dst + lane * dft->dst_lane;
  const int parts = dft->dst_parts;
  if (dft->dst_step == parts && number == parts * V_LANES) {
    CARNOT_KERNEL(transpose_f32)(dft->bins * parts, count, x, V_LANES, dst, dft->dst_lane);
    return;
  }
  for (int64_t l = 0; l < count; ++l)
    for (int64_t k = 0; k < dft->bins; ++k)
      for (int part = 0; part < parts; ++part)
        dst[l * dft->dst_lane + k * dft->dst_step + part] = x[k * number + part * V_LANES + l];
}

static void multiply(float* x, int64_t count, float factor) {
  for (int64_t i = 0; i < count; i += V_LANES) v_store(x + i, v_mul(v_load(x + i), v_set(factor)));
}

// z is the transform of a + i*b of real a and b: y gets that of a, or of b.
//   a[k] = (z[k] + conj z[n-k]) / 2,  b[k] = (z[k] - conj z[n-k]) / 2i
CARNOT_INLINE void separate(const carnot_dft_f32* dft, const float* z, bool second, float* y) {
  const vf32 half = v_set(dft->scale / 2);
  for (int64_t k = 0; k < dft->bins; ++k) {
    const cf32 a = c_load(z + k * kNumber), b = c_load(z + (k ? dft->n - k : 0) * kNumber);
    const cf32 number = second ? (cf32){v_add(a.im, b.im), v_sub(b.re, a.re)}
                               : (cf32){v_add(a.re, b.re), v_sub(a.im, b.im)};
    c_store(y + k * kNumber, (cf32){v_mul(number.re, half), v_mul(number.im, half)});
  }
}

static void real_lanes(const carnot_dft_f32* dft, int64_t lane, int64_t count, float* x, float* y) {
  const int64_t first = min_i64(count, V_LANES), second = count - first;
  memset(x, 0, (size_t)(dft->size * kNumber) * sizeof(float));
  load_lanes(dft, lane, first, x);
  if (second > 0) load_lanes(dft, lane + V_LANES, second, x + V_LANES);
  complete(dft, x);
  const float* z = transform(dft, x, y);
  float* parts = z == x ? y : x;
  separate(dft, z, /*second=*/false, parts);
  store_lanes(dft, parts, kNumber, lane, first);
  if (second <= 0) return;
  separate(dft, z, /*second=*/true, parts);
  store_lanes(dft, parts, kNumber, lane + V_LANES, second);
}

static void complex_lanes(const carnot_dft_f32* dft, int64_t lane, int64_t count, float* x,
                          float* y) {
  if (count < V_LANES || dft->parts == 1)
    memset(x, 0, (size_t)(dft->size * kNumber) * sizeof(float));
  load_lanes(dft, lane, count, x);
  complete(dft, x);
  float* z = transform(dft, x, y);
  if (dft->scale != 1) multiply(z, dft->bins * kNumber, dft->scale);
  store_lanes(dft, z, kNumber, lane, count);
}

void CARNOT_KERNEL(dft_f32)(const carnot_dft_f32* dft, int64_t lane0, int64_t lane1,
                            float* scratch) {
  float *x = scratch, *y = scratch + dft->n * kNumber;
  const bool is_real = dft->parts == 1 && dft->dst_parts == 2;
  const int64_t lanes = is_real ? kNumber : V_LANES;
  for (int64_t lane = lane0; lane < lane1; lane += lanes) {
    const int64_t count = min_i64(lanes, lane1 - lane);
    if (is_real) {
      real_lanes(dft, lane, count, x, y);
    } else {
      complex_lanes(dft, lane, count, x, y);
    }
  }
}
