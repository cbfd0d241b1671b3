// The first CUDA rows: convolution and matrix product in float32, plain kernels recorded into a
// stream.
//
// The row struct is the CPU's; what differs is where pointers point (device memory) and that the
// executor's place is taken by a carnot_cuda_queue.
#include "backend/cuda/rows.h"

#include <stdlib.h>

#include "backend/cpu/conv.h"

typedef struct device_epilogue {
  const float *bias, *residual;
  long long residual_ld;
  int activation;
  float a, b;
} device_epilogue;

typedef struct device_plane {
  long long n, h, w, c, p, q, k, r, s, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
} device_plane;

static const char* check_tail(const carnot_tail* tail) {
  if (tail->program.instruction_count) return "more follows than bias, residual and one activation";
  bool plain = tail->activation == CARNOT_ACTIVATION_NONE ||
               tail->activation == CARNOT_ACTIVATION_RELU ||
               tail->activation == CARNOT_ACTIVATION_CLIP;
  return plain ? NULL : "the activation has no device form yet";
}

static device_epilogue epilogue_of(const carnot_tail* tail, const carnot_operand* inputs,
                                   const float* bias) {
  carnot_epilogue_f32 host;
  carnot_tail_epilogue(tail, inputs, bias, &host);
  return (device_epilogue){host.bias, host.residual, host.residual_ld, (int)host.activation,
                           host.a,    host.b};
}

static carnot_status* launch(const carnot_cuda_queue* queue, const char* kernel,
                             const unsigned grid[2], const unsigned block[2], void** arguments) {
  CUfunction function;
  CARNOT_CUDA_TRY(queue->cuda, cuModuleGetFunction(&function, queue->cuda->module, kernel));
  CARNOT_CUDA_TRY(queue->cuda, cuLaunchKernel(function, grid[0], grid[1], 1, block[0], block[1], 1,
                                              0, queue->stream, arguments, NULL));
  return NULL;
}

// ---- convolution ----

static const char* describe(carnot_problem* problem, carnot_conv_params* p, char* reason,
                            size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_CONV || node->inputs[1] >= problem->input_count ||
      problem->inputs[node->inputs[1]].rank < 1)
    return "";
  float* bias =
      malloc((size_t)carnot_max_i64(1, problem->inputs[node->inputs[1]].dims[0]) * sizeof(float));
  if (!bias) return "no memory";
  const char* why = carnot_conv_describe(problem, p, bias, reason, size);
  free(bias);
  if (!why && p->group != 1)
    why = carnot_because(reason, size, "%lld groups, takes 1", (long long)p->group);
  return why ? why : check_tail(&p->tail);
}

static const char* conv_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_conv_params p;
  const char* why = describe(problem, &p, reason, size);
  if (why) return why;
  problem->inputs[0].layout = problem->outputs[0].layout = CARNOT_LAYOUT_CHANNELS_LAST;
  if (p.tail.residual >= 0) problem->inputs[p.tail.residual].layout = CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

// Weights as [r,s,c,k], dense.
static carnot_status* conv_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_operand_type* w = &problem->inputs[problem->region->nodes[0].inputs[1]];
  int64_t k = w->dims[0], c = w->dims[1], taps = carnot_dims_count(w->dims + 2, w->rank - 2);
  void *params, *bias, *packed;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(carnot_conv_params), "parameters", &params));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)k, sizeof(float), "a bias", &bias));
  CARNOT_TRY(
      carnot_arena_try(out->arena, (size_t)(k * c * taps), sizeof(float), "weights", &packed));
  char reason[256];
  const char* why = carnot_conv_describe(problem, params, bias, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  const float* from = w->tensor->data;
  for (int64_t f = 0; f < k; f++)
    for (int64_t ch = 0; ch < c; ch++)
      for (int64_t t = 0; t < taps; t++)
        ((float*)packed)[(t * c + ch) * k + f] = from[(f * c + ch) * taps + t];
  out->params = params;
  out->param_bytes = sizeof(carnot_conv_params);
  out->constant_count = 2;
  out->constants[0].packing = "rsck f32";
  out->constants[0].data = packed;
  out->constants[0].bytes = (size_t)(k * c * taps) * sizeof(float);
  out->constants[1].packing = "dense f32";
  out->constants[1].data = bias;
  out->constants[1].bytes = (size_t)k * sizeof(float);
  return NULL;
}

static carnot_status* conv_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  const carnot_conv_params* p = step->params;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_plane_make(&p->window, &inputs[0], &outputs[0], state));
  return carnot_tail_shapes(&p->tail, inputs, &outputs[0], p->filters);
}

static carnot_status* conv_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace;
  const carnot_plane* t = state;
  const carnot_conv_params* p = step->params;
  device_plane plane = {t->n,        t->h,          t->w,          t->c,     t->p,
                        t->q,        t->k,          t->r,          t->s,     t->stride_h,
                        t->stride_w, t->dilation_h, t->dilation_w, t->pad_h, t->pad_w};
  device_epilogue epilogue = epilogue_of(&p->tail, inputs, p->has_bias ? step->constants[1] : NULL);
  const void *x = inputs[0].data, *w = step->constants[0];
  void* y = outputs[0].data;
  void* arguments[] = {&plane, &x, &w, &y, &epilogue};
  int64_t blocks = carnot_ceildiv(t->n * t->p * t->q * t->k, 256);
  return launch((const carnot_cuda_queue*)executor, "conv2d_f32",
                (const unsigned[2]){(unsigned)blocks, 1}, (const unsigned[2]){256, 1}, arguments);
}

