// The graph: blocks of nodes over values, in one arena.
//
// Ids are stable and given in order of creation. User names stay through every pass: a node that
// takes the place of others lists their names in |absorbed|.
#ifndef CARNOT_IR_GRAPH_H_
#define CARNOT_IR_GRAPH_H_

#include "base/source_memory.h"
#include "ir/op.h"

typedef struct carnot_node carnot_node;
typedef struct carnot_block carnot_block;
typedef struct carnot_graph carnot_graph;

// The constant a value holds. |data| is borrowed: a mapped model file, the caller's weights, or the
// graph's arena.
typedef struct carnot_constant {
  carnot_tensor tensor;
  const char* name;  // of the user's weight; NULL for what passes computed
  // The node that computed it from the user's weights, taken out of its block since: how refit
  // makes it again.
  const struct carnot_node* made_by;
  int made_output;
} carnot_constant;

typedef struct carnot_use {
  carnot_node* node;
  int input;
} carnot_use;

// A node that became part of another.
typedef struct carnot_part {
  const char* name;
  uint32_t order;
} carnot_part;

// Factors by channel: the value divided by them has the range |range|, and channels that are alike.
typedef struct carnot_equalization {
  const float* factors;
  size_t count;
  double range[2];
} carnot_equalization;

typedef struct carnot_value {
  uint32_t id;
  const char* name;  // unique within the graph
  carnot_type type;
  carnot_block* block;    // where it is defined
  carnot_node* producer;  // NULL: a parameter of |block| or a constant
  int output;             // of the producer
  carnot_constant* constant;
  carnot_sym* syms;  // its elements as expressions, where known (small integer tensors)
  size_t sym_count;
  carnot_use* uses;
  size_t use_count, use_capacity;
  int block_output_count;     // how often it is a result of its block
  carnot_dtype forced_dtype;  // the user's choice of type (weak typing), INVALID: none
  double range[2];            // its least and largest value, to quantize it; both 0: unknown
  const carnot_equalization* equalization;  // NULL: none
} carnot_value;

struct carnot_node {
  uint32_t id;
  carnot_op op;
  uint32_t order;  // its id, or that of the node in whose place it is: parts are listed by it
  const char* name;
  bool is_unnamed;        // |name| was made up
  const char* type_name;  // what the model called it ("Conv"); NULL for made ones
  carnot_attrs attrs;
  carnot_value** inputs;  // NULL entries: absent optional inputs
  int input_count;
  carnot_value** outputs;  // NULL entries: absent optional outputs
  int output_count;
  carnot_block* block;
  carnot_node *next, *previous;
  carnot_part* absorbed;
  size_t absorbed_count;
  carnot_dtype precision;  // the user's constraint; INVALID: none
  const char* unfused;     // of a conversion: why it is a step of its own; NULL: unknown
};

// A list of nodes with parameters and results: the graph's main part, a body of control flow, a
// fused region.
struct carnot_block {
  carnot_graph* graph;
  carnot_node* owner;  // NULL for the main block
  carnot_value** params;
  size_t param_count, param_capacity;
  carnot_value** outputs;
  size_t output_count, output_capacity;
  carnot_node *first, *last;
};

struct carnot_graph {
  carnot_arena arena;
  carnot_syms syms;
  carnot_block* main;
  const char* name;
  uint32_t value_count, node_count;
  // The first of a list: memory that constants' data may lie in and that a build of the graph
  // releases. Borrowed.
  carnot_source_memory* sources;
};

// An empty graph; the caller destroys it.
carnot_status* carnot_graph_create(carnot_graph** out_graph) CARNOT_MUST_USE;
// Frees the graph and everything in its arena. NULL is allowed.
void carnot_graph_destroy(carnot_graph* graph);

// OUT_OF_MEMORY when an allocation for the graph failed. The functions below that return no status
// go on after a failure: an entry of a list may be missing then. Every function that returns a
// status fails from then on, so whoever changed the graph passes that status up and the graph is
// only destroyed.
carnot_status* carnot_graph_status(const carnot_graph* graph) CARNOT_MUST_USE;
// |status|, or OUT_OF_MEMORY in its place when an allocation for the graph failed. Takes |status|.
carnot_status* carnot_graph_end(const carnot_graph* graph, carnot_status* status) CARNOT_MUST_USE;

// A block without owner yet; give it to a node as an attribute.
carnot_block* carnot_block_create(carnot_graph* graph);
// A parameter of |block|. The type is copied.
carnot_value* carnot_block_add_param(carnot_block* block, const char* name,
                                     const carnot_type* type);
