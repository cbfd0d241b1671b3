// Convolution by 3x3 filters of stride 1 over channels-last float32 operands, as F(2x2,3x3) or
// F(4x4,3x3).

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/packed_weights.h"
#include "backend/cpu/conv/conv.h"

// Fewer channels or filters leave more arithmetic in the transforms than they save.
enum { kLeastChannels = 16, kLeastFilters = 16 };

typedef struct winograd_config {
  int64_t side;  // of a tile of results
  const char* packing;
} winograd_config;

static const winograd_config* config_of(const carnot_tactic* tactic) { return tactic->config; }

static const char* check_params(const carnot_conv_params* p, char* reason, size_t size) {
  const carnot_sliding_window* w = &p->window;
  if (w->rank != 2) return "the window has not two dimensions";
  for (int i = 0; i < 2; i++) {
    if (w->kernel[i] != 3)
      return carnot_because(reason, size, "a window of %lldx%lld, takes 3x3",
                            (long long)w->kernel[0], (long long)w->kernel[1]);
    if (w->strides[i] != 1) return "the window is strided";
  }
  if (p->group != 1) return "the channels are in groups";
  if (p->channels < kLeastChannels || p->channels > CARNOT_CONV_MAX_CHANNELS ||
      p->filters < kLeastFilters)
    return carnot_because(reason, size, "%lld channels and %lld filters, takes %d and %d at least",
                          (long long)p->channels, (long long)p->filters, kLeastChannels,
                          kLeastFilters);
  return NULL;
}

static const char* winograd_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_conv_params p;
  const char* why = carnot_conv_reject(problem, &p, reason, size);
  return why ? why : check_params(&p, reason, size);
}

static size_t packed_bytes(const carnot_conv_params* p, int64_t side) {
  return (size_t)carnot_packed_winograd_count(side, p->channels, p->filters) * sizeof(float);
}

typedef struct filters_packing {
  int64_t side, filters, channels;
  const float* weights;
  float* packed;
} filters_packing;

static void pack_panel(void* argument, int64_t panel) {
  const filters_packing* p = argument;
  carnot_pack_winograd_f32(p->side, p->filters, p->channels, p->weights, panel, panel + 1,
                           p->packed);
}

static carnot_status* winograd_prepare(const carnot_problem* problem, carnot_prepared* out) {
  const winograd_config* config = config_of(problem->tactic);
  carnot_conv_params* p;
  void* packed;
  CARNOT_TRY(carnot_conv_prepare(problem, out, &p));
  p->weights = CARNOT_WEIGHTS_F32;
  CARNOT_TRY(
      carnot_conv_alloc_weights(out, config->packing, packed_bytes(p, config->side), &packed));
  filters_packing filters = {config->side, p->filters, p->channels,
                             carnot_conv_weights(problem)->tensor->data, packed};
  carnot_cpu_prepare_parallel(out->executor, carnot_ceildiv(p->filters, 16), pack_panel, &filters);
  return NULL;
}

static carnot_status* winograd_validate(const carnot_step_view* step) {
  const carnot_conv_params* p = NULL;
  char reason[256];
  CARNOT_TRY(carnot_conv_check_params(step, 2, &p));
  const char* why = check_params(p, reason, sizeof(reason));
  CARNOT_CHECK(!why, INVALID_MODEL, "%s", why);
  return carnot_conv_check_packed(step, packed_bytes(p, config_of(step->tactic)->side));
}

typedef struct winograd_state {
  carnot_window_geometry geometry;
  carnot_work_partition partition;  // of tiles and filters
  int64_t side, row_tiles;
  int64_t workspace;  // bytes of a part
} winograd_state;

static carnot_status* winograd_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* memory,
                                         size_t* out_workspace_bytes) {
  winograd_state* s = memory;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_conv_configure(step, inputs, outputs, &s->geometry));
  const carnot_conv_params* p = step->params;
  const carnot_window_geometry* g = &s->geometry;
  s->side = config_of(step->tactic)->side;
  s->row_tiles = carnot_winograd_tiles_of(s->side, g->q, g->dilation_w);
  s->partition = carnot_work_partition_make_tall(
      step->threads, g->n * carnot_winograd_tiles_of(s->side, g->p, g->dilation_h) * s->row_tiles,
      p->filters, p->channels * carnot_winograd_points(s->side),
      carnot_max_i64(1, s->row_tiles * g->dilation_h));
  s->workspace = (int64_t)carnot_align_up(
      (size_t)carnot_conv2d_winograd_f32_workspace(s->side, p->channels) * sizeof(float), 64);
  *out_workspace_bytes = (size_t)(s->workspace * carnot_work_partition_count(&s->partition));
  return NULL;
}

