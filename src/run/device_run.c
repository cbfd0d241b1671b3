// The device steps of a run: recorded as graphs for the shapes and addresses that are set, or
// launched one by one.
#include "base/hash.h"
#include "run/context.h"

void carnot_note_graph_key(carnot_context* context) {
  uint64_t h = carnot_hash(&context->device.workspace, sizeof(void*), 1);
  h = carnot_hash(&context->weights, sizeof(void*), h);
  for (uint32_t i = 0; i < context->plan->step_count; i++)
    h = carnot_hash(&context->steps[i].variant, sizeof(context->steps[i].variant), h);
  for (uint32_t i = 0; i < context->plan->value_count; i++) {
    const carnot_run_value* value = &context->values[i];
    if (!value->known) continue;
    const void* addresses[2] = {value->device_data, value->cell.tensor.data};
    h = carnot_hash(addresses, sizeof(addresses), h);
    h = carnot_hash(value->cell.tensor.dims, (size_t)value->cell.tensor.rank * sizeof(int64_t), h);
  }
  context->device.graphs.key = h;
}

// Nothing to run: views, steps of shapes, and steps whose results are empty.
static bool is_nothing(const carnot_context* context, uint32_t step) {
  const carnot_run_step* run = &context->steps[step];
  if (run->late) return false;
  const carnot_tactic* tactic = run->tactics[run->variant];
  return context->plan->steps[step].is_shape || run->skip ||
         (tactic->cross_memory && !tactic->device);
}

static bool runs_on_device(const carnot_context* context, uint32_t step) {
  const carnot_run_step* run = &context->steps[step];
  return !run->late && run->tactics[run->variant]->device;
}

static carnot_status* run_each(carnot_context* context, uint32_t first, uint32_t end) {
  const carnot_backend* backend = carnot_session_backend(&context->device);
  bool marks = context->profiler.times && !context->device.direct;
  uint32_t at = CARNOT_MARK_FIRST_STEP;
  for (uint32_t i = first; i < end; i++) {
    if (is_nothing(context, i)) continue;
    if (marks) CARNOT_TRY(backend->mark(context->device.stream, at++));
    backend->span(context->plan->steps[i].name);
    carnot_status* status =
        carnot_run_ready(context, i, context->steps[i].state, context->device.workspace);
    backend->span(NULL);
    CARNOT_TRY_AT(status, "step %u (%s)", i, context->plan->steps[i].name);
  }
  return marks ? backend->mark(context->device.stream, at) : NULL;
}

// The times of the steps that ran since the last marks. The stream's clock is tied to the host's
// where the host has waited for the last mark.
static carnot_status* read_times(carnot_context* context, uint32_t first, uint32_t end,
                                 bool is_graph) {
  const carnot_backend* backend = carnot_session_backend(&context->device);
  uint32_t at = CARNOT_MARK_FIRST_STEP, last = at;
  uint64_t total = 0, before = 0;
  CARNOT_TRY(backend->synchronize(context->device.stream));
  uint64_t now = carnot_run_now_ns();
  for (uint32_t i = first; i < end; i++) last += !is_nothing(context, i);
  if (context->profiler.timeline)
    CARNOT_TRY(backend->between(context->device.stream, at, last, &total));
  if (is_graph)
    carnot_run_profiler_span(&context->profiler, CARNOT_SPAN_GRAPH, CARNOT_SPAN_NO_STEP,
                             now - total, now);
  for (uint32_t i = first; i < end; i++) {
    if (is_nothing(context, i)) continue;
    uint64_t ns;
    CARNOT_TRY(backend->between(context->device.stream, at, at + 1, &ns));
    carnot_run_profiler_add(&context->profiler, i, context->plan->steps[i].name, ns);
    uint64_t start = now - total + before;
    before = before + ns < total ? before + ns : total;  // roundings do not leave the graph
    carnot_run_profiler_span(&context->profiler, CARNOT_SPAN_DEVICE, i, start,
                             now - total + before);
    at++;
  }
  return NULL;
}

