// Importing the nodes of a graph, body or function, one after the other.
#include "import/onnx/importer_state.h"
#include "import/onnx/plugin.h"

static bool is_default_domain(carnot_strview domain) {
  return domain.size == 0 || carnot_view_is(domain, "ai.onnx");
}

static int64_t opset_of(const onnx_scope* scope, carnot_strview domain) {
  bool any = false;
  for (size_t i = 0; i < scope->opsets->count; i++) {
    const onnx_opset* opset = &scope->opsets->items[i];
    any |= is_default_domain(opset->domain);
    if (is_default_domain(domain) ? is_default_domain(opset->domain)
                                  : carnot_view_equal(opset->domain, domain)) {
      return opset->version;
    }
  }
  // Files before IR version 3 import nothing and mean version 1.
  return is_default_domain(domain) && any ? 0 : 1;
}

// " (in CALL (FUNCTION) -> CALL (FUNCTION))", the outermost call first; "" outside of functions.
static const char* calls_around(carnot_arena* arena, const onnx_frame* frame) {
  const char* text = "";
  for (const onnx_frame* f = frame; f; f = f->outer)
    text = carnot_arena_print(arena, CARNOT_VIEW_FMT " (" CARNOT_VIEW_FMT ")%s%s",
                              CARNOT_VIEW_ARG(f->call->name), CARNOT_VIEW_ARG(f->function->name),
                              text[0] ? " -> " : "", text);
  return text[0] ? carnot_arena_print(arena, " (in %s)", text) : "";
}

static void note_unsupported(onnx_importer* importer, const onnx_import* n, const char* reason) {
  const onnx_node* node = n->proto;
  carnot_arena* arena = &importer->state.arena;
  const char* domain =
      is_default_domain(node->domain)
          ? ""
          : carnot_arena_print(arena, CARNOT_VIEW_FMT ".", CARNOT_VIEW_ARG(node->domain));
  import_note_unsupported(
      &importer->state,
      carnot_arena_print(arena, "node %s%s: %s" CARNOT_VIEW_FMT ", version %lld: %s", n->node.name,
                         calls_around(arena, n->scope->frame), domain,
                         CARNOT_VIEW_ARG(node->op_type), (long long)n->version, reason));
}

static const onnx_function* find_function(const onnx_importer* importer, const onnx_node* node) {
  for (size_t i = 0; i < importer->model->functions.count; i++) {
    const onnx_function* f = &importer->model->functions.items[i];
    bool same_domain = carnot_view_equal(f->domain, node->domain) ||
                       (is_default_domain(f->domain) && is_default_domain(node->domain));
    if (same_domain && carnot_view_equal(f->name, node->op_type) &&
        carnot_view_equal(f->overload, node->overload)) {
      return f;
    }
  }
  return NULL;
}

// ---- what a handler made: names ----

// A value that was there before the node, or is two results, gets an identity, so that each
// name keeps a value of its own.
static carnot_value* own_value(onnx_import* n, int output, uint32_t first_value) {
  carnot_value* value = n->outputs[output];
  bool mine = value->id >= first_value && value->block == n->node.block;
  for (int i = 0; i < output; i++) mine &= n->outputs[i] != value;
  return mine ? value : import_op(&n->node, CARNOT_OP_IDENTITY, NULL, 1, value);
}

static void name_output(onnx_import* n, carnot_value* value, carnot_strview name) {
  const char* unique = import_unique_name(&n->importer->state, n->scope->prefix, name);
  value->name = carnot_arena_text(n->node.arena, unique, strlen(unique));
  if (value->constant && !value->constant->name) value->constant->name = value->name;
}

// A type that the file declares helps where inference found none.
static void take_declared_type(onnx_import* n, carnot_value* value, carnot_strview name) {
  if (value->type.kind == CARNOT_VALUE_TENSOR && value->type.rank >= 0) return;
  import_name_slot* slot = import_name_map_find(&n->scope->declared, name);
  if (!slot) return;
  carnot_type type;
  carnot_status* status =
      onnx_read_type(n->importer, ((const onnx_value_info*)slot->item)->type, &type);
  bool fits = !status &&
              (value->type.kind == CARNOT_VALUE_UNKNOWN || value->type.kind == type.kind) &&
              type.kind != CARNOT_VALUE_UNKNOWN &&
              type.dtype == (value->type.dtype ? value->type.dtype : type.dtype);
  if (fits && (type.kind == CARNOT_VALUE_TENSOR || !value->type.element)) value->type = type;
  carnot_status_free(status);
}

