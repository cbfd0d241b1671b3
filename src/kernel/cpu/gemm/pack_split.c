// Packing of float32 weights in bfloat16 parts.
#include "kernel/cpu/gemm/pack_split.h"

#include <math.h>

enum { kPanel = 16, kSlice = 32, kParts = 3, kPairs = kSlice / 2, kTile = kPairs * kPanel * 2 };

// Infinity is its first part; so is NaN, quieted, as its first part alone could be infinite. What
// would round to infinity is truncated.
static void split(float x, uint16_t parts[kParts]) {
  for (int i = 0; i < kParts; ++i) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x)) bits |= 0x400000;
    if ((bits & 0x7fffffff) < 0x7f7f8000) bits += 0x8000;
    parts[i] = (uint16_t)(bits >> 16);
    bits &= 0xffff0000;
    float part;
    memcpy(&part, &bits, sizeof part);
    x = isfinite(x) ? x - part : 0;
  }
}

static void extend(carnot_split_range* range, float x) {
  const float size = isfinite(x) ? fabsf(x) : INFINITY;
  if (size > range->greatest) range->greatest = size;
  if (size > 0 && size < range->least) range->least = size;
}

// |count| <= 32 rows of 16.
static void pack_slice(int64_t count, const float* rows, uint16_t* packed,
                       carnot_split_range* range) {
  memset(packed, 0, CARNOT_SPLIT_SLICE_BYTES);
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t j = 0; j < kPanel; ++j) {
      uint16_t parts[kParts];
      split(rows[k * kPanel + j], parts);
      extend(range, rows[k * kPanel + j]);
      const int64_t at = (k % kPairs * kPanel + j) * 2 + k / kPairs;
      for (int i = 0; i < kParts; ++i) packed[i * kTile + at] = parts[i];
    }
  }
}

void carnot_pack_k32n16_bf16x3(int64_t taps, int64_t depth, int64_t n, const float* k1n16,
                               void* packed) {
  const int64_t panels = (n + kPanel - 1) / kPanel;
  carnot_split_range range = {INFINITY, 0};
  uint16_t* to = packed;
  for (int64_t panel = 0; panel < panels; ++panel) {
    for (int64_t k = 0; k < depth; k += kSlice) {
      for (int64_t t = 0; t < taps; ++t, to += CARNOT_SPLIT_SLICE_BYTES / 2) {
        pack_slice(depth - k < kSlice ? depth - k : kSlice,
                   k1n16 + ((panel * taps + t) * depth + k) * kPanel, to, &range);
      }
    }
  }
  if (isinf(range.least)) range.least = 1;
  memset(to, 0, CARNOT_SPLIT_RANGE_BYTES);
  memcpy(to, &range, sizeof range);
}
