// A context's part on an accelerator: weights, memory, copies of the user's tensors, and the run of
// device steps as recorded graphs.
#include <stdlib.h>

#include "base/hash.h"
#include "run/context.h"

static const carnot_backend* backend_of(const carnot_context* context) {
  return context->stream->device->backend;
}

// ---- opening ----

static carnot_status* alloc_for_store(void* device, size_t bytes, void** out_memory) {
  return ((carnot_device*)device)->backend->alloc(device, bytes, out_memory);
}

static void free_of_store(void* device, void* memory) {
  ((carnot_device*)device)->backend->free(device, memory);
}

carnot_status* carnot_context_open_device(carnot_context* context,
                                          const carnot_context_options* options) {
  const char* built_for = context->plan->device;
  if (!built_for || !*built_for || strcmp(built_for, "cpu") == 0) return NULL;
  const char* arch = strchr(built_for, ':');
  size_t kind = arch ? (size_t)(arch - built_for) : strlen(built_for);
  const char* wanted = options && options->device ? options->device : getenv("CARNOT_DEVICE");
  if (!wanted || !*wanted || strcmp(wanted, "cpu") == 0) wanted = "cuda";
  carnot_device* device;
  CARNOT_TRY_AT(carnot_device_open(wanted, &device), "the engine is for %s", built_for);
  CARNOT_CHECK(device->ordinal >= 0, FAILED_PRECONDITION,
               "the engine is for %s; %s is no device that could run it", built_for, wanted);
  CARNOT_CHECK(arch && strncmp(built_for, device->backend->name, kind) == 0 &&
                   strcmp(arch + 1, device->arch) == 0,
               UNSUPPORTED, "the engine is for %s, this device (%s) is %s:%s: build it again",
               built_for, device->name, device->backend->name, device->arch);
  context->host_io = options && options->host_io;
  CARNOT_TRY(device->backend->stream_create(device, &context->stream));
  context->stream->allow_code = options && options->allow_code;
  const carnot_run_arena_source source = {
      .alloc = alloc_for_store, .free = free_of_store, .user = device, .alignment = 256};
  carnot_run_arena_init_on(&context->device_run_arena, &source,
                           options ? options->memory_limit_bytes : 0);
  return NULL;
}

static void drop_recording(carnot_context* context, carnot_graph_cache_entry* recording) {
  for (uint32_t i = 0; recording->graphs && i < context->plan->step_count; i++)
    if (recording->graphs[i])
      backend_of(context)->graph_destroy(context->stream, recording->graphs[i]);
  free(recording->graphs);
  free(recording->is_stale);
  *recording = (carnot_graph_cache_entry){0};
}

void carnot_context_close_device(carnot_context* context) {
  if (!context->stream) return;
  carnot_run_arena_deinit(&context->device_run_arena);
  const carnot_backend* backend = backend_of(context);
  carnot_device* device = context->stream->device;
  carnot_status_free(backend->synchronize(context->stream));
  for (int i = 0; i < CARNOT_GRAPH_CACHE_ENTRIES; i++)
    drop_recording(context, &context->recordings[i]);
  for (uint32_t i = 0; context->bindings && i < context->plan->binding_count; i++) {
    backend->free(device, context->bindings[i].device_memory);
    backend->free_host(device, context->bindings[i].pinned);
  }
  backend->free(device, context->device_arena);
  backend->free(device, context->device_workspace);
  backend->stream_destroy(context->stream);
}

// ---- weights ----

static void mark_needed(const carnot_context* context, const void** needed) {
  const carnot_plan* plan = context->plan;
  for (uint32_t i = 0; i < plan->value_count; i++) {
    const carnot_plan_value* v = &plan->values[i];
    if (v->storage == CARNOT_STORAGE_CONSTANT && v->format.memory == CARNOT_MEMORY_DEVICE)
      needed[v->index] = context->weights->data[v->index];
  }
  for (uint32_t s = 0; s < plan->step_count; s++)
    for (uint32_t k = 0; k < plan->steps[s].variant_count; k++)
      for (uint32_t c = 0; c < plan->steps[s].variants[k].constant_count; c++) {
        uint32_t blob = plan->steps[s].variants[k].constants[c];
        if (carnot_blob_is_read_there(context->steps[s].rows[k], &plan->blobs[blob]))
          needed[blob] = context->weights->data[blob];
      }
}

