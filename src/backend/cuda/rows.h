// What the rows of the CUDA module share.
#ifndef CARNOT_BACKEND_CUDA_ROWS_H_
#define CARNOT_BACKEND_CUDA_ROWS_H_

#include "backend/cuda/cuda.h"
#include "kernel/cuda/params.h"

// All rows, fastest first within an operator.
const carnot_tactic* const* carnot_cuda_rows(size_t* out_count);

// reject: writes the reason and returns it.
const char* carnot_cuda_because(char* reason, size_t size, const char* format, ...)
    CARNOT_PRINTF(3, 4);
// The type's name in device code ("f32", "bf16"); NULL where it has none.
const char* carnot_cuda_type(carnot_dtype dtype);
static inline bool carnot_cuda_is_float(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F32 || dtype == CARNOT_DTYPE_F16 || dtype == CARNOT_DTYPE_BF16;
}
// Plain kernels compute in float64 as well.
static inline bool carnot_cuda_is_real(carnot_dtype dtype) {
  return carnot_cuda_is_float(dtype) || dtype == CARNOT_DTYPE_F64;
}
// NULL when |t| is a tensor of float32, float16 or bfloat16; or of float64 besides.
const char* carnot_cuda_not_float(const carnot_operand_desc* t, char* reason, size_t size);
const char* carnot_cuda_not_real(const carnot_operand_desc* t, char* reason, size_t size);
// The region is |op| alone.
static inline bool carnot_cuda_is_single(const carnot_problem* problem, carnot_op op) {
  return problem->region->node_count == 1 && problem->region->nodes[0].op == op;
}
static inline bool carnot_cuda_is_fn(const carnot_plan_node* node, carnot_fn fn) {
  return (node->op == CARNOT_OP_UNARY || node->op == CARNOT_OP_BINARY) &&
         carnot_attr_int(carnot_op_get(node->op), &node->attrs, "fn") == (int64_t)fn;
}
static inline bool carnot_cuda_is_half(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F16 || dtype == CARNOT_DTYPE_BF16;
}
// An activation that kernels take in registers; NONE when |node| is no such function.
typedef struct carnot_cuda_epilogue {
  carnot_cuda_activation kind;
  float low, high;
} carnot_cuda_epilogue;
carnot_cuda_epilogue carnot_cuda_epilogue_of(const carnot_plan_node* node);
// Inputs from |first| on decide sizes only: the row reads them on the host, when shapes are set.
static inline void carnot_cuda_keep_on_host(carnot_problem* problem, uint32_t first) {
  for (uint32_t i = first; i < problem->input_count; i++) {
    problem->inputs[i].format.memory = CARNOT_MEMORY_HOST;
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  }
}
static inline void carnot_cuda_want_row_major(carnot_problem* problem) {
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < problem->output_count; i++)
    problem->outputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
}
// An operand of the device at the sizes that the build is for, nowhere yet.
carnot_operand carnot_cuda_operand_of(const carnot_operand_desc* t, carnot_layout layout);
// The integers of a small host operand; *out_count -1 when it is absent.
carnot_status* carnot_cuda_ints(const carnot_operand* operand, int64_t* out, int capacity,
                                int* out_count) CARNOT_MUST_USE;
// Every operand that a kernel touches lies on the device.
carnot_status* carnot_cuda_on_device(const carnot_operand* operands,
                                     uint32_t count) CARNOT_MUST_USE;
// Dense, channels innermost, at 16 bytes; of three or more dimensions.
bool carnot_cuda_is_channels_last(const carnot_operand* t);
static inline int carnot_cuda_bytes(const carnot_operand* t) {
  return carnot_dtype_bits(t->format.dtype) / 8;
}

// ---- strided copies (copy.c) ----

typedef struct carnot_cuda_move {
  CUfunction function;
  carnot_cuda_copy params;  // without pointers
  int64_t grid[3];
  int64_t src_offset, dst_offset;  // in bytes
} carnot_cuda_move;
// y[i·dst] = x[src_offset + i·src]; offsets and strides in elements of |bytes|. Finds the cheapest
// kernel: wide elements where both sides allow, tiles for a transpose.
carnot_status* carnot_cuda_move_make(const carnot_step_view* step, int rank, const int64_t* dims,
                                     const int64_t* src, int64_t src_offset, const int64_t* dst,
                                     int64_t dst_offset, int bytes,
                                     carnot_cuda_move* out) CARNOT_MUST_USE;
