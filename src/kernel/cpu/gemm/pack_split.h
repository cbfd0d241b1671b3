// Packing format k32n16 bf16x3 of float32 weights in three bfloat16 parts, x = x0 + x1 + x2
// exactly, each part the nearest to what those before it leave; numbers below 2^-110 that are not
// zero lose what is below 2^-133. Made from k1n16 f32 (pack_f32.h). Portable C. A panel of 16
// columns holds slices of 32 k, the last one filled up with zeros, one after another, each of all
// taps: taps beside each other multiply the same pixels. A slice of a tap is three tiles, one of
// each part; row i of a tile holds, column by column, k = i and k = i + 16. Behind the panels:
// carnot_split_range of all weights, 64 bytes.
#ifndef CARNOT_KERNEL_CPU_GEMM_PACK_SPLIT_H_
#define CARNOT_KERNEL_CPU_GEMM_PACK_SPLIT_H_

#include <stdint.h>
#include <string.h>

enum {
  CARNOT_SPLIT_SLICE_BYTES = 3 * 16 * 64,
  CARNOT_SPLIT_RANGE_BYTES = 64,
  CARNOT_SPLIT_SEQUENCE_PIECE = 256,  // outputs that kernels take at a time of a sequence
  // What kernels take at a time: channels, columns where channels take several turns, and bytes of
  // converted pixels. The cost model of partitions reads them, too.
  CARNOT_SPLIT_MOST_CHANNELS = 768,
  CARNOT_SPLIT_MOST_COLUMNS = 384,
  CARNOT_SPLIT_BLOCK_BYTES = 680 << 10
};

// The least magnitude that is not zero (1 where all are), the greatest (infinity: one is infinite
// or NaN), and whether none is zero.
typedef struct carnot_split_range {
  float least, greatest;
  uint32_t none_is_zero;
} carnot_split_range;

// Bytes of a packed [taps * depth, N].
static inline int64_t carnot_packed_split_bytes(int64_t taps, int64_t depth, int64_t n) {
  const int64_t slices = (n + 15) / 16 * taps * ((depth + 31) / 32);
  return slices * CARNOT_SPLIT_SLICE_BYTES + CARNOT_SPLIT_RANGE_BYTES;
}

static inline carnot_split_range carnot_packed_split_range(int64_t taps, int64_t depth, int64_t n,
                                                           const void* packed) {
  const int64_t end = carnot_packed_split_bytes(taps, depth, n) - CARNOT_SPLIT_RANGE_BYTES;
  carnot_split_range range;
  memcpy(&range, (const char*)packed + end, sizeof range);
  return range;
}

void carnot_pack_k32n16_bf16x3(int64_t taps, int64_t depth, int64_t n, const float* k1n16,
                               void* packed);

// The same in parts, for several threads: columns from a multiple of 16 on, to where they are in
// |packed|. Their range, of which that of all columns is made and stored in the end; its least is
// infinity where all are zero.
carnot_split_range carnot_pack_split_panels(int64_t taps, int64_t depth, int64_t n,
                                            const float* k1n16, void* packed);
carnot_split_range carnot_split_range_of_both(carnot_split_range a, carnot_split_range b);
void carnot_pack_split_range(int64_t taps, int64_t depth, int64_t n, carnot_split_range range,
                             void* packed);

#endif
