// The mean over spatial axes between quantized values: sums of bytes in INT32, one multiplication.
//   y = min(max(rint(f32(sum - n * x_zero) * f32(double(x_scale) / (n * y_scale))) + y_zero,
//   least),
//           most)
#include <math.h>

#include "backend/cpu/common/cpu.h"
#include "tactic/problem/quantized.h"

enum { kMostElements = 1 << 22, kBlock = 64 };  // of a sum; channels summed together

// Stored in engines.
typedef struct mean_params {
  int32_t x;  // input of the step
  int32_t x_zero, y_zero, x_signed, y_signed;
  float x_scale, y_scale;
} mean_params;

static uint32_t input_of(const carnot_plan_node* node, uint32_t i) {
  return i < node->input_count ? node->inputs[i] : CARNOT_PLAN_NONE;
}

// The reduced axes are all from the third on.
static bool reduces_space(const carnot_problem* problem, const carnot_plan_node* node, int rank) {
  const uint32_t axes = input_of(node, 1);
  uint32_t set = 0;
  if (axes >= problem->input_count || !carnot_is_known(&problem->inputs[axes])) return false;
  const carnot_tensor* list = problem->inputs[axes].tensor;
  for (int64_t i = 0; i < carnot_tensor_count(list); i++) {
    int64_t axis = carnot_load_i64(list->dtype, list->data, (size_t)i);
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= rank) return false;
    set |= 1u << axis;
  }
  return rank >= 3 && set == ((1u << rank) - 1 - 3);
}

static const char* read_scale(const carnot_problem* problem, const carnot_plan_node* node,
                              carnot_dtype stored, float* scale, int32_t* zero) {
  const uint32_t s = input_of(node, 1), z = input_of(node, 2);
  if (s >= problem->input_count || !carnot_is_f32_constant(&problem->inputs[s]) ||
      carnot_tensor_count(problem->inputs[s].tensor) != 1)
    return "a scale is not one known float32 number";
  *scale = *(const float*)problem->inputs[s].tensor->data;
  *zero = 0;
  if (z == CARNOT_PLAN_NONE) return NULL;
  if (z >= problem->input_count || !carnot_is_known(&problem->inputs[z]) ||
      problem->inputs[z].format.dtype != stored ||
      carnot_tensor_count(problem->inputs[z].tensor) != 1)
    return "a zero point is not one known number of the stored type";
  *zero = (int32_t)carnot_load_i64(stored, problem->inputs[z].tensor->data, 0);
  return NULL;
}

static const char* read_problem(const carnot_problem* problem, void* params, char* reason,
                                size_t size) {
  mean_params* out = params;
  (void)reason, (void)size;
  const carnot_region* r = problem->region;
  if (r->node_count != 3 || r->nodes[0].op != CARNOT_OP_DEQUANTIZE_LINEAR ||
      r->nodes[1].op != CARNOT_OP_REDUCE || r->nodes[2].op != CARNOT_OP_QUANTIZE_LINEAR ||
      r->nodes[1].inputs[0] != r->nodes[0].outputs[0] ||
      r->nodes[2].inputs[0] != r->nodes[1].outputs[0] || problem->output_count != 1)
    return "";
  if (!carnot_attr_is(carnot_op_get(CARNOT_OP_REDUCE), &r->nodes[1].attrs, "fn", "mean"))
    return "the reduction is no mean";
  if (r->nodes[0].inputs[0] >= problem->input_count) return "the bytes are no input of the step";
  const carnot_operand_desc* x = &problem->inputs[r->nodes[0].inputs[0]];
  const carnot_dtype y = problem->outputs[0].format.dtype;
  if (!carnot_is_8bit(x->format.dtype) || !carnot_is_8bit(y))
    return "the operands are not int8 or uint8";
  if (!reduces_space(problem, &r->nodes[1], x->rank))
    return "the reduced axes are not those behind batch and channels";
  *out = (mean_params){.x = (int32_t)r->nodes[0].inputs[0],
                       .x_signed = x->format.dtype == CARNOT_DTYPE_I8,
                       .y_signed = y == CARNOT_DTYPE_I8};
  const char* why = read_scale(problem, &r->nodes[0], x->format.dtype, &out->x_scale, &out->x_zero);
  return why ? why : read_scale(problem, &r->nodes[2], y, &out->y_scale, &out->y_zero);
}

