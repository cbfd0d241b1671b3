// The state of one lowering, shared by lower.c (steps), values.c (their operands), sizes.c (what is
// computed when) and place.c (storage).
#ifndef CARNOT_BUILDER_LOWER_LOWER_H_
#define CARNOT_BUILDER_LOWER_LOWER_H_

#include "builder/internal.h"

typedef struct carnot_value_builder {
  carnot_plan_value plan;
  const carnot_value* from;
  uint32_t first, last;  // steps of its life in the main block
  uint32_t uses, packed_uses;
  bool waits;  // a late step made it, or what it was made from
} carnot_value_builder;

// What the inspector tells of a step beyond the plan.
typedef struct carnot_step_note {
  const char* layer_type;  // TensorRT's
  const char* rejected;    // why other tactics were not taken
  carnot_dtype precision;  // what the layer computes in
  double flops, bytes, time_us;
} carnot_step_note;

typedef struct carnot_step_list {
  carnot_plan_step* items;
  carnot_step_note* notes;
  size_t count, capacity, note_capacity;
} carnot_step_list;

typedef struct carnot_lowering {
  carnot_builder* builder;
  carnot_value_builder* values;
  uint32_t value_count, value_capacity;
  carnot_plan_blob* blobs;
  uint32_t blob_count, blob_capacity;
  carnot_refit_expr* recipes;
  uint32_t recipe_count, recipe_capacity;
  struct {
    carnot_plan_block plan;
    carnot_step_list steps;
  } * blocks;
  uint32_t block_count, block_capacity, block;
  carnot_step_note* notes;  // by step of the plan
  uint32_t* of_value;       // [value id][place][layout]: plan value + 1
  bool* is_shape_value;     // by value id
  carnot_status* status;    // of calls that cannot return one
} carnot_lowering;

// The slot of of_value.
static inline uint32_t* carnot_lowering_slot(const carnot_lowering* l, const carnot_value* value,
                                             carnot_memory_space place, carnot_layout layout) {
  return &l->of_value[((size_t)value->id * CARNOT_MEMORY_SPACE_COUNT + place) *
                          CARNOT_LAYOUT_COUNT +
                      layout];
}
// The blob of a constant, added where it is not there yet. Refit: with the recipe that makes it
// from named weights.
carnot_status* carnot_lowering_constant(carnot_lowering* l, const carnot_value* value,
                                        uint32_t* out_blob) CARNOT_MUST_USE;
// A new blob of weights; 0 with l->status set when memory is out.
uint32_t carnot_lowering_add_blob(carnot_lowering* l, const carnot_plan_blob* blob);
// The plan value of |value| in |layout| and |place|; a reformat or copy is added where it is not
// there yet. A blob may stand in both memories.
carnot_status* carnot_lowering_value(carnot_lowering* l, const carnot_value* value,
                                     carnot_layout layout, carnot_memory_space place,
                                     uint32_t* out) CARNOT_MUST_USE;
// Elements of small integer tensors that follow from the inputs' shapes alone: computed when shapes
// are set. Small tensors that follow from shape inputs count too, though no expressions say them.
// Notes what is one.
bool carnot_lowering_is_shape_step(carnot_lowering* l, const carnot_choice* choice);
// True of a few integers that are computed from such in the processor's memory: they decide sizes
// there, and the way to the device and back is longer than computing them.
bool carnot_lowering_is_list(const carnot_lowering* l, const carnot_choice* choice);
// Shape and Size: of what they read only the dimensions are wanted.
bool carnot_lowering_wants_dims(const carnot_choice* choice);
// Shape steps run on the processor when shapes are set.
void carnot_lowering_choose_shape_step(carnot_choice* choice);
// True where a size, or whether the step runs at all, is decided by values, and for all behind.
bool carnot_lowering_is_late(const carnot_lowering* l, const carnot_choice* choice);
// True of a result of a late step whose size does not wait for values: what reads it is not late.
// Not of views, which stand where what they read stands.
bool carnot_lowering_is_sized(const carnot_lowering* l, const carnot_choice* choice,
                              const carnot_value* result);
// True of a late step between tensors, one of which stands on the device: it may run there.
bool carnot_lowering_stays_on_device(const carnot_lowering* l, const carnot_choice* choice);
// The recipe of a constant that was folded from weights; NONE for others.
carnot_status* carnot_lowering_refit_expr(carnot_lowering* l, const carnot_value* value,
                                          uint32_t* out_recipe) CARNOT_MUST_USE;
// A new plan value for |from|; 0 with l->status set when memory is out.
uint32_t carnot_lowering_add_value(carnot_lowering* l, const carnot_value* from, const char* name,
                                   carnot_layout layout, carnot_memory_space place);
carnot_status* carnot_lowering_add_step(carnot_lowering* l, const carnot_plan_step* step,
                                        const carnot_step_note* note) CARNOT_MUST_USE;
// A step that brings |source|, a form of |value|, into another layout or the other memory (not both
// at once).
carnot_status* carnot_lowering_add_reformat(carnot_lowering* l, uint32_t source,
                                            const carnot_value* value, carnot_layout layout,
                                            carnot_memory_space place,
                                            uint32_t* out) CARNOT_MUST_USE;
// Constants that are read only in their packed form leave the plan; their operands become absent.
carnot_status* carnot_lowering_drop_packed(carnot_lowering* l) CARNOT_MUST_USE;
// The user's tensors.
carnot_status* carnot_lowering_bind(carnot_lowering* l) CARNOT_MUST_USE;
// The inspector's JSON, from the finished plan and the notes.
carnot_status* carnot_lowering_inspect(carnot_lowering* l) CARNOT_MUST_USE;
// Storage of every value and the arena.
carnot_status* carnot_lowering_place(carnot_lowering* l) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_LOWER_LOWER_H_
