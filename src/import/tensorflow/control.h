// What calls, conditionals and loops share.
#ifndef CARNOT_IMPORT_TENSORFLOW_CONTROL_H_
#define CARNOT_IMPORT_TENSORFLOW_CONTROL_H_

#include "import/tensorflow/scope.h"

enum { TF_MOST_VARIABLES = 128 };  // of a loop of TensorFlow 1, and values that a branch reads

// ---- results of handlers ----

// The node's result is import_poison.
void tf_poison(tf_import* n);
// Takes |status|, which names its node already, as the node's.
void tf_note_placed(tf_import* n, carnot_status* status);
// True where one of |count| values is import_poison.
bool tf_is_poisoned(carnot_value* const* values, int count);
// A parameter of |block|, called after the node.
carnot_value* tf_new_param(tf_import* n, carnot_block* block, const carnot_type* type);
// What |value| of the block around is inside of |block|: a parameter, two for a complex number, or
// itself where it is a handle. What the parameters stand for is added to the |*count| values
// |given|, by at most 2.
carnot_value* tf_capture(tf_import* n, carnot_block* block, carnot_value* value,
                         carnot_value** given, int* count);
// Widens |type| until it holds |next| as well; false where it does already.
bool tf_widen(tf_import* n, carnot_type* type, const carnot_type* next);

// ---- nodes of TensorFlow 1's control flow ----

// The node that the reference |text| names, and that input |input| of |slot| names, as slots of the
// root of |scope|; NULL: none.
tf_slot* tf_slot_named(const tf_scope* scope, carnot_strview text);
tf_slot* tf_slot_input(const tf_scope* scope, const tf_slot* slot, size_t input);
// Gives a node |count| results, all of them |value|, so that what it is computed from is not
// imported. |slot| may be NULL where memory ran out.
carnot_status* tf_slot_preset(tf_importer* importer, tf_slot* slot, carnot_value* value,
                              int count) CARNOT_MUST_USE;
// The same nodes again, to be imported into |block|. INVALID_MODEL where that nests too deep.
carnot_status* tf_inner_scope(tf_import* n, carnot_block* block, tf_scope* out) CARNOT_MUST_USE;

// A walk from nodes to their inputs that comes to each node once, over the slots of a root. One at
// a time: nothing may be imported during a walk.
typedef struct tf_walk {
  tf_scope* scope;  // the root
  size_t depth;
  uint32_t number;
} tf_walk;
tf_walk tf_walk_begin(tf_importer* importer, const tf_scope* scope);
void tf_walk_visit(tf_walk* w, tf_slot* slot);  // NULL is allowed
void tf_walk_visit_inputs(tf_walk* w, const tf_slot* slot);
tf_slot* tf_walk_next(tf_walk* w);  // NULL at the end

// What tf_control_needs finds for Exit and for Merge; at most TF_MOST_NEEDS references.
enum { TF_MOST_NEEDS = 2 * TF_MOST_VARIABLES + 2 };
size_t tf_exit_needs(tf_importer* importer, tf_scope* scope, tf_slot* slot, carnot_strview* out);
size_t tf_merge_needs(tf_importer* importer, tf_scope* scope, tf_slot* slot, carnot_strview* out);

// Handlers: a result of a loop, and the join of a conditional's branches.
void tf_handle_exit(tf_import* n);
void tf_handle_merge(tf_import* n);

#endif  // CARNOT_IMPORT_TENSORFLOW_CONTROL_H_