const carnot_tactic_row carnot_cuda_conv_f32 = {.name = "cuda_conv_f32_direct",
                                                .anchor = CARNOT_OP_CONV,
                                                .isa = CARNOT_ISA_SCALAR,
                                                .numerics = "exact",
                                                .reject = conv_reject,
                                                .prepare = conv_prepare,
                                                .shape = conv_shape,
                                                .run = conv_run};

// ---- matrix product with constant weights ----

typedef struct product_params {
  int64_t k, n;
  int32_t has_bias, trans_b;
  carnot_tail tail;
} product_params;

static const char* describe_product(const carnot_problem* problem, product_params* p, float* bias,
                                    char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  *p = (product_params){0};
  if (node->op != CARNOT_OP_MATMUL) return "";
  const carnot_operand_type *a = &problem->inputs[0], *b = &problem->inputs[1];
  const char* why = carnot_not_f32(a, "the left operand", 2, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  if (!carnot_is_f32_constant(b) || b->rank != 2)
    return "the right operand is no constant float32 matrix";
  p->k = b->dims[0];
  p->n = b->dims[1];
  bool has_bias = false;
  if (bias) memset(bias, 0, (size_t)p->n * sizeof(float));
  why = carnot_tail_make(problem, 1, bias, p->n, &has_bias, &p->tail, reason, size);
  p->has_bias = has_bias;
  return why ? why : check_tail(&p->tail);
}

static const char* gemm_reject(carnot_problem* problem, char* reason, size_t size) {
  product_params p;
  int64_t columns =
      problem->input_count > 1 && problem->inputs[1].rank == 2 ? problem->inputs[1].dims[1] : 1;
  float* bias = malloc((size_t)carnot_max_i64(1, columns) * sizeof(float));
  if (!bias) return "no memory";
  const char* why = describe_product(problem, &p, bias, reason, size);
  free(bias);
  return why;
}

static carnot_status* gemm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const carnot_operand_type* b = &problem->inputs[1];
  void *params, *bias;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(product_params), "parameters", &params));
  CARNOT_TRY(carnot_arena_try(out->arena, (size_t)b->dims[1], sizeof(float), "a bias", &bias));
  char reason[256];
  const char* why = describe_product(problem, params, bias, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = params;
  out->param_bytes = sizeof(product_params);
  out->constant_count = 2;
  out->constants[0].packing = "kn f32";
  out->constants[0].data = b->tensor->data;
  out->constants[0].bytes = carnot_tensor_bytes(b->tensor);
  out->constants[1].packing = "dense f32";
  out->constants[1].data = bias;
  out->constants[1].bytes = (size_t)b->dims[1] * sizeof(float);
  return NULL;
}

static carnot_status* gemm_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* state,
                                 size_t* out_workspace_bytes) {
  const product_params* p = step->params;
  *out_workspace_bytes = 0;
  int64_t* rows = state;
  *rows = carnot_dims_count(inputs[0].dims, inputs[0].rank - 1);
  CARNOT_CHECK(
      inputs[0].dims[inputs[0].rank - 1] == p->k && outputs[0].dims[outputs[0].rank - 1] == p->n,
      INVALID_ARGUMENT, "operands do not fit weights of [%lld,%lld]", (long long)p->k,
      (long long)p->n);
  return carnot_tail_shapes(&p->tail, inputs, &outputs[0], p->n);
}

static carnot_status* gemm_run(const carnot_step_view* step, void* state,
                               const carnot_operand* inputs, const carnot_operand* outputs,
                               void* workspace, carnot_executor* executor) {
  (void)workspace;
  const product_params* p = step->params;
  long long m = *(int64_t*)state, n = p->n, k = p->k;
  device_epilogue epilogue = epilogue_of(&p->tail, inputs, p->has_bias ? step->constants[1] : NULL);
  const void *a = inputs[0].data, *b = step->constants[0];
  void* c = outputs[0].data;
  void* arguments[] = {&m, &n, &k, &a, &b, &c, &epilogue};
  unsigned grid[2] = {(unsigned)carnot_ceildiv(n, 32), (unsigned)carnot_ceildiv(m, 32)};
  return launch((const carnot_cuda_queue*)executor, "gemm_f32", grid, (const unsigned[2]){32, 32},
                arguments);
}

const carnot_tactic_row carnot_cuda_gemm_f32 = {.name = "cuda_gemm_f32_32x32",
                                                .anchor = CARNOT_OP_MATMUL,
                                                .isa = CARNOT_ISA_SCALAR,
                                                .numerics = "exact",
                                                .reject = gemm_reject,
                                                .prepare = gemm_prepare,
                                                .shape = gemm_shape,
                                                .run = gemm_run};
