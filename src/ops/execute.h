// Running one operator on concrete values: infer on plain integers, then its reference kernel. The
// interpreter, constant folding and the runtime's reference rows all go this way.
#ifndef CARNOT_OPS_EXECUTE_H_
#define CARNOT_OPS_EXECUTE_H_

#include "ir/op.h"

// Memory that infer needs on the way; kept between calls. One thread at a time.
typedef struct carnot_infer_scratch {
  carnot_arena arena;
  carnot_syms syms;
} carnot_infer_scratch;

void carnot_infer_scratch_init(carnot_infer_scratch* scratch);
void carnot_infer_scratch_deinit(carnot_infer_scratch* scratch);

// The surroundings of a call of infer on concrete values: types of a body for concrete inputs
// (regions); may be NULL.
typedef struct carnot_infer_host {
  carnot_status* (*infer_block)(struct carnot_infer* infer, const carnot_attr* body,
                                int input_count, const carnot_infer_input* inputs, int output_count,
                                carnot_infer_output* outputs);
  void* host;
} carnot_infer_host;

// Sets kind, type and dimensions of each output (NULL: nobody reads it) from those of the inputs,
// and from their elements where an input has data. What stays open: kind UNKNOWN, or rank -1 with
// data NULL for the kernel to size. Data pointers of outputs are set to NULL.
carnot_status* carnot_infer_values(carnot_infer_scratch* scratch, const carnot_op_row* row,
                                   const carnot_attrs* attrs, const carnot_infer_host* around,
                                   int input_count, const carnot_rt_value* const* inputs,
                                   int output_count,
                                   carnot_rt_value* const* outputs) CARNOT_MUST_USE;

// True when the cell is a tensor of known dimensions.
bool carnot_rt_value_is_sized(const carnot_rt_value* cell);

// infer, room for the outputs it could size (from the host's store), and the reference kernel.
carnot_status* carnot_execute(carnot_infer_scratch* scratch, const carnot_op_row* row,
                              const carnot_attrs* attrs, const carnot_call_host* host,
                              int input_count, const carnot_rt_value* const* inputs,
                              int output_count, carnot_rt_value* const* outputs) CARNOT_MUST_USE;

// Before each operator of a run: operators that draw must not draw the same numbers, nor iterations
// of a loop.
static inline void carnot_host_next_draw(carnot_call_host* host, const carnot_op_row* row) {
  if (row->flags & CARNOT_OP_RANDOM) host->seed += UINT64_C(0x9E3779B97F4A7C15);
}

#endif  // CARNOT_OPS_EXECUTE_H_
