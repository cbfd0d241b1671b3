// What the CPU's rows share.
#ifndef CARNOT_BACKEND_CPU_COMMON_CPU_H_
#define CARNOT_BACKEND_CPU_COMMON_CPU_H_

#include <stdio.h>

#include "kernel/cpu/common/kernels.h"
#include "kernel/cpu/gemm/pack_f32.h"
#include "kernel/cpu/pointwise/pointwise.h"
#include "tactic/tactic.h"

// Bodies whose arguments are constant in each of few calls.
#define CARNOT_CPU_INLINE static inline __attribute__((always_inline))

// The kernels for |isa|, never NULL: every level holds those below.
const carnot_cpu_kernels* carnot_cpu_kernels_of(carnot_isa isa);

// reject: writes the reason and returns it.
const char* carnot_because(char* reason, size_t size, const char* format, ...) CARNOT_PRINTF(3, 4);

// The operand is a float32 tensor of known rank in [low, high]; else the reason.
const char* carnot_not_f32(const carnot_operand_desc* type, const char* what, int low, int high,
                           char* reason, size_t size);
static inline bool carnot_is_8bit(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_U8 || dtype == CARNOT_DTYPE_I8;
}
// A constant of float32 with its data at hand.
bool carnot_is_f32_constant(const carnot_operand_desc* type);

// reject: the region is one node of |op| whose operands are the step's inputs in order. NULL, or
// why not.
const char* carnot_cpu_single(const carnot_problem* problem, carnot_op op);
// check: the same, with |input_count| operands and one result.
carnot_status* carnot_cpu_check_single(const carnot_step_view* step, carnot_op op,
                                       uint32_t input_count) CARNOT_MUST_USE;
// Row-major, with nothing between its elements.
bool carnot_cpu_is_dense(const carnot_operand* t);

// Operands of one type, one shape and no gaps.
carnot_status* carnot_cpu_check_alike(const carnot_operand* x,
                                      const carnot_operand* y) CARNOT_MUST_USE;

// Indices that are data, of 32 or 64 bits.
static inline bool carnot_cpu_is_index(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_I64 || dtype == CARNOT_DTYPE_I32;
}
static inline int64_t carnot_cpu_index_at(const carnot_operand* index, int64_t i) {
  return index->format.dtype == CARNOT_DTYPE_I64 ? ((const int64_t*)index->data)[i]
                                                 : ((const int32_t*)index->data)[i];
}

// A grid of [m, n] cut into parts, by the problem alone: enough for eight threads and none too
// small. Columns are cut at multiples of 64, rows at multiples of 42 (the row tiles of all levels
// divide it), for AMX of 32.
typedef struct carnot_grid {
  int64_t m, n, m_part, n_part, m_count, n_count;
} carnot_grid;
carnot_grid carnot_grid_cut(carnot_isa isa, int64_t m, int64_t n, int64_t k);
static inline int64_t carnot_grid_count(const carnot_grid* grid) {
  return grid->m_count * grid->n_count;
}
static inline void carnot_grid_part(const carnot_grid* grid, int64_t part, int64_t* m0, int64_t* m1,
                                    int64_t* n0, int64_t* n1) {
  *m0 = part % grid->m_count * grid->m_part;
  *n0 = part / grid->m_count * grid->n_part;
  *m1 = carnot_min_i64(*m0 + grid->m_part, grid->m);
  *n1 = carnot_min_i64(*n0 + grid->n_part, grid->n);
}

// Rows cut into parts of about |row_cost| · rows ≥ 16K elements.
int64_t carnot_rows_per_part(int64_t rows, int64_t row_elements);

// ---- tail: the pointwise operators behind an anchor ----

enum { CARNOT_TAIL_MAX_OPERANDS = CARNOT_PW_MAX_INPUTS - 1 };

typedef enum carnot_tail_shape {
  CARNOT_TAIL_FULL,
  CARNOT_TAIL_CHANNEL,
  CARNOT_TAIL_SCALAR
} carnot_tail_shape;

// Plain data, stored in the engine. First act(acc + bias + residual) in registers, then a program
// over the tile.
typedef struct carnot_tail {
  int32_t channel_axis;  // of the output, from the end
  int32_t residual;      // input of the step, -1: none
  int32_t activation;    // carnot_activation
  float a, b;
  int32_t operand_count;
  struct {
    int32_t input;  // of the step
    int32_t shape;  // carnot_tail_shape
  } operands[CARNOT_TAIL_MAX_OPERANDS];
  carnot_pw_program program;  // input 0 is the tile; instruction_count 0: none
} carnot_tail;

// Reads the nodes behind node 0 of the region. |bias| [channels] is added to where constants are
// added per channel; *out_has_bias tells whether it holds something (set it before when the anchor
// has a bias). |channel_axis|: the axis of the output that a channel vector runs along, from the
// end (1 is the last). NULL, or why the tail cannot be taken.
const char* carnot_tail_make(const carnot_problem* problem, int channel_axis, float* bias,
                             int64_t channels, bool* out_has_bias, carnot_tail* out, char* reason,
                             size_t size);
// Everything in it is in range for a step of |input_count| inputs.
carnot_status* carnot_tail_check(const carnot_tail* tail, uint32_t input_count) CARNOT_MUST_USE;
// The tail takes elements of this input.
bool carnot_tail_reads(const carnot_tail* tail, uint32_t input);
// The inputs of the tail have the output's dimensions and layout, or |channels| elements, or one.
carnot_status* carnot_tail_shapes(const carnot_tail* tail, const carnot_operand* inputs,
                                  const carnot_operand* output, int64_t channels) CARNOT_MUST_USE;
void carnot_tail_epilogue(const carnot_tail* tail, const carnot_operand* inputs, const float* bias,
                          carnot_epilogue_f32* out);
// Runs the program on rows [m0, m1) and columns [n0, n1) of |data|, rows |ld| apart.
void carnot_tail_run(const carnot_cpu_kernels* kernels, const carnot_tail* tail,
                     const carnot_operand* inputs, float* data, int64_t ld, int64_t m0, int64_t m1,
                     int64_t n0, int64_t n1);

// Copies |dims| elements from |src| to |dst| with these strides, in elements (strided_copy.c);
// those of |src| may be 0 or negative.
void carnot_cpu_copy(const carnot_step_view* step, carnot_executor* executor, int rank,
                     const int64_t* dims, int element_bytes, const void* src,
                     const int64_t* src_strides, void* dst, const int64_t* dst_strides);

// Elements of one, two, four or eight bytes that are copied as they are.
static inline bool carnot_cpu_is_whole(carnot_dtype dtype) {
  int bits = dtype == CARNOT_DTYPE_STRING ? 0 : carnot_dtype_bits(dtype);
  return bits == 8 || bits == 16 || bits == 32 || bits == 64;
}
// Why elements of |type| are not copied as whole bytes, or that its rank is not known; NULL: they
// are.
const char* carnot_cpu_whole_bytes(const carnot_operand_desc* type, char* reason, size_t size);

#endif  // CARNOT_BACKEND_CPU_COMMON_CPU_H_
