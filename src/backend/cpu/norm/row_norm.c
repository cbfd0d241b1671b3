// Softmax, layer and RMS normalization over float32, along trailing axes (rows), with operand and
// result in bytes where the region's nodes dequantize and quantize them, or in BF16 memory.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/quantize/row_ends.h"
#include "tactic/problem/norm.h"

// The region's norm and its ends. False when it holds another operator.
static bool read_region(const carnot_region* region, uint32_t input_count,
                        carnot_quantized_ends* ends, carnot_norm_problem* norm) {
  return carnot_quantized_ends_read(region, input_count, ends) &&
         carnot_norm_read_node(ends->node, norm) && !carnot_norm_is_by_channel(norm);
}

static const char* check_input(const carnot_problem* problem, const carnot_quantized_ends* ends,
                               char* reason, size_t size) {
  if (ends->input == CARNOT_PLAN_NONE) return "the operand is no input of the step";
  const carnot_operand_desc* x = &problem->inputs[ends->input];
  const char* why =
      carnot_is_end_bytes(&ends->x)
          ? NULL
          : carnot_not_f32_value(problem, x, "the input", 1, CARNOT_MAX_RANK, reason, size);
  if (!why) why = carnot_quantized_ends_check(problem, ends);
  return why || x->rank >= 1 ? why : "the input has no axis";
}

static void want_row_major(carnot_problem* problem) {
  for (uint32_t i = 0; i < problem->output_count; i++)
    problem->outputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
}

// Rows of |outer|; a part takes |per_part| of them and |buffer| floats of the workspace.
typedef struct rows_state {
  int64_t outer, n, inner, per_part, buffer;
} rows_state;

// [outer, n, inner] of the norm of a dense operand and a result of the same dimensions.
static carnot_status* make_rows(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, carnot_norm_problem* norm,
                                rows_state* s, size_t* out_workspace_bytes) {
  carnot_quantized_ends ends;
  CARNOT_CHECK(
      read_region(step->region, step->input_count, &ends, norm) && ends.input != CARNOT_PLAN_NONE,
      INVALID_MODEL, "the step normalizes no axis");
  CARNOT_TRY(carnot_row_ends_check(step, &ends, inputs, outputs));
  const carnot_operand *in = &inputs[ends.input], *out = &outputs[ends.y_output];
  bool same = in->rank == out->rank && carnot_cpu_is_dense(in) && carnot_cpu_is_dense(out);
  for (int d = 0; same && d < in->rank; d++) same = in->dims[d] == out->dims[d];
  CARNOT_CHECK(same, INVALID_ARGUMENT, "operands are no dense tensors of one shape");
  carnot_norm_extents e;
  CARNOT_TRY(carnot_norm_extents_of(norm, in->rank, in->dims, &e));
  *s = (rows_state){.outer = e.outer, .n = e.size, .inner = e.inner};
  s->per_part = carnot_rows_per_part(s->outer, s->n * s->inner * 4);
  s->buffer = carnot_row_ends_buffer(&ends, inputs, outputs, s->n * s->inner);
  *out_workspace_bytes =
      (size_t)(carnot_ceildiv(s->outer, s->per_part) * s->buffer) * sizeof(float);
  return NULL;
}

typedef struct rows_run {
  carnot_row_ends ends;
  const rows_state* state;
  float* buffers;
  carnot_rows_fn* compute;
  const void* kernel;  // what |compute| takes
} rows_run;

static void rows_part(void* argument, int64_t part) {
  const rows_run* run = argument;
  const rows_state* s = run->state;
  const int64_t first = part * s->per_part;
  float* buffer = s->buffer ? run->buffers + part * s->buffer : NULL;
  carnot_row_ends_run(&run->ends, first, carnot_min_i64(first + s->per_part, s->outer), buffer,
                      run->compute, run->kernel);
}

static void run_rows(const carnot_step_view* step, const carnot_quantized_ends* ends,
                     const rows_state* s, const carnot_operand* inputs,
                     const carnot_operand* outputs, carnot_executor* executor, rows_run* run) {
  run->ends = carnot_row_ends_make(carnot_cpu_kernels_of(carnot_cpu_step_isa(step)), ends, inputs,
                                   outputs, s->n * s->inner);
  run->state = s;
  carnot_executor_parallel(executor, carnot_ceildiv(s->outer, s->per_part), rows_part, run);
}

// ---- softmax and log-softmax ----

static const char* softmax_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_norm_problem norm;
  carnot_quantized_ends ends;
  if (!read_region(problem->region, problem->input_count, &ends, &norm) ||
      !carnot_norm_is_softmax(&norm))
    return "";
  const char* why = check_input(problem, &ends, reason, size);
  if (why) return why;
  problem->inputs[ends.input].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  want_row_major(problem);
  return NULL;
}

static carnot_status* softmax_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  carnot_norm_problem norm;
  return make_rows(step, inputs, outputs, &norm, state, out_workspace_bytes);
}

typedef struct softmax_kernel {
  carnot_softmax_f32_fn* kernel;
  carnot_softmax_f32 softmax;
} softmax_kernel;

static void softmax_rows(const void* user, const float* src, float* dst, int64_t rows) {
  const softmax_kernel* k = user;
  carnot_softmax_f32 softmax = k->softmax;
  softmax.src = src;
  softmax.dst = dst;
  k->kernel(&softmax, 0, rows);
}

