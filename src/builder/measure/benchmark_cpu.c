// Times tactics on the CPU: candidates of a region alternate in rounds.
#include "builder/measure/benchmark.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "backend/device.h"

enum { kRounds = 4, kLongRounds = 2, kLeastNs = 20000, kLeastColdNs = 4000, kMaxRepeats = 64 };
enum { kLongNs = 4000000 };       // a run that a few rounds tell apart
enum { kHopelessNs = 50000000 };  // beyond four times the fastest: more than a disturbance

uint64_t carnot_benchmark_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// ---- a run on generated data ----

typedef struct bench {
  const carnot_tactic* tactic;
  carnot_step_view view;
  carnot_operand* operands;  // inputs, then outputs
  void* state;
  void* workspace;
  void** owned;
  size_t owned_count, owned_bytes;
  size_t available_bytes;  // of this machine's memory
} bench;

// Memory that can be had without pushing other things out; SIZE_MAX where that is not known.
static size_t available_memory(void) {
  FILE* file = fopen("/proc/meminfo", "r");
  unsigned long long kib = 0;
  char line[128];
  bool found = false;
  while (file && !found && fgets(line, sizeof(line), file))
    found = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
  if (file) fclose(file);
  return found ? (size_t)kib * 1024 : SIZE_MAX;
}

static carnot_status* own(bench* b, size_t bytes, void** out) {
  *out = NULL;
  CARNOT_CHECK(bytes <= b->available_bytes - b->owned_bytes, OUT_OF_RANGE,
               "timing it takes %zu bytes and more, this machine has %zu available",
               b->owned_bytes + bytes, b->available_bytes);
  b->owned_bytes += bytes;
  *out = aligned_alloc(64, carnot_align_up(bytes + 64, 64));
  if (!*out) return CARNOT_NO_MEMORY(bytes, "timing a tactic");
  b->owned[b->owned_count++] = *out;
  return NULL;
}

// Small numbers in every type: neither subnormal nor growing.
static void fill(void* data, carnot_dtype dtype, size_t bytes) {
  if (dtype == CARNOT_DTYPE_F32) {
    float* x = data;
    for (size_t i = 0; i < bytes / 4; i++)
      x[i] = (float)((int)(i * 2654435761u >> 20 & 1023) - 512) * 0x1p-9f;
  } else {
    memset(data, dtype == CARNOT_DTYPE_F16 || dtype == CARNOT_DTYPE_BF16 ? 0x30 : 0, bytes);
  }
}

static carnot_status* make_operand(bench* b, const carnot_operand_desc* t, bool read,
                                   carnot_operand* out) {
  *out = (carnot_operand){0};
  if (t->kind != CARNOT_VALUE_TENSOR) return NULL;
  *out = (carnot_operand){.format.dtype = t->format.dtype, .rank = t->rank};
  memcpy(out->dims, t->dims, sizeof(out->dims));
  carnot_layout_strides(t->is_constant ? CARNOT_LAYOUT_ROW_MAJOR : t->format.layout, t->rank,
                        t->dims, out->strides);
  if (carnot_is_known(t)) {
    out->data = t->tensor->data;
    return NULL;
  }
  size_t bytes;
  CARNOT_TRY(carnot_dims_bytes(t->format.dtype, t->dims, t->rank, &bytes));
  CARNOT_TRY(own(b, bytes, &out->data));
  if (read) fill(out->data, t->format.dtype, bytes);
  return NULL;
}

