// Scaled dot-product attention of one batch entry and head over bytes, with sums in int32.
//   s[i,j] = f32(sum_c (q[i,c] - q_zero) * (k[j,c] - k_zero)) * score_scale
//   with |rounds_scores|: s = f32(min(max(rint(s) + s_zero, s_low), s_high) - s_zero) * s_scale
//   s = s * factor, or s / factor with |divides|
//   s = round(s, scaled);  s = s + mask[i,j];  s = round(s, masked)
//   p[i,j] = quantize(softmax_j(s[i,:]))                      (softmax_f32, then quantize_f32)
//   y[i,c] = f32(sum_j (p[i,j] - p_zero) * (v[j,c] - v_zero)) * out_scale
//   round(s, t): f32(clamp(rint(s / t.scale) + t.zero) - t.zero) * t.scale, or s for t.scale 0
//   dst = y as float32, or min(max(rint(y) + y_zero, y_low), y_high)
// Each operation on floats is one float32 operation rounded to nearest even, none contracted;
// rint(NaN) counts as 0. Sums are exact: those of q and k in int32, of at most
// CARNOT_ATTENTION_MOST_TERMS elements of a head; those of p and v over as many keys in int32, and
// beyond in int64.
// |q| [q_len,d]  |k| [kv_len,d]  |v| [kv_len,dv]  |dst| [q_len,dv], rows *_ld elements apart;
// |mask| [q_len,kv_len] rows |mask_ld| apart (0: one row for all), or NULL.
// A call computes queries [q0,q1); disjoint calls may run at once, each with a workspace of
// carnot_attention_u8s8_workspace bytes. dst overlaps nothing. Any thread. Source: ONNX
// MatMul-13, Softmax-13, QuantizeLinear-13.
#ifndef CARNOT_KERNEL_CPU_ATTENTION_ATTENTION_U8S8_H_
#define CARNOT_KERNEL_CPU_ATTENTION_ATTENTION_U8S8_H_

#include "kernel/cpu/gemm/gemm_u8s8.h"

enum { CARNOT_ATTENTION_MOST_TERMS = 32768 };

// A matrix of bytes.
typedef struct carnot_byte_matrix {
  const void* data;
  int64_t ld;
  bool is_signed;
  int32_t zero_point;
} carnot_byte_matrix;

// To 8-bit integers from |low| to |high| and back; |scale| 0: not at all.
typedef struct carnot_score_rounding {
  float scale;
  int32_t zero, low, high;
} carnot_score_rounding;

typedef struct carnot_attention_u8s8 {
  int64_t q_len, kv_len, d, dv;
  carnot_byte_matrix q, k, v;
  float score_scale;
  bool rounds_scores;
  int32_t s_zero, s_low, s_high;
  float s_scale;
  bool divides;
  float factor;
  carnot_score_rounding scaled, masked;
  const float* mask;
  int64_t mask_ld;
  bool p_signed;
  int32_t p_zero;
  float p_scale;
  float out_scale;
  carnot_int8_output output;  // F32, U8 or S8
  int32_t y_zero, y_low, y_high;
  void* dst;
  int64_t dst_ld;
  carnot_gemm_u8s8_fn* gemm;  // of this level or one that holds it
  void* workspace;            // aligned to 64 bytes
} carnot_attention_u8s8;

// Queries of a tile.
static inline int64_t carnot_attention_u8s8_rows(int64_t kv_len) {
  const int64_t rows = (1 << 16) / (kv_len > 0 ? kv_len : 1);
  return rows < 8 ? 8 : rows > 64 ? 64 : rows;
}

int64_t carnot_attention_u8s8_workspace(int64_t kv_len, int64_t d, int64_t dv);

typedef void carnot_attention_u8s8_fn(const carnot_attention_u8s8* attention, int64_t q0,
                                      int64_t q1);

#endif
