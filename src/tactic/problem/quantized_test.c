// The view of quantized regions: which inputs are operands, scales, bias and residual; the numbers
// of the rounding rule; and the reasons of regions that are none.
// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tactic/problem/quantized.h"

// Inputs of the step.
enum { kX, kXScale, kXZero, kW, kWScale, kBias, kR, kRScale, kRZero, kYScale, kYZero, kInputs };
enum { kMaxNodes = 8, kChannels = 3, kDepth = 4 };

// [2,4] x [4,3], quantized: dequantize both, multiply, and what a test appends.
typedef struct fixture {
  carnot_arena arena;
  carnot_region region;
  carnot_plan_node nodes[kMaxNodes];
  uint32_t inputs[kMaxNodes][3], outputs[kMaxNodes], result;
  carnot_operand_desc descs[kInputs], y;
  carnot_tensor tensors[kInputs];
  float x_scale, w_scale[kChannels], bias[kChannels], r_scale, y_scale;
  uint8_t x_zero, r_zero, y_zero;
  int8_t w[kDepth * kChannels];
  carnot_problem problem;
} fixture;

static uint32_t add(fixture* f, carnot_op op, uint32_t a, uint32_t b, uint32_t c) {
  uint32_t n = f->region.node_count++;
  f->inputs[n][0] = a, f->inputs[n][1] = b, f->inputs[n][2] = c;
  f->outputs[n] = kInputs + n;
  f->nodes[n] = (carnot_plan_node){.op = op,
                                   .name = "node",
                                   .input_count = 3,
                                   .output_count = 1,
                                   .inputs = f->inputs[n],
                                   .outputs = &f->outputs[n]};
  f->result = f->outputs[n];
  return f->result;
}

static uint32_t add_fn(fixture* f, carnot_op op, carnot_fn fn, uint32_t a, uint32_t b) {
  const uint32_t made = add(f, op, a, b, CARNOT_PLAN_NONE);
  carnot_plan_node* node = &f->nodes[f->region.node_count - 1];
  node->input_count = op == CARNOT_OP_UNARY ? 1 : 2;
  carnot_attrs_set_int(&node->attrs, &f->arena, "fn", (int64_t)fn);
  return made;
}

static void describe(fixture* f, int input, carnot_dtype dtype, void* data, int rank, int64_t d0,
                     int64_t d1) {
  carnot_operand_desc* t = &f->descs[input];
  *t = (carnot_operand_desc){.kind = CARNOT_VALUE_TENSOR, .rank = rank};
  t->format.dtype = dtype;
  t->dims[0] = t->min[0] = t->max[0] = d0;
  t->dims[1] = t->min[1] = t->max[1] = d1;
  if (!data) return;
  f->tensors[input] = (carnot_tensor){.dtype = dtype, .rank = rank, .dims = {d0, d1}, .data = data};
  t->is_constant = true;
  t->tensor = &f->tensors[input];
}

static void init(fixture* f) {
  memset(f, 0, sizeof(*f));
  carnot_arena_init(&f->arena);
  f->x_scale = 0.5F, f->r_scale = 0.25F, f->y_scale = 2;
  f->x_zero = 10, f->r_zero = 7, f->y_zero = 100;
  for (int i = 0; i < kChannels; i++)
    f->w_scale[i] = 0.125F * (float)(i + 1), f->bias[i] = (float)i;
  for (int i = 0; i < kDepth * kChannels; i++) f->w[i] = (int8_t)(i * 11 - 60);
  describe(f, kX, CARNOT_DTYPE_U8, NULL, 2, 2, kDepth);
  describe(f, kXScale, CARNOT_DTYPE_F32, &f->x_scale, 0, 0, 0);
  describe(f, kXZero, CARNOT_DTYPE_U8, &f->x_zero, 0, 0, 0);
  describe(f, kW, CARNOT_DTYPE_I8, f->w, 2, kDepth, kChannels);
  describe(f, kWScale, CARNOT_DTYPE_F32, f->w_scale, 1, kChannels, 0);
  describe(f, kBias, CARNOT_DTYPE_F32, f->bias, 1, kChannels, 0);
  describe(f, kR, CARNOT_DTYPE_U8, NULL, 2, 2, kChannels);
  describe(f, kRScale, CARNOT_DTYPE_F32, &f->r_scale, 0, 0, 0);
  describe(f, kRZero, CARNOT_DTYPE_U8, &f->r_zero, 0, 0, 0);
  describe(f, kYScale, CARNOT_DTYPE_F32, &f->y_scale, 0, 0, 0);
  describe(f, kYZero, CARNOT_DTYPE_U8, &f->y_zero, 0, 0, 0);
  f->y = f->descs[kR];
  f->region.nodes = f->nodes;
  const uint32_t x = add(f, CARNOT_OP_DEQUANTIZE_LINEAR, kX, kXScale, kXZero);
  const uint32_t w = add(f, CARNOT_OP_DEQUANTIZE_LINEAR, kW, kWScale, CARNOT_PLAN_NONE);
  add(f, CARNOT_OP_MATMUL, x, w, CARNOT_PLAN_NONE);
}

