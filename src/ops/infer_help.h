// Steps that the infer functions of several families share.
#ifndef CARNOT_OPS_INFER_HELP_H_
#define CARNOT_OPS_INFER_HELP_H_

#include "ir/op.h"

// Lists of known elements longer than this are not carried.
enum { CARNOT_MAX_SYMS = 64 };

// Output |i|: a tensor of |rank| (-1: unknown) dimensions that nobody knows.
void carnot_infer_set_unknown(carnot_infer* infer, int i, carnot_dtype dtype, int rank);
// How many numbers the list at input |i| has; -1 unknown, or more than a tensor has dimensions.
int carnot_infer_list_length(const carnot_infer* infer, int i);
// A list input whose numbers must be plain: NULL with count 0 where the input is absent; *out_known
// false where the numbers are not known.
carnot_status* carnot_infer_plain_ints(carnot_infer* infer, int i, const int64_t** out_values,
                                       size_t* out_count, bool* out_known) CARNOT_MUST_USE;
// The integers of a tensor at run time, in memory of the call.
carnot_status* carnot_call_ints(const carnot_call* call, const carnot_tensor* tensor,
                                const int64_t** out_values, size_t* out_count) CARNOT_MUST_USE;
// The elements of output |i| as expressions, where they are few. NULL where they are too many.
carnot_sym* carnot_infer_room_for_syms(carnot_infer* infer, int i, int64_t count);

#endif  // CARNOT_OPS_INFER_HELP_H_
