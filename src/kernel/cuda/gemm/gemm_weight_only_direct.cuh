// GEMM of few rows of floats by packed integer weights with scales, at the rate of the memory:
// gemm_weight_only.cuh for whole tiles along K and blocks of 32 and more. Weights go from global
// memory to registers, a batch of tiles ahead of the MMAs. Warps share K in ranges.
#pragma once

#include "kernel/cuda/gemm/weight_only_operands.cuh"

#if __CUDA_ARCH__ >= 800

// SPAN: steps of 16 k of one scale.
template <class T, int BITS, int SPAN, int ROWS, int COLUMNS, int SLICES>
struct gemm_weight_only_direct {
  typedef weight_only_type<T> type;
  typedef typename type::number number;
  enum {
    ACROSS = CARNOT_CUDA_WEIGHT_ONLY_ACROSS(COLUMNS, SLICES),
    DOWN = ROWS / 8,
    TILES = ACROSS == 1 ? 4
            : DOWN > 2  ? 1
                        : 2,  // of a batch
    TILE_STEPS = BITS == 4 ? 4 : 2,
    TILE_GROUPS = TILE_STEPS / SPAN,
    GROUPS = TILES * TILE_GROUPS,
    IS_AHEAD = DOWN * ACROSS <= 2,  // x in two sets of registers
    X_SETS = IS_AHEAD ? 2 : 1
  };
  static_assert(GROUPS % X_SETS == 0, "a batch begins with the first set of x");
  // Packed weights, scales and zero points of a batch.
  struct batch {
    u32 w[ACROSS][TILES][4], scales[ACROSS][GROUPS][2], zeros[ACROSS][GROUPS];
  };
  struct operand_b {
    u32 words[DOWN][SPAN][type::PARTS][2];
  };
  const carnot_cuda_weight_only_params& p;
  int begin, end;  // tiles of this warp
  // Of this lane.
  const char *w[ACROSS], *scales[ACROSS], *zeros[ACROSS];
  const char* x[DOWN];  // behind the last row it is read again and its sums dropped

  DEVICE_ONLY gemm_weight_only_direct(const carnot_cuda_weight_only_params& params) : p(params) {}

