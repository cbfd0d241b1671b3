// GEMM and matmul kernels against double precision.
#include "kernel/cpu/gemm/gemm_f32.h"

#include "kernel/cpu/common/kernel_test.h"

static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }

typedef struct problem {
  int64_t m, n, k, pad;  // pad: what the leading dimensions exceed the width by
  carnot_kernel_activation activation;
  bool bias, residual, in_place;
} problem;

static const problem kProblems[] = {
    {1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, false, false},
    {1, 64, 100, 0, CARNOT_KERNEL_ACTIVATION_NONE, true, false, false},
    {1, 200, 37, 3, CARNOT_KERNEL_ACTIVATION_RELU, true, true, false},
    {3, 17, 5, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, true, false},
    {14, 32, 64, 0, CARNOT_KERNEL_ACTIVATION_RELU, true, false, false},
    {29, 95, 130, 7, CARNOT_KERNEL_ACTIVATION_CLIP, true, true, true},
    {49, 33, 1600, 2, CARNOT_KERNEL_ACTIVATION_RELU, true, true, false},
    {20, 48, 1601, 0, CARNOT_KERNEL_ACTIVATION_SILU, true, true, true},
    {5, 130, 800, 0, CARNOT_KERNEL_ACTIVATION_HARD_SWISH, true, false, false},
    {15, 15, 31, 5, CARNOT_KERNEL_ACTIVATION_GELU_ERF, true, false, false},
    {9, 31, 31, 5, CARNOT_KERNEL_ACTIVATION_TANH, false, false, false},
    {11, 47, 31, 5, CARNOT_KERNEL_ACTIVATION_SIGMOID, true, false, false},
    {13, 63, 31, 5, CARNOT_KERNEL_ACTIVATION_LEAKY_RELU, true, false, false},
    {4, 20, 0, 0, CARNOT_KERNEL_ACTIVATION_RELU, true, false, false},
    {6, 700, 300, 0, CARNOT_KERNEL_ACTIVATION_NONE, true, false, false},
    {33, 64, 96, 0, CARNOT_KERNEL_ACTIVATION_NONE, true, true, false},
    {128, 40, 777, 1, CARNOT_KERNEL_ACTIVATION_RELU, false, true, true},
    {170, 270, 500, 0, CARNOT_KERNEL_ACTIVATION_TANH, true, true, false},
    {170, 70, 500, 3, CARNOT_KERNEL_ACTIVATION_RELU, true, true, true},
    {1100, 33, 40, 0, CARNOT_KERNEL_ACTIVATION_SILU, false, true, false},
};

typedef struct operands {
  int64_t lda, ldc;
  float *a, *b, *packed, *bias, *residual, *c;
} operands;

// A and B hold what the kernel computes with: the oracle sees the same numbers.
static void operands_init(const problem* p, const carnot_cpu_kernels* kernels, weights_type type,
                          operands* o) {
  o->lda = p->k + p->pad, o->ldc = p->n + p->pad;
  o->a = buffer((p->m - 1) * o->lda + p->k, 1);
  o->b = buffer(p->k * p->n, 2);
  round_all(type, o->b, p->k * p->n);
  if (rounds_rows(kernels, type)) round_all(type, o->a, (p->m - 1) * o->lda + p->k);
  float* k1n16 = buffer(carnot_packed_k1n16_count(p->k, p->n), 0);
  carnot_pack_k1n16_f32(p->k, p->n, o->b, p->n, 1, k1n16);
  o->packed = pack_as(type, 1, p->k, p->n, k1n16);
  buffer_free(k1n16);
  o->bias = buffer(p->n, 3);
  o->residual = buffer((p->m - 1) * o->ldc + p->n, 4);
  o->c = buffer((p->m - 1) * o->ldc + p->n, 0);
  if (p->in_place) memcpy(o->c, o->residual, (size_t)((p->m - 1) * o->ldc + p->n) * sizeof(float));
}

static void operands_deinit(operands* o) {
  buffer_free(o->a), buffer_free(o->b), buffer_free(o->packed);
  buffer_free(o->bias), buffer_free(o->residual), buffer_free(o->c);
}

