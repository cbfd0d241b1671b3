// Calls of functions, conditionals and loops over functions. Source:
// tensorflow/core/ops/functional_ops.cc.
#include "import/tensorflow/case.h"
#include "import/tensorflow/complex.h"
#include "import/tensorflow/control.h"
#include "import/tensorflow/rows.h"

static carnot_strview function_name(tf_import* n, const char* attribute) {
  const tf_attr_value* value = tf_attr_find(n->proto, attribute);
  if (!value || !value->func) {
    TF_FAIL(n, INVALID_MODEL, "attribute %s names no function", attribute);
    return (carnot_strview){NULL, 0};
  }
  return value->func->name;
}

// The operator is a call, or the function itself.
static void handle_call(tf_import* n) {
  const bool by_name = !tf_row_find(n->proto->op);
  const carnot_strview name = by_name ? n->proto->op : function_name(n, "f");
  if (n->node.status) return;
  tf_note_placed(n, tf_function_inline(n, name, n->node.block, n->inputs, n->input_count,
                                       n->outputs, &n->output_count));
  if (!n->node.status && tf_is_poisoned(n->outputs, n->output_count)) tf_poison(n);
}

// ---- bodies ----

// A parameter for |value| of |type|; a handle of a variable stays what it is.
static carnot_value* argument_like(tf_import* n, carnot_block* block, carnot_value* value,
                                   const carnot_type* type) {
  return tf_is_handle(value) ? value : tf_new_param(n, block, type);
}

// A truth value of a scalar of any type; a tensor is true where it has elements.
static carnot_value* truth(import_node* node, carnot_value* x) {
  if (x->type.dtype == CARNOT_DTYPE_BOOL) return x;
  carnot_value* zero = import_number(node, x, 0);
  return import_unary(node, CARNOT_FN_NOT, import_binary(node, CARNOT_FN_EQUAL, x, zero));
}

static void set_block(tf_import* n, carnot_attrs* attrs, const char* name, carnot_block* block) {
  carnot_attrs_set(attrs, n->node.arena,
                   (carnot_attr){.name = name, .type = CARNOT_ATTR_BLOCK, .block = block});
}

// The function |name| as a branch of the arguments |args|: all are parameters, but for handles of
// variables. *out_results: the number of its results, 0 where one of them is not supported.
static void make_branch(tf_import* n, carnot_strview name, carnot_value* const* args, int count,
                        tf_branch* out, int* out_results) {
  carnot_value *inside[TF_MOST_OUTPUTS], *results[TF_MOST_OUTPUTS];
  *out = (tf_branch){.block = carnot_block_create(n->node.state->graph)};
  *out_results = 0;
  out->given = CARNOT_NEW_ARRAY(n->node.arena, carnot_value*, 2 * (size_t)count + 1);
  if (!import_has_memory(&n->node)) return;
  for (int i = 0; i < count; i++) {
    inside[i] = tf_capture(n, out->block, args[i], out->given, &out->count);
  }
  tf_note_placed(n, tf_function_inline(n, name, out->block, inside, count, results, out_results));
  if (n->node.status) return;
  if (tf_is_poisoned(results, *out_results)) *out_results = 0;
  for (int i = 0; i < *out_results; i++) {
    if (tf_is_handle(results[i]) || tf_is_complex(results[i])) {
      TF_FAIL(n, UNSUPPORTED, "a branch results in a variable's handle or a complex number");
      return;
    }
    carnot_block_add_output(out->block, results[i]);
  }
}

// 1 or 0 where the condition is known at import, else -1.
static int known_truth(const carnot_value* x) {
  if (x->constant && carnot_tensor_count(&x->constant->tensor) == 1 &&
      x->type.dtype != CARNOT_DTYPE_STRING)
    return carnot_load_f64(x->type.dtype, x->constant->tensor.data, 0) != 0;
  return -1;
}

// A call of |name| with all inputs but the first.
static void call_branch(tf_import* n, carnot_strview name) {
  tf_note_placed(n, tf_function_inline(n, name, n->node.block, n->inputs + 1, n->input_count - 1,
                                       n->outputs, &n->output_count));
  if (!n->node.status && tf_is_poisoned(n->outputs, n->output_count)) tf_poison(n);
}

