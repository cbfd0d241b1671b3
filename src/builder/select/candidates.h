// Candidates: for a region whose operands have given formats, the tactics that take it and the
// formats each wants. Sets are kept for the whole build, so that selecting again neither asks nor
// prepares nor times a tactic twice.
#ifndef CARNOT_BUILDER_SELECT_CANDIDATES_H_
#define CARNOT_BUILDER_SELECT_CANDIDATES_H_

#include "builder/analysis/analysis.h"
#include "builder/measure/benchmark.h"

// What candidates of a region depend on, beside the region.
typedef struct carnot_situation {
  const carnot_format* formats;  // by value id: how the operands are stored
  uint32_t sources;              // bit set of carnot_tactic_source that tactics may use
  bool is_shape_step;            // computed by the reference kernel when shapes are set
  bool guess_sizes;              // dimensions that only the run knows are guessed, else -1
  bool on_device;                // tactics of the accelerator may take it
  bool allow_timing;
} carnot_situation;

// Text of the reasons of all tactics of an operator.
enum { CARNOT_REASONS_BYTES = 16 << 10 };

typedef struct carnot_candidate_set {
  uint32_t region;  // of the analysis
  carnot_situation situation;
  carnot_format* inputs;      // the operands' formats in the situation
  carnot_region plan_region;  // the region as configured for it (a plugin's fields)
  carnot_problem problem;     // with the operands' formats before a tactic was asked
  carnot_candidate* items;    // in order of preference
  uint32_t count;
  uint32_t end_count;      // of items behind them: tactics that refuse the optimum and take an end
  const char* rejections;  // "tactic: reason; tactic: reason"
  bool is_measured;
  uint32_t next;  // index + 1 of the region's next set; 0: none
} carnot_candidate_set;

// The problems of CARNOT_SETS_PER_CHUNK sets that follow each other.
enum { CARNOT_SETS_PER_CHUNK = 64 };
typedef struct carnot_candidate_chunk {
  carnot_arena problems;
  uint32_t sets_left;  // that somebody may ask for
} carnot_candidate_chunk;

typedef struct carnot_candidates {
  carnot_candidate_set** sets;
  size_t count, capacity;
  uint32_t* first;                 // by region: index + 1 of its first set
  carnot_candidate_chunk* chunks;  // all but the last, whose problems lie in builder->problems
  size_t chunk_count, chunk_capacity;
} carnot_candidates;

carnot_status* carnot_candidates_init(carnot_candidates* candidates,
                                      const carnot_analysis* analysis) CARNOT_MUST_USE;
void carnot_candidates_deinit(carnot_candidates* candidates);

// The candidates of region |region| in |situation|, enumerated at the first call. *out_set is an
// index of |candidates|. INTERNAL when no tactic takes the region.
carnot_status* carnot_enumerate(carnot_builder* builder, const carnot_analysis* analysis,
                                carnot_candidates* candidates, uint32_t region,
                                const carnot_situation* situation,
                                uint32_t* out_set) CARNOT_MUST_USE;

// Nobody asks for the candidates of region |region| any more. Problems are freed by chunks.
void carnot_candidates_forget(const carnot_candidates* candidates, uint32_t region);

// True when both want the same layouts of all operands but constants.
bool carnot_candidates_share_layouts(const carnot_candidate* a, const carnot_candidate* b);

// ---- candidate_times.c ----

// Times the candidates of the set of region |f| with more than one, from the timing cache or by
// runs, at guessed sizes where only the run knows them; once a set.
carnot_status* carnot_measure(carnot_builder* builder, const carnot_region_facts* f,
                              carnot_candidate_set* set) CARNOT_MUST_USE;
// What candidate |i| of |items| must be faster by than an earlier one to win. Times of a device
// vary by some hundredths. On the CPU a library is a dependency of the engine, which it takes only
// where it clearly wins; and so does the older of two instruction sets for one kernel, which noise
// favours as often as the newer one.
uint64_t carnot_candidate_margin(const carnot_candidate* items, uint32_t i);
// The same for |count| candidates of |problem|, which is the key in the timing cache.
carnot_status* carnot_measure_candidates(carnot_builder* builder, const char* node,
                                         const carnot_problem* problem,
                                         carnot_candidate* candidates,
                                         uint32_t count) CARNOT_MUST_USE;
// The CPU's tactics that take |problem|, which is that of |set| at other sizes, and are none of its
// candidates: up to |capacity|. |problem| is left as it was.
carnot_status* carnot_enumerate_others(carnot_builder* builder, const carnot_candidate_set* set,
                                       const carnot_problem* problem, carnot_candidate* out,
                                       uint32_t capacity, uint32_t* out_count) CARNOT_MUST_USE;
// Whether a tactic of the CPU other than the reference and its like takes |problem|.
carnot_status* carnot_any_tactic_takes(carnot_builder* builder, const carnot_problem* problem,
                                       bool* out_takes) CARNOT_MUST_USE;
// ---- layout_change.c ----

// The time of a change of |operand|, one of |problem|, from |layout| to the other on the CPU:
// measured, or an estimate where there are no times.
carnot_status* carnot_time_layout_change(carnot_builder* builder, const carnot_problem* problem,
                                         const carnot_operand_desc* operand, carnot_layout layout,
                                         double* out_ns) CARNOT_MUST_USE;

// ---- problem.c ----

// The problem of a region whose values have |formats| (by value id; NULL: row-major in host
// memory). Dimensions that only the run knows are -1, or with |guess| some size. |out| borrows
// |region|.
carnot_status* carnot_make_problem(carnot_builder* builder, const carnot_region_facts* facts,
                                   const carnot_region* region, const carnot_format* formats,
                                   bool guess, carnot_problem* out) CARNOT_MUST_USE;
// A copy whose operands can be changed.
carnot_status* carnot_problem_copy(carnot_arena* arena, const carnot_problem* problem,
                                   carnot_problem* out) CARNOT_MUST_USE;
// Gives the operands of |problem| the dimensions that they have at |sizes|. |*out_known|: all are
// at least 1 there.
carnot_status* carnot_problem_resize(carnot_builder* builder, const carnot_region_facts* facts,
                                     const carnot_symbol_sizes* sizes, carnot_problem* problem,
                                     bool* out_known) CARNOT_MUST_USE;
// OUT_OF_MEMORY when |why|, the answer of a tactic's reject, is that there was no memory.
carnot_status* carnot_reject_status(const char* why) CARNOT_MUST_USE;
// Gives the operands of |copy| the formats of |original| again.
void carnot_problem_reset(carnot_problem* copy, const carnot_problem* original);
// True when the elements of a tensor have the same order in both layouts: one channel, or one
// element a channel.
bool carnot_layouts_are_same(const carnot_type* type);
// True when |candidate| can store its result |value| in either layout without a change.
bool carnot_stores_in_any_layout(const carnot_candidate* candidate, const carnot_value* value);

// ---- plugin.c ----

// Passes shapes and formats to a plugin and takes over the fields that the engine keeps. Other
// regions stay as they are.
carnot_status* carnot_configure_plugin(carnot_builder* builder, carnot_region* region,
                                       carnot_problem* problem) CARNOT_MUST_USE;

// ---- preplan.c ----

// Builds expensive library plans for all regions that may ask for them in parallel, before
// selection does.
carnot_status* carnot_preplan(carnot_builder* builder,
                              const carnot_analysis* analysis) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_SELECT_CANDIDATES_H_
