// The Attention operator: by the generic kernel, and by one for heads of whole 16-byte loads.
#include <math.h>

#include "backend/cuda/common/generic.h"
#include "kernel/cuda/attention/attention_generic_params.h"

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

static carnot_status* read_params(const carnot_step_view* step, const carnot_operand* inputs,
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

// A block for each row, up to kBlocks; each keeps the scores of a row, of |score_bytes| each.
static carnot_status* shape_rows(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, carnot_cuda_kernel_id kernel,
                                 const carnot_cuda_attention_generic_params* p, size_t score_bytes,
                                 carnot_cuda_generic_state* state, size_t* out_workspace_bytes) {
  const int64_t blocks = carnot_min_i64(p->rows, kBlocks);
  *out_workspace_bytes = (size_t)(blocks * p->keys) * score_bytes;
  CARNOT_TRY(
      carnot_cuda_generic_shape(step, inputs, outputs, kernel, blocks, p, sizeof(*p), state));
  state->blocks = true;
  return NULL;
}

static carnot_status* attention_generic_shape(const carnot_step_view* step,
                                              const carnot_operand* inputs,
                                              const carnot_operand* outputs, void* state,
                                              size_t* out_workspace_bytes) {
  carnot_cuda_attention_generic_params p;
  CARNOT_TRY(read_params(step, inputs, outputs, &p));
  return shape_rows(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_attention, &p, sizeof(double),
                    state, out_workspace_bytes);
}

// ---- heads of whole loads ----

// A head is read in a power of two of 16-byte loads, by at most a warp.
static bool is_head_size(int64_t size, carnot_dtype dtype) {
  const int64_t bytes = size * carnot_dtype_bits(dtype) / 8;
  return bytes >= 16 && bytes <= 512 && (bytes & (bytes - 1)) == 0;
}

static const char* attention_cached_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cuda_generic_op_reject(problem, reason, size);
  if (why) return why;
  const carnot_plan_node* node = &problem->region->nodes[0];
  const carnot_op_row* row = carnot_op_get(node->op);
  if (problem->region->output_count != 1) return "more results than one";
  for (uint32_t i = 4; i < 6 && i < node->input_count; i++)
    if (node->inputs[i] != CARNOT_PLAN_NONE) return "keys of a past apart from the others";
  for (uint32_t i = 0; i < 3; i++) {
    const carnot_operand_desc* t = &problem->inputs[node->inputs[i]];
    const char* attr = i == 0 ? "q_num_heads" : "kv_num_heads";
    const int64_t heads = t->rank == 3 ? carnot_attr_int(row, &node->attrs, attr) : 1;
    if (t->format.dtype != problem->outputs[0].format.dtype ||
        !carnot_cuda_is_float(t->format.dtype))
      return carnot_cuda_reject_reason(reason, size, "operands of %s and results of %s",
                                       carnot_dtype_name(t->format.dtype),
                                       carnot_dtype_name(problem->outputs[0].format.dtype));
    const int64_t last = t->dims[t->rank - 1];
    if (heads < 1 || last < 0 || last % heads || !is_head_size(last / heads, t->format.dtype))
      return carnot_cuda_reject_reason(
          reason, size,
          "%lld elements of %lld heads, takes heads of a power of two, 16 to 512 bytes",
          (long long)last, (long long)heads);
  }
  return NULL;
}

static carnot_status* attention_cached_shape(const carnot_step_view* step,
                                             const carnot_operand* inputs,
                                             const carnot_operand* outputs, void* state,
                                             size_t* out_workspace_bytes) {
  static const carnot_cuda_kernel_id kKernels[] = {CARNOT_CUDA_KERNEL_attention_cached_f32,
                                                   CARNOT_CUDA_KERNEL_attention_cached_f16,
                                                   CARNOT_CUDA_KERNEL_attention_cached_bf16};
  carnot_cuda_attention_generic_params p;
  CARNOT_TRY(read_params(step, inputs, outputs, &p));
  const carnot_dtype dtype = outputs[0].format.dtype;
  for (int i = 0; i < 3; i++)
    CARNOT_CHECK(inputs[i].format.dtype == dtype, INVALID_ARGUMENT, "operand %d is %s, must be %s",
                 i, carnot_dtype_name(inputs[i].format.dtype), carnot_dtype_name(dtype));
  CARNOT_CHECK(is_head_size(p.size, dtype) && is_head_size(p.value_size, dtype) && !p.past,
               INVALID_ARGUMENT, "heads of %lld and %lld behind %lld keys", (long long)p.size,
               (long long)p.value_size, (long long)p.past);
  const int kernel = dtype == CARNOT_DTYPE_F32 ? 0 : dtype == CARNOT_DTYPE_F16 ? 1 : 2;
  return shape_rows(step, inputs, outputs, kKernels[kernel], &p, sizeof(float), state,
                    out_workspace_bytes);
}

const carnot_tactic carnot_cuda_attention_cached = {.name = "cuda_attention_cached",
                                                    .anchor = CARNOT_OP_ATTENTION,
                                                    .numerics = CARNOT_NUMERICS_EXACT,
                                                    .device = true,
                                                    .reject = attention_cached_reject,
                                                    .configure = attention_cached_shape,
                                                    .run = carnot_cuda_generic_run};
CARNOT_CUDA_GENERIC_OP_TACTIC(attention_generic, "cuda_generic_attention", ATTENTION);
