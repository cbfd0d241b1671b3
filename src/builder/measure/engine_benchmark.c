// Times whole engines, on an accelerator by its own clock.
#include "builder/measure/engine_benchmark.h"

#include <math.h>
#include <stdio.h>

#include "builder/measure/benchmark.h"
#include "builder/measure/timing_cache.h"

static carnot_status* open_context(carnot_builder* builder, carnot_engine_benchmark* benchmark) {
  const carnot_device* device = builder->config->device;
  char spec[32];
  if (device) snprintf(spec, sizeof(spec), "%s:%d", device->backend->name, device->ordinal);
  carnot_context_options options = {.executor = builder->config->executor,
                                    .isa = (int)builder->isa,
                                    .device = device ? spec : NULL,
                                    .host_io = true,
                                    .allow_code = true};
  CARNOT_TRY(carnot_context_create_on(benchmark->engine, &options, &benchmark->context));
  benchmark->context->device.time_io = device != NULL;
  return NULL;
}

// Small numbers of both signs; integers are 1, which is an index, a length and an open mask alike.
static void fill(const carnot_plan_binding* b, const carnot_tensor* t) {
  int64_t count = carnot_tensor_count(t);
  for (int64_t i = 0; i < count; i++) {
    double number = b->value_count                    ? (double)b->value_ranges[i].opt
                    : carnot_dtype_is_float(b->dtype) ? (double)(i * 40503 % 1021 - 510) * 0x1p-8
                                                      : 1;
    carnot_store_f64(b->dtype, t->data, (size_t)i, number);
  }
}

static carnot_status* set_input(carnot_engine_benchmark* benchmark, uint32_t index) {
  const carnot_plan_binding* b = &benchmark->engine->plan->bindings[index];
  CARNOT_CHECK(b->rank >= 0 && carnot_dtype_valid(b->dtype) && b->dtype != CARNOT_DTYPE_STRING,
               UNSUPPORTED, "input %s cannot be made up", b->name);
  carnot_rt_value cell = {.kind = CARNOT_VALUE_TENSOR,
                          .tensor = {.dtype = b->dtype, .rank = b->rank}};
  for (int d = 0; d < b->rank; d++) cell.tensor.dims[d] = b->ranges[d].opt;
  carnot_rt_value stored = carnot_stored_cell(b, &cell);
  size_t bytes;
  void* memory;
  CARNOT_TRY(carnot_dims_bytes(b->dtype, stored.tensor.dims, stored.tensor.rank, &bytes));
  CARNOT_TRY(carnot_arena_try(&benchmark->inputs, bytes + 1, 1, "an input", &memory));
  cell.tensor.data = stored.tensor.data = memory;
  fill(b, &stored.tensor);
  return carnot_context_set_input_cell(benchmark->context, index, &cell);
}

// Warns once a build where float16 does not hold the values of a run.
static void check_results(const carnot_engine_benchmark* benchmark) {
  carnot_builder* builder = benchmark->builder;
  const carnot_plan* plan = benchmark->engine->plan;
  if (builder->saw_results || !builder->config->typing.f16) return;
  builder->saw_results = true;
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    if (plan->bindings[i].is_input) continue;
    const carnot_rt_value* result = carnot_context_output(benchmark->context, i);
    const carnot_tensor* t = &result->tensor;
    if (result->kind != CARNOT_VALUE_TENSOR || !t->data || !carnot_dtype_is_float(t->dtype))
      continue;
    const int64_t count = carnot_tensor_count(t);
    int64_t at = 0;
    while (at < count && isfinite(carnot_load_f64(t->dtype, t->data, (size_t)at))) at++;
    if (at == count) continue;
    char message[256];
    snprintf(message, sizeof(message),
             "output %s holds numbers that are not finite, for made-up inputs and with layers in "
             "float16: values may be beyond 65504, which --bf16 and float32 hold",
             plan->bindings[i].name);
    carnot_builder_warn(builder, message);
    return;
  }
}

