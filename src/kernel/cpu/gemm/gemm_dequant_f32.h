// GEMM over weights of 2, 4 or 8 bits with a scale for each block of K, which stay packed in
// memory.
//   c[m,n] = epilogue(sum_k a[m,k] * w[k,n])
//   w[k,n] = (q[k,n] - zero[b,n]) * scale[b,n],  b = k / block
// Integers less their zero points are exact in float32. Up to CARNOT_DEQUANT_FEW_ROWS rows the sum
// of a block is multiplied by its scale, and nothing but the packed weights is read; activations
// above about 1e35 may overflow in that sum. More rows meet weights that are dequantized into
// |workspace| a few panels at a time.
//
// Packing, called "k8n16 u4" after the numbers and columns of a group: panels of 16 columns; in a
// panel the groups of K, blocks in order, every block begins a group; in a group one 32-bit word a
// column with 32 / bits numbers of successive k. Byte i of a word holds the numbers i, i + 4, ..,
// the first in the lowest bits, so that a shift and a mask give four successive ones as bytes.
// Numbers beyond K or N are 0.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_DEQUANT_F32_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_DEQUANT_F32_H_

#include "kernel/cpu/gemm/gemm_f32.h"

enum { CARNOT_DEQUANT_FEW_ROWS = 4 };

typedef struct carnot_dequant_shape {
  int64_t k, n;
  int64_t block;  // of K, 1 or more; the last one may be shorter
  int bits;       // 2, 4 or 8
} carnot_dequant_shape;

typedef struct carnot_gemm_dequant_f32 {
  carnot_gemm_f32 gemm;  // |b| is packed as above
  carnot_dequant_shape shape;
  const float* scales;   // [panels][blocks][16]
  const uint8_t* zeros;  // likewise, or NULL: all are |zero|
  int zero;
  float* workspace;  // of more than a few rows: carnot_dequant_workspace floats
} carnot_gemm_dequant_f32;

// Computes rows [m0, m1) of columns [n0, n1), n0 a multiple of 16. Bits do not depend on how the
// work is cut. The residual may be |c| itself as for carnot_gemm_f32_fn. Any thread.
typedef void carnot_gemm_dequant_f32_fn(const carnot_gemm_dequant_f32* gemm, int64_t m0, int64_t m1,
                                        int64_t n0, int64_t n1);

static inline int64_t carnot_dequant_blocks(const carnot_dequant_shape* shape) {
  return (shape->k + shape->block - 1) / shape->block;
}
// Groups of a whole block.
static inline int64_t carnot_dequant_block_groups(const carnot_dequant_shape* shape) {
  const int64_t each = 32 / shape->bits;
  return (shape->block + each - 1) / each;
}
// Groups of a panel.
static inline int64_t carnot_dequant_groups(const carnot_dequant_shape* shape) {
  const int64_t each = 32 / shape->bits, rest = shape->k % shape->block;
  return shape->k / shape->block * carnot_dequant_block_groups(shape) + (rest + each - 1) / each;
}
// Elements of scales and zero points.
static inline int64_t carnot_dequant_scale_count(const carnot_dequant_shape* shape) {
  return (shape->n + 15) / 16 * carnot_dequant_blocks(shape) * 16;
}
// Bytes of packed weights.
static inline int64_t carnot_dequant_bytes(const carnot_dequant_shape* shape) {
  return (shape->n + 15) / 16 * carnot_dequant_groups(shape) * 64;
}
// Columns that are dequantized at once, and the floats of workspace for each concurrent call.
static inline int64_t carnot_dequant_columns(int64_t k) { return k <= 4096 ? 64 : 32; }
static inline int64_t carnot_dequant_workspace(int64_t k) { return k * carnot_dequant_columns(k); }

// The place in its group of the number that begins at bit |index| * |bits| of a word.
static inline int carnot_dequant_place(int index, int bits) {
  return index * bits % 8 / bits * 4 + index * bits / 8;
}

// Packs q[k * rs + n * cs], numbers of |shape->bits| bits. Portable C.
void carnot_pack_dequant(const carnot_dequant_shape* shape, const uint8_t* q, int64_t rs,
                         int64_t cs, void* packed);

#endif
