// One engine for any batch from 1 to 32 with a profile, an output whose size the run finds out, and
// step times.
#include "carnot/builder.h"
#include "example.h"

static void print_time(void* user, const char* step, uint64_t time_ns) {
  ++*(int*)user;
  printf("  %s: %.1f us\n", step, (double)time_ns * 1e-3);
}

static void* allocate(void* user, const char* name, void* current, size_t bytes) {
  (void)name, (void)current;
  void** memory = user;
  void* grown = realloc(*memory, bytes ? bytes : 1);
  return grown ? *memory = grown : NULL;
}

int main(void) {
  // where(x > 0): the places of the positive elements of x [batch, 4].
  carnot_network* network;
  carnot_value *x, *zero, *positive, *places, *doubled;
  OK(carnot_network_create(&network));
  OK(carnot_network_add_input(network, "x", CARNOT_DTYPE_F32, SHAPE(-1, 4),
                              (const char* const[]){"batch", NULL}, &x));
  OK(carnot_network_add_scalar(network, CARNOT_DTYPE_F32, 0, &zero));
  OK(carnot_network_add_elementwise(network, x, zero, CARNOT_ELEMENTWISE_GREATER, &positive));
  OK(carnot_network_add_non_zero(network, positive, &places));
  OK(carnot_network_add_elementwise(network, x, x, CARNOT_ELEMENTWISE_SUM, &doubled));
  OK(carnot_network_mark_output(network, places, "places"));
  OK(carnot_network_mark_output(network, doubled, "doubled"));
  carnot_config* config;
  uint32_t profile;
  OK(carnot_config_create(&config));
  OK(carnot_config_add_profile(config, &profile));
  OK(carnot_config_set_profile_shapes(config, profile, "x", SHAPE(1, 4), SHAPE(8, 4),
                                      SHAPE(32, 4)));
  carnot_engine* engine;
  OK(carnot_build_engine(network, config, &engine));
  carnot_config_destroy(config);
  carnot_network_destroy(network);

  carnot_context* context;
  void* memory = NULL;
  int reports = 0;
  OK(carnot_context_create(
      engine, &(carnot_context_config){.thread_count = 2, .host_tensors = true}, &context));
  OK(carnot_context_set_output_allocator(context, "places", allocate, NULL, &memory));
  OK(carnot_context_set_profiler(context, print_time, &reports));
  int wrong = 0;
  for (int batch = 1; batch <= 32; batch *= 2) {
    float data[32 * 4], out[32 * 4];
    int64_t expected = 0;
    for (int i = 0; i < batch * 4; i++) expected += (data[i] = (float)(i % 5 - 2)) > 0;
    OK(carnot_context_set_input(context, "x", SHAPE(batch, 4), data));
    OK(carnot_context_set_tensor_address(context, "doubled", out, sizeof(out)));
    OK(carnot_context_run(context));
    carnot_dims dims;
    OK(carnot_context_tensor_dims(context, "places", &dims));
    printf("batch %d: %lld positive elements\n", batch, (long long)dims.d[1]);
    wrong |= dims.d[1] != expected || out[batch * 4 - 1] != 2 * data[batch * 4 - 1];
    wrong |= carnot_context_output_data(context, "places") != memory;
  }
  // Beyond the profile: an error that says so.
  carnot_status* status = carnot_context_set_input_shape(context, "x", SHAPE(33, 4));
  printf("%s\n", carnot_status_message(status));
  wrong |= carnot_status_code(status) != CARNOT_INVALID_ARGUMENT || !reports;
  carnot_status_free(status);
  carnot_context_destroy(context);
  carnot_engine_release(engine);
  free(memory);
  return wrong;
}
