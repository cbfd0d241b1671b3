// Nodes that a plugin of the registry computes, named by their operator.
#ifndef CARNOT_IMPORT_TENSORFLOW_PLUGIN_H_
#define CARNOT_IMPORT_TENSORFLOW_PLUGIN_H_

#include "import/tensorflow/importer.h"

// The row that imports |node| where a plugin of its operator's name is registered; else NULL.
const tf_row* tf_plugin_row(const tf_node* node, carnot_arena* arena);
// Why a node of the operator |op| is not imported, with the nearest plugins.
const char* tf_plugin_missing(carnot_strview op, carnot_arena* arena);

#endif  // CARNOT_IMPORT_TENSORFLOW_PLUGIN_H_
