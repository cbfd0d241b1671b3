// The inside of the TensorFlow importer: what the handlers of operators see and call. Names here
// start with tf_.
#ifndef CARNOT_IMPORT_TENSORFLOW_IMPORTER_H_
#define CARNOT_IMPORT_TENSORFLOW_IMPORTER_H_

#include "import/common/emit.h"
#include "import/common/files.h"
#include "import/tensorflow/tensorflow.h"
#include "import/tensorflow/tf_proto.h"

typedef struct tf_importer tf_importer;
typedef struct tf_scope tf_scope;
typedef struct tf_import tf_import;

// How an operator is imported.
enum { TF_INPUTS_ON_DEMAND = -1 };

typedef struct tf_row {
  const char* op;
  void (*handler)(tf_import* n);
  // most -1: any number; least TF_INPUTS_ON_DEMAND: the handler asks for them
  int least_inputs, most_inputs;
  int code;          // a carnot_fn or carnot_op for handlers that serve many operators
  const char* text;  // a word for the handler; NULL: none
  // Names of the outputs, separated by spaces, where references in functions need them: of an
  // operator with one list of outputs or a single one NULL.
  const char* outputs;
} tf_row;

typedef struct tf_row_table {
  const tf_row* rows;
  size_t count;
} tf_row_table;

#define TF_ROW_TABLE(rows) \
  { rows, sizeof(rows) / sizeof((rows)[0]) }

// The row, or NULL.
const tf_row* tf_row_find(carnot_strview op);

// Row |index| of all tables; NULL past the last.
const tf_row* tf_row_at(size_t index);

// One node being imported.
struct tf_import {
  import_node node;  // first: what nodes are emitted with
  tf_importer* importer;
  tf_scope* scope;
  const tf_node* proto;
  const tf_row* row;
  int input_count;
  carnot_value** inputs;
  carnot_value** outputs;  // set by the handler; TF_MOST_OUTPUTS of them
  int output_count;        // set by the handler; 1 unless it says more
};

enum { TF_MOST_OUTPUTS = 256 };

#define TF_FAIL(n, ...) IMPORT_FAIL(&(n)->node, __VA_ARGS__)

// ---- attributes; defaults where absent ----

const tf_attr_value* tf_attr_find(const tf_node* node, const char* name);
int64_t tf_int(tf_import* n, const char* name, int64_t absent);
bool tf_bool(tf_import* n, const char* name, bool absent);
double tf_float(tf_import* n, const char* name, double absent);
bool tf_is(tf_import* n, const char* name, const char* text, const char* absent);
tf_int_list tf_ints(tf_import* n, const char* name);
// The element type that an attribute names; |absent| where there is none.
carnot_dtype tf_type(tf_import* n, const char* name, carnot_dtype absent);
// The type of DataType |number|; INVALID where Carnot has none.
carnot_dtype tf_dtype(int64_t number);
const char* tf_dtype_name(int64_t number);
// The dimensions of a TensorShapeProto as a type; open ones get symbols of their own.
void tf_read_shape(tf_import* n, const tf_shape* shape, carnot_type* type);

// ---- values ----

// The integers of a constant input; NULL with a message where it is not constant.
const int64_t* tf_need_ints(tf_import* n, int input, const char* what, size_t* out_count);
// The same without a message.
const int64_t* tf_constant_ints(tf_import* n, int input, size_t* out_count);
// One constant integer.
int64_t tf_need_int(tf_import* n, int input, const char* what);
carnot_value* tf_int64(tf_import* n, carnot_value* x);  // as int64
// Channels from the end to dimension 1 and back; |x| itself where the layout is NCHW.
carnot_value* tf_first(tf_import* n, carnot_value* x);
carnot_value* tf_last(tf_import* n, carnot_value* x);
// data_format names channels behind the batch.
bool tf_is_channels_first(tf_import* n);
// The files that tensors are read from.
import_files* tf_files(tf_import* n);
// The angle of (x, y) in all four quadrants.
carnot_value* tf_atan2(tf_import* n, carnot_value* y, carnot_value* x);
// True for what stands for a variable or a table until it is read; only calls, bodies and reads
// take it.
bool tf_is_handle(const carnot_value* value);
// The node that makes a handle; NULL for other values.
const tf_node* tf_handle_node(const carnot_value* value);
// The handler of nodes that make handles.
void tf_handle_resource(tf_import* n);
// The tensor of a TensorProto. That of complex numbers has a last axis of 2 for their parts.
carnot_status* tf_tensor_read(const tf_tensor* proto, import_files* files, carnot_arena* arena,
                              carnot_tensor* out_tensor) CARNOT_MUST_USE;

// Imports the Placeholder |n| where the options register it; else false, and nothing is done.
bool tf_registered_import(tf_import* n);

#endif  // CARNOT_IMPORT_TENSORFLOW_IMPORTER_H_
