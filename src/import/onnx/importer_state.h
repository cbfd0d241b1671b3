// What the parts of the importer share: scopes of names, frames of functions, the list of what is
// not supported.
#ifndef CARNOT_IMPORT_ONNX_IMPORTER_STATE_H_
#define CARNOT_IMPORT_ONNX_IMPORTER_STATE_H_

#include "import/onnx/importer.h"

enum {
  ONNX_MAX_NESTING = 32,  // of functions and bodies
};

// One call of a model-local function.
typedef struct onnx_frame {
  const onnx_function* function;
  onnx_attribute_list given;  // references of the caller's own frame already followed
  const onnx_node* call;
  const struct onnx_frame* outer;  // of the function around the call; NULL: none
} onnx_frame;

// The value of a name in a scope.
typedef struct onnx_binding {
  carnot_value* value;        // NULL with tensor NULL: an absent optional input of a function
  const onnx_tensor* tensor;  // an initializer that nobody has read yet
  const onnx_sparse_tensor* sparse;
} onnx_binding;

// The names of a graph, body or function.
struct onnx_scope {
  onnx_scope* outer;  // whose names are seen too; NULL for a main graph and a function
  carnot_block* block;
  const onnx_frame* frame;  // of the function around; NULL: none
  const onnx_opset_list* opsets;
  const char* prefix;        // of names made inside; "" in the main graph
  import_name_map names;     // to onnx_binding
  import_name_map declared;  // to onnx_value_info: types that the file declares
  carnot_value** captured;   // see onnx_body
  size_t captured_count, captured_capacity;
  int depth;
};

struct onnx_importer {
  import_state state;  // first
  const onnx_model* model;
  import_files* files;
  carnot_onnx_options options;
  import_name_map symbols;  // dim_param to carnot_sym*
};

// Initializers, declared types; not the inputs.
carnot_status* onnx_scope_init(onnx_importer* importer, onnx_scope* scope,
                               const onnx_graph* graph) CARNOT_MUST_USE;
void onnx_scope_bind(onnx_importer* importer, onnx_scope* scope, carnot_strview name,
                     carnot_value* value);
// The value of |name|: NULL absent, &import_poison unsupported. INVALID_MODEL when nothing
// has that name.
carnot_status* onnx_scope_find(onnx_importer* importer, onnx_scope* scope, carnot_strview name,
                               carnot_value** out_value) CARNOT_MUST_USE;
carnot_status* onnx_import_nodes(onnx_importer* importer, onnx_scope* scope,
                                 const onnx_node_list* nodes) CARNOT_MUST_USE;
carnot_status* onnx_read_type(onnx_importer* importer, const onnx_type* proto,
                              carnot_type* out_type) CARNOT_MUST_USE;

#endif  // CARNOT_IMPORT_ONNX_IMPORTER_STATE_H_
