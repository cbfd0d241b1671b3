// Layers over heads in their plain form: attention as one operator, rotary embedding, linear
// attention, convolution along time with a state.
#include <math.h>

#include "backend/cuda/each.h"

enum { kBlocks = 1024 };  // most blocks of attention that hold scores at a time

// ---- attention ----

static carnot_status* read_heads(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_cuda_attrs* a, carnot_cuda_heads* p) {
  const carnot_operand *q = &inputs[0], *k = &inputs[1], *v = &inputs[2],
                       *past = carnot_cuda_optional(step, inputs, 4);
  CARNOT_CHECK(step->input_count >= 3 && (q->rank == 3 || q->rank == 4) && k->rank == q->rank &&
                   v->rank == q->rank && (!past->format.dtype || past->rank == 4),
               INVALID_MODEL, "%u operands, queries of rank %d", step->input_count, q->rank);
  p->heads_last = q->rank == 3;
  p->q_heads = p->heads_last ? carnot_cuda_attr(a, "q_num_heads") : q->dims[1];
  p->kv_heads = p->heads_last ? carnot_cuda_attr(a, "kv_num_heads") : k->dims[1];
  CARNOT_CHECK(p->q_heads > 0 && p->kv_heads > 0 && p->q_heads % p->kv_heads == 0, INVALID_MODEL,
               "%lld query heads and %lld key heads; a multiple is required", (long long)p->q_heads,
               (long long)p->kv_heads);
  p->queries = q->dims[p->heads_last ? 1 : 2];
  p->past = past->format.dtype ? past->dims[2] : 0;
  p->keys = p->past + k->dims[p->heads_last ? 1 : 2];
  p->size = p->heads_last ? q->dims[2] / p->q_heads : q->dims[3];
  p->value_size = p->heads_last ? v->dims[2] / p->kv_heads : v->dims[3];
  p->rows = q->dims[0] * p->q_heads * p->queries;
  return NULL;
}

static carnot_status* read_mask(const carnot_operand* mask, int64_t batch, carnot_cuda_heads* p) {
  CARNOT_TRY(carnot_cuda_on_device(mask, 1));
  if (!mask->format.dtype) return NULL;
  const int64_t want[3] = {batch, p->q_heads, p->queries};
  CARNOT_CHECK(mask->rank >= 1 && mask->rank <= 4 && mask->dims[mask->rank - 1] <= p->keys,
               INVALID_ARGUMENT, "a mask of rank %d", mask->rank);
  p->mask_length = mask->dims[mask->rank - 1];
  int64_t stride = p->mask_length;
  for (int d = mask->rank - 2, to = 2; d >= 0; d--, to--) {
    CARNOT_CHECK(mask->dims[d] == 1 || mask->dims[d] == want[to], INVALID_ARGUMENT,
                 "dimension %d of the mask is %lld; 1 or %lld is required", d,
                 (long long)mask->dims[d], (long long)want[to]);
    p->mask_s[to] = mask->dims[d] == 1 ? 0 : stride;
    stride *= mask->dims[d];
  }
  return NULL;
}

static carnot_status* check_attention(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, const carnot_cuda_heads* p) {
  int64_t batch = inputs[0].dims[0], kv = batch * p->kv_heads, fresh = p->keys - p->past;
  CARNOT_TRY(carnot_cuda_expect(&inputs[0], "Q", p->rows * p->size));
  CARNOT_TRY(carnot_cuda_expect(&inputs[1], "K", kv * fresh * p->size));
  CARNOT_TRY(carnot_cuda_expect(&inputs[2], "V", kv * fresh * p->value_size));
  const carnot_operand *past_k = carnot_cuda_optional(step, inputs, 4),
                       *past_v = carnot_cuda_optional(step, inputs, 5);
  CARNOT_CHECK(!past_k->format.dtype == !past_v->format.dtype, INVALID_MODEL,
               "past_key without past_value");
  CARNOT_TRY(carnot_cuda_expect(past_k, "past_key", kv * p->past * p->size));
  CARNOT_TRY(carnot_cuda_expect(past_v, "past_value", kv * p->past * p->value_size));
  CARNOT_TRY(carnot_cuda_expect(carnot_cuda_optional(step, inputs, 6), "nonpad_kv_seqlen", batch));
  const int64_t results[] = {p->rows * p->value_size, kv * p->keys * p->size,
                             kv * p->keys * p->value_size, p->rows * p->keys};
  for (uint32_t i = 0; i < 4; i++)
    CARNOT_TRY(carnot_cuda_expect(carnot_cuda_output(step, outputs, i), "a result", results[i]));
  CARNOT_CHECK(carnot_cuda_output(step, outputs, 0)->format.dtype, INVALID_MODEL, "no result");
  return NULL;
}

