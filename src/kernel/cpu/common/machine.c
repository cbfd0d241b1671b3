// Detection of the processor's features by CPUID.
#include "kernel/cpu/common/machine.h"

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

static bool has_amx_bf16(void) {
  enum { kAmxBf16 = 1 << 22, kAmxTile = 1 << 24 };
  unsigned a, b, c, d;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & kAmxBf16) && (d & kAmxTile);
}

static const char* level_lacks(carnot_kernel_isa isa) {
  switch (isa) {
    case CARNOT_KERNEL_ISA_SCALAR: return NULL;
    case CARNOT_KERNEL_ISA_AVX2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                 ? NULL
                 : "the processor lacks avx2 and fma";
    case CARNOT_KERNEL_ISA_AVX512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
                 ? NULL
                 : "the processor lacks avx512f, avx512bw, avx512dq and avx512vl";
    case CARNOT_KERNEL_ISA_AVX512_VNNI:
      return __builtin_cpu_supports("avx512vnni") ? NULL : "the processor lacks avx512vnni";
    case CARNOT_KERNEL_ISA_AVX512_BF16:
      return __builtin_cpu_supports("avx512bf16") ? NULL : "the processor lacks avx512bf16";
    default:
      if (!has_amx_bf16()) return "the processor lacks amx-bf16";
      return tiles_permitted() ? NULL : "the operating system does not permit the tiles of AMX";
  }
}

const char* carnot_machine_lacks(carnot_kernel_isa isa) {
  __builtin_cpu_init();
  const char* lacks = NULL;
  for (int level = 0; level <= (int)isa && !lacks; level++)
    lacks = level_lacks((carnot_kernel_isa)level);
  return lacks;
}
#else
const char* carnot_machine_lacks(carnot_kernel_isa isa) {
  return isa == CARNOT_KERNEL_ISA_SCALAR ? NULL : "the processor is of another family";
}
#endif
