// Defines one tactic for each ISA level of a kernel that is compiled for all levels.
#ifndef CARNOT_BACKEND_CPU_COMMON_ISA_VARIANTS_H_
#define CARNOT_BACKEND_CPU_COMMON_ISA_VARIANTS_H_

// CARNOT_CPU_TACTIC(conv_f32, avx2, AVX2, .anchor = …, …) defines carnot_tactic_conv_f32_avx2,
// named cpu_conv_f32_avx2.
#define CARNOT_CPU_TACTIC(family, level, LEVEL, ...)       \
  const carnot_tactic carnot_tactic_##family##_##level = { \
      .name = "cpu_" #family "_" #level, .isa = CARNOT_ISA_##LEVEL, __VA_ARGS__}

#define CARNOT_CPU_THREE_TACTICS(family, ...)             \
  CARNOT_CPU_TACTIC(family, avx512, AVX512, __VA_ARGS__); \
  CARNOT_CPU_TACTIC(family, avx2, AVX2, __VA_ARGS__);     \
  CARNOT_CPU_TACTIC(family, scalar, SCALAR, __VA_ARGS__)

#define CARNOT_CPU_TACTICS(family, ...) \
  CARNOT_CPU_THREE_TACTICS(family, .numerics = CARNOT_NUMERICS_EXACT, __VA_ARGS__)

// Weights in FP16. They need no permission where the conversion changes no value.
#define CARNOT_CPU_F16_TACTICS(family, ...)                                             \
  CARNOT_CPU_THREE_TACTICS(family, .numerics = CARNOT_NUMERICS_HALF,                    \
                           .precision = CARNOT_DTYPE_F16, .lossless_f16_weights = true, \
                           __VA_ARGS__)

// Float32 by products of BF16 parts on AMX: six, as exact as float32, and three.
#define CARNOT_CPU_SPLIT_TACTICS(family, ...)                                                   \
  CARNOT_CPU_TACTIC(family##_split6_f32, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_SPLIT6, \
                    __VA_ARGS__);                                                               \
  CARNOT_CPU_TACTIC(family##_split3_f32, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_SPLIT3, \
                    __VA_ARGS__)

// BF16 dot products, on the levels that have the instructions.
#define CARNOT_CPU_NATIVE_BF16_TACTICS(family, ...)                                    \
  CARNOT_CPU_TACTIC(family, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_HALF,       \
                    .precision = CARNOT_DTYPE_BF16, __VA_ARGS__);                      \
  CARNOT_CPU_TACTIC(family, avx512bf16, AVX512_BF16, .numerics = CARNOT_NUMERICS_HALF, \
                    .precision = CARNOT_DTYPE_BF16, __VA_ARGS__)

// Weights in BF16: levels with BF16 dot products round the activations too, the others convert the
// weights to float32.
#define CARNOT_CPU_BF16_TACTICS(family, ...)                         \
  CARNOT_CPU_NATIVE_BF16_TACTICS(family, __VA_ARGS__);               \
  CARNOT_CPU_THREE_TACTICS(family, .numerics = CARNOT_NUMERICS_HALF, \
                           .precision = CARNOT_DTYPE_BF16, __VA_ARGS__)

#endif  // CARNOT_BACKEND_CPU_COMMON_ISA_VARIANTS_H_
