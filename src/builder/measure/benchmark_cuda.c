// Timing on an accelerator: a candidate is recorded some times into one graph, its constants at
// other addresses each time, so that they come from memory as in a run of the whole network.
#include <stdlib.h>

#include "backend/device.h"
#include "builder/measure/benchmark.h"

enum { kRounds = 4, kLeastRepeats = 6, kMaxRepeats = 40, kPatternBytes = 1 << 20 };
static const size_t kColdBytes = 96u << 20;
static const size_t kMostBytes = (size_t)4 << 30;

typedef struct bench {
  const carnot_candidate* candidate;
  carnot_device* device;
  carnot_stream* stream;
  carnot_arena arena;
  char* memory;  // of the device: operands, and the constants |copies| times
  void* workspace;
  int copies, repeats;
  size_t constants_bytes, constants_at;
  carnot_step_view view;
  carnot_operand* operands;  // inputs, then outputs
  void* state;
  carnot_device_graph* graph;
} bench;

static size_t padded(size_t bytes) { return carnot_align_up(bytes + 1, 256); }

static bool is_host(const carnot_operand_desc* t) { return t->format.memory == CARNOT_MEMORY_HOST; }

static bool is_known(const carnot_operand_desc* t) {
  if (t->kind != CARNOT_VALUE_TENSOR) return t->kind == CARNOT_VALUE_UNKNOWN;
  if (is_host(t) && !carnot_is_known(t)) return false;
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] < 1) return false;
  // Made-up integers of more bits may be indices that reach anywhere.
  return t->rank >= 0 &&
         (is_host(t) || carnot_dtype_is_float(t->format.dtype) || carnot_is_8bit(t->format.dtype));
}

static bool can_time(const carnot_candidate* c) {
  bool known = c->tactic->run && !c->tactic->infer_output_sizes && c->tactic->device &&
               c->problem.allow_timing;
  for (uint32_t i = 0; known && i < c->problem.input_count; i++)
    known = is_known(&c->problem.inputs[i]);
  for (uint32_t i = 0; known && i < c->problem.output_count; i++)
    known = is_known(&c->problem.outputs[i]);
  return known;
}

static const carnot_operand_desc* operand_type(const bench* b, uint32_t i) {
  const carnot_problem* p = &b->candidate->problem;
  return i < p->input_count ? &p->inputs[i] : &p->outputs[i - p->input_count];
}

// Weights that are read unpacked: like packed ones they come from memory in a run.
static bool is_rotated(const bench* b, uint32_t i) {
  const carnot_candidate* c = b->candidate;
  return i < c->problem.input_count && c->problem.inputs[i].is_constant &&
         !is_host(&c->problem.inputs[i]) && !(i < 64 && c->prepared.packed_inputs >> i & 1);
}

// Machine code stays in host memory.
static bool is_code(const carnot_candidate* c, uint32_t constant) {
  return carnot_packing_is_code(c->prepared.constants[constant].packing);
}

static size_t bytes_of(const carnot_operand* o) {
  return (size_t)carnot_dims_count(o->dims, o->rank) * (size_t)carnot_dtype_bits(o->format.dtype) /
         8;
}