// The branches of |names|; false where one is not supported, after all were looked at, and after an
// error.
static bool make_branches(tf_import* n, const carnot_strview* names, int count, tf_branch* out) {
  bool poisoned = false;
  if (n->input_count > TF_MOST_OUTPUTS) TF_FAIL(n, UNSUPPORTED, "too many arguments");
  for (int i = 0; i < count && !n->node.status; i++) {
    int results = 0;
    make_branch(n, names[i], n->inputs + 1, n->input_count - 1, &out[i], &results);
    if (n->node.status) return false;
    poisoned |= results == 0;
    if (i && !poisoned && results != n->output_count)
      TF_FAIL(n, INVALID_MODEL, "branches of %d and %d results", n->output_count, results);
    n->output_count = results;
  }
  if (n->node.status) return false;
  if (poisoned) tf_poison(n);
  return !poisoned;
}

static void handle_if(tf_import* n) {
  const int known = known_truth(n->inputs[0]);
  tf_branch branches[2];
  const carnot_strview names[2] = {function_name(n, "then_branch"),
                                   function_name(n, "else_branch")};
  if (n->node.status) return;
  if (known >= 0)
    call_branch(n, names[!known]);
  else if (make_branches(n, names, 2, branches))
    tf_emit_if(&n->node, truth(&n->node, n->inputs[0]), branches, n->outputs, n->output_count);
}

static void handle_case(tf_import* n) {
  enum { kMostBranches = 256 };
  const tf_attr_value* value = tf_attr_find(n->proto, "branches");
  const size_t count = value && value->list ? value->list->func.count : 0;
  carnot_strview names[kMostBranches];
  tf_branch branches[kMostBranches];
  if (count < 1 || count > kMostBranches) {
    TF_FAIL(n, INVALID_MODEL, "attribute branches names %zu functions; 1 to %d are required", count,
            kMostBranches);
    return;
  }
  for (size_t i = 0; i < count; i++) names[i] = value->list->func.items[i].name;
  size_t known_count = 0;
  const int64_t* known = tf_constant_ints(n, 0, &known_count);
  if (n->node.status) return;
  if (count == 1 || known_count == 1) {
    const size_t last = count - 1;
    const bool outside = count == 1 || known[0] < 0 || (uint64_t)known[0] > last;
    call_branch(n, names[outside ? last : (size_t)known[0]]);
  } else if (make_branches(n, names, (int)count, branches)) {
    tf_emit_case(n, n->inputs[0], branches, (int)count, n->outputs, n->output_count);
  }
}

// ---- what cannot be imported ----

// Imports the function |name| for no arguments, so that what is not supported in it is named.
static void look_into(tf_import* n, carnot_strview name) {
  const import_name_slot* found = import_name_map_find(&n->importer->functions, name);
  const tf_function* f = found ? found->item : NULL;
  carnot_value* results[TF_MOST_OUTPUTS];
  int count = 0;
  if (!f || n->node.status) return;
  const size_t given = f->signature->input_arg.count;
  carnot_value** args = CARNOT_NEW_ARRAY(n->node.arena, carnot_value*, given + 1);
  if (!import_has_memory(&n->node) || given > INT32_MAX) return;
  for (size_t i = 0; i < given; i++) args[i] = &import_poison;
  tf_note_placed(n, tf_function_inline(n, name, carnot_block_create(n->node.state->graph), args,
                                       (int)given, results, &count));
}

void tf_look_into_functions(tf_import* n) {
  if (!tf_row_find(n->proto->op)) look_into(n, n->proto->op);
  for (size_t i = 0; i < n->proto->attr.count; i++) {
    const tf_attr_value* value = n->proto->attr.items[i].value;
    if (value && value->func) look_into(n, value->func->name);
    for (size_t k = 0; value && value->list && k < value->list->func.count; k++)
      look_into(n, value->list->func.items[k].name);
  }
}

// ---- While ----

