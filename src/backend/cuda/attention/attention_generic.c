// The Attention operator by the generic kernel.
#include "backend/cuda/attention/attention_generic.h"

#include <math.h>

enum { kBlocks = 1024 };  // most blocks of attention that hold scores at a time

static carnot_status* read_heads(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_cuda_attrs* a,
                                 carnot_cuda_attention_generic_params* p) {
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

static carnot_status* read_mask(const carnot_operand* mask, int64_t batch,
                                carnot_cuda_attention_generic_params* p) {
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
                                      const carnot_operand* outputs,
                                      const carnot_cuda_attention_generic_params* p) {
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

carnot_status* carnot_cuda_attention_generic_read(const carnot_step_view* step,
                                                  const carnot_operand* inputs,
                                                  const carnot_operand* outputs,
                                                  carnot_cuda_attention_generic_params* out) {
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  *out = (carnot_cuda_attention_generic_params){
      .causal = carnot_cuda_attr(&a, "is_causal") != 0,
      .left = carnot_min_i64(carnot_cuda_attr(&a, "left_window_size"), INT32_MAX),
      .right = carnot_min_i64(carnot_cuda_attr(&a, "right_window_size"), INT32_MAX),
      .mode = (int)carnot_cuda_attr(&a, "qk_matmul_output_mode"),
      .scale = carnot_attr_float(a.row, a.attrs, "scale"),
      .softcap = carnot_attr_float(a.row, a.attrs, "softcap")};
  CARNOT_TRY(read_heads(step, inputs, &a, out));
  CARNOT_TRY(read_mask(carnot_cuda_optional(step, inputs, 3), inputs[0].dims[0], out));
  CARNOT_TRY(check_attention(step, inputs, outputs, out));
  CARNOT_CHECK(out->mode >= 0 && out->mode < 4, INVALID_MODEL, "qk_matmul_output_mode is %d",
               out->mode);
  if (!carnot_attr_has(a.attrs, "scale")) out->scale = 1 / sqrt((double)out->size);
  return NULL;
}

static carnot_status* attention_generic_shape(const carnot_step_view* step,
                                              const carnot_operand* inputs,
                                              const carnot_operand* outputs, void* state,
                                              size_t* out_workspace_bytes) {
  carnot_cuda_attention_generic_params p;
  carnot_cuda_generic_state* s = state;
  CARNOT_TRY(carnot_cuda_attention_generic_read(step, inputs, outputs, &p));
  const int64_t blocks = carnot_min_i64(p.rows, kBlocks);
  *out_workspace_bytes = (size_t)(blocks * p.keys) * sizeof(double);
  CARNOT_TRY(carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_attention,
                                       blocks, &p, sizeof(p), s));
  s->blocks = true;
  return NULL;
}

CARNOT_CUDA_GENERIC_OP_TACTIC(attention_generic, "cuda_generic_attention", ATTENTION);
