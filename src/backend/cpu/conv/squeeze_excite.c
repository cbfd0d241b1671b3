// Squeeze-and-excitation and the 1x1 convolution that reads it, in one step: the scaled pixels go
// from a buffer in cache to the convolution and are never written to memory.
//   y = epilogue(point(x * gate)),  gate = act(excite(act(squeeze(mean(x)))))
#include "backend/cpu/conv/squeeze_excite.h"

#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/common/packed_weights.h"

// The tactics of one convolution that read and pack the dense layers, of few and of many channels,
// and the projection.
typedef struct block_config {
  const carnot_tactic *dense, *wide_dense, *project;
} block_config;

enum { kWide = 32 };  // channels of a dense layer

static const carnot_tactic* tactic_of(const block_config* config, int stage, int64_t channels) {
  if (stage == CARNOT_PROJECT) return config->project;
  return channels < kWide ? config->dense : config->wide_dense;
}

// The same of a stage whose weights are known.
static const carnot_tactic* tactic_of_stage(const carnot_problem* problem,
                                            const carnot_conv_stage* stage, int i) {
  const carnot_operand_desc* w = carnot_conv_weights(&stage->problem);
  return tactic_of(problem->tactic->config, i, w->rank == 4 ? w->dims[1] : 0);
}

// ---- build ----

// Asks the tactic of one convolution, which also says the layouts that it wants.
static const char* reject_stage(carnot_problem* problem, carnot_conv_stage* stage, int i,
                                char* reason, size_t size) {
  stage->problem.tactic = tactic_of_stage(problem, stage, i);
  if (stage->output.rank != 4) return "an image of two dimensions is wanted";
  const char* why = stage->problem.tactic->reject(&stage->problem, reason, size);
  if (why) return why;
  carnot_conv_params p;
  carnot_operand_desc any[CARNOT_CONV_STAGE_MAX_INPUTS];
  carnot_problem as_any = stage->problem;  // whose layouts do not count
  memcpy(any, stage->inputs, sizeof any);
  as_any.inputs = any;
  why = carnot_conv_reject(&as_any, &p, reason, size);
  if (why) return why;
  if (!carnot_conv_is_point(&p)) return "a convolution that is not 1x1 of stride 1";
  if (i != CARNOT_PROJECT && carnot_epilogue_plan_has_full_operand(&p.epilogue_plan))
    return "the gate has another operand of its size";
  for (uint32_t k = 0; k < stage->problem.input_count; k++)
    if (stage->step_inputs[k] != CARNOT_PLAN_NONE)
      problem->inputs[stage->step_inputs[k]].format.layout = stage->inputs[k].format.layout;
  return NULL;
}

