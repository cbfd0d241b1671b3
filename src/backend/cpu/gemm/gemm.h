// What the float32 GEMM tactics share: those with packed weights (gemm.c) and those of two
// activations (matmul.c).
#ifndef CARNOT_BACKEND_CPU_GEMM_GEMM_H_
#define CARNOT_BACKEND_CPU_GEMM_GEMM_H_

#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/epilogue.h"
#include "backend/cpu/common/packed_weights.h"
#include "tactic/problem/gemm.h"

// Plain data, stored in the engine.
typedef struct carnot_cpu_gemm_params {
  int64_t k, n;
  float alpha;  // of a GEMM of two activations; packed weights are multiplied by it already
  int32_t has_bias;
  int32_t trans_a, trans_b;
  int32_t weights;  // carnot_dtype of the packed ones
  carnot_epilogue_plan epilogue_plan;
} carnot_cpu_gemm_params;

// Set by configure. With packed weights only partition, m and batch, which is 1.
typedef struct carnot_cpu_gemm_state {
  carnot_work_partition partition;
  int64_t batch, m, n, k;
  int64_t lda, b_rs, b_cs;  // strides of A's rows, and of B's rows and columns
  int64_t batch_dims[CARNOT_MAX_RANK], a_batch[CARNOT_MAX_RANK], b_batch[CARNOT_MAX_RANK];
  int batch_rank;
} carnot_cpu_gemm_state;

// The argument of a part.
typedef struct carnot_cpu_gemm_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const carnot_cpu_gemm_params* params;
  const carnot_cpu_gemm_state* state;
  const carnot_operand *inputs, *outputs;
  float* workspace;
} carnot_cpu_gemm_run;

// Asks for row-major operands and results.
void carnot_cpu_gemm_want_row_major(carnot_problem* problem);
// C of a Gemm as a vector over |n| columns, times beta -> |bias|. NULL, or why it is none.
const char* carnot_cpu_gemm_take_c(const carnot_problem* problem, const carnot_gemm_problem* gemm,
                                   int64_t n, float* bias);
// Reads a GEMM over float32 with constant weights. NULL, or why the problem is none.
const char* carnot_cpu_gemm_read_params(const carnot_problem* problem, carnot_cpu_gemm_params* out,
                                        char* reason, size_t size);
// prepare: stores the parameters in |out| and the bias as constant 1; the tactic packs the weights
// as constant 0.
carnot_status* carnot_cpu_gemm_prepare_params(const carnot_problem* problem, carnot_prepared* out,
                                              carnot_cpu_gemm_params** out_params) CARNOT_MUST_USE;
// Of tactics in BF16: whether the sum with a residual would be rounded. What layers add to a
// residual may be far smaller than the residual, as in transformers with outlier channels: the
// residual and the sum stay float32. |a|: the input that is multiplied.
bool carnot_cpu_gemm_rounds_residual(const carnot_problem* problem, uint32_t a);
// validate: parameters, operands and epilogue of a step with |constants| packed constants.
carnot_status* carnot_cpu_gemm_validate(const carnot_step_view* step,
                                        uint32_t constants) CARNOT_MUST_USE;
// configure: m, batch and partition of rows |a| by packed weights of [k,n]. INVALID_ARGUMENT.
carnot_status* carnot_cpu_gemm_configure_rows(const carnot_step_view* step,
                                              const carnot_cpu_gemm_params* p,
                                              const carnot_operand* a, const carnot_operand* y,
                                              carnot_cpu_gemm_state* state) CARNOT_MUST_USE;
// run: calls |part| with a carnot_cpu_gemm_run for every part of every matrix of the batch.
carnot_status* carnot_cpu_gemm_run_parts(const carnot_step_view* step,
                                         const carnot_cpu_gemm_state* state,
                                         const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* workspace,
                                         carnot_executor* executor,
                                         void (*part)(void* run, int64_t part)) CARNOT_MUST_USE;
// The functions of tactics with packed weights, of their names.
const char* carnot_cpu_gemm_reject(carnot_problem* problem, char* reason, size_t size);
carnot_status* carnot_cpu_gemm_prepare(const carnot_problem* problem,
                                       carnot_prepared* out) CARNOT_MUST_USE;
carnot_status* carnot_cpu_gemm_validate_packed(const carnot_step_view* step) CARNOT_MUST_USE;
bool carnot_cpu_gemm_uses_input(const carnot_step_view* step, uint32_t input);
carnot_status* carnot_cpu_gemm_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* memory,
                                         size_t* out_workspace_bytes) CARNOT_MUST_USE;
// Operations, and bytes moved with |b_bytes| bytes per element of B.
void carnot_cpu_gemm_work(const carnot_problem* problem, int b_bytes, double* out_flops,
                          double* out_bytes);

#endif  // CARNOT_BACKEND_CPU_GEMM_GEMM_H_
