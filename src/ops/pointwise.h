// Inference shared by pointwise operators and casts: elements of small tensors as expressions.
#ifndef CARNOT_OPS_POINTWISE_H_
#define CARNOT_OPS_POINTWISE_H_

#include "ir/op.h"

// More elements than this are not followed as expressions.
enum { CARNOT_SYMS_LIMIT = 64 };

// The elements of input |input| as expressions, from its syms or its data; NULL where unknown, of
// another type than I64, I32, bool, F32 and F64, or too many.
const carnot_sym* carnot_pointwise_syms(carnot_infer* infer, int input, size_t* out_count);
// Sets the elements of output 0 of a function of |arity| inputs, where all are known. The output's
// type is set.
void carnot_pointwise_infer_syms(carnot_infer* infer, carnot_fn fn, int arity);
// The same for a cast to |to|.
void carnot_pointwise_infer_cast(carnot_infer* infer, carnot_dtype to);

#endif  // CARNOT_OPS_POINTWISE_H_