static carnot_status* attention_plain_shape(const carnot_step_view* step,
                                            const carnot_operand* inputs,
                                            const carnot_operand* outputs, void* state,
                                            size_t* out_workspace_bytes) {
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  carnot_cuda_heads p = {
      .causal = carnot_cuda_attr(&a, "is_causal") != 0,
      .left = carnot_min_i64(carnot_cuda_attr(&a, "left_window_size"), INT32_MAX),
      .right = carnot_min_i64(carnot_cuda_attr(&a, "right_window_size"), INT32_MAX),
      .mode = (int)carnot_cuda_attr(&a, "qk_matmul_output_mode"),
      .scale = carnot_attr_float(a.row, a.attrs, "scale"),
      .softcap = carnot_attr_float(a.row, a.attrs, "softcap")};
  CARNOT_TRY(read_heads(step, inputs, &a, &p));
  CARNOT_TRY(read_mask(carnot_cuda_optional(step, inputs, 3), inputs[0].dims[0], &p));
  CARNOT_TRY(check_attention(step, inputs, outputs, &p));
  CARNOT_CHECK(p.mode >= 0 && p.mode < 4, INVALID_MODEL, "qk_matmul_output_mode is %d", p.mode);
  if (!carnot_attr_has(a.attrs, "scale")) p.scale = 1 / sqrt((double)p.size);
  int64_t blocks = carnot_min_i64(p.rows, kBlocks);
  *out_workspace_bytes = (size_t)(blocks * p.keys) * sizeof(double);
  CARNOT_TRY(
      carnot_cuda_each_shape(step, inputs, outputs, "attention", blocks, &p, sizeof(p), state));
  ((carnot_cuda_each*)state)->blocks = true;
  return NULL;
}
CARNOT_CUDA_PLAIN_ROW(attention_plain, "cuda_attention_plain", ATTENTION);

// ---- rotary embedding ----

static carnot_status* rotary_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *cosines = &inputs[1],
                       *places = carnot_cuda_optional(step, inputs, 3);
  CARNOT_CHECK(step->input_count >= 3 && (x->rank == 3 || x->rank == 4), INVALID_MODEL,
               "%u operands, x of rank %d", step->input_count, x->rank);
  carnot_cuda_heads p = {.heads_last = x->rank == 3,
                         .turned = carnot_cuda_attr(&a, "rotary_embedding_dim"),
                         .interleaved = carnot_cuda_attr(&a, "interleaved") != 0};
  p.q_heads = p.heads_last ? carnot_cuda_attr(&a, "num_heads") : x->dims[1];
  CARNOT_CHECK(p.q_heads > 0, INVALID_MODEL, "%lld heads", (long long)p.q_heads);
  p.queries = x->dims[p.heads_last ? 1 : 2];
  p.size = p.heads_last ? x->dims[2] / p.q_heads : x->dims[3];
  if (!p.turned) p.turned = p.size;
  int64_t half = p.turned / 2, steps = x->dims[0] * p.queries;
  CARNOT_CHECK(half > 0 && p.turned % 2 == 0 && p.turned <= p.size, INVALID_MODEL,
               "%lld elements turn of a head of %lld", (long long)p.turned, (long long)p.size);
  p.rows = places->format.dtype ? carnot_cuda_count(cosines) / half : steps;
  CARNOT_TRY(carnot_cuda_expect(x, "x", steps * p.q_heads * p.size));
  CARNOT_TRY(carnot_cuda_expect(cosines, "cos_cache", p.rows * half));
  CARNOT_TRY(carnot_cuda_expect(&inputs[2], "sin_cache", p.rows * half));
  CARNOT_TRY(carnot_cuda_expect(places, "position_ids", steps));
  CARNOT_TRY(carnot_cuda_expect(&outputs[0], "the result", carnot_cuda_count(x)));
  return carnot_cuda_each_shape(step, inputs, outputs, "rotary", carnot_cuda_count(x), &p,
                                sizeof(p), state);
}
CARNOT_CUDA_PLAIN_ROW(rotary, "cuda_rotary", ROTARY_EMBEDDING);

// ---- linear attention ----