static carnot_status* upload(carnot_context* context, carnot_device_weights* out) {
  const carnot_plan* plan = context->plan;
  const carnot_backend* backend = backend_of(context);
  mark_needed(context, out->data);
  size_t total = 0;
  for (uint32_t i = 0; i < plan->blob_count; i++)
    if (out->data[i] && plan->blobs[i].tensor.dtype != CARNOT_DTYPE_STRING)
      total += carnot_align_up(carnot_tensor_bytes(&plan->blobs[i].tensor), 256);
  CARNOT_TRY_AT(backend->alloc(context->stream->device, total + 1, &out->memory), "weights");
  char* at = out->memory;
  for (uint32_t i = 0; i < plan->blob_count; i++) {
    const void* host = out->data[i];
    out->data[i] = NULL;
    if (!host || plan->blobs[i].tensor.dtype == CARNOT_DTYPE_STRING) continue;
    size_t bytes = carnot_tensor_bytes(&plan->blobs[i].tensor);  // a stripped blob's own are 0
    CARNOT_TRY(backend->copy(context->stream, at, host, bytes, CARNOT_COPY_UPLOAD));
    out->data[i] = at;
    at += carnot_align_up(bytes, 256);
  }
  return backend->synchronize(context->stream);
}

static void free_upload(void* device, void* memory) {
  ((carnot_device*)device)->backend->free(device, memory);
}

static carnot_status* upload_once(carnot_context* context) {
  carnot_device* device = context->stream->device;
  for (const carnot_device_weights* u = context->weights->uploads; u; u = u->next)
    if (u->device == device) return NULL;
  void *memory, *data = NULL;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_device_weights), "weights", &memory));
  carnot_device_weights* made = memory;
  made->device = device;
  made->free = free_upload;
  carnot_status* status =
      carnot_calloc((size_t)context->plan->blob_count + 1, sizeof(void*), "weights", &data);
  made->data = data;
  if (!status) status = upload(context, made);
  if (status) {
    free_upload(device, made->memory);
    free(made->data);
    free(made);
    return status;
  }
  made->next = context->weights->uploads;
  context->weights->uploads = made;
  return NULL;
}

carnot_status* carnot_context_upload(carnot_context* context) {
  pthread_mutex_lock(&context->engine->mutex);
  carnot_status* status = upload_once(context);
  pthread_mutex_unlock(&context->engine->mutex);
  return status;
}

// ---- memory ----

carnot_status* carnot_context_device_memory(carnot_context* context, size_t bytes, void** memory,
                                            size_t* capacity) {
  if (*memory && bytes <= *capacity) return NULL;
  size_t limit = context->memory_limit_bytes;
  CARNOT_CHECK(!limit || bytes <= limit, OUT_OF_MEMORY,
               "the activations take %zu bytes, the memory budget is %zu", bytes, limit);
  const carnot_backend* backend = backend_of(context);
  CARNOT_TRY(backend->synchronize(context->stream));
  backend->free(context->stream->device, *memory);
  *memory = NULL;
  *capacity = 0;
  bytes = carnot_align_up(bytes + 1, 4096);
  CARNOT_TRY(backend->alloc(context->stream->device, bytes, memory));
  *capacity = bytes;
  return NULL;
}

static carnot_status* take_pinned(carnot_context* context, carnot_run_binding* binding,
                                  size_t bytes) {
  if (binding->pinned && bytes <= binding->pinned_bytes) return NULL;
  const carnot_backend* backend = backend_of(context);
  backend->free_host(context->stream->device, binding->pinned);
  binding->pinned = NULL;
  binding->pinned_bytes = 0;
  CARNOT_TRY(backend->alloc_host(context->stream->device, bytes + 1, &binding->pinned));
  binding->pinned_bytes = bytes;
  return NULL;
}

carnot_status* carnot_place_on_device(carnot_context* context, uint32_t index, size_t bytes,
                                      void** out_data) {
  carnot_run_binding* binding = &context->bindings[index];
  const carnot_plan_binding* b = &context->plan->bindings[index];
  if (context->host_io || !binding->address) {
    CARNOT_TRY(carnot_context_device_memory(context, bytes, &binding->device_memory,
                                            &binding->device_bytes));
    *out_data = binding->device_memory;
    return NULL;
  }
  CARNOT_CHECK(backend_of(context)->address_of(context->stream->device, binding->address) ==
                   CARNOT_ADDRESS_DEVICE,
               INVALID_ARGUMENT,
               "tensor %s of this engine for %s wants device memory, %p is host memory", b->name,
               context->plan->device, binding->address);
  CARNOT_CHECK(b->is_input || bytes <= binding->capacity_bytes, OUT_OF_RANGE,
               "output %s takes %zu bytes, its memory holds %zu", b->name, bytes,
               binding->capacity_bytes);
  *out_data = binding->address;
  return NULL;
}

