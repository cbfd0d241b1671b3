// Unit tests of measuring and watching contexts, through the public interface alone.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <string.h>

#include "carnot/builder.h"
#include "carnot/data.h"
#include "carnot/machine.h"

static void ok(carnot_status* status) {
  if (status) fail_msg("%s", carnot_status_message(status));
}
static void fails_with(carnot_code code, carnot_status* status) {
  assert_int_equal(code, carnot_status_code(status));
  carnot_status_free(status);
}

// |y| [2,3] = sum over axis 0 of (x * x) [3] + x, in a context on one thread.
typedef struct fixture {
  carnot_engine* engine;
  carnot_context* context;
} fixture;

static const float kInput[6] = {1, -2, 3, 4, 5, -6};

static int setup(void** state) {
  static fixture f;
  carnot_network* network;
  carnot_value *x, *square, *sum, *y;
  carnot_dims dims = {.rank = 2, .d = {2, 3}};
  ok(carnot_network_create(&network));
  ok(carnot_network_add_input(network, "x", CARNOT_DTYPE_F32, &dims, NULL, &x));
  ok(carnot_network_add_elementwise(network, x, x, CARNOT_ELEMENTWISE_PROD, &square));
  ok(carnot_network_add_reduce(network, square, CARNOT_REDUCE_SUM, (const int64_t[]){0}, 1,
                               /*keep_dims=*/true, &sum));
  ok(carnot_network_add_elementwise(network, x, sum, CARNOT_ELEMENTWISE_SUM, &y));
  ok(carnot_value_set_name(sum, "sum"));
  ok(carnot_network_mark_output(network, y, "y"));
  carnot_config* config;
  ok(carnot_config_create(&config));
  ok(carnot_config_set_device(config, "cpu"));
  ok(carnot_config_set_level(config, 0));
  ok(carnot_build_engine(network, config, &f.engine));
  carnot_config_destroy(config);
  carnot_network_destroy(network);
  carnot_context_config settings = {.thread_count = 1, .host_tensors = true};
  ok(carnot_context_create(f.engine, &settings, &f.context));
  ok(carnot_context_set_input(f.context, "x", &dims, kInput));
  *state = &f;
  return 0;
}

static int teardown(void** state) {
  fixture* f = *state;
  carnot_context_destroy(f->context);
  carnot_engine_release(f->engine);
  return 0;
}

static void layers_are_timed_from_zero(void** state) {
  fixture* f = *state;
  carnot_engine_stats stats;
  carnot_layer_time time;
  carnot_engine_get_stats(f->engine, &stats);
  assert_true(stats.layer_count > 0 && stats.file_bytes > 0 && !stats.is_stripped);
  fails_with(CARNOT_FAILED_PRECONDITION, carnot_context_get_layer_time(f->context, 0, &time));
  ok(carnot_context_set_layer_timing(f->context, true));
  for (int i = 0; i < 3; i++) ok(carnot_context_run(f->context));
  for (uint32_t i = 0; i < stats.layer_count; i++) {
    ok(carnot_context_get_layer_time(f->context, i, &time));
    assert_non_null(time.layer);
    assert_non_null(time.tactic);
    assert_true(time.count == 3 && time.min_ns <= time.total_ns);
  }
  ok(carnot_context_set_layer_timing(f->context, true));
  ok(carnot_context_run(f->context));
  ok(carnot_context_get_layer_time(f->context, 0, &time));
  assert_int_equal(1, time.count);
  fails_with(CARNOT_OUT_OF_RANGE,
             carnot_context_get_layer_time(f->context, stats.layer_count, &time));
  ok(carnot_context_set_layer_timing(f->context, false));
  fails_with(CARNOT_FAILED_PRECONDITION, carnot_context_get_layer_time(f->context, 0, &time));
}

static carnot_status* note_sum(void* user, const carnot_watched_value* value) {
  float* sums = user;
  if (strcmp(value->name, "y") == 0) carnot_watched_value_copy(value, sums);
  return NULL;
}
static carnot_status* refuse(void* user, const carnot_watched_value* value) {
  (void)user;
  return carnot_status_make(CARNOT_CANCELLED, __FILE__, __LINE__, "%s is refused", value->name);
}

