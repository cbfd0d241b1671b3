// Finds what fills hash tables, and sorts it by key. Source: tensorflow/core/ops/lookup_ops.cc.
#include "import/tensorflow/tables.h"

#include <string.h>

#include "import/tensorflow/origins.h"
#include "import/tensorflow/table_entries.h"

// What fills a table, and its contents once they are read.
typedef struct filling {
  const tf_node* node;
  const tf_tensor *keys, *values;  // NULL: a vocabulary file, or not known
  carnot_strview file;             // below the model's folder
  bool is_read;
  tf_table table;
} filling;

struct tf_tables {
  const tf_meta_graph* meta;
  import_files* files;
  carnot_arena* arena;
  import_name_map fillings;  // by the table's name to filling*
};

// Tables are shared by a name of their own, or by the node's.
static carnot_strview table_name(const tf_node* handle) {
  const tf_attr_value* shared = tf_attr_find(handle, "shared_name");
  return shared && shared->s.size ? shared->s : handle->name;
}

static bool is_one_of(carnot_strview op, const char* const* names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (carnot_view_is(op, names[i])) return true;
  return false;
}

static bool is_import(carnot_strview op) {
  static const char* const kOps[] = {"LookupTableImportV2", "LookupTableImport",
                                     "InitializeTableV2", "InitializeTable"};
  return is_one_of(op, kOps, 4);
}
static bool is_text_file(carnot_strview op) {
  return carnot_view_is(op, "InitializeTableFromTextFileV2") ||
         carnot_view_is(op, "InitializeTableFromTextFile");
}

// The asset that a constant of the graph stands for: the SavedModel tells its file.
static carnot_status* find_asset(tf_tables* t, const tf_level* l, carnot_strview text,
                                 carnot_strview* out) {
  tf_origin o;
  *out = (carnot_strview){NULL, 0};
  if (!t->meta || !tf_origin_find(l, text, &o) || o.level->caller) return NULL;
  for (size_t i = 0; i < t->meta->asset_file_def.count; i++) {
    const tf_asset* asset = &t->meta->asset_file_def.items[i];
    tf_reference r;
    if (!asset->tensor_info || !tf_reference_read(asset->tensor_info->name, &r) ||
        !carnot_view_equal(r.node, o.node->name))
      continue;
    const char* path =
        carnot_arena_print(t->arena, "assets/" CARNOT_VIEW_FMT, CARNOT_VIEW_ARG(asset->filename));
    CARNOT_TRY(carnot_arena_status(t->arena));
    *out = carnot_view(path);
    return NULL;
  }
  return NULL;
}

static carnot_status* take_filling(void* context, const tf_level* l, const tf_node* node) {
  tf_tables* t = context;
  const bool by_file = is_text_file(node->op);
  tf_origin handle;
  void* memory;
  if (!by_file && !is_import(node->op)) return NULL;
  if (node->input.count < (by_file ? 2 : 3) || !tf_origin_find(l, node->input.items[0], &handle))
    return NULL;
  CARNOT_TRY(carnot_arena_try(t->arena, 1, sizeof(filling), "a table", &memory));
  filling* f = memory;
  f->node = node;
  if (by_file) {
    CARNOT_TRY(find_asset(t, l, node->input.items[1], &f->file));
  } else {
    f->keys = tf_origin_constant(l, node->input.items[1]);
    f->values = tf_origin_constant(l, node->input.items[2]);
  }
  import_name_map_set(&t->fillings, table_name(handle.node), f);
  return carnot_arena_status(t->arena);
}

static bool holds_fillings(const tf_node_list* nodes) {
  for (size_t i = 0; i < nodes->count; i++)
    if (is_import(nodes->items[i].op) || is_text_file(nodes->items[i].op)) return true;
  return false;
}

static bool is_call(carnot_strview op) {
  return carnot_view_is(op, "StatefulPartitionedCall") || carnot_view_is(op, "PartitionedCall");
}

