// Hash tables that constants or vocabulary files of the model fill.
#ifndef CARNOT_IMPORT_TENSORFLOW_TABLES_H_
#define CARNOT_IMPORT_TENSORFLOW_TABLES_H_

#include "import/tensorflow/scope.h"

// The contents of a table: keys ascending, each once, with their values; both one-dimensional.
typedef struct tf_table {
  carnot_tensor keys, values;
} tf_table;

// Finds what fills the tables of |graph|: nodes that import or initialise a table, in the graph and
// in functions that it calls. |meta| (NULL: none) tells the assets. Borrows the messages.
carnot_status* tf_tables_find(const tf_graph* graph, const tf_meta_graph* meta, import_files* files,
                              carnot_arena* arena, tf_tables** out_tables) CARNOT_MUST_USE;
// The contents of the table of node |handle| (HashTableV2). UNSUPPORTED where nothing that is known
// at import fills it; INVALID_MODEL where a key has two values or a file breaks its form.
carnot_status* tf_tables_read(tf_tables* tables, const tf_node* handle,
                              const tf_table** out_table) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_TENSORFLOW_TABLES_H_