static carnot_gemm_f32 gemm_of(const problem* p, const operands* o) {
  return (carnot_gemm_f32){
      .m = p->m,
      .n = p->n,
      .k = p->k,
      .a = o->a,
      .lda = o->lda,
      .b = o->packed,
      .c = o->c,
      .ldc = o->ldc,
      .epilogue = {.bias = p->bias ? o->bias : NULL,
                   .residual = !p->residual  ? NULL
                               : p->in_place ? o->c
                                             : o->residual,
                   .residual_ld = o->ldc,
                   .activation = p->activation,
                   .a = p->activation == CARNOT_KERNEL_ACTIVATION_CLIP ? -0.5f : 0.1f,
                   .b = 6}};
}

static carnot_gemm_f32_fn* gemm_fn(const carnot_cpu_kernels* kernels, weights_type type) {
  return type == WEIGHTS_F16     ? kernels->gemm_f16
         : type == WEIGHTS_BF16  ? kernels->gemm_bf16
         : type == WEIGHTS_SPLIT ? kernels->gemm_split6_f32
                                 : kernels->gemm_f32;
}

static carnot_matmul_f32_fn* matmul_fn(const carnot_cpu_kernels* kernels, weights_type type) {
  return type == WEIGHTS_BF16 ? kernels->matmul_bf16 : kernels->matmul_f32;
}

static void check_result(const problem* p, const operands* o) {
  const carnot_gemm_f32 gemm = gemm_of(p, o);
  for (int64_t i = 0; i < p->m; ++i) {
    for (int64_t j = 0; j < p->n; ++j) {
      double sum = p->bias ? o->bias[j] : 0, size = fabs(sum);
      for (int64_t k = 0; k < p->k; ++k) {
        const double term = (double)o->a[i * o->lda + k] * o->b[k * p->n + j];
        sum += term, size += fabs(term);
      }
      if (p->residual)
        sum += o->residual[i * o->ldc + j], size += fabs(o->residual[i * o->ldc + j]);
      const double want =
          activation_in_double(p->activation, gemm.epilogue.a, gemm.epilogue.b, sum);
      const double bound = 4 * FLT_EPSILON * size + 4 * FLT_EPSILON * fabs(want);
      check_near(o->c[i * o->ldc + j], want, bound, "gemm", i, j);
    }
    for (int64_t j = p->n; j < o->ldc && i + 1 < p->m; ++j) {
      const float outside = p->in_place ? o->residual[i * o->ldc + j] : kCanary;
      assert_true(o->c[i * o->ldc + j] == outside);
    }
  }
}

static void check_gemm(const carnot_cpu_kernels* kernels, weights_type type) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    const problem* p = &kProblems[i];
    operands o;
    operands_init(p, kernels, type, &o);
    const carnot_gemm_f32 gemm = gemm_of(p, &o);
    gemm_fn(kernels, type)(&gemm, 0, p->m, 0, p->n);
    check_result(p, &o);
    operands_deinit(&o);
  }
}

// However rows and columns are cut, the bits are the same.
static void check_parts(const carnot_cpu_kernels* kernels, weights_type type) {
  const problem p = {37, 150, 1700, 3, CARNOT_KERNEL_ACTIVATION_SILU, true, true, false};
  operands whole, parts;
  operands_init(&p, kernels, type, &whole), operands_init(&p, kernels, type, &parts);
  const carnot_gemm_f32 a = gemm_of(&p, &whole), b = gemm_of(&p, &parts);
  gemm_fn(kernels, type)(&a, 0, p.m, 0, p.n);
  for (int64_t m = 0; m < p.m; m += 5) {
    for (int64_t n = 0; n < p.n; n += 48) {
      gemm_fn(kernels, type)(&b, m, min(m + 5, p.m), n, min(n + 48, p.n));
    }
  }
  const size_t bytes = (size_t)((p.m - 1) * whole.ldc + p.n) * sizeof(float);
  assert_memory_equal(whole.c, parts.c, bytes);
  operands_deinit(&whole), operands_deinit(&parts);
}