// Sizes and offsets of all device memory; addresses count from 0.
static carnot_status* lay_out(bench* b, size_t* out_bytes) {
  const carnot_candidate* c = b->candidate;
  uint32_t count = c->problem.input_count + c->problem.output_count;
  void* memory;
  CARNOT_TRY(carnot_arena_try(&b->arena, count, sizeof(carnot_operand), "operands", &memory));
  b->operands = memory;
  CARNOT_TRY(carnot_arena_try(&b->arena, 1, CARNOT_STATE_BYTES, "state", &b->state));
  size_t at = 0;
  for (uint32_t i = 0; i < count; i++) {
    const carnot_operand_desc* t = operand_type(b, i);
    carnot_operand* o = &b->operands[i];
    *o = (carnot_operand){0};
    if (t->kind != CARNOT_VALUE_TENSOR) continue;
    *o = (carnot_operand){
        .format.dtype = t->format.dtype, .rank = t->rank, .format.memory = t->format.memory};
    memcpy(o->dims, t->dims, sizeof(o->dims));
    carnot_layout_strides(t->is_constant ? CARNOT_LAYOUT_ROW_MAJOR : t->format.layout, t->rank,
                          t->dims, o->strides);
    size_t bytes;
    CARNOT_TRY(carnot_dims_bytes(t->format.dtype, t->dims, t->rank, &bytes));
    o->data = is_host(t) ? t->tensor->data : (void*)at;
    if (is_rotated(b, i))
      b->constants_bytes += padded(bytes);
    else if (!is_host(t))
      at += padded(bytes);
  }
  for (uint32_t i = 0; i < c->prepared.constant_count; i++)
    if (!is_code(c, i)) b->constants_bytes += padded(c->prepared.constants[i].bytes);
  b->copies = (int)carnot_min_i64(
      kMaxRepeats,
      1 + (int64_t)(kColdBytes / (b->constants_bytes ? b->constants_bytes : kColdBytes)));
  b->repeats = b->copies > kLeastRepeats ? b->copies : kLeastRepeats;
  b->constants_at = at;
  *out_bytes = at + (size_t)b->copies * b->constants_bytes;
  return NULL;
}

static void set_constants(bench* b, int copy) {
  const carnot_candidate* c = b->candidate;
  b->view = (carnot_step_view){.tactic = c->tactic,
                               .region = c->problem.region,
                               .input_count = c->problem.input_count,
                               .output_count = c->problem.output_count,
                               .params = c->prepared.params,
                               .param_bytes = c->prepared.param_bytes,
                               .constant_count = c->prepared.constant_count,
                               .machine_isa = c->problem.isa,
                               .stream = b->stream};
  char* at = b->memory + b->constants_at + (size_t)copy * b->constants_bytes;
  for (uint32_t i = 0; i < c->prepared.constant_count; i++) {
    b->view.constants[i] = is_code(c, i) ? c->prepared.constants[i].data : at;
    b->view.constant_bytes[i] = c->prepared.constants[i].bytes;
    if (!is_code(c, i)) at += padded(c->prepared.constants[i].bytes);
  }
  for (uint32_t i = 0; i < c->problem.input_count; i++) {
    if (!is_rotated(b, i)) continue;
    b->operands[i].data = at;
    at += padded(bytes_of(&b->operands[i]));
  }
}

// Bytes that are small numbers in every type of floats.
static carnot_status* fill(bench* b, size_t bytes) {
  const carnot_backend* backend = b->device->backend;
  size_t first = bytes < kPatternBytes ? bytes : kPatternBytes;
  void* pattern;
  CARNOT_TRY(carnot_arena_try(&b->arena, 1, first, "a pattern", &pattern));
  for (size_t i = 0; i < first; i++)
    ((uint8_t*)pattern)[i] = i % 2 ? 0x30 : (uint8_t)(i * 2654435761u >> 24);
  CARNOT_TRY(backend->copy(b->stream, b->memory, pattern, first, CARNOT_COPY_UPLOAD));
  for (size_t done = first; done < bytes; done *= 2)
    CARNOT_TRY(backend->copy(b->stream, b->memory + done, b->memory,
                             done < bytes - done ? done : bytes - done, CARNOT_COPY_INSIDE));
  return backend->synchronize(b->stream);
}

