// Discrete Fourier transforms of float32 sequences, as many at once as a vector has lanes.
//   dst[l][k] = scale * sum_i window[i] * src[l][i] * roots[i*k mod n],  k < bins
// |src|: number i of sequence l at l*src_lane + i*src_step, |parts| floats (real, imaginary), of
// which |size| are there; those up to n are zero. |mirror|: the first n/2 + 1 are there, the others
// their conjugates in reverse.
// |dst|: number k of sequence l at l*dst_lane + k*dst_step, |dst_parts| floats; 1: the real parts.
// |roots| [n] complex: e^(-2*pi*i*k/n), or its conjugate for the inverse.
// A call transforms sequences [lane0,lane1) with a scratch of carnot_dft_f32_scratch floats.
// The same bits however the sequences are cut at multiples of CARNOT_DFT_LANES. Any thread.
// Source: ONNX DFT-20, STFT-17; Stockham's autosort FFT (Van Loan, Computational Frameworks for the
// Fast Fourier Transform, section 1.7).
#ifndef CARNOT_KERNEL_CPU_DFT_DFT_F32_H_
#define CARNOT_KERNEL_CPU_DFT_DFT_F32_H_

#include <stdbool.h>
#include <stdint.h>

// Sequences that two vectors of the widest level hold: real ones are transformed in pairs.
enum { CARNOT_DFT_LANES = 32, CARNOT_DFT_MAX_RADICES = 32 };

typedef struct carnot_dft_f32 {
  int64_t n;
  int radix_count;
  int64_t radices[CARNOT_DFT_MAX_RADICES];  // whose product is n
  const float* roots;
  const float* src;
  int64_t size, src_lane, src_step;
  int parts;
  bool mirror;          // src has two parts
  const float* window;  // [n] or NULL
  float* dst;
  int64_t bins, dst_lane, dst_step;
  int dst_parts;
  float scale;
} carnot_dft_f32;

typedef void carnot_dft_f32_fn(const carnot_dft_f32* dft, int64_t lane0, int64_t lane1,
                               float* scratch);

// Two arrays of |n| complex vectors of the widest level.
static inline int64_t carnot_dft_f32_scratch(int64_t n) { return 2 * n * CARNOT_DFT_LANES; }

#endif
