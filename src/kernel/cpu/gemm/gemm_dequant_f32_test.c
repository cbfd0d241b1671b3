// GEMM over weights of 2, 4 and 8 bits in blocks against double precision, with
// activations in float32 and in 8 bits.
#include "kernel/cpu/gemm/gemm_dequant_s8.h"
#include "kernel/cpu/gemm/gemm_dequant_tiles.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t m, n, k, block;
  int bits;
  bool zeros, bias, residual, in_place;
  carnot_kernel_activation activation;
} problem;

static const problem kProblems[] = {
    {1, 1, 1, 1, 4, true, false, false, false, CARNOT_KERNEL_ACTIVATION_NONE},
    {1, 64, 128, 32, 4, false, true, false, false, CARNOT_KERNEL_ACTIVATION_NONE},
    {1, 200, 300, 16, 4, true, true, true, false, CARNOT_KERNEL_ACTIVATION_SILU},
    {1, 65, 37, 5, 4, true, false, true, true, CARNOT_KERNEL_ACTIVATION_RELU},
    {3, 49, 259, 128, 8, true, true, false, false, CARNOT_KERNEL_ACTIVATION_NONE},
    {4, 17, 100, 100, 8, false, true, true, true, CARNOT_KERNEL_ACTIVATION_CLIP},
    {2, 130, 90, 32, 2, true, false, true, false, CARNOT_KERNEL_ACTIVATION_GELU_ERF},
    {1, 31, 1000, 1024, 8, true, false, false, false, CARNOT_KERNEL_ACTIVATION_NONE},
    {5, 130, 300, 32, 4, true, true, true, false, CARNOT_KERNEL_ACTIVATION_SILU},
    {9, 33, 37, 5, 2, false, true, false, false, CARNOT_KERNEL_ACTIVATION_NONE},
    {14, 100, 511, 64, 8, true, false, true, true, CARNOT_KERNEL_ACTIVATION_NONE},
    {6, 70, 4100, 2048, 4, true, true, false, false, CARNOT_KERNEL_ACTIVATION_NONE},
    {33, 530, 700, 32, 4, true, true, true, true, CARNOT_KERNEL_ACTIVATION_SILU},
    {130, 33, 544, 16, 2, false, false, true, false, CARNOT_KERNEL_ACTIVATION_NONE},
    {163, 48, 1100, 1100, 8, true, true, false, false, CARNOT_KERNEL_ACTIVATION_NONE},
};

typedef struct operands {
  carnot_gemm_dequant_f32 call;
  uint8_t *q, *zeros;
  float *a, *scales, *packed, *bias, *residual, *c, *workspace;
} operands;

static int64_t scale_at(const problem* p, int64_t k, int64_t n) {
  const carnot_dequant_shape shape = {p->k, p->n, p->block, p->bits};
  return (n / 16 * carnot_dequant_blocks(&shape) + k / p->block) * 16 + n % 16;
}

static void operands_init(const problem* p, operands* o) {
  const carnot_dequant_shape shape = {p->k, p->n, p->block, p->bits};
  const int64_t count = p->m * p->n, most = 1 << p->bits;
  *o = (operands){.q = malloc((size_t)(p->k * p->n))};
  o->zeros = malloc((size_t)carnot_dequant_scale_count(&shape));
  uint64_t seed = 77;
  for (int64_t i = 0; i < p->k * p->n; ++i)
    o->q[i] = (uint8_t)((random_f32(&seed) + 1) * (float)most / 2) % (uint8_t)(most - 1);
  o->q[0] = (uint8_t)(most - 1);
  for (int64_t i = 0; i < carnot_dequant_scale_count(&shape); ++i)
    o->zeros[i] = (uint8_t)((random_f32(&seed) + 1) * (float)most / 2) % (uint8_t)(most - 1);
  o->a = buffer(p->m * p->k, 5), o->scales = buffer(carnot_dequant_scale_count(&shape), 6);
  o->packed = buffer(carnot_dequant_bytes(&shape) / 4, 0);
  o->bias = buffer(p->n, 7), o->residual = buffer(count, 8), o->c = buffer(count, 0);
  o->workspace = buffer(carnot_dequant_workspace(p->k), 0);
  if (p->in_place) memcpy(o->c, o->residual, (size_t)count * sizeof(float));
  carnot_pack_dequant(&shape, o->q, 1, p->k, o->packed);  // q is [N,K]
  o->call =
      (carnot_gemm_dequant_f32){.gemm = {.m = p->m,
                                         .n = p->n,
                                         .k = p->k,
                                         .a = o->a,
                                         .lda = p->k,
                                         .b = o->packed,
                                         .c = o->c,
                                         .ldc = p->n,
                                         .epilogue = {.bias = p->bias ? o->bias : NULL,
                                                      .residual = !p->residual  ? NULL
                                                                  : p->in_place ? o->c
                                                                                : o->residual,
                                                      .residual_ld = p->n,
                                                      .activation = p->activation,
                                                      .a = -0.5F,
                                                      .b = 6}},
                                .shape = shape,
                                .scales = o->scales,
                                .zeros = p->zeros ? o->zeros : NULL,
                                .zero = most / 2,
                                .workspace = p->m > CARNOT_DEQUANT_FEW_ROWS ? o->workspace : NULL};
}

