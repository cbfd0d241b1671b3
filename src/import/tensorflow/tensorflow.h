// Reading TensorFlow graphs into graphs.
//
// Accepted: GraphDef (frozen graphs) with functions, which are inlined. Only what the outputs need
// is imported. Source: TensorFlow 2, tensorflow/core/ops.
#ifndef CARNOT_IMPORT_TENSORFLOW_TENSORFLOW_H_
#define CARNOT_IMPORT_TENSORFLOW_TENSORFLOW_H_

#include "carnot/tensorflow.h"
#include "import/common/source.h"
#include "ir/graph.h"

// Reads the GraphDef at |path|, or in memory where |path| is NULL, into |graph|. *out_source is
// what the graph borrows from, set after an error too when something was read. INVALID_MODEL where
// the file breaks its format or a node's inputs do not fit; UNSUPPORTED with a line for every node
// that Carnot has no operator for. |options| may be NULL.
carnot_status* carnot_tf_import(const char* path, const void* data, size_t size,
                                const carnot_tensorflow_options* options, carnot_graph* graph,
                                carnot_model_source** out_source) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_TENSORFLOW_TENSORFLOW_H_
