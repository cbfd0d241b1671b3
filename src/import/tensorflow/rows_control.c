// Calls of functions, conditionals and loops over functions. Source:
// tensorflow/core/ops/functional_ops.cc.
#include "import/tensorflow/rows.h"
#include "import/tensorflow/scope.h"

static carnot_strview function_name(tf_import* n, const char* attribute) {
  const tf_attr_value* value = tf_attr_find(n->proto, attribute);
  if (!value || !value->func) {
    TF_FAIL(n, INVALID_MODEL, "attribute %s names no function", attribute);
    return (carnot_strview){NULL, 0};
  }
  return value->func->name;
}

// What the nodes inside say of themselves is enough.
static void note(tf_import* n, carnot_status* status) {
  if (!status) return;
  if (n->node.status) {
    carnot_status_free(status);
    return;
  }
  n->node.status = status;
  n->node.placed = true;
}

static void poison_all(tf_import* n) {
  n->output_count = 1;
  n->outputs[0] = &import_poison;
}

static bool is_poisoned(carnot_value* const* values, int count) {
  for (int i = 0; i < count; i++)
    if (values[i] == &import_poison) return true;
  return false;
}

// The operator is a call, or the function itself.
static void handle_call(tf_import* n) {
  const bool by_name = !tf_row_find(n->proto->op);
  const carnot_strview name = by_name ? n->proto->op : function_name(n, "f");
  if (n->node.status) return;
  note(n, tf_function_inline(n, name, n->node.block, n->inputs, n->input_count, n->outputs,
                             &n->output_count));
  if (!n->node.status && is_poisoned(n->outputs, n->output_count)) poison_all(n);
}

// ---- bodies ----

static carnot_value* param_like(tf_import* n, carnot_block* block, const carnot_type* type) {
  const char* name = import_unique_name(
      n->node.state, "", carnot_view(carnot_arena_print(n->node.arena, "%s/arg", n->node.name)));
  return carnot_block_add_param(block, name, type);
}

