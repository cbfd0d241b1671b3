// Convolution, batch norm and a residual: two profiles, refit, refit under a live context.
#include "net.h"

static void check(carnot_context* context, const conv_net_weights* w, int64_t n, int64_t h,
                  int64_t width) {
  carnot_arena arena = {0};
  float* x = net_numbers(&arena, 99, (size_t)(n * CONV_NET_CHANNELS * h * width));
  size_t count = (size_t)(n * CONV_NET_FILTERS * h * width);
  double* wanted = CARNOT_NEW_ARRAY(&arena, double, count);
  conv_net_wanted(w, x, n, h, width, wanted);
  net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(n, CONV_NET_CHANNELS, h, width));
  net_ok(carnot_context_run_now(context));
  const carnot_tensor* y = net_get(context, "y");
  assert_int_equal(carnot_tensor_count(y), count);
  net_near(y->data, wanted, count, 1e-4, 1e-4);
  carnot_arena_deinit(&arena);
}

static void set_weight(carnot_refit* refit, const char* name, float* data, const int64_t* dims,
                       int rank) {
  carnot_tensor t = {.dtype = CARNOT_DTYPE_F32, .rank = rank, .data = data};
  memcpy(t.dims, dims, (size_t)rank * sizeof(*dims));
  net_ok(carnot_refit_set(refit, name, &t));
}

static void refit(carnot_engine* engine, const conv_net_weights* w, bool second_too) {
  carnot_refit* refit = NULL;
  net_ok(carnot_refit_begin(engine, &refit));
  set_weight(refit, "conv.weight", w->conv, NET_LIST(CONV_NET_FILTERS, CONV_NET_CHANNELS, 3, 3));
  set_weight(refit, "conv.bias", w->bias, NET_LIST(CONV_NET_FILTERS));
  set_weight(refit, "bn.gamma", w->gamma, NET_LIST(CONV_NET_FILTERS));
  set_weight(refit, "bn.beta", w->beta, NET_LIST(CONV_NET_FILTERS));
  set_weight(refit, "bn.mean", w->mean, NET_LIST(CONV_NET_FILTERS));
  set_weight(refit, "bn.variance", w->variance, NET_LIST(CONV_NET_FILTERS));
  if (second_too)
    set_weight(refit, "second.weight", w->second,
               NET_LIST(CONV_NET_FILTERS, CONV_NET_CHANNELS, 1, 1));
  net_ok(carnot_refit_commit(refit));
  carnot_refit_free(refit);
}

