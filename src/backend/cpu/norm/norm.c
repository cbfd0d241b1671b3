// Softmax and normalization over float32: along trailing axes (rows), and per group of channels.
#include "tactic/problem/norm.h"
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/epilogue.h"
#include "backend/cpu/common/isa_variants.h"

// ---- rows: softmax, log-softmax, layer and RMS normalization ----

static const char* softmax_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_norm_problem norm;
  if (problem->region->node_count != 1 || !carnot_norm_read(problem->region, &norm) ||
      !carnot_norm_is_softmax(&norm))
    return "";
  const char* why =
      carnot_not_f32(&problem->inputs[0], "the input", 1, CARNOT_MAX_RANK, reason, size);
  if (!why)
    problem->inputs[0].format.layout = problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

typedef struct rows_state {
  int64_t outer, n, inner, per_part;
} rows_state;

// [outer, n, inner] of the norm of a dense operand and a result of the same dimensions.
static carnot_status* make_rows(const carnot_step_view* step, const carnot_operand* in,
                                const carnot_operand* out, carnot_norm_problem* norm,
                                rows_state* s) {
  bool same = in->format.dtype == CARNOT_DTYPE_F32 && out->format.dtype == CARNOT_DTYPE_F32 &&
              in->rank == out->rank && carnot_cpu_is_dense(in) && carnot_cpu_is_dense(out);
  for (int d = 0; same && d < in->rank; d++) same = in->dims[d] == out->dims[d];
  CARNOT_CHECK(same, INVALID_ARGUMENT, "operands are no dense float32 tensors of one shape");
  carnot_norm_extents e;
  CARNOT_CHECK(carnot_norm_read(step->region, norm) && !carnot_norm_is_by_channel(norm),
               INVALID_MODEL, "the step normalizes no axis");
  CARNOT_TRY(carnot_norm_extents_of(norm, in->rank, in->dims, &e));
  *s = (rows_state){.outer = e.outer, .n = e.size, .inner = e.inner};
  s->per_part = carnot_rows_per_part(s->outer, s->n * s->inner * 4);
  return NULL;
}

static carnot_status* softmax_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_norm_problem norm;
  return make_rows(step, &inputs[0], &outputs[0], &norm, state);
}

typedef struct rows_run {
  const carnot_cpu_kernels* kernels;
  const rows_state* state;
  carnot_op op;
  const carnot_operand *inputs, *outputs;
  carnot_row_norm_f32 norm;
} rows_run;

static void softmax_part(void* argument, int64_t part) {
  const rows_run* run = argument;
  const rows_state* s = run->state;
  carnot_softmax_f32 softmax = {.n = s->n,
                                .inner = s->inner,
                                .src = run->inputs[0].data,
                                .src_outer = s->n * s->inner,
                                .src_axis = s->inner,
                                .dst = run->outputs[0].data,
                                .dst_outer = s->n * s->inner,
                                .dst_axis = s->inner};
  int64_t first = part * s->per_part, last = carnot_min_i64(first + s->per_part, s->outer);
  (run->op == CARNOT_OP_SOFTMAX ? run->kernels->softmax_f32 : run->kernels->log_softmax_f32)(
      &softmax, first, last);
}

static carnot_status* softmax_run(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  (void)workspace;
  rows_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                  .state = state,
                  .op = step->region->nodes[0].op,
                  .inputs = inputs,
                  .outputs = outputs};
  carnot_executor_parallel(executor, carnot_ceildiv(run.state->outer, run.state->per_part),
                           softmax_part, &run);
  return NULL;
}

// A parameter with one number for each element of the normalized axes.
static bool is_row_parameter(const carnot_operand_desc* t, const carnot_operand_desc* x, int axis) {
  if (t->kind != CARNOT_VALUE_TENSOR || t->format.dtype != CARNOT_DTYPE_F32 || t->rank < 0)
    return false;
  int64_t count = 1, wanted = 1;
  for (int d = 0; d < t->rank; d++) count *= t->dims[d];
  for (int d = axis; d < x->rank; d++) wanted *= x->dims[d];
  return count == wanted && wanted > 0;
}

