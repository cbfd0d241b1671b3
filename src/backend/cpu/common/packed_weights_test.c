// Weights packed on several threads are those that are packed in one call, in every type.
#include "backend/cpu/common/packed_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/cpu/common/kernel_test.h"
#include "kernel/cpu/gemm/pack_f32.h"

enum { kThreads = 3 };

static const carnot_weights_type kTypes[] = {CARNOT_WEIGHTS_F32, CARNOT_WEIGHTS_F16,
                                             CARNOT_WEIGHTS_BF16, CARNOT_WEIGHTS_SPLIT6,
                                             CARNOT_WEIGHTS_BF16_TILES};

// Numbers of many magnitudes; a zero in the last column, of which the range of parts tells.
static float* weights_of(carnot_packed_weights_shape s, bool has_zero) {
  const int64_t count = s.taps * s.depth * s.n;
  float* w = calloc((size_t)count, sizeof(float));
  assert_non_null(w);
  for (int64_t i = 0; i < count; i++)
    w[i] = ldexpf((float)(i * 7919 % 2003 - 1001) + 0.5f, (int)(i % 11) - 16);
  if (has_zero) w[count - 1] = 0;
  return w;
}

static void* packed_at_once(carnot_weights_type type, carnot_packed_weights_shape s,
                            const float* k1n16) {
  void* packed = calloc(1, carnot_packed_weights_bytes(type, s));
  assert_non_null(packed);
  if (type == CARNOT_WEIGHTS_F32)
    memcpy(packed, k1n16, carnot_packed_weights_bytes(type, s));
  else
    carnot_packed_weights_pack(type, s, k1n16, packed);
  return packed;
}

static void check(carnot_executor* executor, carnot_weights_type type,
                  carnot_packed_weights_shape s, bool is_conv, bool has_zero) {
  float *w = weights_of(s, has_zero),
        *k1n16 = calloc((size_t)carnot_packed_k1n16_count(s.taps * s.depth, s.n), sizeof(float));
  assert_non_null(k1n16);
  const size_t bytes = carnot_packed_weights_bytes(type, s);
  void* packed = malloc(bytes);
  assert_non_null(packed);
  memset(packed, 0xa5, bytes);
  if (is_conv) {
    carnot_pack_conv_k1n16_f32(s.n, s.depth, s.taps, w, k1n16);
    assert_null(carnot_packed_weights_pack_conv(executor, type, s, w, packed));
  } else {
    for (int64_t i = 0; i < s.depth * s.n; i++) w[i] *= 2;
    carnot_pack_k1n16_f32(s.depth, s.n, w, s.n, 1, k1n16);
    for (int64_t i = 0; i < s.depth * s.n; i++) w[i] /= 2;
    const carnot_weights_matrix matrix = {w, s.n, 1, 2};
    assert_null(carnot_packed_weights_pack_matrix(executor, type, s, matrix, packed));
  }
  void* expected = packed_at_once(type, s, k1n16);
  assert_memory_equal(packed, expected, bytes);
  free(expected), free(packed), free(k1n16), free(w);
}

static void test_on_threads(void** state) {
  (void)state;
  carnot_executor* executor;
  assert_null(carnot_executor_create(kThreads, &executor));
  static const carnot_packed_weights_shape kShapes[] = {{1, 37, 1},  {1, 64, 64}, {1, 33, 200},
                                                        {1, 5, 519}, {9, 34, 70}, {9, 3, 200}};
  for (size_t i = 0; i < sizeof(kShapes) / sizeof(*kShapes); i++)
    for (size_t t = 0; t < sizeof(kTypes) / sizeof(*kTypes); t++)
      for (int k = 0; k < 4; k++) {
        carnot_executor* threads = k % 2 ? executor : NULL;
        check(threads, kTypes[t], kShapes[i], /*is_conv=*/true, k / 2);
        if (kShapes[i].taps == 1) check(threads, kTypes[t], kShapes[i], /*is_conv=*/false, k / 2);
      }
  carnot_executor_destroy(executor);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_on_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
