// The workspace of attention over bytes.
#include "kernel/cpu/attention/attention_u8s8.h"

static int64_t up64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

static int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t carnot_attention_u8s8_workspace(int64_t kv_len, int64_t d, int64_t dv) {
  const int64_t rows = carnot_attention_u8s8_rows(kv_len), most = CARNOT_ATTENTION_MOST_TERMS;
  const int64_t widest = (max_i64(kv_len, dv) + 15) / 16 * 16, runs = (kv_len + most - 1) / most;
  const int64_t values = up64(carnot_packed_k4n16_bytes(1, min_i64(kv_len, most), dv));
  return up64(carnot_packed_k4n16_bytes(1, d, kv_len)) + runs * (values + up64(dv * 4 + 60)) +
         up64(kv_len * 4) + up64(rows * widest * 4) + up64(rows * kv_len) + up64(rows * dv * 8);
}