static void bind_outputs(onnx_import* n, uint32_t first_value) {
  for (int i = 0; i < n->output_count && !n->node.status; i++) {
    carnot_strview name = n->proto->output.items[i];
    if (name.size == 0) continue;
    if (!n->outputs[i]) {
      ONNX_FAIL(n, UNSUPPORTED, "output %d (\"" CARNOT_VIEW_FMT "\") is not provided", i,
                CARNOT_VIEW_ARG(name));
      return;
    }
    if (n->outputs[i] != &import_poison) {
      carnot_value* value = own_value(n, i, first_value);
      if (n->node.status) return;
      n->outputs[i] = value;
      name_output(n, value, name);
      take_declared_type(n, value, name);
    }
    onnx_scope_bind(n->importer, n->scope, name, n->outputs[i]);
  }
}

// The last node carries the user's name, the others of a composition that name and their operator.
static void name_nodes(onnx_import* n, uint32_t first_node) {
  const char* type_name =
      carnot_arena_text(n->node.arena, n->proto->op_type.data, n->proto->op_type.size);
  bool last = true;
  for (carnot_node* node = n->node.block->last; node && node->id >= first_node;
       node = node->previous) {
    node->type_name = type_name;
    node->name = last ? carnot_arena_text(n->node.arena, n->node.name, strlen(n->node.name))
                      : carnot_arena_print(n->node.arena, "%s/%s", n->node.name,
                                           carnot_node_row(node)->name);
    last = false;
  }
}

// ---- model-local functions ----

// The call's attributes with references to the caller's own frame followed.
static onnx_attribute_list resolve_given(onnx_import* n) {
  const onnx_attribute_list* list = &n->proto->attribute;
  onnx_attribute* items =
      CARNOT_NEW_ARRAY(&n->importer->state.arena, onnx_attribute, list->count + 1);
  if (!import_has_memory(&n->node)) return (onnx_attribute_list){0};
  size_t count = 0;
  for (size_t i = 0; i < list->count; i++) {
    carnot_strview name = list->items[i].name;
    const onnx_attribute* attr =
        onnx_attr(n, carnot_arena_text(&n->importer->state.arena, name.data, name.size));
    if (!attr) continue;
    items[count] = *attr;
    items[count++].name = name;
  }
  return (onnx_attribute_list){items, count};
}

static void read_call(onnx_import* n, const onnx_function* function) {
  if (n->scope->depth >= ONNX_MAX_NESTING) {
    ONNX_FAIL(n, OUT_OF_RANGE, "functions nested deeper than %d (a function may not call itself)",
              ONNX_MAX_NESTING);
    return;
  }
  if ((size_t)n->input_count > function->input.count ||
      (size_t)n->output_count > function->output.count) {
    ONNX_FAIL(n, INVALID_MODEL, "%d inputs and %d outputs where the function has %zu and %zu",
              n->input_count, n->output_count, function->input.count, function->output.count);
    return;
  }
  onnx_importer* importer = n->importer;
  onnx_frame frame = {function, resolve_given(n), n->proto, n->scope->frame};
  onnx_scope scope = {
      .block = n->node.block,
      .frame = &frame,
      .opsets = function->opset_import.count ? &function->opset_import : n->scope->opsets,
      .prefix = carnot_arena_print(&importer->state.arena, "%s/", n->node.name),
      .depth = n->scope->depth + 1};
  if (n->node.status) return;
  n->node.status = onnx_scope_init(importer, &scope, NULL);
  for (size_t i = 0; i < function->input.count; i++) {
    onnx_scope_bind(importer, &scope, function->input.items[i], onnx_in(n, (int)i));
  }
  if (!n->node.status) n->node.status = onnx_import_nodes(importer, &scope, &function->node);
  for (int i = 0; i < n->output_count && !n->node.status; i++) {
    n->node.status = onnx_scope_find(importer, &scope, function->output.items[i], &n->outputs[i]);
  }
}

// ---- nodes ----

static void read_inputs(onnx_import* n, bool* out_poisoned) {
  const onnx_text_list* names = &n->proto->input;
  n->input_count = (int)names->count;
  n->inputs = CARNOT_NEW_ARRAY(&n->importer->state.arena, carnot_value*, names->count + 1);
  if (!import_has_memory(&n->node)) return;
  for (size_t i = 0; i < names->count && !n->node.status; i++) {
    if (names->items[i].size == 0) continue;
    n->node.status = onnx_scope_find(n->importer, n->scope, names->items[i], &n->inputs[i]);
    if (n->inputs[i] == &import_poison) *out_poisoned = true;
  }
}

