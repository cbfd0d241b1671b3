// If, Loop, Scan and SequenceMap: bodies closed by capturing (see ops/control.h for the operators'
// inputs).
#include "import/onnx/importer_state.h"
#include "ops/control.h"

enum { kMostAttempts = 4 };

static void set_block(onnx_import* n, carnot_attrs* attrs, const char* name, carnot_block* block) {
  carnot_attrs_set(attrs, n->node.arena,
                   (carnot_attr){.name = name, .type = CARNOT_ATTR_BLOCK, .block = block});
}

static const onnx_graph* body_of(onnx_import* n, const char* name) {
  const onnx_attribute* attr = onnx_attr(n, name);
  if (!attr || !attr->g) ONNX_FAIL(n, INVALID_MODEL, "attribute %s holds no graph", name);
  return n->node.status ? NULL : attr->g;
}

// The inputs given, then what the bodies captured.
static carnot_value** with_captured(onnx_import* n, carnot_value* const* inputs, int count,
                                    const onnx_body* bodies, int body_count, int* out_count) {
  size_t total = (size_t)count;
  for (int b = 0; b < body_count; b++) total += bodies[b].captured_count;
  carnot_value** all = CARNOT_NEW_ARRAY(&n->importer->state.arena, carnot_value*, total + 1);
  if (!import_has_memory(&n->node)) return NULL;
  for (int i = 0; i < count; i++) all[i] = inputs[i];
  size_t at = (size_t)count;
  for (int b = 0; b < body_count; b++) {
    for (size_t i = 0; i < bodies[b].captured_count; i++) all[at++] = bodies[b].captured[i];
  }
  *out_count = (int)total;
  return all;
}

static void poison_all(onnx_import* n) {
  for (int i = 0; i < n->output_count; i++) n->outputs[i] = &import_poison;
}

// 1 or 0 when the condition is known, else -1.
static int known_condition(const carnot_value* condition) {
  if (condition->constant && condition->type.dtype == CARNOT_DTYPE_BOOL &&
      carnot_tensor_count(&condition->constant->tensor) == 1) {
    return *(const uint8_t*)condition->constant->tensor.data != 0;
  }
  if (condition->syms && condition->sym_count == 1 && carnot_sym_is_const(condition->syms[0])) {
    return condition->syms[0].bits != 0;
  }
  return -1;
}

static void handle_if(onnx_import* n) {
  onnx_body bodies[2] = {{0}, {0}};
  const onnx_graph* then_graph = body_of(n, "then_branch");
  const onnx_graph* else_graph = body_of(n, "else_branch");
  carnot_value* condition = onnx_need(n, 0);
  if (n->node.status) return;
  // The branch not taken may be one that could not even be inferred: tests of rank and size choose
  // between branches.
  int known = known_condition(condition);
  if (known >= 0) {
    n->inlined = true;
    onnx_body_inline(n, known ? then_graph : else_graph, NULL, 0, n->outputs,
                     (size_t)n->output_count);
    return;
  }
  onnx_body_import(n, then_graph, NULL, 0, &bodies[0]);
  onnx_body_import(n, else_graph, NULL, 0, &bodies[1]);
  if (n->node.status) return;
  if (bodies[0].poisoned || bodies[1].poisoned) {
    poison_all(n);
    return;
  }
  carnot_attrs attrs = {0};
  set_block(n, &attrs, "then_branch", bodies[0].block);
  set_block(n, &attrs, "else_branch", bodies[1].block);
  carnot_attrs_set_int(&attrs, n->node.arena, "then_inputs", (int64_t)bodies[0].captured_count);
  int count = 0;
  carnot_value** inputs = with_captured(n, &condition, 1, bodies, 2, &count);
  import_emit(&n->node, CARNOT_OP_IF, &attrs, inputs, count, n->outputs, n->output_count);
}

// ---- bodies whose parameters change from one iteration to the next ----

// Widens |type| until it holds |next| as well; |fresh| marks dimensions that stand for anything
// already.
static bool widen(onnx_import* n, carnot_type* type, const carnot_type* next, bool* fresh) {
  if (type->kind != CARNOT_VALUE_TENSOR || next->kind != CARNOT_VALUE_TENSOR || type->rank < 0)
    return false;
  if (next->rank != type->rank) {
    type->rank = -1;
    return true;
  }
  bool changed = false;
  for (int i = 0; i < type->rank; i++) {
    if (fresh[i] || carnot_sym_same(type->dims[i], next->dims[i])) continue;
    type->dims[i] = carnot_sym_new(&n->importer->state.graph->syms, NULL, 0, CARNOT_DIM_UNBOUNDED);
    changed = fresh[i] = true;
  }
  return changed;
}