static const char* row_norm_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_norm_problem norm;
  if (problem->region->node_count != 1 || !carnot_norm_read(problem->region, &norm) ||
      !carnot_norm_is_by_row(&norm))
    return "";
  if (problem->output_count != 1 || problem->region->nodes[0].output_count != 1)
    return "the statistics are wanted too";
  const carnot_operand_desc* x = &problem->inputs[0];
  const char* why = carnot_not_f32(x, "the input", 1, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  int64_t axis = carnot_norm_axis(&norm, x->rank);
  if (axis < 0 || axis >= x->rank) return "the axis is out of range";
  for (uint32_t i = 1; i < problem->input_count; i++)
    if (problem->inputs[i].kind == CARNOT_VALUE_TENSOR &&
        !is_row_parameter(&problem->inputs[i], x, (int)axis))
      return "a parameter does not run along the normalized axes";
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* row_norm_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* state,
                                         size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_norm_problem norm;
  rows_state* s = state;
  CARNOT_TRY(make_rows(step, &inputs[0], &outputs[0], &norm, s));
  CARNOT_CHECK((norm.scale == CARNOT_PLAN_NONE || norm.scale < step->input_count) &&
                   (norm.bias == CARNOT_PLAN_NONE || norm.bias < step->input_count),
               INVALID_MODEL, "scale or bias is no input of the step");
  for (uint32_t i = 1; i < step->input_count; i++)
    CARNOT_CHECK(inputs[i].rank == 0 || !inputs[i].data ||
                     (inputs[i].format.dtype == CARNOT_DTYPE_F32 &&
                      carnot_dims_count(inputs[i].dims, inputs[i].rank) == s->n),
                 INVALID_ARGUMENT, "parameter %u does not have %lld elements", i, (long long)s->n);
  return NULL;
}

static void row_norm_part(void* argument, int64_t part) {
  const rows_run* run = argument;
  int64_t first = part * run->state->per_part,
          last = carnot_min_i64(first + run->state->per_part, run->state->outer);
  (run->op == CARNOT_OP_LAYER_NORM ? run->kernels->layer_norm_f32 : run->kernels->rms_norm_f32)(
      &run->norm, first, last);
}

static carnot_status* row_norm_run(const carnot_step_view* step, void* state,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)workspace;
  rows_run run = {.kernels = carnot_cpu_kernels_of(step->tactic->isa),
                  .state = state,
                  .op = step->region->nodes[0].op};
  carnot_norm_problem norm;
  CARNOT_CHECK(carnot_norm_read(step->region, &norm), INTERNAL, "the step normalizes no axis");
  int64_t n = run.state->n;
  run.norm = (carnot_row_norm_f32){.n = n,
                                   .src = inputs[0].data,
                                   .src_ld = n,
                                   .dst = outputs[0].data,
                                   .dst_ld = n,
                                   .epsilon = (float)norm.epsilon};
  run.norm.scale = norm.scale == CARNOT_PLAN_NONE ? NULL : inputs[norm.scale].data;
  run.norm.bias = norm.bias == CARNOT_PLAN_NONE ? NULL : inputs[norm.bias].data;
  carnot_executor_parallel(executor, carnot_ceildiv(run.state->outer, run.state->per_part),
                           row_norm_part, &run);
  return NULL;
}

CARNOT_CPU_TACTICS(softmax_f32, .anchor = CARNOT_OP_COUNT, .reject = softmax_reject,
                   .configure = softmax_configure, .run = softmax_run);
CARNOT_CPU_TACTICS(row_norm_f32, .anchor = CARNOT_OP_COUNT, .reject = row_norm_reject,
                   .configure = row_norm_configure, .run = row_norm_run);

// ---- channels: group and instance normalization, with a fused activation ----