// Appends |value| to the results of |block|; a value may be a result more than once.
void carnot_block_add_output(carnot_block* block, carnot_value* value);
// Replaces result |index| of |block|.
void carnot_block_set_output(carnot_block* block, size_t index, carnot_value* value);

// A value holding |tensor|, whose data are borrowed. |name| may be NULL.
carnot_value* carnot_graph_constant(carnot_block* block, const char* name,
                                    const carnot_tensor* tensor);
// Small constants, copied: int64 list (rank 1; scalar when count is -1 and values has one), float32
// scalar.
carnot_value* carnot_graph_ints(carnot_block* block, const int64_t* values, int count);
carnot_value* carnot_graph_float(carnot_block* block, carnot_dtype dtype, double value);
// out[i]: expression i of graph->syms is a function of the dimensions of the main inputs and of
// their elements that have symbols. |out| has graph->syms.count entries.
void carnot_graph_planned_syms(const carnot_graph* graph, bool* out);

// Adds a node at the end of |block| and infers its outputs. Output names may be NULL (made up
// then); a NULL array makes |output_count| unnamed outputs; an empty name "" makes an absent
// output. On failure the error names the node and nothing is added. |attrs| items are copied
// shallowly.
carnot_status* carnot_block_add_node(carnot_block* block, carnot_op op, const char* name,
                                     const carnot_attrs* attrs, carnot_value* const* inputs,
                                     int input_count, const char* const* output_names,
                                     int output_count, carnot_node** out_node) CARNOT_MUST_USE;
// The same before |position|.
carnot_status* carnot_node_insert_before(carnot_node* position, carnot_op op, const char* name,
                                         const carnot_attrs* attrs, carnot_value* const* inputs,
                                         int input_count, int output_count,
                                         carnot_node** out_node) CARNOT_MUST_USE;
// Makes |value| (may be NULL) input |input| of |node| and updates the lists of uses.
void carnot_node_set_input(carnot_node* node, int input, carnot_value* value);
// Every reader of |from| (block outputs too) reads |to|.
void carnot_value_replace(carnot_value* from, carnot_value* to);
// Takes the node out; its outputs must have no readers.
void carnot_node_remove(carnot_node* node);
// Adds |gone| and what it absorbed to the parts of |node|; made-up names are left out.
void carnot_node_absorb(carnot_node* node, const carnot_node* gone);
// The node and its parts by |order|, each name once, in the arena of the graph. With |block|: those
// of its nodes, one after the other. NULL without memory, which carnot_graph_status says.
const char** carnot_node_part_names(const carnot_node* node, const carnot_block* block,
                                    size_t* out_count);
// Infers the node's outputs again, after its inputs changed.
carnot_status* carnot_node_infer(carnot_node* node) CARNOT_MUST_USE;

// |value| may be NULL.
static inline bool carnot_value_is_constant(const carnot_value* value) {
  return value && value->constant;
}
// True when a node reads |v| or it is a result of a block.
static inline bool carnot_value_used(const carnot_value* v) {
  return v->use_count || v->block_output_count;
}
// True where the range of |v| is known.
static inline bool carnot_value_has_range(const carnot_value* v) {
  return v->range[1] > v->range[0];
}
// |to| holds what |from| does: it takes over its range and equalization unless it has a range.
static inline void carnot_value_keep_range(carnot_value* to, const carnot_value* from) {
  if (carnot_value_has_range(to)) return;
  to->range[0] = from->range[0];
  to->range[1] = from->range[1];
  to->equalization = from->equalization;
}
// The row of the node's operator.
static inline const carnot_op_row* carnot_node_row(const carnot_node* node) {
  return carnot_op_get(node->op);
}

// Constants' data that a build released are there again.
void carnot_graph_restore_constants(const carnot_graph* graph);
// The same for as long as the graph lives: the caller gives pointers to data away.
void carnot_graph_lend_constants(const carnot_graph* graph);

// A deep copy; constants' data stay borrowed.
carnot_status* carnot_graph_clone(const carnot_graph* graph,
                                  carnot_graph** out_graph) CARNOT_MUST_USE;
// Checks structure, types and order of definition; INTERNAL names the node where one does not hold.
carnot_status* carnot_graph_verify(const carnot_graph* graph) CARNOT_MUST_USE;
// One line a node, to |file| (a FILE*).
void carnot_graph_print(const carnot_graph* graph, void* file);

#endif  // CARNOT_IR_GRAPH_H_