static carnot_status* softmax_run(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  const rows_state* s = state;
  carnot_norm_problem norm;
  carnot_quantized_ends ends;
  CARNOT_CHECK(read_region(step->region, step->input_count, &ends, &norm), INTERNAL,
               "the step normalizes no axis");
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_of(carnot_cpu_step_isa(step));
  const int64_t row = s->n * s->inner;
  const softmax_kernel kernel = {
      .kernel = norm.kind == CARNOT_NORM_SOFTMAX ? kernels->softmax_f32 : kernels->log_softmax_f32,
      .softmax = {.n = s->n,
                  .inner = s->inner,
                  .src_outer = row,
                  .src_axis = s->inner,
                  .dst_outer = row,
                  .dst_axis = s->inner}};
  rows_run run = {.buffers = workspace, .compute = softmax_rows, .kernel = &kernel};
  run_rows(step, &ends, s, inputs, outputs, executor, &run);
  return NULL;
}

// ---- layer and RMS normalization ----

// A parameter with one number for each element of the normalized axes.
static const char* check_parameter(const carnot_problem* problem, uint32_t input,
                                   const carnot_operand_desc* x, int axis) {
  if (input == CARNOT_PLAN_NONE) return NULL;
  if (input >= problem->input_count) return "a parameter is no input of the step";
  const carnot_operand_desc* t = &problem->inputs[input];
  if (t->kind == CARNOT_VALUE_UNKNOWN) return NULL;
  int64_t count = 1, wanted = 1;
  if (t->kind != CARNOT_VALUE_TENSOR || t->format.dtype != CARNOT_DTYPE_F32 || t->rank < 0)
    return "a parameter is not float32";
  for (int d = 0; d < t->rank; d++) count *= t->dims[d];
  for (int d = axis; d < x->rank; d++) wanted *= x->dims[d];
  return count == wanted && wanted > 0 ? NULL
                                       : "a parameter does not run along the normalized axes";
}

static const char* row_norm_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_norm_problem norm;
  carnot_quantized_ends ends;
  if (!read_region(problem->region, problem->input_count, &ends, &norm) ||
      !carnot_norm_is_by_row(&norm))
    return "";
  if (ends.node->output_count != 1) return "the statistics are wanted too";
  const char* why = check_input(problem, &ends, reason, size);
  if (why) return why;
  const carnot_operand_desc* x = &problem->inputs[ends.input];
  int64_t axis = carnot_norm_axis(&norm, x->rank);
  if (axis < 0 || axis >= x->rank) return "the axis is out of range";
  why = check_parameter(problem, norm.scale, x, (int)axis);
  if (!why) why = check_parameter(problem, norm.bias, x, (int)axis);
  if (why) return why;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  want_row_major(problem);
  return NULL;
}

static carnot_status* check_row(const carnot_step_view* step, const carnot_operand* inputs,
                                uint32_t input, int64_t n) {
  if (input == CARNOT_PLAN_NONE) return NULL;
  CARNOT_CHECK(input < step->input_count, INVALID_MODEL, "scale or bias is no input of the step");
  const carnot_operand* t = &inputs[input];
  CARNOT_CHECK(
      t->rank == 0 || !t->data ||
          (t->format.dtype == CARNOT_DTYPE_F32 && carnot_dims_count(t->dims, t->rank) == n),
      INVALID_ARGUMENT, "parameter %u does not have %lld elements", input, (long long)n);
  return NULL;
}

static carnot_status* row_norm_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* state,
                                         size_t* out_workspace_bytes) {
  carnot_norm_problem norm;
  rows_state* s = state;
  CARNOT_TRY(make_rows(step, inputs, outputs, &norm, s, out_workspace_bytes));
  CARNOT_TRY(check_row(step, inputs, norm.scale, s->n));
  return check_row(step, inputs, norm.bias, s->n);
}

typedef struct row_norm_kernel {
  carnot_layer_norm_f32_fn* kernel;
  carnot_row_norm_f32 norm;
} row_norm_kernel;

static void row_norm_rows(const void* user, const float* src, float* dst, int64_t rows) {
  const row_norm_kernel* k = user;
  carnot_row_norm_f32 norm = k->norm;
  norm.src = src;
  norm.dst = dst;
  k->kernel(&norm, 0, rows);
}

static carnot_status* row_norm_run(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  const rows_state* s = state;
  carnot_norm_problem norm;
  carnot_quantized_ends ends;
  CARNOT_CHECK(read_region(step->region, step->input_count, &ends, &norm), INTERNAL,
               "the step normalizes no axis");
  const carnot_cpu_kernels* kernels = carnot_cpu_kernels_of(carnot_cpu_step_isa(step));
  const row_norm_kernel kernel = {
      .kernel = norm.kind == CARNOT_NORM_LAYER ? kernels->layer_norm_f32 : kernels->rms_norm_f32,
      .norm = {.n = s->n,
               .src_ld = s->n,
               .dst_ld = s->n,
               .scale = norm.scale == CARNOT_PLAN_NONE ? NULL : inputs[norm.scale].data,
               .bias = norm.bias == CARNOT_PLAN_NONE ? NULL : inputs[norm.bias].data,
               .epsilon = (float)norm.epsilon}};
  rows_run run = {.buffers = workspace, .compute = row_norm_rows, .kernel = &kernel};
  run_rows(step, &ends, s, inputs, outputs, executor, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(softmax_f32, .anchor = CARNOT_OP_COUNT, .takes_bf16 = true,
                   .reject = softmax_reject, .configure = softmax_configure, .run = softmax_run);
CARNOT_CPU_TACTICS(row_norm_f32, .anchor = CARNOT_OP_COUNT, .takes_bf16 = true,
                   .reject = row_norm_reject, .configure = row_norm_configure, .run = row_norm_run);
