// What the GEMM tactics over packed weights of 2, 4 and 8 bits share: with float32 activations
// (gemm_dequant.c) and with activations that the step rounds to 8 bits (gemm_dequant_s8.c).
#ifndef CARNOT_BACKEND_CPU_GEMM_GEMM_DEQUANT_H_
#define CARNOT_BACKEND_CPU_GEMM_GEMM_DEQUANT_H_

#include "backend/cpu/gemm/gemm.h"

// Constants of a prepared step; zero points only where they differ.
enum { CARNOT_DEQUANT_WEIGHTS, CARNOT_DEQUANT_SCALES, CARNOT_DEQUANT_BIAS, CARNOT_DEQUANT_ZEROS };

// Stored in engines.
typedef struct carnot_cpu_dequant_params {
  carnot_cpu_gemm_params gemm;
  int64_t block;
  int32_t a;  // input of the step
  int32_t bits, has_zeros, zero;
} carnot_cpu_dequant_params;

static inline carnot_dequant_shape carnot_cpu_dequant_shape(const carnot_cpu_dequant_params* p) {
  return (carnot_dequant_shape){p->gemm.k, p->gemm.n, p->block, p->bits};
}

// The functions of the tactics; all but configure and run are the same.
const char* carnot_cpu_dequant_reject(carnot_problem* problem, char* reason, size_t size);
carnot_status* carnot_cpu_dequant_prepare(const carnot_problem* problem,
                                          carnot_prepared* out) CARNOT_MUST_USE;
carnot_status* carnot_cpu_dequant_validate(const carnot_step_view* step) CARNOT_MUST_USE;
bool carnot_cpu_dequant_uses_input(const carnot_step_view* step, uint32_t input);
void carnot_cpu_dequant_work(const carnot_problem* problem, double* out_flops, double* out_bytes);

// The kernel call of a run; borrows constants and operands. |workspace| is the caller's to set.
carnot_gemm_dequant_f32 carnot_cpu_dequant_call(const carnot_cpu_gemm_run* run);

#endif  // CARNOT_BACKEND_CPU_GEMM_GEMM_DEQUANT_H_