// ---- the user's tensors ----

enum { kMarkStart, kMarkUploaded, kMarkComputed, kMarkDone, kFirstStepMark };

static carnot_status* mark(carnot_context* context, uint32_t index) {
  return context->time_io ? backend_of(context)->mark(context->stream, index) : NULL;
}

static carnot_status* send_input(carnot_context* context, uint32_t index) {
  carnot_run_binding* binding = &context->bindings[index];
  size_t bytes = carnot_tensor_bytes(&binding->cell.tensor);
  if (!bytes) return NULL;
  CARNOT_TRY(take_pinned(context, binding, bytes));
  memcpy(binding->pinned, binding->address, bytes);
  return backend_of(context)->copy(context->stream, binding->device_memory, binding->pinned, bytes,
                                   CARNOT_COPY_UPLOAD);
}

// A host step may read an input that lies in device memory only through a copy, which is a step.
carnot_status* carnot_device_begin(carnot_context* context) {
  CARNOT_CHECK(!context->watch || !context->defer, UNSUPPORTED,
               "the values of a run that is only put into a stream cannot be watched");
  context->direct = context->defer && backend_of(context)->is_recording(context->stream);
  CARNOT_TRY(mark(context, kMarkStart));
  for (uint32_t i = 0;
       context->host_io && !context->keep_tensors && i < context->plan->binding_count; i++)
    if (context->plan->bindings[i].is_input &&
        carnot_is_on_device(context, context->plan->bindings[i].value))
      CARNOT_TRY(send_input(context, i));
  return mark(context, kMarkUploaded);
}

carnot_status* carnot_device_computed(carnot_context* context) {
  return mark(context, kMarkComputed);
}

// The result as the user sees it: in device memory, or brought to the host.
carnot_status* carnot_device_deliver(carnot_context* context, uint32_t index) {
  const carnot_plan_binding* b = &context->plan->bindings[index];
  const carnot_plan_value* v = &context->plan->values[b->value];
  carnot_run_binding* binding = &context->bindings[index];
  const carnot_run_value* value = &context->values[b->value];
  bool on_device = v->format.memory == CARNOT_MEMORY_DEVICE;
  size_t bytes = carnot_tensor_bytes(&binding->cell.tensor);
  const void* from = on_device ? value->device_data : value->cell.tensor.data;
  CARNOT_CHECK(from || !bytes, INVALID_MODEL, "no step makes output %s of %zu bytes", b->name,
               bytes);
  carnot_dims dims = {.rank = value->cell.tensor.rank};
  memcpy(dims.d, value->cell.tensor.dims, sizeof(dims.d));
  void* to = binding->address;
  if (binding->allocate) {
    to = binding->allocate(binding->allocate_user, b->name, binding->address, bytes);
    CARNOT_CHECK(to || !bytes, OUT_OF_MEMORY,
                 "the output allocator gave no memory for %zu bytes of %s", bytes, b->name);
  } else if (to) {
    CARNOT_CHECK(bytes <= binding->capacity_bytes, OUT_OF_RANGE,
                 "output %s takes %zu bytes, its memory holds %zu", b->name, bytes,
                 binding->capacity_bytes);
  } else if (context->host_io) {
    CARNOT_TRY(take_pinned(context, binding, bytes));
    to = binding->pinned;
  } else {
    CARNOT_TRY(carnot_context_device_memory(context, bytes, &binding->device_memory,
                                            &binding->device_bytes));
    to = binding->device_memory;
  }
  carnot_copy_kind kind = context->host_io ? CARNOT_COPY_DOWNLOAD
                          : on_device      ? CARNOT_COPY_INSIDE
                                           : CARNOT_COPY_UPLOAD;
  if (bytes && from != to && !context->keep_tensors)
    CARNOT_TRY(backend_of(context)->copy(context->stream, to, from, bytes, kind));
  binding->cell.tensor.data = to;
  if (binding->notify) binding->notify(binding->allocate_user, b->name, &dims);
  return NULL;
}

// ---- recordings ----

