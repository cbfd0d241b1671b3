// GEMM of float32 activations by weights of 2, 4 or 8 bits by AMX tiles: activations are split in
// BF16 parts once for all columns. A few rows go through the kernel that reads the weights once.
#include "kernel/cpu/gemm/gemm_dequant_tiles.h"
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/gemm/gemm_dequant.h"
#include "tactic/problem/weight_only.h"

enum { kLeastBlock = 16 };

static const char* tiles_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_dequant_reject(problem, reason, size);
  if (why) return why;
  carnot_weight_only_problem view;
  why = carnot_weight_only_read(problem, &view, reason, size);
  if (why) return why;
  if (view.block < kLeastBlock && view.block < view.k)
    return carnot_because(reason, size, "blocks of %lld, takes %d and more", (long long)view.block,
                          kLeastBlock);
  return NULL;
}

static bool is_few(int64_t m) { return m <= CARNOT_DEQUANT_FEW_ROWS; }

// Parts of all rows, then a byte a group, then the workspace of the GEMM's parts.
static carnot_dequant_parts parts_in(const carnot_cpu_dequant_params* p, int64_t m, void* workspace,
                                     size_t* out_bytes) {
  const carnot_dequant_shape shape = carnot_cpu_dequant_shape(p);
  const int64_t groups = carnot_ceildiv(m, CARNOT_DEQUANT_GROUP_ROWS);
  const size_t parts = (size_t)(groups * carnot_dequant_group_bytes(&shape));
  *out_bytes = parts + carnot_align_up((size_t)groups, 64);
  if (!workspace) return (carnot_dequant_parts){NULL, NULL};
  return (carnot_dequant_parts){workspace, (uint8_t*)workspace + parts};
}

static carnot_status* tiles_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* memory,
                                      size_t* out_workspace_bytes) {
  carnot_cpu_gemm_state* state = memory;
  const carnot_cpu_dequant_params* p = step->params;
  const carnot_dequant_shape shape = carnot_cpu_dequant_shape(p);
  CARNOT_TRY(carnot_cpu_gemm_configure_rows(step, &p->gemm, &inputs[p->a], &outputs[0], state));
  *out_workspace_bytes = 0;
  if (!is_few(state->m)) {
    state->partition = carnot_work_partition_make_tall(step->threads, state->m, p->gemm.n,
                                                       p->gemm.k, CARNOT_DEQUANT_GROUP_ROWS);
    parts_in(p, state->m, NULL, out_workspace_bytes);
    *out_workspace_bytes += (size_t)(carnot_dequant_tiles_workspace(&shape) *
                                     carnot_work_partition_count(&state->partition)) *
                            sizeof(float);
  } else {
    state->partition = carnot_work_partition_make(CARNOT_ISA_AVX512, step->threads, state->m,
                                                  p->gemm.n, p->gemm.k);
  }
  return carnot_epilogue_plan_check(step, &p->gemm.epilogue_plan, inputs, &outputs[0], p->gemm.n);
}

typedef struct tiles_run {
  carnot_cpu_gemm_run run;  // its workspace is that of the GEMM's parts
  carnot_dequant_parts parts;
} tiles_run;

static void split_part(void* argument, int64_t part) {
  const tiles_run* r = argument;
  const carnot_gemm_dequant_f32 call = carnot_cpu_dequant_call(&r->run);
  r->run.kernels->split_rows_bf16(&call, part, part + 1, &r->parts);
}

static void gemm_part(void* argument, int64_t part) {
  const tiles_run* r = argument;
  const carnot_cpu_dequant_params* p = r->run.step->params;
  carnot_gemm_dequant_f32 call = carnot_cpu_dequant_call(&r->run);
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&r->run.state->partition, part, &m0, &m1, &n0, &n1);
  if (is_few(r->run.state->m)) {
    r->run.kernels->gemm_dequant_f32(&call, m0, m1, n0, n1);
  } else {
    call.workspace = r->run.workspace +
                     carnot_executor_scratch(part) * carnot_dequant_tiles_workspace(&call.shape);
    r->run.kernels->gemm_dequant_tiles(&call, &r->parts, m0, m1, n0, n1);
  }
  carnot_epilogue_plan_run(r->run.kernels, &p->gemm.epilogue_plan, r->run.inputs, call.gemm.c,
                           p->gemm.n, m0, m1, n0, n1);
}

static carnot_status* tiles_run_all(const carnot_step_view* step, void* memory,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) {
  const carnot_cpu_dequant_params* p = step->params;
  const carnot_cpu_gemm_state* state = memory;
  size_t bytes;
  tiles_run r = {.run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                         .step = step,
                         .params = &p->gemm,
                         .state = state,
                         .inputs = inputs,
                         .outputs = outputs},
                 .parts = parts_in(p, state->m, workspace, &bytes)};
  if (!is_few(state->m)) {
    r.run.workspace = (float*)(void*)((char*)workspace + bytes);
    carnot_executor_parallel(executor, carnot_ceildiv(state->m, CARNOT_DEQUANT_GROUP_ROWS),
                             split_part, &r);
  }
  carnot_executor_parallel(executor, carnot_work_partition_count(&state->partition), gemm_part, &r);
  return NULL;
}

CARNOT_CPU_TACTIC(gemm_dequant_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_EXACT,
                  .anchor = CARNOT_OP_DEQUANTIZE_LINEAR, .reject = tiles_reject,
                  .prepare = carnot_cpu_dequant_prepare, .validate = carnot_cpu_dequant_validate,
                  .uses_input = carnot_cpu_dequant_uses_input, .configure = tiles_configure,
                  .run = tiles_run_all, .work = carnot_cpu_dequant_work);