// A parameter for |value| of |type|; a handle of a variable stays what it is.
static carnot_value* argument_like(tf_import* n, carnot_block* block, carnot_value* value,
                                   const carnot_type* type) {
  return tf_is_handle(value) ? value : param_like(n, block, type);
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

// A function as a branch: all arguments are parameters, but for handles of variables.
static carnot_block* make_branch(tf_import* n, const char* attribute, int* out_results) {
  carnot_value *args[TF_MOST_OUTPUTS], *results[TF_MOST_OUTPUTS];
  const carnot_strview name = function_name(n, attribute);
  if (n->node.status) return NULL;
  carnot_block* block = carnot_block_create(n->node.state->graph);
  for (int i = 1; i < n->input_count; i++)
    args[i - 1] = argument_like(n, block, n->inputs[i], &n->inputs[i]->type);
  note(n, tf_function_inline(n, name, block, args, n->input_count - 1, results, out_results));
  if (n->node.status) return NULL;
  if (is_poisoned(results, *out_results)) {
    poison_all(n);
    return NULL;
  }
  for (int i = 0; i < *out_results; i++) carnot_block_add_output(block, results[i]);
  return block;
}

// 1 or 0 where the condition is known at import, else -1.
static int known_truth(const carnot_value* x) {
  if (x->constant && carnot_tensor_count(&x->constant->tensor) == 1 &&
      x->type.dtype != CARNOT_DTYPE_STRING)
    return carnot_load_f64(x->type.dtype, x->constant->tensor.data, 0) != 0;
  return -1;
}

static void handle_if(tf_import* n) {
  const int known = known_truth(n->inputs[0]);
  if (n->input_count > TF_MOST_OUTPUTS) TF_FAIL(n, UNSUPPORTED, "too many arguments");
  if (n->node.status) return;
  if (known >= 0) {
    const carnot_strview name = function_name(n, known ? "then_branch" : "else_branch");
    if (!n->node.status)
      note(n, tf_function_inline(n, name, n->node.block, n->inputs + 1, n->input_count - 1,
                                 n->outputs, &n->output_count));
    if (!n->node.status && is_poisoned(n->outputs, n->output_count)) poison_all(n);
    return;
  }
  int counts[2] = {0, 0};
  carnot_block* blocks[2] = {make_branch(n, "then_branch", &counts[0]), NULL};
  if (blocks[0]) blocks[1] = make_branch(n, "else_branch", &counts[1]);
  if (n->node.status || !blocks[1]) return;
  if (counts[0] != counts[1]) {
    TF_FAIL(n, INVALID_MODEL, "branches of %d and %d results", counts[0], counts[1]);
    return;
  }
  carnot_value* inputs[2 * TF_MOST_OUTPUTS];
  carnot_attrs attrs = {0};
  int args = 0;
  inputs[0] = truth(&n->node, n->inputs[0]);
  for (int i = 1; i < n->input_count; i++)
    if (!tf_is_handle(n->inputs[i])) inputs[1 + args++] = n->inputs[i];
  for (int i = 0; i < args; i++) inputs[1 + args + i] = inputs[1 + i];
  set_block(n, &attrs, "then_branch", blocks[0]);
  set_block(n, &attrs, "else_branch", blocks[1]);
  carnot_attrs_set_int(&attrs, n->node.arena, "then_inputs", args);
  n->output_count = counts[0];
  import_emit(&n->node, CARNOT_OP_IF, &attrs, inputs, 1 + 2 * args, n->outputs, counts[0]);
}

// ---- While ----

// Widens |type| until it holds |next| as well.
static bool widen(tf_import* n, carnot_type* type, const carnot_type* next) {
  bool changed = false;
  if (type->kind != CARNOT_VALUE_TENSOR || next->kind != CARNOT_VALUE_TENSOR || type->rank < 0)
    return false;
  if (next->rank != type->rank) {
    type->rank = -1;
    return true;
  }
  for (int i = 0; i < type->rank; i++) {
    if (carnot_sym_same(type->dims[i], next->dims[i]) || !carnot_sym_is_const(type->dims[i]))
      continue;
    type->dims[i] = carnot_sym_new(&n->node.state->graph->syms, NULL, 0, CARNOT_DIM_UNBOUNDED);
    changed = true;
  }
  return changed;
}

// The body of LOOP: (iteration, condition, carried..) -> (condition, carried..).
static carnot_block* make_body(tf_import* n, const carnot_type* types, carnot_value** results) {
  carnot_value *args[TF_MOST_OUTPUTS], *again[1];
  int count = 0, one = 0;
  carnot_block* block = carnot_block_create(n->node.state->graph);
  const carnot_type iteration = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_I64},
                    condition = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_BOOL};
  param_like(n, block, &iteration);
  param_like(n, block, &condition);
  for (int i = 0; i < n->input_count; i++)
    args[i] = argument_like(n, block, n->inputs[i], &types[i]);
  const carnot_strview body = function_name(n, "body"), cond = function_name(n, "cond");
  if (n->node.status) return NULL;
  note(n, tf_function_inline(n, body, block, args, n->input_count, results, &count));
  if (n->node.status) return NULL;
  if (is_poisoned(results, count)) {
    poison_all(n);
    return NULL;
  }
  if (count != n->input_count) {
    TF_FAIL(n, INVALID_MODEL, "a body of %d arguments and %d results", n->input_count, count);
    return NULL;
  }
  note(n, tf_function_inline(n, cond, block, results, count, again, &one));
  if (n->node.status) return NULL;
  if (one != 1 || again[0] == &import_poison) {
    if (one == 1)
      poison_all(n);
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
  note(n, tf_function_inline(n, cond, n->node.block, n->inputs, n->input_count, first, &one));
  if (n->node.status) return;
  if (one != 1 || first[0] == &import_poison) {
    poison_all(n);
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
      changed |= !tf_is_handle(n->inputs[i]) && widen(n, &types[i], &results[i]->type);
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
    ROW("While", handle_while, 1),
    ROW("StatelessWhile", handle_while, 1),
};
const tf_row_table tf_rows_control = TF_ROW_TABLE(kRows);
