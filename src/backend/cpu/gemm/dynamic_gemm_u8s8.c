// GEMM by constant int8 weights of activations that the run quantizes: range, quantization, sums in
// INT32, scale and bias in one step.
#include "tactic/problem/dynamic_gemm.h"

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/gemm/integer_weights.h"
#include "backend/cpu/quantize/dynamic_quantize.h"
#include "backend/cpu/quantize/int8_region.h"

// Stored in engines. Inputs of the step; -1: none.
typedef struct dynamic_params {
  int64_t k, n;
  int32_t quantizes, x, x_scale, x_zero, w_scale, bias;
} dynamic_params;

static const carnot_operand_desc* given(const carnot_problem* problem, uint32_t input) {
  return input == CARNOT_PLAN_NONE || problem->inputs[input].kind != CARNOT_VALUE_TENSOR
             ? NULL
             : &problem->inputs[input];
}

static int32_t index_of(const carnot_problem* problem, uint32_t input) {
  return given(problem, input) ? (int32_t)input : -1;
}

static const char* read_problem(const carnot_problem* problem, carnot_dynamic_gemm* view,
                                dynamic_params* out, char* reason, size_t size) {
  const char* why = carnot_dynamic_gemm_read(problem, view);
  if (why) return why;
  const carnot_operand_desc *x = &problem->inputs[view->x], *b = &problem->inputs[view->weights],
                            *zero = given(problem, view->x_zero);
  why = carnot_integer_weights_check(b, given(problem, view->w_zero));
  if (!why && view->quantizes)
    why = carnot_not_f32(x, "the operand", 2, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  if (!view->quantizes && (x->rank < 2 || !carnot_is_8bit(x->format.dtype)))
    return "the operand is no matrix of 8 bits";
  if (zero && (zero->rank != 0 || zero->format.dtype != x->format.dtype))
    return "the operand's zero point is not one number of its type";
  *out = (dynamic_params){.k = b->dims[0],
                          .n = b->dims[1],
                          .quantizes = view->quantizes,
                          .x = (int32_t)view->x,
                          .x_scale = index_of(problem, view->x_scale),
                          .x_zero = index_of(problem, view->x_zero),
                          .w_scale = (int32_t)view->w_scale,
                          .bias = index_of(problem, view->bias)};
  if (out->k < 1 || out->n < 1 || x->dims[x->rank - 1] != out->k)
    return carnot_because(reason, size, "rows of %lld meet %lld weights",
                          (long long)x->dims[x->rank - 1], (long long)out->k);
  return NULL;
}

static const char* dynamic_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_dynamic_gemm view;
  dynamic_params p;
  const char* why = read_problem(problem, &view, &p, reason, size);
  if (!why)
    problem->inputs[p.x].format.layout = problem->outputs[0].format.layout =
        CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

static carnot_status* dynamic_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void* params;
  char reason[256];
  carnot_dynamic_gemm view;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(dynamic_params), "parameters", &params));
  const char* why = read_problem(problem, &view, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  CARNOT_TRY(carnot_integer_weights_prepare(&problem->inputs[view.weights], out));
  out->params = params;
  out->param_bytes = sizeof(dynamic_params);
  out->packed_inputs = (uint64_t)1 << view.weights;
  if (given(problem, view.w_zero)) out->packed_inputs |= (uint64_t)1 << view.w_zero;
  return NULL;
}

static carnot_status* dynamic_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(dynamic_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(dynamic_params));
  const dynamic_params* p = step->params;
  const int64_t inputs = step->input_count;
  CARNOT_CHECK(p->x >= 0 && p->x < inputs && p->w_scale >= 0 && p->w_scale < inputs &&
                   p->x_scale >= (p->quantizes ? -1 : 0) && p->x_scale < inputs &&
                   p->x_zero >= -1 && p->x_zero < inputs && p->bias >= -1 && p->bias < inputs &&
                   step->output_count == 1,
               INVALID_MODEL, "operands %d, %d, %d, %d and %d of %u inputs", p->x, p->x_scale,
               p->x_zero, p->w_scale, p->bias, step->input_count);
  return carnot_integer_weights_validate(step, p->k, p->n);
}

static bool dynamic_uses_input(const carnot_step_view* step, uint32_t input) {
  const dynamic_params* p = step->params;
  const int64_t i = input;
  return i == p->x || i == p->x_scale || i == p->x_zero || i == p->w_scale || i == p->bias;
}

static int64_t count_of(const carnot_operand* t) { return carnot_dims_count(t->dims, t->rank); }

static carnot_status* check_row(const carnot_operand* t, const char* what, int64_t columns) {
  const int64_t count = count_of(t);
  CARNOT_CHECK(t->format.dtype == CARNOT_DTYPE_F32 && carnot_cpu_is_dense(t) &&
                   (count == columns || count == 1),
               INVALID_MODEL, "%s: %lld numbers of %s, must be %lld of float32", what,
               (long long)count, carnot_dtype_name(t->format.dtype), (long long)columns);
  return NULL;
}

// Parts of the workspace, in bytes from its start.
typedef struct dynamic_state {
  carnot_work_partition partition;
  int64_t count;  // elements of x
  size_t bias, scale, bytes, ranges;
} dynamic_state;

