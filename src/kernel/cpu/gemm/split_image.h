// Rows of A for tile loads: input pixels of a block of output rows, in bfloat16 parts, so that the
// pixels under one filter tap of consecutive outputs lie at equal distances and need no gathering.
// Private to gemm_split_f32.c.
//
// With strides, pixels are sorted in planes by their position modulo the stride; padding is stored
// as zeros. Channels lie in slices of 32, a pixel of one with its parts in a row: what a tile load
// reads is as near together as can be. The outputs of a row continue over the |width| pixels of a
// plane's row: those beyond the real ones are computed and left. A matrix is an image of one
// column.
#ifndef CARNOT_KERNEL_CPU_GEMM_SPLIT_IMAGE_H_
#define CARNOT_KERNEL_CPU_GEMM_SPLIT_IMAGE_H_

#if defined(__AMX_BF16__)

#include "kernel/cpu/conv/conv2d_f32.h"
#include "kernel/cpu/gemm/amx_tiles.h"
#include "kernel/cpu/gemm/pack_split.h"
#include "kernel/cpu/gemm/split_bf16.h"

enum {
  kStepDepth = 32,                             // channels of a slice: K of a step
  kMostChannels = CARNOT_SPLIT_MOST_CHANNELS,  // of a chunk
  kWantedOutputs = 128,  // of a block, so that weights are split for enough rows
  kMostOutputs = 1024,   // of a block
  kMostGroups = kMostOutputs / kAmxRows + 1,  // one more than are used
  kImageBytes = CARNOT_SPLIT_BLOCK_BYTES,     // of a block: with weights and sums it stays in L2
};

typedef struct split_image {
  const carnot_conv2d_f32* conv;
  int parts;
  int64_t row_planes, column_planes;
  int64_t width;             // pixels of a row of a plane
  int64_t halo;              // rows of a plane beyond those of the block
  int64_t channels, chunks;  // of K, padded to whole slices
  int64_t pitch;             // bytes from one pixel of a slice to the next
  int64_t rows;              // output rows of a block
} split_image;

static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b) {
    const int64_t rest = a % b;
    a = b, b = rest;
  }
  return a;
}

// Positions modulo |stride| that |taps| taps |dilation| apart fall on.
static int64_t planes_of(int64_t taps, int64_t dilation, int64_t stride) {
  return min_i64(taps, stride / greatest_divisor(stride, dilation));
}

static int64_t plane_pixels(const split_image* image, int64_t rows) {
  return (rows + image->halo) * image->width;
}

// Bytes of a slice of a block of |rows| output rows; the last tile reads up to 15 pixels beyond it.
static int64_t slice_bytes(const split_image* image, int64_t rows) {
  const int64_t planes = image->row_planes * image->column_planes;
  return (planes * plane_pixels(image, rows) + kAmxRows) * image->pitch;
}

static int64_t image_bytes(const split_image* image, int64_t rows) {
  return image->channels / kStepDepth * slice_bytes(image, rows);
}

static void set_channels(split_image* image, int64_t chunks) {
  const int64_t even = (image->conv->c + chunks - 1) / chunks;
  image->channels = (even + kStepDepth - 1) / kStepDepth * kStepDepth;
  image->chunks = max_i64(1, (image->conv->c + image->channels - 1) / image->channels);
}

// False where a block does not fit. Chunks depend on the problem only, so that every cut of the
// work adds in one order.
static bool split_image_init(split_image* image, const carnot_conv2d_f32* c, int parts) {
  *image = (split_image){
      .conv = c,
      .parts = parts,
      .row_planes = planes_of(c->r, c->dilation_h, c->stride_h),
      .column_planes = planes_of(c->s, c->dilation_w, c->stride_w),
      .width = c->q + (c->s - 1) * c->dilation_w / c->stride_w,
      .pitch = parts * kAmxRowBytes,
      .halo = (c->r - 1) * c->dilation_h / c->stride_h,
  };
  if (c->depth.taps || c->c < 1 || image->width > kMostOutputs) return false;
  const int64_t wanted = min_i64(c->p, (kWantedOutputs + image->width - 1) / image->width);
  int64_t chunks = (c->c + kMostChannels - 1) / kMostChannels;
  set_channels(image, chunks);
  while (image_bytes(image, wanted) > kImageBytes && image->channels > kStepDepth) {
    set_channels(image, chunks *= 2);
  }
  const int64_t most = min_i64(c->p, kMostOutputs / image->width);
  for (image->rows = most; image->rows > 0; --image->rows) {
    if (image_bytes(image, image->rows) <= kImageBytes) break;
  }
  return image->rows > 0;
}