void carnot_note_recording(carnot_context* context) {
  uint64_t h = carnot_hash(&context->device_workspace, sizeof(void*), 1);
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
  context->recording_key = h;
}

// The recording of what is set now, with marks between steps when they are timed. The longest
// unused makes room; its graphs are changed into the new ones.
static carnot_status* find_recording(carnot_context* context, carnot_graph_cache_entry** out) {
  carnot_graph_cache_entry* oldest = &context->recordings[0];
  uint64_t key = context->recording_key + (context->times != NULL);
  for (int i = 0; i < CARNOT_GRAPH_CACHE_ENTRIES; i++) {
    carnot_graph_cache_entry* r = &context->recordings[i];
    if (r->graphs && r->key == key) oldest = r;
    if (r->graphs && r->key == key) break;
    if (r->last_use < oldest->last_use) oldest = r;
  }
  *out = oldest;
  oldest->last_use = ++context->recording_clock;
  if (oldest->graphs && oldest->key == key) return NULL;
  oldest->key = key;
  size_t steps = (size_t)context->plan->step_count + 1;
  if (!oldest->graphs) {
    void *graphs, *is_stale;
    CARNOT_TRY(carnot_calloc(steps, sizeof(void*), "recordings", &graphs));
    oldest->graphs = graphs;
    CARNOT_TRY(carnot_calloc(steps, sizeof(bool), "recordings", &is_stale));
    oldest->is_stale = is_stale;
  }
  for (size_t i = 0; i < steps; i++) oldest->is_stale[i] = oldest->graphs[i] != NULL;
  return NULL;
}

// ---- steps ----

// Nothing to run: views, steps of shapes, and steps whose results are empty.
static bool is_nothing(const carnot_context* context, uint32_t step) {
  const carnot_run_step* run = &context->steps[step];
  if (run->late) return false;
  const carnot_tactic* row = run->rows[run->variant];
  return context->plan->steps[step].is_shape || run->skip || (row->cross_memory && !row->device);
}

static bool runs_on_device(const carnot_context* context, uint32_t step) {
  const carnot_run_step* run = &context->steps[step];
  return !run->late && run->rows[run->variant]->device;
}

static carnot_status* run_each(carnot_context* context, uint32_t first, uint32_t end) {
  const carnot_backend* backend = backend_of(context);
  bool marks = context->times && !context->direct;
  uint32_t at = kFirstStepMark;
  for (uint32_t i = first; i < end; i++) {
    if (is_nothing(context, i)) continue;
    if (marks) CARNOT_TRY(backend->mark(context->stream, at++));
    backend->span(context->plan->steps[i].name);
    carnot_status* status =
        carnot_run_ready(context, i, context->steps[i].state, context->device_workspace);
    backend->span(NULL);
    CARNOT_TRY_AT(status, "step %u (%s)", i, context->plan->steps[i].name);
  }
  return marks ? backend->mark(context->stream, at) : NULL;
}

static carnot_status* read_times(carnot_context* context, uint32_t first, uint32_t end) {
  const carnot_backend* backend = backend_of(context);
  uint32_t at = kFirstStepMark;
  CARNOT_TRY(backend->synchronize(context->stream));
  for (uint32_t i = first; i < end; i++) {
    if (is_nothing(context, i)) continue;
    uint64_t ns;
    CARNOT_TRY(backend->between(context->stream, at, at + 1, &ns));
    carnot_count_time(context, i, ns);
    at++;
  }
  return NULL;
}

static carnot_status* record(carnot_context* context, uint32_t first, uint32_t end,
                             carnot_device_graph** graph) {
  const carnot_backend* backend = backend_of(context);
  CARNOT_TRY(backend->record_begin(context->stream));
  carnot_status* status = run_each(context, first, end);
  carnot_status* ended = backend->record_end(context->stream, graph);
  if (status) {
    carnot_status_free(ended);
    return status;
  }
  context->recorded_count++;
  return ended;
}

// ---- watching ----

// The bytes that |value| lies in: from its lowest element to its highest.
static void extent(const carnot_run_value* value, int64_t* out_first, int64_t* out_count) {
  const carnot_tensor* t = &value->cell.tensor;
  int64_t low = 0, high = 0;
  for (int d = 0; d < t->rank; d++)
    *(value->strides[d] < 0 ? &low : &high) += (t->dims[d] - 1) * value->strides[d];
  *out_first = low, *out_count = carnot_tensor_count(t) ? high - low + 1 : 0;
}

