// The sequence of a build: graph and configuration → plan.
#include "builder/builder.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/device.h"
#include "builder/analysis/accepts.h"
#include "builder/lower/lower.h"
#include "builder/measure/engine_benchmark.h"
#include "builder/measure/timing_cache.h"
#include "builder/select/selector.h"
#include "builder/select/tuning.h"
#include "pass/pass.h"

void carnot_build_config_init(carnot_build_config* config) {
  *config = (carnot_build_config){
      .isa = -1, .level = 3, .tactic_sources = (1u << CARNOT_SOURCE_COUNT) - 1};
}

// What a plan borrows from its builder.
typedef struct build_memory {
  carnot_arena arena;
  carnot_graph* graph;
} build_memory;

static void destroy_memory(void* memory) {
  build_memory* m = memory;
  carnot_graph_destroy(m->graph);
  carnot_arena_deinit(&m->arena);
  free(m);
}

// Passes may replace the values of outputs; the names stay the user's.
static carnot_status* note_output_names(carnot_builder* builder) {
  const carnot_block* main = builder->graph->main;
  const char** names =
      CARNOT_NEW_ARRAY(&builder->graph->arena, const char*, main->output_count + 1);
  CARNOT_TRY(carnot_arena_status(&builder->graph->arena));
  for (size_t i = 0; i < main->output_count; i++) names[i] = main->outputs[i]->name;
  builder->output_names = names;
  return NULL;
}

static carnot_status* run_passes(carnot_builder* builder) {
  CARNOT_TRY(note_output_names(builder));
  const carnot_build_config* config = builder->config;
  carnot_precision_constraints typing = config->typing;
  typing.i8 = builder->ranges != NULL;
  CARNOT_TRY(
      carnot_precision_constraints_apply(builder->graph, &typing, config->log, config->user));
  CARNOT_TRY(carnot_find_shape_inputs(builder));
  CARNOT_TRY(carnot_apply_profiles(builder));
  CARNOT_TRY(carnot_apply_ranges(builder));
  CARNOT_TRY(carnot_apply_io_formats(builder));
  // A CPU that has both computes faster in BF16.
  const bool f16 = config->typing.f16 && (config->device || !config->typing.bf16);
  const carnot_dtype half = f16                   ? CARNOT_DTYPE_F16
                            : config->typing.bf16 ? CARNOT_DTYPE_BF16
                                                  : CARNOT_DTYPE_INVALID;
  carnot_target target = {.isa = builder->isa,
                          .device = config->device,
                          .sources = config->tactic_sources,
                          .half = half};
  carnot_pass_options passes = {.executor = config->executor,
                                .refit = config->refit,
                                .disabled = config->disabled_passes,
                                .disabled_count = config->disabled_pass_count,
                                .dump = config->dump_pass,
                                .device = config->device != NULL,
                                .accepts = carnot_target_accepts,
                                .accepts_half = carnot_target_accepts_half,
                                .computes = config->device ? carnot_target_computes : NULL,
                                .refusal = carnot_target_refusal,
                                .accepts_user = &target,
                                .half = half,
                                .quantize = builder->ranges != NULL,
                                .none = config->no_passes};
  CARNOT_TRY(carnot_builder_progress(builder, "passes", 0, 1));
  CARNOT_TRY(carnot_passes_run(builder->graph, &passes));
  CARNOT_CHECK(!target.out_of_memory, OUT_OF_MEMORY, "no memory to ask which regions fuse");
  CARNOT_TRY(carnot_builder_progress(builder, "passes", 1, 1));
  CARNOT_TRY(carnot_note_symbols(builder));
  return carnot_graph_status(builder->graph);
}

// Assignment and plan of the analysed graph.
static carnot_status* select_and_lower(carnot_builder* builder, const carnot_analysis* analysis,
                                       carnot_candidates* candidates, carnot_tuning* tuning,
                                       carnot_plan** out_plan) {
  const carnot_select_request request = {.sources = builder->config->tactic_sources,
                                         .reports_progress = true};
  carnot_assignment assignment;
  CARNOT_TRY(carnot_choose_stored_types(builder, analysis));
  CARNOT_TRY(carnot_preplan(builder, analysis));
  CARNOT_TRY(carnot_select(builder, analysis, candidates, &request, &assignment));
  CARNOT_TRY(carnot_tuning_collect(builder, analysis, candidates, &assignment, tuning));
  CARNOT_TRY(carnot_tune_end_to_end(builder, analysis, candidates, tuning, &assignment));
  CARNOT_TRY(carnot_prune_libraries(builder, analysis, candidates, tuning, &assignment));
  CARNOT_TRY(carnot_selector_report(builder, analysis, candidates, &assignment));
  carnot_log_assignment(builder, analysis, candidates, &assignment);
  builder->is_last_lowering = true;
  return carnot_lower(builder, analysis, candidates, &assignment, /*alternatives=*/NULL, out_plan,
                      /*out_steps=*/NULL);
}

