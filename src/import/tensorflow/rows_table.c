// Hash tables that are known at import. Source: tensorflow/core/ops/lookup_ops.cc.
#include "import/tensorflow/rows.h"
#include "import/tensorflow/tables.h"

// The contents of the table of input 0; NULL after an error.
static const tf_table* table_of(tf_import* n) {
  const tf_node* handle = tf_handle_node(n->inputs[0]);
  const tf_table* table = NULL;
  if (!handle ||
      (!carnot_view_is(handle->op, "HashTableV2") && !carnot_view_is(handle->op, "HashTable"))) {
    TF_FAIL(n, INVALID_MODEL, "its input is no table's handle");
    return NULL;
  }
  n->node.status = tf_tables_read(n->importer->tables, handle, &table);
  return n->node.status ? NULL : table;
}

static void handle_find(tf_import* n) {
  const tf_table* table = table_of(n);
  if (!table) return;
  carnot_value* keys = import_tensor_constant(&n->node, &table->keys);
  carnot_value* values = import_tensor_constant(&n->node, &table->values);
  n->outputs[0] =
      import_op(&n->node, CARNOT_OP_LOOKUP, NULL, 4, n->inputs[1], keys, values, n->inputs[2]);
}

static void handle_size(tf_import* n) {
  const tf_table* table = table_of(n);
  if (table) n->outputs[0] = import_int(&n->node, table->keys.dims[0]);
}

static const tf_row kRows[] = {
    {"HashTableV2", tf_handle_resource, 0, 0, 0, NULL, NULL},
    {"HashTable", tf_handle_resource, 0, 0, 0, NULL, NULL},
    {"LookupTableFindV2", handle_find, 3, 3, 0, NULL, NULL},
    {"LookupTableFind", handle_find, 3, 3, 0, NULL, NULL},
    {"LookupTableSizeV2", handle_size, 1, 1, 0, NULL, NULL},
    {"LookupTableSize", handle_size, 1, 1, 0, NULL, NULL},
};
const tf_row_table tf_rows_table = TF_ROW_TABLE(kRows);
