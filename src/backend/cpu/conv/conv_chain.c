// Chains of 1x1 and depthwise convolutions (the inverted residual of MobileNet), computed by blocks
// of output rows, so that what lies between the convolutions stays in the cache of a core.
//   y = point(depthwise(first(x)))  of which the first or the last convolution may be missing; the
//   first is a 1x1 convolution or one of few channels
#include "backend/cpu/conv/conv_chain.h"

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/packed_weights.h"

enum {
  kMaxStages = CARNOT_CONV_CHAIN_MAX_STAGES,
  kLeastInner = 1 << 16,  // elements: smaller images gain nothing from blocks of rows
  kLeastRows = 4,         // expanded rows by those that neighbouring blocks share
  kSplitFilters = 16      // of a 1x1 convolution from which on splitting its pixels pays
};

// The tactics of one convolution that read and pack the stages; |few|: a first convolution of few
// channels; |split_point|: 1x1 convolutions that split their pixels, or NULL.
typedef struct chain_config {
  const carnot_tactic *point, *few, *depthwise, *split_point;
} chain_config;

static const carnot_tactic* point_tactic(const chain_config* config, int64_t channels,
                                         int64_t filters) {
  const bool splits = config->split_point && channels >= CARNOT_CONV_LEAST_SPLIT_CHANNELS &&
                      filters >= kSplitFilters;
  return splits ? config->split_point : config->point;
}

// ---- build ----

// Which stage is depthwise, where the first may be a convolution of few channels and all others are
// 1x1; -1: it is no such chain.
static int depthwise_of(const carnot_conv_chain_params* p) {
  int found = -1;
  for (int i = 0; i < p->count; i++) {
    if (carnot_conv_is_depthwise(&p->stages[i])) {
      if (found >= 0) return -1;
      found = i;
    } else if (i > 0 ? !carnot_conv_is_point(&p->stages[i]) : p->stages[i].group != 1) {
      return -1;
    }
  }
  return found >= 0 && found < 2 && p->count - found <= 2 ? found : -1;
}

// Whether the filter of the stage has one element.
static bool is_1x1(const carnot_conv_stage* stage) {
  const carnot_operand_desc* w = &stage->problem.inputs[stage->region.nodes[0].inputs[1]];
  return w->rank == 4 && w->dims[2] == 1 && w->dims[3] == 1;
}

// The tactic of one convolution that reads and packs the stage.
static const carnot_tactic* tactic_of(const chain_config* config, const carnot_conv_stage* stage) {
  const carnot_plan_node* node = &stage->region.nodes[0];
  if (carnot_attr_int(carnot_op_get(node->op), &node->attrs, "group") > 1) return config->depthwise;
  const carnot_operand_desc* w = &stage->problem.inputs[node->inputs[1]];
  return is_1x1(stage) ? point_tactic(config, w->dims[1], w->dims[0]) : config->few;
}

static double inner_elements(const carnot_conv_stage* stage) {
  const carnot_operand_desc* y = &stage->output;
  double count = 1;
  for (int d = 1; d < y->rank; d++) count *= y->dims[d] < 0 ? 1 : (double)y->dims[d];
  return count;
}

// Rows that the windows of neighbouring blocks share; threads whose blocks meet compute them each.
static int64_t shared_rows(const carnot_conv_params* depthwise) {
  const carnot_sliding_window* w = &depthwise->window;
  return (w->kernel[0] - 1) * w->dilations[0] + 1 - w->strides[0];
}

// Asks the tactic of one convolution, which also says the layouts that it wants.
static const char* reject_stage(carnot_problem* problem, carnot_conv_stage* stage,
                                carnot_conv_params* out, char* reason, size_t size) {
  const chain_config* config = problem->tactic->config;
  stage->problem.tactic = tactic_of(config, stage);
  if (stage->output.rank != 4) return "an image of two dimensions is wanted";
  const char* why = stage->problem.tactic->reject(&stage->problem, reason, size);
  if (why) return why;
  carnot_operand_desc any[CARNOT_CONV_STAGE_MAX_INPUTS];
  carnot_problem as_any = stage->problem;  // whose layouts do not count
  memcpy(any, stage->inputs, sizeof any);
  as_any.inputs = any;
  why = carnot_conv_reject(&as_any, out, reason, size);
  if (why) return why;
  if (stage->problem.tactic != config->depthwise && is_1x1(stage) && !carnot_conv_is_point(out))
    return "a 1x1 convolution with a stride or padding";
  for (uint32_t i = 0; i < stage->problem.input_count; i++)
    if (stage->step_inputs[i] != CARNOT_PLAN_NONE)
      problem->inputs[stage->step_inputs[i]].format.layout = stage->inputs[i].format.layout;
  problem->outputs[0].format.layout = stage->output.format.layout;
  return NULL;
}

