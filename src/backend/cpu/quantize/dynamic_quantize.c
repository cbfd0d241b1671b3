// DynamicQuantizeLinear: the range by vector reductions over parts, then the quantization.
#include "backend/cpu/quantize/dynamic_quantize.h"

#include <math.h>

#include "backend/cpu/common/isa_variants.h"

enum { kPart = 1 << 14 };

static const char* dynamic_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR || problem->region->node_count != 1) return "";
  if (problem->output_count != 3) return "not all results are wanted";
  const char* why =
      carnot_not_f32(&problem->inputs[0], "the input", 0, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  // Elements stay where they are.
  if (problem->inputs[0].format.layout != CARNOT_LAYOUT_CHANNELS_LAST)
    problem->inputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = problem->inputs[0].format.layout;
  for (int i = 1; i < 3; i++) problem->outputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* dynamic_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->region->node_count == 1 && step->input_count == 1 && step->output_count == 3 &&
                   step->region->nodes[0].op == CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR,
               INVALID_MODEL, "the step does not quantize");
  return NULL;
}

static carnot_status* dynamic_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* memory,
                                        size_t* out_workspace_bytes) {
  (void)step;
  int64_t count = carnot_dims_count(inputs[0].dims, inputs[0].rank);
  CARNOT_CHECK(inputs[0].format.dtype == CARNOT_DTYPE_F32 &&
                   outputs[0].format.dtype == CARNOT_DTYPE_U8 &&
                   outputs[1].format.dtype == CARNOT_DTYPE_F32 &&
                   outputs[2].format.dtype == CARNOT_DTYPE_U8 &&
                   count == carnot_dims_count(outputs[0].dims, outputs[0].rank) &&
                   carnot_dims_count(outputs[1].dims, outputs[1].rank) == 1 &&
                   carnot_dims_count(outputs[2].dims, outputs[2].rank) == 1,
               INVALID_MODEL, "operands are not float32, uint8, one float32 and one uint8");
  *(int64_t*)memory = count;
  *out_workspace_bytes = carnot_dynamic_quantize_workspace(count);
  return NULL;
}

typedef struct range_run {
  const carnot_cpu_kernels* kernels;
  const float* x;
  float* ranges;  // least and greatest of each part
  int64_t count;
} range_run;

static void range_part(void* argument, int64_t part) {
  const range_run* run = argument;
  run->kernels->range_f32(carnot_min_i64(kPart, run->count - part * kPart), run->x + part * kPart,
                          run->ranges + 2 * part);
}

typedef struct rows_run {
  const carnot_cpu_kernels* kernels;
  const carnot_quantize* quantize;
  const float* x;
  uint8_t* y;
  int64_t x_ld, y_ld, rows, rows_per_part;
} rows_run;

static void rows_part(void* argument, int64_t part) {
  const rows_run* run = argument;
  const int64_t row = part * run->rows_per_part;
  run->kernels->quantize_f32(run->quantize, carnot_min_i64(run->rows_per_part, run->rows - row),
                             run->x + row * run->x_ld, run->x_ld, run->y + row * run->y_ld,
                             run->y_ld);
}

void carnot_dynamic_quantize_rows(const carnot_cpu_kernels* kernels,
                                  const carnot_quantize* quantize, int64_t rows, const float* x,
                                  int64_t x_ld, uint8_t* y, int64_t y_ld,
                                  carnot_executor* executor) {
  rows_run run = {kernels, quantize, x, y, x_ld, y_ld, rows, 1};
  run.rows_per_part = carnot_max_i64(1, kPart / quantize->n);
  carnot_executor_parallel(executor, carnot_ceildiv(rows, run.rows_per_part), rows_part, &run);
}

void carnot_dynamic_scale(const float* range, float* scale, uint8_t* zero) {
  *scale = range[1] == range[0] ? 1 : (range[1] - range[0]) / 255;
  carnot_store_f64(CARNOT_DTYPE_U8, zero, 0, (double)rintf(-range[0] / *scale));
}

size_t carnot_dynamic_quantize_workspace(int64_t count) {
  return 2 * (size_t)carnot_ceildiv(count, kPart) * sizeof(float);
}

void carnot_dynamic_quantize(const carnot_cpu_kernels* kernels, const float* x, int64_t count,
                             void* workspace, carnot_executor* executor, uint8_t* y, float* scale,
                             uint8_t* zero) {
  const int64_t parts = carnot_ceildiv(count, kPart), whole = count / kPart * kPart;
  range_run ranges = {kernels, x, workspace, count};
  carnot_executor_parallel(executor, parts, range_part, &ranges);
  float range[2] = {0, 0};
  for (int64_t i = 0; i < parts; i++) {
    if (ranges.ranges[2 * i] < range[0]) range[0] = ranges.ranges[2 * i];
    if (ranges.ranges[2 * i + 1] > range[1]) range[1] = ranges.ranges[2 * i + 1];
  }
  carnot_dynamic_scale(range, scale, zero);
  carnot_quantize q = {.n = kPart, .scale = scale, .zero_point = zero};
  carnot_dynamic_quantize_rows(kernels, &q, count / kPart, x, kPart, y, kPart, executor);
  q.n = count - whole;
  if (q.n) kernels->quantize_f32(&q, 1, x + whole, q.n, y + whole, q.n);
}

static carnot_status* dynamic_run_all(const carnot_step_view* step, void* memory,
                                      const carnot_operand* inputs, const carnot_operand* outputs,
                                      void* workspace, carnot_executor* executor) {
  carnot_dynamic_quantize(carnot_cpu_kernels_of(step->tactic->isa), inputs[0].data,
                          *(int64_t*)memory, workspace, executor, outputs[0].data, outputs[1].data,
                          outputs[2].data);
  return NULL;
}

CARNOT_CPU_TACTICS(dynamic_quantize_f32, .anchor = CARNOT_OP_DYNAMIC_QUANTIZE_LINEAR,
                   .reject = dynamic_reject, .validate = dynamic_validate,
                   .configure = dynamic_configure, .run = dynamic_run_all);
