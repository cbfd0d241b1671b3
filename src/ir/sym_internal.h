// What the files of symbolic dimensions share.
#ifndef CARNOT_IR_SYM_INTERNAL_H_
#define CARNOT_IR_SYM_INTERNAL_H_

#include <string.h>

#include "ir/sym.h"

// Floats are kept as the bits of a double.
static inline double carnot_sym_float_of(int64_t bits) {
  double value;
  memcpy(&value, &bits, 8);
  return value;
}
static inline int64_t carnot_sym_bits_of(double value) {
  int64_t bits;
  memcpy(&bits, &value, 8);
  return bits;
}

// A value that a plain integer can represent.
static inline bool carnot_sym_plain(int64_t v) {
  return v >= -CARNOT_SYM_LIMIT && v <= CARNOT_SYM_LIMIT;
}

const char* carnot_sym_text(carnot_sym_op op);

// a + b, a - b or a * b (b an integer) as a sum of terms in one order, so that equal sums meet;
// false where it has too many terms or overflows.
bool carnot_sym_linear(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b,
                       carnot_sym* out);
// a * b with its factors in one order.
carnot_sym carnot_sym_product_of(carnot_syms* syms, carnot_sym a, carnot_sym b);
// a / b where b divides a for sure (for b ≠ 0): common factors cancel, a sum is divided term by
// term.
bool carnot_sym_divide(carnot_syms* syms, carnot_sym a, carnot_sym b, carnot_sym* out);

#endif  // CARNOT_IR_SYM_INTERNAL_H_
