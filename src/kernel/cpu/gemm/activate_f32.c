// Activations of the GEMM epilogue, applied in place to a tile.
#include "kernel/cpu/common/simd.h"
#include "kernel/cpu/common/simd_math.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

CARNOT_INLINE vf32 activation_of(carnot_kernel_activation activation, vf32 a, vf32 b, vf32 x) {
  switch (activation) {
    case CARNOT_KERNEL_ACTIVATION_RELU: return v_max_to(v_zero(), x);
    case CARNOT_KERNEL_ACTIVATION_CLIP: return v_min_to(b, v_max_to(a, x));
    case CARNOT_KERNEL_ACTIVATION_LEAKY_RELU: return v_select(v_lt(x, v_zero()), v_mul(a, x), x);
    case CARNOT_KERNEL_ACTIVATION_SIGMOID: return v_sigmoid(x);
    case CARNOT_KERNEL_ACTIVATION_SILU: return v_silu(x);
    case CARNOT_KERNEL_ACTIVATION_HARD_SWISH: return v_hard_swish(x);
    case CARNOT_KERNEL_ACTIVATION_TANH: return v_tanh(x);
    case CARNOT_KERNEL_ACTIVATION_GELU_ERF: return v_gelu_erf(x);
    default: return x;
  }
}

// Inlined once for each activation, so that the loop holds one formula and no switch.
CARNOT_INLINE void activate_rows(carnot_kernel_activation activation, float a, float b, float* x,
                                 int64_t ld, int64_t rows, int64_t columns) {
  const vf32 va = v_set(a), vb = v_set(b);
  for (int64_t i = 0; i < rows; ++i) {
    float* row = x + i * ld;
    int64_t j = 0;
    for (; j + V_LANES <= columns; j += V_LANES) {
      v_store(row + j, activation_of(activation, va, vb, v_load(row + j)));
    }
    if (j < columns) {
      const vf32 tail = v_load_n(row + j, columns - j);
      v_store_n(row + j, activation_of(activation, va, vb, tail), columns - j);
    }
  }
}

#define CASE(name)                                                              \
  case CARNOT_KERNEL_ACTIVATION_##name:                                         \
    activate_rows(CARNOT_KERNEL_ACTIVATION_##name, a, b, x, ld, rows, columns); \
    break;

void CARNOT_KERNEL(activate_f32)(carnot_kernel_activation activation, float a, float b, float* x,
                                 int64_t ld, int64_t rows, int64_t columns) {
  switch (activation) {
    CASE(RELU)
    CASE(CLIP)
    CASE(LEAKY_RELU)
    CASE(SIGMOID)
    CASE(SILU)
    CASE(HARD_SWISH)
    CASE(TANH)
    CASE(GELU_ERF)
    default: break;
  }
}
