// The inside of the ONNX importer: what the handlers of operators see and call. Names here start
// with onnx_.
//
// A handler turns one node of the file into nodes of the graph. The helpers below note the first
// error in the node's |status| and do nothing (and return NULL) from then on, so that a composition
// reads as its formula; the importer looks at the status when the handler is done.
#ifndef CARNOT_IMPORT_ONNX_IMPORTER_H_
#define CARNOT_IMPORT_ONNX_IMPORTER_H_

#include "import/onnx/name_map.h"
#include "import/onnx/onnx.h"
#include "import/onnx/onnx_proto.h"
#include "import/onnx/tensor_proto.h"

typedef struct onnx_importer onnx_importer;
typedef struct onnx_scope onnx_scope;
typedef struct onnx_import onnx_import;

// How an operator is imported: the row with the greatest |since| that the file's opset reaches.
typedef struct onnx_row {
  const char* domain;  // "" is the default one
  const char* op_type;
  int since;
  void (*handler)(onnx_import* n);
  carnot_op op;  // for handlers that serve many operators
  carnot_fn fn;
  const char* text;  // a word for the handler: with onnx_one_to_one an attribute that old files
                     // have and nobody needs
} onnx_row;

typedef struct onnx_row_table {
  const onnx_row* rows;
  size_t count;
} onnx_row_table;

#define ONNX_ROW_TABLE(rows) \
  { rows, sizeof(rows) / sizeof((rows)[0]) }

// The row, or NULL.
const onnx_row* onnx_row_find(carnot_strview domain, carnot_strview op_type, int64_t version);

// One node being imported.
struct onnx_import {
  onnx_importer* importer;
  onnx_scope* scope;
  carnot_block* block;
  carnot_arena* arena;  // the graph's
  const onnx_node* proto;
  const onnx_row* row;
  int64_t version;  // of the opset of its domain
  const char* name;
  int input_count;
  carnot_value** inputs;  // NULL: absent
  int output_count;
  carnot_value** outputs;  // set by the handler; NULL for those whose name is empty
  carnot_status* status;
  bool placed;   // the status names the node already
  bool inlined;  // its nodes are those of a body and keep their names
};

#define ONNX_FAIL(n, ...)                                      \
  do {                                                         \
    if (!(n)->status) (n)->status = CARNOT_ERROR(__VA_ARGS__); \
  } while (0)

// ---- handlers that serve many rows ----

// The operator row->op with the same inputs, outputs and attributes.
void onnx_one_to_one(onnx_import* n);
// The element-wise function row->fn.
void onnx_import_unary(onnx_import* n);
void onnx_import_binary(onnx_import* n);
void onnx_import_variadic(onnx_import* n);

// ---- attributes; defaults where absent ----

// The attribute, references of functions followed; NULL: absent.
const onnx_attribute* onnx_attr(onnx_import* n, const char* name);
int64_t onnx_attr_int(onnx_import* n, const char* name, int64_t absent);
double onnx_attr_float(onnx_import* n, const char* name, double absent);
carnot_strview onnx_attr_text(onnx_import* n, const char* name, const char* absent);
const int64_t* onnx_attr_ints(onnx_import* n, const char* name, size_t* out_count);
const float* onnx_attr_floats(onnx_import* n, const char* name, size_t* out_count);
// The data type that an attribute names in TensorProto's numbers.
carnot_dtype onnx_attr_dtype(onnx_import* n, const char* name, carnot_dtype absent);
// The files that external data come from.
carnot_onnx_files* onnx_files(onnx_import* n);
bool onnx_attr_tensor(onnx_import* n, const char* name, carnot_tensor* out_tensor);
// The attributes of the node, brought to Carnot's types; it is an error when the row of |op| does
// not know one.
carnot_attrs onnx_attrs_for(onnx_import* n, carnot_op op);
// The same, others passed over: the handler reads them.
carnot_attrs onnx_attrs_known_to(onnx_import* n, carnot_op op);
// A data type or a sequence of them.
void onnx_type_read(onnx_import* n, const onnx_type* proto, carnot_type* out_type);

// ---- inputs ----

carnot_value* onnx_in(onnx_import* n, int i);    // NULL: absent
carnot_value* onnx_need(onnx_import* n, int i);  // absence is an error
// The rank of |value|; an error (and 0) where it is not known.
int onnx_rank(onnx_import* n, const carnot_value* value);
// Dimension |axis| when it is known while importing, else -1.
int64_t onnx_dim(const carnot_value* value, int axis);
// The non-negative axis.
int onnx_axis(onnx_import* n, int64_t axis, int rank);
// The integers of a constant input; NULL when it is not constant.
const int64_t* onnx_constant_ints(onnx_import* n, const carnot_value* value, size_t* out_count);

// ---- building ----

// Adds a node. |attrs| may be NULL.
void onnx_emit(onnx_import* n, carnot_op op, const carnot_attrs* attrs, carnot_value* const* inputs,
               int input_count, carnot_value** outputs, int output_count);
