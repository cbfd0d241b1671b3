// Copies between layouts: batches of matrix transposes for row-major ↔ channels-last, any strides
// otherwise.
#include "backend/cpu/common/cpu.h"

static const char* reformat_reject(carnot_problem* problem, char* reason, size_t size) {
  (void)problem, (void)reason, (void)size;
  return "";  // the builder puts it where two layouts meet
}

typedef struct reformat_state {
  int64_t batch, m, n;  // dst[b][j][i] = src[b][i][j]: a transpose of [m,n]
  int64_t src_batch, dst_batch, src_ld, dst_ld;
  bool is_transpose;
  int64_t m_per_part, m_parts;
} reformat_state;

// [N,C,pixels] seen as matrices C × pixels or pixels × C, when both sides are dense in one of them.
static bool as_transpose(const carnot_operand* src, const carnot_operand* dst,
                         reformat_state* out) {
  if (src->rank < 3 || src->format.dtype != CARNOT_DTYPE_F32) return false;
  int64_t pixels = carnot_dims_count(src->dims + 2, src->rank - 2), channels = src->dims[1];
  int64_t row_major[CARNOT_MAX_RANK], last[CARNOT_MAX_RANK];
  carnot_layout_strides(CARNOT_LAYOUT_ROW_MAJOR, src->rank, src->dims, row_major);
  carnot_layout_strides(CARNOT_LAYOUT_CHANNELS_LAST, src->rank, src->dims, last);
  bool to_last = memcmp(src->strides, row_major, sizeof(int64_t) * (size_t)src->rank) == 0 &&
                 memcmp(dst->strides, last, sizeof(int64_t) * (size_t)src->rank) == 0;
  bool from_last = memcmp(src->strides, last, sizeof(int64_t) * (size_t)src->rank) == 0 &&
                   memcmp(dst->strides, row_major, sizeof(int64_t) * (size_t)src->rank) == 0;
  if (!to_last && !from_last) return false;
  out->batch = src->dims[0];
  out->m = to_last ? channels : pixels;
  out->n = to_last ? pixels : channels;
  out->src_batch = out->dst_batch = channels * pixels;
  out->src_ld = out->n;
  out->dst_ld = out->m;
  return true;
}

static carnot_status* reformat_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* memory,
                                         size_t* out_workspace_bytes) {
  (void)step;
  reformat_state* state = memory;
  *out_workspace_bytes = 0;
  bool same = inputs[0].rank == outputs[0].rank &&
              inputs[0].format.dtype == outputs[0].format.dtype &&
              carnot_dtype_bits(inputs[0].format.dtype) >= 8;
  for (int d = 0; same && d < inputs[0].rank; d++) same = inputs[0].dims[d] == outputs[0].dims[d];
  CARNOT_CHECK(same, INVALID_MODEL, "a reformat between different shapes or types");
  *state = (reformat_state){0};
  state->is_transpose = as_transpose(&inputs[0], &outputs[0], state);
  if (!state->is_transpose) return NULL;
  // Cut along the longer side.
  int64_t* cut = state->m >= state->n ? &state->m : &state->n;
  int64_t other = state->m >= state->n ? state->n : state->m;
  state->m_per_part =
      carnot_align_up((size_t)carnot_max_i64(16, (1 << 15) / carnot_max_i64(1, other)), 16);
  state->m_parts = carnot_ceildiv(*cut, state->m_per_part);
  return NULL;
}

typedef struct reformat_run {
  const carnot_cpu_kernels* kernels;
  const reformat_state* state;
  const carnot_operand *src, *dst;
} reformat_run;

static void reformat_part(void* argument, int64_t part) {
  const reformat_run* run = argument;
  const reformat_state* s = run->state;
  int64_t image = part / s->m_parts, first = part % s->m_parts * s->m_per_part;
  const float* src = (const float*)run->src->data + image * s->src_batch;
  float* dst = (float*)run->dst->data + image * s->dst_batch;
  bool by_rows = s->m >= s->n;
  int64_t count = carnot_min_i64(s->m_per_part, (by_rows ? s->m : s->n) - first);
  if (by_rows) {
    run->kernels->transpose_f32(count, s->n, src + first * s->src_ld, s->src_ld, dst + first,
                                s->dst_ld);
  } else {
    run->kernels->transpose_f32(s->m, count, src + first, s->src_ld, dst + first * s->dst_ld,
                                s->dst_ld);
  }
}

static carnot_status* reformat_run_all(const carnot_step_view* step, void* state,
                                       const carnot_operand* inputs, const carnot_operand* outputs,
                                       void* workspace, carnot_executor* executor) {
  (void)workspace;
  reformat_run run = {carnot_cpu_kernels_of(step->machine_isa), state, &inputs[0], &outputs[0]};
  if (!run.state->is_transpose) {
    carnot_cpu_copy(step, executor, inputs[0].rank, inputs[0].dims,
                    carnot_dtype_bits(inputs[0].format.dtype) / 8, inputs[0].data,
                    inputs[0].strides, outputs[0].data, outputs[0].strides);
    return NULL;
  }
  carnot_executor_parallel(executor, run.state->batch * run.state->m_parts, reformat_part, &run);
  return NULL;
}

const carnot_tactic carnot_tactic_reformat = {.name = "cpu_reformat",
                                              .anchor = CARNOT_OP_IDENTITY,
                                              .isa = CARNOT_ISA_SCALAR,
                                              .numerics = CARNOT_NUMERICS_EXACT,
                                              .strided_outputs = true,
                                              .takes_bf16 = true,
                                              .reject = reformat_reject,
                                              .configure = reformat_configure,
                                              .run = reformat_run_all};
