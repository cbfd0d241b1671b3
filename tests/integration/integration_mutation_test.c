// Engines with flipped bytes or truncated, with corrected checksums: load, context and run return
// an error or a result and access no other memory. Run it under sanitizers too.
#include "backend/device.h"
#include "base/hash.h"
#include "engine/header.h"
#include "mutation.h"
#include "net.h"

static const char* round_text(void) { return getenv("CARNOT_MUTATIONS"); }

static uint32_t next(uint32_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

static void mutate(uint8_t* data, size_t size, uint32_t* state) {
  static const uint8_t kBytes[] = {0, 1, 2, 4, 0x7f, 0x80, 0xff, 0xfe};
  const carnot_header* header = (const carnot_header*)data;
  uint64_t start = header->metadata.offset, span = header->metadata.bytes;
  int edits = 1 + (int)(next(state) % 3);
  for (int i = 0; i < edits; i++) {
    size_t at = next(state) % 16 ? (size_t)(start + next(state) % span) : next(state) % size;
    if (at >= size) continue;
    switch (next(state) % 3) {
      case 0: data[at] ^= (uint8_t)(1u << next(state) % 8); break;
      case 1: data[at] = kBytes[next(state) % 8]; break;
      default: data[at] = (uint8_t)(data[at] + (next(state) % 2 ? 1 : -1));
    }
  }
}

static void check_in(carnot_graph* g, int rounds, uint32_t seed, carnot_dtype half) {
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.level = 1;
  config.refit = seed % 2;
  config.typing.f16 = half == CARNOT_DTYPE_F16;
  config.typing.bf16 = half == CARNOT_DTYPE_BF16;
  // With compressed metadata, as it is written, and with plain ones, whose bytes mean something.
  void* forms[2];
  size_t sizes[2];
  net_bytes(g, &config, &forms[0], &sizes[0]);
  net_bytes(g, &config, &forms[1], &sizes[1]);
  mutation_decompress(&forms[1], &sizes[1]);
  uint8_t* copy = malloc(sizes[1]);
  uint32_t state = seed * 2654435761u | 1;
  int accepted = 0;
  for (int i = 0; i < rounds; i++) {
    const int form = i % 8 != 0;
    memcpy(copy, forms[form], sizes[form]);
    mutate(copy, sizes[form], &state);
    size_t length = next(&state) % 12 ? sizes[form] : next(&state) % sizes[form];
    if (next(&state) % 64) mutation_fix_hashes(copy, length);
    accepted += mutation_try(copy, length);
  }
  print_message("%d of %d mutated engines ran\n", accepted, rounds);
  free(copy);
  free(forms[0]), free(forms[1]);
  carnot_graph_destroy(g);
}

static void check(carnot_graph* g, int rounds, uint32_t seed) {
  check_in(g, rounds, seed, CARNOT_DTYPE_F32);
}

// A first layer, and a convolution with few channels and a large image.
static carnot_graph* few_channels_net(carnot_arena* arena) {
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(1, 3, 131, 133));
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, &g->arena, "strides", (const int64_t[]){2, 2}, 2);
  float* numbers = net_numbers(arena, 9, 8 * 27);
  carnot_value* first =
      net_node(g, CARNOT_OP_CONV, &attrs,
               NET_VALUES(x, net_weight(g, "first.weight", 0, numbers, NET_LIST(8, 3, 3, 3)),
                          net_weight(g, "first.bias", 0, numbers, NET_LIST(8))));
  carnot_value* relu = net_fn(g, CARNOT_OP_UNARY, "relu", NET_VALUES(first));
  carnot_value* second =
      net_node(g, CARNOT_OP_CONV, NULL,
               NET_VALUES(relu, net_weight(g, "second.weight", 0, numbers, NET_LIST(16, 8, 1, 1))));
  net_output(g, second, "y");
  return g;
}

// Layers for which accelerators have only generic kernels.
static carnot_graph* plain_layers_net(void) {
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(1, 4, 5, 8));
  carnot_value* y = net_node(g, CARNOT_OP_ATTENTION, NULL,
                             NET_VALUES(x, net_weight(g, "keys", 31, NULL, NET_LIST(1, 2, 7, 8)),
                                        net_weight(g, "values", 32, NULL, NET_LIST(1, 2, 7, 8)),
                                        net_weight(g, "mask", 33, NULL, NET_LIST(5, 6))));
  const carnot_dtype types[] = {CARNOT_DTYPE_F8E4M3FN, CARNOT_DTYPE_I4, CARNOT_DTYPE_F32};
  for (int i = 0; i < 3; i++) {
    carnot_attrs to = {0};
    carnot_attrs_set_int(&to, &g->arena, "to", types[i]);
    y = net_node(g, CARNOT_OP_CAST, &to, NET_VALUES(y));
  }
  const int64_t shape[] = {2, 10, 4, 2};
  y = net_node(g, CARNOT_OP_RESHAPE, NULL, NET_VALUES(y, carnot_graph_ints(g->main, shape, 4)));
  y = net_node(g, CARNOT_OP_DFT, NULL, NET_VALUES(y));
  carnot_attrs kernel = {0};
  carnot_attrs_set_ints(&kernel, &g->arena, "kernel_shape", (const int64_t[]){3, 1}, 2);
  net_output(g, net_node(g, CARNOT_OP_LP_POOL, &kernel, NET_VALUES(y)), "y");
  return g;
}

static void test_mutations(void** state) {
  (void)state;
  int rounds = round_text() ? atoi(round_text()) : 1500;
  carnot_arena arena = {0};
  conv_net_weights w;
  conv_net_weights_make(&arena, 1, &w);
  for (uint32_t refit = 0; refit < 2; refit++) {
    check(conv_net(&w, 1, 6, 6), rounds, 10 + refit);
    check(conv_net(&w, -1, 6, -2), rounds, 20 + refit);
    check(attention_net(6), rounds, 30 + refit);
    check(attention_net(-1), rounds, 40 + refit);
    check(nonzero_net(-1), rounds, 50 + refit);
    check(loop_net(), rounds, 60 + refit);
    check(plain_layers_net(), rounds, 140 + refit);
    check(plugin_net(1), rounds, 70 + refit);
    check(plugin_net(-1), rounds, 80 + refit);
    check_in(conv_net(&w, 1, 6, 6), rounds / 2, 90 + refit, CARNOT_DTYPE_F16);
    check_in(conv_net(&w, 1, 6, 6), rounds / 2, 100 + refit, CARNOT_DTYPE_BF16);
    check_in(attention_net(6), rounds / 2, 110 + refit, CARNOT_DTYPE_BF16);
    check_in(squeeze_net(2, 5), rounds / 2, 130 + refit, CARNOT_DTYPE_F16);
    check_in(few_channels_net(&arena), rounds / 8, 120 + refit, CARNOT_DTYPE_F16);
  }
  carnot_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutations)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