static const char* reject_chain(carnot_problem* problem, carnot_conv_chain* chain, char* reason,
                                size_t size) {
  const chain_config* config = problem->tactic->config;
  carnot_conv_chain_params p = {.count = chain->count};
  double most = 0;
  bool splits = false;
  for (int i = 0; i < chain->count; i++) {
    const char* why = reject_stage(problem, &chain->stages[i], &p.stages[i], reason, size);
    if (why) return why;
    splits |= chain->stages[i].problem.tactic == config->split_point;
    if (i + 1 == chain->count) break;
    if (carnot_epilogue_plan_has_full_operand(&p.stages[i].epilogue_plan))
      return "an operand inside the chain varies with the pixel";
    const double count = inner_elements(&chain->stages[i]);
    most = count > most ? count : most;
  }
  const int depthwise = depthwise_of(&p);
  if (depthwise < 0) return "not one depthwise convolution between 1x1 ones";
  if (depthwise > 0) {
    const int64_t rows = chain->stages[0].output.dims[2],
                  shared = shared_rows(&p.stages[depthwise]);
    if (rows > 0 && shared * kLeastRows > rows)
      return carnot_because(reason, size, "blocks share %lld of %lld rows", (long long)shared,
                            (long long)rows);
  }
  if (!carnot_conv_is_point(&p.stages[0]) && p.stages[0].window.auto_pad != CARNOT_PAD_NOTSET)
    return "the padding of the first convolution depends on sizes";
  if (config->split_point && !splits)
    return carnot_because(reason, size, "no 1x1 convolution of %d channels and %d filters or more",
                          CARNOT_CONV_LEAST_SPLIT_CHANNELS, kSplitFilters);
  if (most < kLeastInner)
    return carnot_because(reason, size, "%.0f numbers between the convolutions stay in cache",
                          most);
  return NULL;
}

static const char* chain_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_arena arena = {0};
  carnot_conv_chain chain;
  carnot_status* status = carnot_arena_prepare(&arena);
  const char* why = status ? CARNOT_REJECT_NO_MEMORY : NULL;
  carnot_status_free(status);
  if (!why) why = carnot_conv_chain_read(problem, &arena, &chain);
  if (!why) why = reject_chain(problem, &chain, reason, size);
  carnot_arena_deinit(&arena);
  return why;
}

static carnot_status* chain_prepare(const carnot_problem* problem, carnot_prepared* out) {
  carnot_conv_chain* chain;
  carnot_conv_chain_params* p;
  void* memory;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof *chain, "a chain", &memory));
  chain = memory;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof *p, "parameters", &memory));
  p = memory;
  const char* why = carnot_conv_chain_read(problem, out->arena, chain);
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a chain that reject accepted: %s", why);
  const chain_config* config = problem->tactic->config;
  carnot_conv_stage* stages[kMaxStages];
  p->count = chain->count;
  for (int i = 0; i < p->count; i++) {
    stages[i] = &chain->stages[i];
    stages[i]->problem.tactic = tactic_of(config, stages[i]);
  }
  CARNOT_TRY(carnot_conv_stages_prepare(stages, p->count, p->stages, out));
  p->depthwise = depthwise_of(p);
  out->params = p;
  out->param_bytes = sizeof *p;
  return NULL;
}

// ---- load ----

static carnot_status* check_stage(const carnot_step_view* step, const carnot_conv_chain_params* p,
                                  int i) {
  const chain_config* config = step->tactic->config;
  const carnot_conv_params* stage = &p->stages[i];
  const carnot_tactic* tactic = i == p->depthwise ? config->depthwise
                                : carnot_conv_is_point(stage)
                                    ? point_tactic(config, stage->channels, stage->filters)
                                    : config->few;
  CARNOT_TRY(carnot_conv_stage_check(step, p->stages, i, tactic));
  if (i == 0 && stage->group == 1 && !carnot_conv_is_point(stage)) {
    if (stage->weights != CARNOT_WEIGHTS_BF16_TILES) CARNOT_TRY(carnot_conv_few_check(stage));
    CARNOT_CHECK(stage->window.auto_pad == CARNOT_PAD_NOTSET, INVALID_MODEL,
                 "the padding of the first convolution depends on sizes");
  }
  if (i + 1 == p->count) return NULL;
  CARNOT_CHECK(stage->filters == p->stages[i + 1].channels, INVALID_MODEL,
               "%lld filters before %lld channels", (long long)stage->filters,
               (long long)p->stages[i + 1].channels);
  CARNOT_CHECK(!carnot_epilogue_plan_has_full_operand(&stage->epilogue_plan), INVALID_MODEL,
               "an operand inside the chain varies with the pixel");
  return NULL;
}