static void operands_deinit(operands* o) {
  free(o->q), free(o->zeros);
  buffer_free(o->a), buffer_free(o->scales), buffer_free(o->packed), buffer_free(o->bias);
  buffer_free(o->residual), buffer_free(o->c), buffer_free(o->workspace);
}

static void check_result(const problem* p, const operands* o) {
  for (int64_t i = 0; i < p->m; ++i) {
    for (int64_t j = 0; j < p->n; ++j) {
      double sum = p->bias ? o->bias[j] : 0, size = fabs(sum);
      for (int64_t k = 0; k < p->k; ++k) {
        const int64_t at = scale_at(p, k, j);
        const int zero = p->zeros ? o->zeros[at] : o->call.zero;
        const double w = (o->q[j * p->k + k] - zero) * (double)o->scales[at];
        sum += o->a[i * p->k + k] * w, size += fabs(o->a[i * p->k + k] * w);
      }
      if (p->residual) sum += o->residual[i * p->n + j], size += fabs(o->residual[i * p->n + j]);
      const double want = activation_in_double(p->activation, -0.5, 6, sum);
      check_near(o->c[i * p->n + j], want, 6 * FLT_EPSILON * (size + fabs(want)), "dequant", i, j);
    }
  }
}

static void check_problems(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    operands o;
    operands_init(&kProblems[i], &o);
    kernels->gemm_dequant_f32(&o.call, 0, kProblems[i].m, 0, kProblems[i].n);
    check_result(&kProblems[i], &o);
    operands_deinit(&o);
  }
}

// ---- tiles ----

// All rows in parts, and the GEMM in four calls.
static void run_tiles(const carnot_cpu_kernels* kernels, const problem* p, operands* o) {
  const int64_t groups = (p->m + CARNOT_DEQUANT_GROUP_ROWS - 1) / CARNOT_DEQUANT_GROUP_ROWS,
                m = groups / 2 * CARNOT_DEQUANT_GROUP_ROWS, n = p->n > 16 ? 16 : p->n;
  const size_t bytes = (size_t)(groups * carnot_dequant_group_bytes(&o->call.shape));
  carnot_dequant_parts parts = {aligned_alloc(64, bytes), malloc((size_t)groups)};
  float* workspace =
      aligned_alloc(64, (size_t)carnot_dequant_tiles_workspace(&o->call.shape) * sizeof(float));
  o->call.workspace = workspace;
  kernels->split_rows_bf16(&o->call, 0, groups, &parts);
  kernels->gemm_dequant_tiles(&o->call, &parts, 0, m, 0, n);
  kernels->gemm_dequant_tiles(&o->call, &parts, 0, m, n, p->n);
  kernels->gemm_dequant_tiles(&o->call, &parts, m, p->m, 0, n);
  kernels->gemm_dequant_tiles(&o->call, &parts, m, p->m, n, p->n);
  free(parts.parts), free(parts.exact), free(workspace);
}

static void check_tiles(const carnot_cpu_kernels* kernels) {
  if (!kernels->gemm_dequant_tiles) return;
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    operands o;
    operands_init(&kProblems[i], &o);
    run_tiles(kernels, &kProblems[i], &o);
    check_result(&kProblems[i], &o);
    operands_deinit(&o);
  }
}

