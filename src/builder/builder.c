#include "builder/builder.h"

#include <stdlib.h>
#include <time.h>

#include "backend/device.h"
#include "builder/analysis/accepts.h"
#include "builder/internal.h"
#include "builder/measure/timing_cache.h"
#include "builder/select/library_pruning.h"
#include "builder/select/tune_end_to_end.h"
#include "pass/pass.h"

void carnot_build_config_init(carnot_build_config* config) {
  *config = (carnot_build_config){
      .isa = -1, .level = 3, .tactic_sources = (1u << CARNOT_SOURCE_COUNT) - 1};
}

carnot_status* carnot_builder_progress(const carnot_builder* builder, const char* phase, int done,
                                       int total) {
  const carnot_build_config* config = builder->config;
  if (config->progress && !config->progress(config->user, phase, done, total))
    return CARNOT_ERROR(CANCELLED, "the build was cancelled in phase '%s', step %d of %d", phase,
                        done, total);
  return NULL;
}

double carnot_builder_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

bool carnot_builder_is_late(const carnot_builder* builder) {
  return builder->deadline_ms > 0 && carnot_builder_now_ms() > builder->deadline_ms;
}

static void drop_graph(void* graph) { carnot_graph_destroy(graph); }

// Passes may put other values in the place of results; their names are the user's.
static void note_output_names(carnot_builder* builder) {
  const carnot_block* main = builder->graph->main;
  const char** names =
      CARNOT_NEW_ARRAY(&builder->graph->arena, const char*, main->output_count + 1);
  for (size_t i = 0; i < main->output_count; i++) names[i] = main->outputs[i]->name;
  builder->output_names = names;
}

static carnot_status* build(carnot_builder* builder) {
  note_output_names(builder);
  const carnot_build_config* config = builder->config;
  CARNOT_TRY(carnot_precision_constraints_apply(builder->graph, &config->typing, config->log,
                                                config->user));
  CARNOT_TRY(carnot_find_shape_inputs(builder));
  CARNOT_TRY(carnot_apply_profiles(builder));
  carnot_target target = {.isa = builder->isa, .device = config->device};
  carnot_pass_options passes = {.executor = config->executor,
                                .refit = config->refit,
                                .disabled = config->disabled_passes,
                                .disabled_count = config->disabled_pass_count,
                                .dump = config->dump_pass,
                                .device = config->device != NULL,
                                .accepts = carnot_target_accepts,
                                .accepts_user = &target,
                                .half = config->typing.f16    ? CARNOT_DTYPE_F16
                                        : config->typing.bf16 ? CARNOT_DTYPE_BF16
                                                              : CARNOT_DTYPE_INVALID,
                                .none = config->no_passes};
  CARNOT_TRY(carnot_builder_progress(builder, "passes", 0, 1));
  CARNOT_TRY(carnot_passes_run(builder->graph, &passes));
  CARNOT_TRY(carnot_builder_progress(builder, "passes", 1, 1));
  CARNOT_TRY(carnot_note_symbols(builder));
  CARNOT_TRY(carnot_lower(builder));
  CARNOT_TRY(carnot_descend(builder));
  return carnot_libraries_weigh(builder);
}

carnot_status* carnot_build_plan(const carnot_graph* graph, const carnot_build_config* config,
                                 carnot_plan** out_plan) {
  *out_plan = NULL;
  carnot_builder builder = {.config = config, .tactic_sources = config->tactic_sources};
  builder.isa = config->isa >= 0 ? (carnot_isa)config->isa : carnot_isa_of_machine();
  CARNOT_TRY(carnot_graph_clone(graph, &builder.graph));
  carnot_status* status = carnot_plan_create(&builder.plan);
  builder.timing_cache = config->timing_cache;
  if (!status && !builder.timing_cache) status = carnot_timing_cache_create(&builder.timing_cache);
  builder.timings = (carnot_timings){builder.timing_cache, carnot_timing_cache_find,
                                     carnot_timing_cache_get_or_insert};
  if (config->time_budget_s > 0)
    builder.deadline_ms = carnot_builder_now_ms() + config->time_budget_s * 1e3;
  if (!status) status = build(&builder);
  if (!config->timing_cache) carnot_timing_cache_destroy(builder.timing_cache);
  carnot_arena_deinit(&builder.scratch);
  free(builder.contests);
  free(builder.loaded);
  if (status) {
    carnot_plan_destroy(builder.plan);
    carnot_graph_destroy(builder.graph);
    return status;
  }
  builder.plan->keep = builder.graph;
  builder.plan->drop = drop_graph;
  *out_plan = builder.plan;
  return NULL;
}
