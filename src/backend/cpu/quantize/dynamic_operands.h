// What GEMMs and convolutions share whose activations the run quantizes: the operands around the
// integer kernel (tactic/problem/dynamic_gemm.h), in the form that engines store.
#ifndef CARNOT_BACKEND_CPU_QUANTIZE_DYNAMIC_OPERANDS_H_
#define CARNOT_BACKEND_CPU_QUANTIZE_DYNAMIC_OPERANDS_H_

#include "backend/cpu/quantize/int8_kernel.h"
#include "tactic/problem/dynamic_gemm.h"

// Stored in engines. Inputs of the step; -1: none.
typedef struct carnot_dynamic_operands {
  int32_t quantizes, x, x_scale, x_zero, w_scale, bias, has_relu;
} carnot_dynamic_operands;

// Reads the operands and checks the types of x and its zero point. NULL, or the reason.
const char* carnot_dynamic_operands_read(const carnot_problem* problem,
                                         const carnot_dynamic_gemm* view,
                                         carnot_dynamic_operands* out, char* reason, size_t size);
// validate: inputs exist. INVALID_MODEL.
carnot_status* carnot_dynamic_operands_validate(const carnot_dynamic_operands* o,
                                                const carnot_step_view* step) CARNOT_MUST_USE;
bool carnot_dynamic_operands_uses(const carnot_dynamic_operands* o, uint32_t input);

// Parts of the workspace, in bytes from its start.
typedef struct carnot_dynamic_places {
  int64_t count;  // elements of x
  size_t scale, bytes, ranges, end;
} carnot_dynamic_places;

// configure: checks types and sizes of all operands, of |columns| columns or output channels, and
// lays out the workspace up to |end|, a multiple of 64.
carnot_status* carnot_dynamic_operands_configure(const carnot_dynamic_operands* o,
                                                 const carnot_operand* inputs,
                                                 const carnot_operand* y, int64_t columns,
                                                 carnot_dynamic_places* out) CARNOT_MUST_USE;

// The activations of a run as bytes, and what the kernel does with its sums; bias is the caller's.
typedef struct carnot_dynamic_activations {
  const void* x;
  bool is_signed;
  int64_t zero;
  carnot_int8_epilogue epilogue;
} carnot_dynamic_activations;

// run: quantizes the activations where the step does, and makes the scales.
carnot_dynamic_activations carnot_dynamic_operands_run(const carnot_dynamic_operands* o,
                                                       const carnot_dynamic_places* places,
                                                       const carnot_step_view* step,
                                                       const carnot_operand* inputs,
                                                       int64_t columns, void* workspace,
                                                       carnot_executor* executor);

#endif  // CARNOT_BACKEND_CPU_QUANTIZE_DYNAMIC_OPERANDS_H_