static carnot_status* linear_attention_shape(const carnot_step_view* step,
                                             const carnot_operand* inputs,
                                             const carnot_operand* outputs, void* state,
                                             size_t* out_workspace_bytes) {
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *q = &inputs[0], *v = &inputs[2],
                       *decay = carnot_cuda_optional(step, inputs, 4),
                       *beta = carnot_cuda_optional(step, inputs, 5);
  carnot_cuda_heads p = {.q_heads = carnot_cuda_attr(&a, "q_num_heads"),
                         .kv_heads = carnot_cuda_attr(&a, "kv_num_heads"),
                         .scale = carnot_attr_float(a.row, a.attrs, "scale")};
  CARNOT_CHECK(step->input_count >= 3 && q->rank == 3 && v->rank == 3 && p.q_heads > 0 &&
                   p.kv_heads > 0 && p.q_heads % p.kv_heads == 0,
               INVALID_MODEL, "%lld query heads and %lld key heads", (long long)p.q_heads,
               (long long)p.kv_heads);
  p.queries = q->dims[1];
  p.size = q->dims[2] / p.q_heads, p.value_size = v->dims[2] / p.kv_heads;
  if (p.scale == 0) p.scale = 1 / sqrt((double)p.size);
  p.decay_width = decay->format.dtype && decay->rank ? decay->dims[decay->rank - 1] : p.kv_heads;
  p.beta_width = beta->format.dtype && beta->rank ? beta->dims[beta->rank - 1] : 1;
  CARNOT_CHECK((p.decay_width == p.kv_heads || p.decay_width == p.kv_heads * p.size) &&
                   (p.beta_width == p.kv_heads || p.beta_width == 1),
               INVALID_ARGUMENT, "decay is %lld wide, beta %lld", (long long)p.decay_width,
               (long long)p.beta_width);
  int64_t steps = q->dims[0] * p.queries, columns = q->dims[0] * p.kv_heads * p.value_size;
  CARNOT_TRY(carnot_cuda_expect(q, "Q", steps * p.q_heads * p.size));
  CARNOT_TRY(carnot_cuda_expect(&inputs[1], "K", steps * p.kv_heads * p.size));
  CARNOT_TRY(carnot_cuda_expect(v, "V", steps * p.kv_heads * p.value_size));
  CARNOT_TRY(
      carnot_cuda_expect(carnot_cuda_optional(step, inputs, 3), "past_state", columns * p.size));
  CARNOT_TRY(carnot_cuda_expect(decay, "decay", steps * p.decay_width));
  CARNOT_TRY(carnot_cuda_expect(beta, "beta", steps * p.beta_width));
  CARNOT_TRY(carnot_cuda_expect(carnot_cuda_output(step, outputs, 0), "the result",
                                steps * p.q_heads * p.value_size));
  CARNOT_TRY(
      carnot_cuda_expect(carnot_cuda_output(step, outputs, 1), "present_state", columns * p.size));
  *out_workspace_bytes = (size_t)(columns * p.size) * sizeof(double);
  return carnot_cuda_each_shape(step, inputs, outputs, "linear_attention", columns, &p, sizeof(p),
                                state);
}
CARNOT_CUDA_PLAIN_ROW(linear_attention, "cuda_linear_attention", LINEAR_ATTENTION);

// ---- convolution along time with a state ----

static carnot_status* causal_conv_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *w = &inputs[1];
  CARNOT_CHECK(step->input_count >= 2 && x->rank == 3 && w->rank == 3 && w->dims[2] > 0,
               INVALID_MODEL, "%u operands, x of rank %d", step->input_count, x->rank);
  carnot_cuda_causal p = {.length = x->dims[2],
                          .taps = w->dims[2],
                          .channels = x->dims[1],
                          .silu = !carnot_attr_is(a.row, a.attrs, "activation", "none")};
  int64_t lanes = x->dims[0] * x->dims[1], before = p.taps - 1;
  CARNOT_TRY(carnot_cuda_expect(x, "x", lanes * p.length));
  CARNOT_TRY(carnot_cuda_expect(w, "weights", p.channels * p.taps));
  CARNOT_TRY(carnot_cuda_expect(carnot_cuda_optional(step, inputs, 2), "the bias", p.channels));
  CARNOT_TRY(
      carnot_cuda_expect(carnot_cuda_optional(step, inputs, 3), "past_state", lanes * before));
  CARNOT_TRY(
      carnot_cuda_expect(carnot_cuda_output(step, outputs, 0), "the result", lanes * p.length));
  CARNOT_TRY(
      carnot_cuda_expect(carnot_cuda_output(step, outputs, 1), "present_state", lanes * before));
  return carnot_cuda_each_shape(step, inputs, outputs, "causal_conv", lanes * (p.length + before),
                                &p, sizeof(p), state);
}
CARNOT_CUDA_PLAIN_ROW(causal_conv, "cuda_causal_conv", CAUSAL_CONV_WITH_STATE);
