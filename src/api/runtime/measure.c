// Measuring and watching contexts: layer times, run times, the values of each layer.
#include "api/runtime/measure.h"

#include <stdlib.h>

#include "carnot/runtime.h"
#include "ops/util.h"

// ---- times ----

static carnot_status* take_times(carnot_context* context) {
  if (context->profiler.times) return NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc((size_t)context->plan->step_count + 1, sizeof(carnot_step_time),
                           "step times", &memory));
  context->profiler.times = memory;
  return NULL;
}

static carnot_status* set_profiler(carnot_context* context,
                                   void (*report)(void* user, const char* step, uint64_t time_ns),
                                   void* user) {
  if (report) CARNOT_TRY(take_times(context));
  context->profiler.report = report;
  context->profiler.report_user = user;
  return NULL;
}

carnot_status* carnot_context_set_profiler(carnot_context* context,
                                           void (*report)(void* user, const char* step,
                                                          uint64_t time_ns),
                                           void* user) {
  CARNOT_TRY(carnot_context_enter(context, __func__));
  return carnot_context_leave(context, set_profiler(context, report, user));
}

static carnot_status* set_layer_timing(carnot_context* context, bool on) {
  if (on) {
    CARNOT_TRY(take_times(context));
    memset(context->profiler.times, 0, context->plan->step_count * sizeof(carnot_step_time));
  } else if (!context->profiler.report) {
    free(context->profiler.times);
    context->profiler.times = NULL;
  }
  return NULL;
}

carnot_status* carnot_context_set_layer_timing(carnot_context* context, bool on) {
  CARNOT_TRY(carnot_context_enter(context, __func__));
  return carnot_context_leave(context, set_layer_timing(context, on));
}

static carnot_status* get_layer_time(const carnot_context* context, uint32_t index,
                                     carnot_layer_time* out_time) {
  const carnot_plan* plan = context->plan;
  CARNOT_CHECK(index < plan->step_count, OUT_OF_RANGE, "layer %u of %u", index, plan->step_count);
  CARNOT_CHECK(context->profiler.times, FAILED_PRECONDITION, "layers are not timed");
  const carnot_plan_step* step = &plan->steps[index];
  const carnot_step_time* time = &context->profiler.times[index];
  *out_time = (carnot_layer_time){.layer = step->name,
                                  .tactic = step->variants[context->steps[index].variant].tactic,
                                  .total_ns = time->total_ns,
                                  .min_ns = time->min_ns,
                                  .count = time->count};
  return NULL;
}

carnot_status* carnot_context_get_layer_time(const carnot_context* context, uint32_t index,
                                             carnot_layer_time* out_time) {
  *out_time = (carnot_layer_time){0};
  bool taken;
  CARNOT_TRY(carnot_context_enter_to_read(context, __func__, &taken));
  carnot_status* status = get_layer_time(context, index, out_time);
  carnot_context_leave_read(context, taken);
  return status;
}

bool carnot_context_has_accelerator(const carnot_context* context) {
  return context->device.stream != NULL;
}

// Sets one switch of a context.
static carnot_status* set_switch(carnot_context* context, bool* value, bool on, const char* call) {
  CARNOT_TRY(carnot_context_enter(context, call));
  *value = on;
  return carnot_context_leave(context, NULL);
}

carnot_status* carnot_context_set_run_timing(carnot_context* context, bool on) {
  return set_switch(context, &context->device.time_io, on && context->device.stream, __func__);
}

carnot_status* carnot_context_get_run_times(const carnot_context* context,
                                            carnot_run_times* out_times) {
  *out_times = (carnot_run_times){0};
  bool taken;
  CARNOT_TRY(carnot_context_enter_to_read(context, __func__, &taken));
  if (context->device.time_io)
    *out_times = (carnot_run_times){.upload_ns = context->device.io_ns[0],
                                    .compute_ns = context->device.io_ns[1],
                                    .download_ns = context->device.io_ns[2]};
  carnot_context_leave_read(context, taken);
  return NULL;
}

carnot_status* carnot_context_set_graphs(carnot_context* context, bool on) {
  return set_switch(context, &context->device.no_graphs, !on, __func__);
}

carnot_status* carnot_context_set_transfers(carnot_context* context, bool on) {
  return set_switch(context, &context->device.keep_tensors, !on, __func__);
}

// ---- watching ----

typedef struct watcher {
  carnot_status* (*watch)(void* user, const carnot_watched_value* value);
  void* user;
} watcher;

static carnot_status* watch_step(void* user, carnot_context* context, uint32_t index) {
  const watcher* w = user;
  const carnot_plan_step* step = &context->plan->steps[index];
  for (uint32_t i = 0; i < step->output_count; i++) {
    if (step->outputs[i] == CARNOT_PLAN_NONE) continue;
    const carnot_run_value* value = &context->values[step->outputs[i]];
    const carnot_tensor* tensor = &value->cell.tensor;
    if (value->cell.kind != CARNOT_VALUE_TENSOR || !tensor->data ||
        tensor->dtype == CARNOT_DTYPE_STRING)
      continue;
    const carnot_plan_value* planned = &context->plan->values[step->outputs[i]];
    carnot_watched_value seen = {.layer = step->name,
                                 .tactic = step->variants[context->steps[index].variant].tactic,
                                 .name = planned->name,
                                 .dtype = carnot_plan_stored_dtype(planned, tensor->dtype),
                                 .dims = {.rank = tensor->rank},
                                 .data = tensor->data};
    for (int d = 0; d < tensor->rank; d++) {
      seen.dims.d[d] = tensor->dims[d];
      seen.strides[d] = value->strides[d];
    }
    CARNOT_TRY(w->watch(w->user, &seen));
  }
  return NULL;
}

void carnot_context_drop_watch(carnot_context* context) {
  if (context->hooks.watch == watch_step) free(context->hooks.watch_user);
  context->hooks.watch = NULL;
  context->hooks.watch_user = NULL;
}

static carnot_status* set_watch(carnot_context* context,
                                carnot_status* (*watch)(void* user,
                                                        const carnot_watched_value* value),
                                void* user) {
  carnot_context_drop_watch(context);
  if (!watch) return NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(watcher), "a watch function", &memory));
  *(watcher*)memory = (watcher){watch, user};
  context->hooks.watch = watch_step;
  context->hooks.watch_user = memory;
  return NULL;
}

carnot_status* carnot_context_set_watch(carnot_context* context,
                                        carnot_status* (*watch)(void* user,
                                                                const carnot_watched_value* value),
                                        void* user) {
  CARNOT_TRY(carnot_context_enter(context, __func__));
  return carnot_context_leave(context, set_watch(context, watch, user));
}

void carnot_watched_value_copy(const carnot_watched_value* value, void* dst) {
  int64_t count = carnot_dims_count(value->dims.d, value->dims.rank);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = carnot_offset(i, value->dims.d, value->strides, value->dims.rank);
    carnot_copy_element(value->dtype, dst, (size_t)i, value->data, (size_t)at);
  }
}
