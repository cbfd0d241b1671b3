// GEMM of floats by weights of 2, 4 or 8 bits, which stay packed (tactic/problem/weight_only.h):
// few rows, at the rate of the memory. One tactic per width of a block; the builder times them.
#include "backend/cuda/common/tactic.h"
#include "backend/cuda/gemm/weight_only_pack.h"

typedef enum weight_only_form {
  WEIGHT_ONLY_RING,    // gemm_weight_only.cuh
  WEIGHT_ONLY_DIRECT,  // gemm_weight_only_direct.cuh
  WEIGHT_ONLY_STREAM,  // gemm_weight_only_stream.cuh
} weight_only_form;

typedef struct weight_only_config {
  weight_only_form form;
  int columns, slices;            // of a block
  int64_t least_rows, most_rows;  // that it is offered for
} weight_only_config;

typedef struct weight_only_state {
  CUfunction function;
  carnot_cuda_weight_only_params params;
  int64_t grid[3];
  size_t shared_bytes;
} weight_only_state;
_Static_assert(sizeof(weight_only_state) <= CARNOT_STATE_BYTES, "the state has its size");

// Shared memory of a block of the form STREAM with |rows| rows and |stages| stages.
static int64_t stream_bytes(const carnot_cuda_weight_only_step* p, bool has_zeros, int64_t rows,
                            int64_t stages) {
  const int groups = p->bits == 4 && p->shift == 1 ? 2 : 1,
            scale_bytes = 16 * carnot_cuda_weight_only_scale_bytes(p) + (has_zeros ? 32 : 0);
  return CARNOT_CUDA_WEIGHT_ONLY_STREAM_BARRIER_BYTES + CARNOT_CUDA_WEIGHT_ONLY_STREAM_SUM_BYTES +
         CARNOT_CUDA_WEIGHT_ONLY_THREADS / 32 * stages *
             CARNOT_CUDA_WEIGHT_ONLY_STREAM_STAGE(groups, scale_bytes) +
         rows * CARNOT_CUDA_WEIGHT_ONLY_STREAM_X_ROW(p->k);
}

static int64_t most_shared_bytes(const carnot_cuda* cuda) { return cuda->block_bytes - 1024; }

static const char* reject_form(const carnot_cuda* cuda, weight_only_form form,
                               const carnot_cuda_weight_only_step* p, int64_t block,
                               carnot_dtype dtype, char* reason, size_t size) {
  if (form == WEIGHT_ONLY_RING) return NULL;
  if (!carnot_cuda_is_half(dtype))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s", carnot_dtype_name(dtype));
  const int64_t depth = carnot_cuda_weight_only_tile_depth(p);
  if (p->shift < 1 || p->k % depth)
    return carnot_cuda_reject_reason(reason, size,
                                     "%lld weights a column in blocks of %lld, takes multiples of "
                                     "%lld in blocks of 32 and more",
                                     (long long)p->k, (long long)block, (long long)depth);
  if (form == WEIGHT_ONLY_DIRECT) return NULL;
  if (cuda->major != 9 || cuda->minor) return "needs sm_90";
  if (stream_bytes(p, /*has_zeros=*/true, 1, CARNOT_CUDA_WEIGHT_ONLY_STREAM_STAGES) >
      most_shared_bytes(cuda))
    return carnot_cuda_reject_reason(reason, size,
                                     "a row of %lld does not fit in shared memory of %lld bytes",
                                     (long long)p->k, (long long)most_shared_bytes(cuda));
  return NULL;
}

static const char* weight_only_reject(carnot_problem* problem, char* reason, size_t size) {
  const weight_only_config* config = problem->tactic->config;
  carnot_cuda* cuda = carnot_cuda_of(problem->device);
  carnot_weight_only_problem view;
  carnot_cuda_weight_only_step p;
  const char* why = carnot_cuda_weight_only_read(problem, &view, &p, NULL, reason, size);
  if (why) return why;
  if (cuda->major < 8) return "needs sm_80";
  const carnot_operand_desc* a = &problem->inputs[p.x];
  int64_t rows = 1;
  for (int d = 0; d < a->rank - 1; d++) rows *= carnot_max_i64(1, a->dims[d]);
  if (rows < config->least_rows || rows > config->most_rows)
    return carnot_cuda_reject_reason(reason, size, "%lld rows, takes %lld to %lld", (long long)rows,
                                     (long long)config->least_rows, (long long)config->most_rows);
  why = reject_form(cuda, config->form, &p, view.block, a->format.dtype, reason, size);
  if (!why) carnot_cuda_want_row_major(problem);
  return why;
}

// ---- run ----