// Imports the body until the types of its first |carried| parameters after |first| hold what the
// body gives back for them (its results from |first_result| on). What an attempt that does not
// count left behind is forgotten.
static void handle_until_stable(onnx_import* n, const onnx_graph* graph, carnot_type* types,
                                size_t type_count, size_t first, size_t carried,
                                size_t first_result, onnx_body* out_body) {
  bool(*fresh)[CARNOT_MAX_RANK] =
      carnot_arena_alloc(&n->importer->state.arena, carried + 1, sizeof(*fresh));
  if (!import_has_memory(&n->node)) return;
  onnx_importer saved = *n->importer;
  for (int attempt = 0; !n->node.status; attempt++) {
    import_name_map names = n->importer->state.used_names;
    names.slots = carnot_arena_copy(&n->importer->state.arena, names.slots,
                                    names.capacity * sizeof(*names.slots));
    if (!import_has_memory(&n->node)) return;
    onnx_body_import(n, graph, types, type_count, out_body);
    if (n->node.status || out_body->poisoned || attempt == kMostAttempts) return;
    bool changed = false;
    if (out_body->block->output_count < first_result + carried) {
      ONNX_FAIL(n, INVALID_MODEL, "a body gives %zu results where at least %zu belong",
                out_body->block->output_count, first_result + carried);
      return;
    }
    for (size_t i = 0; i < carried; i++) {
      const carnot_type* result = &out_body->block->outputs[first_result + i]->type;
      if (types[first + i].kind == CARNOT_VALUE_UNKNOWN)
        types[first + i] = *result;
      else
        changed |= widen(n, &types[first + i], result, fresh[i]);
    }
    if (!changed) return;
    n->importer->state.used_names = names;
    n->importer->state.unsupported = saved.state.unsupported;
    n->importer->state.unsupported_count = saved.state.unsupported_count;
  }
}

// The type a parameter begins with: the value's own, or what the body declares where that says
// more.
static carnot_type starting_type(onnx_import* n, const carnot_value* value, const onnx_graph* graph,
                                 size_t i) {
  carnot_type declared;
  onnx_body_input_type(n, graph, i, &declared);
  bool known =
      value && (value->type.kind == CARNOT_VALUE_TENSOR ? value->type.rank >= 0
                                                        : value->type.kind != CARNOT_VALUE_UNKNOWN);
  if (known || declared.kind == CARNOT_VALUE_UNKNOWN) return value ? value->type : declared;
  return declared;
}

static carnot_type scalar_type(carnot_dtype dtype) {
  return (carnot_type){.kind = CARNOT_VALUE_TENSOR, .dtype = dtype, .rank = 0};
}

// What stacked outputs hold, for a run in which no iteration gives any.
static void note_scanned(onnx_import* n, carnot_attrs* attrs, const carnot_block* body,
                         size_t first) {
  if (body->output_count > first)
    carnot_control_note_items(attrs, n->node.arena, body->outputs + first,
                              body->output_count - first);
}

static void handle_loop(onnx_import* n) {
  const onnx_graph* graph = body_of(n, "body");
  if (n->node.status) return;
  size_t carried = n->input_count > 2 ? (size_t)n->input_count - 2 : 0;
  carnot_type* types = CARNOT_NEW_ARRAY(&n->importer->state.arena, carnot_type, carried + 2);
  if (!import_has_memory(&n->node)) return;
  types[0] = scalar_type(CARNOT_DTYPE_I64);
  types[1] = scalar_type(CARNOT_DTYPE_BOOL);
  for (size_t i = 0; i < carried; i++)
    types[2 + i] = starting_type(n, onnx_need(n, 2 + (int)i), graph, 2 + i);
  onnx_body body;
  handle_until_stable(n, graph, types, carried + 2, 2, carried, 1, &body);
  if (n->node.status) return;
  if (body.poisoned) {
    poison_all(n);
    return;
  }
  carnot_attrs attrs = {0};
  set_block(n, &attrs, "body", body.block);
  carnot_attrs_set_int(&attrs, n->node.arena, "carried", (int64_t)carried);
  note_scanned(n, &attrs, body.block, 1 + carried);
  carnot_value** given = CARNOT_NEW_ARRAY(&n->importer->state.arena, carnot_value*, carried + 2);
  if (!import_has_memory(&n->node)) return;
  for (size_t i = 0; i < carried + 2; i++) given[i] = onnx_in(n, (int)i);
  int count = 0;
  carnot_value** inputs = with_captured(n, given, (int)carried + 2, &body, 1, &count);
  import_emit(&n->node, CARNOT_OP_LOOP, &attrs, inputs, count, n->outputs, n->output_count);
}