// Where the pixel of output 0 under tap (r,s) begins.
static int64_t tap_offset(const split_image* image, int64_t rows, int64_t r, int64_t s) {
  const carnot_conv2d_f32* c = image->conv;
  if (c->stride_h == 1 && c->stride_w == 1)
    return (r * c->dilation_h * image->width + s * c->dilation_w) * image->pitch;
  const int64_t plane = r % image->row_planes * image->column_planes + s % image->column_planes;
  const int64_t down = r * c->dilation_h / c->stride_h, right = s * c->dilation_w / c->stride_w;
  return (plane * plane_pixels(image, rows) + down * image->width + right) * image->pitch;
}

// The parts of a slice of a row, of which |left| numbers are left; zeros behind them.
CARNOT_INLINE void split_slice(int parts, const float* src, int64_t left, char* to,
                               split_range* range) {
  const bool whole = left >= kStepDepth;
  const __m512 low = whole ? v_load(src) : v_load_upto(src, left);
  const __m512 high = whole       ? v_load(src + 16)
                      : left > 16 ? v_load_upto(src + 16, left - 16)
                                  : v_zero();
  if (parts == 1) {
    _mm512_store_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    return;
  }
  __m512i pairs[3];
  split_range_add(range, low), split_range_add(range, high);
  split_pairs(parts, low, high, pairs);
  CARNOT_UNROLL
  for (int i = 0; i < parts; ++i) _mm512_store_si512(to + i * kAmxRowBytes, pairs[i]);
}

// Row |y| of image |src| at columns from |x| on, every |step|-th, channels from c0 on.
CARNOT_INLINE void split_row(int parts, const split_image* image, const float* src, int64_t y,
                             int64_t x, int64_t c0, char* dst, int64_t slice, split_range* range) {
  const carnot_conv2d_f32* c = image->conv;
  const int64_t count = min_i64(image->channels, c->c - c0);
  for (int64_t j = 0; j < image->width; ++j, x += c->stride_w, dst += image->pitch) {
    if ((uint64_t)y < (uint64_t)c->h && (uint64_t)x < (uint64_t)c->w) {
      const float* pixel = src + y * c->src_h + x * c->src_w + c0;
      char* to = dst;
      for (int64_t k = 0; k < count; k += kStepDepth, to += slice)
        split_slice(parts, pixel + k, count - k, to, range);
      if (parts > 1) split_range_end_row(range);
    } else {
      for (int64_t k = 0; k < count; k += kStepDepth)
        memset(dst + k / kStepDepth * slice, 0, (size_t)image->pitch);
    }
  }
}

// Stores the pixels that output rows p0 .. p0 + rows - 1 of image |n| need.
CARNOT_INLINE void split_block(int parts, const split_image* image, int64_t n, int64_t p0,
                               int64_t rows, int64_t c0, char* to, split_range* out_range) {
  const carnot_conv2d_f32* c = image->conv;
  const float* src = c->src + n * c->src_n;
  const int64_t slice = slice_bytes(image, rows);
  split_range range = *out_range;
  for (int64_t a = 0; a < image->row_planes; ++a) {
    for (int64_t b = 0; b < image->column_planes; ++b) {
      const int64_t y0 = p0 * c->stride_h + a * c->dilation_h % c->stride_h - c->pad_h;
      const int64_t x0 = b * c->dilation_w % c->stride_w - c->pad_w;
      for (int64_t i = 0; i < rows + image->halo; ++i, to += image->width * image->pitch) {
        split_row(parts, image, src, y0 + i * c->stride_h, x0, c0, to, slice, &range);
      }
    }
  }
  *out_range = range;
}

#endif
#endif
