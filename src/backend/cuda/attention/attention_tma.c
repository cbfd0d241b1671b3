// Attention regions of 16-bit floats, and of FP8 operands, by the warp-specialized kernels (sm_90;
// FlashAttention-3).
#include "backend/cuda/attention/attention.h"
#include "backend/cuda/common/tma_map.h"
#include "kernel/cuda/attention/attention_tma_params.h"

// Fewer queries or keys are read by kernels that begin beside the one before, which blocks with
// this much shared memory do not: bert_base, 128 tokens, took 0.336 ms by this one and 0.318 by
// those.
enum { kFewQueries = 16, kFewKeys = 256 };

// Softmax's result is at most 1, which no scale of 1 / 448 or more clips, but for its rounding.
static const float kLeastWeightScale = 0.999f / 448;

// A tile of 192 queries takes 0.8 of the time of each of its queries in a tile of 128
// (docs/performance-cuda.md, warp-specialized attention).
static const double kWideTile = 0.8;

typedef struct tile_form {
  int rows, size;
  unsigned threads;
  // Of operands of 16-bit floats, and of FP8.
  size_t shared_bytes[2];
  // For each: results of 16-bit floats, and of bytes.
  carnot_cuda_kernel_id kernels[2][2][CARNOT_DTYPE_COUNT];
} tile_form;
#define KERNELS(name)                                           \
  {                                                             \
    {CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, name)}, {      \
      CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, name##_bytes) \
    }                                                           \
  }
