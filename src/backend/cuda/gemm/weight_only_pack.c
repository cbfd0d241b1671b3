// GEMM of floats by packed integer weights: the region, packed constants.
#include "backend/cuda/gemm/weight_only_pack.h"

#include <stdlib.h>
#include <string.h>

static int64_t steps_of_tile(const carnot_cuda_weight_only_step* p) { return p->bits == 4 ? 4 : 2; }
int64_t carnot_cuda_weight_only_tile_depth(const carnot_cuda_weight_only_step* p) {
  return steps_of_tile(p) * 16;
}
int64_t carnot_cuda_weight_only_tiles(const carnot_cuda_weight_only_step* p) {
  return carnot_ceildiv(p->k, carnot_cuda_weight_only_tile_depth(p));
}
int64_t carnot_cuda_weight_only_blocks(const carnot_cuda_weight_only_step* p) {
  return ((carnot_cuda_weight_only_tiles(p) * steps_of_tile(p) - 1) >> p->shift) + 1;
}
int64_t carnot_cuda_weight_only_column_groups(const carnot_cuda_weight_only_step* p) {
  return carnot_ceildiv(p->n, 16);
}
size_t carnot_cuda_weight_only_weight_bytes(const carnot_cuda_weight_only_step* p) {
  return (size_t)(carnot_cuda_weight_only_column_groups(p) * carnot_cuda_weight_only_tiles(p) *
                  CARNOT_CUDA_WEIGHT_ONLY_TILE);
}
size_t carnot_cuda_weight_only_scale_count(const carnot_cuda_weight_only_step* p) {
  return (size_t)(carnot_cuda_weight_only_column_groups(p) * carnot_cuda_weight_only_blocks(p) *
                  16);
}
int carnot_cuda_weight_only_groups(const carnot_cuda_weight_only_step* p) {
  return p->bits == 8 ? 2 : p->shift >= 2 ? 1 : 4;
}
int carnot_cuda_weight_only_scale_bytes(const carnot_cuda_weight_only_step* p) {
  return p->scale_dtype == CARNOT_DTYPE_F32 ? 4 : 2;
}

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
                                 const carnot_weight_only_problem* view,
                                 carnot_cuda_weight_only_step* out, float* bias) {
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

static const char* read_blocks(const carnot_weight_only_problem* view,
                               carnot_cuda_weight_only_step* out, char* reason, size_t size) {
  out->shift = CARNOT_CUDA_WEIGHT_ONLY_ONE_BLOCK;
  if (view->block >= view->k) return NULL;
  for (out->shift = 0; (int64_t)16 << out->shift < view->block;) out->shift++;
  if ((int64_t)16 << out->shift == view->block) return NULL;
  return carnot_cuda_reject_reason(reason, size, "blocks of %lld, takes powers of two from 16 on",
                                   (long long)view->block);
}

const char* carnot_cuda_weight_only_read(const carnot_problem* problem,
                                         carnot_weight_only_problem* view,
                                         carnot_cuda_weight_only_step* out, float* bias,
                                         char* reason, size_t size) {
  const char* why = carnot_weight_only_read(problem, view, reason, size);
  if (why) return why;
  const carnot_operand_desc *a = &problem->inputs[view->gemm.a], *y = &problem->outputs[0];
  *out = (carnot_cuda_weight_only_step){.n = view->n,
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
  if (view->n > CARNOT_CUDA_WEIGHT_ONLY_MAX_COLUMNS || view->k > INT32_MAX / 2)
    return "too many weights";
  out->scale_dtype = CARNOT_DTYPE_F32;
  // The kernels read scales of 16 bits in the type of a BF16 operand, FP16 beside the others.
  const carnot_dtype stored = problem->inputs[view->scales].format.dtype,
                     half = a->format.dtype == CARNOT_DTYPE_BF16 ? CARNOT_DTYPE_BF16
                                                                 : CARNOT_DTYPE_F16;
  if (stored == half && view->gemm.alpha == 1) out->scale_dtype = (int32_t)stored;
  why = read_blocks(view, out, reason, size);
  return why ? why : read_epilogue(problem, view, out, bias);
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

// Four numbers along K, the first in the lowest byte, in the order of gemm_weight_only_params.h.
static uint32_t interleave(uint32_t q) {
  return (q & 0xff0000ffu) | (q >> 8 & 0xff00u) | (q << 8 & 0xff0000u);
}

// Numbers |k| to |k + 3| of column |n| of |numbers| [n,k], zero outside.
static uint32_t four_numbers(const carnot_cuda_weight_only_step* p, const uint8_t* numbers,
                             int64_t n, int64_t k) {
  uint32_t q = 0;
  if (n >= p->n || k >= p->k) return 0;
  const uint8_t* from = numbers + n * p->k + k;
  if (k + 4 <= p->k)
    memcpy(&q, from, 4);
  else
    memcpy(&q, from, (size_t)(p->k - k));
  return q;
}

static void pack_weights(const carnot_cuda_weight_only_step* p, const uint8_t* numbers,
                         uint8_t* out) {
  const int64_t tiles = carnot_cuda_weight_only_tiles(p), steps = steps_of_tile(p);
  uint32_t* to = (uint32_t*)out;
  for (int64_t n0 = 0; n0 < p->n; n0 += 16)
    for (int64_t k0 = 0; k0 < tiles * steps * 16; k0 += steps * 16)
      for (int64_t lane = 0; lane < 32; lane++)
        for (int64_t step = 0; step < steps; step++) {
          const int64_t n = n0 + lane / 4, k = k0 + step * 16 + lane % 4 * 4;
          const uint32_t low = four_numbers(p, numbers, n, k),
                         high = four_numbers(p, numbers, n + 8, k);
          if (p->bits == 8)
            *to++ = low, *to++ = high;
          else
            *to++ = interleave(low) | interleave(high) << 4;
        }
}

static carnot_status* make_weights(const carnot_problem* problem,
                                   const carnot_weight_only_problem* view,
                                   const carnot_cuda_weight_only_step* p, carnot_prepared* out) {
  void *packed, *numbers;
  CARNOT_TRY(new_constant(out, CARNOT_CUDA_WEIGHT_ONLY_WEIGHTS,
                          p->bits == 4 ? "n16k64 mma u4" : "n16k32 mma u8",
                          carnot_cuda_weight_only_weight_bytes(p), &packed));
  CARNOT_TRY(carnot_calloc((size_t)view->k, (size_t)view->n, "weights before packing", &numbers));
  carnot_weight_only_numbers(problem, view, numbers);
  pack_weights(p, numbers, packed);
  free(numbers);
  return NULL;
}

// Scales times alpha, and zero points where they differ.
static carnot_status* make_scales(const carnot_problem* problem,
                                  const carnot_weight_only_problem* view,
                                  carnot_cuda_weight_only_step* p, carnot_prepared* out) {
  const int64_t blocks = carnot_ceildiv(view->k, view->block);
  const carnot_operand_desc* from = &problem->inputs[view->scales];
  void *scales, *zeros = NULL;
  p->zero = carnot_weight_only_zero(problem, view, 0, 0);
  for (int64_t n = 0; n < view->n && !p->has_zeros; n++)
    for (int64_t b = 0; b < blocks && !p->has_zeros; b++)
      p->has_zeros = carnot_weight_only_zero(problem, view, b, n) != p->zero;
  CARNOT_TRY(new_constant(
      out, CARNOT_CUDA_WEIGHT_ONLY_SCALES,
      p->scale_dtype == CARNOT_DTYPE_F32 ? "n16 f32 scales" : "n16 16-bit scales",
      carnot_cuda_weight_only_scale_count(p) * (size_t)carnot_cuda_weight_only_scale_bytes(p),
      &scales));
  if (p->has_zeros)
    CARNOT_TRY(new_constant(out, CARNOT_CUDA_WEIGHT_ONLY_ZEROS, "n16 u16 zero points",
                            carnot_cuda_weight_only_scale_count(p) * 2, &zeros));
  for (int64_t n = 0; n < view->n; n++)
    for (int64_t b = 0; b < blocks; b++) {
      const int64_t at =
          ((n / 16 * carnot_cuda_weight_only_blocks(p) + b) * 8 + n % 8) * 2 + n / 8 % 2;
      if (p->scale_dtype != CARNOT_DTYPE_F32)
        ((uint16_t*)scales)[at] =
            ((const uint16_t*)from->tensor->data)[b * view->scale_k + n * view->scale_n];
      else
        ((float*)scales)[at] = carnot_weight_only_scale(problem, view, b, n) * p->alpha;
      if (zeros) ((uint16_t*)zeros)[at] = (uint16_t)carnot_weight_only_zero(problem, view, b, n);
    }
  return NULL;
}

carnot_status* carnot_cuda_weight_only_prepare(const carnot_problem* problem,
                                               carnot_prepared* out) {
  void *params, *bias;
  char reason[256];
  carnot_weight_only_problem view;
  CARNOT_TRY(
      carnot_arena_try(out->arena, 1, sizeof(carnot_cuda_weight_only_step), "parameters", &params));
  carnot_cuda_weight_only_step* p = params;
  const char* why = carnot_weight_only_read(problem, &view, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  CARNOT_TRY(new_constant(out, CARNOT_CUDA_WEIGHT_ONLY_BIAS, "dense f32",
                          (size_t)view.n * sizeof(float), &bias));
  why = carnot_cuda_weight_only_read(problem, &view, p, bias, reason, sizeof(reason));
  CARNOT_CHECK(!why, INTERNAL, "a tactic that took the problem rejects it: %s", why);
  CARNOT_TRY(make_weights(problem, &view, p, out));
  CARNOT_TRY(make_scales(problem, &view, p, out));
  out->constant_count =
      p->has_zeros ? CARNOT_CUDA_WEIGHT_ONLY_ZEROS + 1 : CARNOT_CUDA_WEIGHT_ONLY_ZEROS;
  out->params = params;
  out->param_bytes = sizeof(*p);
  for (uint32_t i = 0; i < problem->input_count; i++)
    if ((int64_t)i != p->x && (int64_t)i != p->residual) out->packed_inputs |= (uint64_t)1 << i;
  return NULL;
}