static const char* read(fixture* f, carnot_quantized_region* out, char* reason, size_t size) {
  f->region.value_count = kInputs + f->region.node_count;
  f->region.output_count = 1;
  f->region.outputs = &f->result;
  f->problem = (carnot_problem){.region = &f->region,
                                .input_count = kInputs,
                                .output_count = 1,
                                .inputs = f->descs,
                                .outputs = &f->y};
  return carnot_quantized_read(&f->problem, /*channel_axis=*/1, kChannels, out, reason, size);
}

// bias, dequantized residual, ReLU, quantize.
static void append_epilogue(fixture* f) {
  uint32_t acc = add_fn(f, CARNOT_OP_BINARY, CARNOT_FN_ADD, f->result, kBias);
  const uint32_t r = add(f, CARNOT_OP_DEQUANTIZE_LINEAR, kR, kRScale, kRZero);
  acc = add_fn(f, CARNOT_OP_BINARY, CARNOT_FN_ADD, r, acc);
  acc = add_fn(f, CARNOT_OP_UNARY, CARNOT_FN_RELU, acc, CARNOT_PLAN_NONE);
  add(f, CARNOT_OP_QUANTIZE_LINEAR, acc, kYScale, kYZero);
}

static void reads_whole_region(void** state) {
  (void)state;
  fixture f;
  carnot_quantized_region q;
  carnot_quantized_numbers numbers;
  char reason[256];
  init(&f);
  append_epilogue(&f);
  assert_null(read(&f, &q, reason, sizeof(reason)));
  assert_int_equal(q.anchor, 2);
  assert_int_equal(q.x.value, kX);
  assert_int_equal(q.x.zero_point, kXZero);
  assert_int_equal(q.weights.value, kW);
  assert_int_equal(q.weights.zero_point, CARNOT_PLAN_NONE);
  assert_int_equal(q.bias, kBias);
  assert_int_equal(q.residual.value, kR);
  assert_int_equal(q.residual.scale, kRScale);
  assert_int_equal(q.activation.kind, CARNOT_FUSED_RELU);
  assert_true(q.quantizes);
  assert_null(carnot_quantized_read_numbers(&f.problem, &q, &numbers, reason, sizeof(reason)));
  assert_false(numbers.is_real_path);
  assert_int_equal(numbers.low, 100);  // ReLU is a bound: the zero point
  assert_int_equal(numbers.high, 255);
  assert_true(numbers.residual_scale == 0.125F);
  carnot_arena_deinit(&f.arena);
}

static void computes_channels(void** state) {
  (void)state;
  fixture f;
  carnot_quantized_region q;
  carnot_quantized_numbers numbers;
  char reason[256];
  int8_t w[kDepth * kChannels];
  float scale[kChannels];
  int32_t bias[kChannels];
  const int32_t sum_w[kChannels] = {-42, 2, 46};
  init(&f);
  append_epilogue(&f);
  assert_null(read(&f, &q, reason, sizeof(reason)));
  assert_null(carnot_quantized_read_numbers(&f.problem, &q, &numbers, reason, sizeof(reason)));
  assert_null(carnot_quantized_weights(&f.problem, &q, /*axis=*/1, kChannels, w, scale, reason,
                                       sizeof(reason)));
  assert_memory_equal(w, f.w, sizeof(w));
  assert_null(carnot_quantized_channels(&f.problem, &q, &numbers, kChannels, kDepth, /*shift=*/10,
                                        sum_w, bias, scale, reason, sizeof(reason)));
  // bias / (0.5 * w_scale) - 10 * sum of the weights
  const int32_t expected[kChannels] = {0 + 420, 8 - 20, 11 - 460};
  for (int i = 0; i < kChannels; i++) {
    assert_int_equal(bias[i], expected[i]);
    assert_true(scale[i] == (float)(0.5 * 0.125 * (i + 1) / 2));
  }
  // int32 does not hold such a bias in units of the product of the scales.
  f.bias[1] = 1e9F;
  assert_non_null(carnot_quantized_channels(&f.problem, &q, &numbers, kChannels, kDepth, 10, sum_w,
                                            bias, scale, reason, sizeof(reason)));
  carnot_arena_deinit(&f.arena);
}

static void takes_real_path_for_curves_and_floats(void** state) {
  (void)state;
  fixture f;
  carnot_quantized_region q;
  carnot_quantized_numbers numbers;
  char reason[256];
  init(&f);
  assert_null(read(&f, &q, reason, sizeof(reason)));
  assert_null(carnot_quantized_read_numbers(&f.problem, &q, &numbers, reason, sizeof(reason)));
  assert_true(numbers.is_real_path && !q.quantizes);
  const uint32_t acc = add_fn(&f, CARNOT_OP_UNARY, CARNOT_FN_SIGMOID, f.result, CARNOT_PLAN_NONE);
  add(&f, CARNOT_OP_QUANTIZE_LINEAR, acc, kYScale, kYZero);
  assert_null(read(&f, &q, reason, sizeof(reason)));
  assert_null(carnot_quantized_read_numbers(&f.problem, &q, &numbers, reason, sizeof(reason)));
  assert_true(numbers.is_real_path && q.quantizes);
  assert_int_equal(numbers.low, 0);
  carnot_arena_deinit(&f.arena);
}

