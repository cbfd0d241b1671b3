#include <stdlib.h>
#include <string.h>

#include "backend/tactic.h"

static const char* const kNames[CARNOT_ISA_COUNT] = {
#define ISA_NAME(NAME, name) name,
    CARNOT_ISAS(ISA_NAME)
#undef ISA_NAME
};

const char* carnot_isa_name(carnot_isa isa) {
  return (unsigned)isa < CARNOT_ISA_COUNT ? kNames[isa] : "unknown";
}

carnot_isa carnot_isa_find(const char* name) {
  int i = 0;
  while (i < CARNOT_ISA_COUNT && strcmp(kNames[i], name) != 0) i++;
  return (carnot_isa)i;
}

static carnot_isa detect(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CARNOT_ISA_SCALAR;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
    return CARNOT_ISA_AVX2;
  if (!__builtin_cpu_supports("avx512vnni")) return CARNOT_ISA_AVX512;
  return __builtin_cpu_supports("avx512bf16") ? CARNOT_ISA_AVX512_BF16 : CARNOT_ISA_AVX512_VNNI;
#else
  return CARNOT_ISA_SCALAR;
#endif
}

carnot_isa carnot_isa_of_machine(void) {
  carnot_isa found = detect();
  const char* forced = getenv("CARNOT_ISA");
  carnot_isa wanted = forced ? carnot_isa_find(forced) : CARNOT_ISA_COUNT;
  return wanted < found ? wanted : found;
}
