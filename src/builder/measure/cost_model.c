#include "builder/measure/cost_model.h"

#include <stdio.h>

#include "backend/cpu/roofline/roofline_loops.h"
#include "builder/measure/timing_cache.h"

// The time of 10^9 operations on one thread, the least of several tries.
static uint64_t measure_giga_ns(const carnot_roofline_loop* loop) {
  enum { kTries = 24, kRounds = 12 };  // a try takes 20 to 50 us
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < kTries; i++) {
    const uint64_t start = carnot_benchmark_now_ns();
    loop->run(kRounds);
    const uint64_t ns = carnot_benchmark_now_ns() - start;
    if (ns < least) least = ns;
  }
  return (uint64_t)((double)least * 1e9 / (loop->operations * kRounds));
}

static const carnot_roofline_loop* find_loop(carnot_isa isa) {
  for (const carnot_roofline_loop* loop = carnot_roofline_loops; loop->run; loop++)
    if (loop->isa == (int)isa && strcmp(loop->type, "f32") == 0) return loop;
  return NULL;
}

static bool is_f32(const carnot_operand_desc* t) {
  return t->kind != CARNOT_VALUE_TENSOR || t->format.dtype == CARNOT_DTYPE_F32;
}

// What a tactic multiplies for each multiplication that its work counts; 0 where that is not known.
// F(2x2,3x3) multiplies 16 times for 36, F(4x4,3x3) 36 times for 144.
static double multiplications_of(carnot_numerics numerics) {
  return numerics == CARNOT_NUMERICS_EXACT          ? 1
         : numerics == CARNOT_NUMERICS_WINOGRAD     ? 4.0 / 9
         : numerics == CARNOT_NUMERICS_WINOGRAD_4X4 ? 1.0 / 4
                                                    : 0;
}

static bool multiplies(const carnot_region* region) {
  for (uint32_t n = 0; n < region->node_count; n++) {
    const carnot_op op = region->nodes[n].op;
    if (op == CARNOT_OP_CONV || op == CARNOT_OP_MATMUL || op == CARNOT_OP_GEMM) return true;
  }
  return false;
}

// Whether the tactic multiplies and adds float32 as often as its work says.
static bool counts_operations(const carnot_candidate* c) {
  const carnot_problem* p = &c->problem;
  bool all = c->tactic->work && c->tactic->run && !c->tactic->sources &&
             c->tactic->precision == CARNOT_DTYPE_INVALID &&
             multiplications_of(c->tactic->numerics) > 0 && multiplies(p->region);
  for (uint32_t i = 0; i < p->input_count; i++) all = all && is_f32(&p->inputs[i]);
  for (uint32_t i = 0; i < p->output_count; i++) all = all && is_f32(&p->outputs[i]);
  return all;
}

// The time of 10^9 operations on one thread, from the timing cache.
static carnot_status* giga_ns_of(const carnot_builder* builder, const carnot_roofline_loop* loop,
                                 uint64_t* out_ns) {
  char name[64];
  snprintf(name, sizeof(name), "peak_f32_%s", carnot_isa_name((carnot_isa)loop->isa));
  if (carnot_timing_cache_find(builder->timing_cache, builder->machine.hash, name, out_ns))
    return NULL;
  *out_ns = measure_giga_ns(loop);
  return carnot_timing_cache_get_or_insert(builder->timing_cache, builder->machine.hash, name,
                                           out_ns);
}

// The nanoseconds of the candidate's operations at the peak of its instruction set; 0 where that is
// not known.
static carnot_status* time_at_peak(const carnot_builder* builder, const carnot_candidate* c,
                                   double* out_ns) {
  const carnot_roofline_loop* loop = counts_operations(c) ? find_loop(c->tactic->isa) : NULL;
  double flops, bytes;
  uint64_t giga_ns;
  *out_ns = 0;
  if (!loop || !carnot_isa_includes(carnot_isa_of_machine(), c->tactic->isa)) return NULL;
  CARNOT_TRY(giga_ns_of(builder, loop, &giga_ns));
  carnot_candidate_work(c, &flops, &bytes);
  flops *= multiplications_of(c->tactic->numerics);
  *out_ns = flops * 1e-9 * (double)giga_ns / carnot_max_i64(1, builder->machine.threads);
  return NULL;
}

// Names end with the instruction set.
static bool is_same_kernel(const carnot_tactic* a, const carnot_tactic* b) {
  const char* end = strrchr(a->name, '_');
  const size_t size = end ? (size_t)(end - a->name) + 1 : 0;
  return a->isa != b->isa && size && strncmp(a->name, b->name, size) == 0 &&
         strrchr(b->name, '_') == b->name + size - 1;
}

bool carnot_is_newer_kernel(const carnot_tactic* tactic, const carnot_tactic* than) {
  return is_same_kernel(tactic, than) && carnot_isa_rank(tactic->isa) > carnot_isa_rank(than->isa);
}

// Whether the candidate, which takes |ns| at the peak, is hopeless beside |other|, which has a
// time.
static carnot_status* compare(const carnot_builder* builder, const carnot_candidate* c, double ns,
                              const carnot_candidate* other, bool* out_hopeless) {
  enum { kMostOfGap = 10 };
  double other_ns;
  *out_hopeless = ns > (double)other->ns;
  if (*out_hopeless || !is_same_kernel(c->tactic, other->tactic)) return NULL;
  CARNOT_TRY(time_at_peak(builder, other, &other_ns));
  *out_hopeless = kMostOfGap * (ns - other_ns) > (double)other->ns;
  return NULL;
}

static carnot_status* mark_hopeless(const carnot_builder* builder, carnot_candidate* c, double ns) {
  char text[96];
  const int size = snprintf(text, sizeof(text), "not timed: %.2f us at the peak of %s", ns * 1e-3,
                            carnot_isa_name(c->tactic->isa));
  c->is_hopeless = true;
  c->untimed = carnot_arena_text(builder->memory, text, (size_t)size);
  return carnot_arena_status(builder->memory);
}

carnot_status* carnot_prune_hopeless(const carnot_builder* builder, carnot_candidate* candidates,
                                     size_t count, size_t i, bool* out_hopeless) {
  enum { kPrunedLevel = 3 };
  *out_hopeless = false;
  double ns = -1;
  for (size_t k = 0; k < count && !*out_hopeless; k++) {
    if (candidates[k].ns == UINT64_MAX || builder->config->level > kPrunedLevel) continue;
    if (ns < 0) CARNOT_TRY(time_at_peak(builder, &candidates[i], &ns));
    if (ns == 0) return NULL;
    CARNOT_TRY(compare(builder, &candidates[i], ns, &candidates[k], out_hopeless));
  }
  return *out_hopeless ? mark_hopeless(builder, &candidates[i], ns) : NULL;
}
