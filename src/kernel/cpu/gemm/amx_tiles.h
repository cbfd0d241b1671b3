// The tiles of AMX: eight registers of 16 rows by 64 bytes. Private to the kernels that use them.
// CARNOT_AMX_EMULATED replaces the instructions by plain C, so that a test can check the arithmetic
// of addresses on any machine.
#ifndef CARNOT_KERNEL_CPU_GEMM_AMX_TILES_H_
#define CARNOT_KERNEL_CPU_GEMM_AMX_TILES_H_

#include <stdint.h>
#include <string.h>

enum {
  kAmxRows = 16,
  kAmxRowBytes = 64,
  // On one of two Xeons measured (that with 480 MB of L3) a tile store takes 290 ns instead of 30
  // where the last one is more than 0.6 to 0.7 us ago. So loops over K store a tile every so many
  // steps of four multiplications, of 16 cycles each at best; on the other Xeon that costs nothing.
  kAmxStoreInterval = 12
};

#if defined(CARNOT_AMX_EMULATED)

static uint8_t amx_tile[8][kAmxRows][kAmxRowBytes];

static void amx_begin(void) { memset(amx_tile, 0xaa, sizeof amx_tile); }
static void amx_end(void) {}
#define AMX_BARRIER() ((void)0)
#define AMX_ZERO(t)   memset(amx_tile[t], 0, sizeof amx_tile[t])
static inline void amx_copy(int t, const void* from, void* to, int64_t stride) {
  for (int i = 0; i < kAmxRows; ++i) {
    if (from) memcpy(amx_tile[t][i], (const char*)from + i * stride, kAmxRowBytes);
    if (to) memcpy((char*)to + i * stride, amx_tile[t][i], kAmxRowBytes);
  }
}
#define AMX_LOAD(t, from, stride) amx_copy(t, from, NULL, stride)
#define AMX_STORE(t, to, stride)  amx_copy(t, NULL, to, stride)
static inline void amx_dot_u8s8(int c, int a, int b) {
  for (int m = 0; m < kAmxRows; ++m)
    for (int n = 0; n < 16; ++n) {
      int32_t sum;
      memcpy(&sum, &amx_tile[c][m][4 * n], 4);
      for (int k = 0; k < kAmxRowBytes; ++k)
        sum += amx_tile[a][m][k] * (int8_t)amx_tile[b][k / 4][4 * n + k % 4];
      memcpy(&amx_tile[c][m][4 * n], &sum, 4);
    }
}
#define AMX_DOT_U8S8(c, a, b)    amx_dot_u8s8(c, a, b)
#define AMX_KEEP_STORES_AWAKE(t) ((void)0)

#else

#include <immintrin.h>

typedef struct amx_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} amx_config;

// Tiles have 16 rows, but for sums (0 to 3) and rows of A (4) of a call of fewer |rows|.
static inline void amx_begin_rows(int64_t rows) {
  const uint8_t a = rows >= kAmxRows ? kAmxRows : rows > 0 ? (uint8_t)rows : 1;
  const amx_config config = {.palette = 1,
                             .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                             .rows = {a, a, a, a, a, kAmxRows, kAmxRows, kAmxRows}};
  // The intrinsic names only the first bytes that it reads.
  __asm__ volatile("" ::"r"(&config) : "memory");
  _tile_loadconfig(&config);
}

static inline void amx_begin(void) { amx_begin_rows(kAmxRows); }

static void amx_end(void) { _tile_release(); }

// The compiler does not see that tile loads read memory.
#define AMX_BARRIER()             __asm__ volatile("" ::: "memory")
#define AMX_ZERO(t)               _tile_zero(t)
#define AMX_LOAD(t, from, stride) _tile_loadd(t, from, stride)
#define AMX_STORE(t, to, stride)  _tile_stored(t, to, stride)
#define AMX_DOT_U8S8(c, a, b)     _tile_dpbusd(c, a, b)
// Stores tile |t|, 16 rows into one line, and drops it, see kAmxStoreInterval.
#define AMX_KEEP_STORES_AWAKE(t)                              \
  do {                                                        \
    char amx_line[kAmxRowBytes] __attribute__((aligned(64))); \
    _tile_stored(t, amx_line, 0);                             \
  } while (0)

#endif
#endif  // CARNOT_KERNEL_CPU_GEMM_AMX_TILES_H_
