// Convolution against the definition, element by element.
#include "ops/op_test.h"

typedef struct problem {
  int64_t n, c, h, w, m, r, s, group;
  int64_t strides[2], dilations[2], pads[4];
} problem;

static void set_window(op_test* t, const problem* p) {
  op_test_int(t, "group", p->group);
  op_test_ints(t, "strides", p->strides, 2);
  op_test_ints(t, "dilations", p->dilations, 2);
  op_test_ints(t, "pads", p->pads, 4);
}

// One output by the definition.
static double direct(const problem* p, const carnot_tensor* x, const carnot_tensor* w, int64_t n,
                     int64_t m, int64_t i, int64_t j) {
  int64_t channels = p->c / p->group, first = m / (p->m / p->group) * channels;
  double sum = 0;
  for (int64_t c = 0; c < channels; c++) {
    for (int64_t k = 0; k < p->r * p->s; k++) {
      int64_t y = i * p->strides[0] + k / p->s * p->dilations[0] - p->pads[0];
      int64_t z = j * p->strides[1] + k % p->s * p->dilations[1] - p->pads[1];
      if (y < 0 || y >= p->h || z < 0 || z >= p->w) continue;
      sum += op_test_at(x, ((n * p->c + first + c) * p->h + y) * p->w + z) *
             op_test_at(w, (m * channels + c) * p->r * p->s + k);
    }
  }
  return sum;
}

static void check(const problem* p) {
  op_test t;
  op_test_init(&t);
  set_window(&t, p);
  const carnot_rt_value* in[2] = {
      op_test_floats(&t, DIMS(p->n, p->c, p->h, p->w), NULL),
      op_test_tensor(&t, CARNOT_DTYPE_F32, DIMS(p->m, p->c / p->group, p->r, p->s), NULL, 9)};
  const carnot_tensor* y = op_test_run1(&t, &carnot_op_conv, 2, in);
  int64_t oh = y->dims[2], ow = y->dims[3];
  assert_int_equal(
      oh, (p->h + p->pads[0] + p->pads[2] - (p->r - 1) * p->dilations[0] - 1) / p->strides[0] + 1);
  for (int64_t i = 0; i < carnot_tensor_count(y); i++) {
    double wanted = direct(p, &in[0]->tensor, &in[1]->tensor, i / (p->m * oh * ow),
                           i / (oh * ow) % p->m, i / ow % oh, i % ow);
    if (fabs(wanted - op_test_at(y, i)) > 1e-4) {
      fail_msg("element %lld is %g, wanted %g", (long long)i, op_test_at(y, i), wanted);
    }
  }
  op_test_deinit(&t);
}

static void convolutions(void** state) {
  (void)state;
  const problem problems[] = {
      {1, 3, 9, 11, 5, 3, 3, 1, {1, 1}, {1, 1}, {1, 1, 1, 1}},
      {2, 8, 13, 7, 6, 5, 2, 2, {2, 1}, {1, 3}, {0, 2, 3, 1}},
      {1, 6, 10, 10, 6, 3, 3, 6, {2, 2}, {2, 1}, {1, 0, 1, 2}},    // depthwise
      {1, 64, 9, 9, 8, 3, 3, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}},     // more than one block of depth
      {1, 2, 20, 24, 3, 17, 18, 1, {1, 2}, {1, 1}, {4, 4, 4, 4}},  // more taps than the table holds
      {1, 4, 5, 5, 7, 1, 1, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}},
  };
  for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++) check(&problems[i]);
}

// The transposed form is the adjoint: <conv(x), y> = <x, transposed(y)> for the same weights.
static void transposed_is_the_adjoint(void** state) {
  (void)state;
  const problem p = {1, 4, 9, 8, 6, 3, 2, 2, {2, 1}, {1, 2}, {1, 0, 1, 1}};
  op_test t;
  op_test_init(&t);
  set_window(&t, &p);
  const carnot_rt_value* x = op_test_floats(&t, DIMS(p.n, p.c, p.h, p.w), NULL);
  const carnot_rt_value* w =
      op_test_tensor(&t, CARNOT_DTYPE_F32, DIMS(p.m, p.c / p.group, p.r, p.s), NULL, 9);
  const carnot_tensor* forward =
      op_test_run1(&t, &carnot_op_conv, 2, (const carnot_rt_value*[]){x, w});
  const carnot_rt_value* y = op_test_tensor(&t, CARNOT_DTYPE_F32, forward->dims, 4, NULL, 21);
  const carnot_tensor* back =
      op_test_run1(&t, &carnot_op_conv_transpose, 2, (const carnot_rt_value*[]){y, w});
  double left = 0, right = 0;
  for (int64_t i = 0; i < carnot_tensor_count(forward); i++) {
    left += op_test_at(forward, i) * op_test_at(&y->tensor, i);
  }
  assert_int_equal(carnot_tensor_count(back), carnot_tensor_count(&x->tensor));
  for (int64_t i = 0; i < carnot_tensor_count(back); i++) {
    right += op_test_at(back, i) * op_test_at(&x->tensor, i);
  }
  assert_true(fabs(left - right) < 1e-3);
  op_test_deinit(&t);
}

