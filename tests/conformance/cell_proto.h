// Test data: ONNX's TensorProto, SequenceProto and OptionalProto files as values, and the
// comparison of values.
#ifndef CARNOT_TESTS_CONFORMANCE_CELL_PROTO_H_
#define CARNOT_TESTS_CONFORMANCE_CELL_PROTO_H_

#include "ir/op.h"

// Reads a message of the kind into *out_cell; data lie in |arena| or in |data|.
carnot_status* carnot_cell_read(carnot_value_kind kind, const void* data, size_t size,
                                carnot_arena* arena, carnot_rt_value* out_cell) CARNOT_MUST_USE;

// NULL when |found| equals |wanted|: same kind, type and shape, |difference| ≤ absolute +
// relative·|wanted|, NaN equal to NaN; else what differs first.
carnot_status* carnot_cell_compare(const carnot_rt_value* found, const carnot_rt_value* wanted,
                                   double relative, double absolute) CARNOT_MUST_USE;

#endif  // CARNOT_TESTS_CONFORMANCE_CELL_PROTO_H_