// NaN and infinity reach exactly the elements they belong to, through relu too.
static void check_specials(const carnot_cpu_kernels* kernels, weights_type type) {
  const problem p = {16, 40, 51, 0, CARNOT_KERNEL_ACTIVATION_RELU, true, false, false};
  operands o;
  operands_init(&p, kernels, type, &o);
  o.a[3 * o.lda + 7] = NAN;
  o.a[5 * o.lda + 50] = INFINITY;
  o.bias[33] = INFINITY;
  const carnot_gemm_f32 gemm = gemm_of(&p, &o);
  gemm_fn(kernels, type)(&gemm, 0, p.m, 0, p.n);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      const float c = o.c[i * o.ldc + j], b = o.b[50 * p.n + j];
      if (i == 3)
        assert_true(isnan(c));
      else if (j == 33)
        assert_true(i == 5 && b < 0 ? isnan(c) : c == INFINITY);
      else
        assert_true(i == 5 ? c == (b > 0 ? INFINITY : 0) : isfinite(c));
    }
  }
  operands_deinit(&o);
}

// SiLU over its whole range: K = 0 leaves the bias. Below -87.3 zero is allowed, -inf gives NaN.
static void check_silu(const carnot_cpu_kernels* kernels, weights_type type) {
  const float special[] = {0, 1e-30f, -87.4f, -100, -1e30f, 100, 1e30f, INFINITY, -INFINITY, NAN};
  enum { kSpecial = sizeof special / sizeof *special, kSteps = 350 };
  const problem p = {1, kSpecial + kSteps, 0, 0, CARNOT_KERNEL_ACTIVATION_SILU, true, false, false};
  operands o;
  operands_init(&p, kernels, type, &o);
  memcpy(o.bias, special, sizeof special);
  for (int i = 0; i < kSteps; ++i) o.bias[kSpecial + i] = -87 + 0.5f * (float)i;
  const carnot_gemm_f32 gemm = gemm_of(&p, &o);
  gemm_fn(kernels, type)(&gemm, 0, p.m, 0, p.n);
  for (int64_t j = 0; j < p.n; ++j) {
    const double x = o.bias[j];
    if (isnan(x) || x == -INFINITY)
      assert_true(isnan(o.c[j]));
    else if (x == INFINITY)
      assert_true(o.c[j] == INFINITY);
    else
      check_near(o.c[j], x / (1 + exp(-x)), 4 * FLT_EPSILON * fabs(x / (1 + exp(-x))) + 1.1e-36,
                 "silu", 0, j);
  }
  operands_deinit(&o);
}

// Rows that hold a number whose parts AMX would not multiply exactly are computed by multiply-adds,
// and activated once as the others are.
static void check_tiny(const carnot_cpu_kernels* kernels, weights_type type) {
  const problem p = {100, 40, 64, 0, CARNOT_KERNEL_ACTIVATION_SILU, true, false, false};
  operands o;
  operands_init(&p, kernels, type, &o);
  o.a[40 * o.lda + 7] = 0x1p-120f;
  const carnot_gemm_f32 gemm = gemm_of(&p, &o);
  gemm_fn(kernels, type)(&gemm, 0, p.m, 0, p.n);
  check_result(&p, &o);
  operands_deinit(&o);
}

// A bias that is large beside the products is rounded once, not in every addition of the chain.
static void check_large_bias(const carnot_cpu_kernels* kernels, weights_type type) {
  const problem p = {20, 40, 1700, 0, CARNOT_KERNEL_ACTIVATION_NONE, true, false, false};
  operands o;
  operands_init(&p, kernels, type, &o);
  for (int64_t i = 0; i < p.m * o.lda; ++i) o.a[i] *= 0x1p-10f;
  for (int64_t j = 0; j < p.n; ++j) o.bias[j] = 1000.3f;
  const carnot_gemm_f32 gemm = gemm_of(&p, &o);
  gemm_fn(kernels, type)(&gemm, 0, p.m, 0, p.n);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0, size = 0;
      for (int64_t k = 0; k < p.k; ++k) {
        const double term = (double)o.a[i * o.lda + k] * o.b[k * p.n + j];
        sum += term, size += fabs(term);
      }
      const double want = sum + o.bias[j];
      const double bound = FLT_EPSILON * fabs(want) + 64 * FLT_EPSILON * size;
      check_near(o.c[i * o.ldc + j], want, bound, "large bias", i, j);
    }
  }
  operands_deinit(&o);
}