// ---- Scan ----

static void copy_list(onnx_import* n, carnot_attrs* attrs, const char* name) {
  size_t count = 0;
  const int64_t* values = onnx_attr_ints(n, name, &count);
  if (values) carnot_attrs_set_ints(attrs, n->node.arena, name, values, count);
}

// |type| without dimension |axis|.
static carnot_type without_axis(onnx_import* n, carnot_type type, int64_t axis) {
  if (n->node.status || type.rank < 0) return type;
  int at = import_axis(&n->node, axis, type.rank);
  if (n->node.status) return type;
  type.rank--;
  for (int i = at; i < type.rank; i++) type.dims[i] = type.dims[i + 1];
  return type;
}

// How many of the |count| inputs are carried; the others are scanned.
static size_t scan_split(onnx_import* n, int count) {
  int64_t scanned = onnx_attr_int(n, "num_scan_inputs", -1);
  if (scanned < 1 || scanned > count) {
    ONNX_FAIL(n, INVALID_MODEL, "num_scan_inputs is %lld, must be in [1, %d]", (long long)scanned,
              count);
  }
  return n->node.status ? 0 : (size_t)(count - scanned);
}

static void emit_scan(onnx_import* n, const onnx_graph* graph, carnot_value* const* given,
                      int count, size_t carried, const carnot_attrs* lists,
                      carnot_value** outputs) {
  size_t axis_count = 0;
  const carnot_attr* axes = carnot_attrs_find(lists, "scan_input_axes");
  if (axes) axis_count = axes->count;
  carnot_type* types = CARNOT_NEW_ARRAY(&n->importer->state.arena, carnot_type, (size_t)count + 1);
  if (!import_has_memory(&n->node)) return;
  for (size_t i = 0; i < (size_t)count && !n->node.status; i++) {
    types[i] = starting_type(n, given[i], graph, i);
    if (i < carried || types[i].kind != CARNOT_VALUE_TENSOR) continue;
    // A declared type of the body's input has lost the axis already.
    if (given[i]->type.rank >= 0)
      types[i] = without_axis(n, types[i], i - carried < axis_count ? axes->ints[i - carried] : 0);
  }
  onnx_body body;
  handle_until_stable(n, graph, types, (size_t)count, 0, carried, 0, &body);
  if (n->node.status) return;
  if (body.poisoned) {
    poison_all(n);
    return;
  }
  carnot_attrs attrs = {0};
  for (size_t i = 0; i < lists->count; i++)
    carnot_attrs_set(&attrs, n->node.arena, lists->items[i]);
  set_block(n, &attrs, "body", body.block);
  carnot_attrs_set_int(&attrs, n->node.arena, "carried", (int64_t)carried);
  carnot_attrs_set_int(&attrs, n->node.arena, "scanned", (int64_t)(count - (int)carried));
  note_scanned(n, &attrs, body.block, carried);
  int all = 0;
  carnot_value** inputs = with_captured(n, given, count, &body, 1, &all);
  import_emit(&n->node, CARNOT_OP_SCAN, &attrs, inputs, all, outputs, n->output_count);
}

static void handle_scan(onnx_import* n) {
  const onnx_graph* graph = body_of(n, "body");
  for (int i = 0; i < n->input_count; i++) onnx_need(n, i);
  size_t carried = scan_split(n, n->input_count);
  if (n->node.status) return;
  carnot_attrs lists = {0};
  copy_list(n, &lists, "scan_input_axes");
  copy_list(n, &lists, "scan_input_directions");
  copy_list(n, &lists, "scan_output_axes");
  copy_list(n, &lists, "scan_output_directions");
  emit_scan(n, graph, n->inputs, n->input_count, carried, &lists, n->outputs);
}

