// What GEMMs and convolutions share whose activations the run quantizes: the operands around the
// integer kernel (tactic/problem/dynamic_gemm.h), in the form that engines store.
#ifndef CARNOT_BACKEND_CPU_QUANTIZE_DYNAMIC_OPERANDS_H_
#define CARNOT_BACKEND_CPU_QUANTIZE_DYNAMIC_OPERANDS_H_

#include "backend/cpu/quantize/int8_kernel.h"
#include "tactic/problem/dynamic_gemm.h"

// Stored in engines. Inputs of the step; -1: none.
typedef struct carnot_dynamic_operands {
  int32_t quantizes, x, x_scale, x_zero, w_scale, bias, residual;
  int32_t channel_axis;  // of the result, from the end
  int32_t activation;    // carnot_kernel_activation
  float a, b;
  int32_t writes_y, quantizes_y;  // as in carnot_dynamic_gemm
} carnot_dynamic_operands;

// Reads the operands and checks the types of x and its zero point, and the activation.
// |channel_axis| of the result, from the end. NULL, or the reason.
const char* carnot_dynamic_operands_read(const carnot_problem* problem,
                                         const carnot_dynamic_gemm* view, int channel_axis,
                                         carnot_dynamic_operands* out, char* reason, size_t size);
// reject: sets the layouts that the step wants.
void carnot_dynamic_operands_set_layouts(const carnot_problem* problem,
                                         const carnot_dynamic_gemm* view, carnot_layout layout);
// validate: inputs exist. INVALID_MODEL.
carnot_status* carnot_dynamic_operands_validate(const carnot_dynamic_operands* o,
                                                const carnot_step_view* step) CARNOT_MUST_USE;
bool carnot_dynamic_operands_uses(const carnot_dynamic_operands* o, uint32_t input);

// Parts of the workspace, in bytes from its start, and the result as rows of columns.
typedef struct carnot_dynamic_offsets {
  int64_t count;  // elements of x
  int64_t rows, columns, y_ld, q_ld;
  int64_t parts;  // each with a range of its own
  size_t scale, bytes, ranges, y, y_ranges, end;
} carnot_dynamic_offsets;

// configure: checks types and sizes of all operands, of |columns| columns or output channels, and
// lays out the workspace up to |end|, a multiple of 64. |parts|: calls of the kernel.
carnot_status* carnot_dynamic_operands_configure(const carnot_dynamic_operands* o,
                                                 const carnot_operand* inputs,
                                                 const carnot_operand* outputs, int64_t columns,
                                                 int64_t parts,
                                                 carnot_dynamic_offsets* out) CARNOT_MUST_USE;

// What the operands of a run are made of.
typedef struct carnot_dynamic_run {
  const carnot_dynamic_operands* operands;
  const carnot_dynamic_offsets* offsets;
  const carnot_cpu_kernels* kernels;
  const carnot_operand *inputs, *outputs;
  char* workspace;
  carnot_executor* executor;
} carnot_dynamic_run;

// The activations of a run as bytes, where the result goes, and what the kernel does with its sums;
// bias is the caller's. Part i of the kernel's calls calls carnot_int8_part_range.
typedef struct carnot_dynamic_activations {
  const void* x;
  bool is_signed;
  int64_t zero;
  float* y;
  carnot_int8_epilogue epilogue;
} carnot_dynamic_activations;

// run: quantizes the activations where the step does, and makes the scales.
carnot_dynamic_activations carnot_dynamic_operands_begin(const carnot_dynamic_run* run);
// run, behind the kernel: quantizes the result where the step does.
void carnot_dynamic_operands_end(const carnot_dynamic_run* run);

#endif  // CARNOT_BACKEND_CPU_QUANTIZE_DYNAMIC_OPERANDS_H_