static carnot_status* analyse_and_lower(carnot_builder* builder, carnot_plan** out_plan) {
  carnot_analysis analysis;
  carnot_candidates candidates = {.count = 0};
  carnot_tuning tuning = {.count = 0};
  CARNOT_TRY(carnot_analyse(builder, &analysis));
  builder->machine.cold_weights =
      carnot_analysis_weight_bytes(&analysis) > carnot_cached_weight_bytes();
  carnot_status* status = carnot_candidates_init(&candidates, &analysis);
  if (!status) status = select_and_lower(builder, &analysis, &candidates, &tuning, out_plan);
  if (!status && builder->times_run)
    status = carnot_plan_time_run(builder, tuning.run_hash, out_plan, &builder->run_ns);
  carnot_tuning_deinit(&tuning);
  carnot_candidates_deinit(&candidates);
  return status;
}

static carnot_status* build(carnot_builder* builder, carnot_plan** out_plan) {
  CARNOT_TRY(run_passes(builder));
  carnot_status* status = carnot_arena_prepare(&builder->facts);
  if (!status) status = carnot_arena_prepare(&builder->problems);
  if (!status) status = analyse_and_lower(builder, out_plan);
  carnot_arena_deinit(&builder->problems);
  carnot_arena_deinit(&builder->facts);
  carnot_heap_trim();  // the plan is going to be written, which takes memory of its own
  return status;
}

// The copy of the graph and the arena that the plan will borrow.
static carnot_status* open_memory(const carnot_graph* graph, carnot_builder* builder,
                                  build_memory** out_memory) {
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(build_memory), "a build", &memory));
  *out_memory = memory;
  carnot_status* status = carnot_arena_prepare(&(*out_memory)->arena);
  if (!status) status = carnot_graph_clone(graph, &(*out_memory)->graph);
  if (status) destroy_memory(memory);
  CARNOT_TRY(status);
  builder->graph = (*out_memory)->graph;
  builder->memory = &(*out_memory)->arena;
  return NULL;
}

// A plan of |graph|. |trial| says what is built: its ranges, whether the run is timed.
static carnot_status* build_plan(const carnot_graph* graph, carnot_builder* trial,
                                 carnot_plan** out_plan) {
  *out_plan = NULL;
  build_memory* memory;
  CARNOT_TRY(open_memory(graph, trial, &memory));
  carnot_plan* plan = NULL;
  carnot_status* status = build(trial, &plan);
  status = carnot_arena_end(trial->memory, carnot_graph_end(trial->graph, status));
  if (!status) status = carnot_arena_status(&plan->arena);
  if (status) {
    carnot_plan_destroy(plan);
    destroy_memory(memory);
    return status;
  }
  plan->keep = memory;
  plan->drop = destroy_memory;
  *out_plan = plan;
  return NULL;
}

// With ranges 8 bits are allowed, not demanded: on an accelerator the network is built with and
// without them, and the faster plan stays. A layer that was asked to compute in INT8 demands them.
static carnot_status* build_faster_plan(const carnot_graph* graph, const carnot_builder* builder,
                                        carnot_plan** out_plan) {
  carnot_builder with = *builder, without = *builder;
  carnot_plan* plain;
  char message[256];
  with.times_run = without.times_run = true;
  without.ranges = NULL;
  CARNOT_TRY(build_plan(graph, &with, out_plan));
  if (with.run_ns == UINT64_MAX || with.must_quantize) return NULL;
  carnot_graph_restore_constants(graph);
  carnot_status* status = build_plan(graph, &without, &plain);
  if (status) {
    carnot_plan_destroy(*out_plan);
    *out_plan = NULL;
    return status;
  }
  const bool is_faster = with.run_ns <= without.run_ns;
  snprintf(message, sizeof(message),
           "a run takes %.1f us with the ranges of the calibration, %.1f us without: %s",
           (double)with.run_ns * 1e-3, (double)without.run_ns * 1e-3,
           is_faster ? "layers are quantized" : "they are not used");
  if (is_faster)
    carnot_builder_log(builder, "%s", message);
  else
    carnot_builder_warn(builder, message);
  carnot_plan_destroy(is_faster ? plain : *out_plan);
  if (!is_faster) *out_plan = plain;
  return NULL;
}

// Whether time decides if ranges are used.
static bool is_trial(const carnot_build_config* config) {
  enum { kTimedLevel = 2 };
  return config->ranges && config->device && config->device->ordinal >= 0 &&
         config->level >= kTimedLevel;
}

carnot_status* carnot_build_plan(const carnot_graph* graph, const carnot_build_config* config,
                                 carnot_plan** out_plan) {
  *out_plan = NULL;
  carnot_builder builder = {.config = config, .ranges = config->ranges};
  builder.isa = config->isa >= 0 ? (carnot_isa)config->isa : carnot_isa_of_machine();
  builder.machine =
      (carnot_timing_machine){.hash = carnot_machine_hash(config->device),
                              .threads = carnot_executor_thread_count(config->executor)};
  builder.timing_cache = config->timing_cache;
  if (!builder.timing_cache) CARNOT_TRY(carnot_timing_cache_create(&builder.timing_cache));
  builder.timings = (carnot_timings){builder.timing_cache, carnot_timing_cache_find,
                                     carnot_timing_cache_get_or_insert};
  if (config->time_budget_s > 0)
    builder.deadline_ms = carnot_builder_now_ms() + config->time_budget_s * 1e3;
  carnot_status* status = is_trial(config) ? build_faster_plan(graph, &builder, out_plan)
                                           : build_plan(graph, &builder, out_plan);
  if (!config->timing_cache) carnot_timing_cache_destroy(builder.timing_cache);
  if (!status && config->strip) carnot_plan_strip(*out_plan);
  return status;
}