// The error of a long sum grows with the root of a part of K and not of K: relative to the L2 norm
// of the result it is below that of one chain of additions, 1.2e-6 at K = 4,608 and 2.9e-6 at K =
// 25,088.
static void check_long_sums_of(const carnot_cpu_kernels* kernels, weights_type type) {
  static const problem problems[] = {
      {1, 33, 4608, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, false, false},
      {1, 33, 25088, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, false, false},
      {15, 47, 4608, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, false, false},
      {15, 47, 25088, 3, CARNOT_KERNEL_ACTIVATION_NONE, false, false, false},
      {15, 47, 25088, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, true, true},
  };
  enum { kPacked, kRowsOfB, kColumnsOfB, kForms };
  for (size_t i = 0; i < sizeof problems / sizeof *problems; ++i) {
    for (int form = kPacked; form < (type == WEIGHTS_SPLIT ? kPacked + 1 : kForms); ++form) {
      const problem* p = &problems[i];
      operands o;
      operands_init(p, kernels, type, &o);
      float* b = buffer(p->k * p->n, 0);
      const int64_t rs = form == kRowsOfB ? p->n : 1, cs = form == kRowsOfB ? 1 : p->k;
      for (int64_t k = 0; k < p->k; ++k) {
        for (int64_t n = 0; n < p->n; ++n) b[k * rs + n * cs] = o.b[k * p->n + n];
      }
      carnot_matmul_f32 matmul = {.gemm = gemm_of(p, &o), .rs = rs, .cs = cs};
      matmul.workspace = buffer(carnot_matmul_f32_workspace(p->k), 0);
      if (form == kPacked) {
        gemm_fn(kernels, type)(&matmul.gemm, 0, p->m, 0, p->n);
      } else {
        matmul.gemm.b = b;
        matmul_fn(kernels, type)(&matmul, 0, p->m, 0, p->n);
      }
      double error = 0, size = 0;
      for (int64_t m = 0; m < p->m; ++m) {
        for (int64_t n = 0; n < p->n; ++n) {
          double want = p->residual ? o.residual[m * o.ldc + n] : 0;
          for (int64_t k = 0; k < p->k; ++k) {
            want += (double)o.a[m * o.lda + k] * o.b[k * p->n + n];
          }
          error += (o.c[m * o.ldc + n] - want) * (o.c[m * o.ldc + n] - want);
          size += want * want;
        }
      }
      const double relative = sqrt(error / size);
      print_message("K %lld, %lld rows, form %d: %.2g\n", (long long)p->k, (long long)p->m, form,
                    relative);
      assert_true(relative < 5e-7);
      buffer_free(b), buffer_free(matmul.workspace);
      operands_deinit(&o);
    }
  }
}

static void check_long_sums(const carnot_cpu_kernels* kernels) {
  check_long_sums_of(kernels, WEIGHTS_F32);
  check_long_sums_of(kernels, WEIGHTS_SPLIT);
}

// After a change of |o->b|.
static void pack_split_again(const problem* p, operands* o) {
  buffer_free(o->packed);
  float* k1n16 = buffer(carnot_packed_k1n16_count(p->k, p->n), 0);
  carnot_pack_k1n16_f32(p->k, p->n, o->b, p->n, 1, k1n16);
  o->packed = pack_as(WEIGHTS_SPLIT, 1, p->k, p->n, k1n16);
  buffer_free(k1n16);
}

// Numbers that bfloat16 parts cannot hold: tiny ones, whose results are exact products here, and
// large ones that overflow or nearly do, come out as by multiply-adds.
static void check_extremes(const carnot_cpu_kernels* kernels) {
  static const float scales[][2] = {{0x1p-100f, 0x1p60f}, {0x1p60f, 0x1p-80f}, {0x1p-70f, 0x1p-70f},
                                    {0x1p-140f, 1},       {0x1p100f, 0x1p27f}, {0x1p-60f, 0x1p-30f},
                                    {0x1p63f, 0x1p63f},   {0x1p64f, 0x1p64f}};
  const problem p = {105, 40, 70, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, false, false};
  for (size_t i = 0; i < 2 * (sizeof scales / sizeof *scales); ++i) {
    const float* scale = scales[i / 2];
    const int64_t begin = i % 2 ? 40 : 0, end = i % 2 ? 41 : p.m;  // rows that are scaled
    operands o;
    operands_init(&p, kernels, WEIGHTS_SPLIT, &o);
    for (int64_t k = begin * o.lda; k < end * o.lda; ++k) o.a[k] *= scale[0];
    for (int64_t k = 0; k < p.k * p.n; ++k) o.b[k] *= scale[1];
    pack_split_again(&p, &o);
    const carnot_gemm_f32 gemm = gemm_of(&p, &o);
    kernels->gemm_split6_f32(&gemm, 0, p.m, 0, p.n);
    for (int64_t m = 0; m < p.m; ++m) {
      for (int64_t n = 0; n < p.n; ++n) {
        double want = 0, size = 0;
        for (int64_t k = 0; k < p.k; ++k) {
          const double term = (double)o.a[m * o.lda + k] * o.b[k * p.n + n];
          want += term, size += fabs(term);
        }
        const float got = o.c[m * o.ldc + n];
        if (size >= FLT_MAX) {
          assert_true(fabs(want) < FLT_MAX || !isfinite(got));
        } else {
          check_near(got, want, FLT_EPSILON * 8 * size + 70 * 0x1p-149, "extremes", m, n);
        }
      }
    }
    operands_deinit(&o);
  }
}