carnot_status* carnot_device_show(carnot_context* context, uint32_t index) {
  const carnot_plan_step* step = &context->plan->steps[index];
  void** copies;
  void* memory;
  CARNOT_TRY(carnot_calloc((size_t)step->output_count + 1, sizeof(void*), "copies", &memory));
  copies = memory;
  carnot_status* status = NULL;
  for (uint32_t i = 0; i < step->output_count && !status; i++) {
    if (step->outputs[i] == CARNOT_PLAN_NONE) continue;
    carnot_run_value* value = &context->values[step->outputs[i]];
    int64_t first, count, bytes = carnot_dtype_bits(value->cell.tensor.dtype) / 8;
    if (!carnot_is_on_device(context, step->outputs[i]) || !value->device_data || !bytes) continue;
    extent(value, &first, &count);
    status = carnot_calloc((size_t)(count * bytes) + 1, 1, "a watched value", &copies[i]);
    if (!status && count)
      status = backend_of(context)->copy(context->stream, copies[i],
                                         (const char*)value->device_data + first * bytes,
                                         (size_t)(count * bytes), CARNOT_COPY_DOWNLOAD);
    if (!status) value->cell.tensor.data = (char*)copies[i] - first * bytes;
  }
  if (!status) status = backend_of(context)->synchronize(context->stream);
  if (!status) status = context->watch(context->watch_user, context, index);
  for (uint32_t i = 0; i < step->output_count; i++) {
    if (copies[i]) context->values[step->outputs[i]].cell.tensor.data = NULL;
    free(copies[i]);
  }
  free(copies);
  return status;
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
  if (context->cancel && context->cancel(context->cancel_user))
    return CARNOT_ERROR(CANCELLED, "the run was cancelled before step %u (%s)", step,
                        context->plan->steps[step].name);
  if (context->watch) return run_watched(context, step, next);
  if (context->direct || context->no_graphs) {
    CARNOT_TRY(run_each(context, step, next));
    return context->times && !context->direct ? read_times(context, step, next) : NULL;
  }
  carnot_graph_cache_entry* recording;
  carnot_status* status = find_recording(context, &recording);
  if (!status && (!recording->graphs[step] || recording->is_stale[step])) {
    status = record(context, step, next, &recording->graphs[step]);
    recording->is_stale[step] = false;
  }
  if (status) {
    drop_recording(context, recording);
    return status;
  }
  backend_of(context)->span(context->plan->steps[step].name);
  status = backend_of(context)->graph_launch(context->stream, recording->graphs[step]);
  backend_of(context)->span(NULL);
  CARNOT_TRY(status);
  return context->times ? read_times(context, step, next) : NULL;
}

carnot_status* carnot_device_wait(carnot_context* context) {
  CARNOT_CHECK(
      !context->defer, UNSUPPORTED,
      "the engine has steps on the processor: it cannot be put into a stream without waiting");
  return backend_of(context)->synchronize(context->stream);
}

carnot_status* carnot_device_pause(carnot_context* context, uint32_t index) {
  const carnot_plan_step* step = &context->plan->steps[index];
  const carnot_tactic* row = context->steps[index].rows[0];
  bool waits = context->defer || !(row->device || row->cross_memory);
  for (uint32_t i = 0; i < step->input_count && !waits; i++) {
    uint32_t id = step->inputs[i];
    waits = id != CARNOT_PLAN_NONE && !carnot_is_on_device(context, id) &&
            context->plan->values[id].storage != CARNOT_STORAGE_CONSTANT;
  }
  return waits ? carnot_device_wait(context) : NULL;
}

carnot_status* carnot_device_end(carnot_context* context) {
  if (context->defer) return NULL;
  const carnot_backend* backend = backend_of(context);
  CARNOT_TRY(mark(context, kMarkDone));
  CARNOT_TRY(backend->synchronize(context->stream));
  for (uint32_t i = 0; context->time_io && i < 3; i++)
    CARNOT_TRY(
        backend->between(context->stream, kMarkStart + i, kMarkStart + i + 1, &context->io_ns[i]));
  return NULL;
}

bool carnot_device_has_host_steps(const carnot_context* context) {
  const carnot_plan_block* main = &context->plan->blocks[0];
  for (uint32_t i = main->first_step; i < main->first_step + main->step_count; i++)
    if (!is_nothing(context, i) && !runs_on_device(context, i)) return true;
  return false;
}
