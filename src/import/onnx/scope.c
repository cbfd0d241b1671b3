// Scopes: the value of each name, and how a body captures values from outside.
#include "import/onnx/importer_state.h"

static void bind(onnx_importer* importer, onnx_scope* scope, carnot_strview name,
                 onnx_binding binding) {
  onnx_binding* copy = carnot_arena_copy(&importer->state.arena, &binding, sizeof(binding));
  if (!copy) return;
  import_name_map_set(&scope->names, name, copy);
}

void onnx_scope_bind(onnx_importer* importer, onnx_scope* scope, carnot_strview name,
                     carnot_value* value) {
  bind(importer, scope, name, (onnx_binding){.value = value});
}

carnot_status* onnx_scope_init(onnx_importer* importer, onnx_scope* scope,
                               const onnx_graph* graph) {
  scope->names.arena = scope->declared.arena = &importer->state.arena;
  if (!graph) return NULL;
  for (size_t i = 0; i < graph->initializer.count; i++) {
    const onnx_tensor* tensor = &graph->initializer.items[i];
    bind(importer, scope, tensor->name, (onnx_binding){.tensor = tensor});
  }
  for (size_t i = 0; i < graph->sparse_initializer.count; i++) {
    const onnx_sparse_tensor* sparse = &graph->sparse_initializer.items[i];
    CARNOT_CHECK(sparse->values, INVALID_MODEL, "sparse initializer %zu has no values", i);
    bind(importer, scope, sparse->values->name, (onnx_binding){.sparse = sparse});
  }
  const onnx_value_info_list* lists[] = {&graph->value_info, &graph->output};
  for (int l = 0; l < 2; l++) {
    for (size_t i = 0; i < lists[l]->count; i++) {
      import_name_map_set(&scope->declared, lists[l]->items[i].name, &lists[l]->items[i]);
    }
  }
  return NULL;
}

// What the caller gives in place of initializer |name| of the main graph; NULL: nothing.
static const carnot_onnx_initializer* given_for(const onnx_importer* importer,
                                                const onnx_scope* scope, carnot_strview name) {
  const carnot_onnx_options* options = &importer->options;
  for (size_t i = 0; !scope->outer && !scope->frame && i < options->initializer_count; i++)
    if (carnot_view_equal(name, carnot_view(options->initializers[i].name)))
      return &options->initializers[i];
  return NULL;
}

// Reads an initializer the first time that its name is met.
static carnot_status* read_initializer(onnx_importer* importer, onnx_scope* scope,
                                       carnot_strview name, onnx_binding* binding) {
  carnot_tensor tensor;
  carnot_arena* arena = &importer->state.graph->arena;
  const carnot_onnx_initializer* given = given_for(importer, scope, name);
  carnot_status* status =
      binding->tensor && given
          ? carnot_onnx_tensor_read_from(binding->tensor,
                                         (carnot_strview){given->data, given->size}, arena, &tensor)
      : binding->tensor ? carnot_onnx_tensor_read(binding->tensor, importer->files, arena, &tensor)
                        : carnot_onnx_sparse_read(binding->sparse, importer->files, arena, &tensor);
  CARNOT_TRY_AT(status, "initializer " CARNOT_VIEW_FMT, CARNOT_VIEW_ARG(name));
  binding->value = carnot_graph_constant(
      scope->block, import_unique_name(&importer->state, scope->prefix, name), &tensor);
  binding->tensor = NULL;
  binding->sparse = NULL;
  return NULL;
}

// A value of the block around becomes a parameter of the body, after its own ones; a constant
// becomes the same constant inside, so that what it says stays known there.
static carnot_value* capture(onnx_importer* importer, onnx_scope* scope, carnot_strview name,
                             carnot_value* outer) {
  if (outer->constant) {
    carnot_value* value = carnot_graph_constant(
        scope->block, import_unique_name(&importer->state, "", name), &outer->constant->tensor);
    value->constant->name = outer->constant->name;
    return value;
  }
  carnot_value* param = carnot_block_add_param(
      scope->block, import_unique_name(&importer->state, "", name), &outer->type);
  param->syms = outer->syms;
  param->sym_count = outer->sym_count;
  if (scope->captured_count == scope->captured_capacity) {
    size_t capacity = scope->captured_capacity ? scope->captured_capacity * 2 : 8;
    carnot_value** grown = CARNOT_NEW_ARRAY(&importer->state.arena, carnot_value*, capacity);
    if (!grown) return param;
    if (scope->captured_count)
      memcpy(grown, scope->captured, scope->captured_count * sizeof(*grown));
    scope->captured = grown;
    scope->captured_capacity = capacity;
  }
  scope->captured[scope->captured_count++] = outer;
  return param;
}

carnot_status* onnx_scope_find(onnx_importer* importer, onnx_scope* scope, carnot_strview name,
                               carnot_value** out_value) {
  *out_value = NULL;
  import_name_slot* slot = import_name_map_find(&scope->names, name);
  if (slot) {
    onnx_binding* binding = slot->item;
    if (binding->tensor || binding->sparse)
      CARNOT_TRY(read_initializer(importer, scope, name, binding));
    *out_value = binding->value;
    return NULL;
  }
  CARNOT_CHECK(scope->outer, INVALID_MODEL,
               "value \"" CARNOT_VIEW_FMT "\" is read before any node makes it",
               CARNOT_VIEW_ARG(name));
  carnot_value* outer = NULL;
  CARNOT_TRY(onnx_scope_find(importer, scope->outer, name, &outer));
  // A scope without a block of its own (an inlined body) reads what is around directly.
  CARNOT_TRY(carnot_arena_status(&importer->state.arena));
  CARNOT_TRY(carnot_graph_status(importer->state.graph));
  bool across = outer && outer != &import_poison && scope->block != scope->outer->block;
  carnot_value* value = across ? capture(importer, scope, name, outer) : outer;
  onnx_scope_bind(importer, scope, name, value);
  *out_value = value;
  return NULL;
}
