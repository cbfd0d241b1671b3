// What the tactics that copy elements share. The copy itself is carnot_cpu_copy (cpu.h).
#ifndef CARNOT_BACKEND_CPU_COPY_STRIDED_COPY_H_
#define CARNOT_BACKEND_CPU_COPY_STRIDED_COPY_H_

#include "backend/cpu/common/cpu.h"

// Bytes of an element of |t|, a type of whole bytes.
static inline int carnot_cpu_bytes(const carnot_operand* t) {
  return carnot_dtype_bits(t->format.dtype) / 8;
}

// reject: NULL when the region is |op| alone, else "". Inputs that decide sizes may be absent, or
// one value.
static inline const char* carnot_cpu_alone(const carnot_problem* problem, carnot_op op) {
  return problem->region->node_count == 1 && problem->region->nodes[0].op == op ? NULL : "";
}

// INVALID_ARGUMENT unless both operands have one type and one rank.
carnot_status* carnot_cpu_check_types(const carnot_operand* a,
                                      const carnot_operand* b) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_COPY_STRIDED_COPY_H_