static void centers_weights(void** state) {
  (void)state;
  fixture f;
  carnot_quantized_region q;
  char reason[256];
  int8_t w[kDepth * kChannels];
  float scale[kChannels];
  uint8_t zero[kChannels] = {128, 128, 100}, stored[kDepth * kChannels];
  init(&f);
  for (int i = 0; i < kDepth * kChannels; i++) stored[i] = (uint8_t)(100 + i);
  describe(&f, kW, CARNOT_DTYPE_U8, stored, 2, kDepth, kChannels);
  describe(&f, kR, CARNOT_DTYPE_U8, zero, 1, kChannels, 0);
  f.inputs[1][2] = kR;
  assert_null(read(&f, &q, reason, sizeof(reason)));
  assert_null(
      carnot_quantized_weights(&f.problem, &q, 1, kChannels, w, scale, reason, sizeof(reason)));
  for (int i = 0; i < kDepth * kChannels; i++)
    assert_int_equal(w[i], (int)stored[i] - (int)zero[i % kChannels]);
  stored[5] = 255, zero[2] = 3;
  assert_string_equal(
      carnot_quantized_weights(&f.problem, &q, 1, kChannels, w, scale, reason, sizeof(reason)),
      "weight 5 less its zero point is 252, exceeds int8");
  carnot_arena_deinit(&f.arena);
}

static void gives_reasons(void** state) {
  (void)state;
  fixture f;
  carnot_quantized_region q;
  carnot_quantized_numbers numbers;
  char reason[256];
  init(&f);
  add_fn(&f, CARNOT_OP_BINARY, CARNOT_FN_MUL, f.result, kBias);
  assert_string_equal(read(&f, &q, reason, sizeof(reason)),
                      "node (binary) behind the anchor is no bias, residual, activation or "
                      "quantization");
  carnot_arena_deinit(&f.arena);
  init(&f);
  append_epilogue(&f);
  const float unfit[] = {0, -1, NAN, INFINITY, 1e-40F};
  for (int i = 0; i < 5; i++) {
    f.y_scale = unfit[i];
    assert_null(read(&f, &q, reason, sizeof(reason)));
    assert_non_null(
        carnot_quantized_read_numbers(&f.problem, &q, &numbers, reason, sizeof(reason)));
    assert_non_null(strstr(reason, "the scale of the result is"));
  }
  carnot_arena_deinit(&f.arena);
  // A region without dequantized operands is for other tactics.
  init(&f);
  f.nodes[0].op = f.nodes[1].op = CARNOT_OP_IDENTITY;
  assert_string_equal(read(&f, &q, reason, sizeof(reason)), "");
  carnot_arena_deinit(&f.arena);
}

// The bytes by the factors are those of the division, for every inner byte and residual.
static void check_factors(const carnot_quantized_twice* t) {
  float inner, residual;
  assert_true(carnot_quantized_find_factors(t, &inner, &residual));
  const float base = carnot_quantized_residual_base(t->residual_zero, residual);
  const int first = t->residual_signed ? -128 : 0;
  for (int q = t->inner_low; q <= t->inner_high; q++)
    for (int r = first; r < first + 256; r++) {
      const float x = (float)(q - t->inner_zero) * t->inner_scale,
                  v = x + (float)(r - t->residual_zero) * t->residual_scale;
      const float addend =
          t->folds_zero ? fmaf((float)r, residual, base) : (float)(r - t->residual_zero) * residual;
      const float got = fmaf((float)(q - t->inner_zero), inner, addend);
      if (fabsf(v / t->divisor) < 500)
        assert_float_equal(rintf(got), rintf(v / t->divisor), 0);
      else
        assert_true(fabsf(got) > 499);
    }
}

static void test_factors(void** state) {
  (void)state;
  const float scales[][3] = {{0.37F, 0.31F, 0.21F}, {0.02F, 0.5F, 0.25F}, {1e-3F, 3e-3F, 2.7e-3F}};
  for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++)
    for (int form = 0; form < 4; form++) {
      const carnot_quantized_twice twice = {.inner_zero = 119,
                                            .inner_low = 3,
                                            .inner_high = 255,
                                            .inner_scale = scales[i][0],
                                            .residual_signed = form & 1,
                                            .residual_zero = form & 1 ? -17 : 201,
                                            .residual_scale = scales[i][1],
                                            .divisor = scales[i][2],
                                            .folds_zero = form & 2};
      check_factors(&twice);
    }
  const carnot_quantized_twice large = {.inner_high = 255, .inner_scale = 1, .divisor = 1e-30F};
  float inner, residual;
  assert_false(carnot_quantized_find_factors(&large, &inner, &residual));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_whole_region),
      cmocka_unit_test(computes_channels),
      cmocka_unit_test(takes_real_path_for_curves_and_floats),
      cmocka_unit_test(centers_weights),
      cmocka_unit_test(gives_reasons),
      cmocka_unit_test(test_factors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
