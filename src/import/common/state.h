// The state of one import, whatever the framework: the graph, names in use, nodes that are not
// supported.
#ifndef CARNOT_IMPORT_COMMON_STATE_H_
#define CARNOT_IMPORT_COMMON_STATE_H_

#include "import/common/name_map.h"
#include "ir/graph.h"

enum {
  IMPORT_MAX_NODES = 4 * 1000 * 1000,  // after inlining: calls of calls may multiply
  IMPORT_MAX_NOTES = 1 << 16,          // bytes of the lines about nodes that are not supported
  IMPORT_MAX_NOTE = 500,               // bytes of one line
};

typedef struct import_state {
  carnot_graph* graph;
  carnot_arena arena;          // of the import only
  import_name_map used_names;  // of values
  import_name_map noted;       // lines about nodes that are not supported
  char* unsupported;           // these lines, IMPORT_MAX_NOTES bytes in the arena; NULL: none
  size_t unsupported_size;     // of the text
  size_t unsupported_lines;
  size_t unsupported_count;  // of nodes, with those that there is no room for
  bool is_quiet;             // nodes that are not supported are not noted
  size_t node_count;
} import_state;

// The result of nodes that are not supported, so that the import can go on and name all
// of them.
extern carnot_value import_poison;

// |graph| may hold nodes already; their names are in use.
// OUT_OF_MEMORY; deinit frees a state in both cases.
carnot_status* import_state_init(import_state* state, carnot_graph* graph) CARNOT_MUST_USE;
void import_state_deinit(import_state* state);
// |prefix| and |name|, changed when a value of the graph has that name already. In the arena.
const char* import_unique_name(import_state* state, const char* prefix, carnot_strview name);
// Adds a line about a node that is not supported, once; a long one is cut in the middle.
void import_note_unsupported(import_state* state, const char* line);
// NULL, or UNSUPPORTED with the count and one line for each node that is not supported, as far as
// they take IMPORT_MAX_NOTES bytes.
carnot_status* import_state_check(const import_state* state) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_COMMON_STATE_H_
