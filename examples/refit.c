// New weights for an engine while a context of it lives: y = x * w + b.
#include "carnot/builder.h"
#include "example.h"

static float run(carnot_context* context, float x) {
  OK(carnot_context_set_tensor_address(context, "x", &x, sizeof(x)));
  OK(carnot_context_run(context));
  return *(const float*)carnot_context_output_data(context, "y");
}

int main(void) {
  float w = 2, b = 1, new_w = 10;
  carnot_network* network;
  carnot_value *x, *weight, *bias, *y;
  OK(carnot_network_create(&network));
  OK(carnot_network_add_input(network, "x", CARNOT_DTYPE_F32, SHAPE(1, 1), NULL, &x));
  OK(carnot_network_add_constant(network, "w", CARNOT_DTYPE_F32, SHAPE(1, 1), &w, &weight));
  OK(carnot_network_add_constant(network, "b", CARNOT_DTYPE_F32, SHAPE(1), &b, &bias));
  OK(carnot_network_add_matrix_multiply(network, x, CARNOT_MATRIX_NONE, weight, CARNOT_MATRIX_NONE,
                                        &y));
  OK(carnot_network_add_elementwise(network, y, bias, CARNOT_ELEMENTWISE_SUM, &y));
  OK(carnot_network_mark_output(network, y, "y"));
  carnot_config* config;
  OK(carnot_config_create(&config));
  OK(carnot_config_set_flag(config, CARNOT_BUILD_REFIT, true));
  carnot_engine* engine;
  OK(carnot_build_engine(network, config, &engine));
  carnot_config_destroy(config);
  carnot_network_destroy(network);

  carnot_context* context;
  // Tensors lie in host memory: of an engine for a GPU they are copied.
  OK(carnot_context_create(
      engine, &(carnot_context_config){.thread_count = 1, .host_tensors = true}, &context));
  float before = run(context, 3);
  carnot_refit* refit;
  OK(carnot_refit_begin(engine, &refit));
  for (uint32_t i = 0; carnot_refit_name(refit, i); i++)
    printf("weight %s\n", carnot_refit_name(refit, i));
  OK(carnot_refit_set_weights(refit, "w", CARNOT_DTYPE_F32, SHAPE(1, 1), &new_w));
  OK(carnot_refit_commit(refit));
  carnot_refit_free(refit);
  float after = run(context, 3);
  printf("before %g, after %g\n", (double)before, (double)after);
  carnot_context_destroy(context);
  carnot_engine_release(engine);
  return before != 7 || after != 31;
}