static carnot_status* open_bench(bench* b) {
  const carnot_candidate* c = b->candidate;
  const carnot_backend* backend = b->device->backend;
  size_t bytes, workspace = 0;
  CARNOT_TRY(lay_out(b, &bytes));
  CARNOT_CHECK(bytes <= kMostBytes, OUT_OF_RANGE, "timing it takes %zu bytes, at most %zu are used",
               bytes, kMostBytes);
  void* memory;
  CARNOT_TRY(backend->alloc(b->device, bytes + 256, &memory));
  b->memory = memory;
  for (uint32_t i = 0; i < c->problem.input_count + c->problem.output_count; i++)
    if (operand_type(b, i)->kind == CARNOT_VALUE_TENSOR && !is_host(operand_type(b, i)))
      b->operands[i].data = b->memory + (size_t)b->operands[i].data;
  CARNOT_TRY(fill(b, bytes));
  set_constants(b, 0);
  carnot_status* status =
      c->tactic->configure
          ? c->tactic->configure(&b->view, b->operands, b->operands + c->problem.input_count,
                                 b->state, &workspace)
          : NULL;
  backend->settle(b->device);
  CARNOT_TRY(status);
  return backend->alloc(b->device, workspace + 1, &b->workspace);
}

static carnot_status* record(bench* b) {
  const carnot_candidate* c = b->candidate;
  const carnot_backend* backend = b->device->backend;
  CARNOT_TRY(backend->record_begin(b->stream));
  carnot_status* status = NULL;
  for (int i = 0; i < b->repeats && !status; i++) {
    set_constants(b, i % b->copies);
    status = c->tactic->run(&b->view, b->state, b->operands, b->operands + c->problem.input_count,
                            b->workspace, NULL);
  }
  carnot_status* ended = backend->record_end(b->stream, &b->graph);
  if (!status) return ended;
  carnot_status_free(ended);
  return status;
}

// The least time of some launches; one that is far behind |best_ns| is given up.
static carnot_status* time_graph(bench* b, uint64_t best_ns, uint64_t* out_ns) {
  const carnot_backend* backend = b->device->backend;
  *out_ns = UINT64_MAX;
  for (int round = -1; round < kRounds; round++) {  // the first warms up
    uint64_t ns;
    CARNOT_TRY(backend->mark(b->stream, 0));
    CARNOT_TRY(backend->graph_launch(b->stream, b->graph));
    CARNOT_TRY(backend->mark(b->stream, 1));
    CARNOT_TRY(backend->synchronize(b->stream));
    CARNOT_TRY(backend->between(b->stream, 0, 1, &ns));
    ns /= (uint64_t)b->repeats;
    if (round >= 0 && ns < *out_ns) *out_ns = ns;
    if (round >= 0 && best_ns != UINT64_MAX && ns > best_ns + best_ns / 2) return NULL;
  }
  return NULL;
}

static void close_bench(bench* b) {
  const carnot_backend* backend = b->device->backend;
  if (b->graph) backend->graph_destroy(b->stream, b->graph);
  backend->free(b->device, b->memory);
  backend->free(b->device, b->workspace);
  carnot_arena_deinit(&b->arena);
}

carnot_status* carnot_time_on_device(carnot_builder* builder, const char* node,
                                     carnot_candidate* candidates, size_t count) {
  carnot_device* device = builder->config->device;
  carnot_stream* stream;
  uint64_t best_ns = UINT64_MAX;
  // What is known is not timed again: candidates are timed one after the other.
  for (size_t i = 0; i < count; i++)
    if (candidates[i].ns == UINT64_MAX)
      CARNOT_TRY(carnot_candidate_prepare(builder, node, &candidates[i]));
  CARNOT_TRY(device->backend->stream_create(device, &stream));
  stream->allow_code = true;  // this build's own
  for (size_t i = 0; i < count; i++) {
    carnot_candidate* c = &candidates[i];
    if (c->ns < best_ns) best_ns = c->ns;
    if (c->ns != UINT64_MAX || !can_time(c)) continue;
    bench b = {.candidate = c, .device = device, .stream = stream};
    carnot_arena_init(&b.arena);
    carnot_status* refusal = open_bench(&b);
    if (!refusal) refusal = record(&b);
    if (!refusal) refusal = time_graph(&b, best_ns, &c->ns);
    close_bench(&b);
    if (c->ns < best_ns) best_ns = c->ns;
    if (!refusal) continue;
    carnot_note_refusal(builder, refusal, c);
  }
  device->backend->stream_destroy(stream);
  return NULL;
}