carnot_status* carnot_cuda_move_run(const carnot_step_view* step, carnot_cuda_move* move,
                                    const void* x, void* y) CARNOT_MUST_USE;
// What rows that move elements ask and name alike: why an element of |t| is no whole byte or its
// rank is not known; operands of one type on the device; "<family>_<bytes>"; an operand that may be
// absent.
const char* carnot_cuda_whole_bytes(const carnot_operand_desc* t, char* reason, size_t size);
carnot_status* carnot_cuda_check_move(const carnot_operand* x,
                                      const carnot_operand* y) CARNOT_MUST_USE;
const char* carnot_cuda_sized_name(const char* family, int bytes, char* name, size_t size);

// ---- generated programs (pointwise.c) ----

enum { CARNOT_CUDA_CHAIN_INPUTS = 10, CARNOT_CUDA_CHAIN_OUTPUTS = 2, CARNOT_CUDA_CHAIN_RANK = 8 };

// Pointwise nodes of a region from |first| on. |acc|: the local that an anchor before them gave and
// which stands in the output already; NONE without an anchor.
typedef struct carnot_cuda_chain {
  uint32_t first, acc;
  uint32_t bias;  // an input of one number a channel (axis 1) that is added to acc first; NONE
  uint32_t input_count, output_count;
  uint32_t inputs[CARNOT_CUDA_CHAIN_INPUTS];  // locals: inputs of the step, or acc
  uint32_t outputs[CARNOT_CUDA_CHAIN_OUTPUTS];
} carnot_cuda_chain;

// NULL, or why device code cannot take these nodes. Needs the region alone.
const char* carnot_cuda_chain_make(const carnot_region* region, uint32_t step_inputs,
                                   uint32_t first, uint32_t acc, carnot_cuda_chain* out,
                                   char* reason, size_t size);
static inline bool carnot_cuda_chain_is_empty(const carnot_region* region,
                                              const carnot_cuda_chain* chain) {
  return chain->first >= region->node_count && chain->bias == CARNOT_PLAN_NONE;
}
// Adds |bias| (and acc) to what the program reads; false when there is no room.
bool carnot_cuda_chain_add_bias(carnot_cuda_chain* chain, uint32_t bias);
// The machine code as a constant of the step. |acc_dtype|: of acc.
carnot_status* carnot_cuda_chain_prepare(const carnot_problem* problem,
                                         const carnot_cuda_chain* chain, carnot_dtype acc_dtype,
                                         carnot_prepared* out) CARNOT_MUST_USE;

typedef struct carnot_cuda_chain_state {
  CUfunction function;
  int64_t blocks;
  bool any;                                   // the program for any strides
  uint8_t operand[CARNOT_CUDA_CHAIN_INPUTS];  // of the step; 255: the output, as it stands
  uint8_t input_count, output_count;
  struct carnot_cuda_chain_params {
    const void* x[CARNOT_CUDA_CHAIN_INPUTS];
    void* y[CARNOT_CUDA_CHAIN_OUTPUTS];
    long long count;
    long long dims[CARNOT_CUDA_CHAIN_RANK];
    long long src[CARNOT_CUDA_CHAIN_INPUTS][CARNOT_CUDA_CHAIN_RANK];
    long long dst[CARNOT_CUDA_CHAIN_RANK];
    int rank;
    // Of flat programs: 0 dense, 1 one element, 2 i / inner % size, 3 i / inner * size + i % size.
    int kind[CARNOT_CUDA_CHAIN_INPUTS];
    int inner[CARNOT_CUDA_CHAIN_INPUTS], size[CARNOT_CUDA_CHAIN_INPUTS];
    int last;  // of programs for any strides: elements of the axis behind |rank| that a thread
               // walks
  } params;
} carnot_cuda_chain_state;
carnot_status* carnot_cuda_chain_shape(const carnot_step_view* step, const carnot_cuda_chain* chain,
                                       const carnot_operand* inputs, const carnot_operand* outputs,
                                       carnot_cuda_chain_state* out) CARNOT_MUST_USE;
carnot_status* carnot_cuda_chain_run(const carnot_step_view* step, carnot_cuda_chain_state* state,
                                     const carnot_operand* inputs,
                                     const carnot_operand* outputs) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_ROWS_H_
