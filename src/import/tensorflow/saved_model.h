// What a TensorFlow file holds: a GraphDef, a MetaGraphDef or a SavedModel, and which of its graphs
// and signatures is read.
#ifndef CARNOT_IMPORT_TENSORFLOW_SAVED_MODEL_H_
#define CARNOT_IMPORT_TENSORFLOW_SAVED_MODEL_H_

#include "import/tensorflow/importer.h"

typedef struct tf_model {
  const tf_graph* graph;
  const tf_meta_graph* meta;          // NULL: a GraphDef
  const tf_signature_def* signature;  // NULL: none
  bool is_saved_model;
} tf_model;

// True for a GraphDef, MetaGraphDef or SavedModel in wire or text form, as far as the beginning
// tells.
bool tf_model_is(carnot_strview bytes);
// The path of the file of a SavedModel's folder, in |arena|; |path| itself where it is no folder.
carnot_status* tf_model_file(const char* path, carnot_arena* arena,
                             const char** out_path) CARNOT_MUST_USE;
// Reads the messages at |bytes| into |arena|. NOT_FOUND, with what there is, where tags or
// signature of |options| are not there.
carnot_status* tf_model_read(carnot_strview bytes, const carnot_tensorflow_options* options,
                             carnot_arena* arena, tf_model* out_model) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_TENSORFLOW_SAVED_MODEL_H_
