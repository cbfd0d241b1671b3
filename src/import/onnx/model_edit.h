// Changes to an ONNX model's file: nodes and initializers are added to its main graph, nodes read
// other tensors. What the change leaves unread is dropped. Names stay the user's.
#ifndef CARNOT_IMPORT_ONNX_MODEL_EDIT_H_
#define CARNOT_IMPORT_ONNX_MODEL_EDIT_H_

#include "base/file.h"
#include "import/common/name_map.h"
#include "import/onnx/onnx_proto.h"
#include "ir/tensor.h"

// A node to be inserted before node |at| of the main graph.
typedef struct onnx_inserted {
  size_t at;
  onnx_node node;
  struct onnx_inserted* next;
} onnx_inserted;

// Zero-initialised is valid. All memory is the arena's.
typedef struct onnx_edit {
  carnot_arena arena;
  carnot_mapping map;
  const char* path;
  onnx_model* model;
  import_name_map makers;    // by the name of an output: the node of the main graph
  import_name_map names;     // all names of the main graph's tensors and nodes, and of new ones
  import_name_map replaced;  // names that a node no longer reads
  onnx_inserted *first, *last;
  size_t inserted_count;
  onnx_tensor* initializers;  // new ones
  size_t initializer_count, initializer_capacity;
} onnx_edit;

// Reads the model at |path|, which must outlive the edit. INVALID_MODEL for a file that is no model
// in binary form.
carnot_status* onnx_edit_open(const char* path, onnx_edit* out_edit) CARNOT_MUST_USE;
void onnx_edit_close(onnx_edit* edit);

// The version of ONNX's own operators; 0: the model names none.
int64_t onnx_edit_opset(const onnx_edit* edit);
// The node of the main graph that makes |name|; NULL: it is not one's.
onnx_node* onnx_edit_maker(const onnx_edit* edit, const char* name);
// The index of a node of the main graph.
size_t onnx_edit_index(const onnx_edit* edit, const onnx_node* node);
// True for a tensor of the main graph: an input, an initializer or the output of a node.
bool onnx_edit_has_tensor(const onnx_edit* edit, const char* name);
// |base| + |suffix|, with a number behind it where that name is taken.
const char* onnx_edit_new_name(onnx_edit* edit, const char* base, const char* suffix);
// Adds a copy of |tensor|; elements of less than a byte are packed as ONNX has them.
void onnx_edit_add_initializer(onnx_edit* edit, const char* name, const carnot_tensor* tensor);
// Adds a node before node |at|: |axis| and |block_size| are attributes where they are not negative
// and not 0. The names must outlive the edit.
void onnx_edit_insert(onnx_edit* edit, size_t at, const char* op_type, const char* const inputs[3],
                      const char* output, int64_t axis, int64_t block_size);
// Input |i| of |node| becomes |name|.
void onnx_edit_set_input(onnx_edit* edit, onnx_node* node, size_t i, const char* name);
// Writes the model to |path| with at least this IR version. FAILED_PRECONDITION where external data
// remain and |path| is in another folder than the model.
carnot_status* onnx_edit_write(onnx_edit* edit, int64_t ir_version,
                               const char* path) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_ONNX_MODEL_EDIT_H_
