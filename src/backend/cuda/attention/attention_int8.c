// Attention regions between 8-bit integers, by integer tensor cores (sm_80). Heads are read and
// written in place, by strides.
#include <math.h>

#include "backend/cuda/attention/attention.h"
#include "kernel/cuda/attention/attention_int8_params.h"
#include "tactic/problem/int8_attention.h"

// Sums of weights and values fit in int32: keys times 255 times 255.
enum { kMostKeys = 32768 };

// Of the kernel that keeps all scores of 16 queries in registers: keys of a tile, tiles of a warp.
enum { kTileKeys = 32, kMostTiles = 4 };

typedef struct attention_int8_state {
  CUfunction function;
  carnot_cuda_attention_int8_params params;
  carnot_cuda_attention_offsets at;
  int64_t grid[3];
  unsigned threads;
} attention_int8_state;
_Static_assert(sizeof(attention_int8_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const char* reject_sizes(const carnot_problem* problem, const carnot_int8_attention* p,
                                char* reason, size_t size) {
  const carnot_attention_params* views = &p->views;
  const carnot_operand_desc *q = &problem->inputs[views->q.input],
                            *k = &problem->inputs[views->k.input],
                            *v = &problem->inputs[views->v.input];
  const int64_t most = CARNOT_CUDA_ATTENTION_MOST_ELEMENTS,
                elements = q->max[views->q.perm[q->rank - 1]],
                values = v->max[views->v.perm[v->rank - 1]],
                keys = k->max[views->k.perm[k->rank - 2]];
  if (carnot_attention_batches(&views->q) > 2 || carnot_attention_batches(&views->k) > 2 ||
      carnot_attention_batches(&views->v) > 2 || views->out.rank > 4)
    return "heads in more than two batches";
  if (elements > most || values > most)
    return carnot_cuda_reject_reason(reason, size, "heads of %lld and %lld elements, takes %lld",
                                     (long long)elements, (long long)values, (long long)most);
  return keys > kMostKeys ? carnot_cuda_reject_reason(reason, size, "up to %lld keys, takes %d",
                                                      (long long)keys, kMostKeys)
                          : NULL;
}

static const char* read_region(const carnot_problem* problem, carnot_int8_attention* out,
                               char* reason, size_t size) {
  const char* why = carnot_int8_attention_read(problem, out, reason, size);
  if (!why) why = reject_sizes(problem, out, reason, size);
  if (why) return why;
  const carnot_int8_attention_scales scales = carnot_int8_attention_scales_of(out);
  if (!isfinite(scales.scores) || !isfinite(scales.out))
    return "a product of scales exceeds float32";
  return carnot_cuda_of(problem->device)->major < 8 ? "needs sm_80" : NULL;
}

static const char* attention_int8_reject(carnot_problem* problem, char* reason, size_t size) {
  if (problem->region->node_count < 3) return "";
  carnot_int8_attention p;
  const char* why = read_region(problem, &p, reason, size);
  if (!why) carnot_cuda_want_row_major(problem);
  return why;
}

static carnot_status* attention_int8_prepare(const carnot_problem* problem, carnot_prepared* out) {
  char reason[256];
  void* params;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(carnot_int8_attention), "parameters", &params));
  const char* why = read_region(problem, params, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  out->params = params;
  out->param_bytes = sizeof(carnot_int8_attention);
  return NULL;
}

static carnot_cuda_int8_operand operand_of(const carnot_quantized_type* t) {
  return (carnot_cuda_int8_operand){.flip = t->is_signed ? 0 : 0x80808080u,
                                    .zero = t->zero - (t->is_signed ? 0 : 128)};
}

static carnot_cuda_score_rounding rounding_of(bool rounds, const carnot_quantized_type* t) {
  if (!rounds) return (carnot_cuda_score_rounding){.scale = 0};
  const int low = carnot_quantized_low(t) - t->zero;
  return (carnot_cuda_score_rounding){t->scale, (float)low, (float)(low + 255)};
}

// The numbers of the kernel, all but those of heads.
static void set_numbers(const carnot_int8_attention* p, carnot_cuda_attention_int8_params* to) {
  const carnot_int8_attention_scales scales = carnot_int8_attention_scales_of(p);
  const int weight_low = carnot_quantized_low(&p->weights), low = carnot_quantized_low(&p->out);
  int exponent;
  const bool is_power =
      p->divides && fabsf(frexpf(p->factor, &exponent)) == 0.5f && isfinite(1 / p->factor);
  to->q = operand_of(&p->q), to->k = operand_of(&p->k), to->v = operand_of(&p->v);
  to->score_scale = scales.scores;
  to->scores = rounding_of(p->rounds_scores, &p->scores);
  to->scaled = rounding_of(p->rounds_scaled, &p->scaled);
  to->masked = rounding_of(p->rounds_masked, &p->masked);
  // Division by a power of two is multiplication, to the bit.
  to->divides = p->divides && !is_power;
  to->factor = is_power ? 1 / p->factor : p->factor;
  to->weight_factor = 1 / p->weights.scale;
  to->weight_high = (float)(weight_low + 255 - p->weights.zero);
  to->out_scale = scales.out;
  to->is_quantized = p->is_quantized;
  to->out_zero = p->out.zero, to->out_low = low, to->out_high = low + 255;
}

static const struct {
  int size;
  bool aligned;
  carnot_cuda_kernel_id kernel;
} kForms[] = {
#define FORM(elements, is_aligned) \
  {elements, is_aligned, CARNOT_CUDA_KERNEL_attention_int8_##elements##_##is_aligned},
    CARNOT_CUDA_ATTENTION_INT8_FORMS(FORM)
#undef FORM
};

static const struct {
  int size, tiles;
  carnot_cuda_kernel_id kernel;
} kSplitForms[] = {
#define FORM(elements, of_a_warp) \
  {elements, of_a_warp, CARNOT_CUDA_KERNEL_attention_int8_split_##elements##_##of_a_warp},
    CARNOT_CUDA_ATTENTION_INT8_SPLIT_FORMS(FORM)
#undef FORM
};

// Sets grid and threads. Up to 1024 keys stay in registers, which took 0.56 to 1.03 of the time of
// the kernel that reads them twice (docs/performance-cuda.md, attention between 8-bit integers).
static carnot_cuda_kernel_id choose_kernel(attention_int8_state* s) {
  const carnot_cuda_attention_params* heads = &s->params.heads;
  const int size = heads->size > heads->value_size ? heads->size : heads->value_size;
  const int64_t tiles = carnot_ceildiv(heads->keys, kTileKeys),
                warps = carnot_min_i64(CARNOT_CUDA_ATTENTION_INT8_WARPS, tiles);
  const bool splits = s->at.aligned && heads->size % 16 == 0 && heads->value_size % 16 == 0 &&
                      tiles >= 1 && tiles <= kMostTiles * CARNOT_CUDA_ATTENTION_INT8_WARPS;
  size_t form = 0;
  s->grid[0] = carnot_ceildiv(heads->queries, splits ? 16 : 64);
  s->grid[1] = s->at.heads, s->grid[2] = 1;
  s->threads = splits ? 32 * (unsigned)warps : 128;
  if (splits) {
    while (kSplitForms[form].size < size || kSplitForms[form].tiles * warps < tiles) form++;
    return kSplitForms[form].kernel;
  }
  while (kForms[form].size < size || (kForms[form].aligned && !s->at.aligned)) form++;
  return kForms[form].kernel;
}

static carnot_status* attention_int8_shape(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) {
  attention_int8_state* s = state;
  const carnot_int8_attention* p = step->params;
  carnot_attention_params views = p->views;
  views.scale = 1;
  *out_workspace_bytes = 0;
  *s = (attention_int8_state){.function = NULL};
  CARNOT_TRY(carnot_int8_attention_check_types(p, inputs, &outputs[0]));
  carnot_cuda_attention_params* heads = &s->params.heads;
  CARNOT_TRY(carnot_cuda_attention_describe_heads(&views, CARNOT_DTYPE_F32, inputs, outputs, heads,
                                                  &s->at));
  CARNOT_CHECK(heads->keys <= kMostKeys && s->at.heads <= 65535, UNSUPPORTED,
               "%d keys of %lld heads, takes %d of 65535", heads->keys, (long long)s->at.heads,
               kMostKeys);
  set_numbers(p, &s->params);
  s->params.in_fours = s->at.aligned && heads->value_size % 4 == 0;
  return carnot_cuda_kernel(carnot_cuda_of_step(step), choose_kernel(s), &s->function);
}

static carnot_status* attention_int8_run(const carnot_step_view* step, void* state,
                                         const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* workspace,
                                         carnot_executor* executor) {
  (void)workspace, (void)executor;
  attention_int8_state* s = state;
  const carnot_int8_attention* p = step->params;
  carnot_cuda_attention_set_addresses(&p->views, &s->at, inputs, outputs, &s->params.heads);
  return carnot_cuda_launch(step, s->function, s->grid, s->threads, &s->params);
}

const carnot_tactic carnot_cuda_attention_int8 = {.name = "cuda_attention_int8",
                                                  .anchor = CARNOT_OP_SOFTMAX,
                                                  .numerics = CARNOT_NUMERICS_EXACT,
                                                  .device = true,
                                                  .reject = attention_int8_reject,
                                                  .prepare = attention_int8_prepare,
                                                  .validate = carnot_int8_attention_validate,
                                                  .uses_input = carnot_int8_attention_uses_input,
                                                  .configure = attention_int8_shape,
                                                  .run = attention_int8_run};
