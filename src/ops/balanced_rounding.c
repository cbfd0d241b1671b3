// Rounding of weights whose errors cancel.
#include "ops/balanced_rounding.h"

#include <math.h>

#include "base/checked.h"

static double error_of(const float* w, double scale, const int8_t* q, int64_t i) {
  return (double)q[i] - (double)w[i] / scale;
}

// The element of [0, count) with the largest error in the direction |sign| that may be rounded the
// other way; -1: none.
static int64_t most_wrong(const float* w, double scale, int64_t count, double sign,
                          const int8_t* q) {
  int64_t best = -1;
  double most = 0;
  for (int64_t i = 0; i < count; i++) {
    double error = sign * error_of(w, scale, q, i);
    if (error > most && error <= 0.5 && q[i] - (int)sign >= -127 && q[i] - (int)sign <= 127) {
      most = error;
      best = i;
    }
  }
  return best;
}

static void balance(const float* w, double scale, int64_t count, int8_t* q) {
  double total = 0;
  for (int64_t i = 0; i < count; i++) total += error_of(w, scale, q, i);
  double sign = total < 0 ? -1 : 1;
  for (int64_t left = (int64_t)nearbyint(fabs(total)); left > 0; left--) {
    int64_t i = most_wrong(w, scale, count, sign, q);
    if (i < 0) return;
    q[i] = (int8_t)(q[i] - (int)sign);
  }
}

void carnot_balance_rounding(const float* w, float scale, int64_t count, int64_t kernel,
                             int8_t* q) {
  for (int64_t i = 0; kernel > 1 && i < count; i += kernel)
    balance(w + i, (double)scale, kernel, q + i);
  balance(w, (double)scale, count, q);
}
