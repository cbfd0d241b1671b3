// LSTM, GRU and RNN against the recurrence written out.
#include "ops/op_test.h"

enum { kTime = 4, kBatch = 2, kInput = 3, kHidden = 2 };

static const carnot_rt_value* weights(op_test* t, int64_t a, int64_t b, uint32_t seed) {
  return op_test_tensor(t, CARNOT_DTYPE_F32, DIMS(1, a, b), NULL, seed);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

// Two steps of one sequence by the equations, with peepholes and bias.
static void lstm_by_the_equations(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* in[8] = {
      op_test_floats(&t, DIMS(2, 1, 1), LIST(0.5, -1)),
      op_test_floats(&t, DIMS(1, 4, 1), LIST(0.1, 0.2, 0.3, 0.4)),
      op_test_floats(&t, DIMS(1, 4, 1), LIST(0.5, 0.6, 0.7, 0.8)),
      op_test_floats(&t, DIMS(1, 8), LIST(1, 2, 3, 4, -1, -2, -3, -3.5)),
      NULL,
      NULL,
      NULL,
      op_test_floats(&t, DIMS(1, 3), LIST(0.3, 0.2, 0.1))};
  carnot_rt_value* out[3];
  op_test_run(&t, &carnot_op_lstm, 8, in, 3, out);
  double h = 0, c = 0, x[2] = {0.5, -1}, y[2];
  for (int s = 0; s < 2; s++) {
    double i = sigmoid(0.1 * x[s] + 0.5 * h + 0.3 * c), f = sigmoid(0.3 * x[s] + 0.7 * h + 0.1 * c);
    double g = tanh(0.4 * x[s] + 0.8 * h + 0.5);
    double next = f * c + i * g;
    double o = sigmoid(0.2 * x[s] + 0.6 * h + 0.2 * next);
    c = next;
    y[s] = h = o * tanh(c);
  }
  op_test_expect(&out[0]->tensor, DIMS(2, 1, 1, 1), y, 1e-6);
  op_test_expect(&out[1]->tensor, DIMS(1, 1, 1), &h, 1e-6);
  op_test_expect(&out[2]->tensor, DIMS(1, 1, 1), &c, 1e-6);
  op_test_deinit(&t);
}

// The reverse direction with lengths is the forward one on the reversed parts of the sequences.
static void reverse_begins_at_the_end(void** state) {
  (void)state;
  const int64_t lengths[kBatch] = {4, 2};
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* x = op_test_floats(&t, DIMS(kTime, kBatch, kInput), NULL);
  carnot_rt_value* turned = op_test_floats(&t, DIMS(kTime, kBatch, kInput), NULL);
  for (int s = 0; s < kTime; s++) {
    for (int b = 0; b < kBatch; b++) {
      int from = s < lengths[b] ? (int)lengths[b] - 1 - s : s;
      memcpy((float*)turned->tensor.data + (s * kBatch + b) * kInput,
             (float*)x->tensor.data + (from * kBatch + b) * kInput, kInput * sizeof(float));
    }
  }
  const carnot_rt_value* in[5] = {
      x, weights(&t, 3 * kHidden, kInput, 5), weights(&t, 3 * kHidden, kHidden, 6), NULL,
      op_test_tensor(&t, CARNOT_DTYPE_I32, DIMS(kBatch), LIST(4, 2), 0)};
  carnot_rt_value *forward[2], *reverse[2];
  op_test_text(&t, "direction", "reverse");
  op_test_run(&t, &carnot_op_gru, 5, in, 2, reverse);
  op_test_text(&t, "direction", "forward");
  in[0] = turned;
  op_test_run(&t, &carnot_op_gru, 5, in, 2, forward);
  for (int i = 0; i < kBatch * kHidden; i++) {
    assert_true(op_test_at(&forward[1]->tensor, i) == op_test_at(&reverse[1]->tensor, i));
  }
  for (int b = 0; b < kBatch; b++) {
    for (int s = 0; s < kTime; s++) {
      int from = s < lengths[b] ? (int)lengths[b] - 1 - s : s;
      for (int k = 0; k < kHidden; k++) {
        double a = op_test_at(&reverse[0]->tensor, (s * kBatch + b) * kHidden + k);
        assert_true(a == op_test_at(&forward[0]->tensor, (from * kBatch + b) * kHidden + k));
        assert_true(s < lengths[b] ? a != 0 : a == 0);
      }
    }
  }
  op_test_deinit(&t);
}

static void activations_take_their_parameters(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_strview name = carnot_view("leakyrelu");
  const double alpha = 0.5;
  carnot_attrs_set(
      &t.attrs, &t.arena,
      (carnot_attr){
          .name = "activations", .type = CARNOT_ATTR_STRINGS, .count = 1, .strings = &name});
  carnot_attrs_set_floats(&t.attrs, &t.arena, "activation_alpha", &alpha, 1);
  carnot_attrs_set_float(&t.attrs, &t.arena, "clip", 3);
  const carnot_rt_value* in[3] = {op_test_floats(&t, DIMS(2, 1, 1), LIST(-2, 9)),
                                  op_test_floats(&t, DIMS(1, 1, 1), LIST(1)),
                                  op_test_floats(&t, DIMS(1, 1, 1), LIST(1))};
  op_test_expect(op_test_run1(&t, &carnot_op_rnn, 3, in), DIMS(2, 1, 1, 1), LIST(-1, 3), 0);
  op_test_deinit(&t);
}

// A sequence of which the mask leaves out two steps is the shorter one; Y repeats the state there.
static void a_mask_leaves_steps_out(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value *w = weights(&t, 4 * kHidden, 1, 5),
                        *r = weights(&t, 4 * kHidden, kHidden, 6);
  const carnot_rt_value* whole[9] = {op_test_floats(&t, DIMS(4, 1, 1), LIST(0.5, 9, -1, 9)), w, r};
  const carnot_rt_value* part[3] = {op_test_floats(&t, DIMS(2, 1, 1), LIST(0.5, -1)), w, r};
  carnot_rt_value *masked[3], *shorter[3];
  whole[8] = op_test_tensor(&t, CARNOT_DTYPE_BOOL, DIMS(4, 1), LIST(1, 0, 1, 0), 0);
  op_test_run(&t, &carnot_op_lstm, 9, whole, 3, masked);
  op_test_run(&t, &carnot_op_lstm, 3, part, 3, shorter);
  const float *y = masked[0]->tensor.data, *few = shorter[0]->tensor.data;
  for (int s = 0; s < 4; s++)
    assert_memory_equal(y + s * kHidden, few + s / 2 * kHidden, kHidden * sizeof(*y));
  for (int i = 1; i < 3; i++)
    assert_memory_equal(masked[i]->tensor.data, shorter[i]->tensor.data, kHidden * sizeof(*y));
  op_test_deinit(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_mask_leaves_steps_out),
                                     cmocka_unit_test(lstm_by_the_equations),
                                     cmocka_unit_test(reverse_begins_at_the_end),
                                     cmocka_unit_test(activations_take_their_parameters)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
