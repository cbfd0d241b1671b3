// Variables and tables: handles of resources, which are passed on until they are read, and
// TensorFlow 1's variables by reference. Source: tensorflow/core/ops/resource_variable_ops.cc,
// state_ops.cc.
#include "import/tensorflow/rows.h"
#include "import/tensorflow/variables.h"

// What a handle is while importing; of a table nothing else is known. No value of the graph: its
// name marks it.
typedef struct variable {
  carnot_value value;  // first
  const tf_node* node;
  carnot_tensor tensor;
  bool is_read;
} variable;

static char kHandle[] = "a variable's handle";

bool tf_is_handle(const carnot_value* value) { return value->name == kHandle; }

const tf_node* tf_handle_node(const carnot_value* value) {
  return tf_is_handle(value) ? ((const variable*)value)->node : NULL;
}

static variable* new_variable(tf_import* n) {
  variable* v = CARNOT_NEW_ARRAY(n->node.arena, variable, 1);
  if (!import_has_memory(&n->node)) return NULL;
  v->value.name = kHandle;
  v->value.type.dtype = CARNOT_DTYPE_INVALID;
  v->node = n->proto;
  return v;
}

// A frozen graph has no variables. Without a restore graph a key is the variable's name, as
// TensorFlow 1 writes it.
static carnot_status* find_key(const tf_variables* all, const tf_node* node, tf_variable_key* out) {
  CARNOT_CHECK(all, UNSUPPORTED,
               "the variable \"" CARNOT_VIEW_FMT
               "\" has no value here: give the SavedModel, or freeze the graph",
               CARNOT_VIEW_ARG(node->name));
  const import_name_slot* key = import_name_map_find(&all->keys, node->name);
  *out = key ? *(const tf_variable_key*)key->item : (tf_variable_key){.key = node->name};
  CARNOT_CHECK(key || tf_bundle_has(&all->bundle, node->name), UNSUPPORTED,
               "the restore graph does not tell the key of the variable \"" CARNOT_VIEW_FMT
               "\", and no key is called like it",
               CARNOT_VIEW_ARG(node->name));
  return NULL;
}

// The shape that the variable's node declares must be that in the bundle.
static carnot_status* check_shape(const tf_node* node, const carnot_tensor* t) {
  const tf_attr_value* value = tf_attr_find(node, "shape");
  const tf_attr_value* dtype = tf_attr_find(node, "dtype");
  const tf_shape* shape = value ? value->shape : NULL;
  CARNOT_CHECK(!dtype || tf_dtype(dtype->type) == t->dtype, INVALID_MODEL,
               "%s in the bundle; node \"" CARNOT_VIEW_FMT "\" declares %s",
               carnot_dtype_name(t->dtype), CARNOT_VIEW_ARG(node->name),
               dtype ? tf_dtype_name(dtype->type) : "none");
  if (!shape || shape->unknown_rank) return NULL;
  CARNOT_CHECK(shape->dim.count == (size_t)t->rank, INVALID_MODEL,
               "%d dimensions in the bundle; node \"" CARNOT_VIEW_FMT "\" declares %zu", t->rank,
               CARNOT_VIEW_ARG(node->name), shape->dim.count);
  for (int i = 0; i < t->rank; i++)
    CARNOT_CHECK(
        shape->dim.items[i].size == -1 || shape->dim.items[i].size == t->dims[i], INVALID_MODEL,
        "dimension %d is %lld in the bundle; node \"" CARNOT_VIEW_FMT "\" declares %lld", i,
        (long long)t->dims[i], CARNOT_VIEW_ARG(node->name), (long long)shape->dim.items[i].size);
  return NULL;
}

static carnot_status* read_variable(tf_import* n, variable* v) {
  tf_variables* all = n->importer->variables;
  tf_variable_key where;
  CARNOT_TRY(find_key(all, v->node, &where));
  CARNOT_TRY(tf_bundle_tensor(&all->bundle, where.key, where.slice, n->node.arena, &v->tensor));
  CARNOT_TRY_AT(check_shape(v->node, &v->tensor), "variable \"" CARNOT_VIEW_FMT "\"",
                CARNOT_VIEW_ARG(where.key));
  v->is_read = true;
  return NULL;
}

// The value of |v| as a constant; NULL after an error.
static carnot_value* value_of(tf_import* n, variable* v) {
  if (v && !v->is_read && !n->node.status) n->node.status = read_variable(n, v);
  if (!v || n->node.status) return NULL;
  const char* name = import_unique_name(n->node.state, "", v->node->name);
  return carnot_graph_constant(n->node.block, name, &v->tensor);
}

// The variable of a handle that is an input.
static variable* variable_of(tf_import* n) {
  variable* v = tf_is_handle(n->inputs[0]) ? (variable*)n->inputs[0] : NULL;
  if (v && carnot_view_is(v->node->op, "VarHandleOp")) return v;
  TF_FAIL(n, INVALID_MODEL, "its input is no variable's handle");
  return NULL;
}

void tf_handle_resource(tf_import* n) {
  variable* v = new_variable(n);
  if (v) n->outputs[0] = &v->value;
}
static void handle_variable(tf_import* n) { n->outputs[0] = value_of(n, new_variable(n)); }
static void handle_read(tf_import* n) { n->outputs[0] = value_of(n, variable_of(n)); }

static void handle_gather(tf_import* n) {
  carnot_value* value = value_of(n, variable_of(n));
  if (tf_int(n, "batch_dims", 0) != 0) TF_FAIL(n, UNSUPPORTED, "batch_dims is not 0");
  if (value) n->outputs[0] = import_gather(&n->node, value, tf_int64(n, n->inputs[1]), 0);
}

// A variable is what the bundle holds.
static void handle_is_initialized(tf_import* n) {
  n->outputs[0] = import_number_of(&n->node, CARNOT_DTYPE_BOOL, 1);
}

static const tf_row kRows[] = {
    {"VarHandleOp", tf_handle_resource, 0, 0, 0, NULL, NULL},
    {"ReadVariableOp", handle_read, 1, 1, 0, NULL, NULL},
    {"ResourceGather", handle_gather, 2, 2, 0, NULL, NULL},
    {"VarIsInitializedOp", handle_is_initialized, 1, 1, 0, NULL, NULL},
    {"IsVariableInitialized", handle_is_initialized, 1, 1, 0, NULL, NULL},
    {"VariableV2", handle_variable, 0, 0, 0, NULL, NULL},
    {"Variable", handle_variable, 0, 0, 0, NULL, NULL},
};
const tf_row_table tf_rows_variables = TF_ROW_TABLE(kRows);