static const char* reject_block(carnot_problem* problem, carnot_squeeze_excite* block, char* reason,
                                size_t size) {
  const char* why =
      carnot_not_f32_value(problem, &problem->inputs[0], "the input", 4, 4, reason, size);
  for (int i = 0; i < CARNOT_SQUEEZE_EXCITE_STAGES && !why; i++)
    why = reject_stage(problem, &block->stages[i], i, reason, size);
  if (why) return why;
  problem->inputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  problem->inputs[block->axes].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  problem->outputs[0].format.layout = CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

static const char* block_reject(carnot_problem* problem, char* reason, size_t size) {
  carnot_arena arena = {0};
  carnot_squeeze_excite block;
  carnot_status* status = carnot_arena_prepare(&arena);
  const char* why = status ? CARNOT_REJECT_NO_MEMORY : NULL;
  carnot_status_free(status);
  if (!why) why = carnot_squeeze_excite_read(problem, &arena, &block);
  if (!why) why = reject_block(problem, &block, reason, size);
  carnot_arena_deinit(&arena);
  return why;
}

static carnot_status* block_prepare(const carnot_problem* problem, carnot_prepared* out) {
  void* memory;
  CARNOT_TRY(carnot_arena_try(out->arena, 1, sizeof(carnot_squeeze_excite), "a block", &memory));
  carnot_squeeze_excite* block = memory;
  CARNOT_TRY(
      carnot_arena_try(out->arena, 1, sizeof(carnot_squeeze_excite_params), "parameters", &memory));
  carnot_squeeze_excite_params* p = memory;
  const char* why = carnot_squeeze_excite_read(problem, out->arena, block);
  CARNOT_CHECK(!why, INTERNAL, "prepare rejects a block that reject accepted: %s", why);
  carnot_conv_stage* stages[CARNOT_SQUEEZE_EXCITE_STAGES];
  for (int i = 0; i < CARNOT_SQUEEZE_EXCITE_STAGES; i++) {
    stages[i] = &block->stages[i];
    stages[i]->problem.tactic = tactic_of_stage(problem, stages[i], i);
  }
  p->axes = block->axes;
  out->params = p;
  out->param_bytes = sizeof *p;
  return carnot_conv_stages_prepare(stages, CARNOT_SQUEEZE_EXCITE_STAGES, p->stages, out);
}

// ---- load ----

static carnot_status* block_validate(const carnot_step_view* step) {
  const carnot_squeeze_excite_params* p = step->params;
  CARNOT_CHECK(step->param_bytes == sizeof *p && step->input_count >= 2 &&
                   step->constant_count == CARNOT_SQUEEZE_EXCITE_STAGES + 1,
               INVALID_MODEL, "%u bytes of parameters and %u constants", step->param_bytes,
               step->constant_count);
  for (int i = 0; i < CARNOT_SQUEEZE_EXCITE_STAGES; i++) {
    const carnot_conv_params* stage = &p->stages[i];
    CARNOT_TRY(carnot_conv_stage_check(step, p->stages, i,
                                       tactic_of(step->tactic->config, i, stage->channels)));
    CARNOT_CHECK(carnot_conv_is_point(stage), INVALID_MODEL, "convolution %d is not 1x1", i);
    CARNOT_CHECK(
        i == CARNOT_PROJECT || (!carnot_epilogue_plan_has_full_operand(&stage->epilogue_plan) &&
                                stage->filters == p->stages[i + 1].channels),
        INVALID_MODEL,
        "convolution %d has another operand, or %lld filters before %lld "
        "channels",
        i, (long long)stage->filters, (long long)p->stages[i + 1].channels);
  }
  CARNOT_CHECK(p->stages[CARNOT_SQUEEZE].channels == p->stages[CARNOT_PROJECT].channels,
               INVALID_MODEL, "a gate of %lld channels for %lld",
               (long long)p->stages[CARNOT_SQUEEZE].channels,
               (long long)p->stages[CARNOT_PROJECT].channels);
  return carnot_conv_stages_check_constants(step, p->stages, CARNOT_SQUEEZE_EXCITE_STAGES);
}

static bool block_uses_input(const carnot_step_view* step, uint32_t input) {
  const carnot_squeeze_excite_params* p = step->params;
  return input != p->axes &&
         carnot_conv_stages_uses_input(step, p->stages, CARNOT_SQUEEZE_EXCITE_STAGES, input);
}

#define BLOCK_FUNCTIONS                                                                 \
  .anchor = CARNOT_OP_REDUCE, .strided_outputs = true, .reject = block_reject,          \
  .prepare = block_prepare, .validate = block_validate, .uses_input = block_uses_input, \
  .configure = carnot_squeeze_excite_configure, .run = carnot_squeeze_excite_run,       \
  .work = carnot_conv_stages_work
#define BLOCK_TACTIC(family, level, LEVEL, DENSE, WIDE, PROJECT, ...)                              \
  extern const carnot_tactic carnot_tactic_##DENSE, carnot_tactic_##WIDE, carnot_tactic_##PROJECT; \
  static const block_config kConfig_##PROJECT = {.dense = &carnot_tactic_##DENSE,                  \
                                                 .wide_dense = &carnot_tactic_##WIDE,              \
                                                 .project = &carnot_tactic_##PROJECT};             \
  CARNOT_CPU_TACTIC(family, level, LEVEL, .config = &kConfig_##PROJECT, BLOCK_FUNCTIONS,           \
                    __VA_ARGS__)
#define BLOCK_F32_TACTIC(level, LEVEL)                                               \
  BLOCK_TACTIC(squeeze_excite_f32, level, LEVEL, conv_f32_##level, conv_f32_##level, \
               conv_f32_##level, .numerics = CARNOT_NUMERICS_EXACT)
#define BLOCK_SPLIT_TACTIC(split, SPLIT)                                                          \
  BLOCK_TACTIC(squeeze_excite_##split##_f32, amxbf16, AMX_BF16, conv_f32_avx512, conv_f32_avx512, \
               conv_##split##_f32_amxbf16, .numerics = CARNOT_NUMERICS_##SPLIT)
BLOCK_F32_TACTIC(avx512, AVX512);
BLOCK_F32_TACTIC(avx2, AVX2);
BLOCK_F32_TACTIC(scalar, SCALAR);
BLOCK_SPLIT_TACTIC(split6, SPLIT6);
BLOCK_SPLIT_TACTIC(split3, SPLIT3);
BLOCK_TACTIC(squeeze_excite_bf16, amxbf16, AMX_BF16, conv_f32_avx512, conv_bf16_amxbf16,
             conv_bf16_tiles_amxbf16, .numerics = CARNOT_NUMERICS_HALF,
             .precision = CARNOT_DTYPE_BF16, .takes_bf16 = true);