static carnot_status* dynamic_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* memory,
                                        size_t* out_workspace_bytes) {
  const dynamic_params* p = step->params;
  dynamic_state* s = memory;
  const carnot_operand *x = &inputs[p->x], *y = &outputs[0];
  const carnot_dtype type = x->format.dtype;
  CARNOT_CHECK(p->quantizes ? type == CARNOT_DTYPE_F32 : carnot_is_8bit(type), INVALID_MODEL,
               "the operand is %s", carnot_dtype_name(type));
  CARNOT_CHECK(y->format.dtype == CARNOT_DTYPE_F32 && x->rank >= 2 && y->rank >= 1 &&
                   x->dims[x->rank - 1] == p->k && y->dims[y->rank - 1] == p->n &&
                   count_of(x) / p->k == count_of(y) / p->n && carnot_cpu_is_dense(x) &&
                   carnot_cpu_is_dense(y),
               INVALID_ARGUMENT, "operands do not fit weights of %lld by %lld", (long long)p->k,
               (long long)p->n);
  CARNOT_TRY(check_row(&inputs[p->w_scale], "the weights' scales", p->n));
  if (p->bias >= 0) {
    CARNOT_TRY(check_row(&inputs[p->bias], "the bias", p->n));
    CARNOT_CHECK(count_of(&inputs[p->bias]) == p->n, INVALID_MODEL, "a bias of one number");
  }
  if (!p->quantizes) CARNOT_TRY(check_row(&inputs[p->x_scale], "the operand's scale", 1));
  if (p->x_zero >= 0)
    CARNOT_CHECK(inputs[p->x_zero].format.dtype == type && count_of(&inputs[p->x_zero]) == 1,
                 INVALID_MODEL, "the operand's zero point is not one of its type");
  *s = (dynamic_state){.count = count_of(x), .bias = 0};
  s->partition = carnot_int8_gemm_partition(step, s->count / p->k, p->n, p->k);
  s->scale = carnot_align_up((size_t)p->n * sizeof(int32_t), 64);
  s->bytes = s->scale + carnot_align_up((size_t)p->n * sizeof(float), 64);
  s->ranges = s->bytes + (p->quantizes ? carnot_align_up((size_t)s->count, 64) : 0);
  *out_workspace_bytes =
      s->ranges + (p->quantizes ? carnot_dynamic_quantize_workspace(s->count) : 0);
  return NULL;
}

static carnot_status* dynamic_run_all(const carnot_step_view* step, void* memory,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  const dynamic_params* p = step->params;
  const dynamic_state* s = memory;
  const carnot_operand* x = &inputs[p->x];
  char* memory_of_run = workspace;
  int32_t* bias = (void*)(memory_of_run + s->bias);
  float *scales = (void*)(memory_of_run + s->scale), x_scale;
  const void* a = x->data;
  bool is_signed = x->format.dtype == CARNOT_DTYPE_I8;
  int64_t zero = 0;
  if (p->quantizes) {
    uint8_t found;
    a = memory_of_run + s->bytes;
    carnot_dynamic_quantize(carnot_cpu_kernels_of(step->tactic->isa), x->data, s->count,
                            memory_of_run + s->ranges, executor, (uint8_t*)memory_of_run + s->bytes,
                            &x_scale, &found);
    zero = found;
  } else {
    x_scale = *(const float*)inputs[p->x_scale].data;
    if (p->x_zero >= 0) zero = carnot_load_i64(x->format.dtype, inputs[p->x_zero].data, 0);
  }
  const carnot_operand* w_scale = &inputs[p->w_scale];
  const int64_t each = count_of(w_scale) > 1;
  for (int64_t n = 0; n < p->n; n++) scales[n] = x_scale * ((const float*)w_scale->data)[each * n];
  carnot_integer_weights_bias(step, p->n, zero, is_signed, bias);
  // The bias in float32 is a residual of one row.
  const carnot_gemm_u8s8 gemm = {
      .m = s->partition.m,
      .n = p->n,
      .k = p->k,
      .a = a,
      .lda = p->k,
      .a_signed = is_signed,
      .b = step->constants[CARNOT_INTEGER_WEIGHTS],
      .dst = outputs[0].data,
      .ld = p->n,
      .epilogue = {
          .bias = bias,
          .scale = scales,
          .residual_type = p->bias < 0 ? CARNOT_INT8_RESIDUAL_NONE : CARNOT_INT8_RESIDUAL_F32,
          .residual = p->bias < 0 ? NULL : inputs[p->bias].data,
          .residual_ld = 0,
          .output = CARNOT_INT8_OUTPUT_F32}};
  carnot_int8_gemm_run(step, &s->partition, &gemm, /*workspace=*/NULL, executor);
  return NULL;
}

static void dynamic_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_dynamic_gemm view;
  dynamic_params p;
  char reason[256];
  *out_flops = *out_bytes = 0;
  if (read_problem(problem, &view, &p, reason, sizeof(reason))) return;
  const carnot_operand_desc* x = &problem->inputs[p.x];
  const double rows = (double)carnot_dims_count(x->dims, x->rank - 1);
  *out_flops = 2 * rows * (double)p.k * (double)p.n;
  *out_bytes =
      rows * ((p.quantizes ? 4 : 1) * (double)p.k + 4 * (double)p.n) + (double)p.k * (double)p.n;
}

CARNOT_CPU_TACTICS(dynamic_gemm_u8s8, .anchor = CARNOT_OP_MATMUL_INTEGER, .reject = dynamic_reject,
                   .prepare = dynamic_prepare, .validate = dynamic_validate,
                   .uses_input = dynamic_uses_input, .configure = dynamic_configure,
                   .run = dynamic_run_all, .work = dynamic_work);
