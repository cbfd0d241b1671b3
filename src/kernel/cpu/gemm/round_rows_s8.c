// Rounds rows to 8 bits with a scale for each block.
#include <float.h>

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_dequant_s8.h"

static float largest(const float* a, int64_t n) {
  vf32 most = v_zero();
  for (int64_t i = 0; i < n; i += V_LANES) most = v_max(most, v_abs(v_load_upto(a + i, n - i)));
  float lanes[V_LANES], found = 0;
  v_store(lanes, most);
  for (int i = 0; i < V_LANES; ++i) found = lanes[i] <= found || found != found ? found : lanes[i];
  return found;
}

// The sum of the rounded numbers; |n| of them. Exact below 2^24, like the sum of 2^17 numbers.
static float round_block(const float* a, int64_t n, float scale, int8_t* out) {
  const vf32 inverse = v_set(scale >= FLT_MIN ? 1 / scale : 0);
  vf32 sum = v_zero();
  for (int64_t i = 0; i < n; i += V_LANES) {
    const vi32 x = v_to_int(v_mul(v_load_upto(a + i, n - i), inverse));
    sum = v_add(sum, v_of_int(x));
    v_store_bytes_upto(out + i, x, n - i);
  }
  return v_sum(sum);
}

void CARNOT_KERNEL(round_rows_s8)(const carnot_dequant_shape* s, const float* a, int64_t lda,
                                  int64_t m0, int64_t m1, const carnot_dequant_rows* rows) {
  const int64_t each = 32 / s->bits, blocks = carnot_dequant_blocks(s);
  const int64_t row_bytes = carnot_dequant_row_bytes(s);
  for (int64_t m = m0; m < m1; ++m) {
    const float* x = a + m * lda;
    int8_t* out = rows->numbers + m * row_bytes;
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t depth = min_i64(s->block, s->k - b * s->block);
      const int64_t padded = (depth + each - 1) / each * each;
      const float scale = largest(x, depth) / 127;
      rows->scales[m * blocks + b] = scale;
      rows->sums[m * blocks + b] = round_block(x, depth, scale, out);
      memset(out + depth, 0, (size_t)(padded - depth));
      x += depth, out += padded;
    }
  }
}
