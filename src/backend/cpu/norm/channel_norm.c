// Group and instance normalization over float32, with a fused activation, and with operand and
// result in bytes where the region's nodes dequantize and quantize them, or in BF16 memory.
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/epilogue.h"
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/quantize/row_ends.h"
#include "tactic/problem/norm.h"

typedef struct channel_norm_params {
  int64_t groups;  // 0: as many as channels
  float epsilon;
  carnot_epilogue_plan epilogue_plan;
} channel_norm_params;

// The region's norm, its ends and what lies between. False when it holds another operator.
static bool read_region(const carnot_region* region, uint32_t input_count, carnot_region* core,
                        carnot_quantized_ends* ends, carnot_norm_problem* norm) {
  return carnot_quantized_ends_strip(region, input_count, core, ends) &&
         carnot_norm_read_node(ends->node, norm) && carnot_norm_is_by_channel(norm) &&
         ends->float_output == CARNOT_PLAN_NONE;
}

static const char* check_parameter(const carnot_problem* problem, uint32_t input,
                                   int64_t channels) {
  const carnot_operand_desc* t = input < problem->input_count ? &problem->inputs[input] : NULL;
  return t && t->kind == CARNOT_VALUE_TENSOR && t->format.dtype == CARNOT_DTYPE_F32 &&
                 t->rank == 1 && t->dims[0] == channels && channels >= 1
             ? NULL
             : "scale or bias does not run along the channels";
}

static const char* read_channels(const carnot_problem* problem, void* params, char* reason,
                                 size_t size) {
  channel_norm_params* out = params;
  carnot_norm_problem norm;
  carnot_quantized_ends ends;
  carnot_region core;
  *out = (channel_norm_params){0};
  if (!read_region(problem->region, problem->input_count, &core, &ends, &norm)) return "";
  if (ends.input == CARNOT_PLAN_NONE) return "the operand is no input of the step";
  const carnot_operand_desc* x = &problem->inputs[ends.input];
  const char* why =
      carnot_is_end_bytes(&ends.x)
          ? NULL
          : carnot_not_f32_value(problem, x, "the input", 3, CARNOT_MAX_RANK, reason, size);
  if (!why) why = carnot_quantized_ends_check(problem, &ends);
  if (!why && x->rank < 3) why = "the input has no pixels";
  if (!why) why = check_parameter(problem, norm.scale, x->dims[1]);
  if (!why) why = check_parameter(problem, norm.bias, x->dims[1]);
  if (why) return why;
  out->groups = norm.groups;
  if (norm.kind == CARNOT_NORM_GROUP && (norm.groups < 1 || x->dims[1] % norm.groups))
    return "the groups do not divide the channels";
  out->epsilon = (float)norm.epsilon;
  bool has_bias = false;
  carnot_operand_desc result = problem->outputs[0];
  result.format.dtype = CARNOT_DTYPE_F32;
  carnot_problem floats = *problem;
  floats.region = &core, floats.outputs = &result;
  why = carnot_epilogue_plan_make(&floats, /*anchor=*/0, x->rank - 1, NULL, x->dims[1], &has_bias,
                                  &out->epilogue_plan, reason, size);
  if (why) return why;
  return out->epilogue_plan.residual >= 0 || out->epilogue_plan.program.instruction_count
             ? "more than an activation follows"
             : NULL;
}

static const char* channel_norm_reject(carnot_problem* problem, char* reason, size_t size) {
  channel_norm_params p;
  carnot_norm_problem norm;
  carnot_quantized_ends ends;
  carnot_region core;
  const char* why = read_channels(problem, &p, reason, size);
  if (why || !read_region(problem->region, problem->input_count, &core, &ends, &norm)) return why;
  const carnot_layout layout = problem->inputs[ends.input].format.layout;
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = i == ends.input ? layout : CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = layout;
  return NULL;
}

static carnot_status* channel_norm_prepare(const carnot_problem* problem, carnot_prepared* out) {
  return carnot_cpu_prepare_params(problem, read_channels, sizeof(channel_norm_params), out);
}

static carnot_status* channel_norm_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->param_bytes == sizeof(channel_norm_params), INVALID_MODEL,
               "%u bytes of parameters, must be %zu", step->param_bytes,
               sizeof(channel_norm_params));
  const channel_norm_params* p = step->params;
  CARNOT_CHECK(p->groups >= 0, INVALID_MODEL, "%lld groups", (long long)p->groups);
  return carnot_epilogue_plan_validate(&p->epilogue_plan, step->input_count);
}

typedef struct channel_norm_state {
  int64_t n, c, pixels, groups, groups_per_part, parts_per_image;
  bool channels_last;
  int64_t block;  // pixels of a part that has all groups; 0: parts have all pixels of some groups
  size_t floats;  // where the workspace holds the tensor in float32, if an end is bytes
} channel_norm_state;

enum { kLeastCutPixels = 1024, kBlocks = 8, kBlockUnit = 32 };

