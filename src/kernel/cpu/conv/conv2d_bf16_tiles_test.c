// Convolution by AMX tiles against double precision, with operands and results in both types.
#include "kernel/cpu/conv/conv2d_bf16_tiles.h"

#include "kernel/cpu/conv/conv2d_test.h"

static const problem kProblems[] = {
    {1, 7, 7, 32, 1, 16, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, true},
    {1, 9, 13, 64, 1, 65, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_RELU, true, true},
    {3, 5, 7, 96, 1, 40, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_GELU_ERF, true, false},
    {2, 9, 6, 64, 1, 40, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, true, false},
    {2, 10, 11, 33, 1, 17, 3, 2, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 12, 12, 16, 2, 48, 3, 3, 1, 2, 2, CARNOT_KERNEL_ACTIVATION_SILU, false, false},
    {1, 13, 11, 40, 1, 33, 3, 3, 3, 2, 2, CARNOT_KERNEL_ACTIVATION_NONE, true, true},
    {1, 5, 5, 900, 1, 20, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_CLIP, true, false},
    {2, 17, 9, 24, 1, 50, 1, 1, 2, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 30, 30, 3, 1, 8, 9, 9, 2, 1, 4, CARNOT_KERNEL_ACTIVATION_NONE, true, false},
    {1, 45, 51, 3, 1, 40, 7, 7, 2, 1, 3, CARNOT_KERNEL_ACTIVATION_RELU, false, true},
    {2, 17, 14, 4, 1, 20, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, true, false},
    {1, 20, 1, 8, 4, 16, 5, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_GELU_ERF, false, false},
    {2, 3, 2, 4, 1, 20, 5, 7, 1, 1, 4, CARNOT_KERNEL_ACTIVATION_NONE, false, true},
    {1, 90, 70, 64, 1, 32, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, true, true},
    {2, 5, 700, 32, 1, 17, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, true, true},
    {1, 3, 130, 200, 1, 20, 3, 3, 1, 2, 2, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 9, 20, 1300, 1, 33, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, true, true},
    {1, 1, 130, 96, 1, 200, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_GELU_ERF, false, true},
    {1, 1, 75, 24, 1, 144, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_SILU, false, true},
    {1, 9, 8, 40, 1, 72, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_HARD_SWISH, false, true},
    {1, 31, 29, 16, 1, 32, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, true, true},
    {2, 19, 300, 16, 1, 3, 9, 9, 1, 1, 4, CARNOT_KERNEL_ACTIVATION_NONE, false, true},
    {1, 21, 400, 6, 1, 33, 5, 11, 3, 1, 5, CARNOT_KERNEL_ACTIVATION_NONE, true, false},
    {1, 16, 23, 11, 2, 16, 3, 5, 1, 1, 2, CARNOT_KERNEL_ACTIVATION_SILU, false, true},
    {2, 11, 32, 40, 1, 50, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, true, true},
    {1, 18, 47, 70, 1, 33, 5, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_SILU, true, true},
    {2, 41, 37, 3, 1, 40, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, true, false},
    {1, 9, 900, 3, 1, 64, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, true},
    {2, 3, 5, 1, 1, 33, 5, 5, 1, 1, 2, CARNOT_KERNEL_ACTIVATION_CLIP, true, true},
    {1, 25, 23, 2, 1, 50, 4, 4, 3, 1, 0, CARNOT_KERNEL_ACTIVATION_SILU, false, true},
    {1, 3, 3, 2048, 1, 600, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, true},
    {9, 4, 5, 1900, 1, 450, 1, 1, 2, 1, 0, CARNOT_KERNEL_ACTIVATION_RELU, true, true},
    {7, 3, 4, 448, 1, 210, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
};

// The channels of |src| one behind the other.
static float* planes_of(const problem* p, const operands* o) {
  const int64_t pixels = p->h * p->w;
  float* planes = buffer(p->n * p->c * pixels, 0);
  for (int64_t n = 0; n < p->n; ++n)
    for (int64_t c = 0; c < p->c; ++c)
      for (int64_t i = 0; i < pixels; ++i)
        planes[(n * p->c + c) * pixels + i] = o->src[(n * pixels + i) * o->src_ld + c];
  return planes;
}

// The weights [K,C,R,S] of a group, |joined| elements a tap.
static float* packed_weights(const problem* p, const float* weights, int64_t joined) {
  const int64_t taps = carnot_bf16_tiles_taps(p->r, p->s, joined), depth = joined * p->c,
                filled = joined > p->s ? p->s : (p->s + joined - 1) / joined * joined,
                rows = p->k * p->c * p->r;
  float *padded = buffer(rows * filled, 0),
        *wide = buffer(carnot_packed_k1n16_count(taps * depth, p->k), 0);
  for (int64_t i = 0; i < rows * filled; ++i)
    padded[i] = i % filled < p->s ? weights[i / filled * p->s + i % filled] : 0;
  carnot_pack_conv_k1n16_f32(p->k, p->c, p->r * filled, padded, wide);
  float* packed = buffer(carnot_packed_k2n16d32_count(taps, depth, p->k) / 2, 0);
  carnot_pack_k2n16d32_bf16(taps, depth, p->k, wide, (uint16_t*)packed);
  buffer_free(padded), buffer_free(wide);
  return packed;
}

static bool reads_planes(const problem* p) {
  return p->groups == 1 &&
         carnot_bf16_tiles_takes_planes(
             p->c, carnot_bf16_tiles_joined(p->c, p->k, p->r, p->s, p->dilation, p->dilation));
}

static void check_stored(const carnot_cpu_kernels* kernels, const problem* p, unsigned types) {
  const bool src_bf16 = types & 1, dst_bf16 = types & 2, residual_bf16 = types & 4,
             planes = types & 8;
  const bool roughly = dst_bf16 && !p->residual;
  if (planes && !reads_planes(p)) return;
  operands o;
  operands_init(p, kernels, WEIGHTS_BF16, &o);
  float* apart = planes ? planes_of(p, &o) : NULL;
  const int64_t pixels = p->n * o.p * o.q, c = p->c * p->groups;
  const int64_t src_count =
      planes ? p->n * p->h * p->w * c : p->n * p->h * p->w * o.src_ld - (o.src_ld - c);
  const int64_t dst_count = pixels * o.ld - 3;
  if (residual_bf16) round_all(WEIGHTS_BF16, o.residual, pixels * o.ld);
  void* src = stored(kernels, src_bf16, planes ? apart : o.src, src_count);
  void* residual = stored(kernels, residual_bf16, o.residual, pixels * o.ld);
  void* dst = stored(kernels, dst_bf16, o.dst, dst_count);
  const int src_bytes = src_bf16 ? 2 : 4, dst_bytes = dst_bf16 ? 2 : 4;
  for (int64_t g = 0; g < p->groups; ++g) {
    const int64_t joined =
        carnot_bf16_tiles_joined(p->c, p->k, p->r, p->s, p->dilation, p->dilation);
    float* packed = packed_weights(p, o.weights + g * p->k * p->c * p->r * p->s, joined);
    carnot_conv2d_bf16_tiles call = {.conv = conv_of(p, &o, g),
                                     .joined = joined,
                                     .src_is_bf16 = src_bf16,
                                     .dst_is_bf16 = dst_bf16,
                                     .residual_is_bf16 = residual_bf16};
    if (planes) {
      call.src_c = p->h * p->w, call.conv.src_n = p->c * p->h * p->w;
      call.conv.src_h = p->w, call.conv.src_w = 1;
    }
    call.conv.weights = packed;
    call.conv.src = (const float*)(const void*)((char*)src + g * p->c * src_bytes);
    call.conv.dst = (float*)(void*)((char*)dst + g * p->k * dst_bytes);
    if (p->residual)
      call.conv.epilogue.residual =
          (const float*)(const void*)((char*)residual + g * p->k * (residual_bf16 ? 2 : 4));
    assert_true(carnot_conv2d_bf16_tiles_fits(&call));
    const size_t scratch = (size_t)carnot_conv2d_bf16_tiles_scratch(&call);
    call.scratch = aligned_alloc(64, (scratch + 63) / 64 * 64);
    memset(call.scratch, 0xff, scratch);  // NaN where nothing was copied
    const int64_t third = pixels / 3, columns = p->k > 16 ? 16 : p->k;
    kernels->conv2d_bf16_tiles(&call, 0, third, 0, p->k);
    kernels->conv2d_bf16_tiles(&call, third, pixels, 0, columns);
    if (p->k > columns) kernels->conv2d_bf16_tiles(&call, third, pixels, columns, p->k);
    buffer_free(packed), free(call.scratch);
  }
  if (dst_bf16)
    kernels->f32_of_bf16(dst_count, dst, o.dst);
  else
    memcpy(o.dst, dst, (size_t)dst_count * sizeof *o.dst);
  for (int64_t m = 0; m < pixels; ++m) {
    for (int64_t k = 0; k < p->k * p->groups; ++k) {
      double size;
      const double want = reference(p, &o, k / p->k, m, k % p->k, &size);
      const double rough = !roughly                                             ? 0
                           : p->activation == CARNOT_KERNEL_ACTIVATION_GELU_ERF ? 4e-5 * size
                           : p->activation == CARNOT_KERNEL_ACTIVATION_SILU     ? 6e-4 * fabs(want)
                                                                                : 0;
      const double bound =
          4 * FLT_EPSILON * (size + fabs(want)) + dst_bf16 * fabs(want) * 0x1p-8 + rough;
      check_near(o.dst[m * o.ld + k], want, bound, "conv", m, k);
    }
    for (int64_t k = p->k * p->groups; k < o.ld && m + 1 < pixels; ++k)
      assert_true(fabsf(o.dst[m * o.ld + k] - kCanary) < (dst_bf16 ? 64 : 1e-3));
  }
  stored_free(src_bf16, src, src_count);
  stored_free(residual_bf16, residual, pixels * o.ld);
  stored_free(dst_bf16, dst, dst_count);
  if (planes) buffer_free(apart);
  operands_deinit(&o);
}

// A number that is not finite reaches the results whose window holds it and no others.
static void check_not_finite(const carnot_cpu_kernels* kernels) {
  enum { kSize = 40, kChannels = 3, kFilter = 7, kAt = 11 };
  static const problem kProblem = {1,       kSize, kSize, kChannels, 1, 5, kFilter,
                                   kFilter, 2,     1,     3,         0, 0, false};
  if (!kernels->conv2d_bf16_tiles) return;
  operands o;
  operands_init(&kProblem, kernels, WEIGHTS_BF16, &o);
  const int64_t joined = carnot_bf16_tiles_joined(kChannels, kProblem.k, kFilter, kFilter, 1, 1);
  float* packed = packed_weights(&kProblem, o.weights, joined);
  o.src[(kAt * kSize + kAt) * o.src_ld] = INFINITY;
  carnot_conv2d_bf16_tiles call = {.conv = conv_of(&kProblem, &o, 0), .joined = joined};
  call.conv.weights = packed;
  call.scratch =
      aligned_alloc(64, (size_t)(carnot_conv2d_bf16_tiles_scratch(&call) + 63) / 64 * 64);
  kernels->conv2d_bf16_tiles(&call, 0, o.p * o.q, 0, kProblem.k);
  for (int64_t i = 0; i < o.p; ++i)
    for (int64_t j = 0; j < o.q; ++j)
      for (int64_t k = 0; k < kProblem.k; ++k) {
        const int64_t y = kAt - (2 * i - 3), x = kAt - (2 * j - 3);
        const bool inside = y >= 0 && y < kFilter && x >= 0 && x < kFilter;
        assert_true(!isfinite(o.dst[(i * o.q + j) * o.ld + k]) == inside);
      }
  free(call.scratch), buffer_free(packed);
  operands_deinit(&o);
}

static void check_tiles(const carnot_cpu_kernels* kernels) {
  if (!kernels->conv2d_bf16_tiles) return;
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i)
    for (unsigned types = 0; types < 16; ++types) check_stored(kernels, &kProblems[i], types);
  check_not_finite(kernels);
}

static void test_tiles(void** state) { (void)state, for_each_isa(check_tiles); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
