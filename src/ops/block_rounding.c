// Rounding of weights to 4 bits in blocks.
#include "ops/block_rounding.h"

#include <float.h>
#include <math.h>

// The elements of one block, |step| apart.
typedef struct block {
  const float* w;
  int64_t count, step;
} block;

static int round_element(float w, float scale) {
  const float q = nearbyintf(w / scale);
  return q < -8 ? -8 : q > 7 ? 7 : (int)q;
}

static double error_of(const block* b, float scale) {
  double sum = 0;
  for (int64_t i = 0; i < b->count; i++) {
    const float w = b->w[i * b->step];
    const double error = (double)w - (double)round_element(w, scale) * (double)scale;
    sum += error * error;
  }
  return sum;
}

// Smaller scales clip the largest elements for the sake of the others; -8 lets one sign reach
// farther.
static float best_scale(const block* b) {
  enum { kTrials = 16 };
  float extreme = 0;
  for (int64_t i = 0; i < b->count; i++)
    if (fabsf(b->w[i * b->step]) > fabsf(extreme)) extreme = b->w[i * b->step];
  if (fabsf(extreme) < 8 * FLT_MIN) return FLT_MIN;
  float best = 0;
  double least = DBL_MAX;
  for (int t = 0; t < kTrials; t++) {
    const float scale = fabsf(extreme) / (7.f + 0.1f * (float)(t - 2));
    const double error = error_of(b, scale);
    if (error < least) least = error, best = scale;
  }
  return best;
}

static void put(uint8_t* q, int64_t at, int value) {
  const uint8_t bits = (uint8_t)(value & 15);
  q[at / 2] = (uint8_t)(at % 2 ? (q[at / 2] & 15) | bits << 4 : (q[at / 2] & 240) | bits);
}

void carnot_round_blocks_i4(const float* w, const int64_t* dims, int axis, int64_t size,
                            float* scales, uint8_t* q) {
  const int64_t depth = dims[axis], width = dims[!axis], blocks = (depth + size - 1) / size;
  const int64_t step = axis == 0 ? width : 1, across = axis == 0 ? 1 : depth;
  for (int64_t n = 0; n < width; n++)
    for (int64_t k = 0; k < blocks; k++) {
      const int64_t first = n * across + k * size * step;
      const block b = {w + first, k * size + size <= depth ? size : depth - k * size, step};
      const float scale = best_scale(&b);
      scales[axis == 0 ? k * width + n : n * blocks + k] = scale;
      for (int64_t i = 0; i < b.count; i++)
        put(q, first + i * step, round_element(b.w[i * step], scale));
    }
}
