// MatMulInteger with constant weights of s8 around zero: packed once, accumulated in INT32. The
// zero point of the activations may be computed in the network.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/quantize/int8_region.h"
#include "kernel/cpu/gemm/gemm_u8s8.h"

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
  if (!b || !carnot_is_known(b) || b->format.dtype != CARNOT_DTYPE_I8 || b->rank != 2)
    return "the weights are no constant matrix of int8";
  const carnot_operand_desc* b_zero = given(problem, kBZero);
  if (b_zero) {
    if (!carnot_is_known(b_zero)) return "the weights' zero is not constant";
    for (int64_t i = 0; i < carnot_tensor_count(b_zero->tensor); i++)
      if (carnot_load_i64(b_zero->format.dtype, b_zero->tensor->data, (size_t)i) != 0)
        return "the weights' zero is not 0";
  }
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
  if (!why)
    problem->inputs[0].format.layout = problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

static carnot_status* matmul_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *params, *packed, *sums;
  char reason[256];
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(matmul_params), "parameters", &params));
  const char* why = read_problem(problem, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  const matmul_params* p = params;
  const int8_t* b = problem->inputs[kB].tensor->data;
  size_t bytes = (size_t)carnot_packed_k4n16_bytes(1, p->k, p->n);
  CARNOT_TRY(carnot_arena_try(out->arena, bytes + 64, 1, "packed weights", &packed));
  packed = (void*)carnot_align_up((uintptr_t)packed, 64);
  carnot_pack_k4n16_s8(1, p->k, p->n, b, 1, 0, p->n, packed);
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)p->n, sizeof(int32_t), "sums", &sums));
  for (int64_t n = 0; n < p->n; n++) {
    int32_t sum = 0;
    for (int64_t k = 0; k < p->k; k++) sum += b[k * p->n + n];
    ((int32_t*)sums)[n] = sum;
  }
  out->params = params;
  out->param_bytes = sizeof(matmul_params);
  out->constant_count = 2;
  out->constants[0].packing = "k4n16 s8";
  out->constants[0].data = packed;
  out->constants[0].bytes = bytes;
  out->constants[1].packing = "i32 column sums";
  out->constants[1].data = sums;
  out->constants[1].bytes = (size_t)p->n * sizeof(int32_t);
  out->packed_inputs = 1u << kB;
  return NULL;
}

static carnot_status* matmul_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(matmul_params) && step->constant_count == 2,
               INVALID_MODEL, "%u bytes of parameters and %u constants, must be %zu and 2",
               step->param_bytes, step->constant_count, sizeof(matmul_params));
  const matmul_params* p = step->params;
  const carnot_plan_node* node = &step->region->nodes[0];
  CARNOT_CHECK(node->op == CARNOT_OP_MATMUL_INTEGER && step->region->node_count == 1, INVALID_MODEL,
               "the step holds no integer GEMM");
  CARNOT_CHECK(p->k >= 1 && p->n >= 1 && p->k < 1 << 28 && p->n < 1 << 28, INVALID_MODEL,
               "weights of %lld by %lld", (long long)p->k, (long long)p->n);
  CARNOT_CHECK(step->constant_bytes[0] == (size_t)carnot_packed_k4n16_bytes(1, p->k, p->n) &&
                   step->constant_bytes[1] == (size_t)p->n * sizeof(int32_t),
               INVALID_MODEL, "the packed weights have %zu bytes, their sums %zu",
               step->constant_bytes[0], step->constant_bytes[1]);
  return NULL;
}

static bool matmul_uses_input(const carnot_step_view* step, uint32_t input) {
  (void)step;
  return input != kB;
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
  *(carnot_work_partition*)memory =
      carnot_work_partition_make(step->tactic->isa, count_of(a) / p->k, p->n, p->k);
  *out_workspace_bytes = (size_t)p->n * sizeof(int32_t);
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
  const int32_t* sums = step->constants[1];
  int32_t* bias = workspace;
  for (int64_t n = 0; n < p->n; n++)
    bias[n] = (int32_t)(uint32_t)(-(zero + (is_signed ? 128 : 0)) * (int64_t)sums[n]);
  const carnot_work_partition* partition = memory;
  const carnot_gemm_u8s8 gemm = {.m = partition->m,
                                 .n = p->n,
                                 .k = p->k,
                                 .a = a->data,
                                 .lda = p->k,
                                 .a_signed = is_signed,
                                 .b = step->constants[0],
                                 .dst = y->data,
                                 .ld = p->n,
                                 .epilogue = {.bias = bias, .output = CARNOT_INT8_OUTPUT_S32}};
  carnot_int8_gemm_run(step, partition, &gemm, executor);
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

CARNOT_CPU_TACTICS(matmul_integer_u8s8, .anchor = CARNOT_OP_MATMUL_INTEGER, .reject = matmul_reject,
                   .prepare = matmul_prepare, .validate = matmul_validate,
                   .uses_input = matmul_uses_input, .configure = matmul_configure,
                   .run = matmul_run_all, .work = matmul_work);