// Parts are blocks of pixels: whole rows of memory, and parts enough where channels are few.
static void cut_pixels(channel_norm_state* s, size_t* out_workspace_bytes) {
  s->block = carnot_ceildiv(carnot_ceildiv(s->pixels, kBlocks), kBlockUnit) * kBlockUnit;
  s->parts_per_image = carnot_ceildiv(s->pixels, s->block);
  s->groups_per_part = s->groups;
  s->floats = 0;
  *out_workspace_bytes = (size_t)(s->n * s->parts_per_image * 4 * s->c) * sizeof(float);
}

static carnot_status* channel_norm_configure(const carnot_step_view* step,
                                             const carnot_operand* inputs,
                                             const carnot_operand* outputs, void* memory,
                                             size_t* out_workspace_bytes) {
  channel_norm_state* s = memory;
  const channel_norm_params* p = step->params;
  carnot_norm_problem norm;
  carnot_quantized_ends ends;
  carnot_region core;
  CARNOT_CHECK(read_region(step->region, step->input_count, &core, &ends, &norm) &&
                   ends.input != CARNOT_PLAN_NONE && norm.scale < step->input_count &&
                   norm.bias < step->input_count,
               INVALID_MODEL, "the step normalizes no channels");
  CARNOT_TRY(carnot_row_ends_check(step, &ends, inputs, outputs));
  const carnot_operand* x = &inputs[ends.input];
  bool same = x->rank >= 3 && x->rank == outputs[0].rank;
  for (int d = 0; same && d < x->rank; d++)
    same = x->dims[d] == outputs[0].dims[d] &&
           (x->dims[d] == 1 || x->strides[d] == outputs[0].strides[d]);
  CARNOT_CHECK(same, INVALID_ARGUMENT, "operands are no tensors of one shape and layout");
  const uint32_t parameters[] = {norm.scale, norm.bias};
  for (int i = 0; i < 2; i++) {
    const carnot_operand* t = &inputs[parameters[i]];
    CARNOT_CHECK(t->format.dtype == CARNOT_DTYPE_F32 && t->rank == 1 && t->dims[0] == x->dims[1],
                 INVALID_ARGUMENT, "parameter %u does not run along %lld channels", parameters[i],
                 (long long)x->dims[1]);
  }
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
  const bool in_bytes = carnot_is_end_bytes(&ends.x) || carnot_is_end_bytes(&ends.y);
  if (s->channels_last && !in_bytes && s->pixels >= kLeastCutPixels) {
    cut_pixels(s, out_workspace_bytes);
    return NULL;
  }
  s->block = 0;
  // Channels last: runs of at least 64 channels, so that every part reads whole cache lines.
  int64_t per_group = s->c / s->groups;
  s->groups_per_part = s->channels_last ? carnot_max_i64(carnot_ceildiv(64, per_group),
                                                         carnot_ceildiv(s->groups, 16))
                                        : carnot_max_i64(1, carnot_ceildiv(s->groups, 16));
  s->parts_per_image = carnot_ceildiv(s->groups, s->groups_per_part);
  s->floats = s->channels_last ? (size_t)(s->n * s->parts_per_image * 2 * s->c) : 0;
  *out_workspace_bytes =
      (s->floats + (in_bytes ? (size_t)(s->n * s->c * s->pixels) : 0)) * sizeof(float);
  return NULL;
}

typedef struct channel_norm_run {
  const carnot_cpu_kernels* kernels;
  const channel_norm_state* state;
  carnot_group_norm_f32 norm;
  carnot_row_ends ends;
  float* workspace;
} channel_norm_run;

// Elements of a part: |rows| rows of |n|, |ld| apart, from |at| on.
typedef struct part_extent {
  int64_t at, rows, n, ld;
} part_extent;

static part_extent extent_of(const channel_norm_state* s, int64_t image, int64_t g0, int64_t g1) {
  const int64_t each = s->c / s->groups, channels = (g1 - g0) * each, first = image * s->c;
  if (!s->channels_last)
    return (part_extent){(first + g0 * each) * s->pixels, 1, channels * s->pixels, 0};
  return (part_extent){first * s->pixels + g0 * each, s->pixels, channels, s->c};
}

static void load_part(const channel_norm_run* run, const part_extent* e) {
  carnot_quantize from = run->ends.from;
  from.n = e->n;
  run->kernels->dequantize_f32(&from, e->rows, (const uint8_t*)run->ends.x + e->at, e->ld,
                               run->workspace + run->state->floats + e->at, e->ld);
}

static void store_part(const channel_norm_run* run, const part_extent* e) {
  carnot_quantize to = run->ends.to;
  to.n = e->n;
  run->kernels->quantize_f32(&to, e->rows, run->workspace + run->state->floats + e->at, e->ld,
                             (uint8_t*)run->ends.y + e->at, e->ld);
}