// Scan-8 runs over axis 1 of a batch: a scan over the batch whose body is the scan proper.
static void handle_scan_8(onnx_import* n) {
  const onnx_graph* graph = body_of(n, "body");
  if (onnx_in(n, 0)) ONNX_FAIL(n, UNSUPPORTED, "sequence_lens of Scan-8 is not supported");
  int count = n->input_count - 1;
  size_t carried = n->node.status ? 0 : scan_split(n, count);
  if (n->node.status) return;
  carnot_attrs lists = {0};
  size_t direction_count = 0;
  const int64_t* directions = onnx_attr_ints(n, "directions", &direction_count);
  if (directions)
    carnot_attrs_set_ints(&lists, n->node.arena, "scan_input_directions", directions,
                          direction_count);
  onnx_scope scope = *n->scope;
  scope.outer = n->scope;
  scope.block = carnot_block_create(n->importer->state.graph);
  scope.names = scope.declared = (import_name_map){.arena = &n->importer->state.arena};
  scope.captured = NULL;
  scope.captured_count = scope.captured_capacity = 0;
  carnot_value** inner =
      CARNOT_NEW_ARRAY(&n->importer->state.arena, carnot_value*, (size_t)count + 1);
  if (!import_has_memory(&n->node)) return;
  for (int i = 0; i < count; i++) {
    carnot_value* value = onnx_need(n, i + 1);
    if (n->node.status) return;
    carnot_type type = without_axis(n, value->type, 0);
    inner[i] = carnot_block_add_param(scope.block, NULL, &type);
  }
  onnx_import within = *n;
  within.scope = &scope;
  within.node.block = scope.block;
  carnot_value** results =
      CARNOT_NEW_ARRAY(&n->importer->state.arena, carnot_value*, (size_t)n->output_count + 1);
  if (!import_has_memory(&n->node)) return;
  emit_scan(&within, graph, inner, count, carried, &lists, results);
  n->node.status = within.node.status;
  n->node.placed = within.node.placed;
  if (n->node.status) return;
  for (int i = 0; i < n->output_count; i++) {
    if (!results[i]) {
      poison_all(n);
      return;
    }
    carnot_block_add_output(scope.block, results[i]);
  }
  carnot_attrs attrs = {0};
  set_block(n, &attrs, "body", scope.block);
  carnot_attrs_set_int(&attrs, n->node.arena, "carried", 0);
  carnot_attrs_set_int(&attrs, n->node.arena, "scanned", count);
  onnx_body body = {.captured = scope.captured, .captured_count = scope.captured_count};
  int all = 0;
  carnot_value** inputs = with_captured(n, n->inputs + 1, count, &body, 1, &all);
  import_emit(&n->node, CARNOT_OP_SCAN, &attrs, inputs, all, n->outputs, n->output_count);
}

// The body sees one item of every sequence; other inputs are whole in each call.
static void handle_sequence_map(onnx_import* n) {
  const onnx_graph* graph = body_of(n, "body");
  if (n->node.status) return;
  carnot_type* types =
      CARNOT_NEW_ARRAY(&n->importer->state.arena, carnot_type, (size_t)n->input_count + 1);
  if (!import_has_memory(&n->node)) return;
  for (int i = 0; i < n->input_count; i++) {
    carnot_value* value = onnx_need(n, i);
    if (n->node.status) return;
    carnot_type declared;
    onnx_body_input_type(n, graph, (size_t)i, &declared);
    if (value->type.kind == CARNOT_VALUE_SEQUENCE) {
      types[i] = value->type.element ? *value->type.element : declared;
      if (types[i].kind == CARNOT_VALUE_UNKNOWN) types[i] = declared;
    } else {
      types[i] = value->type;
    }
  }
  onnx_body body;
  onnx_body_import(n, graph, types, (size_t)n->input_count, &body);
  if (n->node.status) return;
  if (body.poisoned) {
    poison_all(n);
    return;
  }
  carnot_attrs attrs = {0};
  set_block(n, &attrs, "body", body.block);
  carnot_attrs_set_int(&attrs, n->node.arena, "captured", (int64_t)body.captured_count);
  int all = 0;
  carnot_value** inputs = with_captured(n, n->inputs, n->input_count, &body, 1, &all);
  import_emit(&n->node, CARNOT_OP_SEQUENCE_MAP, &attrs, inputs, all, n->outputs, n->output_count);
}

#define WITH(op_type, since, handler, OP) \
  { "", op_type, since, handler, CARNOT_OP_##OP, 0, NULL }

static const onnx_row kRows[] = {
    WITH("If", 1, handle_if, IF),
    WITH("Loop", 1, handle_loop, LOOP),
    WITH("Scan", 8, handle_scan_8, SCAN),
    WITH("Scan", 9, handle_scan, SCAN),
    WITH("SequenceMap", 17, handle_sequence_map, SEQUENCE_MAP),
};
const onnx_row_table onnx_rows_control = ONNX_ROW_TABLE(kRows);
