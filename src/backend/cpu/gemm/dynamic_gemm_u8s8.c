// GEMM by constant 8-bit weights, zero points in the middle of their type, of activations that the
// run quantizes: range, quantization, sums in INT32, scale, bias, residual, activation and the
// quantization of the result in one step.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/gemm/integer_weights.h"
#include "backend/cpu/quantize/dynamic_operands.h"

// Stored in engines.
typedef struct dynamic_params {
  int64_t k, n;
  carnot_dynamic_operands operands;
} dynamic_params;

static const carnot_operand_desc* weights_zero(const carnot_problem* problem,
                                               const carnot_dynamic_gemm* view) {
  const bool has_zero =
      view->w_zero != CARNOT_PLAN_NONE && problem->inputs[view->w_zero].kind == CARNOT_VALUE_TENSOR;
  return has_zero ? &problem->inputs[view->w_zero] : NULL;
}

static const char* read_problem(const carnot_problem* problem, carnot_dynamic_gemm* view,
                                dynamic_params* out, char* reason, size_t size) {
  const char* why = carnot_dynamic_gemm_read(problem, CARNOT_OP_MATMUL_INTEGER, view);
  if (why) return why;
  const carnot_operand_desc *x = &problem->inputs[view->x], *b = &problem->inputs[view->weights];
  const carnot_operand_desc* zero = weights_zero(problem, view);
  why = carnot_integer_weights_check(b, zero);
  if (why) return why;
  if (!carnot_integer_weights_are_centered(b, zero))
    return "the weights' zero point is not the middle of their type";
  *out = (dynamic_params){.k = b->dims[0], .n = b->dims[1]};
  why =
      carnot_dynamic_operands_read(problem, view, /*channel_axis=*/1, &out->operands, reason, size);
  if (why) return why;
  if (out->k < 1 || out->n < 1 || x->dims[x->rank - 1] != out->k)
    return carnot_because(reason, size, "rows of %lld meet %lld weights",
                          (long long)x->dims[x->rank - 1], (long long)out->k);
  return NULL;
}

static const char* dynamic_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_dynamic_gemm view;
  dynamic_params p;
  const char* why = read_problem(problem, &view, &p, reason, size);
  if (!why && carnot_int8_uses_tiles(problem->tactic))
    why = carnot_int8_gemm_tiles_reject(&problem->inputs[view.x], reason, size);
  if (!why) carnot_dynamic_operands_set_layouts(problem, &view, CARNOT_LAYOUT_ROW_MAJOR);
  return why;
}

static carnot_status* dynamic_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void* params;
  char reason[256];
  carnot_dynamic_gemm view;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(dynamic_params), "parameters", &params));
  const char* why = read_problem(problem, &view, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  CARNOT_TRY(carnot_integer_weights_prepare(problem->tactic, &problem->inputs[view.weights],
                                            weights_zero(problem, &view), out));
  out->params = params;
  out->param_bytes = sizeof(dynamic_params);
  out->packed_inputs = (uint64_t)1 << view.weights;
  if (view.w_zero != CARNOT_PLAN_NONE) out->packed_inputs |= (uint64_t)1 << view.w_zero;
  return NULL;
}

static carnot_status* dynamic_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(dynamic_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(dynamic_params));
  const dynamic_params* p = step->params;
  CARNOT_TRY(carnot_dynamic_operands_validate(&p->operands, step));
  return carnot_integer_weights_validate(step, p->k, p->n);
}

static bool dynamic_uses_input(const carnot_step_view* step, uint32_t input) {
  return carnot_dynamic_operands_uses(&((const dynamic_params*)step->params)->operands, input);
}

typedef struct dynamic_state {
  carnot_work_partition partition;
  carnot_dynamic_offsets offsets;
  size_t tiles;  // of the workspace, behind the bias: bytes from its start
} dynamic_state;

