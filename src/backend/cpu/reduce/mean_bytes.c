// The mean over spatial axes of quantized values: sums of bytes in INT32, one multiplication.
#include <math.h>

#include "backend/cpu/common/cpu.h"
#include "tactic/problem/quantized_mean.h"

enum {
  kBlock = 64,           // channels summed together where they are innermost
  kPartBytes = 1 << 15,  // of channels that lie one behind the other
};

static const char* read_problem(const carnot_problem* problem, void* params, char* reason,
                                size_t size) {
  (void)reason, (void)size;
  return carnot_quantized_mean_read(problem, params);
}

static const char* mean_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_quantized_mean p;
  const char* why = read_problem(problem, &p, reason, size);
  if (why) return why;
  const bool keeps = problem->outputs[0].rank == problem->inputs[p.x].rank,
             is_last = problem->inputs[p.x].format.layout == CARNOT_LAYOUT_CHANNELS_LAST;
  const carnot_layout layout = is_last ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR;
  problem->inputs[p.x].format.layout = layout;
  problem->outputs[0].format.layout = keeps ? layout : CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* mean_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_problem, sizeof(carnot_quantized_mean), out);
}

static bool mean_uses_input(const carnot_step_view* step, uint32_t input) {
  return (int64_t)input == ((const carnot_quantized_mean*)step->params)->x;
}

// |images| of |n| pixels by |c| channels, |pixel| and |channel| bytes apart; |block| channels a
// part.
typedef struct mean_state {
  int64_t images, n, c, pixel, channel, block, blocks;
} mean_state;

static carnot_status* mean_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  const carnot_quantized_mean* p = step->params;
  const carnot_operand *x = &inputs[p->x], *y = &outputs[0];
  const bool is_last = !carnot_cpu_is_dense(x);
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_quantized_mean_check(
      p, x, y, is_last ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR));
  mean_state* s = memory;
  *s = (mean_state){
      .images = x->dims[0], .n = carnot_dims_count(x->dims + 2, x->rank - 2), .c = x->dims[1]};
  s->pixel = is_last ? s->c : 1;
  s->channel = is_last ? 1 : s->n;
  s->block = is_last ? kBlock : carnot_min_i64(kBlock, carnot_max_i64(1, kPartBytes / s->n));
  s->blocks = carnot_ceildiv(s->c, s->block);
  return NULL;
}

typedef struct mean_run {
  const carnot_quantized_mean* p;
  const mean_state* s;
  const uint8_t* x;
  void* y;
} mean_run;

// Plain loops along what is contiguous, which the compiler vectorises.
CARNOT_CPU_INLINE void sum_block(const mean_state* s, bool is_signed, const uint8_t* x,
                                 int64_t count, int32_t* sums) {
  if (s->channel == 1) {
    for (int64_t i = 0; i < s->n; i++, x += s->pixel)
      for (int64_t j = 0; j < count; j++) sums[j] += is_signed ? (int8_t)x[j] : x[j];
    return;
  }
  for (int64_t j = 0; j < count; j++, x += s->channel)
    for (int64_t i = 0; i < s->n; i++) sums[j] += is_signed ? (int8_t)x[i] : x[i];
}

static void mean_part(void* argument, int64_t part) {
  const mean_run* run = argument;
  const carnot_quantized_mean* p = run->p;
  const mean_state* s = run->s;
  const int64_t image = part / s->blocks, first = part % s->blocks * s->block,
                count = carnot_min_i64(s->block, s->c - first), at = image * s->c + first;
  const uint8_t* x = run->x + image * s->c * s->n + first * s->channel;
  int32_t sums[kBlock] = {0};
  if (p->x_signed)
    sum_block(s, true, x, count, sums);
  else
    sum_block(s, false, x, count, sums);
  const float scale = carnot_quantized_mean_scale(p, s->n);
  const float low = p->y_signed ? -128 : 0, high = p->y_signed ? 127 : 255;
  for (int64_t j = 0; j < count; j++) {
    float v = (float)(sums[j] - (int32_t)s->n * p->x_zero) * scale;
    if (p->y_float) {
      ((float*)run->y)[at + j] = v;
      continue;
    }
    v = isnan(v) ? 0 : rintf(v);
    v += (float)p->y_zero;
    v = v < low ? low : v > high ? high : v;
    ((uint8_t*)run->y)[at + j] = (uint8_t)(int32_t)v;
  }
}

static carnot_status* mean_run_all(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)workspace;
  const carnot_quantized_mean* p = step->params;
  mean_run run = {p, state, inputs[p->x].data, outputs[0].data};
  carnot_executor_parallel(executor, run.s->images * run.s->blocks, mean_part, &run);
  return NULL;
}

const carnot_tactic carnot_tactic_mean_bytes = {.name = "cpu_mean_bytes",
                                                .anchor = CARNOT_OP_REDUCE,
                                                .isa = CARNOT_ISA_SCALAR,
                                                .numerics = CARNOT_NUMERICS_EXACT,
                                                .reject = mean_reject,
                                                .prepare = mean_prepare,
                                                .validate = carnot_quantized_mean_validate,
                                                .uses_input = mean_uses_input,
                                                .configure = mean_configure,
                                                .run = mean_run_all};
