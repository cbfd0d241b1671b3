// GEMM of floats by weights of 2, 4 or 8 bits, which stay packed (tactic/problem/weight_only.h):
// few rows, at the rate of the memory. One tactic per width of a block; the builder times them.
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/gemm/gemm_weight_only_params.h"
#include "tactic/problem/weight_only.h"

enum { kMaxColumns = 1 << 24, kOneBlock = 30 };
enum { WEIGHTS, SCALES, BIAS, ZEROS };  // constants; ZEROS may be missing

typedef struct weight_only_config {
  int columns, slices;            // of a block
  int64_t least_rows, most_rows;  // that it is offered for
} weight_only_config;

// Stored in engines.
typedef struct weight_only_params {
  int64_t n, k;
  int32_t bits;  // of packed weights: 4 or 8
  int32_t shift, zero, has_zeros, has_half_scales;
  int32_t x, residual;  // inputs of the step; residual -1: none
  int32_t activation;   // carnot_cuda_activation
  float low, high, alpha;
} weight_only_params;

typedef struct weight_only_state {
  CUfunction function;
  carnot_cuda_weight_only_params params;
  int64_t grid[3];
  size_t shared_bytes;
} weight_only_state;
_Static_assert(sizeof(weight_only_state) <= CARNOT_STATE_BYTES, "the state has its size");

static int64_t steps_of_tile(const weight_only_params* p) { return p->bits == 4 ? 4 : 2; }
static int64_t tiles_of(const weight_only_params* p) {
  return carnot_ceildiv(p->k, steps_of_tile(p) * 16);
}
static int64_t blocks_of(const weight_only_params* p) {
  return ((tiles_of(p) * steps_of_tile(p) - 1) >> p->shift) + 1;
}
static int64_t column_groups_of(const weight_only_params* p) { return carnot_ceildiv(p->n, 16); }
static size_t weight_bytes(const weight_only_params* p) {
  return (size_t)(column_groups_of(p) * tiles_of(p) * CARNOT_CUDA_WEIGHT_ONLY_TILE);
}
// Scales and zero points.
static size_t scale_count(const weight_only_params* p) {
  return (size_t)(column_groups_of(p) * blocks_of(p) * 16);
}
// Scales of a tile (CARNOT_CUDA_WEIGHT_ONLY_FORMS).
static int groups_of(const weight_only_params* p) {
  return p->bits == 8 ? 2 : p->shift >= 2 ? 1 : 4;
}

// ---- build ----

// Adds the constant input |input|, one number or one a column, times |factor| to |bias|, if any.
static const char* add_bias(const carnot_problem* problem, uint32_t input, int64_t n, float factor,
                            float* bias) {
  const carnot_operand_desc* c = &problem->inputs[input];
  if (!carnot_is_known(c) || !carnot_cuda_is_float(c->format.dtype)) return "C is not constant";
  const int64_t count = carnot_dims_count(c->dims, c->rank);
  const bool is_vector = count == n && c->rank >= 1 && c->dims[c->rank - 1] == n;
  if (!is_vector && count != 1) return "C is no vector over columns";
  for (int64_t i = 0; bias && i < n; i++)
    bias[i] += factor * (float)carnot_load_f64(c->format.dtype, c->tensor->data,
                                               (size_t)(is_vector ? i : 0));
  return NULL;
}