typedef struct winograd_run {
  const carnot_cpu_kernels* kernels;
  const carnot_step_view* step;
  const winograd_state* state;
  const carnot_operand *inputs, *outputs;
  char* workspace;
} winograd_run;

// The first pixel of row |row| of tiles of all images, a multiple of the dilation.
static int64_t first_pixel(const carnot_window_geometry* g, int64_t side, int64_t row) {
  const int64_t rows = carnot_winograd_tiles_of(side, g->p, g->dilation_h);
  return (row / rows * g->p + carnot_min_i64(g->p, row % rows * side)) * g->q;
}

static void winograd_part(void* argument, int64_t part) {
  const winograd_run* run = argument;
  const winograd_state* s = run->state;
  const carnot_conv_params* p = run->step->params;
  const carnot_window_geometry* g = &s->geometry;
  carnot_conv2d_winograd_f32 call = {
      .conv = {CARNOT_WINDOW_FIELDS(g), .c = p->channels, .k = p->filters,
               .src = run->inputs[0].data, .src_n = g->src_n, .src_h = g->src_h, .src_w = g->src_w,
               .weights = run->step->constants[0], .zeros = carnot_conv_zeros,
               .dst = run->outputs[0].data, .ld = g->ld},
      .side = s->side,
      .workspace = (float*)(void*)(run->workspace + carnot_executor_scratch(part) * s->workspace)};
  carnot_epilogue_plan_bind(&p->epilogue_plan, run->inputs,
                            p->has_bias ? run->step->constants[1] : NULL, &call.conv.epilogue);
  int64_t m0, m1, n0, n1;
  carnot_work_partition_part(&s->partition, part, &m0, &m1, &n0, &n1);
  const int64_t row0 = m0 / s->row_tiles, row1 = m1 / s->row_tiles;
  run->kernels->conv2d_winograd_f32(&call, row0, row1, n0, n1);
  carnot_epilogue_plan_run(run->kernels, &p->epilogue_plan, run->inputs, call.conv.dst, g->ld,
                           first_pixel(g, s->side, row0), first_pixel(g, s->side, row1), n0, n1);
}

static carnot_status* winograd_run_all(const carnot_step_view* step, void* state,
                                       const carnot_operand* inputs, const carnot_operand* outputs,
                                       void* workspace, carnot_executor* executor) {
  winograd_run run = {
      carnot_cpu_kernels_of(step->tactic->isa), step, state, inputs, outputs, workspace};
  if (run.state->row_tiles)
    carnot_executor_parallel(executor, carnot_work_partition_count(&run.state->partition),
                             winograd_part, &run);
  return NULL;
}

// The operations of the direct sum; the transformed weights are 16/9 or 36/9 as large.
static void winograd_work(const carnot_problem* problem, double* out_flops, double* out_bytes) {
  const int64_t side = config_of(problem->tactic)->side;
  carnot_conv_work(problem, 4.0 * (double)carnot_winograd_points(side) / 9, out_flops, out_bytes);
}

static bool winograd_may_share(const carnot_step_view* step, uint32_t input, uint32_t output) {
  const carnot_conv_params* p = step->params;
  return carnot_epilogue_plan_may_share(&p->epilogue_plan, step, input, output);
}

#define WINOGRAD_FUNCTIONS                                                                        \
  .anchor = CARNOT_OP_CONV, .strided_outputs = true, .reject = winograd_reject,                   \
  .prepare = winograd_prepare, .validate = winograd_validate,                                     \
  .uses_input = carnot_conv_uses_input, .configure = winograd_configure, .run = winograd_run_all, \
  .may_share = winograd_may_share, .work = winograd_work
static const winograd_config kSide2 = {2, "winograd2x2 k1n16 f32"};
static const winograd_config kSide4 = {4, "winograd4x4 k1n16 f32"};
CARNOT_CPU_THREE_TACTICS(conv_winograd_f32, .config = &kSide2, .numerics = CARNOT_NUMERICS_WINOGRAD,
                         WINOGRAD_FUNCTIONS);
CARNOT_CPU_THREE_TACTICS(conv_winograd4x4_f32, .config = &kSide4,
                         .numerics = CARNOT_NUMERICS_WINOGRAD_4X4, WINOGRAD_FUNCTIONS);
