// Lowering: graph, analysis and assignment → plan. Deterministic: it times nothing and keeps no
// state between calls.
#ifndef CARNOT_BUILDER_LOWER_LOWER_H_
#define CARNOT_BUILDER_LOWER_LOWER_H_

#include "builder/select/assignment.h"

// Further tactics of a step for end-to-end tuning, by region. The plan holds them as variants
// before the assigned one, with a guard that no shape meets.
typedef struct carnot_alternatives {
  uint32_t count;
  uint32_t candidates[CARNOT_MAX_VARIANTS - 1];  // of the region's set
} carnot_alternatives;

// *out_plan borrows builder->memory and the graph. |alternatives| by region, or NULL.
// |out_steps| by region: the plan step that computes it; or NULL.
carnot_status* carnot_lower(carnot_builder* builder, const carnot_analysis* analysis,
                            const carnot_candidates* candidates,
                            const carnot_assignment* assignment,
                            const carnot_alternatives* alternatives, carnot_plan** out_plan,
                            uint32_t* out_steps) CARNOT_MUST_USE;

// Logs the tactic of every region, and which regions the accelerator has no tactic for.
void carnot_log_assignment(const carnot_builder* builder, const carnot_analysis* analysis,
                           const carnot_candidates* candidates,
                           const carnot_assignment* assignment);

// ---- state of one lowering, shared by the files of this folder ----

// A plan value under construction.
typedef struct carnot_value_builder {
  carnot_plan_value plan;
  const carnot_value* from;
  uint32_t next;         // index + 1 of the same graph value in another format
  uint32_t first, last;  // steps of its lifetime in the main block
  uint32_t uses, packed_uses;
  bool waits;  // made by a late step, or from the result of one
} carnot_value_builder;

// What the inspector shows of a step beyond the plan.
typedef struct carnot_step_note {
  const char* layer_type;  // TensorRT's
  const char* rejected;    // why other tactics were not chosen
  const char* unfused;     // why a conversion is a step of its own; NULL for other steps
  carnot_dtype precision;  // of the computation
  double flops, bytes, time_us;
} carnot_step_note;

typedef struct carnot_step_list {
  carnot_plan_step* items;
  carnot_step_note* notes;
  size_t count, capacity, note_capacity;
} carnot_step_list;

enum { CARNOT_SHARED_TEXTS = 64 };

typedef struct carnot_lowering {
  carnot_builder* builder;
  const carnot_analysis* analysis;
  const carnot_candidates* candidates;
  const carnot_assignment* assignment;
  const carnot_alternatives* alternatives;
  carnot_plan* plan;
  carnot_value_builder* values;
  uint32_t value_count, value_capacity;
  carnot_plan_blob* blobs;
  uint32_t blob_count, blob_capacity;
  carnot_refit_expr* refit_exprs;
  uint32_t refit_expr_count, refit_expr_capacity;
  struct {
    carnot_plan_block plan;
    carnot_step_list steps;
  } * blocks;
  uint32_t block;           // that steps are added to
  carnot_step_note* notes;  // by step of the plan
  uint32_t* first_of;       // by graph value id: index + 1 of its first plan value
  uint32_t* step_of;        // by region: its step in its block
  // Texts of rejected tactics, by hash: layers of one kind share theirs.
  const char* texts[CARNOT_SHARED_TEXTS];
} carnot_lowering;

// ---- emit.c ----

// A new plan value for |from|. OUT_OF_MEMORY.
carnot_status* carnot_lowering_add_value(carnot_lowering* l, const carnot_value* from,
                                         const char* name, carnot_layout layout,
                                         carnot_memory_space memory,
                                         uint32_t* out_value) CARNOT_MUST_USE;
// The value in whose memory |value| lies: a view's, or the whole of a part.
uint32_t carnot_lowering_root(const carnot_lowering* l, uint32_t value);
// A new blob. OUT_OF_MEMORY.
carnot_status* carnot_lowering_add_blob(carnot_lowering* l, const carnot_plan_blob* blob,
                                        uint32_t* out_blob) CARNOT_MUST_USE;
// Adds a step to the current block.
carnot_status* carnot_lowering_add_step(carnot_lowering* l, const carnot_plan_step* step,
                                        const carnot_step_note* note) CARNOT_MUST_USE;

// ---- reformat.c ----

// The plan value of |value| in a layout and memory space; a copy or reformat step is added when it
// does not exist yet. A constant is stored once and may be read from both memories.
carnot_status* carnot_lowering_value(carnot_lowering* l, const carnot_value* value,
                                     carnot_layout layout, carnot_memory_space memory,
                                     uint32_t* out) CARNOT_MUST_USE;
// The blob of a constant, added when it does not exist yet; for a refittable engine with the
// expression that makes it from named weights.
carnot_status* carnot_lowering_constant(carnot_lowering* l, const carnot_value* value,
                                        uint32_t* out_blob) CARNOT_MUST_USE;

// ---- steps.c ----

// The step of a region, whose operands have their plan values.
carnot_status* carnot_lowering_add_region_step(carnot_lowering* l, uint32_t region,
                                               const uint32_t* inputs,
                                               const uint32_t* outputs) CARNOT_MUST_USE;
// Packs the weights of the region's tactics. Called before the two functions below.
carnot_status* carnot_lowering_prepare(carnot_lowering* l, uint32_t region) CARNOT_MUST_USE;
// True when the tactics of the step read input |input| only in packed form.
bool carnot_lowering_is_packed_away(const carnot_lowering* l, uint32_t region, uint32_t input);

// ---- refit_expr.c ----

// The expression of a constant that was folded from weights; NONE for others.
carnot_status* carnot_lowering_refit_expr(carnot_lowering* l, const carnot_value* value,
                                          uint32_t* out_refit_expr) CARNOT_MUST_USE;

// ---- storage.c ----

// Drops constants that are read only in packed form.
carnot_status* carnot_lowering_drop_packed(carnot_lowering* l) CARNOT_MUST_USE;
// Adds the bindings: the user's tensors.
carnot_status* carnot_lowering_bind(carnot_lowering* l) CARNOT_MUST_USE;
// Assigns storage to every value and plans the arenas.
carnot_status* carnot_lowering_assign_storage(carnot_lowering* l) CARNOT_MUST_USE;

// ---- share_memory.c ----

// Makes results aliases of operands that their steps may write over. Called when the lifetimes are
// known.
void carnot_lowering_share_memory(carnot_lowering* l);

// ---- join_parts.c ----

// Lays values in the results of the Concats that read them, where steps can write and read them
// there. Called when the other values have their storage.
carnot_status* carnot_lowering_join_parts(carnot_lowering* l) CARNOT_MUST_USE;

// ---- inspector.c, plugin_libraries.c ----

// The inspector's JSON, from the finished plan and the notes.
carnot_status* carnot_lowering_inspect(carnot_lowering* l) CARNOT_MUST_USE;
// Puts the plugin libraries that the configuration names into the plan.
carnot_status* carnot_lowering_carry_libraries(const carnot_builder* builder,
                                               carnot_plan* plan) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_LOWER_LOWER_H_
