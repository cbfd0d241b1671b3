// What a GEMM or convolution does with a finished sum while it is in registers or L1.
//   dst[m,n] = activation(sum + bias[n] + residual[m,n])
// Plain data; borrows its pointers for the call. NaN passes through every activation.
#ifndef CARNOT_KERNEL_CPU_COMMON_EPILOGUE_F32_H_
#define CARNOT_KERNEL_CPU_COMMON_EPILOGUE_F32_H_

#include <stdbool.h>
#include <stdint.h>

typedef enum carnot_kernel_activation {
  CARNOT_KERNEL_ACTIVATION_NONE,
  CARNOT_KERNEL_ACTIVATION_RELU,        // max(x, 0)
  CARNOT_KERNEL_ACTIVATION_CLIP,        // min(max(x, a), b)
  CARNOT_KERNEL_ACTIVATION_LEAKY_RELU,  // x < 0 ? a * x : x
  CARNOT_KERNEL_ACTIVATION_SIGMOID,     // 1 / (1 + exp(-x))
  CARNOT_KERNEL_ACTIVATION_SILU,        // x * sigmoid(x)
  CARNOT_KERNEL_ACTIVATION_HARD_SWISH,  // x * min(max(x / 6 + 1 / 2, 0), 1)
  CARNOT_KERNEL_ACTIVATION_TANH,        // tanh(x)
  CARNOT_KERNEL_ACTIVATION_GELU_ERF,    // x / 2 * (1 + erf(x / sqrt(2)))
  CARNOT_KERNEL_ACTIVATION_COUNT
} carnot_kernel_activation;

// Activations x * g(x) that kernels compute in registers before they round a sum to BF16.
static inline bool carnot_kernel_is_gate(carnot_kernel_activation activation) {
  return activation == CARNOT_KERNEL_ACTIVATION_SILU ||
         activation == CARNOT_KERNEL_ACTIVATION_HARD_SWISH;
}

// The residual may be dst itself (same rows) where the filter has at most this many taps; it may
// not overlap dst in any other way.
enum { CARNOT_RESIDUAL_IN_PLACE_TAPS = 64 };

// Up to this K float32 kernels carry no sums through dst, so that a residual that lies there costs
// nothing.
enum { CARNOT_RESIDUAL_IN_PLACE_DEPTH = 768 };

typedef struct carnot_epilogue_f32 {
  const float* bias;      // [N], or NULL for none
  const float* residual;  // [M,N], rows |residual_ld| floats apart, or NULL; see below
  int64_t residual_ld;
  carnot_kernel_activation activation;
  float a, b;  // parameters of the activation, see above
} carnot_epilogue_f32;

#endif
