// A small classifier from layers: convolution, ReLU, pooling, matrix product, softmax; and a loop
// of ten steps.
#include <math.h>

#include "carnot/builder.h"
#include "example.h"

enum { CLASSES = 10, FILTERS = 8, SIZE = 12 };

static float weights[FILTERS * 3 * 3], matrix[FILTERS * CLASSES], image[SIZE * SIZE];

static carnot_value* constant(carnot_network* network, const char* name, const carnot_dims* dims,
                              const float* data) {
  carnot_value* value;
  OK(carnot_network_add_constant(network, name, CARNOT_DTYPE_F32, dims, data, &value));
  return value;
}

static carnot_value* classify(carnot_network* network, carnot_value* x) {
  carnot_window window = {.rank = 2, .pre_padding = {1, 1}, .post_padding = {1, 1}};
  carnot_window pool = {.rank = 2, .kernel = {SIZE, SIZE}};
  carnot_value* y;
  OK(carnot_network_add_convolution(
      network, x, constant(network, "conv.weight", SHAPE(FILTERS, 1, 3, 3), weights), NULL, 1,
      &window, &y));
  OK(carnot_layer_set_name(carnot_value_layer(y), "conv"));
  OK(carnot_network_add_activation(network, y, CARNOT_ACTIVATION_TYPE_RELU, 0, 0, &y));
  OK(carnot_network_add_pooling(network, y, CARNOT_POOLING_AVERAGE, &pool, /*exclude_padding=*/true,
                                0, &y));
  carnot_value* dims;
  OK(carnot_network_add_int64s(network, (const int64_t[]){0, FILTERS}, 2, &dims));
  OK(carnot_network_add_shuffle(network, y, NULL, dims, NULL, &y));
  OK(carnot_network_add_matrix_multiply(
      network, y, CARNOT_MATRIX_NONE, constant(network, "matrix", SHAPE(FILTERS, CLASSES), matrix),
      CARNOT_MATRIX_NONE, &y));
  OK(carnot_network_add_softmax(network, y, -1, &y));
  return y;
}

// The mean of p sharpened ten times: p = p * p / sum(p * p).
static carnot_value* sharpen(carnot_network* network, carnot_value* p) {
  carnot_value *count, *current, *square, *sum, *next, *last;
  const int64_t ten = 10, axis = -1;
  carnot_loop* loop;
  OK(carnot_network_add_int64s(network, &ten, -1, &count));
  OK(carnot_network_begin_loop(network, count, NULL, &loop));
  OK(carnot_loop_add_recurrence(loop, p, &current));
  OK(carnot_network_add_elementwise(network, current, current, CARNOT_ELEMENTWISE_PROD, &square));
  OK(carnot_network_add_reduce(network, square, CARNOT_REDUCE_SUM, &axis, 1, true, &sum));
  OK(carnot_network_add_elementwise(network, square, sum, CARNOT_ELEMENTWISE_DIV, &next));
  OK(carnot_loop_set_next(loop, current, next));
  OK(carnot_loop_add_last_output(loop, current, &last));
  OK(carnot_loop_end(loop));
  return last;
}

int main(void) {
  for (int i = 0; i < FILTERS * 9; i++) weights[i] = sinf((float)i);
  for (int i = 0; i < FILTERS * CLASSES; i++) matrix[i] = 3 * cosf((float)i);
  for (int i = 0; i < SIZE * SIZE; i++) image[i] = (float)(i % 7) / 7;
  carnot_network* network;
  OK(carnot_network_create(&network));
  carnot_value* x;
  OK(carnot_network_add_input(network, "image", CARNOT_DTYPE_F32, SHAPE(1, 1, SIZE, SIZE), NULL,
                              &x));
  carnot_value* p = classify(network, x);
  OK(carnot_network_mark_output(network, p, "probability"));
  OK(carnot_network_mark_output(network, sharpen(network, p), "sharp"));
  for (carnot_layer* l = carnot_network_first_layer(network); l; l = carnot_layer_next(l))
    printf("%s %s\n", carnot_layer_type(l), carnot_layer_name(l));

  carnot_engine* engine;
  carnot_context* context;
  OK(carnot_build_engine(network, NULL, &engine));
  carnot_network_destroy(network);
  // Tensors lie in host memory: of an engine for a GPU they are copied.
  OK(carnot_context_create(
      engine, &(carnot_context_config){.thread_count = 1, .host_tensors = true}, &context));
  OK(carnot_context_set_tensor_address(context, "image", image, sizeof(image)));
  OK(carnot_context_run(context));
  const float* probability = carnot_context_output_data(context, "probability");
  const float* sharp = carnot_context_output_data(context, "sharp");
  float sum = 0, sharp_sum = 0, top = 0;
  for (int i = 0; i < CLASSES; i++) {
    printf("class %d: %.4f, %.4f\n", i, (double)probability[i], (double)sharp[i]);
    sum += probability[i];
    sharp_sum += sharp[i];
    top = fmaxf(top, sharp[i]);
  }
  carnot_context_destroy(context);
  carnot_engine_release(engine);
  return fabsf(sum - 1) > 1e-5f || fabsf(sharp_sum - 1) > 1e-5f || top < 0.5f;
}
