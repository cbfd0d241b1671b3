// What the loops of INT8 GEMM and convolution share; private to gemm_u8s8.c.
#ifndef CARNOT_KERNEL_CPU_GEMM_LOOP_U8S8_H_
#define CARNOT_KERNEL_CPU_GEMM_LOOP_U8S8_H_

#include "kernel/cpu/gemm/gemm_u8s8.h"
#include "kernel/cpu/gemm/store_int8.h"

enum {
  kMostTileRows = 32,
  kRowsAtOnce = 8,  // pointers found together; as many may be written behind the last one
};

// Finds the row pointers of |count| output rows from m on.
typedef void (*rows_fn)(const void* problem, int64_t m, int count, const uint8_t** out_rows);

typedef struct loop_u8s8 {
  rows_fn rows;
  const void* problem;
  int64_t taps, depth;
  bool a_signed;
  const int8_t* weights;
  int64_t columns;  // that the weights have
  void* dst;
  int64_t ld;
  const carnot_int8_epilogue* epilogue;
} loop_u8s8;

enum { kSumLd = 32 };  // a tile is at most 32 columns wide

CARNOT_INLINE uint32_t bytes4(const uint8_t* p) {
  uint32_t x;
  memcpy(&x, p, 4);
  return x;
}

// The last 1 to 3 bytes of a row; the weights beyond are zero. Not a loop, of which the compiler
// would make vectors that take the registers of the tile.
CARNOT_INLINE uint32_t bytes_left(const uint8_t* p, int64_t n) {
  uint32_t x = p[0];
  if (n > 1) x |= (uint32_t)p[1] << 8;
  if (n > 2) x |= (uint32_t)p[2] << 16;
  return x;
}

#endif  // CARNOT_KERNEL_CPU_GEMM_LOOP_U8S8_H_