static carnot_status* record(carnot_context* context, uint32_t first, uint32_t end,
                             carnot_device_graph** graph) {
  const carnot_backend* backend = carnot_session_backend(&context->device);
  CARNOT_TRY(backend->record_begin(context->device.stream));
  carnot_status* status = run_each(context, first, end);
  carnot_status* ended = backend->record_end(context->device.stream, graph);
  if (status) {
    carnot_status_free(ended);
    return status;
  }
  context->device.graphs.recorded_count++;
  return ended;
}

static carnot_status* run_watched(carnot_context* context, uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; i++) {
    if (context->plan->steps[i].is_shape) continue;
    CARNOT_TRY(run_each(context, i, i + 1));
    CARNOT_TRY(carnot_device_show(context, i));
  }
  return NULL;
}

carnot_status* carnot_device_steps(carnot_context* context, uint32_t step, uint32_t end,
                                   uint32_t* out_next) {
  uint32_t next = step, count = 0;
  for (; next < end && (is_nothing(context, next) || runs_on_device(context, next)); next++)
    count += !is_nothing(context, next);
  *out_next = next;
  if (!count) return NULL;
  if (context->hooks.cancel && context->hooks.cancel(context->hooks.cancel_user))
    return CARNOT_ERROR(CANCELLED, "the run was cancelled before step %u (%s)", step,
                        context->plan->steps[step].name);
  if (context->hooks.watch) return run_watched(context, step, next);
  if (context->device.direct || context->device.no_graphs) {
    CARNOT_TRY(run_each(context, step, next));
    return context->profiler.times && !context->device.direct
               ? read_times(context, step, next, /*is_graph=*/false)
               : NULL;
  }
  carnot_graph_cache_entry* recording;
  // Graphs with marks between the steps are others.
  uint64_t key = context->device.graphs.key + (context->profiler.times != NULL);
  carnot_status* status = carnot_graph_cache_get_or_evict(&context->device.graphs, key,
                                                          context->plan->step_count, &recording);
  if (!status && (!recording->graphs[step] || recording->is_stale[step])) {
    status = record(context, step, next, &recording->graphs[step]);
    recording->is_stale[step] = false;
  }
  if (status) {
    carnot_graph_cache_drop(recording, context->device.stream, context->plan->step_count);
    return status;
  }
  carnot_session_backend(&context->device)->span(context->plan->steps[step].name);
  status = carnot_session_backend(&context->device)
               ->graph_launch(context->device.stream, recording->graphs[step]);
  carnot_session_backend(&context->device)->span(NULL);
  CARNOT_TRY(status);
  return context->profiler.times ? read_times(context, step, next, /*is_graph=*/true) : NULL;
}

carnot_status* carnot_device_wait(carnot_context* context) {
  CARNOT_CHECK(
      !context->device.defer, UNSUPPORTED,
      "the engine has steps on the processor: it cannot be put into a stream without waiting");
  return carnot_session_backend(&context->device)->synchronize(context->device.stream);
}

carnot_status* carnot_device_pause(carnot_context* context, uint32_t index) {
  const carnot_plan_step* step = &context->plan->steps[index];
  const carnot_tactic* tactic = context->steps[index].tactics[0];
  bool waits = context->device.defer || !(tactic->device || tactic->cross_memory);
  for (uint32_t i = 0; i < step->input_count && !waits; i++) {
    uint32_t id = step->inputs[i];
    waits = id != CARNOT_PLAN_NONE && !carnot_is_on_device(context, id) &&
            context->plan->values[id].storage != CARNOT_STORAGE_CONSTANT;
  }
  return waits ? carnot_device_wait(context) : NULL;
}

bool carnot_device_has_host_steps(const carnot_context* context) {
  const carnot_plan_block* main = &context->plan->blocks[0];
  for (uint32_t i = main->first_step; i < main->first_step + main->step_count; i++)
    if (!is_nothing(context, i) && !runs_on_device(context, i)) return true;
  return false;
}
