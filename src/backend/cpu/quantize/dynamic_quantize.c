// DynamicQuantizeLinear: the range by vector reductions over parts, then the quantization.
#include "backend/cpu/quantize/dynamic_quantize.h"

#include <math.h>

#include "backend/cpu/common/isa_variants.h"
#include "kernel/cpu/pointwise/convert.h"

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

typedef struct dynamic_run {
  const carnot_cpu_kernels* kernels;
  const float* x;
  uint8_t* y;
  float* ranges;  // least and greatest of each part
  int64_t count;
  carnot_quantize quantize;
} dynamic_run;

static void range_part(void* argument, int64_t part) {
  const dynamic_run* run = argument;
  run->kernels->range_f32(carnot_min_i64(kPart, run->count - part * kPart), run->x + part * kPart,
                          run->ranges + 2 * part);
}

static void quantize_part(void* argument, int64_t part) {
  const dynamic_run* run = argument;
  carnot_quantize q = run->quantize;
  q.n = carnot_min_i64(kPart, run->count - part * kPart);
  run->kernels->quantize_f32(&q, 1, run->x + part * kPart, q.n, run->y + part * kPart, q.n);
}

size_t carnot_dynamic_quantize_workspace(int64_t count) {
  return 2 * (size_t)carnot_ceildiv(count, kPart) * sizeof(float);
}

void carnot_dynamic_quantize(const carnot_cpu_kernels* kernels, const float* x, int64_t count,
                             void* workspace, carnot_executor* executor, uint8_t* y, float* scale,
                             uint8_t* zero) {
  const int64_t parts = carnot_ceildiv(count, kPart);
  dynamic_run run = {.kernels = kernels, .x = x, .y = y, .ranges = workspace, .count = count};
  carnot_executor_parallel(executor, parts, range_part, &run);
  float low = 0, high = 0;
  for (int64_t i = 0; i < parts; i++) {
    low = run.ranges[2 * i] < low ? run.ranges[2 * i] : low;
    high = run.ranges[2 * i + 1] > high ? run.ranges[2 * i + 1] : high;
  }
  *scale = high == low ? 1 : (high - low) / 255;
  carnot_store_f64(CARNOT_DTYPE_U8, zero, 0, (double)rintf(-low / *scale));
  run.quantize = (carnot_quantize){.scale = scale, .zero_point = zero};
  carnot_executor_parallel(executor, parts, quantize_part, &run);
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
