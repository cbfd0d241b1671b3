// The filters of F(2x2,3x3): U = G w G^T, in double, rounded once.
#include "kernel/cpu/conv/conv2d_winograd_f32.h"
#include "kernel/cpu/gemm/pack_f32.h"

int64_t carnot_packed_winograd_count(int64_t c, int64_t k) {
  return CARNOT_WINOGRAD_POINTS * carnot_packed_k1n16_count(c, k);
}

// Row |i| of G times three numbers |stride| apart.
static double row_of_g(int i, const double* x, int stride) {
  const double half = 0.5 * (x[0] + x[2 * stride]);
  if (i == 0) return x[0];
  if (i == 3) return x[2 * stride];
  return i == 1 ? half + 0.5 * x[stride] : half - 0.5 * x[stride];
}

static float transformed(const float* filter, int point) {
  double w[9], columns[3];
  for (int i = 0; i < 9; i++) w[i] = filter[i];
  for (int j = 0; j < 3; j++) columns[j] = row_of_g(point / 4, w + j, 3);
  return (float)row_of_g(point % 4, columns, 1);
}

void carnot_pack_winograd_f32(int64_t k, int64_t c, const float* weights, float* scratch,
                              float* packed) {
  for (int point = 0; point < CARNOT_WINOGRAD_POINTS; point++) {
    for (int64_t i = 0; i < k * c; i++) scratch[i] = transformed(weights + 9 * i, point);
    for (int64_t c0 = 0; c0 < c; c0 += CARNOT_WINOGRAD_DEPTH) {
      const int64_t depth = c - c0 < CARNOT_WINOGRAD_DEPTH ? c - c0 : CARNOT_WINOGRAD_DEPTH;
      carnot_pack_k1n16_f32(depth, k, scratch + c0, 1, c, packed);
      packed += carnot_packed_k1n16_count(depth, k);
    }
  }
}
