// Reads conformance cases and runs them through the interpreter or an engine.
#include "case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/device.h"
#include "base/file.h"
#include "cell_proto.h"
#include "ops/evaluate.h"

enum { kPathSize = 4096 };

// ---- files ----

static carnot_status* read_values(data_set* set, const char* folder, const char* kind, size_t limit,
                                  carnot_value* const* values, carnot_rt_value* cells,
                                  size_t* out_count) {
  char path[kPathSize];
  for (size_t i = 0; i < limit; i++) {
    snprintf(path, sizeof(path), "%s/%s_%zu.pb", folder, kind, i);
    if (access(path, R_OK) != 0) break;
    CARNOT_CHECK(i < CASE_MAX_VALUES, UNSUPPORTED, "%s: more than %d values", folder,
                 CASE_MAX_VALUES);
    carnot_mapping map;  // stays open for the cells
    CARNOT_TRY(carnot_map_file(path, &map));
    CARNOT_TRY_AT(
        carnot_cell_read(values[i]->type.kind, map.data, map.size, &set->arena, &cells[i]), "%s",
        path);
    *out_count = i + 1;
  }
  return NULL;
}

// Cases whose wanted values are less exact than their tolerance, with the reason.
static const struct {
  const char* name;
  double relative, absolute;
  const char* reason;
} kTolerances[] = {
    {"test_dft_inverse", 1e-3, 1e-6, "the wanted zeros have the rounding of a float32 transform"},
    // Up to .94 of the tolerance off the values in float64, and a result in float16 is off by its
    // last place.
    {"test_attention_4d_fp16", 2e-3, 1e-7, "each step of softmax was rounded to float16"},
    {"test_attention_4d_causal_fp16", 2e-3, 1e-7, "each step of softmax was rounded to float16"},
};

static carnot_status* read_tolerance(const char* folder, double* relative, double* absolute) {
  char path[kPathSize];
  snprintf(path, sizeof(path), "%s/tolerance.txt", folder);
  FILE* file = fopen(path, "r");
  CARNOT_CHECK(file, IO, "cannot open %s", path);
  int read = fscanf(file, "%lf %lf", relative, absolute);
  fclose(file);
  CARNOT_CHECK(read == 2, INVALID_MODEL, "%s has %d numbers, 2 are required", path, read);
  const char* name = strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder;
  for (size_t i = 0; i < sizeof(kTolerances) / sizeof(kTolerances[0]); i++) {
    if (strncmp(name, kTolerances[i].name, strlen(kTolerances[i].name)) != 0) continue;
    *relative = kTolerances[i].relative;
    *absolute = kTolerances[i].absolute;
  }
  return NULL;
}

carnot_status* case_import(const char* folder, test_case* out) {
  char path[kPathSize];
  carnot_model_source* source;
  snprintf(path, sizeof(path), "%s/model.onnx", folder);
  CARNOT_TRY_AT(carnot_onnx_import_file(path, NULL, &source, &out->graph), "import");
  return NULL;
}

carnot_status* case_read_data(const char* folder, test_case* out) {
  const carnot_block* main = out->graph->main;
  char path[kPathSize];
  CARNOT_TRY(read_tolerance(folder, &out->relative, &out->absolute));
  for (out->set_count = 0; out->set_count < CASE_MAX_SETS; out->set_count++) {
    snprintf(path, sizeof(path), "%s/test_data_set_%zu", folder, out->set_count);
    if (access(path, R_OK) != 0) break;
    void* memory;
    CARNOT_TRY(carnot_calloc(1, sizeof(data_set), "a data set", &memory));
    data_set* set = out->sets[out->set_count] = memory;
    CARNOT_TRY(read_values(set, path, "input", main->param_count, main->params, set->inputs,
                           &set->input_count));
    CARNOT_TRY(read_values(set, path, "output", main->output_count, main->outputs, set->outputs,
                           &set->output_count));
  }
  CARNOT_CHECK(out->set_count, NOT_FOUND, "%s has no test data", folder);
  return NULL;
}

// ---- comparison ----

// The greatest magnitude of a tensor of real numbers; 0 of other values.
static double greatest_magnitude(const carnot_rt_value* cell) {
  double most = 0;
  if (cell->kind != CARNOT_VALUE_TENSOR || !carnot_dtype_is_float(cell->tensor.dtype)) return 0;
  for (int64_t i = 0; i < carnot_tensor_count(&cell->tensor); i++) {
    double value = fabs(carnot_load_f64(cell->tensor.dtype, cell->tensor.data, (size_t)i));
    if (isfinite(value)) most = fmax(most, value);
  }
  return most;
}