static void sizes(void** state) {
  (void)state;
  static const struct {
    const char* auto_pad;
    int64_t ceil_mode, kernel, stride, begin, end, in, out;
  } kCases[] = {
      {"NOTSET", 0, 3, 2, 0, 0, 6, 2},     {"NOTSET", 1, 3, 2, 0, 0, 6, 3},
      {"NOTSET", 1, 2, 3, 0, 1, 3, 1},     {"SAME_UPPER", 0, 3, 2, 0, 0, 7, 4},
      {"SAME_LOWER", 0, 2, 1, 0, 0, 5, 5}, {"VALID", 0, 3, 2, 0, 0, 7, 3},
  };
  for (size_t i = 0; i < sizeof(kCases) / sizeof(kCases[0]); i++) {
    op_test t;
    op_test_init(&t);
    op_test_text(&t, "auto_pad", kCases[i].auto_pad);
    op_test_int(&t, "ceil_mode", kCases[i].ceil_mode);
    op_test_ints(&t, "kernel_shape", DIMS(kCases[i].kernel));
    op_test_ints(&t, "strides", DIMS(kCases[i].stride));
    op_test_ints(&t, "pads", DIMS(kCases[i].begin, kCases[i].end));
    const carnot_rt_value* in[1] = {op_test_floats(&t, DIMS(1, 1, kCases[i].in), NULL)};
    assert_int_equal(op_test_run1(&t, &carnot_op_max_pool, 1, in)->dims[2], kCases[i].out);
    op_test_deinit(&t);
  }
}

static void pools(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  op_test_ints(&t, "kernel_shape", DIMS(2));
  op_test_ints(&t, "strides", DIMS(2));
  op_test_ints(&t, "pads", DIMS(1, 1));
  const carnot_rt_value* in[1] = {op_test_floats(&t, DIMS(1, 1, 4), LIST(-3, -4, NAN, -1))};
  carnot_rt_value* out[2];
  op_test_run(&t, &carnot_op_max_pool, 1, in, 2, out);
  op_test_expect(&out[0]->tensor, DIMS(1, 1, 3), LIST(-3, NAN, -1), 0);
  op_test_expect(&out[1]->tensor, DIMS(1, 1, 3), LIST(0, 2, 3), 0);
  op_test_expect(op_test_run1(&t, &carnot_op_average_pool, 1, in), DIMS(1, 1, 3), LIST(-3, NAN, -1),
                 0);
  op_test_int(&t, "count_include_pad", 1);
  op_test_expect(op_test_run1(&t, &carnot_op_average_pool, 1, in), DIMS(1, 1, 3),
                 LIST(-1.5, NAN, -0.5), 0);
  op_test_deinit(&t);
}

static void refuses_wrong_channels(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* in[2] = {op_test_floats(&t, DIMS(1, 3, 4, 4), NULL),
                                  op_test_floats(&t, DIMS(2, 4, 1, 1), NULL)};
  op_test_refuses(&t, &carnot_op_conv, 2, in, CARNOT_INVALID_MODEL);
  const carnot_rt_value* large[2] = {in[0], op_test_floats(&t, DIMS(2, 3, 7, 7), NULL)};
  op_test_refuses(&t, &carnot_op_conv, 2, large, CARNOT_INVALID_MODEL);
  op_test_deinit(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(convolutions), cmocka_unit_test(transposed_is_the_adjoint),
      cmocka_unit_test(sizes), cmocka_unit_test(pools), cmocka_unit_test(refuses_wrong_channels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
