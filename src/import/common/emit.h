// What handlers of all importers emit nodes with.
//
// A handler turns one node of the file into nodes of the graph. The functions below keep the first
// error in the node's |status| and do nothing (and return NULL) from then on, so that a composition
// reads as its formula; the importer looks at the status when the handler is done.
#ifndef CARNOT_IMPORT_COMMON_EMIT_H_
#define CARNOT_IMPORT_COMMON_EMIT_H_

#include "import/common/state.h"

// One node being imported. An importer's own struct holds it as its first member.
typedef struct import_node {
  import_state* state;
  carnot_block* block;  // that nodes are added to
  carnot_arena* arena;  // the graph's
  const char* name;     // of the nodes that are emitted
  carnot_status* status;
  bool placed;  // |status| names the node already
} import_node;

#define IMPORT_FAIL(n, ...)                                    \
  do {                                                         \
    if (!(n)->status) (n)->status = CARNOT_ERROR(__VA_ARGS__); \
  } while (0)

// False, with OUT_OF_MEMORY as the node's status, when an allocation from the arena of the graph or
// of the import failed. A handler asks it after allocations whose size the file decides.
bool import_has_memory(import_node* n);

// ---- what is known of values ----

// The rank of |value|; an error (and 0) where it is not known.
int import_rank(import_node* n, const carnot_value* value);
// Dimension |axis| when it is known while importing, else -1.
int64_t import_dim(const carnot_value* value, int axis);
// The non-negative axis.
int import_axis(import_node* n, int64_t axis, int rank);
// The integers of a constant input; NULL when it is not constant.
const int64_t* import_constant_ints(import_node* n, const carnot_value* value, size_t* out_count);

// ---- nodes ----

// Adds a node. |attrs| may be NULL.
void import_emit(import_node* n, carnot_op op, const carnot_attrs* attrs,
                 carnot_value* const* inputs, int input_count, carnot_value** outputs,
                 int output_count);
// The first output of a node with these inputs (NULL: absent).
carnot_value* import_op(import_node* n, carnot_op op, const carnot_attrs* attrs, int input_count,
                        ...);
carnot_value* import_unary(import_node* n, carnot_fn fn, carnot_value* x);
// With the function's two parameters.
carnot_value* import_unary_with(import_node* n, carnot_fn fn, carnot_value* x, double alpha,
                                double beta);
carnot_value* import_binary(import_node* n, carnot_fn fn, carnot_value* x, carnot_value* y);
carnot_value* import_ternary(import_node* n, carnot_fn fn, carnot_value* x, carnot_value* y,
                             carnot_value* z);
carnot_value* import_tensor_constant(import_node* n, const carnot_tensor* tensor);
// int64: a list, and a scalar.
carnot_value* import_ints(import_node* n, const int64_t* values, size_t count);
carnot_value* import_int(import_node* n, int64_t value);
// A scalar of the type of |like|.
carnot_value* import_number(import_node* n, const carnot_value* like, double value);
carnot_value* import_number_of(import_node* n, carnot_dtype dtype, double value);
carnot_value* import_cast(import_node* n, carnot_value* x,
                          carnot_dtype dtype);  // x itself when it has the type
carnot_value* import_shape_of(import_node* n, carnot_value* x);
// Dimensions [start, end) as an int64 list.
carnot_value* import_shape_part(import_node* n, carnot_value* x, int start, int end);
carnot_value* import_reshape(import_node* n, carnot_value* x, carnot_value* shape);
carnot_value* import_reshape_to(import_node* n, carnot_value* x, const int64_t* dims,
                                int rank);  // 0 copies, -1 fits
carnot_value* import_transpose(import_node* n, carnot_value* x, const int64_t* perm, int rank);
carnot_value* import_unsqueeze(import_node* n, carnot_value* x, const int64_t* axes, int count);
carnot_value* import_squeeze(import_node* n, carnot_value* x, const int64_t* axes, int count);
carnot_value* import_concat(import_node* n, int64_t axis, carnot_value* const* parts, int count);
// x[..., start:end, ...] on one axis.
carnot_value* import_slice(import_node* n, carnot_value* x, int64_t axis, int64_t start,
                           int64_t end);
carnot_value* import_gather(import_node* n, carnot_value* x, carnot_value* indices, int64_t axis);
// A reduction with keepdims over |axes|.
carnot_value* import_reduce(import_node* n, const char* fn, carnot_value* x, const int64_t* axes,
                            int count);
carnot_value* import_matmul(import_node* n, carnot_value* a, carnot_value* b);
carnot_value* import_softmax(import_node* n, carnot_value* x, int64_t axis);
// To two dimensions: those before |axis| multiplied, and the rest.
carnot_value* import_flatten(import_node* n, carnot_value* x, int64_t axis);

// The channels from dimension 1 to the end (|last|) or back.
carnot_value* import_move_channels(import_node* n, carnot_value* x, bool last);
// x + bias where bias runs over dimension 1 of x.
carnot_value* import_add_channel(import_node* n, carnot_value* x, carnot_value* bias, carnot_fn fn);

// The same as import_emit with names for the outputs: NULL entries are generated, "" are absent.
void import_emit_named(import_node* n, carnot_op op, const carnot_attrs* attrs,
                       carnot_value* const* inputs, int input_count,
                       const char* const* output_names, carnot_value** outputs, int output_count);

#endif  // CARNOT_IMPORT_COMMON_EMIT_H_
