// What the files of the builder share.
#ifndef CARNOT_BUILDER_INTERNAL_H_
#define CARNOT_BUILDER_INTERNAL_H_

#include "builder/builder.h"

// A region of the graph with the tactic chosen for it.
typedef struct carnot_choice {
  carnot_node* node;
  carnot_region region;
  carnot_problem problem;  // operand types, with the layouts that the tactic wants
  carnot_value** inputs;   // of the step
  carnot_value** outputs;
  const carnot_tactic* row;
  carnot_prepared prepared;
  // Other tactics for part of the shapes, tried before |row|; they want the same layouts.
  uint32_t guarded_count;
  struct {
    const carnot_tactic* row;
    carnot_prepared prepared;
    carnot_guard guard;
  } guarded[CARNOT_MAX_VARIANTS - 1];
  bool on_device;        // the accelerator may run it
  const char* rejected;  // "row: reason; row: reason", for the inspector
  double time_us;        // of the chosen tactic, 0 when not timed
} carnot_choice;

// Lowerings of one build: the first notes contests (descend.h), a trial holds all tactics of each,
// the last takes the descent's choices.
typedef enum carnot_lowering_phase {
  CARNOT_LOWER_FIRST,
  CARNOT_LOWER_TRIAL,
  CARNOT_LOWER_LAST
} carnot_lowering_phase;

// What a library is to the layers whose tactics call it.
typedef struct carnot_library_use {
  bool is_called, is_needed;  // needed: a layer has no other tactic, or it was not timed
  uint64_t load_ns;           // that what the steps ask it for takes when an engine is loaded
} carnot_library_use;

typedef struct carnot_builder {
  const carnot_build_config* config;
  carnot_graph* graph;  // the builder's own copy
  carnot_plan* plan;
  carnot_lowering_phase phase;
  uint32_t tactic_sources;  // 1 << each that rows may use: the configuration's or fewer
  carnot_library_use libraries[CARNOT_SOURCE_COUNT];  // of the last lowering but trials
  uint64_t* loaded;                                   // problems that load_ns holds already
  size_t loaded_count, loaded_capacity;
  struct carnot_contest* contests;  // layers whose fastest tactics are close, in order
  size_t contest_count, contest_capacity;
  uint64_t device_ns,
      device_hash;  // of all device layers that were timed: their sum, their choices
  carnot_isa isa;
  carnot_arena scratch;                      // for one call
  struct carnot_timing_cache* timing_cache;  // the caller's or the build's own
  carnot_timings timings;                    // the same, as rows see it
  double deadline_ms;                        // of timing, by carnot_builder_now_ms; 0: none
  const char* const* output_names;           // of the graph's outputs as the user knows them
  carnot_layout* layouts;                    // by value id: how its producer writes it
  carnot_memory_space* places;               // by value id: where its producer writes it
  bool* late;              // by value id: its size or existence is decided by values
  int64_t* symbol_values;  // by expression index: at the optimum of the first profile
  bool* symbol_known;
  int64_t* guess_values;  // the same, sizes that only the run knows taken as kGuess of profile.c
  bool* guess_known;
  size_t symbol_count;
  bool* symbol_static;  // by expression index: a function of the inputs' dimensions alone
  bool* shape_inputs;   // by input: its elements decide shapes
} carnot_builder;

// Which inputs decide shapes by their elements; where profiles bound these, they become symbols.
carnot_status* carnot_find_shape_inputs(carnot_builder* builder) CARNOT_MUST_USE;
// Ranges and optima of the inputs' dimensions from the profiles, in |builder|'s graph.
carnot_status* carnot_apply_profiles(carnot_builder* builder) CARNOT_MUST_USE;
// Brings the tables of symbols up to what passes have added.
carnot_status* carnot_note_symbols(carnot_builder* builder) CARNOT_MUST_USE;
// True when the type's dimensions are decided by the inputs' shapes.
bool carnot_type_is_static(const carnot_builder* builder, const carnot_type* type);
// Bytes at the largest dimensions; UINT64_MAX without a bound.
uint64_t carnot_type_max_bytes(const carnot_builder* builder, const carnot_type* type);

// Tells the caller how far the build is; CANCELLED when it wants no more.
carnot_status* carnot_builder_progress(const carnot_builder* builder, const char* phase, int done,
                                       int total) CARNOT_MUST_USE;
double carnot_builder_now_ms(void);
// True when the time budget is used up: what is not in the cache is then chosen by order.
bool carnot_builder_is_late(const carnot_builder* builder);
// True when a node of the region is |op|; CARNOT_OP_COUNT is any.
bool carnot_region_holds(const carnot_region* region, carnot_op op);
// The region of |node| and its problem, which points into |out|. A dimension that only the run
// knows is -1, or with |guess| some size.
carnot_status* carnot_make_problem(carnot_builder* builder, carnot_node* node, bool guess,
                                   carnot_choice* out) CARNOT_MUST_USE;
// Tells a plugin its shapes and formats, and takes the fields that the engine keeps. Other regions
// stay as they are.
carnot_status* carnot_configure_plugin(carnot_builder* builder,
                                       carnot_choice* choice) CARNOT_MUST_USE;
// Puts the plugin libraries of the configuration into the plan.
carnot_status* carnot_carry_libraries(carnot_builder* builder) CARNOT_MUST_USE;
// Has slow libraries plan for all nodes ahead of the first lowering.
carnot_status* carnot_preplan(carnot_builder* builder) CARNOT_MUST_USE;
// Chooses a tactic and prepares its constants.
carnot_status* carnot_select_tactic(carnot_builder* builder, carnot_choice* choice) CARNOT_MUST_USE;
// A plan beside the standing one, which stays.
carnot_status* carnot_lower_apart(carnot_builder* builder, carnot_lowering_phase phase,
                                  carnot_plan** out_plan) CARNOT_MUST_USE;
// The plan anew, after choices have changed.
carnot_status* carnot_lower_again(carnot_builder* builder) CARNOT_MUST_USE;
// Graph → plan: steps, values, reformats, storage.
carnot_status* carnot_lower(carnot_builder* builder) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_INTERNAL_H_
