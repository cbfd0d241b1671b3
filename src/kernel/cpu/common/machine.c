// Detection of the processor's features by CPUID.
#include "kernel/cpu/common/machine.h"

#include <stdatomic.h>
#include <stddef.h>

#if defined(__x86_64__)
#include <cpuid.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
// Linux gives the 8 KB of tile state only to processes that asked (Documentation/arch/x86/xstate).
static bool tiles_permitted(void) {
  enum { kRequestPermission = 0x1023, kTileData = 18 };
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
static bool tiles_permitted(void) { return false; }
#endif

static bool has_amx(void) {
  enum { kAmxBf16 = 1 << 22, kAmxTile = 1 << 24, kAmxInt8 = 1 << 25 };
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kAmxBf16) && (d & kAmxTile) &&
         (d & kAmxInt8);
}

static unsigned detect(void) {
  __builtin_cpu_init();
  unsigned features = 0;
#define DETECT(NAME, name) \
  if (__builtin_cpu_supports(name)) features |= CARNOT_CPU_##NAME;
  DETECT(AVX2, "avx2")
  DETECT(FMA, "fma")
  DETECT(AVX512F, "avx512f")
  DETECT(AVX512BW, "avx512bw")
  DETECT(AVX512DQ, "avx512dq")
  DETECT(AVX512VL, "avx512vl")
  DETECT(AVX512VNNI, "avx512vnni")
  DETECT(AVX512BF16, "avx512bf16")
#undef DETECT
  if (has_amx()) {
    features |= CARNOT_CPU_AMX;
    if (tiles_permitted()) features |= CARNOT_CPU_AMX_STATE;
  }
  return features;
}

// CPUID leaves a virtual machine, which takes microseconds, so it is asked once.
unsigned carnot_machine_features(void) {
  enum { kKnown = 1 << 30 };
  static atomic_uint known;
  unsigned features = atomic_load_explicit(&known, memory_order_relaxed);
  if (!features) {
    features = detect() | (unsigned)kKnown;
    atomic_store_explicit(&known, features, memory_order_relaxed);
  }
  return features & ~(unsigned)kKnown;
}
#else
unsigned carnot_machine_features(void) { return 0; }
#endif

const char* carnot_machine_lacks(carnot_isa isa) {
  static const unsigned kRequired[CARNOT_ISA_COUNT] = {
#define REQUIRED(NAME, name, features) features,
      CARNOT_ISAS(REQUIRED)
#undef REQUIRED
  };
  static const struct {
    unsigned features;
    const char* message;
  } kMessages[] = {
      {CARNOT_ISA_AVX2_FEATURES, "the processor lacks avx2 and fma"},
      {CARNOT_ISA_AVX512_FEATURES, "the processor lacks avx512f, avx512bw, avx512dq and avx512vl"},
      {CARNOT_ISA_VNNI_FEATURES, "the processor lacks avx512vnni"},
      {CARNOT_ISA_BF16_FEATURES, "the processor lacks avx512bf16"},
      {CARNOT_CPU_AMX, "the processor lacks amx-tile, amx-bf16 and amx-int8"},
      {CARNOT_CPU_AMX_STATE, "the operating system does not permit the tiles of AMX"}};
  // No use of AMX is asked for what requires nothing.
  unsigned missing = kRequired[isa] ? kRequired[isa] & ~carnot_machine_features() : 0;
  if (!missing) return carnot_cpu_kernels_for(isa) ? NULL : "this build has no kernels for it";
  size_t i = 0;
  while (!(kMessages[i].features & missing)) i++;
  return kMessages[i].message;
}
