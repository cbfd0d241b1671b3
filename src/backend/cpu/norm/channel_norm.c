// Group and instance normalization over float32, with a fused activation.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/epilogue.h"
#include "backend/cpu/common/isa_variants.h"
#include "tactic/problem/norm.h"

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