static carnot_status* open_bench(const carnot_candidate* c, bench* b) {
  const carnot_problem* p = &c->problem;
  *b = (bench){.available_bytes = available_memory()};
  void* memory;
  CARNOT_TRY(carnot_calloc((size_t)p->input_count + p->output_count + 4, sizeof(void*), "timing",
                           &memory));
  b->owned = memory;
  CARNOT_TRY(own(b, (p->input_count + p->output_count + 1) * sizeof(carnot_operand), &memory));
  b->operands = memory;
  CARNOT_TRY(own(b, CARNOT_STATE_BYTES, &b->state));
  for (uint32_t i = 0; i < p->input_count; i++)
    CARNOT_TRY(make_operand(b, &p->inputs[i], true, &b->operands[i]));
  for (uint32_t i = 0; i < p->output_count; i++)
    CARNOT_TRY(make_operand(b, &p->outputs[i], false, &b->operands[p->input_count + i]));
  b->view = (carnot_step_view){.tactic = c->tactic,
                               .region = p->region,
                               .input_count = p->input_count,
                               .output_count = p->output_count,
                               .params = c->prepared.params,
                               .param_bytes = c->prepared.param_bytes,
                               .constant_count = c->prepared.constant_count,
                               .machine_isa = p->isa};
  for (uint32_t i = 0; i < c->prepared.constant_count; i++) {
    b->view.constants[i] = c->prepared.constants[i].data;
    b->view.constant_bytes[i] = c->prepared.constants[i].bytes;
  }
  size_t workspace = 0;
  b->tactic = c->tactic;
  if (c->tactic->open) CARNOT_TRY(c->tactic->open(&b->view, &b->view.instance));
  if (c->tactic->configure)
    CARNOT_TRY(c->tactic->configure(&b->view, b->operands, b->operands + p->input_count, b->state,
                                    &workspace));
  if (c->tactic->fill) c->tactic->fill(&b->view, b->state, b->operands);
  return own(b, workspace, &b->workspace);
}

static void close_bench(bench* b) {
  if (b->view.instance) b->tactic->close(b->view.instance);
  for (size_t i = 0; i < b->owned_count; i++) free(b->owned[i]);
  free(b->owned);
}

#if defined(__x86_64__)
enum { kLine = 64 };
// Lines leave one after the other, or, where the processor has the newer instruction, together.
static void evict_in_order(const char* data, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kLine) __builtin_ia32_clflush(data + i);
}
__attribute__((target("clflushopt"))) static void evict_unordered(char* data, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kLine) __builtin_ia32_clflushopt(data + i);
}
#endif

// Evicts |bytes| bytes at |data| from every cache; without an instruction for that, nothing
// happens.
static void evict(const void* data, size_t bytes) {
#if defined(__x86_64__)
  // Every processor of that level has CLFLUSHOPT.
  if (carnot_isa_includes(carnot_isa_of_machine(), CARNOT_ISA_AVX512))
    evict_unordered((char*)(uintptr_t)data, bytes);
  else
    evict_in_order(data, bytes);
  __builtin_ia32_mfence();
#else
  (void)data, (void)bytes;
#endif
}

// Evicts the candidate's constants, as the other layers of a large network do.
static void evict_weights(const carnot_candidate* c) {
  for (uint32_t i = 0; i < c->prepared.constant_count; i++)
    evict(c->prepared.constants[i].data, c->prepared.constants[i].bytes);
  for (uint32_t i = 0; i < c->problem.input_count; i++) {
    const carnot_operand_desc* t = &c->problem.inputs[i];
    bool packed = i < 64 && c->prepared.packed_inputs >> i & 1;
    if (carnot_is_known(t) && !packed)
      evict(t->tensor->data, (size_t)carnot_tensor_count(t->tensor) *
                                 (size_t)carnot_dtype_bits(t->format.dtype) / 8);
  }
}

// The mean nanoseconds of |repeats| runs.
static carnot_status* time_once(const carnot_candidate* c, bench* b, carnot_executor* executor,
                                bool cold_weights, int repeats, uint64_t* out_ns) {
  const int burst = cold_weights ? 1 : repeats;
  uint64_t total = 0;
  for (int done = 0; done < repeats; done += burst) {
    if (cold_weights) evict_weights(c);
    uint64_t start = carnot_benchmark_now_ns();
    for (int i = 0; i < burst; i++)
      CARNOT_TRY(c->tactic->run(&b->view, b->state, b->operands,
                                b->operands + c->problem.input_count, b->workspace, executor));
    total += carnot_benchmark_now_ns() - start;
  }
  *out_ns = total / (uint64_t)repeats;
  return NULL;
}

static bool is_known(const carnot_operand_desc* t) {
  if (t->kind != CARNOT_VALUE_TENSOR) return t->kind == CARNOT_VALUE_UNKNOWN;
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] < 1) return false;
  return t->rank >= 0 && t->format.dtype != CARNOT_DTYPE_STRING;
}

static bool can_time(const carnot_candidate* c) {
  bool known = c->tactic->run && !c->tactic->infer_output_sizes;
  for (uint32_t i = 0; known && i < c->problem.input_count; i++)
    known = is_known(&c->problem.inputs[i]);
  for (uint32_t i = 0; known && i < c->problem.output_count; i++)
    known = is_known(&c->problem.outputs[i]);
  return known;
}

