// The loop nest of an element-wise step: the dimensions of the result in memory order, those that
// every operand walks as one joined. The last two run inside a kernel, the others and blocks of
// rows are parts.
#ifndef CARNOT_BACKEND_CPU_POINTWISE_NEST_H_
#define CARNOT_BACKEND_CPU_POINTWISE_NEST_H_

#include "backend/cpu/common/cpu.h"

typedef struct carnot_pw_nest {
  int rank, input_count;
  int64_t dims[CARNOT_MAX_RANK];
  int64_t in[CARNOT_PW_MAX_INPUTS][CARNOT_MAX_RANK];
  int64_t out[CARNOT_MAX_RANK];
  int64_t outer, rows, n, rows_per_part, parts_per_outer;
} carnot_pw_nest;

// A part: elements where operands begin, and rows [row0,row1) of |n| elements behind them.
typedef struct carnot_pw_block {
  int64_t in[CARNOT_PW_MAX_INPUTS], out, row0, row1, n;
} carnot_pw_block;

// |inputs| are |count| operands that broadcast to |out|; |cost| is what an element costs in
// instructions. INVALID_ARGUMENT where an operand does not fit, or has another stride than 0 and 1
// along the innermost dimension.
carnot_status* carnot_pw_nest_make(carnot_pw_nest* nest, int count,
                                   const carnot_operand* const* inputs, const carnot_operand* out,
                                   int64_t cost) CARNOT_MUST_USE;
static inline int64_t carnot_pw_nest_parts(const carnot_pw_nest* nest) {
  return nest->outer * nest->parts_per_outer;
}
void carnot_pw_nest_part(const carnot_pw_nest* nest, int64_t part, carnot_pw_block* out);
// Input |i| of a part, and its result, as kernels take them.
carnot_pw_operand carnot_pw_nest_in(const carnot_pw_nest* nest, const carnot_pw_block* block, int i,
                                    const carnot_operand* t);
carnot_pw_operand carnot_pw_nest_out(const carnot_pw_nest* nest, const carnot_pw_block* block,
                                     const carnot_operand* t);
// reject: channels last is chosen when a full-size operand has it and all others can be read in its
// order; sets the layouts of the problem.
void carnot_pw_choose_layout(carnot_problem* problem);

#endif  // CARNOT_BACKEND_CPU_POINTWISE_NEST_H_