static const char* mean_reject(carnot_problem* problem, char* reason, size_t size) {
  mean_params p;
  const char* why = read_problem(problem, &p, reason, size);
  if (why) return why;
  const bool keeps = problem->outputs[0].rank == problem->inputs[p.x].rank;
  problem->inputs[p.x].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  problem->outputs[0].format.layout = keeps ? CARNOT_LAYOUT_CHANNELS_LAST : CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* mean_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_problem, sizeof(mean_params), out);
}

static carnot_status* mean_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(mean_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes, sizeof(mean_params));
  const mean_params* p = step->params;
  CARNOT_CHECK(p->x >= 0 && p->x < (int64_t)step->input_count && step->output_count == 1 &&
                   p->x_zero >= -128 && p->x_zero <= 255 && p->y_zero >= -128 && p->y_zero <= 255,
               INVALID_MODEL, "input %d of %u, zero points %d and %d", p->x, step->input_count,
               p->x_zero, p->y_zero);
  return NULL;
}

static bool mean_uses_input(const carnot_step_view* step, uint32_t input) {
  return (int64_t)input == ((const mean_params*)step->params)->x;
}

// |images| of |n| pixels by |c| channels, |stride| bytes from pixel to pixel.
typedef struct mean_state {
  int64_t images, n, c, stride, image_stride, blocks;
} mean_state;

static carnot_status* mean_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  const mean_params* p = step->params;
  const carnot_operand *x = &inputs[p->x], *y = &outputs[0];
  *out_workspace_bytes = 0;
  CARNOT_CHECK(x->format.dtype == (p->x_signed ? CARNOT_DTYPE_I8 : CARNOT_DTYPE_U8) &&
                   y->format.dtype == (p->y_signed ? CARNOT_DTYPE_I8 : CARNOT_DTYPE_U8) &&
                   x->rank >= 3,
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(y->format.dtype));
  int64_t strides[CARNOT_MAX_RANK];
  carnot_layout_strides(CARNOT_LAYOUT_CHANNELS_LAST, x->rank, x->dims, strides);
  for (int d = 0; d < x->rank; d++)
    CARNOT_CHECK(x->dims[d] == 1 || x->strides[d] == strides[d], INVALID_MODEL,
                 "the input is not dense with channels innermost");
  mean_state* s = memory;
  *s = (mean_state){.images = x->dims[0],
                    .n = carnot_dims_count(x->dims + 2, x->rank - 2),
                    .c = x->dims[1],
                    .stride = x->dims[1]};
  s->image_stride = s->n * s->c;
  s->blocks = carnot_ceildiv(s->c, kBlock);
  CARNOT_CHECK(s->n >= 1 && s->n <= kMostElements, INVALID_ARGUMENT,
               "a mean of %lld elements, takes up to %d", (long long)s->n, kMostElements);
  CARNOT_CHECK(carnot_dims_count(y->dims, y->rank) == s->images * s->c && y->rank >= 2 &&
                   (s->c == 1 || y->strides[1] == 1) && (s->images == 1 || y->strides[0] == s->c),
               INVALID_ARGUMENT, "the result has another size or layout");
  return NULL;
}

typedef struct mean_run {
  const mean_params* p;
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
  const mean_params* p = run->p;
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
  const float scale = (float)((double)p->x_scale / ((double)s->n * (double)p->y_scale));
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
  const mean_params* p = step->params;
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
                                                .validate = mean_validate,
                                                .uses_input = mean_uses_input,
                                                .configure = mean_configure,
                                                .run = mean_run_all};
