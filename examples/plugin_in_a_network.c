// Plugins as layers: TensorRT's group normalization, built in, whose scale the network computes;
// then a plugin of the library given. plugin_in_a_network libplugin_hard_swish.so
#include <math.h>

#include "carnot/builder.h"
#include "carnot/plugin.h"
#include "example.h"

enum { BATCH = 2, CHANNELS = 6, GROUPS = 3, PIXELS = 20, GROUP = CHANNELS / GROUPS * PIXELS };

static float x[BATCH][GROUPS][GROUP], gain[CHANNELS], bias[CHANNELS];

static carnot_plugin* make(const char* name, const carnot_plugin_field* fields, int32_t count) {
  const carnot_plugin_creator* creator;
  carnot_plugin* plugin;
  OK(carnot_plugin_find(name, "1", /*name_space=*/NULL, &creator));
  OK(carnot_plugin_create(creator, "my layer", fields, count, &plugin));
  return plugin;
}

static carnot_value* add(carnot_network* network, const char* name,
                         const carnot_plugin_field* fields, int32_t count,
                         carnot_value* const* inputs, int32_t input_count) {
  carnot_plugin* plugin = make(name, fields, count);
  carnot_value* y;
  OK(carnot_network_add_plugin(network, plugin, inputs, input_count, &y));
  carnot_plugin_destroy(plugin);
  return y;
}

static carnot_network* build(void) {
  carnot_network* network;
  carnot_value* in[3];
  OK(carnot_network_create(&network));
  OK(carnot_network_add_input(network, "x", CARNOT_DTYPE_F32, SHAPE(-1, CHANNELS, -1),
                              (const char* const[]){"batch", NULL, "pixels"}, &in[0]));
  OK(carnot_network_add_input(network, "gain", CARNOT_DTYPE_F32, SHAPE(CHANNELS), NULL, &in[1]));
  OK(carnot_network_add_activation(network, in[1], CARNOT_ACTIVATION_TYPE_SIGMOID, 0, 0, &in[1]));
  OK(carnot_network_add_constant(network, "bias", CARNOT_DTYPE_F32, SHAPE(CHANNELS), bias, &in[2]));
  const float eps = 1e-4f, shift = 0.25f;
  const int32_t groups = GROUPS;
  const carnot_plugin_field norm[] = {{"eps", &eps, CARNOT_FIELD_FLOAT32, 1},
                                      {"num_groups", &groups, CARNOT_FIELD_INT32, 1}},
                            swish[] = {{"shift", &shift, CARNOT_FIELD_FLOAT32, 1}};
  carnot_value* y = add(network, "GroupNormalizationPlugin", norm, 2, in, 3);
  OK(carnot_network_mark_output(network, add(network, "ExampleHardSwish", swish, 1, &y, 1), "y"));
  return network;
}

// The largest difference from the formula in double precision.
static double check(const float* found) {
  double worst = 0;
  for (int n = 0; n < BATCH; n++)
    for (int g = 0; g < GROUPS; g++) {
      double mean = 0, variance = 0;
      for (int i = 0; i < GROUP; i++) mean += (double)x[n][g][i] / GROUP;
      for (int i = 0; i < GROUP; i++) variance += pow((double)x[n][g][i] - mean, 2) / GROUP;
      for (int i = 0; i < GROUP; i++) {
        int c = (g * GROUP + i) / PIXELS;
        double y =
            ((double)x[n][g][i] - mean) / sqrt(variance + 1e-4) / (1 + exp(-(double)gain[c])) +
            (double)bias[c];
        y *= fmin(fmax(y / 6 + 0.25, 0), 1);
        worst = fmax(worst, fabs((double)*found++ - y));
      }
    }
  return worst;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  for (int i = 0; i < BATCH * CHANNELS * PIXELS; i++) (&x[0][0][0])[i] = 5 * sinf((float)i) + 100;
  for (int i = 0; i < CHANNELS; i++) {
    gain[i] = cosf((float)i);
    bias[i] = (float)i / 4;
  }
  carnot_plugin_library* library;
  OK(carnot_plugin_library_load(argv[1], NULL, &library));
  carnot_network* network = build();
  carnot_engine* engine;
  carnot_context* context;
  OK(carnot_build_engine(network, NULL, &engine));
  carnot_network_destroy(network);
  // Tensors lie in host memory: of an engine for a GPU they are copied.
  OK(carnot_context_create(
      engine, &(carnot_context_config){.thread_count = 1, .host_tensors = true}, &context));
  OK(carnot_context_set_input(context, "x", SHAPE(BATCH, CHANNELS, PIXELS), x));
  OK(carnot_context_set_input(context, "gain", SHAPE(CHANNELS), gain));
  OK(carnot_context_run(context));
  double worst = check(carnot_context_output_data(context, "y"));
  printf("largest difference from double precision: %.3g\n", worst);
  carnot_context_destroy(context);
  carnot_engine_release(engine);
  OK(carnot_plugin_library_unload(library));
  return worst > 1e-4;
}