static carnot_status* dynamic_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* memory,
                                        size_t* out_workspace_bytes) {
  const dynamic_params* p = step->params;
  dynamic_state* s = memory;
  const carnot_operand *x = &inputs[p->operands.x], *y = &outputs[0];
  const int64_t rows = carnot_dims_count(x->dims, x->rank) / p->k;
  CARNOT_CHECK(x->rank >= 2 && y->rank >= 1 && x->dims[x->rank - 1] == p->k &&
                   y->dims[y->rank - 1] == p->n &&
                   rows == carnot_dims_count(y->dims, y->rank) / p->n && carnot_cpu_is_dense(x),
               INVALID_ARGUMENT, "operands do not fit weights of %lld by %lld", (long long)p->k,
               (long long)p->n);
  s->partition = carnot_int8_gemm_partition(step, rows, p->n, p->k);
  CARNOT_TRY(carnot_dynamic_operands_configure(&p->operands, inputs, outputs, p->n,
                                               carnot_work_partition_count(&s->partition),
                                               &s->offsets));
  s->tiles = s->offsets.end + carnot_align_up((size_t)p->n * sizeof(int32_t), 64);
  *out_workspace_bytes = s->tiles + carnot_int8_gemm_workspace(step->tactic, &s->partition, p->k);
  return NULL;
}

static carnot_status* dynamic_run_all(const carnot_step_view* step, void* memory,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  const dynamic_params* p = step->params;
  const dynamic_state* s = memory;
  int32_t* bias = (void*)((char*)workspace + s->offsets.end);
  const carnot_dynamic_run run = {.operands = &p->operands,
                                  .offsets = &s->offsets,
                                  .kernels = carnot_cpu_kernels_of(step->tactic->isa),
                                  .inputs = inputs,
                                  .outputs = outputs,
                                  .workspace = workspace,
                                  .executor = executor};
  carnot_dynamic_activations a = carnot_dynamic_operands_begin(&run);
  carnot_integer_weights_bias(step, p->n, a.zero, a.is_signed, bias);
  a.epilogue.bias = bias;
  const carnot_gemm_u8s8 gemm = {.m = s->partition.m,
                                 .n = p->n,
                                 .k = p->k,
                                 .a = a.x,
                                 .lda = p->k,
                                 .a_signed = a.is_signed,
                                 .b = step->constants[CARNOT_INTEGER_WEIGHTS],
                                 .dst = a.y,
                                 .ld = s->offsets.y_ld,
                                 .epilogue = a.epilogue};
  carnot_int8_gemm_run(step, &s->partition, &gemm, (char*)workspace + s->tiles, executor);
  carnot_dynamic_operands_end(&run);
  return NULL;
}

static void dynamic_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_dynamic_gemm view;
  dynamic_params p;
  char reason[256];
  *out_flops = *out_bytes = 0;
  if (read_problem(problem, &view, &p, reason, sizeof(reason))) return;
  const carnot_operand_desc* x = &problem->inputs[view.x];
  const double rows = (double)carnot_dims_count(x->dims, x->rank - 1);
  *out_flops = 2 * rows * (double)p.k * (double)p.n;
  const int y_bytes = 4 * (view.writes_y + (p.operands.residual >= 0)) + view.quantizes_y;
  *out_bytes = rows * ((view.quantizes ? 4 : 1) * (double)p.k + y_bytes * (double)p.n) +
               (double)p.k * (double)p.n;
}

#define DYNAMIC_TACTIC                                                                            \
  .anchor = CARNOT_OP_MATMUL_INTEGER, .reject = dynamic_reject, .prepare = dynamic_prepare,       \
  .validate = dynamic_validate, .uses_input = dynamic_uses_input, .configure = dynamic_configure, \
  .run = dynamic_run_all, .work = dynamic_work
CARNOT_CPU_TACTICS(dynamic_gemm_u8s8, DYNAMIC_TACTIC);
CARNOT_CPU_TACTIC(dynamic_gemm_s8_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_EXACT,
                  .config = carnot_int8_tiles, DYNAMIC_TACTIC);