static void values_are_watched(void** state) {
  fixture* f = *state;
  float y[6] = {0};
  ok(carnot_context_set_watch(f->context, note_sum, y));
  ok(carnot_context_run(f->context));
  for (int i = 0; i < 6; i++) {
    float a = kInput[i % 3], b = kInput[i % 3 + 3];
    assert_true(y[i] == kInput[i] + a * a + b * b);
  }
  ok(carnot_context_set_watch(f->context, refuse, NULL));
  fails_with(CARNOT_CANCELLED, carnot_context_run(f->context));
  ok(carnot_context_set_watch(f->context, NULL, NULL));
  ok(carnot_context_run(f->context));
}

static void processors_have_no_device_times(void** state) {
  fixture* f = *state;
  carnot_run_times times = {1, 1, 1};
  ok(carnot_context_set_run_timing(f->context, true));
  ok(carnot_context_run(f->context));
  ok(carnot_context_get_run_times(f->context, &times));
  assert_false(carnot_context_has_accelerator(f->context));
  assert_true(times.upload_ns == 0 && times.compute_ns == 0 && times.download_ns == 0);
}

static void a_run_is_recorded_as_a_timeline(void** state) {
  fixture* f = *state;
  carnot_layer_time time;
  char* json;
  fails_with(CARNOT_INVALID_ARGUMENT,
             carnot_context_record_timeline(f->context, /*runs=*/0, &json));
  assert_null(json);
  ok(carnot_context_record_timeline(f->context, /*runs=*/2, &json));
  assert_non_null(strstr(json, "\"traceEvents\""));
  assert_non_null(strstr(json, "\"caller\""));
  assert_null(strstr(json, "\"worker"));  // the context has one thread
  const char* run = strstr(json, "\"cat\":\"run\"");
  assert_non_null(run);
  assert_null(strstr(run + 1, "\"cat\":\"run\""));  // the last run only
  carnot_memory_free(json);
  fails_with(CARNOT_FAILED_PRECONDITION, carnot_context_get_layer_time(f->context, 0, &time));
}

static void elements_of_small_types(void** state) {
  (void)state;
  uint8_t packed[2] = {0};
  carnot_element_set_i64(CARNOT_DTYPE_I4, packed, 0, -3);
  carnot_element_set_f64(CARNOT_DTYPE_I4, packed, 1, 100);
  assert_int_equal(-3, carnot_element_i64(CARNOT_DTYPE_I4, packed, 0));
  assert_true(carnot_element_f64(CARNOT_DTYPE_I4, packed, 1) == 7);
  carnot_element_set_f64(CARNOT_DTYPE_F16, packed, 0, 1.5);
  assert_true(carnot_element_f64(CARNOT_DTYPE_F16, packed, 0) == 1.5);
}

static void isa_levels_include_the_ones_before(void** state) {
  (void)state;
  char reason[64];
  bool usable = true;
  int count = 0;
  for (; carnot_isa_level_name(count); count++) {
    bool here = carnot_isa_level_is_usable(count, reason, sizeof(reason));
    assert_true(usable || !here);
    assert_true(here == (reason[0] == 0));
    usable = here;
  }
  assert_true(count > 1);
  assert_false(carnot_isa_level_is_usable(count, NULL, 0));
  assert_null(carnot_isa_level_name(-1));
}

static void engine_files_are_recognised(void** state) {
  fixture* f = *state;
  void* data;
  size_t size;
  ok(carnot_engine_serialize(f->engine, /*strip=*/false, &data, &size));
  assert_true(carnot_engine_is_file(data, size));
  assert_false(carnot_engine_is_file(data, 4));
  assert_false(carnot_engine_is_file("ONNX ONNX", 9));
  carnot_memory_free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layers_are_timed_from_zero),
      cmocka_unit_test(values_are_watched),
      cmocka_unit_test(processors_have_no_device_times),
      cmocka_unit_test(a_run_is_recorded_as_a_timeline),
      cmocka_unit_test(elements_of_small_types),
      cmocka_unit_test(isa_levels_include_the_ones_before),
      cmocka_unit_test(engine_files_are_recognised),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