#define FORM(tile_rows, elements)                                              \
  {.rows = (tile_rows),                                                        \
   .size = (elements),                                                         \
   .threads = CARNOT_CUDA_ATTENTION_TMA_THREADS(tile_rows),                    \
   .shared_bytes = {CARNOT_CUDA_ATTENTION_TMA_BYTES(tile_rows, elements),      \
                    CARNOT_CUDA_ATTENTION_TMA_FP8_BYTES(tile_rows, elements)}, \
   .kernels = {KERNELS(attention_tma_##tile_rows##_##elements),                \
               KERNELS(attention_fp8_tma_##tile_rows##_##elements)}},
static const tile_form kForms[] = {CARNOT_CUDA_ATTENTION_TMA_SIZES(FORM)};
#undef FORM
#undef KERNELS

typedef struct attention_tma_state {
  CUfunction function;
  const tile_form* form;
  carnot_cuda_attention_kinds kinds;
  carnot_cuda_attention_params params;
  carnot_cuda_attention_offsets at;
  carnot_dtype operand;
  float value_scale;
  int across, tiles;
  int64_t grid[3];
} attention_tma_state;
_Static_assert(sizeof(attention_tma_state) <= CARNOT_STATE_BYTES, "the state has its size");

static carnot_status* check(const carnot_cuda* cuda, const carnot_cuda_attention_params* p,
                            const carnot_cuda_attention_offsets* at) {
  CARNOT_CHECK(cuda->major == 9, UNSUPPORTED, "needs sm_90");
  CARNOT_CHECK(at->aligned, UNSUPPORTED, "heads do not begin at multiples of 16 bytes");
  CARNOT_CHECK(p->scale >= 0, UNSUPPORTED, "the scale is %g, takes positive ones",
               (double)p->scale);
  CARNOT_CHECK(p->keys > 0 && at->heads * carnot_ceildiv(p->queries, kForms[0].rows) <= INT32_MAX,
               UNSUPPORTED, "%lld heads of %d queries and %d keys", (long long)at->heads,
               p->queries, p->keys);
  return NULL;
}

// Why the kernels do not take what |stored| says at the sizes that the build is for.
static const char* reject_sizes(const carnot_problem* problem,
                                const carnot_cuda_attention_stored* stored,
                                carnot_cuda_attention_params* out, char* reason, size_t size) {
  carnot_cuda_attention_offsets at;
  const carnot_cuda* cuda = carnot_cuda_of(problem->device);
  carnot_status* status = carnot_cuda_attention_describe_problem(problem, stored, out, &at);
  if (!status) status = check(cuda, out, &at);
  if (status) {
    carnot_cuda_reject_reason(reason, size, "%s", carnot_status_message(status));
    carnot_status_free(status);
    return reason;
  }
  return NULL;
}

static const char* attention_tma_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_cuda_attention_stored stored;
  carnot_cuda_attention_params p;
  const char* why = carnot_cuda_attention_reject(problem, &stored, reason, size);
  if (!why) why = reject_sizes(problem, &stored, &p, reason, size);
  if (!why && (p.queries <= kFewQueries || p.keys <= kFewKeys))
    return carnot_cuda_reject_reason(reason, size,
                                     "%d queries of %d keys, takes more than %d of more than %d",
                                     p.queries, p.keys, kFewQueries, kFewKeys);
  return why;
}

// ---- FP8 ----

// The scale of FP8 values, in |out|.
static const char* read_scale(const carnot_problem* problem, const carnot_quantized_end* end,
                              float* out) {
  int zero = 0;
  const char* why = carnot_cuda_end_read(problem, end, out, &zero);
  return !why && zero ? "a zero point of FP8 other than 0" : why;
}

static const char* read_fp8(const carnot_problem* problem, carnot_cuda_attention_stored* out,
                            char* reason, size_t size) {
  carnot_attention_conversions c;
  float q, k, weights;
  const carnot_dtype dtype = carnot_cuda_attention_softmax_type(problem);
  *out = (carnot_cuda_attention_stored){.dtype = (int32_t)dtype};
  if (!carnot_cuda_is_half(dtype))
    return carnot_cuda_reject_reason(reason, size, "no kernel for %s", carnot_dtype_name(dtype));
  const char* why = carnot_attention_read_bytes(problem, dtype, &out->attention, &c, reason, size);
  if (!why && (carnot_is_end_bytes(&c.scores) || carnot_is_end_bytes(&c.scaled) ||
               carnot_is_end_bytes(&c.masked)))
    why = "the scores are quantized";
  if (!why) why = read_scale(problem, &c.q, &q);
  if (!why) why = read_scale(problem, &c.k, &k);
  if (!why) why = read_scale(problem, &c.v, &out->value_scale);
  if (!why) why = read_scale(problem, &c.weights, &weights);
  if (why) return why;
  // The kernels round weights relative to their greatest one.
  if (weights < kLeastWeightScale)
    return carnot_cuda_reject_reason(reason, size, "softmax's scale %g clips its result",
                                     (double)weights);
  out->attention.scale *= q * k;
  return carnot_is_end_bytes(&c.out)
             ? carnot_cuda_byte_result_read(problem, &c.out, 0, &out->result)
             : NULL;
}

static const char* attention_fp8_reject(carnot_problem* problem, char* reason, size_t size) {
  if (problem->region->node_count < 3) return "";
  carnot_cuda_attention_stored stored;
  carnot_cuda_attention_params p;
  const char* why = read_fp8(problem, &stored, reason, size);
  if (!why) why = carnot_cuda_attention_reject_heads(problem, &stored.attention, reason, size);
  if (!why) why = reject_sizes(problem, &stored, &p, reason, size);
  if (!why) carnot_cuda_want_row_major(problem);
  return why;
}

static carnot_status* attention_fp8_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_cuda_attention_stored stored;
  char reason[256];
  const char* why = read_fp8(problem, &stored, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  return carnot_cuda_attention_store(&stored, out);
}

// ---- sizes and runs ----

// The form that takes the least time: tiles in turns of one for each multiprocessor. In tiles of
// 128 queries there are registers for a dense mask, which arrives while scores are computed.
static const tile_form* choose_form(const carnot_cuda_attention_params* p, int64_t heads,
                                    int64_t processors) {
  const int size = p->size > p->value_size ? p->size : p->value_size;
  const tile_form* best = NULL;
  double least = 0;
  for (size_t i = 0; i < sizeof(kForms) / sizeof(*kForms); i++) {
    const tile_form* form = &kForms[i];
    const bool is_wide = form->rows > 128;
    if (form->size < size || (best && form->size > best->size) || (is_wide && p->mask_s[2]))
      continue;
    const double turns = (double)carnot_ceildiv(heads * carnot_ceildiv(p->queries, form->rows),
                                                processors),
                 time = turns * form->rows * (is_wide ? kWideTile : 1);
    if (!best || time < least) best = form, least = time;
  }
  return best;
}

static carnot_status* attention_tma_shape(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs, void* state,
                                          size_t* out_workspace_bytes) {
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  const carnot_cuda_attention_stored* stored = step->params;
  attention_tma_state* s = state;
  *s = (attention_tma_state){.operand = inputs[stored->attention.q.input].format.dtype,
                             .value_scale = stored->value_scale};
  const carnot_dtype dtype = (carnot_dtype)stored->dtype;
  const bool is_fp8 = s->operand == CARNOT_DTYPE_F8E4M3FN;
  *out_workspace_bytes = 0;
  carnot_cuda_attention_params* p = &s->params;
  CARNOT_TRY(carnot_cuda_attention_describe(&stored->attention, dtype, &stored->result, inputs,
                                            outputs, p, &s->at));
  CARNOT_TRY(check(cuda, p, &s->at));
  const int64_t processors = cuda->base.multiprocessor_count;
  s->form = choose_form(p, s->at.heads, processors);
  s->across = (int)carnot_ceildiv(p->queries, s->form->rows);
  s->tiles = (int)(s->at.heads * s->across);
  s->grid[0] = carnot_min_i64(s->tiles, processors), s->grid[1] = s->grid[2] = 1;
  if (!s->tiles) return NULL;
  p->tile_rows = s->form->rows, p->tile_keys = CARNOT_CUDA_ATTENTION_TMA_KEYS / 2;
  CARNOT_TRY(carnot_cuda_attention_find_kinds(step, dtype, s->at.heads, p, &s->kinds,
                                              out_workspace_bytes));
  const bool is_byte = p->result.type != CARNOT_CUDA_BYTE_NONE;
  CARNOT_TRY(carnot_cuda_kernel_for(cuda, s->form->kernels[is_fp8][is_byte], dtype, &s->function));
  CARNOT_CUDA_TRY(cuda,
                  cuFuncSetAttribute(s->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     (int)s->form->shared_bytes[is_fp8]));
  return NULL;
}

// [outer, inner, rows, elements] in boxes of |tile| rows; an axis along which heads repeat has one
// index, and no bit in |out_axes|.
static carnot_status* map_heads(carnot_cuda* cuda, const attention_tma_state* s,
                                const void* address, int size, int rows, const long long strides[3],
                                int tile, int* out_axes, carnot_cuda_tma_descriptor* out) {
  enum { kLeast = 16 };
  const carnot_cuda_tma_element of = s->operand == CARNOT_DTYPE_F8E4M3FN
                                         ? carnot_cuda_tma_byte(s->form->size)
                                         : carnot_cuda_tma_half(s->operand);
  const bool has_outer = strides[0] != 0, has_inner = strides[1] != 0;
  const cuuint64_t dims[4] = {(cuuint64_t)size, (cuuint64_t)rows,
                              (cuuint64_t)(has_inner ? s->params.inner : 1),
                              (cuuint64_t)(has_outer ? s->params.outer : 1)};
  cuuint64_t apart[3];
  for (int i = 0; i < 3; i++)
    apart[i] = strides[2 - i] ? (cuuint64_t)strides[2 - i] * of.bytes : kLeast;
  const cuuint32_t box[4] = {of.depth, (cuuint32_t)tile, 1, 1};
  *out_axes = has_outer | has_inner << 1;
  return carnot_cuda_tma_map_tiled(cuda, of, address, 4, dims, apart, box, out);
}

static carnot_status* attention_tma_run(const carnot_step_view* step, void* state,
                                        const carnot_operand* inputs, const carnot_operand* outputs,
                                        void* workspace, carnot_executor* executor) {
  (void)executor;
  static const int64_t kOne[3] = {1, 1, 1};
  enum { kKeys = CARNOT_CUDA_ATTENTION_TMA_KEYS };
  attention_tma_state* s = state;
  carnot_cuda* cuda = carnot_cuda_of_step(step);
  if (!s->tiles) return NULL;
  CARNOT_TRY(
      carnot_cuda_attention_bind(step, &s->at, &s->kinds, inputs, outputs, workspace, &s->params));
  const carnot_cuda_attention_params* p = &s->params;
  carnot_cuda_attention_tma_params params = {
      .attention = *p, .across = s->across, .tiles = s->tiles, .value_scale = s->value_scale};
  CARNOT_TRY(map_heads(cuda, s, p->q, p->size, p->queries, p->q_s, s->form->rows, &params.axes[0],
                       &params.q));
  CARNOT_TRY(map_heads(cuda, s, p->k, p->size, p->keys, p->k_s, kKeys, &params.axes[1], &params.k));
  CARNOT_TRY(
      map_heads(cuda, s, p->v, p->value_size, p->keys, p->v_s, kKeys, &params.axes[2], &params.v));
  const bool is_fp8 = s->operand == CARNOT_DTYPE_F8E4M3FN;
  return carnot_cuda_launch_clusters(step, s->function, s->grid, s->form->threads, kOne,
                                     s->form->shared_bytes[is_fp8], &params);
}

const carnot_tactic carnot_cuda_attention_tma = {.name = "cuda_attention_tma",
                                                 .anchor = CARNOT_OP_SOFTMAX,
                                                 .numerics = CARNOT_NUMERICS_HALF,
                                                 .device = true,
                                                 .reject = attention_tma_reject,
                                                 .prepare = carnot_cuda_attention_prepare,
                                                 .validate = carnot_cuda_attention_check,
                                                 .uses_input = carnot_cuda_attention_reads,
                                                 .configure = attention_tma_shape,
                                                 .run = attention_tma_run};

const carnot_tactic carnot_cuda_attention_fp8_tma = {.name = "cuda_attention_fp8_tma",
                                                     .anchor = CARNOT_OP_SOFTMAX,
                                                     .numerics = CARNOT_NUMERICS_HALF,
                                                     .device = true,
                                                     .reject = attention_fp8_reject,
                                                     .prepare = attention_fp8_prepare,
                                                     .validate = carnot_cuda_attention_check,
                                                     .uses_input = carnot_cuda_attention_reads,
                                                     .configure = attention_tma_shape,
                                                     .run = attention_tma_run};