  // The address in registers, so that an offset takes one instruction: the compiler would add the
  // parts of the address at each use.
  static DEVICE_ONLY const char* base(const void* address) {
    asm volatile("" : "+l"(address));
    return (const char*)address;
  }
  static DEVICE_ONLY void read16(const void* from, u32* to) {
    asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(from));
  }
  // Tiles behind the warp's last one: that one again.
  template <bool HAS_HALF_SCALES, bool HAS_ZEROS>
  DEVICE_ONLY void fetch(int tile, batch& to) {
#pragma unroll
    for (int i = 0; i < TILES; i++) {
      const int at = lo(tile + i, end - 1);
#pragma unroll
      for (int c = 0; c < ACROSS; c++) {
        read16(w[c] + (i64)at * CARNOT_CUDA_WEIGHT_ONLY_TILE, to.w[c][i]);
#pragma unroll
        for (int part = 0; part < TILE_GROUPS; part++) {
          const int g = i * TILE_GROUPS + part;
          const i64 block = (at * TILE_STEPS + part * SPAN) >> p.shift;
          if constexpr (HAS_HALF_SCALES) {
            to.scales[c][g][0] = __ldg((const u32*)(scales[c] + block * 32));
          } else {
            const uint2 both = __ldg((const uint2*)(scales[c] + block * 64));
            to.scales[c][g][0] = both.x, to.scales[c][g][1] = both.y;
          }
          if constexpr (HAS_ZEROS) to.zeros[c][g] = __ldg((const u32*)(zeros[c] + block * 32));
        }
      }
    }
  }
  // Steps of group |g| as operand A, and their scales.
  template <bool HAS_HALF_SCALES, bool HAS_ZEROS>
  DEVICE_ONLY void take(const batch& from, int c, int g, u32 (*a)[4], f32* out_scales) {
    u32 zero[2] = {p.zero, p.zero};
    if constexpr (HAS_ZEROS) weight_only_zeros(from.zeros[c][g], zero);
    weight_only_scales<T>(HAS_HALF_SCALES, from.scales[c][g][0], from.scales[c][g][1], out_scales);
#pragma unroll
    for (int i = 0; i < SPAN; i++) {
      const int s = g * SPAN + i;
      unpack_step<BITS>(from.w[c][s / TILE_STEPS], s % TILE_STEPS, zero, a[i], (number*)0);
    }
  }
  // Operand B of the steps from |step| on; behind the warp's last ones those again.
  DEVICE_ONLY void read_x(int step, operand_b& b) {
    const i64 at = (i64)lo(step, end * TILE_STEPS - SPAN) * (16 * (int)sizeof(T));
#pragma unroll
    for (int d = 0; d < DOWN; d++)
#pragma unroll
      for (int i = 0; i < SPAN; i++) type::read(x[d] + at, i * 16, 4, true, b.words[d][i]);
  }
  // |b|: the first set holds operand B of the batch's first group, then of the next batch's: x is
  // read a group ahead.
  template <bool HAS_HALF_SCALES, bool HAS_ZEROS>
  DEVICE_ONLY void multiply(int tile, const batch& from, operand_b* b, f32 (*sums)[ACROSS][4]) {
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      if (g % TILE_GROUPS == 0 && tile + g / TILE_GROUPS >= end) break;
      const int step = tile * TILE_STEPS + g * SPAN;
      if (IS_AHEAD)
        read_x(step + SPAN, b[(g + 1) % X_SETS]);
      else
        read_x(step, b[0]);
#pragma unroll
      for (int c = 0; c < ACROSS; c++) {
        u32 a[SPAN][4];
        f32 group_scales[2];
        take<HAS_HALF_SCALES, HAS_ZEROS>(from, c, g, a, group_scales);
#pragma unroll
        for (int d = 0; d < DOWN; d++) {
          f32 part[4] = {};
#pragma unroll
          for (int i = 0; i < SPAN; i++)
#pragma unroll
            for (int n = 0; n < type::PARTS; n++) {
              const u32* words = b[g % X_SETS].words[d][i][n];
              mma<number>::multiply(part, a[i], words[0], words[1]);
            }
#pragma unroll
          for (int e = 0; e < 4; e++)
            sums[d][c][e] = fmaf(part[e], group_scales[e / 2], sums[d][c][e]);
        }
      }
    }
  }
  // The forms of scales and zero points are known to the compiler: nothing asks for them inside.
  template <bool HAS_HALF_SCALES, bool HAS_ZEROS>
  DEVICE_ONLY void loop(f32 (*sums)[ACROSS][4]) {
    batch even, odd;
    operand_b b[X_SETS];
    if (begin < end) fetch<HAS_HALF_SCALES, HAS_ZEROS>(begin, even);
    wait_for_previous();
    if (begin >= end) return;
    if (IS_AHEAD) read_x(begin * TILE_STEPS, b[0]);
    for (int tile = begin; tile < end; tile += 2 * TILES) {
      fetch<HAS_HALF_SCALES, HAS_ZEROS>(tile + TILES, odd);
      multiply<HAS_HALF_SCALES, HAS_ZEROS>(tile, even, b, sums);
      if (tile + TILES >= end) break;
      fetch<HAS_HALF_SCALES, HAS_ZEROS>(tile + 2 * TILES, even);
      multiply<HAS_HALF_SCALES, HAS_ZEROS>(tile + TILES, odd, b, sums);
    }
  }
  DEVICE_ONLY void run() {
    extern __shared__ __align__(16) char memory[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, slice = warp % SLICES,
              part = warp / SLICES;
    const i64 m0 = (i64)blockIdx.y * ROWS;
    begin = (int)((i64)p.tiles * slice / SLICES), end = (int)((i64)p.tiles * (slice + 1) / SLICES);
#pragma unroll
    for (int c = 0; c < ACROSS; c++) {
      // Behind the last one it is read again, and its sums are dropped.
      const i64 group =
          lo((int)blockIdx.x * (COLUMNS / 16) + part * ACROSS + c, p.column_groups - 1);
      const i64 first = group * p.blocks * 8 + lane / 4;
      w[c] = base((const char*)p.w + group * p.tiles * CARNOT_CUDA_WEIGHT_ONLY_TILE + lane * 16);
      scales[c] = base((const char*)p.scales + first * (p.has_half_scales ? 4 : 8));
      zeros[c] = base((const char*)(p.zeros + first));
    }
#pragma unroll
    for (int d = 0; d < DOWN; d++) {
      i64 row = m0 + d * 8 + lane / 4;
      x[d] = base((const T*)p.x + (row < p.rows ? row : p.rows - 1) * p.depth + lane % 4 * 4);
    }
    f32 sums[DOWN][ACROSS][4] = {};
    if (p.has_half_scales)
      p.zeros ? loop<true, true>(sums) : loop<true, false>(sums);
    else
      p.zeros ? loop<false, true>(sums) : loop<false, false>(sums);
    weight_only_finish<T, ROWS, COLUMNS, SLICES, DOWN, ACROSS>(p, sums, m0, (f32*)memory);
  }
};

#endif
