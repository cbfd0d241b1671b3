// One element-wise function on numbers of the operands' own type: integers, float64 and truth
// values, which pointwise programs (pointwise.h) do not hold exactly.
//   out[i,j] = fn(x[i,j], y[i,j], z[i,j])
// Integers wrap; x / 0 = 0 and MIN / -1 = MIN; Mod has the sign of y, FMod that of x. NaN
// propagates through max and min. Truth values are bytes, written as 0 and 1, and any byte but 0 is
// true. Results of comparisons are truth values, so is the first operand of select. |in|, |out|: as
// in pointwise.h. A call computes rows [row0,row1) in order; a row of out overlaps no operand's row
// of the same number. Any thread. Source: base/fn.def.
#ifndef CARNOT_KERNEL_CPU_POINTWISE_ELEMENTWISE_H_
#define CARNOT_KERNEL_CPU_POINTWISE_ELEMENTWISE_H_

#include <stdbool.h>

#include "kernel/cpu/pointwise/pointwise.h"

typedef enum carnot_element_type {
  CARNOT_ELEMENT_BOOL,
  CARNOT_ELEMENT_U8,
  CARNOT_ELEMENT_I32,
  CARNOT_ELEMENT_I64,
  CARNOT_ELEMENT_F64,
  CARNOT_ELEMENT_TYPE_COUNT
} carnot_element_type;

typedef struct carnot_elementwise {
  carnot_pw_fn fn;
  carnot_element_type type;
  int arity;  // operands of |fn|
  carnot_pw_operand in[3], out;
} carnot_elementwise;

// False, and nothing is done: there is no loop of this function and type. With rows 0 to 0 the
// call only says so.
typedef bool carnot_elementwise_fn(const carnot_elementwise* call, int64_t row0, int64_t row1,
                                   int64_t n);

#endif
