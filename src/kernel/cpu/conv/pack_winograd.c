// The filters of F(2x2,3x3) and F(4x4,3x3): U = G w G^T, in double, rounded once.
#include "kernel/cpu/conv/conv2d_winograd_f32.h"
#include "kernel/cpu/gemm/pack_f32.h"

// G of each side: rows of three factors.
static const double kSide2[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
// Row of point x: (1, x, x^2) / prod(x - other points), for 0, +-a, +-b of a^2, b^2 = 25/64, 9/4.
#define POINT(x, product) \
  { 1 / (product), (x) / (product), (x) * (x) / (product) }
static const double kSide4[6][3] = {POINT(0, 25.0 / 64 * 9 / 4),
                                    POINT(0.625, 2 * 25.0 / 64 * (25.0 / 64 - 9.0 / 4)),
                                    POINT(-0.625, 2 * 25.0 / 64 * (25.0 / 64 - 9.0 / 4)),
                                    POINT(1.5, 2 * 9.0 / 4 * (9.0 / 4 - 25.0 / 64)),
                                    POINT(-1.5, 2 * 9.0 / 4 * (9.0 / 4 - 25.0 / 64)),
                                    {0, 0, 1}};

int64_t carnot_packed_winograd_count(int64_t side, int64_t c, int64_t k) {
  return carnot_winograd_points(side) * carnot_packed_k1n16_count(c, k);
}

static double dot(const double* g, double x, double y, double z) {
  return g[0] * x + g[1] * y + g[2] * z;
}

// |filter| at the point of rows |g| and columns |h| of G.
static float transformed(const float* filter, const double* g, const double* h) {
  double columns[3];
  for (int j = 0; j < 3; j++) columns[j] = dot(g, filter[j], filter[3 + j], filter[6 + j]);
  return (float)dot(h, columns[0], columns[1], columns[2]);
}

void carnot_pack_winograd_f32(int64_t side, int64_t k, int64_t c, const float* weights,
                              float* scratch, float* packed) {
  const double(*g)[3] = side == 2 ? kSide2 : kSide4;
  for (int64_t point = 0; point < carnot_winograd_points(side); point++) {
    const double *row = g[point / (side + 2)], *column = g[point % (side + 2)];
    for (int64_t i = 0; i < k * c; i++) scratch[i] = transformed(weights + 9 * i, row, column);
    for (int64_t c0 = 0; c0 < c; c0 += CARNOT_WINOGRAD_DEPTH) {
      const int64_t depth = c - c0 < CARNOT_WINOGRAD_DEPTH ? c - c0 : CARNOT_WINOGRAD_DEPTH;
      carnot_pack_k1n16_f32(depth, k, scratch + c0, 1, c, packed);
      packed += carnot_packed_k1n16_count(depth, k);
    }
  }
}