// The whole region must be in the epilogue. |bias|: of n zeros, or NULL.
static const char* read_epilogue(const carnot_problem* problem,
                                 const carnot_weight_only_problem* view, weight_only_params* out,
                                 float* bias) {
  const bool is_half = carnot_cuda_is_half(problem->outputs[0].format.dtype);
  const uint32_t exact = CARNOT_FUSED_BIT(RELU) | CARNOT_FUSED_BIT(CLAMP) |
                         CARNOT_FUSED_BIT(HARD_SIGMOID) | CARNOT_FUSED_BIT(HARD_SWISH);
  const carnot_epilogue_mask mask = {CARNOT_EPILOGUE_SUM_BIASES, /*residual=*/true,
                                     is_half ? CARNOT_CUDA_FUSED_ACTIVATIONS : exact};
  carnot_operand_facts facts[CARNOT_EPILOGUE_MAX_INPUTS];
  carnot_epilogue e;
  const char* why = carnot_epilogue_facts_of_problem(problem, problem->outputs[0].format.dtype,
                                                     /*channel_axis=*/1, out->n, facts);
  if (why) return why;
  carnot_epilogue_match(problem->region, view->anchor, CARNOT_PLAN_NONE, facts,
                        problem->input_count, &mask, &e);
  if (e.rest != problem->region->node_count || problem->region->output_count != 1)
    return "more follows than bias, residual and activation";
  if (view->gemm.c != CARNOT_PLAN_NONE)
    why = add_bias(problem, view->gemm.c, out->n, view->gemm.beta, bias);
  for (uint32_t i = 0; !why && i < e.bias_count; i++)
    why = add_bias(problem, e.biases[i], out->n, 1, bias);
  const carnot_cuda_epilogue activation = carnot_cuda_epilogue_from(&e.activation);
  out->residual = e.residual == CARNOT_PLAN_NONE ? -1 : (int32_t)e.residual;
  out->activation = (int32_t)activation.kind;
  out->low = activation.low, out->high = activation.high;
  return why;
}

static const char* read_blocks(const carnot_weight_only_problem* view, weight_only_params* out,
                               char* reason, size_t size) {
  out->shift = kOneBlock;
  if (view->block >= view->k) return NULL;
  for (out->shift = 0; (int64_t)16 << out->shift < view->block;) out->shift++;
  if ((int64_t)16 << out->shift == view->block) return NULL;
  return carnot_cuda_reject_reason(reason, size, "blocks of %lld, takes powers of two from 16 on",
                                   (long long)view->block);
}

// Without the zero points' values.
static const char* read_problem(const carnot_problem* problem, carnot_weight_only_problem* view,
                                weight_only_params* out, float* bias, char* reason, size_t size) {
  const char* why = carnot_weight_only_read(problem, view, reason, size);
  if (why) return why;
  const carnot_operand_desc *a = &problem->inputs[view->gemm.a], *y = &problem->outputs[0];
  *out = (weight_only_params){.n = view->n,
                              .k = view->k,
                              .bits = view->bits <= 4 ? 4 : 8,
                              .x = (int32_t)view->gemm.a,
                              .alpha = view->gemm.alpha};
  why = carnot_cuda_not_float(a, reason, size);
  if (why) return why;
  if (y->format.dtype != a->format.dtype) return "the result has another type than the operand";
  if (view->gemm.trans_a) return "the left operand is transposed";
  if (a->rank < 2) return "the left operand is a vector";
  if (a->dims[a->rank - 1] != view->k && a->dims[a->rank - 1] != -1)
    return carnot_cuda_reject_reason(reason, size, "rows of %lld meet %lld weights",
                                     (long long)a->dims[a->rank - 1], (long long)view->k);
  if (view->n > kMaxColumns || view->k > INT32_MAX / 2) return "too many weights";
  out->has_half_scales =
      problem->inputs[view->scales].format.dtype == CARNOT_DTYPE_F16 && view->gemm.alpha == 1;
  why = read_blocks(view, out, reason, size);
  return why ? why : read_epilogue(problem, view, out, bias);
}

static const char* weight_only_reject(carnot_problem* problem, char* reason, size_t size) {
  const weight_only_config* config = problem->tactic->config;
  carnot_weight_only_problem view;
  weight_only_params p;
  const char* why = read_problem(problem, &view, &p, NULL, reason, size);
  if (why) return why;
  if (carnot_cuda_of(problem->device)->major < 8) return "needs sm_80";
  const carnot_operand_desc* a = &problem->inputs[p.x];
  int64_t rows = 1;
  for (int d = 0; d < a->rank - 1; d++) rows *= carnot_max_i64(1, a->dims[d]);
  if (rows < config->least_rows || rows > config->most_rows)
    return carnot_cuda_reject_reason(reason, size, "%lld rows, takes %lld to %lld", (long long)rows,
                                     (long long)config->least_rows, (long long)config->most_rows);
  carnot_cuda_want_row_major(problem);
  return NULL;
}

