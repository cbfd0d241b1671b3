// RotaryEmbedding, of 16-bit pairs by a kernel of their own, and LinearAttention.
#include <math.h>

#include "backend/cuda/common/generic.h"
#include "kernel/cuda/attention/attention_generic_params.h"
#include "kernel/cuda/attention/rotary_params.h"

// ---- rotary embedding ----

static carnot_status* rotary_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *x = &inputs[0], *cosines = &inputs[1],
                       *positions = carnot_cuda_optional(step, inputs, 3);
  CARNOT_CHECK(step->input_count >= 3 && (x->rank == 3 || x->rank == 4), INVALID_MODEL,
               "%u operands, x of rank %d", step->input_count, x->rank);
  carnot_cuda_attention_generic_params p = {
      .heads_last = x->rank == 3,
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
  p.rows = carnot_cuda_count(cosines) / half;
  CARNOT_CHECK(positions->format.dtype || p.rows == steps || p.rows == p.queries, INVALID_MODEL,
               "cosines of %lld positions for %lld", (long long)p.rows, (long long)steps);
  CARNOT_TRY(carnot_cuda_expect(x, "x", steps * p.q_heads * p.size));
  CARNOT_TRY(carnot_cuda_expect(cosines, "cos_cache", p.rows * half));
  CARNOT_TRY(carnot_cuda_expect(&inputs[2], "sin_cache", p.rows * half));
  CARNOT_TRY(carnot_cuda_expect(positions, "position_ids", steps));
  CARNOT_TRY(carnot_cuda_expect(&outputs[0], "the result", carnot_cuda_count(x)));
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_rotary,
                                   carnot_cuda_count(x), &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_OP_TACTIC(rotary, "cuda_rotary", ROTARY_EMBEDDING);

// ---- pairs that lie side by side ----

typedef struct pairs_state {
  CUfunction function;
  carnot_cuda_rotary_params params;
} pairs_state;
_Static_assert(sizeof(pairs_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const carnot_cuda_kernel_id kPairs[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_HALF_TYPES(CARNOT_CUDA_BY_TYPE, rotary_pairs)};

static const char* pairs_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_ROTARY_EMBEDDING)) return "";
  const carnot_plan_node* node = &problem->region->nodes[0];
  const carnot_dtype dtype = problem->inputs[0].format.dtype;
  carnot_cuda_want_row_major(problem);
  if (!carnot_attr_int(carnot_op_get(node->op), &node->attrs, "interleaved"))
    return "pairs lie half a head apart";
  if (problem->input_count != 3 || problem->inputs[0].rank != 3)
    return "takes rows of heads, without position_ids";
  for (int i = 0; i < 3; i++)
    if (!kPairs[dtype] || problem->inputs[i].format.dtype != dtype)
      return carnot_cuda_reject_reason(reason, size, "an operand of %s, takes 16-bit floats",
                                       carnot_dtype_name(problem->inputs[i].format.dtype));
  return NULL;
}

static carnot_status* pairs_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, void* state,
                                      size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  pairs_state* s = state;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand* x = &inputs[0];
  const int64_t heads = carnot_cuda_attr(&a, "num_heads"), count = carnot_cuda_count(x);
  CARNOT_CHECK(x->rank == 3 && heads > 0 && x->dims[2] % heads == 0 && count <= INT32_MAX,
               INVALID_MODEL, "%lld elements of %lld heads", (long long)count, (long long)heads);
  const int64_t size = x->dims[2] / heads, given = carnot_cuda_attr(&a, "rotary_embedding_dim"),
                turned = given ? given : size, rows = carnot_cuda_count(&inputs[1]) * 2 / turned;
  CARNOT_CHECK(size % 8 == 0 && turned % 8 == 0 && turned <= size, UNSUPPORTED,
               "%lld elements of %lld turn; eights are required", (long long)turned,
               (long long)size);
  CARNOT_CHECK(rows == x->dims[1] || rows == x->dims[0] * x->dims[1], INVALID_MODEL,
               "cosines of %lld positions for %lld", (long long)rows, (long long)x->dims[1]);
  CARNOT_TRY(carnot_cuda_expect(x, "x", count));
  CARNOT_TRY(carnot_cuda_expect(&inputs[1], "cos_cache", rows * turned / 2));
  CARNOT_TRY(carnot_cuda_expect(&inputs[2], "sin_cache", rows * turned / 2));
  CARNOT_TRY(carnot_cuda_expect(&outputs[0], "the result", count));
  *s = (pairs_state){.params = {.count = (int)(count / 8),
                                .eights = (int)(size / 8),
                                .turned = (int)(turned / 8),
                                .heads = (int)heads,
                                .rows = (int)rows}};
  return carnot_cuda_kernel_for(carnot_cuda_of_step(step), kPairs, x->format.dtype, &s->function);
}

static carnot_status* pairs_run(const carnot_step_view* step, void* state,
                                const carnot_operand* inputs, const carnot_operand* outputs,
                                void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  pairs_state* s = state;
  s->params.x = inputs[0].data, s->params.y = outputs[0].data;
  s->params.cosines = inputs[1].data, s->params.sines = inputs[2].data;
  return carnot_cuda_launch_threads(step, s->function, s->params.count, &s->params);
}

const carnot_tactic carnot_cuda_rotary_pairs = {.name = "cuda_rotary_pairs",
                                                .anchor = CARNOT_OP_ROTARY_EMBEDDING,
                                                .numerics = CARNOT_NUMERICS_EXACT,
                                                .device = true,
                                                .reject = pairs_reject,
                                                .configure = pairs_configure,
                                                .run = pairs_run};

// ---- linear attention ----

static carnot_status* linear_attention_shape(const carnot_step_view* step,
                                             const carnot_operand* inputs,
                                             const carnot_operand* outputs, void* state,
                                             size_t* out_workspace_bytes) {
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  const carnot_operand *q = &inputs[0], *v = &inputs[2],
                       *decay = carnot_cuda_optional(step, inputs, 4),
                       *beta = carnot_cuda_optional(step, inputs, 5);
  carnot_cuda_attention_generic_params p = {.q_heads = carnot_cuda_attr(&a, "q_num_heads"),
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
  return carnot_cuda_generic_shape(step, inputs, outputs,
                                   CARNOT_CUDA_KERNEL_generic_linear_attention, columns, &p,
                                   sizeof(p), state);
}
CARNOT_CUDA_GENERIC_OP_TACTIC(linear_attention, "cuda_linear_attention", LINEAR_ATTENTION);
