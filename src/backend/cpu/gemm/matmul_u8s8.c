// MatMulInteger with constant weights: packed once, accumulated in INT32. The zero point of the
// activations may be computed in the network.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/gemm/integer_weights.h"

enum { kA, kB, kAZero, kBZero };

static const carnot_operand_desc* given(const carnot_problem* p, uint32_t i) {
  return i < p->input_count && p->inputs[i].kind == CARNOT_VALUE_TENSOR ? &p->inputs[i] : NULL;
}
static bool is_one(const carnot_operand_desc* t) {
  if (t->rank < 0) return false;
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] != 1) return false;
  return true;
}

typedef struct matmul_params {
  int64_t k, n;
} matmul_params;

static const char* read_problem(const carnot_problem* problem, matmul_params* out, char* reason,
                                size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_MATMUL_INTEGER || problem->region->node_count != 1) return "";
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != CARNOT_PLAN_NONE && node->inputs[i] != i) return "operands repeat";
  const carnot_operand_desc *a = &problem->inputs[kA], *b = given(problem, kB);
  if (a->rank < 2 || !carnot_is_8bit(a->format.dtype))
    return "the activations are no matrices of 8 bits";
  const char* why = carnot_integer_weights_check(b, given(problem, kBZero));
  if (why) return why;
  const carnot_operand_desc* a_zero = given(problem, kAZero);
  if (a_zero && (!is_one(a_zero) || a_zero->format.dtype != a->format.dtype))
    return "the activations' zero is not one";
  *out = (matmul_params){.k = b->dims[0], .n = b->dims[1]};
  if (out->k < 1 || out->n < 1 || a->dims[a->rank - 1] != out->k)
    return carnot_because(reason, size, "rows of %lld meet %lld weights",
                          (long long)a->dims[a->rank - 1], (long long)out->k);
  return NULL;
}

static const char* matmul_reject(carnot_problem* problem, char* reason, size_t size) {
  matmul_params p;
  const char* why = read_problem(problem, &p, reason, size);
  if (!why && carnot_int8_uses_tiles(problem->tactic))
    why = carnot_int8_gemm_tiles_reject(&problem->inputs[kA], reason, size);
  if (!why)
    problem->inputs[0].format.layout = problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

static carnot_status* matmul_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void* params;
  char reason[256];
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(matmul_params), "parameters", &params));
  const char* why = read_problem(problem, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  CARNOT_TRY(carnot_integer_weights_prepare(problem->tactic, &problem->inputs[kB],
                                            given(problem, kBZero), out));
  out->params = params;
  out->param_bytes = sizeof(matmul_params);
  out->packed_inputs = 1u << kB;
  if (given(problem, kBZero)) out->packed_inputs |= 1u << kBZero;
  return NULL;
}

static carnot_status* matmul_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(matmul_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(matmul_params));
  const matmul_params* p = step->params;
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_CHECK(node->op == CARNOT_OP_MATMUL_INTEGER && step->region->node_count == 1, INVALID_MODEL,
               "the step holds no integer GEMM");
  return carnot_integer_weights_validate(step, p->k, p->n);
}

static bool matmul_uses_input(const carnot_step_view* step, uint32_t input) {
  (void)step;
  return input != kB && input != kBZero;
}

// Of the workspace; that of the kernels is behind it.
static size_t bias_bytes(const matmul_params* p) {
  return carnot_align_up((size_t)p->n * sizeof(int32_t), 64);
}

static int64_t count_of(const carnot_operand* t) { return carnot_dims_count(t->dims, t->rank); }

static carnot_status* matmul_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* memory,
                                       size_t* out_workspace_bytes) {
  const matmul_params* p = step->params;
  const carnot_operand *a = &inputs[0], *y = &outputs[0];
  CARNOT_CHECK(a->rank >= 2 && a->dims[a->rank - 1] == p->k && y->rank >= 1 &&
                   y->dims[y->rank - 1] == p->n && count_of(a) / p->k == count_of(y) / p->n,
               INVALID_ARGUMENT, "operands do not fit weights of %lld by %lld", (long long)p->k,
               (long long)p->n);
  CARNOT_CHECK(carnot_is_8bit(a->format.dtype), INVALID_MODEL, "the activations are %s",
               carnot_dtype_name(a->format.dtype));
  bool has_zero = step->input_count > kAZero && inputs[kAZero].format.dtype != CARNOT_DTYPE_INVALID;
  CARNOT_CHECK(!has_zero || (inputs[kAZero].format.dtype == a->format.dtype &&
                             count_of(&inputs[kAZero]) == 1),
               INVALID_MODEL, "the activations' zero is not one of their type");
  CARNOT_CHECK(y->format.dtype == CARNOT_DTYPE_I32, INVALID_MODEL, "the result is %s",
               carnot_dtype_name(y->format.dtype));
  carnot_work_partition* partition = memory;
  *partition = carnot_int8_gemm_partition(step, count_of(a) / p->k, p->n, p->k);
  *out_workspace_bytes = bias_bytes(p) + carnot_int8_gemm_workspace(step->tactic, partition, p->k);
  return NULL;
}

static carnot_status* matmul_run_all(const carnot_step_view* step, void* memory,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  const matmul_params* p = step->params;
  const carnot_operand *a = &inputs[0], *y = &outputs[0];
  bool is_signed = a->format.dtype == CARNOT_DTYPE_I8;
  bool has_zero = step->input_count > kAZero && inputs[kAZero].data;
  int64_t zero = has_zero ? carnot_load_i64(a->format.dtype, inputs[kAZero].data, 0) : 0;
  int32_t* bias = workspace;
  carnot_integer_weights_bias(step, p->n, zero, is_signed, bias);
  const carnot_work_partition* partition = memory;
  const carnot_gemm_u8s8 gemm = {.m = partition->m,
                                 .n = p->n,
                                 .k = p->k,
                                 .a = a->data,
                                 .lda = p->k,
                                 .a_signed = is_signed,
                                 .b = step->constants[CARNOT_INTEGER_WEIGHTS],
                                 .dst = y->data,
                                 .ld = p->n,
                                 .epilogue = {.bias = bias, .output = CARNOT_INT8_OUTPUT_S32}};
  carnot_int8_gemm_run(step, partition, &gemm, (char*)workspace + bias_bytes(p), executor);
  carnot_integer_weights_correct(step, &gemm, zero, executor);
  return NULL;
}

static void matmul_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  matmul_params p;
  char reason[256];
  *out_flops = *out_bytes = 0;
  if (read_problem(problem, &p, reason, sizeof(reason))) return;
  const carnot_operand_desc* a = &problem->inputs[0];
  double rows = (double)carnot_dims_count(a->dims, a->rank - 1);
  *out_flops = 2 * rows * (double)p.k * (double)p.n;
  *out_bytes = rows * (double)(p.k + p.n) + (double)p.k * (double)p.n;
}

#define MATMUL_TACTIC                                                                          \
  .anchor = CARNOT_OP_MATMUL_INTEGER, .reject = matmul_reject, .prepare = matmul_prepare,      \
  .validate = matmul_validate, .uses_input = matmul_uses_input, .configure = matmul_configure, \
  .run = matmul_run_all, .work = matmul_work
CARNOT_CPU_TACTICS(matmul_integer_u8s8, MATMUL_TACTIC);
CARNOT_CPU_TACTIC(matmul_integer_s8_tiles, amxbf16, AMX_BF16, .numerics = CARNOT_NUMERICS_EXACT,
                  .config = carnot_int8_tiles, MATMUL_TACTIC);