// Tiny numbers beside others, as SiLU makes: every third one of a row. Where no weight is zero they
// change no bit, by tile instructions either; where one column has weights for them alone its
// results are those of multiply-adds.
static void check_tiny_terms(const carnot_cpu_kernels* kernels) {
  static const float scales[] = {0x1p-105f, 0x1p-126f, 0x1p-140f};
  const problem p = {70, 40, 300, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, false, false};
  enum { kAlone = 7 };  // the column
  for (size_t i = 0; i < 2 * (sizeof scales / sizeof *scales); ++i) {
    const bool alone = i % 2;
    operands o;
    operands_init(&p, kernels, WEIGHTS_SPLIT, &o);
    for (int64_t j = 0; j < p.k * p.n; ++j) {
      if (o.b[j] == 0) o.b[j] = 0.5f;
      if (alone && j % p.n == kAlone && j / p.n % 3) o.b[j] = 0;
    }
    pack_split_again(&p, &o);
    const carnot_gemm_f32 gemm = gemm_of(&p, &o);
    float* without = buffer(p.m * o.ldc, 0);
    for (int64_t m = 0; m < p.m; ++m)
      for (int64_t k = 0; k < p.k; k += 3) o.a[m * o.lda + k] *= scales[i / 2];
    kernels->gemm_split6_f32(&gemm, 0, p.m, 0, p.n);
    memcpy(without, o.c, (size_t)(p.m * o.ldc) * sizeof *without);
    for (int64_t m = 0; m < p.m && alone; ++m) {
      double want = 0, size = 0;
      for (int64_t k = 0; k < p.k; k += 3) {
        const double term = (double)o.a[m * o.lda + k] * o.b[k * p.n + kAlone];
        want += term, size += fabs(term);
      }
      check_near(o.c[m * o.ldc + kAlone], want, FLT_EPSILON * 8 * size + 100 * 0x1p-149,
                 "tiny terms alone", m, kAlone);
    }
    for (int64_t m = 0; m < p.m; ++m)
      for (int64_t k = 0; k < p.k; k += 3) o.a[m * o.lda + k] = 0;
    kernels->gemm_split6_f32(&gemm, 0, p.m, 0, p.n);
    for (int64_t m = 0; m < p.m && !alone; ++m)
      assert_memory_equal(without + m * o.ldc, o.c + m * o.ldc, (size_t)p.n * sizeof *without);
    buffer_free(without);
    operands_deinit(&o);
  }
}

// Three products: what they leave out is below 2^-14 of the sizes; relative to the L2 norm of the
// result it is 4e-6.
static void check_split3(const carnot_cpu_kernels* kernels) {
  const problem p = {37, 70, 300, 3, CARNOT_KERNEL_ACTIVATION_NONE, true, true, false};
  operands o;
  operands_init(&p, kernels, WEIGHTS_SPLIT, &o);
  const carnot_gemm_f32 gemm = gemm_of(&p, &o);
  kernels->gemm_split3_f32(&gemm, 0, p.m, 0, p.n);
  double error = 0, norm = 0;
  for (int64_t m = 0; m < p.m; ++m) {
    for (int64_t n = 0; n < p.n; ++n) {
      double want = (double)o.bias[n] + o.residual[m * o.ldc + n], size = fabs(want);
      for (int64_t k = 0; k < p.k; ++k) {
        const double term = (double)o.a[m * o.lda + k] * o.b[k * p.n + n];
        want += term, size += fabs(term);
      }
      const double got = o.c[m * o.ldc + n];
      check_near((float)got, want, 0x1p-14 * size, "split3", m, n);
      error += (got - want) * (got - want), norm += want * want;
    }
  }
  print_message("split3: %.2g\n", sqrt(error / norm));
  assert_true(sqrt(error / norm) < 8e-6);
  operands_deinit(&o);
}

