// GEMM and convolution over float32 weights in bfloat16 parts, packed k32n16 bf16x3. AMX multiplies
// the parts and sums the products in float32; multiply-adds over whole weights, put together from
// their parts, serve the other levels and numbers whose parts AMX would not multiply exactly.
#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"
#include "kernel/cpu/gemm/pack_split.h"

#define TILE_TABLE  gemm_ukernels_split
#define TILE_FORMAT .weight_bytes = 6, .depth_unit = 32, .taps_inside = true
#include "kernel/cpu/gemm/gemm_ukernel_body.h"

enum { kSliceDepth = 32, kTileBytes = 16 * 64 };

// A vector of weights of row |k| of a slice, |at| bytes into a tile's row.
CARNOT_INLINE vf32 whole_weights(const char* slice, int k, int at) {
  const char* row = slice + k % 16 * 64 + at;
  vf32 parts[3];
  CARNOT_UNROLL
  for (int i = 0; i < 3; ++i) {
    const vi32 pairs = v_iload((const int32_t*)(row + i * kTileBytes));
    parts[i] = v_of_bits(k < 16 ? v_ishl(pairs, 16) : v_iand(pairs, v_iset((int32_t)0xffff0000)));
  }
  return v_add(parts[0], v_add(parts[1], parts[2]));
}

CARNOT_INLINE const void* tile_accumulate(int row_count, int width, const gemm_ukernel_f32* t,
                                          const tile_part* part, vf32* acc) {
  for (int64_t tap = part->t0; tap < part->t1; ++tap) {
    const float* a[TILE_MAX_ROWS];
    CARNOT_UNROLL
    for (int i = 0; i < row_count; ++i) a[i] = t->rows[tap * row_count + i];
    for (int64_t slice = part->k0; slice < part->k1; slice += kSliceDepth) {
      const int count = (int)min_i64(kSliceDepth, part->k1 - slice);
      const char* b =
          (const char*)t->b + (slice / kSliceDepth * t->b_taps + tap) * CARNOT_SPLIT_SLICE_BYTES;
      for (int k = 0; k < count; ++k) {
        vf32 bv[16];
        CARNOT_UNROLL
        for (int j = 0; j < width; ++j) {
          bv[j] = whole_weights(b + j / VECTORS * t->b_panel, k, j % VECTORS * V_LANES * 4);
        }
        CARNOT_UNROLL
        for (int x = 0; x < row_count * width; ++x) {
          acc[x] = v_fma(v_set(a[x / width][slice + k]), bv[x % width], acc[x]);
        }
      }
    }
  }
  return part->b;
}

#if defined(__AMX_BF16__)

static void multiply_add(const carnot_conv2d_f32* p, int64_t m0, int64_t m1, int64_t n0,
                         int64_t n1) {
  GEMM_MACRO_KERNEL(conv2d_tiled_f32)(p, &CARNOT_KERNEL(gemm_ukernels_split), m0, m1, n0, n1);
}

#include "kernel/cpu/gemm/gemm_loop_split.h"
#include "kernel/cpu/gemm/gemm_loop_split_rows.h"

static void conv2d_whole_rows(const carnot_conv2d_f32* p, int parts, int64_t m0, int64_t m1,
                              int64_t n0, int64_t n1) {
  split_image image;
  if (split_image_init(&image, p, parts)) {
    split_outputs(&image, m0, m1, n0, n1);
  } else {
    multiply_add(p, m0, m1, n0, n1);
  }
}

// A long sequence is cut into pieces, images of one row each.
static void conv2d(const carnot_conv2d_f32* p, int parts, int64_t m0, int64_t m1, int64_t n0,
                   int64_t n1) {
  enum { kPiece = CARNOT_SPLIT_SEQUENCE_PIECE };
  if (p->p > 1 || p->r > 1 || p->depth.taps || p->q <= kPiece) {
    conv2d_whole_rows(p, parts, m0, m1, n0, n1);
    return;
  }
  for (int64_t m = m0, end; m < m1; m = end) {
    const int64_t n = m / p->q, q = m % p->q / kPiece * kPiece, count = min_i64(kPiece, p->q - q),
                  first = n * p->q + q;
    end = min_i64(m1, first + count);
    carnot_conv2d_f32 piece = *p;
    piece.n = 1, piece.q = count;
    piece.pad_w = p->pad_w - q * p->stride_w;
    piece.src = p->src + n * p->src_n;
    piece.dst = p->dst + first * p->ld;
    if (p->epilogue.residual)
      piece.epilogue.residual = p->epilogue.residual + first * p->epilogue.residual_ld;
    conv2d_whole_rows(&piece, parts, m - first, end - first, n0, n1);
  }
}

// A matrix is an image of one column.
static void gemm(const carnot_gemm_f32* p, int parts, int64_t m0, int64_t m1, int64_t n0,
                 int64_t n1) {
  const carnot_conv2d_f32 conv = {.n = 1,
                                  .h = p->m,
                                  .w = 1,
                                  .c = p->k,
                                  .p = p->m,
                                  .q = 1,
                                  .k = p->n,
                                  .r = 1,
                                  .s = 1,
                                  .stride_h = 1,
                                  .stride_w = 1,
                                  .dilation_h = 1,
                                  .dilation_w = 1,
                                  .src = p->a,
                                  .src_h = p->lda,
                                  .weights = p->b,
                                  .dst = p->c,
                                  .ld = p->ldc,
                                  .epilogue = p->epilogue};
  if (split_matrix(&conv, parts, m0, m1, n0, n1)) return;
  conv2d(&conv, parts, m0, m1, n0, n1);
}

bool CARNOT_KERNEL(conv2d_rounded)(const carnot_conv2d_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                   int64_t n1) {
  split_image image;
  const bool pays = p->r * p->s > 1 && p->p * p->q >= kWantedOutputs;
  if (!pays || p->c % kStepDepth || !split_image_init(&image, p, 1)) return false;
  split_outputs(&image, m0, m1, n0, n1);
  return true;
}

#else

static void gemm(const carnot_gemm_f32* p, int parts, int64_t m0, int64_t m1, int64_t n0,
                 int64_t n1) {
  (void)parts;
  GEMM_MACRO_KERNEL(gemm_with_ukernels_f32)(p, &CARNOT_KERNEL(gemm_ukernels_split), m0, m1, n0, n1);
}

static void conv2d(const carnot_conv2d_f32* p, int parts, int64_t m0, int64_t m1, int64_t n0,
                   int64_t n1) {
  (void)parts;
  GEMM_MACRO_KERNEL(conv2d_tiled_f32)(p, &CARNOT_KERNEL(gemm_ukernels_split), m0, m1, n0, n1);
}

#endif

void CARNOT_KERNEL(gemm_split6_f32)(const carnot_gemm_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                    int64_t n1) {
  gemm(p, 3, m0, m1, n0, n1);
}

void CARNOT_KERNEL(gemm_split3_f32)(const carnot_gemm_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                    int64_t n1) {
  gemm(p, 2, m0, m1, n0, n1);
}

void CARNOT_KERNEL(conv2d_split6_f32)(const carnot_conv2d_f32* p, int64_t m0, int64_t m1,
                                      int64_t n0, int64_t n1) {
  conv2d(p, 3, m0, m1, n0, n1);
}

void CARNOT_KERNEL(conv2d_split3_f32)(const carnot_conv2d_f32* p, int64_t m0, int64_t m1,
                                      int64_t n0, int64_t n1) {
  conv2d(p, 2, m0, m1, n0, n1);
}