// The body of LOOP: (iteration, condition, carried..) -> (condition, carried..).
static carnot_block* make_body(tf_import* n, const carnot_type* types, carnot_value** results) {
  carnot_value *args[TF_MOST_OUTPUTS], *again[1];
  int count = 0, one = 0;
  carnot_block* block = carnot_block_create(n->node.state->graph);
  const carnot_type iteration = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_I64},
                    condition = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_BOOL};
  tf_new_param(n, block, &iteration);
  tf_new_param(n, block, &condition);
  for (int i = 0; i < n->input_count; i++)
    args[i] = argument_like(n, block, n->inputs[i], &types[i]);
  const carnot_strview body = function_name(n, "body"), cond = function_name(n, "cond");
  if (n->node.status) return NULL;
  tf_note_placed(n, tf_function_inline(n, body, block, args, n->input_count, results, &count));
  if (n->node.status) return NULL;
  if (tf_is_poisoned(results, count)) {
    tf_poison(n);
    return NULL;
  }
  if (count != n->input_count) {
    TF_FAIL(n, INVALID_MODEL, "a body of %d arguments and %d results", n->input_count, count);
    return NULL;
  }
  tf_note_placed(n, tf_function_inline(n, cond, block, results, count, again, &one));
  if (n->node.status) return NULL;
  if (one != 1 || again[0] == &import_poison) {
    if (one == 1)
      tf_poison(n);
    else
      TF_FAIL(n, INVALID_MODEL, "a condition of %d results", one);
    return NULL;
  }
  import_node inner = n->node;
  inner.block = block;
  carnot_value* go_on = truth(&inner, again[0]);
  n->node.status = inner.status;
  if (n->node.status) return NULL;
  carnot_block_add_output(block, go_on);
  for (int i = 0; i < count; i++)
    if (!tf_is_handle(n->inputs[i])) carnot_block_add_output(block, results[i]);
  return block;
}

static void handle_while(tf_import* n) {
  enum { kMostAttempts = 4 };
  carnot_type types[TF_MOST_OUTPUTS];
  carnot_value *results[TF_MOST_OUTPUTS], *first[1], *inputs[TF_MOST_OUTPUTS + 2];
  int one = 0;
  if (n->input_count > TF_MOST_OUTPUTS - 2) TF_FAIL(n, UNSUPPORTED, "too many loop variables");
  const carnot_strview cond = function_name(n, "cond");
  if (n->node.status) return;
  tf_note_placed(
      n, tf_function_inline(n, cond, n->node.block, n->inputs, n->input_count, first, &one));
  if (n->node.status) return;
  if (one != 1) TF_FAIL(n, INVALID_MODEL, "a condition of %d results", one);
  if (n->node.status) return;
  if (first[0] == &import_poison) {
    look_into(n, function_name(n, "body"));
    tf_poison(n);
    return;
  }
  for (int i = 0; i < n->input_count; i++) types[i] = n->inputs[i]->type;
  carnot_block* body = NULL;
  bool changed = true;
  for (int attempt = 0; attempt < kMostAttempts && changed; attempt++) {
    body = make_body(n, types, results);
    if (n->node.status || !body) return;
    changed = false;
    for (int i = 0; i < n->input_count; i++)
      changed |= !tf_is_handle(n->inputs[i]) && tf_widen(n, &types[i], &results[i]->type);
  }
  if (changed)
    TF_FAIL(n, UNSUPPORTED, "the dimensions of its variables do not settle in %d turns",
            kMostAttempts);
  carnot_attrs attrs = {0};
  set_block(n, &attrs, "body", body);
  int carried = 0;
  inputs[0] = NULL;
  inputs[1] = truth(&n->node, first[0]);
  for (int i = 0; i < n->input_count; i++)
    if (!tf_is_handle(n->inputs[i])) inputs[2 + carried++] = n->inputs[i];
  carnot_attrs_set_int(&attrs, n->node.arena, "carried", carried);
  n->output_count = n->input_count;
  import_emit(&n->node, CARNOT_OP_LOOP, &attrs, inputs, 2 + carried, results, carried);
  for (int i = 0, at = 0; i < n->input_count && !n->node.status; i++)
    n->outputs[i] = tf_is_handle(n->inputs[i]) ? n->inputs[i] : results[at++];
}

#define ROW(op, f, least) \
  { op, f, least, TF_MOST_OUTPUTS, 0, NULL, NULL }
static const tf_row kRows[] = {
    {"PartitionedCall", handle_call, 0, -1, 0, NULL, NULL},
    {"StatefulPartitionedCall", handle_call, 0, -1, 0, NULL, NULL},
    ROW("If", handle_if, 1),
    ROW("StatelessIf", handle_if, 1),
    ROW("Case", handle_case, 1),
    ROW("StatelessCase", handle_case, 1),
    ROW("While", handle_while, 1),
    ROW("StatelessWhile", handle_while, 1),
};
const tf_row_table tf_rows_control = TF_ROW_TABLE(kRows);