// Numbers whose parts AMX would flush, infinities and NaN: the bits of gemm_dequant_f32 in their
// group of rows.
static void check_inexact_rows(const carnot_cpu_kernels* kernels) {
  static const float kOdd[] = {0x1p-120F, 0x1p-140F, INFINITY, NAN};
  if (!kernels->gemm_dequant_tiles) return;
  const problem p = {70, 40, 96, 32, 4, true, false, false, false, CARNOT_KERNEL_ACTIVATION_NONE};
  for (size_t i = 0; i < sizeof kOdd / sizeof *kOdd; ++i) {
    operands o, plain;
    operands_init(&p, &o), operands_init(&p, &plain);
    o.a[37 * p.k + 5] = plain.a[37 * p.k + 5] = kOdd[i];
    kernels->gemm_dequant_f32(&plain.call, 0, p.m, 0, p.n);
    run_tiles(kernels, &p, &o);
    assert_memory_equal(o.c + 32 * p.n, plain.c + 32 * p.n, (size_t)(32 * p.n) * sizeof(float));
    operands_deinit(&o), operands_deinit(&plain);
  }
}

// ---- activations in 8 bits ----

typedef struct rounded_rows {
  carnot_dequant_rows rows;
  float *numbers, *scales, *sums;
} rounded_rows;

static void rounded_init(const problem* p, const operands* o, const carnot_cpu_kernels* kernels,
                         rounded_rows* r) {
  const carnot_dequant_shape* shape = &o->call.shape;
  const int64_t blocks = carnot_dequant_blocks(shape);
  r->numbers = buffer((p->m * carnot_dequant_row_bytes(shape) + 3) / 4, 0);
  r->scales = buffer(p->m * blocks, 0), r->sums = buffer(p->m * blocks, 0);
  r->rows = (carnot_dequant_rows){(int8_t*)r->numbers, r->scales, r->sums};
  kernels->round_rows_s8(shape, o->a, p->k, 0, p->m, &r->rows);
}

static void rounded_deinit(rounded_rows* r) {
  buffer_free(r->numbers), buffer_free(r->scales), buffer_free(r->sums);
}

// The activation as 8 bits and its scale: no larger than half a step from what it was.
static double rounded_at(const problem* p, const operands* o, int64_t m, int64_t k) {
  double most = 0;
  const int64_t begin = k / p->block * p->block;
  for (int64_t i = begin; i < p->k && i < begin + p->block; ++i)
    most = fmax(most, fabs((double)o->a[m * p->k + i]));
  const float scale = (float)most / 127;
  return scale > 0 ? (double)rintf(o->a[m * p->k + k] * (1 / scale)) * scale : 0;
}

static void check_rounded(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    const problem* p = &kProblems[i];
    operands o, exact;
    rounded_rows r;
    operands_init(p, &o), operands_init(p, &exact);
    rounded_init(p, &o, kernels, &r);
    kernels->gemm_dequant_s8(&o.call, &r.rows, 0, p->m, 0, p->n);
    for (int64_t m = 0; m < p->m; ++m)
      for (int64_t k = 0; k < p->k; ++k) exact.a[m * p->k + k] = (float)rounded_at(p, &o, m, k);
    memcpy(exact.c, o.c, (size_t)(p->m * p->n) * sizeof(float));
    check_result(p, &exact);
    rounded_deinit(&r);
    operands_deinit(&o), operands_deinit(&exact);
  }
}

// However the columns are cut, the bits are the same.
static void check_parts(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    const problem* p = &kProblems[i];
    operands whole, parts;
    operands_init(p, &whole), operands_init(p, &parts);
    kernels->gemm_dequant_f32(&whole.call, 0, p->m, 0, p->n);
    for (int64_t n = 0; n < p->n; n += 48)
      kernels->gemm_dequant_f32(&parts.call, 0, p->m, n, n + 48 < p->n ? n + 48 : p->n);
    assert_memory_equal(whole.c, parts.c, (size_t)(p->m * p->n) * sizeof(float));
    operands_deinit(&whole), operands_deinit(&parts);
  }
}

static void test_problems(void** state) { (void)state, for_each_isa(check_problems); }
static void test_tiles(void** state) { (void)state, for_each_isa(check_tiles); }
static void test_inexact_rows(void** state) { (void)state, for_each_isa(check_inexact_rows); }
static void test_rounded(void** state) { (void)state, for_each_isa(check_rounded); }
static void test_parts(void** state) { (void)state, for_each_isa(check_parts); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_problems), cmocka_unit_test(test_tiles),
                                     cmocka_unit_test(test_inexact_rows),
                                     cmocka_unit_test(test_rounded), cmocka_unit_test(test_parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
