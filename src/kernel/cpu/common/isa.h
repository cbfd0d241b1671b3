// The ISAs of the CPU kernels: the processor features that each requires, and the order of
// preference among them.
#ifndef CARNOT_KERNEL_CPU_COMMON_ISA_H_
#define CARNOT_KERNEL_CPU_COMMON_ISA_H_

// Features of a processor, as bits of a mask.
enum {
  CARNOT_CPU_AVX2 = 1 << 0,
  CARNOT_CPU_FMA = 1 << 1,
  CARNOT_CPU_AVX512F = 1 << 2,
  CARNOT_CPU_AVX512BW = 1 << 3,
  CARNOT_CPU_AVX512DQ = 1 << 4,
  CARNOT_CPU_AVX512VL = 1 << 5,
  CARNOT_CPU_AVX512VNNI = 1 << 6,
  CARNOT_CPU_AVX512BF16 = 1 << 7,
  CARNOT_CPU_AMX = 1 << 8,        // tiles, and their BF16 and INT8 dot products
  CARNOT_CPU_AMX_STATE = 1 << 9,  // the operating system permits the tiles
  // What the ISAs require.
  CARNOT_ISA_AVX2_FEATURES = CARNOT_CPU_AVX2 | CARNOT_CPU_FMA,
  CARNOT_ISA_AVX512_FEATURES = CARNOT_ISA_AVX2_FEATURES | CARNOT_CPU_AVX512F | CARNOT_CPU_AVX512BW |
                               CARNOT_CPU_AVX512DQ | CARNOT_CPU_AVX512VL,
  CARNOT_ISA_VNNI_FEATURES = CARNOT_ISA_AVX512_FEATURES | CARNOT_CPU_AVX512VNNI,
  CARNOT_ISA_BF16_FEATURES = CARNOT_ISA_VNNI_FEATURES | CARNOT_CPU_AVX512BF16,
  CARNOT_ISA_AMX_FEATURES = CARNOT_ISA_BF16_FEATURES | CARNOT_CPU_AMX | CARNOT_CPU_AMX_STATE
};

// The ISAs. X(NAME, "name", required features). A machine has an ISA when it has its features: the
// order of this list says nothing, and features need not contain those of another entry. Engines
// hold the number of an entry, so new ones go to the end.
//   scalar      plain C, vectors of 4
//   avx2        AVX2, FMA, F16C
//   avx512      AVX-512 F, BW, DQ, VL
//   avx512vnni  and VNNI: the INT8 dot products
//   avx512bf16  and BF16: the BF16 dot products
//   amxbf16     and BF16 and INT8 by AMX tiles, which the operating system must permit
#define CARNOT_ISAS(X)                                   \
  X(SCALAR, "scalar", 0)                                 \
  X(AVX2, "avx2", CARNOT_ISA_AVX2_FEATURES)              \
  X(AVX512, "avx512", CARNOT_ISA_AVX512_FEATURES)        \
  X(AVX512_VNNI, "avx512vnni", CARNOT_ISA_VNNI_FEATURES) \
  X(AVX512_BF16, "avx512bf16", CARNOT_ISA_BF16_FEATURES) \
  X(AMX_BF16, "amxbf16", CARNOT_ISA_AMX_FEATURES)

// Every ISA in order of preference, the best last. X(NAME).
#define CARNOT_ISA_PREFERENCE(X) \
  X(SCALAR) X(AVX2) X(AVX512) X(AVX512_VNNI) X(AVX512_BF16) X(AMX_BF16)

typedef enum carnot_isa {
#define CARNOT_ISA_ENUM(NAME, name, features) CARNOT_ISA_##NAME,
  CARNOT_ISAS(CARNOT_ISA_ENUM)
#undef CARNOT_ISA_ENUM
      CARNOT_ISA_COUNT
} carnot_isa;

#endif  // CARNOT_KERNEL_CPU_COMMON_ISA_H_
