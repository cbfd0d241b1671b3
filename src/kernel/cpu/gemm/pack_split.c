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

enum { kExponent = 0x7f800000, kLeastRounded = 0x7f7f8000 };  // that rounds to infinity

// Magnitudes, as bits: the least that is not zero and the greatest; and the number of zeros.
typedef struct magnitudes {
  int32_t least, greatest;
  int64_t zeros;
} magnitudes;

static magnitudes magnitudes_of(const uint32_t* bits) {
  magnitudes m = {INT32_MAX, 0, 0};
  int32_t zeros = 0;
  for (int i = 0; i < kSlice * kPanel; ++i) {
    const int32_t size = (int32_t)(bits[i] & 0x7fffffff), other = size ? size : INT32_MAX;
    m.greatest = size > m.greatest ? size : m.greatest;
    m.least = other < m.least ? other : m.least;
    zeros += !size;
  }
  m.zeros = zeros;
  return m;
}

static float number_of(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return bits < kExponent ? x : INFINITY;
}

// Row k of a slice goes to the lower half of pairs, row k + 16 to the upper one.
static void pack_pairs(const uint32_t* low, const uint32_t* high, uint16_t* packed) {
  for (int j = 0; j < kPanel; ++j) {
    uint16_t parts[2][kParts];
    float x[2];
    memcpy(&x[0], low + j, sizeof *x);
    memcpy(&x[1], high + j, sizeof *x);
    split(x[0], parts[0]);
    split(x[1], parts[1]);
    for (int i = 0; i < kParts; ++i)
      packed[i * kTile + 2 * j] = parts[0][i], packed[i * kTile + 2 * j + 1] = parts[1][i];
  }
}

static uint32_t rest_of(uint32_t bits, uint32_t part) {
  float x, y;
  memcpy(&x, &bits, sizeof x);
  memcpy(&y, &part, sizeof y);
  x -= y;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

// The same of numbers that do not round to infinity, without branches. Takes what is left of them
// from |low| and |high|.
static void pack_finite_pairs(uint32_t* low, uint32_t* high, uint16_t* packed) {
  for (int i = 0; i < kParts; ++i, packed += kTile) {
    for (int j = 0; j < kPanel; ++j) {
      const uint32_t l = low[j] + 0x8000, h = high[j] + 0x8000;
      packed[2 * j] = (uint16_t)(l >> 16), packed[2 * j + 1] = (uint16_t)(h >> 16);
      low[j] = rest_of(low[j], l & 0xffff0000), high[j] = rest_of(high[j], h & 0xffff0000);
    }
  }
}

// |count| <= 32 rows of 16.
static void pack_slice(int64_t count, const float* rows, uint16_t* packed, magnitudes* range) {
  uint32_t bits[kSlice * kPanel] = {0};
  memcpy(bits, rows, (size_t)count * kPanel * sizeof *rows);
  const magnitudes m = magnitudes_of(bits);
  range->least = m.least < range->least ? m.least : range->least;
  range->greatest = m.greatest > range->greatest ? m.greatest : range->greatest;
  range->zeros += m.zeros;
  for (int k = 0; k < kPairs; ++k, packed += 2 * kPanel) {
    uint32_t *low = bits + k * kPanel, *high = low + kPairs * kPanel;
    if (m.greatest < kLeastRounded)
      pack_finite_pairs(low, high, packed);
    else
      pack_pairs(low, high, packed);
  }
}

carnot_split_range carnot_pack_split_panels(int64_t taps, int64_t depth, int64_t n,
                                            const float* k1n16, void* packed) {
  const int64_t panels = (n + kPanel - 1) / kPanel;
  magnitudes found = {INT32_MAX, 0, 0};
  uint16_t* to = packed;
  for (int64_t panel = 0; panel < panels; ++panel) {
    for (int64_t k = 0; k < depth; k += kSlice) {
      for (int64_t t = 0; t < taps; ++t, to += CARNOT_SPLIT_SLICE_BYTES / 2) {
        pack_slice(depth - k < kSlice ? depth - k : kSlice,
                   k1n16 + ((panel * taps + t) * depth + k) * kPanel, to, &found);
      }
    }
  }
  // Zeros that fill up slices and the last panel.
  const int64_t filled =
      panels * kPanel * taps * ((depth + kSlice - 1) / kSlice * kSlice) - taps * depth * n;
  return (carnot_split_range){number_of(found.least), number_of(found.greatest),
                              found.zeros == filled};
}

carnot_split_range carnot_split_range_of_both(carnot_split_range a, carnot_split_range b) {
  return (carnot_split_range){fminf(a.least, b.least), fmaxf(a.greatest, b.greatest),
                              a.none_is_zero & b.none_is_zero};
}

void carnot_pack_split_range(int64_t taps, int64_t depth, int64_t n, carnot_split_range range,
                             void* packed) {
  char* to = (char*)packed + carnot_packed_split_bytes(taps, depth, n) - CARNOT_SPLIT_RANGE_BYTES;
  if (isinf(range.least)) range.least = 1;
  memset(to, 0, CARNOT_SPLIT_RANGE_BYTES);
  memcpy(to, &range, sizeof range);
}

void carnot_pack_k32n16_bf16x3(int64_t taps, int64_t depth, int64_t n, const float* k1n16,
                               void* packed) {
  const carnot_split_range range = carnot_pack_split_panels(taps, depth, n, k1n16, packed);
  carnot_pack_split_range(taps, depth, n, range, packed);
}
