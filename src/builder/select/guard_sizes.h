// What the files of guarded variants share: sizes at which candidates are compared.
#ifndef CARNOT_BUILDER_SELECT_GUARD_SIZES_H_
#define CARNOT_BUILDER_SELECT_GUARD_SIZES_H_

#include "builder/select/select.h"

// The quantity that guards bound: the only dimension of an operand that varies, or, of several,
// their product or the one that decides.
typedef struct carnot_guarded_quantity {
  uint32_t operand, dim;
} carnot_guarded_quantity;

// A size at which candidates are compared. |winner| is an index of the set.
typedef struct carnot_timed_size {
  carnot_symbol_sizes symbols;
  double quantity;  // 0: the size cannot be timed
  uint32_t winner;
} carnot_timed_size;

typedef struct carnot_guard_builder {
  carnot_builder* builder;
  const carnot_region_facts* facts;
  carnot_candidate_set* set;
  carnot_assigned_region* region;
  carnot_guarded_quantity guarded;
} carnot_guard_builder;

// The first operand that varies; false when none does.
bool carnot_guarded_find(const carnot_problem* problem, carnot_guarded_quantity* out);
double carnot_guarded_size(const carnot_problem* problem, carnot_guarded_quantity quantity);
// Times the candidates at the size |symbols|. The winner is the region's candidate where no other
// is worth a variant or the size is not timed.
carnot_status* carnot_time_at(const carnot_guard_builder* guards,
                              const carnot_symbol_sizes* symbols,
                              carnot_timed_size* out) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_SELECT_GUARD_SIZES_H_