static carnot_status* weight_only_validate(const carnot_step_view* step) {
  const carnot_cuda_weight_only_step* p = step->params;
  CARNOT_CHECK(step->param_bytes == sizeof(*p), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(*p));
  CARNOT_CHECK(
      p->n >= 1 && p->n <= CARNOT_CUDA_WEIGHT_ONLY_MAX_COLUMNS && p->k >= 1 &&
          p->k <= INT32_MAX / 2 && (p->bits == 4 || p->bits == 8) && p->shift >= 0 &&
          p->shift <= CARNOT_CUDA_WEIGHT_ONLY_ONE_BLOCK && p->zero >= 0 && p->zero <= 255 &&
          carnot_cuda_is_float((carnot_dtype)p->scale_dtype),
      INVALID_MODEL,
      "weights of [%lld,%lld], %d bits, blocks of 16 << %d, zero point %d, scales of type %d",
      (long long)p->n, (long long)p->k, p->bits, p->shift, p->zero, p->scale_dtype);
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
              carnot_cuda_weight_only_scale_count(p) *
                  (size_t)carnot_cuda_weight_only_scale_bytes(p) &&
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
  CARNOT_CHECK(p->scale_dtype == CARNOT_DTYPE_F32 ||
                   (p->scale_dtype == CARNOT_DTYPE_BF16) == (x->format.dtype == CARNOT_DTYPE_BF16),
               INVALID_ARGUMENT, "scales of %s for an operand of %s",
               carnot_dtype_name((carnot_dtype)p->scale_dtype), carnot_dtype_name(x->format.dtype));
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

// The kernels by form, rows, columns, scales of a tile (RING) or steps of a scale, and type.
static carnot_cuda_kernel_id kernel_of(weight_only_form form, int rows, int columns, int bits,
                                       int groups, carnot_dtype dtype) {
  static const struct {
    weight_only_form form;
    int rows, columns, bits, groups;
    carnot_cuda_kernel_id f32, f16, bf16;
  } kKernels[] = {
#define ID(name) CARNOT_CUDA_KERNEL_gemm_weight_only_##name
#define RING(bits, groups, height, width, slices)  \
  {WEIGHT_ONLY_RING,                               \
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
  {WEIGHT_ONLY_DIRECT,                                    \
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
#define STREAM(bits, span)              \
  {WEIGHT_ONLY_STREAM,                  \
   CARNOT_CUDA_WEIGHT_ONLY_STREAM_ROWS, \
   16,                                  \
   bits,                                \
   span,                                \
   CARNOT_CUDA_KERNEL_NONE,             \
   ID(stream_##bits##_##span##_f16),    \
   ID(stream_##bits##_##span##_bf16)},
              CARNOT_CUDA_WEIGHT_ONLY_STREAM_FORMS(STREAM)
#undef STREAM
#undef DIRECTS
#undef DIRECT
#undef RINGS
#undef RING
#undef ID
  };
  for (size_t i = 0; i < sizeof(kKernels) / sizeof(kKernels[0]); i++)
    if (kKernels[i].form == form && kKernels[i].rows == rows && kKernels[i].columns == columns &&
        kKernels[i].bits == bits && kKernels[i].groups == groups)
      return dtype == CARNOT_DTYPE_F32   ? kKernels[i].f32
             : dtype == CARNOT_DTYPE_F16 ? kKernels[i].f16
                                         : kKernels[i].bf16;
  return CARNOT_CUDA_KERNEL_NONE;
}

// Rows of a kernel's block.
static int height_of(const weight_only_config* config, int64_t rows) {
  if (config->columns == 128) return 64;
  return rows <= 8 || config->columns == 16 ? 8 : 16;
}

// Persistent blocks over column groups: as many as fit at once. Where a warp has few tiles to copy,
// one stage: the next kernel's blocks then fit beside these and copy their weights early.
static void cut_stream(const carnot_cuda* cuda, const carnot_cuda_weight_only_step* p, int64_t rows,
                       weight_only_state* s) {
  enum { kWarps = CARNOT_CUDA_WEIGHT_ONLY_THREADS / 32, kFewCopies = 5 };
  const int64_t all = most_shared_bytes(cuda), groups = s->params.column_groups,
                tiles = carnot_ceildiv(s->params.tiles, kWarps);
  int64_t height = carnot_min_i64(carnot_max_i64(1, rows), CARNOT_CUDA_WEIGHT_ONLY_STREAM_ROWS),
          stages = CARNOT_CUDA_WEIGHT_ONLY_STREAM_STAGES;
  while (height > 1 && stream_bytes(p, p->has_zeros, height, stages) > all) height--;
  const int64_t fits = carnot_min_i64(CARNOT_CUDA_WEIGHT_ONLY_STREAM_RESIDENT,
                                      all / (stream_bytes(p, p->has_zeros, height, stages) + 1024));
  s->grid[0] = carnot_min_i64(groups, carnot_max_i64(1, fits) * cuda->base.multiprocessor_count);
  s->grid[1] = carnot_ceildiv(rows, height);
  if (carnot_ceildiv(groups, s->grid[0]) *
          carnot_ceildiv(tiles, CARNOT_CUDA_WEIGHT_ONLY_STREAM_TILES) <=
      kFewCopies)
    stages = 1;
  s->params.height = (int)height;
  s->params.stages = (int)stages;
  s->shared_bytes = (size_t)stream_bytes(p, p->has_zeros, height, stages);
}

static void cut(const weight_only_config* config, const carnot_cuda_weight_only_step* p,
                int64_t rows, weight_only_state* s) {
  const int height = height_of(config, rows),
            across = CARNOT_CUDA_WEIGHT_ONLY_ACROSS(config->columns, config->slices);
  const int64_t ring = config->form == WEIGHT_ONLY_RING
                           ? (int64_t)CARNOT_CUDA_WEIGHT_ONLY_STAGES(across) *
                                 CARNOT_CUDA_WEIGHT_ONLY_SLOT(across,
                                                              carnot_cuda_weight_only_groups(p)) *
                                 (CARNOT_CUDA_WEIGHT_ONLY_THREADS / 32)
                           : 0,
                sums = (int64_t)config->slices * height * config->columns * (int64_t)sizeof(float);
  s->shared_bytes = (size_t)carnot_max_i64(ring, sums);
  s->grid[0] = carnot_ceildiv(p->n, config->columns);
  s->grid[1] = carnot_ceildiv(rows, height);
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
  const int groups = config->form == WEIGHT_ONLY_RING ? carnot_cuda_weight_only_groups(p)
                     : p->shift == 1 || p->bits == 8  ? 2
                                                      : 4;
  *s =
      (weight_only_state){.params = {.rows = rows,
                                     .columns = (int)p->n,
                                     .depth = (int)p->k,
                                     .column_groups = (int)carnot_cuda_weight_only_column_groups(p),
                                     .tiles = (int)carnot_cuda_weight_only_tiles(p),
                                     .blocks = (int)carnot_cuda_weight_only_blocks(p),
                                     .shift = p->shift,
                                     .zero = (unsigned)p->zero * 0x10001u,
                                     .has_half_scales = p->scale_dtype != CARNOT_DTYPE_F32,
                                     .activation = p->activation,
                                     .low = p->low,
                                     .high = p->high},
                          .grid = {1, 1, 1}};
  if (config->form == WEIGHT_ONLY_STREAM)
    cut_stream(cuda, p, rows, s);
  else
    cut(config, p, rows, s);
  CARNOT_CHECK(s->grid[1] <= 65535, UNSUPPORTED, "%lld rows", (long long)rows);
  CARNOT_TRY(carnot_cuda_kernel(cuda,
                                kernel_of(config->form, height_of(config, rows), config->columns,
                                          p->bits, groups, outputs[0].format.dtype),
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

#define WEIGHT_ONLY_TACTIC(form, width, ...)                                \
  const carnot_tactic carnot_cuda_gemm_weight_only_##form##width = {        \
      .name = "cuda_gemm_weight_only_" #form #width,                        \
      .anchor = CARNOT_OP_DEQUANTIZE_LINEAR,                                \
      .config = &(const weight_only_config){.columns = width, __VA_ARGS__}, \
      .numerics = CARNOT_NUMERICS_EXACT,                                    \
      .device = true,                                                       \
      .reject = weight_only_reject,                                         \
      .prepare = carnot_cuda_weight_only_prepare,                           \
      .validate = weight_only_validate,                                     \
      .uses_input = weight_only_uses_input,                                 \
      .configure = weight_only_configure,                                   \
      .run = weight_only_run,                                               \
      .work = weight_only_work};
WEIGHT_ONLY_TACTIC(stream_, 16, .form = WEIGHT_ONLY_STREAM, .most_rows = 8)
WEIGHT_ONLY_TACTIC(direct_, 16, .form = WEIGHT_ONLY_DIRECT, .slices = 8, .most_rows = 8)
WEIGHT_ONLY_TACTIC(direct_, 32, .form = WEIGHT_ONLY_DIRECT, .slices = 8, .most_rows = 16)
WEIGHT_ONLY_TACTIC(direct_, 128, .form = WEIGHT_ONLY_DIRECT, .slices = 2, .least_rows = 9,
                   .most_rows = 64)
WEIGHT_ONLY_TACTIC(, 32, .form = WEIGHT_ONLY_RING, .slices = 8, .most_rows = 16)
WEIGHT_ONLY_TACTIC(, 128, .form = WEIGHT_ONLY_RING, .slices = 2, .least_rows = 9, .most_rows = 64)