static void channel_norm_part(void* argument, int64_t part) {
  const channel_norm_run* run = argument;
  const channel_norm_state* s = run->state;
  carnot_group_norm_f32 norm = run->norm;
  int64_t image = part / s->parts_per_image, g0 = part % s->parts_per_image * s->groups_per_part;
  int64_t g1 = carnot_min_i64(g0 + s->groups_per_part, s->groups);
  const part_extent extent = extent_of(s, image, g0, g1);
  if (run->ends.x_is_bytes) load_part(run, &extent);
  if (s->channels_last) {
    norm.workspace = run->workspace + part * 2 * s->c;
    run->kernels->group_norm_nhwc_f32(&norm, image, image + 1, g0, g1);
  } else {
    run->kernels->group_norm_nchw_f32(&norm, image, image + 1, g0, g1);
  }
  if (run->ends.y_is_bytes) store_part(run, &extent);
}

// ---- blocks of pixels ----

// The statistics of a block are 2 C floats, its scales and shifts 2 C behind those of all blocks.
static float* stats_of(const channel_norm_run* run, int64_t part) {
  return run->workspace + part * 2 * run->state->c;
}

static void block_of(const channel_norm_state* s, int64_t part, int64_t* begin, int64_t* end) {
  const int64_t first = part / s->parts_per_image * s->pixels,
                at = part % s->parts_per_image * s->block;
  *begin = first + at;
  *end = first + carnot_min_i64(at + s->block, s->pixels);
}

static void stats_part(void* argument, int64_t part) {
  const channel_norm_run* run = argument;
  const channel_norm_state* s = run->state;
  int64_t begin, end;
  block_of(s, part, &begin, &end);
  const int64_t bytes = run->norm.src_is_bf16 ? 2 : 4;
  float* mean = stats_of(run, part);
  run->kernels->channel_stats_f32(run->norm.src_is_bf16, end - begin, s->c,
                                  (const char*)run->ends.x + begin * s->c * bytes, s->c, mean,
                                  mean + s->c);
}

static void apply_part(void* argument, int64_t part) {
  const channel_norm_run* run = argument;
  const channel_norm_state* s = run->state;
  carnot_group_norm_f32 norm = run->norm;
  int64_t begin, end;
  block_of(s, part, &begin, &end);
  norm.workspace = stats_of(run, s->n * s->parts_per_image + part);
  run->kernels->group_norm_scales_f32(&norm, stats_of(run, part - part % s->parts_per_image),
                                      s->block, 0, s->groups);
  run->kernels->group_norm_apply_f32(&norm, begin, end, 0, s->c);
}

static carnot_status* channel_norm_run_all(const carnot_step_view* step, void* state,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* workspace,
                                           carnot_executor* executor) {
  const channel_norm_params* p = step->params;
  carnot_norm_problem norm;
  carnot_quantized_ends ends;
  carnot_region core;
  CARNOT_CHECK(read_region(step->region, step->input_count, &core, &ends, &norm), INTERNAL,
               "the step normalizes no channels");
  channel_norm_run run = {.kernels = carnot_cpu_kernels_of(carnot_cpu_step_isa(step)),
                          .state = state,
                          .workspace = workspace};
  run.ends = carnot_row_ends_make(run.kernels, &ends, inputs, outputs, run.state->c);
  float* floats = run.workspace + run.state->floats;
  run.norm =
      (carnot_group_norm_f32){.pixels = run.state->pixels,
                              .c = run.state->c,
                              .groups = run.state->groups,
                              .src_is_bf16 = run.ends.x_is_bf16,
                              .dst_is_bf16 = run.ends.y_is_bf16,
                              .src = run.ends.x_is_bytes ? floats : run.ends.x,
                              .src_ld = run.state->c,
                              .dst = run.ends.y_is_bytes ? floats : run.ends.y,
                              .dst_ld = run.state->c,
                              .scale = inputs[norm.scale].data,
                              .bias = inputs[norm.bias].data,
                              .epsilon = p->epsilon,
                              .activation = (carnot_kernel_activation)p->epilogue_plan.activation,
                              .a = p->epilogue_plan.a,
                              .b = p->epilogue_plan.b};
  const int64_t parts = run.state->n * run.state->parts_per_image;
  if (!run.state->block) {
    carnot_executor_parallel(executor, parts, channel_norm_part, &run);
    return NULL;
  }
  carnot_executor_parallel(executor, parts, stats_part, &run);
  carnot_executor_parallel(executor, parts, apply_part, &run);
  return NULL;
}

// The statistics are complete before the first result is written.
static bool channel_norm_may_share(const carnot_step_view* step, uint32_t input, uint32_t output) {
  carnot_norm_problem norm;
  carnot_quantized_ends ends;
  carnot_region core;
  return output == 0 && read_region(step->region, step->input_count, &core, &ends, &norm) &&
         ends.input == input && !carnot_is_end_bytes(&ends.x) && !carnot_is_end_bytes(&ends.y) &&
         carnot_cpu_reads_once(step, input);
}

CARNOT_CPU_TACTICS(channel_norm_f32, .anchor = CARNOT_OP_COUNT, .takes_bf16 = true,
                   .reject = channel_norm_reject, .prepare = channel_norm_prepare,
                   .validate = channel_norm_validate, .configure = channel_norm_configure,
                   .run = channel_norm_run_all, .may_share = channel_norm_may_share);