// Adds a node whose outputs are those of the file's node, absent ones left out.
void onnx_emit_wanted(onnx_import* n, carnot_op op, const carnot_attrs* attrs,
                      carnot_value* const* inputs, int input_count);
// The first output of a node with these inputs (NULL: absent).
carnot_value* onnx_op(onnx_import* n, carnot_op op, const carnot_attrs* attrs, int input_count,
                      ...);
carnot_value* onnx_unary(onnx_import* n, carnot_fn fn, carnot_value* x);
// With the function's two parameters.
carnot_value* onnx_unary_with(onnx_import* n, carnot_fn fn, carnot_value* x, double alpha,
                              double beta);
carnot_value* onnx_binary(onnx_import* n, carnot_fn fn, carnot_value* x, carnot_value* y);
carnot_value* onnx_ternary(onnx_import* n, carnot_fn fn, carnot_value* x, carnot_value* y,
                           carnot_value* z);
carnot_value* onnx_tensor_constant(onnx_import* n, const carnot_tensor* tensor);
// int64: a list, and a scalar.
carnot_value* onnx_ints(onnx_import* n, const int64_t* values, size_t count);
carnot_value* onnx_int(onnx_import* n, int64_t value);
// A scalar of the type of |like|.
carnot_value* onnx_number(onnx_import* n, const carnot_value* like, double value);
carnot_value* onnx_number_of(onnx_import* n, carnot_dtype dtype, double value);
carnot_value* onnx_cast(onnx_import* n, carnot_value* x,
                        carnot_dtype dtype);  // x itself when it has the type
carnot_value* onnx_shape_of(onnx_import* n, carnot_value* x);
// Dimensions [start, end) as an int64 list.
carnot_value* onnx_shape_part(onnx_import* n, carnot_value* x, int start, int end);
carnot_value* onnx_reshape(onnx_import* n, carnot_value* x, carnot_value* shape);
carnot_value* onnx_reshape_to(onnx_import* n, carnot_value* x, const int64_t* dims,
                              int rank);  // 0 copies, -1 fits
carnot_value* onnx_transpose(onnx_import* n, carnot_value* x, const int64_t* perm, int rank);
carnot_value* onnx_unsqueeze(onnx_import* n, carnot_value* x, const int64_t* axes, int count);
carnot_value* onnx_squeeze(onnx_import* n, carnot_value* x, const int64_t* axes, int count);
carnot_value* onnx_concat(onnx_import* n, int64_t axis, carnot_value* const* parts, int count);
// x[..., start:end, ...] on one axis.
carnot_value* onnx_slice(onnx_import* n, carnot_value* x, int64_t axis, int64_t start, int64_t end);
carnot_value* onnx_gather(onnx_import* n, carnot_value* x, carnot_value* indices, int64_t axis);
// A reduction with keepdims over |axes|.
carnot_value* onnx_reduce(onnx_import* n, const char* fn, carnot_value* x, const int64_t* axes,
                          int count);
carnot_value* onnx_matmul(onnx_import* n, carnot_value* a, carnot_value* b);
carnot_value* onnx_softmax(onnx_import* n, carnot_value* x, int64_t axis);
// To two dimensions: those before |axis| multiplied, and the rest.
carnot_value* onnx_flatten(onnx_import* n, carnot_value* x, int64_t axis);

// The old broadcast of Add-1 and its like: |y| stands against the dimensions of |x| from attribute
// "axis" on.
carnot_value* onnx_old_broadcast(onnx_import* n, carnot_value* x, carnot_value* y);
// The channels from dimension 1 to the end (|last|) or back.
carnot_value* onnx_move_channels(onnx_import* n, carnot_value* x, bool last);
// x + bias where bias runs over dimension 1 of x.
carnot_value* onnx_add_channel(onnx_import* n, carnot_value* x, carnot_value* bias, carnot_fn fn);

// ---- bodies of control flow ----

typedef struct onnx_body {
  carnot_block* block;
  carnot_value**
      captured;  // values of the surrounding block that the body's last parameters stand for
  size_t captured_count;
  bool poisoned;  // holds nodes that are not supported
} onnx_body;

// Imports |graph| as a body whose parameters have |types|.
void onnx_body_import(onnx_import* n, const onnx_graph* graph, const carnot_type* types,
                      size_t type_count, onnx_body* out_body);
// Imports the nodes of |graph| in place: its inputs are |inputs|, its results are put into
// |outputs|, which holds the value that stands for nodes not supported where a result needs one.
void onnx_body_inline(onnx_import* n, const onnx_graph* graph, carnot_value* const* inputs,
                      size_t input_count, carnot_value** outputs, size_t output_count);
// The declared type of a graph's input |i|; kind UNKNOWN where there is none.
void onnx_body_input_type(onnx_import* n, const onnx_graph* graph, size_t i, carnot_type* out_type);

#endif  // CARNOT_IMPORT_ONNX_IMPORTER_H_