static carnot_status* chain_validate(const carnot_step_view* step) {
  const carnot_conv_chain_params* p = step->params;
  CARNOT_CHECK(step->param_bytes == sizeof *p && p->count >= 2 && p->count <= kMaxStages &&
                   step->input_count >= 1 && step->constant_count == (uint32_t)p->count + 1,
               INVALID_MODEL, "%u bytes of parameters and %u constants", step->param_bytes,
               step->constant_count);
  for (int i = 0; i < p->count; i++) CARNOT_TRY(check_stage(step, p, i));
  CARNOT_CHECK(p->depthwise >= 0 && p->depthwise == depthwise_of(p), INVALID_MODEL,
               "stage %d of %d is not the depthwise one", p->depthwise, p->count);
  return carnot_conv_stages_check_constants(step, p->stages, p->count);
}

static bool chain_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_conv_chain_params* p = step->params;
  return carnot_conv_stages_uses_input(step, p->stages, p->count, input);
}

#define CHAIN_FUNCTIONS                                                                 \
  .anchor = CARNOT_OP_CONV, .strided_outputs = true, .reject = chain_reject,            \
  .prepare = chain_prepare, .validate = chain_validate, .uses_input = chain_uses_input, \
  .configure = carnot_conv_chain_configure, .run = carnot_conv_chain_run,               \
  .work = carnot_conv_stages_work
#define CHAIN_TACTIC(level, LEVEL)                                                                 \
  extern const carnot_tactic carnot_tactic_conv_f32_##level, carnot_tactic_conv_few_f32_##level,   \
      carnot_tactic_depthwise_f32_##level;                                                         \
  static const chain_config kConfig_##level = {.point = &carnot_tactic_conv_f32_##level,           \
                                               .few = &carnot_tactic_conv_few_f32_##level,         \
                                               .depthwise = &carnot_tactic_depthwise_f32_##level}; \
  CARNOT_CPU_TACTIC(conv_chain_f32, level, LEVEL, .config = &kConfig_##level,                      \
                    .numerics = CARNOT_NUMERICS_EXACT, CHAIN_FUNCTIONS)
CHAIN_TACTIC(avx512, AVX512);
CHAIN_TACTIC(avx2, AVX2);
CHAIN_TACTIC(scalar, SCALAR);

#define CHAIN_SPLIT_TACTIC(split, SPLIT)                                                     \
  extern const carnot_tactic carnot_tactic_conv_##split##_f32_amxbf16;                       \
  static const chain_config kConfig_##split = {                                              \
      .point = &carnot_tactic_conv_f32_avx512,                                               \
      .few = &carnot_tactic_conv_few_f32_avx512,                                             \
      .depthwise = &carnot_tactic_depthwise_f32_avx512,                                      \
      .split_point = &carnot_tactic_conv_##split##_f32_amxbf16};                             \
  CARNOT_CPU_TACTIC(conv_chain_##split##_f32, amxbf16, AMX_BF16, .config = &kConfig_##split, \
                    .numerics = CARNOT_NUMERICS_##SPLIT, CHAIN_FUNCTIONS)
CHAIN_SPLIT_TACTIC(split6, SPLIT6);
CHAIN_SPLIT_TACTIC(split3, SPLIT3);

extern const carnot_tactic carnot_tactic_conv_bf16_tiles_amxbf16;
static const chain_config kConfigBf16 = {.point = &carnot_tactic_conv_bf16_tiles_amxbf16,
                                         .few = &carnot_tactic_conv_bf16_tiles_amxbf16,
                                         .depthwise = &carnot_tactic_depthwise_f32_avx512};
CARNOT_CPU_TACTIC(conv_chain_bf16, amxbf16, AMX_BF16, .config = &kConfigBf16,
                  .numerics = CARNOT_NUMERICS_HALF, .precision = CARNOT_DTYPE_BF16,
                  .takes_bf16 = true, CHAIN_FUNCTIONS);
