// The filters of F(2x2,3x3) and F(4x4,3x3): U = G w G^T, in double, rounded once.
#include "kernel/cpu/conv/conv2d_winograd_f32.h"

#include "kernel/cpu/gemm/pack_f32.h"

enum { kPanel = 16 };

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

// One row of every point's panel: a channel of |width| filters, each 9 * |c| floats behind the one
// before.
static void pack_row(int64_t side, int64_t c, int64_t width, const float* weights,
                     int64_t point_count, float* packed) {
  const double(*g)[3] = side == 2 ? kSide2 : kSide4;
  double w[9][kPanel] = {{0}};
  for (int64_t j = 0; j < width; j++)
    for (int i = 0; i < 9; i++) w[i][j] = weights[9 * j * c + i];
  for (int64_t row = 0; row < side + 2; row++) {
    double columns[3][kPanel];
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < kPanel; j++)
        columns[i][j] = g[row][0] * w[i][j] + g[row][1] * w[3 + i][j] + g[row][2] * w[6 + i][j];
    for (int64_t i = 0; i < side + 2; i++, packed += point_count)
      for (int j = 0; j < kPanel; j++)
        packed[j] =
            (float)(g[i][0] * columns[0][j] + g[i][1] * columns[1][j] + g[i][2] * columns[2][j]);
  }
}

void carnot_pack_winograd_f32(int64_t side, int64_t k, int64_t c, const float* weights,
                              int64_t panel0, int64_t panel1, float* packed) {
  const int64_t point_count = carnot_packed_k1n16_count(c, k);
  for (int64_t panel = panel0; panel < panel1; panel++) {
    const int64_t width = k - panel * kPanel < kPanel ? k - panel * kPanel : kPanel;
    for (int64_t i = 0; i < c; i++) {
      const int64_t c0 = i - i % CARNOT_WINOGRAD_DEPTH;
      const int64_t depth = c - c0 < CARNOT_WINOGRAD_DEPTH ? c - c0 : CARNOT_WINOGRAD_DEPTH;
      float* row = packed + carnot_packed_k1n16_count(c0, k) + (panel * depth + i - c0) * kPanel;
      pack_row(side, c, width, weights + 9 * (panel * kPanel * c + i), point_count, row);
    }
  }
}
