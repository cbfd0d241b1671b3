// Where values of a graph come from, before nodes are imported: behind Identity, and through the
// arguments of calls. Of what initialises variables and tables nothing is imported.
#ifndef CARNOT_IMPORT_TENSORFLOW_ORIGINS_H_
#define CARNOT_IMPORT_TENSORFLOW_ORIGINS_H_

#include "import/tensorflow/scope.h"

// The graph, or a function with the call that gives its arguments.
typedef struct tf_level {
  const struct tf_level* caller;  // NULL: the graph
  const tf_node* call;
  const tf_function* function;
  import_name_map nodes;
  int depth;
} tf_level;

typedef struct tf_origin {
  const tf_level* level;
  const tf_node* node;
  int64_t index;  // of its results
} tf_origin;

// Prepares |level| for the nodes of a graph or a function. OUT_OF_MEMORY.
carnot_status* tf_level_index(tf_level* level, const tf_node_list* nodes,
                              carnot_arena* arena) CARNOT_MUST_USE;
// The node that |text| comes from; false where there is none.
bool tf_origin_find(const tf_level* level, carnot_strview text, tf_origin* out);
// The tensor of the constant that |text| comes from; NULL where it is none.
const tf_tensor* tf_origin_constant(const tf_level* level, carnot_strview text);
// Text |index| of a constant.
bool tf_origin_text(const tf_level* level, carnot_strview text, int64_t index, carnot_strview* out);

typedef carnot_status* (*tf_visitor)(void* context, const tf_level* level, const tf_node* node);
// Calls |visit| for each node of the functions that |call| calls, and those call. |calls_left|
// bounds their number; 0 ends the walk.
carnot_status* tf_visit_call(const tf_graph* graph, carnot_arena* arena, const tf_level* caller,
                             const tf_node* call, int* calls_left, tf_visitor visit,
                             void* context) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_TENSORFLOW_ORIGINS_H_