int carnot_rounds_after(uint64_t first_ns, uint64_t least_ns) {
  if (first_ns >= 4 * least_ns + kHopelessNs) return 0;
  return first_ns >= kLongNs ? kLongRounds : kRounds;
}

// Once each, which warms up and says how often to repeat, so that a reading is well above the
// clock's resolution. Evicting weights takes longer than a small kernel: repeats are fewer then.
// Sets the times.
static carnot_status* run_first(bool cold_weights, carnot_candidate* candidates, bench* benches,
                                size_t count, carnot_executor* executor, int* out_repeats) {
  for (size_t i = 0; i < count; i++) {
    if (!benches[i].owned) continue;
    uint64_t ns;
    CARNOT_TRY(time_once(&candidates[i], &benches[i], executor, cold_weights, 1, &ns));
    candidates[i].ns = ns;
    const uint64_t least = cold_weights ? kLeastColdNs : kLeastNs;
    out_repeats[i] =
        ns >= least ? 1 : (int)carnot_min_i64(kMaxRepeats, (int64_t)(least / (ns + 1)) + 1);
  }
  return NULL;
}

// The times of the first runs decide how many rounds follow; their own count where none does.
static void set_rounds(carnot_candidate* candidates, const bench* benches, size_t count,
                       int* out_rounds) {
  uint64_t least = UINT64_MAX / 8;
  for (size_t i = 0; i < count; i++)
    if (benches[i].owned && candidates[i].ns < least) least = candidates[i].ns;
  for (size_t i = 0; i < count; i++) {
    out_rounds[i] = benches[i].owned ? carnot_rounds_after(candidates[i].ns, least) : 0;
    if (out_rounds[i]) candidates[i].ns = UINT64_MAX;
  }
}

static carnot_status* run_rounds(bool cold_weights, carnot_candidate* candidates, bench* benches,
                                 size_t count, carnot_executor* executor) {
  int repeats[CARNOT_MAX_CANDIDATES], rounds[CARNOT_MAX_CANDIDATES];
  CARNOT_TRY(run_first(cold_weights, candidates, benches, count, executor, repeats));
  set_rounds(candidates, benches, count, rounds);
  for (int round = 0; round < kRounds; round++)
    for (size_t i = 0; i < count; i++) {
      if (round >= rounds[i]) continue;
      uint64_t ns;
      CARNOT_TRY(time_once(&candidates[i], &benches[i], executor, cold_weights, repeats[i], &ns));
      if (ns < candidates[i].ns) candidates[i].ns = ns;
    }
  return NULL;
}

void carnot_note_refusal(const carnot_builder* builder, carnot_status* refusal,
                         carnot_candidate* candidate) {
  const char* why = carnot_status_message(refusal);
  const char* text = carnot_arena_text(builder->memory, why, strlen(why));
  carnot_code code = carnot_status_code(refusal);
  bool is_untimed = code == CARNOT_OUT_OF_RANGE || code == CARNOT_OUT_OF_MEMORY;
  *(is_untimed ? &candidate->untimed : &candidate->failed) = text;
  if (is_untimed)
    carnot_builder_log(builder, "tactic %s is not timed: %s", candidate->tactic->name, why);
  carnot_status_free(refusal);
}

carnot_status* carnot_time_candidates(carnot_builder* builder, carnot_candidate* candidates,
                                      size_t count) {
  bench benches[CARNOT_MAX_CANDIDATES] = {{.tactic = NULL}};
  carnot_status* status = NULL;
  for (size_t i = 0; i < count && !status; i++) {
    candidates[i].ns = UINT64_MAX;
    if (!can_time(&candidates[i])) continue;
    carnot_status* refusal = open_bench(&candidates[i], &benches[i]);
    if (!refusal) continue;
    close_bench(&benches[i]);
    benches[i].owned = NULL;
    if (carnot_status_code(refusal) == CARNOT_OUT_OF_MEMORY) {
      status = refusal;
      continue;
    }
    carnot_note_refusal(builder, refusal, &candidates[i]);
  }
  if (!status) {
    carnot_executor* executor = builder->config->executor;
    const bool begun = carnot_executor_begin(executor);
    status = run_rounds(builder->machine.cold_weights, candidates, benches, count,
                        begun ? executor : NULL);
    if (begun) carnot_executor_end(executor);
  }
  for (size_t i = 0; i < count; i++)
    if (benches[i].owned) close_bench(&benches[i]);
  return status;
}
