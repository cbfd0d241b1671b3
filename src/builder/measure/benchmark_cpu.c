// Times tactics on the CPU: candidates of a region alternate in rounds.
#include "builder/measure/benchmark.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/device.h"
#include "builder/measure/calm.h"
#include "builder/measure/cost_model.h"
#include "builder/measure/rounds.h"

// A reading is at least kReadingNs long, so that the clock is exact enough; the readings of a round
// take kRoundNs, with cold weights, whose eviction takes longer than a small kernel, kColdRoundNs.
enum { kReadingNs = 2000, kRoundNs = 20000, kColdRoundNs = 4000, kMostReadings = 64 };
enum { kMostDisturbed = 6 };

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
  int runs, readings;      // of a reading, of a round
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

// Small numbers in every type: neither subnormal nor growing. Those of float32 repeat.
static void fill(void* data, carnot_dtype dtype, size_t bytes) {
  enum { kPattern = 4096 };
  if (dtype != CARNOT_DTYPE_F32) {
    memset(data, dtype == CARNOT_DTYPE_F16 || dtype == CARNOT_DTYPE_BF16 ? 0x30 : 0, bytes);
    return;
  }
  float* x = data;
  for (size_t i = 0; i < bytes / 4; i += kPattern) {
    const size_t count = bytes / 4 - i < kPattern ? bytes / 4 - i : kPattern;
    if (i) memcpy(x + i, x, count * sizeof(float));
    for (size_t k = 0; k < count && !i; k++)
      x[k] = (float)((int)(k * 2654435761u >> 20 & 1023) - 512) * 0x1p-9f;
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

static carnot_status* open_bench(const carnot_candidate* c, int threads, bench* b) {
  const carnot_problem* p = &c->problem;
  *b = (bench){.available_bytes = available_memory(), .runs = 1, .readings = 1};
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
  const carnot_isa machine = carnot_isa_of_machine();
  b->view =
      (carnot_step_view){.tactic = c->tactic,
                         .region = p->region,
                         .input_count = p->input_count,
                         .output_count = p->output_count,
                         .params = c->prepared.params,
                         .param_bytes = c->prepared.param_bytes,
                         .constant_count = c->prepared.constant_count,
                         .machine_isa = carnot_isa_includes(machine, p->isa) ? p->isa : machine,
                         .threads = threads};
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
static void evict(char* data, size_t bytes) {
#if defined(__x86_64__)
  // Every processor of that level has CLFLUSHOPT.
  if (carnot_isa_includes(carnot_isa_of_machine(), CARNOT_ISA_AVX512))
    evict_unordered(data, bytes);
  else
    evict_in_order(data, bytes);
  __builtin_ia32_mfence();
#else
  (void)data, (void)bytes;
#endif
}

typedef struct eviction {
  char* data;
  size_t bytes;
} eviction;

enum { kEvictedBytes = 256 << 10 };  // of a part

static void evict_part(void* argument, int64_t part) {
  const eviction* e = argument;
  const size_t begin = (size_t)part * kEvictedBytes, rest = e->bytes - begin;
  evict(e->data + begin, rest < kEvictedBytes ? rest : kEvictedBytes);
}

static void evict_all(const void* data, size_t bytes, carnot_executor* executor) {
  eviction e = {(char*)(uintptr_t)data, bytes};
  carnot_executor_parallel(executor, carnot_ceildiv((int64_t)bytes, kEvictedBytes), evict_part, &e);
}

// Evicts the candidate's constants, as the other layers of a large network do.
static void evict_weights(const carnot_candidate* c, carnot_executor* executor) {
  for (uint32_t i = 0; i < c->prepared.constant_count; i++)
    evict_all(c->prepared.constants[i].data, c->prepared.constants[i].bytes, executor);
  for (uint32_t i = 0; i < c->problem.input_count; i++) {
    const carnot_operand_desc* t = &c->problem.inputs[i];
    bool packed = i < 64 && c->prepared.packed_inputs >> i & 1;
    if (carnot_is_known(t) && !packed)
      evict_all(
          t->tensor->data,
          (size_t)carnot_tensor_count(t->tensor) * (size_t)carnot_dtype_bits(t->format.dtype) / 8,
          executor);
  }
}

// One run after the other, |b->runs| times.
static carnot_status* run_all(const carnot_candidate* c, const bench* b,
                              carnot_executor* executor) {
  for (int i = 0; i < b->runs; i++)
    CARNOT_TRY(c->tactic->run(&b->view, b->state, b->operands, b->operands + c->problem.input_count,
                              b->workspace, executor));
  return NULL;
}

// The nanoseconds of the runs on |executor|. One thread is timed by its processor time where others
// interrupt it, less what |view.threads| threads would save.
static carnot_status* time_runs(const carnot_candidate* c, const bench* b,
                                carnot_executor* executor, uint64_t* out_ns) {
  const bool is_alone = carnot_executor_thread_count(executor) == 1;
  carnot_executor_estimate estimate = {.threads = b->view.threads};
  if (is_alone && estimate.threads > 1) carnot_executor_set_estimate(&estimate);
  const uint64_t ran = is_alone ? carnot_executor_thread_ns() : 0;
  const uint64_t start = carnot_benchmark_now_ns();
  carnot_status* status = run_all(c, b, executor);
  *out_ns = carnot_benchmark_now_ns() - start;
  if (is_alone) {
    const uint64_t ns = carnot_executor_thread_ns() - ran - estimate.saved_ns;
    if (ns < *out_ns) *out_ns = ns;
  }
  carnot_executor_set_estimate(NULL);
  return status;
}

// The nanoseconds of a run, the least of |readings| readings of |runs| runs each.
static carnot_status* time_round(const carnot_candidate* c, const bench* b,
                                 carnot_executor* executor, bool cold_weights, uint64_t* out_ns) {
  *out_ns = UINT64_MAX;
  for (int done = 0; done < b->readings; done++) {
    uint64_t ns;
    if (cold_weights) evict_weights(c, executor);
    CARNOT_TRY(time_runs(c, b, executor, &ns));
    ns /= (uint64_t)b->runs;
    if (ns < *out_ns) *out_ns = ns;
  }
  return NULL;
}

static bool is_known(const carnot_operand_desc* t) {
  if (t->kind != CARNOT_VALUE_TENSOR) return t->kind == CARNOT_VALUE_UNKNOWN;
  for (int d = 0; d < t->rank; d++)
    if (t->dims[d] < 1) return false;
  return t->rank >= 0 && t->format.dtype != CARNOT_DTYPE_STRING;
}

// A build may allow ISA levels that this machine lacks.
static bool can_time(const carnot_candidate* c) {
  bool known = c->tactic->run && !c->tactic->infer_output_sizes &&
               carnot_isa_includes(carnot_isa_of_machine(), c->tactic->isa);
  for (uint32_t i = 0; known && i < c->problem.input_count; i++)
    known = is_known(&c->problem.inputs[i]);
  for (uint32_t i = 0; known && i < c->problem.output_count; i++)
    known = is_known(&c->problem.outputs[i]);
  return known;
}

// How often a candidate that takes |ns| runs in a round.
static void set_repeats(bench* b, bool cold_weights, uint64_t ns) {
  const uint64_t round = cold_weights ? kColdRoundNs : kRoundNs;
  b->runs = cold_weights || ns >= kReadingNs ? 1 : (int)(kReadingNs / (ns + 1)) + 1;
  const uint64_t reading = (ns + 1) * (uint64_t)b->runs;
  b->readings =
      reading >= round ? 1 : (int)carnot_min_i64(kMostReadings, (int64_t)(round / reading) + 1);
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

typedef struct timing {
  carnot_builder* builder;
  const char* node;
  carnot_candidate* candidates;
  size_t count;
  carnot_executor* executor;
  bool cold_weights;
  int disturbed;      // rounds in a row in which a thread lost its processor, up to kMostDisturbed
  uint64_t spent_ns;  // in runs
  carnot_contestant contestants[CARNOT_MAX_CANDIDATES];
  bench benches[CARNOT_MAX_CANDIDATES];
} timing;

// Other programs keep a processor: from then on all candidates run on one thread, whose processor
// time they do not add to.
static bool is_crowded(const timing* t) { return t->disturbed == kMostDisturbed; }

static carnot_status* run_round(timing* t, size_t i) {
  uint64_t ns;
  const carnot_calm calm = carnot_calm_begin(t->executor);
  CARNOT_TRY(time_round(&t->candidates[i], &t->benches[i], t->executor, t->cold_weights, &ns));
  const bool is_calm = carnot_calm_end(&calm, t->executor);
  if (!is_crowded(t)) t->disturbed = is_calm ? 0 : t->disturbed + 1;
  carnot_contestant_note(&t->contestants[i], ns, is_calm);
  t->spent_ns += carnot_benchmark_now_ns() - calm.begin_ns;
  if (ns < t->candidates[i].ns) t->candidates[i].ns = ns;
  return NULL;
}

// Calls |run| while the executor's threads wait for work, unless they have no processors.
static carnot_status* with_threads(timing* t, carnot_status* (*run)(timing* t, size_t i),
                                   size_t i) {
  carnot_executor* executor = t->builder->config->executor;
  const bool begun = !is_crowded(t) && carnot_executor_begin(executor);
  t->executor = begun ? executor : NULL;
  carnot_status* status = run(t, i);
  if (begun) carnot_executor_end(executor);
  return status;
}

// Prepares candidate |i| and runs it twice, which warms up and says how often to repeat; not one
// that cannot be the fastest. What refuses the problem only fails.
static carnot_status* begin(timing* t, size_t i) {
  carnot_candidate* c = &t->candidates[i];
  bench* b = &t->benches[i];
  bool hopeless;
  CARNOT_TRY(carnot_prune_hopeless(t->builder, t->candidates, t->count, i, &hopeless));
  if (hopeless) return NULL;
  CARNOT_TRY(carnot_candidate_prepare(t->builder, t->node, c));
  carnot_status* refusal =
      open_bench(c, carnot_executor_thread_count(t->builder->config->executor), b);
  if (refusal) {
    close_bench(b);
    b->owned = NULL;
    if (carnot_status_code(refusal) == CARNOT_OUT_OF_MEMORY) return refusal;
    carnot_note_refusal(t->builder, refusal, c);
    return NULL;
  }
  t->contestants[i] = carnot_contestant_make(c->around_ns, carnot_isa_rank(c->tactic->isa));
  for (int k = 0; k < 2; k++) {
    CARNOT_TRY(with_threads(t, run_round, i));
    set_repeats(b, t->cold_weights, c->ns);
  }
  return NULL;
}

// Those of the newest instruction sets first: their times show which others are hopeless.
static carnot_status* begin_all(timing* t) {
  for (int rank = carnot_isa_rank(t->builder->isa); rank >= 0; rank--)
    for (size_t i = 0; i < t->count; i++)
      if (carnot_isa_rank(t->candidates[i].tactic->isa) == rank && can_time(&t->candidates[i]))
        CARNOT_TRY(begin(t, i));
  return NULL;
}

// Until the order is certain, or the executor's threads turn out to have no processors.
static carnot_status* run_rounds(timing* t, size_t unused) {
  (void)unused;
  const bool was_crowded = is_crowded(t);
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < t->count && is_crowded(t) == was_crowded; i++) {
      if (!carnot_contestant_continues(t->contestants, t->count, i, t->spent_ns)) continue;
      any = true;
      CARNOT_TRY(run_round(t, i));
    }
  }
  return NULL;
}

// Times on several threads and on one are not compared: the rounds so far do not count.
static void start_again(timing* t) {
  t->spent_ns = 0;
  for (size_t i = 0; i < t->count; i++) {
    if (!t->contestants[i].runs) continue;
    carnot_candidate* c = &t->candidates[i];
    t->contestants[i] = carnot_contestant_make(c->around_ns, carnot_isa_rank(c->tactic->isa));
    c->ns = UINT64_MAX;
  }
}

static carnot_status* run_contest(timing* t) {
  CARNOT_TRY(begin_all(t));
  if (!is_crowded(t)) CARNOT_TRY(with_threads(t, run_rounds, 0));
  if (!is_crowded(t)) return NULL;
  start_again(t);
  return with_threads(t, run_rounds, 0);
}

carnot_status* carnot_time_candidates(carnot_builder* builder, const char* node,
                                      carnot_candidate* candidates, size_t count) {
  timing t = {.builder = builder,
              .node = node,
              .candidates = candidates,
              .count = count,
              .cold_weights = builder->machine.cold_weights};
  for (size_t i = 0; i < count; i++) candidates[i].ns = UINT64_MAX;
  carnot_status* status = run_contest(&t);
  for (size_t i = 0; i < count; i++)
    if (t.benches[i].owned) close_bench(&t.benches[i]);
  return status;
}
