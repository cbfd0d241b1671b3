// A step that oneDNN computes: its parts, their primitives, and the packed weights.
//
// A step is cut into parts by its problem alone, never by the number of threads, and each part is a
// primitive made for one thread. No part splits a sum, so that any number of threads gives the same
// bits. Activations, and residuals of another type than the result, follow over the part's rows by
// Carnot's own kernels.
#ifndef CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_STEP_H_
#define CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_STEP_H_

#include "backend/cpu/common/epilogue.h"
#include "backend/cpu/onednn/onednn_shape.h"

enum { CARNOT_ONEDNN_MAX_PARTS = 8 };

typedef struct carnot_onednn_part {
  carnot_onednn_shape shape;
  int64_t column;  // which of the packed weights it reads; 0 where all read the same
  int64_t src_at;  // its first element of src
  int64_t m0, n0;  // the first row (pixel) and column of the result
} carnot_onednn_part;

typedef struct carnot_onednn_parts {
  int64_t count, columns, ld;  // |ld|: elements from row to row of the result
  // Primitives write to the workspace, because rows of a part lie apart in the result or because
  // what follows them is computed in float32; then the part is stored.
  int64_t is_staged;
  // Sizes of src are open: the layout of the weights is chosen for others than these.
  int64_t is_open;
  carnot_onednn_part items[CARNOT_ONEDNN_MAX_PARTS];
} carnot_onednn_parts;

// What follows the sums of a step, and how its result is stored.
typedef struct carnot_onednn_result {
  const carnot_epilogue_plan* plan;  // borrowed
  carnot_dtype dtype, residual;      // |residual| INVALID: none
} carnot_onednn_result;

// Constant float32 weights as the network has them.
typedef struct carnot_onednn_weights {
  const float* data;
  int64_t row_stride, column_stride;  // of a GEMM, in elements
} carnot_onednn_weights;

// Rows of the part's result: pixels of a convolution.
static inline int64_t carnot_onednn_part_rows(const carnot_onednn_part* part) {
  const carnot_onednn_shape* s = &part->shape;
  return s->is_matmul ? s->n : s->n * s->p * s->q;
}

// How many parts pay for |flops| operations in |dtype|: up to CARNOT_ONEDNN_MAX_PARTS.
int64_t carnot_onednn_part_count(double flops, carnot_dtype dtype);
// Decides whether parts are staged and what the primitives of |whole| write. |apart|: rows of a
// part lie apart in the result.
void carnot_onednn_settle(const carnot_onednn_result* result, bool apart,
                          carnot_onednn_shape* whole, carnot_onednn_parts* out);
// Fills |out|, which is zeroed but for is_open, with the parts of a GEMM |whole|, as
// large as the step's.
void carnot_onednn_cut_matmul(const carnot_onednn_shape* whole, const carnot_onednn_result* result,
                              carnot_onednn_parts* out);

// reject: why no tactic of oneDNN takes |problem|, whose primitives read |src|: the library, the
// machine, sizes that are not known. NULL: one may.
const char* carnot_onednn_reject_problem(const carnot_problem* problem,
                                         const carnot_operand_desc* src, char* reason, size_t size);
// Whether sizes of |problem| differ between runs, and the same of a prepared step.
bool carnot_onednn_is_open(const carnot_problem* problem);
bool carnot_onednn_step_is_open(const carnot_step_view* step);
// Why no tactic takes the epilogue, and why none takes the parts.
const char* carnot_onednn_reject_epilogue(const carnot_problem* problem,
                                          const carnot_epilogue_plan* plan);
const char* carnot_onednn_reject_parts(const carnot_onednn_parts* parts, char* reason, size_t size);
// Whether the library has primitives for all parts. UNSUPPORTED says which it lacks.
carnot_status* carnot_onednn_try_parts(const carnot_onednn_parts* parts) CARNOT_MUST_USE;
// prepare: packs the weights as constant 0, with the library's version and their layout.
carnot_status* carnot_onednn_prepare(const carnot_onednn_parts* parts,
                                     const carnot_onednn_weights* weights,
                                     carnot_prepared* out) CARNOT_MUST_USE;
// validate: the library is there in the version that packed constant 0. NOT_FOUND,
// VERSION_MISMATCH.
carnot_status* carnot_onednn_validate(const carnot_step_view* step) CARNOT_MUST_USE;
// The functions of tactics by their names: the instance holds the primitives.
carnot_status* carnot_onednn_step_open(const carnot_step_view* step, void** out_instance);
void carnot_onednn_step_close(void* instance);
// configure: makes the primitives of |parts| and checks the packed weights against them.
carnot_status* carnot_onednn_configure(const carnot_step_view* step,
                                       const carnot_onednn_parts* parts,
                                       const carnot_onednn_result* result,
                                       size_t* out_workspace_bytes) CARNOT_MUST_USE;
// run: |src| is the operand of the primitives; |bias| is NULL for none.
carnot_status* carnot_onednn_run(const carnot_step_view* step, const carnot_epilogue_plan* plan,
                                 const carnot_operand* src, const float* bias,
                                 const carnot_operand* inputs, const carnot_operand* outputs,
                                 void* workspace, carnot_executor* executor) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_STEP_H_
