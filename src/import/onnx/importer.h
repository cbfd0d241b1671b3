// The inside of the ONNX importer: what the handlers of operators see and call. Names here start
// with onnx_.
//
// A handler turns one node of the file into nodes of the graph. The helpers below note the first
// error in the node's |status| and do nothing (and return NULL) from then on, so that a composition
// reads as its formula; the importer looks at the status when the handler is done.
#ifndef CARNOT_IMPORT_ONNX_IMPORTER_H_
#define CARNOT_IMPORT_ONNX_IMPORTER_H_

#include "import/common/emit.h"
#include "import/common/files.h"
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
  import_node node;  // first: what nodes are emitted with
  onnx_importer* importer;
  onnx_scope* scope;
  const onnx_node* proto;
  const onnx_row* row;
  int64_t version;  // of the opset of its domain
  int input_count;
  carnot_value** inputs;  // NULL: absent
  int output_count;
  carnot_value** outputs;  // set by the handler; NULL for those whose name is empty
  bool inlined;            // its nodes are those of a body and keep their names
};

#define ONNX_FAIL(n, ...) IMPORT_FAIL(&(n)->node, __VA_ARGS__)

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
import_files* onnx_files(onnx_import* n);
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
// Adds a node whose outputs are those of the file's node, absent ones left out.
void onnx_emit_wanted(onnx_import* n, carnot_op op, const carnot_attrs* attrs,
                      carnot_value* const* inputs, int input_count);
// The old broadcast of Add-1 and its like: |y| is aligned with the dimensions of |x| from attribute
// "axis" on.
carnot_value* onnx_old_broadcast(onnx_import* n, carnot_value* x, carnot_value* y);

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
// |outputs|, which holds the placeholder for nodes that are not supported where a result needs one.
void onnx_body_inline(onnx_import* n, const onnx_graph* graph, carnot_value* const* inputs,
                      size_t input_count, carnot_value** outputs, size_t output_count);
// The declared type of a graph's input |i|; kind UNKNOWN where there is none.
void onnx_body_input_type(onnx_import* n, const onnx_graph* graph, size_t i, carnot_type* out_type);

#endif  // CARNOT_IMPORT_ONNX_IMPORTER_H_