typedef struct channel_norm_params {
  int64_t groups;  // 0: as many as channels
  float epsilon;
  carnot_epilogue_plan epilogue_plan;
} channel_norm_params;

static const char* read_channels(const carnot_problem* problem, void* params, char* reason,
                                 size_t size) {
  channel_norm_params* out = params;
  const carnot_plan_node* node = &problem->region->nodes[0];
  carnot_norm_problem norm;
  *out = (channel_norm_params){0};
  if (!carnot_norm_read(problem->region, &norm) || !carnot_norm_is_by_channel(&norm)) return "";
  const carnot_operand_desc* x = &problem->inputs[0];
  const char* why = carnot_not_f32(x, "the input", 3, CARNOT_MAX_RANK, reason, size);
  if (why) return why;
  for (uint32_t i = 1; i < 3; i++) {
    const carnot_operand_desc* t = &problem->inputs[i];
    if (node->inputs[i] != i || t->kind != CARNOT_VALUE_TENSOR ||
        t->format.dtype != CARNOT_DTYPE_F32 || t->rank != 1 || t->dims[0] != x->dims[1] ||
        x->dims[1] < 1)
      return "scale or bias does not run along the channels";
  }
  out->groups = norm.groups;
  if (norm.kind == CARNOT_NORM_GROUP && (norm.groups < 1 || x->dims[1] % norm.groups))
    return "the groups do not divide the channels";
  out->epsilon = (float)norm.epsilon;
  bool has_bias = false;
  why = carnot_epilogue_plan_make(problem, /*anchor=*/0, x->rank - 1, NULL, x->dims[1], &has_bias,
                                  &out->epilogue_plan, reason, size);
  if (why) return why;
  return out->epilogue_plan.residual >= 0 || out->epilogue_plan.program.instruction_count
             ? "more than an activation follows"
             : NULL;
}

static const char* channel_norm_reject(carnot_problem* problem, char* reason, size_t size) {
  channel_norm_params p;
  const char* why = read_channels(problem, &p, reason, size);
  if (why) return why;
  problem->outputs[0].format.layout = problem->inputs[0].format.layout;
  for (uint32_t i = 1; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

static carnot_status* channel_norm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_channels, sizeof(channel_norm_params), out);
}

static carnot_status* channel_norm_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(channel_norm_params) && step->input_count >= 3,
               INVALID_MODEL, "%u bytes of parameters, must be %zu", step->param_bytes,
               sizeof(channel_norm_params));
  const channel_norm_params* p = step->params;
  CARNOT_CHECK(p->groups >= 0, INVALID_MODEL, "%lld groups", (long long)p->groups);
  return carnot_epilogue_plan_validate(&p->epilogue_plan, step->input_count);
}

typedef struct channel_norm_state {
  int64_t n, c, pixels, groups, groups_per_part, parts_per_image;
  bool channels_last;
} channel_norm_state;

