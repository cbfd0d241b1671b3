// The inputs of a network: placeholders, and nodes that a graph is cut at.
#ifndef CARNOT_IMPORT_TENSORFLOW_INPUTS_H_
#define CARNOT_IMPORT_TENSORFLOW_INPUTS_H_

#include "import/tensorflow/scope.h"

// |name| without ":0".
carnot_strview tf_without_zero(carnot_strview name);
// The name of an input or output that is called |wanted|: the first to ask for a reserved name gets
// it, others one that no value has. In the graph's arena.
const char* tf_claim_name(tf_importer* importer, carnot_strview wanted);
// Makes the result |name| ("node", "node:1") an input called |wanted|: what it is computed from is
// left out. NOT_FOUND where there is no such node; UNSUPPORTED where the type of its elements does
// not follow from the graph. A number of dimensions that does not follow stays open.
carnot_status* tf_input_make(tf_importer* importer, tf_scope* scope, carnot_strview name,
                             carnot_strview wanted) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_TENSORFLOW_INPUTS_H_
