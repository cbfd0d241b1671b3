// Rows of bytes or BF16 around kernels that compute rows of float32: blocks of rows are converted
// into a buffer in L1, computed there, and converted out of it.
#ifndef CARNOT_BACKEND_CPU_QUANTIZE_ROW_ENDS_H_
#define CARNOT_BACKEND_CPU_QUANTIZE_ROW_ENDS_H_

#include "backend/cpu/common/cpu.h"
#include "kernel/cpu/pointwise/convert.h"
#include "tactic/problem/quantized_ends.h"

// Operand and result of a run: |rows| dense rows of |n| elements each.
typedef struct carnot_row_ends {
  const carnot_cpu_kernels* kernels;
  const void* x;
  void* y;
  float* kept;  // the result in float32 where y is bytes; NULL: nobody reads it
  int64_t n;
  bool x_is_bytes, y_is_bytes, x_is_bf16, y_is_bf16;  // none: float32
  carnot_quantize from, to;                           // of bytes
} carnot_row_ends;

// Computes |rows| rows of float32 from |src| to |dst|, which may be |src|.
typedef void carnot_rows_fn(const void* user, const float* src, float* dst, int64_t rows);

// configure: checks that ends in bytes have one scale and zero point of their type and that the
// others are float32, or BF16 where the tactic takes it. INVALID_MODEL, INVALID_ARGUMENT.
carnot_status* carnot_row_ends_check(const carnot_step_view* step,
                                     const carnot_quantized_ends* ends,
                                     const carnot_operand* inputs,
                                     const carnot_operand* outputs) CARNOT_MUST_USE;
// Floats of the buffer of a part: 0 where both ends are float32.
int64_t carnot_row_ends_buffer(const carnot_quantized_ends* ends, const carnot_operand* inputs,
                               const carnot_operand* outputs, int64_t n);
// run: the ends of rows of |n| elements. Borrows the operands.
carnot_row_ends carnot_row_ends_make(const carnot_cpu_kernels* kernels,
                                     const carnot_quantized_ends* ends,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     int64_t n);
// run: rows [first,last) by |compute|, with |buffer| of carnot_row_ends_buffer floats.
void carnot_row_ends_run(const carnot_row_ends* ends, int64_t first, int64_t last, float* buffer,
                         carnot_rows_fn* compute, const void* user);

#endif  // CARNOT_BACKEND_CPU_QUANTIZE_ROW_ENDS_H_
