// One row for each ISA level of a family that is compiled for all of them.
#ifndef CARNOT_BACKEND_CPU_ROWS_H_
#define CARNOT_BACKEND_CPU_ROWS_H_

// CARNOT_CPU_ROWS(conv_f32, .anchor = …, …) defines carnot_tactic_conv_f32_avx512, _avx2 and
// _scalar, named cpu_conv_f32_avx512 and so on.
#define CARNOT_CPU_ROWS(family, ...)                                                             \
  const carnot_tactic_row carnot_tactic_##family##_avx512 = {.name = "cpu_" #family "_avx512",   \
                                                             .isa = CARNOT_ISA_AVX512,           \
                                                             .numerics = "exact",                \
                                                             __VA_ARGS__};                       \
  const carnot_tactic_row carnot_tactic_##family##_avx2 = {                                      \
      .name = "cpu_" #family "_avx2", .isa = CARNOT_ISA_AVX2, .numerics = "exact", __VA_ARGS__}; \
  const carnot_tactic_row carnot_tactic_##family##_scalar = {.name = "cpu_" #family "_scalar",   \
                                                             .isa = CARNOT_ISA_SCALAR,           \
                                                             .numerics = "exact",                \
                                                             __VA_ARGS__}

#endif  // CARNOT_BACKEND_CPU_ROWS_H_