static void poison_outputs(onnx_import* n) {
  for (int i = 0; i < n->output_count; i++) {
    onnx_scope_bind(n->importer, n->scope, n->proto->output.items[i], &import_poison);
  }
}

static const char* name_of(onnx_import* n) {
  carnot_arena* arena = &n->importer->state.arena;
  carnot_strview name = n->proto->name;
  const char* prefix = n->scope->prefix;
  if (name.size)
    return carnot_arena_print(arena, "%s" CARNOT_VIEW_FMT, prefix, CARNOT_VIEW_ARG(name));
  if (n->proto->output.count) name = n->proto->output.items[0];
  return carnot_arena_print(arena, "%snode_of_" CARNOT_VIEW_FMT, prefix, CARNOT_VIEW_ARG(name));
}

static carnot_status* check_size(const onnx_node* node) {
  enum { kMost = 1 << 20 };
  CARNOT_CHECK(node->input.count <= kMost && node->output.count <= kMost, OUT_OF_RANGE,
               "node " CARNOT_VIEW_FMT ": %zu inputs and %zu outputs where at most %d are allowed",
               CARNOT_VIEW_ARG(node->name), node->input.count, node->output.count, kMost);
  return NULL;
}

// Runs the row or the function and binds what came out.
static void read_known(onnx_import* n, const onnx_function* function, bool plugin) {
  carnot_graph* graph = n->importer->state.graph;
  uint32_t first_value = graph->value_count, first_node = graph->node_count;
  if (plugin)
    onnx_plugin_import(n);
  else if (function)
    read_call(n, function);
  else
    n->row->handler(n);
  bind_outputs(n, first_value);
  if (!n->node.status && (plugin || !function) && !n->inlined) name_nodes(n, first_node);
}

static carnot_status* read_node(onnx_importer* importer, onnx_scope* scope,
                                const onnx_node* proto) {
  CARNOT_TRY(check_size(proto));
  onnx_import n = {.node = {.state = &importer->state,
                            .block = scope->block,
                            .arena = &importer->state.graph->arena},
                   .importer = importer,
                   .scope = scope,
                   .proto = proto,
                   .version = opset_of(scope, proto->domain)};
  n.node.name = name_of(&n);
  n.output_count = (int)proto->output.count;
  n.outputs = CARNOT_NEW_ARRAY(&importer->state.arena, carnot_value*, proto->output.count + 1);
  CARNOT_TRY(carnot_arena_status(&importer->state.arena));
  bool poisoned = false;
  read_inputs(&n, &poisoned);
  const onnx_function* function = find_function(importer, proto);
  bool is_default = is_default_domain(proto->domain);
  if (!function)
    n.row = onnx_row_find(is_default ? carnot_view("") : proto->domain, proto->op_type, n.version);
  bool plugin = onnx_plugin_replaces(&n) || (!function && !n.row && onnx_plugin_find(&n));
  if (n.node.status) {
    // A name that nothing makes: below it is told with the node.
  } else if (!function && !n.row && !plugin) {
    if (is_default && n.version == 0)
      ONNX_FAIL(&n, UNSUPPORTED, "the model imports no opset of the default domain");
    else
      onnx_plugin_missing(&n);
  } else if (is_default && !plugin && n.version > CARNOT_ONNX_MAX_OPSET) {
    ONNX_FAIL(&n, UNSUPPORTED, "the newest opset known is %d", CARNOT_ONNX_MAX_OPSET);
  } else if (!poisoned || (function && !plugin)) {
    // A function whose inputs are not there may hold further nodes that are not supported.
    read_known(&n, function, plugin);
  }
  if (carnot_status_code(n.node.status) == CARNOT_UNSUPPORTED) {
    note_unsupported(importer, &n, carnot_status_message(n.node.status));
    carnot_status_free(n.node.status);
    n.node.status = NULL;
    poisoned = true;
  }
  if (poisoned && !n.node.status) poison_outputs(&n);
  if (!n.node.status || n.node.placed) return n.node.status;
  return carnot_status_annotate(n.node.status, "node %s (" CARNOT_VIEW_FMT ")", n.node.name,
                                CARNOT_VIEW_ARG(proto->op_type));
}