static void test_static(void** state) {
  (void)state;
  carnot_arena arena = {0};
  conv_net_weights w;
  conv_net_weights_make(&arena, 1, &w);
  carnot_graph* g = conv_net(&w, 2, 9, 7);
  carnot_engine* engine = net_engine(g, NULL);
  for (int isa = 0; isa < CARNOT_ISA_COUNT; isa++) {
    if (!carnot_isa_includes(carnot_isa_of_machine(), (carnot_isa)isa)) continue;
    carnot_build_config config;
    carnot_build_config_init(&config);
    config.level = 0;
    config.isa = isa;
    carnot_engine* forced = net_engine(g, &config);
    carnot_context* context = net_context(forced, isa);
    check(context, &w, 2, 9, 7);
    carnot_context_free(context);
    carnot_engine_release(forced);
  }
  carnot_context* context = net_context(engine, -1);
  check(context, &w, 2, 9, 7);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

static void test_profiles_and_refit(void** state) {
  (void)state;
  carnot_arena arena = {0};
  conv_net_weights w, other;
  conv_net_weights_make(&arena, 1, &w);
  conv_net_weights_make(&arena, 50, &other);
  carnot_graph* g = conv_net(&w, -1, -2, -3);
  carnot_profile_input small = {.name = "x",
                                .min = {4, {1, CONV_NET_CHANNELS, 4, 4}},
                                .opt = {4, {1, CONV_NET_CHANNELS, 8, 8}},
                                .max = {4, {2, CONV_NET_CHANNELS, 9, 9}}};
  carnot_profile_input large = {.name = "x",
                                .min = {4, {1, CONV_NET_CHANNELS, 16, 16}},
                                .opt = {4, {4, CONV_NET_CHANNELS, 20, 20}},
                                .max = {4, {4, CONV_NET_CHANNELS, 32, 32}}};
  carnot_profile profiles[2] = {{&small, 1}, {&large, 1}};
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.level = 1;
  config.refit = true;
  config.profiles = profiles;
  config.profile_count = 2;
  carnot_engine* engine = net_engine(g, &config);
  carnot_context* live = net_context(engine, -1);
  check(live, &w, 1, 8, 8);
  check(live, &w, 2, 9, 5);
  for (int64_t h = 4; h <= 9; h++)  // more shapes than recordings are kept
    for (int64_t width = 4; width <= 9; width += 2) check(live, &w, 1 + h % 2, h, width);
  carnot_status* status;
  carnot_rt_value too_large = {
      .kind = CARNOT_VALUE_TENSOR,
      .tensor = {.dtype = CARNOT_DTYPE_F32, .rank = 4, .dims = {1, CONV_NET_CHANNELS, 20, 20}}};
  status = carnot_context_set_input_cell(live, 0, &too_large);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_ARGUMENT);
  carnot_status_free(status);
  net_ok(carnot_context_set_profile(live, 1));
  check(live, &w, 3, 17, 31);
  conv_net_weights mixed = other;
  mixed.second = w.second;
  refit(engine, &other, /*second_too=*/false);
  check(live, &mixed, 3, 17, 31);
  refit(engine, &other, /*second_too=*/true);
  check(live, &other, 1, 16, 16);
  net_ok(carnot_context_set_profile(live, 0));
  check(live, &other, 1, 4, 6);
  carnot_context* fresh = net_context(engine, -1);
  check(fresh, &other, 2, 8, 8);
  refit(engine, &w, true);
  check(fresh, &w, 2, 8, 8);
  check(live, &w, 1, 4, 6);
  carnot_context_free(fresh);
  carnot_context_free(live);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

// On the device every weight has its own memory, also weights that share bytes in the file.
static void check_apart(const carnot_context* context) {
  const carnot_plan* plan = context->plan;
  for (const carnot_device_weights* u = context->weights->uploads; u; u = u->next)
    for (uint32_t i = 0; i < plan->blob_count; i++)
      for (uint32_t j = 0; u->data[i] && j < plan->blob_count; j++) {
        if (i == j || !u->data[j] || u->data[j] < u->data[i]) continue;
        size_t apart = (size_t)((const char*)u->data[j] - (const char*)u->data[i]);
        assert_true(apart >= carnot_tensor_bytes(&plan->blobs[i].tensor));
      }
}

// A stripped engine gets its weights by refit; constants that are not weights (programs for an
// accelerator) are in the file.
static void test_stripped(void** state) {
  (void)state;
  carnot_arena arena = {0};
  conv_net_weights w;
  conv_net_weights_make(&arena, 3, &w);
  carnot_graph* g = conv_net(&w, 1, 8, 8);
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.level = 1;
  config.refit = config.strip = true;
  carnot_engine* engine = net_engine(g, &config);
  carnot_context_options options = {.isa = -1, .host_io = net_device() != NULL};
  carnot_context* context = NULL;
  carnot_status* status = carnot_context_create_on(engine, &options, &context);
  assert_int_equal(carnot_status_code(status), CARNOT_FAILED_PRECONDITION);
  carnot_status_free(status);
  refit(engine, &w, /*second_too=*/true);
  context = net_context(engine, -1);
  check_apart(context);
  check(context, &w, 1, 8, 8);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  carnot_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_static),
                                     cmocka_unit_test(test_profiles_and_refit),
                                     cmocka_unit_test(test_stripped)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