static carnot_status* channel_norm_configure(const carnot_step_view* step,
                                             const carnot_operand* inputs,
                                             const carnot_operand* outputs, void* memory,
                                             size_t* out_workspace_bytes) {
  channel_norm_state* s = memory;
  const channel_norm_params* p = step->params;
  const carnot_operand* x = &inputs[0];
  bool same = x->rank >= 3 && x->rank == outputs[0].rank && x->format.dtype == CARNOT_DTYPE_F32 &&
              outputs[0].format.dtype == CARNOT_DTYPE_F32;
  for (int d = 0; same && d < x->rank; d++)
    same = x->dims[d] == outputs[0].dims[d] &&
           (x->dims[d] == 1 || x->strides[d] == outputs[0].strides[d]);
  CARNOT_CHECK(same, INVALID_ARGUMENT, "operands are no float32 tensors of one shape and layout");
  for (int i = 1; i < 3; i++)
    CARNOT_CHECK(inputs[i].format.dtype == CARNOT_DTYPE_F32 && inputs[i].rank == 1 &&
                     inputs[i].dims[0] == x->dims[1],
                 INVALID_ARGUMENT, "parameter %d does not run along %lld channels", i,
                 (long long)x->dims[1]);
  int64_t last[CARNOT_MAX_RANK];
  carnot_layout_strides(CARNOT_LAYOUT_CHANNELS_LAST, x->rank, x->dims, last);
  s->channels_last = !carnot_cpu_is_dense(x);
  for (int d = 0; s->channels_last && d < x->rank; d++)
    CARNOT_CHECK(x->dims[d] == 1 || x->strides[d] == last[d], INVALID_ARGUMENT,
                 "the input is dense in no layout");
  s->n = x->dims[0];
  s->c = x->dims[1];
  s->pixels = carnot_dims_count(x->dims + 2, x->rank - 2);
  s->groups = p->groups ? p->groups : s->c;
  CARNOT_CHECK(s->c % s->groups == 0, INVALID_ARGUMENT, "%lld groups of %lld channels",
               (long long)s->groups, (long long)s->c);
  // Channels last: runs of at least 64 channels, so that every part reads whole cache lines.
  int64_t per_group = s->c / s->groups;
  s->groups_per_part = s->channels_last ? carnot_max_i64(carnot_ceildiv(64, per_group),
                                                         carnot_ceildiv(s->groups, 16))
                                        : carnot_max_i64(1, carnot_ceildiv(s->groups, 16));
  s->parts_per_image = carnot_ceildiv(s->groups, s->groups_per_part);
  *out_workspace_bytes =
      s->channels_last ? (size_t)(s->n * s->parts_per_image * 2 * s->c) * sizeof(float) : 0;
  return NULL;
}

typedef struct channel_norm_run {
  const carnot_cpu_kernels* kernels;
  const channel_norm_state* state;
  carnot_group_norm_f32 norm;
  float* workspace;
} channel_norm_run;

static void channel_norm_part(void* argument, int64_t part) {
  const channel_norm_run* run = argument;
  const channel_norm_state* s = run->state;
  carnot_group_norm_f32 norm = run->norm;
  int64_t image = part / s->parts_per_image, g0 = part % s->parts_per_image * s->groups_per_part;
  int64_t g1 = carnot_min_i64(g0 + s->groups_per_part, s->groups);
  if (s->channels_last) {
    norm.workspace = run->workspace + part * 2 * s->c;
    run->kernels->group_norm_nhwc_f32(&norm, image, image + 1, g0, g1);
  } else {
    run->kernels->group_norm_nchw_f32(&norm, image, image + 1, g0, g1);
  }
}

static carnot_status* channel_norm_run_all(const carnot_step_view* step, void* state,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* workspace,
                                           carnot_executor* executor) {
  const channel_norm_params* p = step->params;
  channel_norm_run run = {
      .kernels = carnot_cpu_kernels_of(step->tactic->isa), .state = state, .workspace = workspace};
  run.norm =
      (carnot_group_norm_f32){.pixels = run.state->pixels,
                              .c = run.state->c,
                              .groups = run.state->groups,
                              .src = inputs[0].data,
                              .src_ld = run.state->c,
                              .dst = outputs[0].data,
                              .dst_ld = run.state->c,
                              .scale = inputs[1].data,
                              .bias = inputs[2].data,
                              .epsilon = p->epsilon,
                              .activation = (carnot_kernel_activation)p->epilogue_plan.activation,
                              .a = p->epilogue_plan.a,
                              .b = p->epilogue_plan.b};
  carnot_executor_parallel(executor, run.state->n * run.state->parts_per_image, channel_norm_part,
                           &run);
  return NULL;
}

CARNOT_CPU_TACTICS(channel_norm_f32, .anchor = CARNOT_OP_COUNT, .reject = channel_norm_reject,
                   .prepare = channel_norm_prepare, .validate = channel_norm_validate,
                   .configure = channel_norm_configure, .run = channel_norm_run_all);
