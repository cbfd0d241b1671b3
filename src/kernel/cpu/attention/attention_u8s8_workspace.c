// The workspace of attention over bytes.
#include "kernel/cpu/attention/attention_u8s8.h"

static int64_t up64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

static int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t carnot_attention_u8s8_workspace(int64_t kv_len, int64_t d, int64_t dv) {
  const int64_t rows = carnot_attention_u8s8_rows(kv_len);
  const int64_t widest = (max_i64(kv_len, dv) + 15) / 16 * 16;
  return up64(carnot_packed_k4n16_bytes(1, d, kv_len)) +
         up64(carnot_packed_k4n16_bytes(1, kv_len, dv)) + up64(kv_len * 4) + up64(dv * 4) +
         up64(rows * widest * 4) + up64(rows * kv_len);
}