static carnot_status* open_benchmark(carnot_builder* builder, carnot_engine_benchmark* benchmark) {
  const carnot_plan* plan = benchmark->engine->plan;
  benchmark->builder = builder;
  CARNOT_TRY(open_context(builder, benchmark));
  for (uint32_t i = 0; i < plan->binding_count; i++)
    if (plan->bindings[i].is_input) CARNOT_TRY(set_input(benchmark, i));
  return NULL;
}

carnot_status* carnot_engine_benchmark_open(carnot_builder* builder, carnot_plan* plan,
                                            carnot_engine_benchmark* out) {
  *out = (carnot_engine_benchmark){.engine = NULL};
  CARNOT_TRY(carnot_engine_adopt(plan, &out->engine));
  carnot_status* status = open_benchmark(builder, out);
  if (status) carnot_engine_benchmark_close(out);
  return status;
}

void carnot_engine_benchmark_close(carnot_engine_benchmark* benchmark) {
  carnot_context_free(benchmark->context);
  carnot_engine_release(benchmark->engine);
  carnot_arena_deinit(&benchmark->inputs);
}

void carnot_engine_benchmark_use(carnot_engine_benchmark* benchmark, uint32_t step,
                                 uint32_t variant) {
  carnot_plan_step* s = &benchmark->engine->plan->steps[step];
  for (uint32_t i = 0; i + 1 < s->variant_count; i++) s->variants[i].guard_count = i != variant;
  benchmark->context->resolved = false;
}

carnot_status* carnot_engine_benchmark_time(carnot_engine_benchmark* benchmark, int runs,
                                            uint64_t* out_ns) {
  const bool on_device = benchmark->context->device.time_io;
  *out_ns = UINT64_MAX;
  for (int i = -1; i < runs; i++) {  // the first records and warms up
    const uint64_t begin = carnot_benchmark_now_ns();
    CARNOT_TRY(carnot_context_run_now(benchmark->context));
    uint64_t ns = carnot_benchmark_now_ns() - begin;
    check_results(benchmark);
    benchmark->context->device.keep_tensors = true;
    if (on_device) ns = benchmark->context->device.io_ns[1];
    if (i >= 0 && ns < *out_ns) *out_ns = ns;
  }
  return NULL;
}

// Times |engine|, whose plan stays its own.
static carnot_status* time_engine(carnot_builder* builder, carnot_engine* engine,
                                  uint64_t* out_ns) {
  enum { kRuns = 30 };
  carnot_engine_benchmark benchmark = {.engine = engine};
  carnot_engine_retain(engine);
  carnot_status* status = open_benchmark(builder, &benchmark);
  if (!status) status = carnot_engine_benchmark_time(&benchmark, kRuns, out_ns);
  carnot_engine_benchmark_close(&benchmark);
  return status;
}

carnot_status* carnot_plan_time_run(carnot_builder* builder, uint64_t key, carnot_plan** plan,
                                    uint64_t* out_ns) {
  static const char kRun[] = "run";  // beside the key in the timing cache
  *out_ns = UINT64_MAX;
  if (carnot_timing_cache_find(builder->timing_cache, key, kRun, out_ns)) return NULL;
  carnot_engine* engine;
  carnot_plan* borrowed = *plan;
  *plan = NULL;
  CARNOT_TRY(carnot_engine_adopt(borrowed, &engine));
  carnot_status* status = time_engine(builder, engine, out_ns);
  engine->plan = NULL;
  carnot_engine_release(engine);
  *plan = borrowed;
  if (!status) return carnot_timing_cache_get_or_insert(builder->timing_cache, key, kRun, out_ns);
  carnot_builder_log(builder, "the run is not timed: %s", carnot_status_message(status));
  carnot_status_free(status);
  *out_ns = UINT64_MAX;
  return NULL;
}