static carnot_status* new_constant(carnot_prepared* out, uint32_t index, const char* packing,
                                   size_t bytes, void** out_data) {
  CARNOT_TRY(carnot_arena_try(out->arena, bytes, 1, packing, out_data));
  memset(*out_data, 0, bytes);
  out->constants[index].packing = packing;
  out->constants[index].data = *out_data;
  out->constants[index].bytes = bytes;
  return NULL;
}

// In the order of gemm_weight_only_params.h; |numbers| [n,k].
static void pack_weights(const weight_only_params* p, const uint8_t* numbers, uint8_t* out) {
  const int64_t tiles = tiles_of(p), depth = steps_of_tile(p) * 16;
  for (int64_t n = 0; n < p->n; n++)
    for (int64_t k = 0; k < p->k; k++) {
      const uint8_t q = numbers[n * p->k + k];
      const int64_t lane = n % 8 * 4 + k % 16 / 4, step = k % depth / 16, i = k % 4,
                    half = n / 8 % 2;
      uint8_t* to = out + (n / 16 * tiles + k / depth) * CARNOT_CUDA_WEIGHT_ONLY_TILE + lane * 16;
      if (p->bits == 8) {
        to[step * 8 + half * 4 + i] = q;
      } else {
        const int64_t at = i % 2 * 4 + i / 2 * 2 + half;  // nibble of the word
        to[step * 4 + at / 2] |= (uint8_t)(q << at % 2 * 4);
      }
    }
}

static carnot_status* make_weights(const carnot_problem* problem,
                                   const carnot_weight_only_problem* view,
                                   const weight_only_params* p, carnot_prepared* out) {
  void *packed, *numbers;
  CARNOT_TRY(new_constant(out, WEIGHTS, p->bits == 4 ? "n16k64 mma u4" : "n16k32 mma u8",
                          weight_bytes(p), &packed));
  CARNOT_TRY(carnot_calloc((size_t)view->k, (size_t)view->n, "weights before packing", &numbers));
  carnot_weight_only_numbers(problem, view, numbers);
  pack_weights(p, numbers, packed);
  free(numbers);
  return NULL;
}

// Scales times alpha, and zero points where they differ.
static carnot_status* make_scales(const carnot_problem* problem,
                                  const carnot_weight_only_problem* view, weight_only_params* p,
                                  carnot_prepared* out) {
  const int64_t blocks = carnot_ceildiv(view->k, view->block);
  const carnot_operand_desc* from = &problem->inputs[view->scales];
  void *scales, *zeros = NULL;
  p->zero = carnot_weight_only_zero(problem, view, 0, 0);
  for (int64_t n = 0; n < view->n && !p->has_zeros; n++)
    for (int64_t b = 0; b < blocks && !p->has_zeros; b++)
      p->has_zeros = carnot_weight_only_zero(problem, view, b, n) != p->zero;
  CARNOT_TRY(new_constant(out, SCALES, p->has_half_scales ? "n16 f16 scales" : "n16 f32 scales",
                          scale_count(p) * (p->has_half_scales ? 2 : 4), &scales));
  if (p->has_zeros)
    CARNOT_TRY(new_constant(out, ZEROS, "n16 u16 zero points", scale_count(p) * 2, &zeros));
  for (int64_t n = 0; n < view->n; n++)
    for (int64_t b = 0; b < blocks; b++) {
      const int64_t at = ((n / 16 * blocks_of(p) + b) * 8 + n % 8) * 2 + n / 8 % 2;
      if (p->has_half_scales)
        ((uint16_t*)scales)[at] =
            ((const uint16_t*)from->tensor->data)[b * view->scale_k + n * view->scale_n];
      else
        ((float*)scales)[at] = carnot_weight_only_scale(problem, view, b, n) * p->alpha;
      if (zeros) ((uint16_t*)zeros)[at] = (uint16_t)carnot_weight_only_zero(problem, view, b, n);
    }
  return NULL;
}

