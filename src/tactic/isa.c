// The ISAs: names, features, order of preference, and the best one of this machine.
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

unsigned carnot_isa_features(carnot_isa isa) {
  static const unsigned kFeatures[CARNOT_ISA_COUNT] = {
#define ISA_FEATURES(NAME, name, features) features,
      CARNOT_ISAS(ISA_FEATURES)
#undef ISA_FEATURES
  };
  return (unsigned)isa < CARNOT_ISA_COUNT ? kFeatures[isa] : 0;
}

bool carnot_isa_includes(carnot_isa has, carnot_isa needed) {
  // The ISA of an engine may be one that this version does not know.
  bool known = (unsigned)has < CARNOT_ISA_COUNT && (unsigned)needed < CARNOT_ISA_COUNT;
  return known && (carnot_isa_features(needed) & ~carnot_isa_features(has)) == 0;
}

static const carnot_isa kPreference[] = {
#define ISA_PREFERENCE(NAME) CARNOT_ISA_##NAME,
    CARNOT_ISA_PREFERENCE(ISA_PREFERENCE)
#undef ISA_PREFERENCE
};
_Static_assert(sizeof(kPreference) / sizeof(kPreference[0]) == CARNOT_ISA_COUNT,
               "every ISA has a rank");

int carnot_isa_rank(carnot_isa isa) {
  int rank = 0;
  while (kPreference[rank] != isa) rank++;
  return rank;
}

const char* carnot_isa_lacks(carnot_isa isa) { return carnot_machine_lacks(isa); }

carnot_isa carnot_isa_best_of(unsigned features) {
  int rank = CARNOT_ISA_COUNT - 1;
  while (rank > 0 && carnot_isa_features(kPreference[rank]) & ~features) rank--;
  return kPreference[rank];
}

carnot_isa carnot_isa_of_machine(void) {
  int rank = carnot_isa_rank(carnot_isa_best_of(carnot_machine_features()));
  while (carnot_isa_lacks(kPreference[rank])) rank--;  // this build may end below the machine
  const char* forced = getenv("CARNOT_ISA");
  carnot_isa wanted = forced ? carnot_isa_find(forced) : CARNOT_ISA_COUNT;
  return wanted != CARNOT_ISA_COUNT && !carnot_isa_lacks(wanted) ? wanted : kPreference[rank];
}