carnot_status* onnx_import_nodes(onnx_importer* importer, onnx_scope* scope,
                                 const onnx_node_list* nodes) {
  for (size_t i = 0; i < nodes->count; i++) {
    CARNOT_TRY(carnot_arena_status(&importer->state.arena));
    CARNOT_TRY(carnot_graph_status(importer->state.graph));
    CARNOT_TRY(read_node(importer, scope, &nodes->items[i]));
  }
  return NULL;
}

// ---- bodies ----

void onnx_body_input_type(onnx_import* n, const onnx_graph* graph, size_t i,
                          carnot_type* out_type) {
  *out_type = (carnot_type){.kind = CARNOT_VALUE_UNKNOWN, .rank = -1};
  if (i < graph->input.count && graph->input.items[i].type)
    onnx_type_read(n, graph->input.items[i].type, out_type);
}

void onnx_body_import(onnx_import* n, const onnx_graph* graph, const carnot_type* types,
                      size_t type_count, onnx_body* out_body) {
  *out_body = (onnx_body){0};
  if (n->node.status) return;
  onnx_importer* importer = n->importer;
  if (n->scope->depth >= ONNX_MAX_NESTING) {
    ONNX_FAIL(n, OUT_OF_RANGE, "bodies nested deeper than %d", ONNX_MAX_NESTING);
    return;
  }
  if (graph->input.count != type_count) {
    ONNX_FAIL(n, INVALID_MODEL, "a body of %zu inputs where %zu belong", graph->input.count,
              type_count);
    return;
  }
  onnx_scope scope = {.outer = n->scope,
                      .block = carnot_block_create(importer->state.graph),
                      .frame = n->scope->frame,
                      .opsets = n->scope->opsets,
                      .prefix = n->scope->prefix,
                      .depth = n->scope->depth + 1};
  n->node.status = onnx_scope_init(importer, &scope, graph);
  for (size_t i = 0; i < type_count && !n->node.status; i++) {
    carnot_strview name = graph->input.items[i].name;
    const char* unique = import_unique_name(&importer->state, scope.prefix, name);
    onnx_scope_bind(importer, &scope, name, carnot_block_add_param(scope.block, unique, &types[i]));
  }
  if (!n->node.status) n->node.status = onnx_import_nodes(importer, &scope, &graph->node);
  for (size_t i = 0; i < graph->output.count && !n->node.status; i++) {
    carnot_value* value = NULL;
    n->node.status = onnx_scope_find(importer, &scope, graph->output.items[i].name, &value);
    if (!n->node.status && !value)
      ONNX_FAIL(n, INVALID_MODEL, "result %zu of a body has no value", i);
    if (value == &import_poison)
      out_body->poisoned = true;
    else if (!n->node.status)
      carnot_block_add_output(scope.block, value);
  }
  out_body->block = scope.block;
  out_body->captured = scope.captured;
  out_body->captured_count = scope.captured_count;
}

void onnx_body_inline(onnx_import* n, const onnx_graph* graph, carnot_value* const* inputs,
                      size_t input_count, carnot_value** outputs, size_t output_count) {
  if (n->node.status) return;
  if (n->scope->depth >= ONNX_MAX_NESTING)
    ONNX_FAIL(n, OUT_OF_RANGE, "bodies nested deeper than %d", ONNX_MAX_NESTING);
  if (graph->input.count != input_count || graph->output.count < output_count) {
    ONNX_FAIL(n, INVALID_MODEL, "a body of %zu inputs and %zu results where %zu and %zu belong",
              graph->input.count, graph->output.count, input_count, output_count);
  }
  if (n->node.status) return;
  onnx_scope scope = {.outer = n->scope,
                      .block = n->node.block,
                      .frame = n->scope->frame,
                      .opsets = n->scope->opsets,
                      .prefix = n->scope->prefix,
                      .depth = n->scope->depth + 1};
  n->node.status = onnx_scope_init(n->importer, &scope, graph);
  for (size_t i = 0; i < input_count; i++) {
    onnx_scope_bind(n->importer, &scope, graph->input.items[i].name, inputs[i]);
  }
  if (!n->node.status) n->node.status = onnx_import_nodes(n->importer, &scope, &graph->node);
  // What the nodes inside say of themselves is enough.
  n->node.placed = n->node.status != NULL;
  for (size_t i = 0; i < output_count && !n->node.status; i++) {
    n->node.status = onnx_scope_find(n->importer, &scope, graph->output.items[i].name, &outputs[i]);
    if (!n->node.status && !outputs[i])
      ONNX_FAIL(n, INVALID_MODEL, "result %zu of a body has no value", i);
  }
}
