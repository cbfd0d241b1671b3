// Variables of a SavedModel: which entry of the tensor bundle each has, and their values.
#ifndef CARNOT_IMPORT_TENSORFLOW_VARIABLES_H_
#define CARNOT_IMPORT_TENSORFLOW_VARIABLES_H_

#include "import/tensorflow/bundle.h"
#include "import/tensorflow/scope.h"

// Where a variable lies in the bundle.
typedef struct tf_variable_key {
  carnot_strview key;
  carnot_strview slice;  // of a variable that is a part of another; empty: all
} tf_variable_key;

struct tf_variables {
  tf_bundle bundle;
  import_name_map keys;  // by node (VarHandleOp, VariableV2) to tf_variable_key*
};

// Reads off the restore graph of |meta| which key each variable has: RestoreV2's names through
// AssignVariableOp and Assign to the variables' nodes. |variables|->bundle is open.
carnot_status* tf_variables_find_keys(tf_variables* variables, const tf_meta_graph* meta,
                                      carnot_arena* arena) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_TENSORFLOW_VARIABLES_H_
