// Unit tests of reference execution, reading TensorProto and the callbacks of configurations,
// through the public interface alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "carnot/builder.h"
#include "carnot/edit.h"
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

typedef struct selection {
  int asked, reported;
  char taken[64];
  bool refuses;
} selection;

static bool choose_last(void* user, const carnot_layer_tactics* layer, bool* keep) {
  selection* s = user;
  assert_true(layer->choice_count > 0 && layer->layer[0] && layer->output_count > 0);
  const carnot_tactic_choice* last = &layer->choices[layer->choice_count - 1];
  for (uint32_t i = 0; i + 1 < layer->choice_count; i++) keep[i] = false;
  assert_true(last->ms < 0 && last->tensors[0].dims.rank >= 0);
  snprintf(s->taken, sizeof(s->taken), "%s", last->tactic);
  s->asked++;
  return !s->refuses;
}
static bool note_taken(void* user, const carnot_layer_tactics* layers, uint32_t layer_count) {
  selection* s = user;
  assert_true(layer_count > 0);
  assert_int_equal(1, layers[layer_count - 1].choice_count);
  assert_string_equal(s->taken, layers[layer_count - 1].choices->tactic);
  s->reported++;
  return true;
}

static void selector_chooses_tactics(void** state) {
  (void)state;
  selection s = {.asked = 0};
  carnot_value* sum;
  carnot_network* network = make_network(&sum);
  carnot_config* config;
  void* data;
  size_t size;
  ok(carnot_config_create(&config));
  ok(carnot_config_set_device(config, "cpu"));
  carnot_config_set_tactic_selector(config, choose_last, note_taken, &s);
  ok(carnot_build_memory(network, config, &data, &size));
  carnot_memory_free(data);
  assert_true(s.asked > 0);
  assert_int_equal(1, s.reported);
  s.refuses = true;
  fails_with(CARNOT_CANCELLED, carnot_build_memory(network, config, &data, &size));
  carnot_config_destroy(config);
  carnot_network_destroy(network);
}

// A network that quantizes nothing does not build with the permission to.
static void quantized_types_need_a_quantized_network(void** state) {
  (void)state;
  carnot_value* sum;
  carnot_network* network = make_network(&sum);
  carnot_config* config;
  void* data;
  size_t size;
  ok(carnot_config_create(&config));
  ok(carnot_config_set_device(config, "cpu"));
  ok(carnot_config_set_flag(config, CARNOT_BUILD_QUANTIZED, true));
  fails_with(CARNOT_UNSUPPORTED, carnot_build_memory(network, config, &data, &size));
  ok(carnot_config_set_flag(config, CARNOT_BUILD_QUANTIZED, false));
  ok(carnot_build_memory(network, config, &data, &size));
  carnot_memory_free(data);
  carnot_config_destroy(config);
  carnot_network_destroy(network);
}

// ModelProto { ir_version: 9, opset_import { version: 17 }, graph { node { input: "w", output: "y",
// op_type: "Relu" }, initializer { dims: 2, data_type: FLOAT, name: "w", raw_data: 1, 2 },
// output { name: "y" } } }.
static const uint8_t kModel[] = {
    0x08, 9, 0x42, 2,    0x10, 17,  0x3a, 38, 0x0a, 12,   0x0a, 1,    'w',  0x12, 1,   'y',
    0x22, 4, 'R',  'e',  'l',  'u', 0x2a, 17, 0x08, 2,    0x10, 1,    0x42, 1,    'w', 0x4a,
    8,    0, 0,    0x80, 0x3f, 0,   0,    0,  0x40, 0x62, 3,    0x0a, 1,    'y'};

static void initializers_are_replaced(void** state) {
  (void)state;
  const float given[2] = {3, -4};
  const carnot_onnx_initializer one = {"w", given, sizeof(given)}, none = {"v", given, 8},
                                small = {"w", given, 4};
  size_t size;
  ok(carnot_onnx_initializer_size(kModel, sizeof(kModel), "w", &size));
  assert_int_equal(sizeof(given), size);
  fails_with(CARNOT_NOT_FOUND, carnot_onnx_initializer_size(kModel, sizeof(kModel), "v", &size));
  const struct {
    const carnot_onnx_initializer* initializer;
    carnot_code code;
  } kCases[] = {{&one, CARNOT_OK}, {&none, CARNOT_NOT_FOUND}, {&small, CARNOT_INVALID_ARGUMENT}};
  for (size_t i = 0; i < sizeof(kCases) / sizeof(kCases[0]); i++) {
    carnot_network* network;
    ok(carnot_network_create(&network));
    carnot_status* status = carnot_network_add_onnx_with_initializers(
        network, kModel, sizeof(kModel), NULL, 0, kCases[i].initializer, 1);
    assert_int_equal(kCases[i].code, carnot_status_code(status));
    carnot_status_free(status);
    if (!i) {
      const carnot_layer* relu = carnot_network_first_layer(network);
      const float* data = carnot_value_constant(carnot_layer_input(relu, 0), NULL);
      assert_true(data[0] == 3 && data[1] == -4);
    }
    carnot_network_destroy(network);
  }
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
      cmocka_unit_test(selector_chooses_tactics),
      cmocka_unit_test(quantized_types_need_a_quantized_network),
      cmocka_unit_test(initializers_are_replaced),
      cmocka_unit_test(passes_and_levels_have_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
