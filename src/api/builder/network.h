// What the files of the network API share.
#ifndef CARNOT_API_BUILDER_NETWORK_H_
#define CARNOT_API_BUILDER_NETWORK_H_

#include "carnot/network.h"
#include "import/common/name_map.h"
#include "import/onnx/onnx.h"
#include "ir/graph.h"

enum { CARNOT_MAX_LOOP_VALUES = 64 };  // recurrences, iterators or outputs of a loop

// A block that layers are being added to. Bodies are closed: a value from outside becomes a
// parameter.
typedef struct carnot_scope {
  struct carnot_scope* parent;
  carnot_block* block;
  carnot_value **outer,
      **inner;  // captured values, of the parent's block and the parameter each became
  size_t capture_count, capture_capacity;
} carnot_scope;

struct carnot_network {
  carnot_graph* graph;
  carnot_model_source** sources;  // of imported models
  size_t source_count, source_capacity;
  import_name_map blobs;  // of the Caffe network last read, by name to carnot_value*
  carnot_scope main;
  carnot_scope* scope;     // the innermost open one
  carnot_layer* position;  // layers of the main part are added before it; NULL: at the end
};

// A place for what a model that is read into |network| borrows from; FAILED_PRECONDITION with an
// open loop or conditional.
carnot_status* carnot_network_prepare_source(carnot_network* network) CARNOT_MUST_USE;
// Keeps |source| (may be NULL) as long as the network.
void carnot_network_keep_source(carnot_network* network, carnot_model_source* source);

// |tensor| as data that own a copy of its elements, text in one buffer.
carnot_status* carnot_data_copy_tensor(const carnot_tensor* tensor,
                                       carnot_data** out_data) CARNOT_MUST_USE;

// |value| as the innermost open block reads it. INVALID_ARGUMENT when it belongs to a body that is
// closed.
carnot_status* carnot_network_reach(carnot_network* network, carnot_scope* scope,
                                    carnot_value* value, carnot_value** out_value) CARNOT_MUST_USE;
// Opens a scope over a new block, and closes the innermost.
carnot_scope* carnot_network_open(carnot_network* network);
void carnot_network_close(carnot_network* network);

// Adds a node of |count| inputs (NULL: absent) to the innermost open block.
carnot_status* carnot_network_add(carnot_network* network, carnot_op op, const carnot_attrs* attrs,
                                  carnot_value* const* inputs, int count, int output_count,
                                  carnot_node** out_node) CARNOT_MUST_USE;
// The same with one output.
carnot_status* carnot_network_add_one(carnot_network* network, carnot_op op,
                                      const carnot_attrs* attrs, carnot_value* const* inputs,
                                      int count, carnot_value** out_value) CARNOT_MUST_USE;
// An element-wise function.
carnot_status* carnot_network_add_fn(carnot_network* network, carnot_op op, carnot_fn fn,
                                     double alpha, double beta, carnot_value* const* inputs,
                                     int count, carnot_value** out_value) CARNOT_MUST_USE;
// A list of int64 in the innermost open block.
carnot_value* carnot_network_ints(carnot_network* network, const int64_t* values, int count);

// The attributes |attrs| with copies of the blocks among them.
carnot_status* carnot_copy_bodies(carnot_graph* graph, const carnot_attrs* attrs,
                                  carnot_attrs* out) CARNOT_MUST_USE;

#define CARNOT_VALUES(...)                \
  ((carnot_value* const[]){__VA_ARGS__}), \
      (int)(sizeof((carnot_value*[]){__VA_ARGS__}) / sizeof(carnot_value*))
// For the attributes of a layer about to be added.
#define CARNOT_SET_INT(attrs, network, name, value) \
  carnot_attrs_set_int(&(attrs), &(network)->graph->arena, name, value)
#define CARNOT_SET_FLOAT(attrs, network, name, value) \
  carnot_attrs_set_float(&(attrs), &(network)->graph->arena, name, value)
#define CARNOT_SET_TEXT(attrs, network, name, value) \
  carnot_attrs_set_text(&(attrs), &(network)->graph->arena, name, value)
#define CARNOT_SET_INTS(attrs, network, name, values, count) \
  carnot_attrs_set_ints(&(attrs), &(network)->graph->arena, name, values, (size_t)(count))
// An enum of the caller's within its table, as text.
#define CARNOT_PICK(table, index, what, out)                                              \
  do {                                                                                    \
    CARNOT_CHECK((size_t)(index) < sizeof(table) / sizeof((table)[0]), INVALID_ARGUMENT,  \
                 "%s %d of %zu", what, (int)(index), sizeof(table) / sizeof((table)[0])); \
    (out) = (table)[index];                                                               \
  } while (0)

#endif  // CARNOT_API_BUILDER_NETWORK_H_
