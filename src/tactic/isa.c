// Names of the ISA levels, and the level of this machine.
#include <stdlib.h>
#include <string.h>

#include "kernel/cpu/common/machine.h"
#include "tactic/tactic.h"

static const char* const kNames[CARNOT_ISA_COUNT] = {
#define ISA_NAME(NAME, name, features) name,
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

const char* carnot_isa_lacks(carnot_isa isa) { return carnot_machine_lacks(isa); }

static carnot_isa detect(void) {
  int isa = CARNOT_ISA_COUNT - 1;
  while (isa > 0 && carnot_isa_lacks((carnot_isa)isa)) isa--;
  return (carnot_isa)isa;
}

carnot_isa carnot_isa_of_machine(void) {
  carnot_isa found = detect();
  const char* forced = getenv("CARNOT_ISA");
  carnot_isa wanted = forced ? carnot_isa_find(forced) : CARNOT_ISA_COUNT;
  return wanted < found ? wanted : found;
}