static void check_types(const carnot_cpu_kernels* kernels) {
  for (weights_type type = 0; type < WEIGHTS_TYPE_COUNT; ++type) {
    check_gemm(kernels, type);
    check_parts(kernels, type);
    check_specials(kernels, type);
    check_tiny(kernels, type);
    check_silu(kernels, type);
    check_large_bias(kernels, type);
  }
}

static void check_matmul_type(const carnot_cpu_kernels* kernels, weights_type type) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    for (int form = 0; form < 3; ++form) {  // rows contiguous, columns contiguous, neither
      const problem* p = &kProblems[i];
      operands o;
      // Levels without bf16 products compute it in float32.
      operands_init(p, kernels, rounds_rows(kernels, type) ? type : WEIGHTS_F32, &o);
      const int64_t rs = form == 0 ? p->n : form == 1 ? 1 : 2, cs = form == 0 ? 1 : form * p->k;
      float* b = buffer(p->k * p->n * 2, 0);
      for (int64_t k = 0; k < p->k; ++k) {
        for (int64_t n = 0; n < p->n; ++n) b[k * rs + n * cs] = o.b[k * p->n + n];
      }
      carnot_matmul_f32 matmul = {.gemm = gemm_of(p, &o), .rs = rs, .cs = cs};
      matmul.gemm.b = b;
      matmul.workspace = buffer(carnot_matmul_f32_workspace(p->k), 0);
      matmul_fn(kernels, type)(&matmul, 0, p->m, 0, p->n);
      check_result(p, &o);
      float* fast = buffer(carnot_packed_k1n16_count(p->k, p->n), 0);
      float* slow = buffer(carnot_packed_k1n16_count(p->k, p->n), 0);
      kernels->gemm_pack_f32(p->k, p->n, b, rs, cs, fast);
      carnot_pack_k1n16_f32(p->k, p->n, b, rs, cs, slow);
      const size_t bytes = (size_t)carnot_packed_k1n16_count(p->k, p->n) * sizeof(float);
      assert_memory_equal(fast, slow, bytes);
      buffer_free(fast), buffer_free(slow), buffer_free(b), buffer_free(matmul.workspace);
      operands_deinit(&o);
    }
  }
}

static void check_matmul(const carnot_cpu_kernels* kernels) {
  check_matmul_type(kernels, WEIGHTS_F32);
  check_matmul_type(kernels, WEIGHTS_BF16);
}

static void test_gemm(void** state) { (void)state, for_each_isa(check_types); }
static void test_split3(void** state) { (void)state, for_each_isa(check_split3); }
static void test_extremes(void** state) { (void)state, for_each_isa(check_extremes); }
static void test_tiny_terms(void** state) { (void)state, for_each_isa(check_tiny_terms); }
static void test_long_sums(void** state) { (void)state, for_each_isa(check_long_sums); }
static void test_matmul(void** state) { (void)state, for_each_isa(check_matmul); }

static void test_unpack(void** state) {
  (void)state;
  enum { kRows = 7, kColumns = 37 };
  float b[kRows * kColumns], back[kRows * kColumns], packed[kRows * 48];
  uint64_t seed = 5;
  for (int i = 0; i < kRows * kColumns; ++i) b[i] = random_f32(&seed);
  carnot_pack_k1n16_f32(kRows, kColumns, b, 1, kRows, packed);
  carnot_unpack_k1n16_f32(kRows, kColumns, packed, 1, kRows, back);
  assert_memory_equal(b, back, sizeof b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gemm),     cmocka_unit_test(test_split3),
      cmocka_unit_test(test_extremes), cmocka_unit_test(test_tiny_terms),
      cmocka_unit_test(test_matmul),   cmocka_unit_test(test_long_sums),
      cmocka_unit_test(test_unpack),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
