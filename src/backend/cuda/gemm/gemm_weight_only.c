// GEMM of floats by weights of 2, 4 or 8 bits, which stay packed (tactic/problem/weight_only.h):
// few rows, at the rate of the memory. One tactic per width of a block; the builder times them.
#include "backend/cuda/common/tactic.h"
#include "backend/cuda/gemm/weight_only_pack.h"

typedef struct weight_only_config {
  int columns, slices;            // of a block
  bool is_direct;                 // gemm_weight_only_direct.cuh
  int64_t least_rows, most_rows;  // that it is offered for
} weight_only_config;

typedef struct weight_only_state {
  CUfunction function;
  carnot_cuda_weight_only_params params;
  int64_t grid[3];
  size_t shared_bytes;
} weight_only_state;
_Static_assert(sizeof(weight_only_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const char* weight_only_reject(carnot_problem* problem, char* reason, size_t size) {
  const weight_only_config* config = problem->tactic->config;
  carnot_weight_only_problem view;
  carnot_cuda_weight_only_step p;
  const char* why = carnot_cuda_weight_only_read(problem, &view, &p, NULL, reason, size);
  if (why) return why;
  if (carnot_cuda_of(problem->device)->major < 8) return "needs sm_80";
  const carnot_operand_desc* a = &problem->inputs[p.x];
  int64_t rows = 1;
  for (int d = 0; d < a->rank - 1; d++) rows *= carnot_max_i64(1, a->dims[d]);
  if (rows < config->least_rows || rows > config->most_rows)
    return carnot_cuda_reject_reason(reason, size, "%lld rows, takes %lld to %lld", (long long)rows,
                                     (long long)config->least_rows, (long long)config->most_rows);
  if (config->is_direct && !carnot_cuda_is_half(a->format.dtype))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s",
                                     carnot_dtype_name(a->format.dtype));
  if (config->is_direct && (p.shift < 1 || p.k % carnot_cuda_weight_only_tile_depth(&p)))
    return carnot_cuda_reject_reason(reason, size,
                                     "%lld weights a column in blocks of %lld, takes multiples of "
                                     "%lld in blocks of 32 and more",
                                     (long long)p.k, (long long)view.block,
                                     (long long)carnot_cuda_weight_only_tile_depth(&p));
  carnot_cuda_want_row_major(problem);
  return NULL;
}

// ---- run ----

static carnot_status* weight_only_validate(const carnot_step_view* step) {
  const carnot_cuda_weight_only_step* p = step->params;
  CARNOT_CHECK(step->param_bytes == sizeof(*p), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(*p));
  CARNOT_CHECK(p->n >= 1 && p->n <= CARNOT_CUDA_WEIGHT_ONLY_MAX_COLUMNS && p->k >= 1 &&
                   p->k <= INT32_MAX / 2 && (p->bits == 4 || p->bits == 8) && p->shift >= 0 &&
                   p->shift <= CARNOT_CUDA_WEIGHT_ONLY_ONE_BLOCK && p->zero >= 0 && p->zero <= 255,
               INVALID_MODEL, "weights of [%lld,%lld], %d bits, blocks of 16 << %d, zero point %d",
               (long long)p->n, (long long)p->k, p->bits, p->shift, p->zero);
  CARNOT_CHECK(p->x >= 0 && (uint32_t)p->x < step->input_count && p->residual >= -1 &&
                   p->residual < (int64_t)step->input_count && step->output_count == 1 &&
                   p->activation >= 0 && p->activation <= CARNOT_CUDA_HARD_SIGMOID,
               INVALID_MODEL, "operands %d and %d of %u inputs, activation %d", p->x, p->residual,
               step->input_count, p->activation);
  const size_t* bytes = step->constant_bytes;
  CARNOT_CHECK(
      step->constant_count ==
              (p->has_zeros ? CARNOT_CUDA_WEIGHT_ONLY_ZEROS + 1 : CARNOT_CUDA_WEIGHT_ONLY_ZEROS) &&
          bytes[CARNOT_CUDA_WEIGHT_ONLY_WEIGHTS] == carnot_cuda_weight_only_weight_bytes(p) &&
          bytes[CARNOT_CUDA_WEIGHT_ONLY_SCALES] ==
              carnot_cuda_weight_only_scale_count(p) * (p->has_half_scales ? 2 : 4) &&
          bytes[CARNOT_CUDA_WEIGHT_ONLY_BIAS] == (size_t)p->n * sizeof(float) &&
          (!p->has_zeros ||
           bytes[CARNOT_CUDA_WEIGHT_ONLY_ZEROS] == carnot_cuda_weight_only_scale_count(p) * 2),
      INVALID_MODEL, "%u constants of %zu, %zu and %zu bytes for weights of [%lld,%lld]",
      step->constant_count, bytes[CARNOT_CUDA_WEIGHT_ONLY_WEIGHTS],
      bytes[CARNOT_CUDA_WEIGHT_ONLY_SCALES], bytes[CARNOT_CUDA_WEIGHT_ONLY_BIAS], (long long)p->n,
      (long long)p->k);
  return NULL;
}

static bool weight_only_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_cuda_weight_only_step* p = step->params;
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

static carnot_status* check_operands(const carnot_cuda_weight_only_step* p,
                                     const carnot_operand* inputs, const carnot_operand* y) {
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

// The kernels by form, rows, columns, scales of a tile (ring) or steps of a scale (direct), and
// type.
static carnot_cuda_kernel_id kernel_of(bool is_direct, int rows, int columns, int bits, int groups,
                                       carnot_dtype dtype) {
  static const struct {
    bool is_direct;
    int rows, columns, bits, groups;
    carnot_cuda_kernel_id f32, f16, bf16;
  } kKernels[] = {
#define ID(name) CARNOT_CUDA_KERNEL_gemm_weight_only_##name
#define RING(bits, groups, height, width, slices)  \
  {false,                                          \
   height,                                         \
   width,                                          \
   bits,                                           \
   groups,                                         \
   ID(bits##_##groups##_##height##x##width##_f32), \
   ID(bits##_##groups##_##height##x##width##_f16), \
   ID(bits##_##groups##_##height##x##width##_bf16)},
#define RINGS(height, width, slices) CARNOT_CUDA_WEIGHT_ONLY_FORMS(RING, height, width, slices)
      CARNOT_CUDA_WEIGHT_ONLY_SIZES(RINGS)
#define DIRECT(bits, span, height, width, slices)         \
  {true,                                                  \
   height,                                                \
   width,                                                 \
   bits,                                                  \
   span,                                                  \
   CARNOT_CUDA_KERNEL_NONE,                               \
   ID(direct_##bits##_##span##_##height##x##width##_f16), \
   ID(direct_##bits##_##span##_##height##x##width##_bf16)},
#define DIRECTS(height, width, slices) \
  CARNOT_CUDA_WEIGHT_ONLY_DIRECT_FORMS(DIRECT, height, width, slices)
          CARNOT_CUDA_WEIGHT_ONLY_DIRECT_SIZES(DIRECTS)
#undef DIRECTS
#undef DIRECT
#undef RINGS
#undef RING
#undef ID
  };
  for (size_t i = 0; i < sizeof(kKernels) / sizeof(kKernels[0]); i++)
    if (kKernels[i].is_direct == is_direct && kKernels[i].rows == rows &&
        kKernels[i].columns == columns && kKernels[i].bits == bits && kKernels[i].groups == groups)
      return dtype == CARNOT_DTYPE_F32   ? kKernels[i].f32
             : dtype == CARNOT_DTYPE_F16 ? kKernels[i].f16
                                         : kKernels[i].bf16;
  return CARNOT_CUDA_KERNEL_NONE;
}

// Rows of a block.
static int height_of(const weight_only_config* config, int64_t rows) {
  if (config->columns == 128) return 64;
  return rows <= 8 || config->columns == 16 ? 8 : 16;
}

static carnot_status* weight_only_configure(const carnot_step_view* step,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs, void* state,
                                            size_t* out_workspace_bytes) {
  const weight_only_config* config = step->tactic->config;
  const carnot_cuda_weight_only_step* p = step->params;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  weight_only_state* s = state;
  *out_workspace_bytes = 0;
  CARNOT_TRY(check_operands(p, inputs, &outputs[0]));
  const int64_t rows = carnot_dims_count(outputs[0].dims, outputs[0].rank - 1);
  const int groups = config->is_direct ? p->shift == 1 || p->bits == 8 ? 2 : 4
                                       : carnot_cuda_weight_only_groups(p),
            height = height_of(config, rows),
            across = CARNOT_CUDA_WEIGHT_ONLY_ACROSS(config->columns, config->slices);
  const int64_t ring = config->is_direct ? 0
                                         : (int64_t)CARNOT_CUDA_WEIGHT_ONLY_STAGES(across) *
                                               CARNOT_CUDA_WEIGHT_ONLY_SLOT(across, groups) *
                                               (CARNOT_CUDA_WEIGHT_ONLY_THREADS / 32),
                sums = (int64_t)config->slices * height * config->columns * (int64_t)sizeof(float);
  *s =
      (weight_only_state){.params = {.rows = rows,
                                     .columns = (int)p->n,
                                     .depth = (int)p->k,
                                     .column_groups = (int)carnot_cuda_weight_only_column_groups(p),
                                     .tiles = (int)carnot_cuda_weight_only_tiles(p),
                                     .blocks = (int)carnot_cuda_weight_only_blocks(p),
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
  CARNOT_TRY(carnot_cuda_kernel(cuda,
                                kernel_of(config->is_direct, height, config->columns, p->bits,
                                          groups, outputs[0].format.dtype),
                                &s->function));
  return carnot_cuda_allow_shared(cuda, s->function);
}

static carnot_status* weight_only_run(const carnot_step_view* step, void* state,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  static const int64_t kOne[3] = {1, 1, 1};
  weight_only_state* s = state;
  const carnot_cuda_weight_only_step* p = step->params;
  if (!s->grid[1]) return NULL;
  s->params.x = inputs[p->x].data, s->params.y = outputs[0].data;
  s->params.residual = p->residual < 0 ? NULL : inputs[p->residual].data;
  s->params.w = step->constants[CARNOT_CUDA_WEIGHT_ONLY_WEIGHTS],
  s->params.scales = step->constants[CARNOT_CUDA_WEIGHT_ONLY_SCALES];
  s->params.bias = step->constants[CARNOT_CUDA_WEIGHT_ONLY_BIAS];
  s->params.zeros = p->has_zeros ? step->constants[CARNOT_CUDA_WEIGHT_ONLY_ZEROS] : NULL;
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

#define WEIGHT_ONLY_TACTIC(form, width, ...)                         \
  const carnot_tactic carnot_cuda_gemm_weight_only_##form##width = { \
      .name = "cuda_gemm_weight_only_" #form #width,                 \
      .anchor = CARNOT_OP_DEQUANTIZE_LINEAR,                         \
      .config = &(const weight_only_config){width, __VA_ARGS__},     \
      .numerics = CARNOT_NUMERICS_EXACT,                             \
      .device = true,                                                \
      .reject = weight_only_reject,                                  \
      .prepare = carnot_cuda_weight_only_prepare,                    \
      .validate = weight_only_validate,                              \
      .uses_input = weight_only_uses_input,                          \
      .configure = weight_only_configure,                            \
      .run = weight_only_run,                                        \
      .work = weight_only_work};
WEIGHT_ONLY_TACTIC(direct_, 16, .slices = 8, .is_direct = true, .most_rows = 8)
WEIGHT_ONLY_TACTIC(direct_, 32, .slices = 8, .is_direct = true, .most_rows = 16)
WEIGHT_ONLY_TACTIC(direct_, 128, .slices = 2, .is_direct = true, .least_rows = 9, .most_rows = 64)
WEIGHT_ONLY_TACTIC(, 32, .slices = 8, .most_rows = 16)
WEIGHT_ONLY_TACTIC(, 128, .slices = 2, .least_rows = 9, .most_rows = 64)