// A result of 8 bits beside the middle of two steps rounds to either.
static bool is_quantized(const carnot_rt_value* cell) {
  return cell->kind == CARNOT_VALUE_TENSOR && carnot_dtype_is_integer(cell->tensor.dtype) &&
         carnot_dtype_bits(cell->tensor.dtype) == 8;
}

static carnot_status* compare_outputs(const test_case* test, const data_set* set,
                                      const carnot_rt_value* found, double half_bound) {
  for (size_t i = 0; i < set->output_count; i++) {
    double absolute = test->absolute + half_bound * greatest_magnitude(&set->outputs[i]);
    if (half_bound > 0 && is_quantized(&set->outputs[i])) absolute = fmax(absolute, 1);
    CARNOT_TRY_AT(carnot_cell_compare(&found[i], &set->outputs[i], test->relative, absolute),
                  "output %zu", i);
  }
  return NULL;
}

// ---- interpreter ----

carnot_status* case_interpret(const test_case* test, const data_set* set,
                              carnot_rt_value* outputs) {
  const carnot_block* main = test->graph->main;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_evaluator), "an evaluator", &memory));
  carnot_evaluator* evaluator = memory;
  CARNOT_TRY(carnot_evaluator_init(evaluator, test->graph, NULL, 1));
  const carnot_rt_value* inputs[CASE_MAX_VALUES];
  for (size_t i = 0; i < set->input_count; i++) inputs[i] = &set->inputs[i];
  return carnot_evaluate_block(evaluator, main, (int)set->input_count, inputs,
                               (int)main->output_count, outputs);
}

carnot_status* case_check_interpreter(const test_case* test) {
  for (size_t i = 0; i < test->set_count; i++) {
    carnot_rt_value found[CASE_MAX_VALUES] = {0};
    CARNOT_TRY(case_interpret(test, test->sets[i], found));
    CARNOT_TRY(compare_outputs(test, test->sets[i], found, /*half_bound=*/0));
  }
  return NULL;
}

// ---- engine ----

static carnot_status* make_engine(const carnot_graph* graph, const case_options* options,
                                  carnot_engine** out_engine) {
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.no_passes = options->no_passes;
  config.disabled_passes = &options->disabled_pass;
  config.disabled_pass_count = options->disabled_pass != NULL;
  config.isa = options->isa;
  config.level = options->level;
  config.typing.f16 = config.typing.bf16 = config.fast_fp32 = options->half;
  config.pins = options->pins;
  config.user = options->user;
  CARNOT_TRY(carnot_device_choose(options->backend, &config.device));
  carnot_plan* plan;
  CARNOT_TRY_AT(carnot_build_plan(graph, &config, &plan), "build");
  void* bytes;
  size_t size;
  carnot_status* status = carnot_plan_write_memory(plan, &bytes, &size);
  carnot_plan_destroy(plan);
  if (status) return status;
  status = carnot_engine_load_memory(bytes, size, NULL, NULL, out_engine);
  free(bytes);
  return carnot_status_annotate(status, "load");
}

carnot_status* case_open(const test_case* test, const case_options* options,
                         carnot_context** out_context) {
  carnot_engine* engine;
  CARNOT_TRY(make_engine(test->graph, options, &engine));
  carnot_context_options context_options = {.isa = options->isa, .host_io = true};
  carnot_status* status = carnot_context_create_on(engine, &context_options, out_context);
  carnot_engine_release(engine);
  return carnot_status_annotate(status, "context");
}

static carnot_status* run_engine(carnot_context* context, const data_set* set,
                                 carnot_rt_value* found) {
  uint32_t input = 0, output = 0;
  const carnot_plan* plan = context->plan;
  for (uint32_t i = 0; i < plan->binding_count; i++)
    if (plan->bindings[i].is_input && input < set->input_count)
      CARNOT_TRY(carnot_context_set_input_cell(context, i, &set->inputs[input++]));
  CARNOT_TRY(carnot_context_run_now(context));
  for (uint32_t i = 0; i < plan->binding_count; i++)
    if (!plan->bindings[i].is_input && output < set->output_count)
      found[output++] = *carnot_context_output(context, i);
  return NULL;
}

carnot_status* case_check_engine(const test_case* test, carnot_context* context,
                                 double half_bound) {
  for (size_t i = 0; i < test->set_count; i++) {
    carnot_rt_value found[CASE_MAX_VALUES] = {0};
    CARNOT_TRY_AT(run_engine(context, test->sets[i], found), "run");
    CARNOT_TRY(compare_outputs(test, test->sets[i], found, half_bound));
  }
  return NULL;
}
