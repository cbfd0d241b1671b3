// Unit tests of reference execution, reading TensorProto and the callbacks of configurations,
// through the public interface alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <string.h>

#include "carnot/builder.h"
#include "carnot/onnx.h"
#include "carnot/reference.h"

static void ok(carnot_status* status) {
  if (status) fail_msg("%s", carnot_status_message(status));
}
static void fails_with(carnot_code code, carnot_status* status) {
  assert_int_equal(code, carnot_status_code(status));
  carnot_status_free(status);
}

// y = relu(x + 1), x [4].
static carnot_network* make_network(carnot_value** out_sum) {
  carnot_network* network;
  carnot_value *x, *one, *y;
  carnot_dims dims = {.rank = 1, .d = {4}};
  ok(carnot_network_create(&network));
  ok(carnot_network_add_input(network, "x", CARNOT_DTYPE_F32, &dims, NULL, &x));
  ok(carnot_network_add_scalar(network, CARNOT_DTYPE_F32, 1, &one));
  ok(carnot_network_add_elementwise(network, x, one, CARNOT_ELEMENTWISE_SUM, out_sum));
  ok(carnot_network_add_activation(network, *out_sum, CARNOT_ACTIVATION_TYPE_RELU, 0, 0, &y));
  ok(carnot_network_mark_output(network, y, "y"));
  return network;
}

static void every_value_is_kept(void** state) {
  (void)state;
  static const float kX[4] = {-3, -1, 0, 2};
  carnot_value* sum;
  carnot_network* network = make_network(&sum);
  carnot_data* x;
  carnot_reference* reference;
  carnot_dims dims = {.rank = 1, .d = {4}};
  ok(carnot_data_create_tensor(CARNOT_DTYPE_F32, &dims, kX, &x));
  ok(carnot_reference_create(network, (const carnot_data* const[]){x}, 1, &reference));
  const float* inner = carnot_data_numbers(carnot_reference_value(reference, sum));
  const float* y =
      carnot_data_numbers(carnot_reference_value(reference, carnot_network_output(network, 0)));
  for (int i = 0; i < 4; i++) {
    assert_true(inner[i] == kX[i] + 1);
    assert_true(y[i] == (kX[i] + 1 > 0 ? kX[i] + 1 : 0));
  }
  carnot_reference_destroy(reference);
  fails_with(CARNOT_INVALID_ARGUMENT,
             carnot_reference_create(network, (const carnot_data* const[]){NULL}, 1, &reference));
  assert_null(reference);
  carnot_data_destroy(x);
  carnot_network_destroy(network);
}

static void tensor_proto_is_read(void** state) {
  (void)state;
  // dims: 2; data_type: FLOAT; raw_data: 1.0f, 2.0f.
  static const uint8_t kNumbers[] = {0x08, 2, 0x10, 1, 0x4a, 8, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x40};
  // dims: 2; data_type: STRING; string_data: "ab", "".
  static const uint8_t kTexts[] = {0x08, 2, 0x10, 8, 0x32, 2, 'a', 'b', 0x32, 0};
  carnot_data* data;
  size_t size;
  ok(carnot_onnx_read_tensor(kNumbers, sizeof(kNumbers), &data));
  const float* numbers = carnot_data_numbers(data);
  assert_int_equal(CARNOT_DTYPE_F32, carnot_data_dtype(data));
  assert_true(numbers[0] == 1 && numbers[1] == 2);
  carnot_data_destroy(data);
  ok(carnot_onnx_read_tensor(kTexts, sizeof(kTexts), &data));
  assert_memory_equal("ab", carnot_data_text(data, 0, &size), 2);
  assert_int_equal(2, size);
  (void)carnot_data_text(data, 1, &size);
  assert_int_equal(0, size);
  carnot_data_destroy(data);
  fails_with(CARNOT_INVALID_MODEL, carnot_onnx_read_tensor(kNumbers, 9, &data));
  assert_null(data);
}

static void count_log(void* user, int severity, const char* message) {
  (void)severity, (void)message;
  ++*(int*)user;
}
static bool cancel(void* user, const char* phase, int done, int total) {
  (void)phase, (void)done, (void)total;
  ++*(int*)user;
  return false;
}

static void callbacks_have_their_own_user(void** state) {
  (void)state;
  int logged = 0, asked = 0;
  carnot_value* sum;
  carnot_network* network = make_network(&sum);
  carnot_config* config;
  void* data;
  size_t size;
  ok(carnot_config_create(&config));
  ok(carnot_config_set_device(config, "cpu"));
  carnot_config_set_log(config, count_log, &logged);
  carnot_config_set_progress(config, cancel, &asked);
  fails_with(CARNOT_CANCELLED, carnot_build_memory(network, config, &data, &size));
  assert_int_equal(1, asked);
  carnot_config_destroy(config);
  carnot_network_destroy(network);
}

static void passes_and_levels_have_names(void** state) {
  (void)state;
  carnot_config* config;
  size_t count = 0;
  bool required, any_required = false;
  for (; carnot_pass_name(count, &required); count++) any_required |= required;
  assert_true(count > 5 && any_required);
  ok(carnot_config_create(&config));
  ok(carnot_config_set_isa(config, "scalar"));
  ok(carnot_config_set_isa(config, NULL));
  fails_with(CARNOT_INVALID_ARGUMENT, carnot_config_set_isa(config, "avx1024"));
  carnot_config_destroy(config);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_value_is_kept),
      cmocka_unit_test(tensor_proto_is_read),
      cmocka_unit_test(callbacks_have_their_own_user),
      cmocka_unit_test(passes_and_levels_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