static carnot_status* weight_only_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void *params, *bias;
  char reason[256];
  carnot_weight_only_problem view;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(weight_only_params), "parameters", &params));
  weight_only_params* p = params;
  const char* why = carnot_weight_only_read(problem, &view, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  CARNOT_TRY(new_constant(out, BIAS, "dense f32", (size_t)view.n * sizeof(float), &bias));
  why = read_problem(problem, &view, p, bias, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  CARNOT_TRY(make_weights(problem, &view, p, out));
  CARNOT_TRY(make_scales(problem, &view, p, out));
  out->constant_count = p->has_zeros ? ZEROS + 1 : ZEROS;
  out->params = params;
  out->param_bytes = sizeof(*p);
  for (uint32_t i = 0; i < problem->input_count; i++)
    if ((int64_t)i != p->x && (int64_t)i != p->residual) out->packed_inputs |= (uint64_t)1 << i;
  return NULL;
}

// ---- run ----

static carnot_status* weight_only_validate(const carnot_step_view* step) {
  const weight_only_params* p = step->params;
  CARNOT_CHECK(step->param_bytes == sizeof(*p), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(*p));
  CARNOT_CHECK(p->n >= 1 && p->n <= kMaxColumns && p->k >= 1 && p->k <= INT32_MAX / 2 &&
                   (p->bits == 4 || p->bits == 8) && p->shift >= 0 && p->shift <= kOneBlock &&
                   p->zero >= 0 && p->zero <= 255,
               INVALID_MODEL, "weights of [%lld,%lld], %d bits, blocks of 16 << %d, zero point %d",
               (long long)p->n, (long long)p->k, p->bits, p->shift, p->zero);
  CARNOT_CHECK(p->x >= 0 && (uint32_t)p->x < step->input_count && p->residual >= -1 &&
                   p->residual < (int64_t)step->input_count && step->output_count == 1 &&
                   p->activation >= 0 && p->activation <= CARNOT_CUDA_HARD_SIGMOID,
               INVALID_MODEL, "operands %d and %d of %u inputs, activation %d", p->x, p->residual,
               step->input_count, p->activation);
  const size_t* bytes = step->constant_bytes;
  CARNOT_CHECK(step->constant_count == (p->has_zeros ? ZEROS + 1 : ZEROS) &&
                   bytes[WEIGHTS] == weight_bytes(p) &&
                   bytes[SCALES] == scale_count(p) * (p->has_half_scales ? 2 : 4) &&
                   bytes[BIAS] == (size_t)p->n * sizeof(float) &&
                   (!p->has_zeros || bytes[ZEROS] == scale_count(p) * 2),
               INVALID_MODEL, "%u constants of %zu, %zu and %zu bytes for weights of [%lld,%lld]",
               step->constant_count, bytes[WEIGHTS], bytes[SCALES], bytes[BIAS], (long long)p->n,
               (long long)p->k);
  return NULL;
}

static bool weight_only_uses_input(const carnot_step_view* step, uint32_t input) {
  const weight_only_params* p = step->params;
  return (int64_t)input == p->x || (int64_t)input == p->residual;
}

static bool is_dense(const carnot_operand* t) {
  int64_t stride = 1;
  for (int d = t->rank - 1; d >= 0; d--) {
    if (t->dims[d] != 1 && t->strides[d] != stride) return false;
    stride *= t->dims[d];
  }
  return (uintptr_t)t->data % 16 == 0;
}

static carnot_status* check_operands(const weight_only_params* p, const carnot_operand* inputs,
                                     const carnot_operand* y) {
  const carnot_operand* x = &inputs[p->x];
  const carnot_operand* residual = p->residual < 0 ? NULL : &inputs[p->residual];
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_TRY(carnot_cuda_on_device(y, 1));
  CARNOT_CHECK(
      carnot_cuda_is_float(x->format.dtype) && x->format.dtype == y->format.dtype && x->rank >= 2 &&
          y->rank == x->rank && x->dims[x->rank - 1] == p->k && y->dims[y->rank - 1] == p->n &&
          carnot_dims_count(x->dims, x->rank - 1) == carnot_dims_count(y->dims, y->rank - 1) &&
          is_dense(x) && is_dense(y),
      INVALID_ARGUMENT, "operands do not fit packed weights of [%lld,%lld]", (long long)p->k,
      (long long)p->n);
  if (!residual) return NULL;
  CARNOT_TRY(carnot_cuda_on_device(residual, 1));
  CARNOT_CHECK(
      residual->format.dtype == y->format.dtype && residual->rank == y->rank && is_dense(residual),
      INVALID_ARGUMENT, "the residual is %s of rank %d", carnot_dtype_name(residual->format.dtype),
      residual->rank);
  for (int d = 0; d < y->rank; d++)
    CARNOT_CHECK(residual->dims[d] == y->dims[d], INVALID_ARGUMENT,
                 "dimension %d of the residual is %lld, must be %lld", d,
                 (long long)residual->dims[d], (long long)y->dims[d]);
  return NULL;
}

// The kernels by rows, columns, scales of a tile and type.
static carnot_cuda_kernel_id kernel_of(int rows, int columns, int bits, int groups,
                                       carnot_dtype dtype) {
  static const struct {
    int rows, columns, bits, groups;
    carnot_cuda_kernel_id f32, f16, bf16;
  } kKernels[] = {
#define ENTRY(bit_count, group_count, height, width, slices)                                   \
  {height,                                                                                     \
   width,                                                                                      \
   bit_count,                                                                                  \
   group_count,                                                                                \
   CARNOT_CUDA_KERNEL_gemm_weight_only_##bit_count##_##group_count##_##height##x##width##_f32, \
   CARNOT_CUDA_KERNEL_gemm_weight_only_##bit_count##_##group_count##_##height##x##width##_f16, \
   CARNOT_CUDA_KERNEL_gemm_weight_only_##bit_count##_##group_count##_##height##x##width##_bf16},
#define ENTRIES(height, width, slices) CARNOT_CUDA_WEIGHT_ONLY_FORMS(ENTRY, height, width, slices)
      CARNOT_CUDA_WEIGHT_ONLY_SIZES(ENTRIES)
#undef ENTRIES
#undef ENTRY
  };
  for (size_t i = 0; i < sizeof(kKernels) / sizeof(kKernels[0]); i++)
    if (kKernels[i].rows == rows && kKernels[i].columns == columns && kKernels[i].bits == bits &&
        kKernels[i].groups == groups)
      return dtype == CARNOT_DTYPE_F32   ? kKernels[i].f32
             : dtype == CARNOT_DTYPE_F16 ? kKernels[i].f16
                                         : kKernels[i].bf16;
  return CARNOT_CUDA_KERNEL_NONE;
}

static carnot_status* weight_only_configure(const carnot_step_view* step,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs, void* state,
                                            size_t* out_workspace_bytes) {
  const weight_only_config* config = step->tactic->config;
  const weight_only_params* p = step->params;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  weight_only_state* s = state;
  *out_workspace_bytes = 0;
  CARNOT_TRY(check_operands(p, inputs, &outputs[0]));
  const int64_t rows = carnot_dims_count(outputs[0].dims, outputs[0].rank - 1);
  const int groups = groups_of(p);
  const int least = config->columns == 128 ? 16 : 8, most = config->columns == 128 ? 64 : 16,
            height = rows <= least ? least : most,
            across = CARNOT_CUDA_WEIGHT_ONLY_ACROSS(config->columns, config->slices);
  const int64_t ring = (int64_t)CARNOT_CUDA_WEIGHT_ONLY_STAGES(across) *
                       CARNOT_CUDA_WEIGHT_ONLY_SLOT(across, groups) *
                       (CARNOT_CUDA_WEIGHT_ONLY_THREADS / 32),
                sums = (int64_t)config->slices * height * config->columns * (int64_t)sizeof(float);
  *s = (weight_only_state){.params = {.rows = rows,
                                      .columns = (int)p->n,
                                      .depth = (int)p->k,
                                      .column_groups = (int)column_groups_of(p),
                                      .tiles = (int)tiles_of(p),
                                      .blocks = (int)blocks_of(p),
                                      .shift = p->shift,
                                      .zero = (unsigned)p->zero * 0x10001u,
                                      .has_half_scales = p->has_half_scales,
                                      .activation = p->activation,
                                      .low = p->low,
                                      .high = p->high},
                           .shared_bytes = (size_t)carnot_max_i64(ring, sums)};
  s->grid[0] = carnot_ceildiv(p->n, config->columns);
  s->grid[1] = carnot_ceildiv(rows, height), s->grid[2] = 1;
  CARNOT_CHECK(s->grid[1] <= 65535, UNSUPPORTED, "%lld rows", (long long)rows);
  CARNOT_TRY(carnot_cuda_kernel(
      cuda, kernel_of(height, config->columns, p->bits, groups, outputs[0].format.dtype),
      &s->function));
  return carnot_cuda_allow_shared(cuda, s->function);
}

static carnot_status* weight_only_run(const carnot_step_view* step, void* state,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  static const int64_t kOne[3] = {1, 1, 1};
  weight_only_state* s = state;
  const weight_only_params* p = step->params;
  if (!s->grid[1]) return NULL;
  s->params.x = inputs[p->x].data, s->params.y = outputs[0].data;
  s->params.residual = p->residual < 0 ? NULL : inputs[p->residual].data;
  s->params.w = step->constants[WEIGHTS], s->params.scales = step->constants[SCALES];
  s->params.bias = step->constants[BIAS];
  s->params.zeros = p->has_zeros ? step->constants[ZEROS] : NULL;
  return carnot_cuda_launch_clusters(step, s->function, s->grid, CARNOT_CUDA_WEIGHT_ONLY_THREADS,
                                     kOne, s->shared_bytes, &s->params);
}

static void weight_only_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  carnot_weight_only_problem view;
  char reason[256];
  *out_flops = *out_bytes = 0;
  if (carnot_weight_only_read(problem, &view, reason, sizeof(reason))) return;
  const carnot_operand_desc *y = &problem->outputs[0], *scales = &problem->inputs[view.scales];
  const double results = (double)carnot_dims_count(y->dims, y->rank), k = (double)view.k,
               n = (double)view.n, element = carnot_dtype_bits(y->format.dtype) / 8.0;
  *out_flops = 2 * results * k;
  *out_bytes = n * k * view.bits / 8 + element * (results + results / n * k) +
               (double)carnot_dims_count(scales->dims, scales->rank) *
                   carnot_dtype_bits(scales->format.dtype) / 8;
}

#define WEIGHT_ONLY_TACTIC(width, ...)                           \
  const carnot_tactic carnot_cuda_gemm_weight_only_##width = {   \
      .name = "cuda_gemm_weight_only_" #width,                   \
      .anchor = CARNOT_OP_DEQUANTIZE_LINEAR,                     \
      .config = &(const weight_only_config){width, __VA_ARGS__}, \
      .numerics = CARNOT_NUMERICS_EXACT,                         \
      .device = true,                                            \
      .reject = weight_only_reject,                              \
      .prepare = weight_only_prepare,                            \
      .validate = weight_only_validate,                          \
      .uses_input = weight_only_uses_input,                      \
      .configure = weight_only_configure,                        \
      .run = weight_only_run,                                    \
      .work = weight_only_work};
WEIGHT_ONLY_TACTIC(16, .slices = 8, .least_rows = 0, .most_rows = 16)
WEIGHT_ONLY_TACTIC(32, .slices = 8, .least_rows = 0, .most_rows = 16)
WEIGHT_ONLY_TACTIC(128, .slices = 2, .least_rows = 9, .most_rows = 64)
