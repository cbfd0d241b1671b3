// Names of a graph or a function, and importing what results need.
#ifndef CARNOT_IMPORT_TENSORFLOW_SCOPE_H_
#define CARNOT_IMPORT_TENSORFLOW_SCOPE_H_

#include "import/tensorflow/importer.h"

enum {
  TF_MOST_DEPTH = 32,       // of calls and bodies
  TF_MOST_NESTING = 128,    // of handlers that import what they need
  TF_MOST_CALLS = 1 << 16,  // that are inlined: calls of calls multiply
};

// "^node", "node", "node:1" and "node:output:1".
typedef struct tf_reference {
  carnot_strview node;
  carnot_strview output;  // its name; empty: none
  int64_t index;
  bool is_control;
} tf_reference;
bool tf_reference_read(carnot_strview text, tf_reference* out);

// True for texts that can name a value: not empty, without a zero byte.
bool tf_is_name(carnot_strview text);

// A node and, once it is imported, its results.
typedef struct tf_slot {
  const tf_node* proto;
  enum { TF_NEW, TF_OPEN, TF_DONE } state;
  size_t next_input;  // of an open node
  carnot_value** outputs;
  int output_count;
  bool is_read;
} tf_slot;

struct tf_scope {
  const tf_function* function;  // NULL: the graph itself
  const tf_node_list* node_list;
  tf_scope* outer;  // of the same nodes around a body of TensorFlow 1; NULL: none
  carnot_block* block;
  const char* prefix;     // of names; "" in the graph
  import_name_map nodes;  // by name to tf_slot*
  tf_slot* slots;
  size_t slot_count;
  import_name_map args;  // of a function, by name to carnot_value*
  int depth;
};

typedef struct tf_variables tf_variables;

struct tf_importer {
  import_state state;  // first
  const tf_graph* graph;
  tf_variables* variables;  // NULL: a graph without a bundle of variables
  import_files* files;
  carnot_tensorflow_options options;
  int nesting;                // of handlers at work
  int call_count;             // that were inlined
  import_name_map functions;  // by name to tf_function*
};

// The nodes of |nodes| as a scope that adds to |block|.
carnot_status* tf_scope_init(tf_importer* importer, tf_scope* scope, const tf_node_list* nodes,
                             carnot_block* block) CARNOT_MUST_USE;
// The value that |text| refers to ("node", "node:1", in a function "node:name:1" and arguments),
// after importing the nodes that it needs; import_poison where one of them is not supported.
carnot_status* tf_scope_value(tf_importer* importer, tf_scope* scope, carnot_strview text,
                              carnot_value** out_value) CARNOT_MUST_USE;

// Imports the function |name| of |count| arguments into |block|; its results go to |outputs|, their
// number to *out_count.
carnot_status* tf_function_inline(tf_import* n, carnot_strview name, carnot_block* block,
                                  carnot_value* const* args, int count, carnot_value** outputs,
                                  int* out_count) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_TENSORFLOW_SCOPE_H_