carnot_status* tf_tables_find(const tf_graph* graph, const tf_meta_graph* meta, import_files* files,
                              carnot_arena* arena, tf_tables** out_tables) {
  enum { kMostCalls = 1000 };
  void* memory;
  bool in_functions = false;
  int calls_left = kMostCalls;
  tf_level level = {0};
  CARNOT_TRY(carnot_arena_try(arena, 1, sizeof(tf_tables), "tables", &memory));
  tf_tables* t = *out_tables = memory;
  *t = (tf_tables){.meta = meta, .files = files, .arena = arena, .fillings.arena = arena};
  for (size_t i = 0; graph->library && i < graph->library->function.count && !in_functions; i++)
    in_functions = holds_fillings(&graph->library->function.items[i].node_def);
  if (!in_functions && !holds_fillings(&graph->node)) return NULL;
  CARNOT_TRY(tf_level_index(&level, &graph->node, arena));
  for (size_t i = 0; i < graph->node.count; i++) {
    const tf_node* node = &graph->node.items[i];
    CARNOT_TRY(take_filling(t, &level, node));
    if (in_functions && is_call(node->op))
      CARNOT_TRY(tf_visit_call(graph, arena, &level, node, &calls_left, take_filling, t));
  }
  return NULL;
}

// ---- contents ----

static int64_t int_attr(const tf_node* node, const char* name, int64_t absent) {
  const tf_attr_value* value = tf_attr_find(node, name);
  return value ? value->i : absent;
}

static carnot_status* read_file(tf_tables* t, const filling* f, const tf_node* handle,
                                carnot_tensor* keys, carnot_tensor* values) {
  const tf_attr_value *delimiter = tf_attr_find(f->node, "delimiter"),
                      *key = tf_attr_find(handle, "key_dtype"),
                      *value = tf_attr_find(handle, "value_dtype");
  carnot_strview bytes;
  CARNOT_CHECK(f->file.size, UNSUPPORTED,
               "the vocabulary of the table \"" CARNOT_VIEW_FMT
               "\" is a file that is no asset of a SavedModel",
               CARNOT_VIEW_ARG(table_name(handle)));
  CARNOT_TRY(import_files_external(t->files, f->file, &bytes));
  const tf_vocabulary form = {
      .key_column = int_attr(f->node, "key_index", 0),
      .value_column = int_attr(f->node, "value_index", 0),
      .size = int_attr(f->node, "vocab_size", -1),
      .offset = int_attr(f->node, "offset", 0),
      .delimiter = delimiter && delimiter->s.size ? delimiter->s.data[0] : '\t',
      .key_type = key ? tf_dtype(key->type) : CARNOT_DTYPE_INVALID,
      .value_type = value ? tf_dtype(value->type) : CARNOT_DTYPE_INVALID};
  return carnot_status_annotate(tf_vocabulary_read(bytes, &form, t->arena, keys, values),
                                CARNOT_VIEW_FMT, CARNOT_VIEW_ARG(f->file));
}

static carnot_status* read_filling(tf_tables* t, filling* f, const tf_node* handle) {
  const carnot_strview name = table_name(handle);
  carnot_tensor keys, values;
  if (is_text_file(f->node->op)) {
    CARNOT_TRY(read_file(t, f, handle, &keys, &values));
  } else {
    CARNOT_CHECK(f->keys && f->values, UNSUPPORTED,
                 "keys or values of the table \"" CARNOT_VIEW_FMT "\" are no constants",
                 CARNOT_VIEW_ARG(name));
    CARNOT_TRY(tf_tensor_read(f->keys, t->files, t->arena, &keys));
    CARNOT_TRY(tf_tensor_read(f->values, t->files, t->arena, &values));
  }
  CARNOT_TRY_AT(tf_entries_sort(&keys, &values, t->arena, &f->table.keys, &f->table.values),
                "table \"" CARNOT_VIEW_FMT "\"", CARNOT_VIEW_ARG(name));
  f->is_read = true;
  return NULL;
}

carnot_status* tf_tables_read(tf_tables* tables, const tf_node* handle,
                              const tf_table** out_table) {
  const carnot_strview name = table_name(handle);
  const import_name_slot* found = import_name_map_find(&tables->fillings, name);
  CARNOT_CHECK(found, UNSUPPORTED, "nothing fills the table \"" CARNOT_VIEW_FMT "\"",
               CARNOT_VIEW_ARG(name));
  filling* f = found->item;
  if (!f->is_read) CARNOT_TRY(read_filling(tables, f, handle));
  *out_table = &f->table;
  return NULL;
}
