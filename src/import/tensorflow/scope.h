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
  const tf_row* row;      // NULL: not looked for, or none
  carnot_strview* needs;  // of a node that asks for its inputs: what it will ask for
  size_t need_count;
  bool has_needs;
  bool is_read;   // by a node of the graph; known in roots after tf_scope_mark_reads
  uint32_t walk;  // the last walk of a root that came here
  bool is_cut;    // some of its results are inputs of the network
} tf_slot;

// The flat number of the output that a reference to |slot| means; -1: the row does not name it.
int64_t tf_output_number(const tf_slot* slot, const tf_reference* r);

struct tf_scope {
  const tf_function* function;  // NULL: the graph itself
  const tf_node_list* node_list;
  // The scope that has a slot for each node: of a body of TensorFlow 1 the one of all its nodes,
  // else itself. Others have slots for the nodes that were asked for.
  tf_scope* root;
  carnot_block* block;
  const char* prefix;     // of names; "" in the graph
  import_name_map nodes;  // by name to tf_slot*
  tf_slot* slots;         // of a root
  size_t slot_count;
  tf_slot** stack;  // for walks over the slots of a root
  bool reads_known;
  import_name_map args;  // of a function, by name to carnot_value*
  int depth;
};

typedef struct tf_variables tf_variables;
typedef struct tf_tables tf_tables;

struct tf_importer {
  import_state state;  // first
  const tf_graph* graph;
  tf_variables* variables;  // NULL: a graph without a bundle of variables
  tf_tables* tables;
  import_files* files;
  carnot_tensorflow_options options;
  int nesting;                // of handlers at work
  int call_count;             // that were inlined
  uint32_t walk_count;        // walks over slots
  import_name_map reserved;   // names of the signature, which no other value gets
  import_name_map functions;  // by name to tf_function*
};

// The nodes of |nodes| as a scope that adds to |block|; it stays where it is.
carnot_status* tf_scope_init(tf_importer* importer, tf_scope* scope, const tf_node_list* nodes,
                             carnot_block* block) CARNOT_MUST_USE;
// True where the operator is |op|, also in its form for references.
bool tf_slot_is(const tf_slot* slot, const char* op);
// The slot of the node |name|; NULL: there is none, or out of memory, which the arena knows.
tf_slot* tf_scope_slot(tf_scope* scope, carnot_strview name);
// The row of a node's operator, which may be a function of the library; NULL: none.
const tf_row* tf_slot_row(const tf_importer* importer, tf_slot* slot);
// The result of an imported node, or the argument, that |text| refers to.
carnot_status* tf_scope_result(tf_scope* scope, carnot_strview text,
                               carnot_value** out) CARNOT_MUST_USE;
// Imports the node of |slot|, what it needs being there; where it is not supported, it is noted and
// its result is import_poison.
carnot_status* tf_slot_import(tf_importer* importer, tf_scope* scope,
                              tf_slot* slot) CARNOT_MUST_USE;
// The value that |text| refers to ("node", "node:1", in a function "node:name:1" and arguments),
// after importing the nodes that it needs; import_poison where one of them is not supported.
carnot_status* tf_scope_value(tf_importer* importer, tf_scope* scope, carnot_strview text,
                              carnot_value** out_value) CARNOT_MUST_USE;

// Imports the function |name| of |count| arguments into |block|; its results go to |outputs|, their
// number to *out_count.
carnot_status* tf_function_inline(tf_import* n, carnot_strview name, carnot_block* block,
                                  carnot_value* const* args, int count, carnot_value** outputs,
                                  int* out_count) CARNOT_MUST_USE;

// Finds what a node that asks for its inputs (Merge, Exit) will ask for, in slot->needs: importing
// that first keeps a chain of such nodes from nesting. Nothing is found where the form is another.
carnot_status* tf_control_needs(tf_importer* importer, tf_scope* scope,
                                tf_slot* slot) CARNOT_MUST_USE;

// Imports the functions that attributes name, for arguments that are not supported, so that what is
// not supported in them is named.
void tf_look_into_functions(tf_import* n);

#endif  // CARNOT_IMPORT_TENSORFLOW_SCOPE_H_
