// The mean over spatial axes between quantized values: sums of bytes in INT32, one multiplication.
#include <math.h>

#include "backend/cpu/common/cpu.h"
#include "tactic/problem/quantized_mean.h"

enum { kBlock = 64 };  // channels summed together

static const char* read_problem(const carnot_problem* problem, void* params, char* reason,
                                size_t size) {
  (void)reason, (void)size;
  return carnot_quantized_mean_read(problem, params);
}

static const char* mean_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_quantized_mean p;
  const char* why = read_problem(problem, &p, reason, size);
  if (why) return why;
  const bool keeps = problem->outputs[0].rank == problem->inputs[p.x].rank;
  problem->inputs[p.x].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  problem->outputs[0].format.layout = keeps ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* mean_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_problem, sizeof(carnot_quantized_mean), out);
}

static bool mean_uses_input(const carnot_step_view* step, uint32_t input) {
  return (int64_t)input == ((const carnot_quantized_mean*)step->params)->x;
}

// |images| of |n| pixels by |c| channels, |stride| bytes from pixel to pixel.
typedef struct mean_state {
  int64_t images, n, c, stride, image_stride, blocks;
} mean_state;

static carnot_status* mean_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  const carnot_quantized_mean* p = step->params;
  const carnot_operand *x = &inputs[p->x], *y = &outputs[0];
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_quantized_mean_check(p, x, y));
  mean_state* s = memory;
  *s = (mean_state){.images = x->dims[0],
                    .n = carnot_dims_count(x->dims + 2, x->rank - 2),
                    .c = x->dims[1],
                    .stride = x->dims[1]};
  s->image_stride = s->n * s->c;
  s->blocks = carnot_ceildiv(s->c, kBlock);
  return NULL;
}

typedef struct mean_run {
  const carnot_quantized_mean* p;
  const mean_state* s;
  const uint8_t* x;
  uint8_t* y;
} mean_run;

// Plain loops over the channels, which the compiler vectorises.
static void sum_block(const mean_state* s, bool is_signed, const uint8_t* x, int64_t count,
                      int32_t* sums) {
  for (int64_t i = 0; i < s->n; i++, x += s->stride)
    for (int64_t j = 0; j < count; j++) sums[j] += is_signed ? (int8_t)x[j] : x[j];
}

static void mean_part(void* argument, int64_t part) {
  const mean_run* run = argument;
  const carnot_quantized_mean* p = run->p;
  const mean_state* s = run->s;
  const int64_t image = part / s->blocks, first = part % s->blocks * kBlock,
                count = carnot_min_i64(kBlock, s->c - first);
  const uint8_t* x = run->x + image * s->image_stride + first;
  uint8_t* y = run->y + image * s->c + first;
  int32_t sums[kBlock] = {0};
  if (p->x_signed)
    sum_block(s, true, x, count, sums);
  else
    sum_block(s, false, x, count, sums);
  const float scale = carnot_quantized_mean_scale(p, s->n);
  const float low = p->y_signed ? -128 : 0, high = p->y_signed ? 127 : 255;
  for (int64_t j = 0; j < count; j++) {
    float v = rintf((float)(sums[j] - (int32_t)s->n * p->x_zero) * scale);
    v = (isnan(v) ? 0 : v) + (float)p->y_zero;
    v = v < low ? low : v > high ? high : v;
    y[j] = (uint8_t)(int32_t)v;
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
