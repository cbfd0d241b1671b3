// clang-format off: cmocka.h needs the includes before it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "import/onnx/onnx.h"

typedef struct model {
  carnot_model_source* source;
  carnot_graph* graph;
} model;

static carnot_status* read_text(const char* text, const char* folder, model* m) {
  carnot_onnx_options options = {.text = true, .folder = folder};
  return carnot_onnx_import_memory(text, strlen(text), &options, &m->source, &m->graph);
}

static void open_model(const char* text, model* m) {
  carnot_status* status = read_text(text, NULL, m);
  if (status) fail_msg("%s", carnot_status_message(status));
  status = carnot_graph_verify(m->graph);
  if (status) fail_msg("%s", carnot_status_message(status));
}

static void close_model(model* m) {
  carnot_graph_destroy(m->graph);
  carnot_model_source_destroy(m->source);
}

static void expect_error(const char* text, const char* folder, carnot_code code,
                         const char* const* parts) {
  model m;
  carnot_status* status = read_text(text, folder, &m);
  const char* message = carnot_status_message(status);
  if (carnot_status_code(status) != code) fail_msg("code of: %s", message);
  for (; *parts; parts++) {
    if (!strstr(message, *parts)) fail_msg("\"%s\" in \"%s\"", *parts, message);
  }
  carnot_status_free(status);
}

static void expect_type(const model* m, size_t output, const char* wanted) {
  char text[200];
  carnot_type_print(&m->graph->syms, &m->graph->main->outputs[output]->type, text, sizeof(text));
  assert_string_equal(text, wanted);
}

static const carnot_node* node_named(const carnot_block* block, const char* name) {
  for (const carnot_node* node = block->first; node; node = node->next) {
    if (strcmp(node->name, name) == 0) return node;
  }
  return NULL;
}

#define HEAD "ir_version: 10 opset_import { version: 18 } "
#define TENSOR(name, dims) \
  "{ name: '" name "' type { tensor_type { elem_type: FLOAT shape {" dims "} } } } "
#define DIM(value) " dim { dim_value: " #value " }"
#define SYM(name)  " dim { dim_param: '" name "' }"

// x[N, T, 12] through Reshape(x, Concat(Shape(x)[0], Shape(x)[1], 3, 4)).
static void shape_chains_vanish(void** state) {
  (void)state;
  model m;
  open_model(HEAD
             "graph { input " TENSOR("x", SYM("N") SYM("T") DIM(12)) " output { name: 'y' } "
             "initializer { name: 'i0' data_type: 7 int64_data: 0 }"
             "initializer { name: 'i1' data_type: 7 int64_data: 1 }"
             "initializer { name: 'zero' data_type: 7 dims: 1 int64_data: 0 }"
             "initializer { name: 'rest' data_type: 7 dims: 2 int64_data: [3, 4] }"
             "node { op_type: 'Shape' input: 'x' output: 's' }"
             "node { op_type: 'Gather' input: ['s', 'i0'] output: 'n' }"
             "node { op_type: 'Gather' input: ['s', 'i1'] output: 't' }"
             "node { op_type: 'Unsqueeze' input: ['n', 'zero'] output: 'n1' }"
             "node { op_type: 'Unsqueeze' input: ['t', 'zero'] output: 't1' }"
             "node { op_type: 'Concat' input: ['n1', 't1', 'rest'] output: 'to' attribute { name: 'axis' type: INT i: 0 } }"
             "node { name: 'heads' op_type: 'Reshape' input: ['x', 'to'] output: 'y' } }",
             &m);
  expect_type(&m, 0, "float32[N,T,3,4]");
  assert_non_null(node_named(m.graph->main, "heads"));
  assert_string_equal(m.graph->main->outputs[0]->name, "y");
  close_model(&m);
}

static void names_of_dimensions_are_shared(void** state) {
  (void)state;
  model m;
  open_model(HEAD "graph { input [" TENSOR("a", SYM("N") DIM(2)) "," TENSOR("b", SYM("N") DIM(3))
                  "] output { name: 'y' } node { op_type: 'Concat' input: ['a', 'b'] output: 'y'"
                  " attribute { name: 'axis' type: INT i: 1 } } }",
             &m);
  expect_type(&m, 0, "float32[N,5]");
  close_model(&m);
}

static void all_unsupported_nodes_are_told(void** state) {
  (void)state;
  static const char* const kParts[] = {"2 nodes", "node first: Nonsense, version 18",
                                       "node third: acme.Thing", NULL};
  expect_error(HEAD "graph { input " TENSOR("x", DIM(2)) " output { name: 'y' } "
                    "node { name: 'first' op_type: 'Nonsense' input: 'x' output: 'a' }"
                    "node { name: 'second' op_type: 'Relu' input: 'a' output: 'b' }"
                    "node { name: 'third' op_type: 'Thing' domain: 'acme' input: 'x' output: 'y' } }",
               NULL, CARNOT_UNSUPPORTED, kParts);
}

static void errors_name_the_node(void** state) {
  (void)state;
  static const char* const kMissing[] = {"node bad (Relu)", "\"nothing\"", NULL};
  expect_error(HEAD
               "graph { output { name: 'y' } node { name: 'bad' op_type: 'Relu' input: 'nothing' "
               "output: 'y' } }",
               NULL, CARNOT_INVALID_MODEL, kMissing);
  static const char* const kRank[] = {"bad", "axis 5", NULL};
  expect_error(HEAD "graph { input " TENSOR("x", DIM(2)) " output { name: 'y' } node { name: 'bad' op_type: 'Concat'"
                    " input: ['x', 'x'] output: 'y' attribute { name: 'axis' type: INT i: 5 } } }",
               NULL, CARNOT_INVALID_MODEL, kRank);
  static const char* const kWord[] = {"node bad", "attribute mode", "\"mirrored\"", "reflect",
                                      NULL};
  expect_error(HEAD "graph { input " TENSOR("x", DIM(2)) " output { name: 'y' } node { name: 'bad' op_type: 'Pad'"
                    " input: ['x', 'p'] output: 'y' attribute { name: 'mode' type: STRING s: 'mirrored' } }"
                    " initializer { name: 'p' dims: 2 data_type: 7 int64_data: [1, 1] } }",
               NULL, CARNOT_INVALID_MODEL, kWord);
}

// f(x; alpha) = LeakyRelu(x; alpha), alpha 0.5 unless given; called twice, and from another
// function.
static void functions_take_attributes(void** state) {
  (void)state;
  model m;
  open_model(HEAD
             "opset_import { domain: 'f' version: 1 } "
             "functions { name: 'leak' domain: 'f' input: 'a' output: 'b' opset_import { version: 18 }"
             " attribute_proto { name: 'slope' type: FLOAT f: 0.5 }"
             " node { name: 'inner' op_type: 'LeakyRelu' input: 'a' output: 'b'"
             "  attribute { name: 'alpha' type: FLOAT ref_attr_name: 'slope' } } }"
             "functions { name: 'twice' domain: 'f' input: 'a' output: 'c' opset_import [{ version: 18 }, { domain: 'f' version: 1 }]"
             " attribute: 's'"
             " node { op_type: 'leak' domain: 'f' name: 'one' input: 'a' output: 'b' attribute { name: 'slope' type: FLOAT ref_attr_name: 's' } }"
             " node { op_type: 'leak' domain: 'f' name: 'two' input: 'b' output: 'c' } }"
             "graph { input " TENSOR("x", DIM(2)) " output { name: 'y' } "
             "node { name: 'call' op_type: 'twice' domain: 'f' input: 'x' output: 'y' attribute { name: 's' type: FLOAT f: 0.25 } } }",
             &m);
  const carnot_node* one = node_named(m.graph->main, "call/one/inner");
  const carnot_node* two = node_named(m.graph->main, "call/two/inner");
  assert_non_null(one);
  assert_non_null(two);
  assert_true(carnot_attr_float(carnot_node_row(one), &one->attrs, "alpha") == 0.25);
  assert_true(carnot_attr_float(carnot_node_row(two), &two->attrs, "alpha") == 0.5);
  assert_string_equal(m.graph->main->outputs[0]->name, "y");
  close_model(&m);
}

static void functions_may_not_call_themselves(void** state) {
  (void)state;
  static const char* const kParts[] = {"nested deeper", NULL};
  expect_error(
      HEAD
      "opset_import { domain: 'f' version: 1 } "
      "functions { name: 'g' domain: 'f' input: 'a' output: 'b' opset_import { domain: 'f' "
      "version: 1 }"
      " node { op_type: 'g' domain: 'f' input: 'a' output: 'b' } }"
      "graph { input " TENSOR(
          "x",
          DIM(2)) " output { name: 'y' } node { op_type: 'g' domain: 'f' input: 'x' output: 'y' } "
                  "}",
      NULL, CARNOT_OUT_OF_RANGE, kParts);
}

// A branch inside a loop reads a value of the main graph: it goes through both as an input.
static void bodies_are_closed(void** state) {
  (void)state;
  model m;
  open_model(HEAD
             "graph { input [" TENSOR("x", SYM("N") DIM(2)) ", { name: 'n' type { tensor_type { elem_type: INT64 shape { } } } } ]"
             " output { name: 'y' } "
             "node { name: 'loop' op_type: 'Loop' input: ['n', '', 'x'] output: 'y' attribute { name: 'body' type: GRAPH g {"
             "  input [{ name: 'i' }, { name: 'c' }, { name: 'v' }] output [{ name: 'c1' }, { name: 'w' }]"
             "  node { op_type: 'Identity' input: 'c' output: 'c1' }"
             "  node { name: 'if' op_type: 'If' input: 'c' output: 'w'"
             "   attribute { name: 'then_branch' type: GRAPH g { output { name: 't' } node { op_type: 'Add' input: ['v', 'x'] output: 't' } } }"
             "   attribute { name: 'else_branch' type: GRAPH g { output { name: 'e' } node { op_type: 'Neg' input: 'v' output: 'e' } } } }"
             "} } } }",
             &m);
  const carnot_node* loop = node_named(m.graph->main, "loop");
  assert_int_equal(loop->input_count, 4);
  assert_ptr_equal(loop->inputs[3], m.graph->main->params[0]);
  const carnot_block* body = carnot_attrs_find(&loop->attrs, "body")->block;
  assert_int_equal(body->param_count, 4);
  const carnot_node* branch = node_named(body, "if");
  assert_int_equal(branch->input_count, 4);  // condition; v and x; v
  expect_type(&m, 0, "float32[N,2]");
  close_model(&m);
}

// Each step doubles the carried value: its size cannot be that of the first.
static void loops_widen_what_grows(void** state) {
  (void)state;
  model m;
  open_model(HEAD
             "graph { input [" TENSOR("x", DIM(1) DIM(2)) ", { name: 'n' type { tensor_type { elem_type: INT64 shape { } } } } ]"
             " output { name: 'y' } "
             "node { name: 'loop' op_type: 'Loop' input: ['n', '', 'x'] output: 'y' attribute { name: 'body' type: GRAPH g {"
             "  input [{ name: 'i' }, { name: 'c' }, { name: 'v' }] output [{ name: 'c1' }, { name: 'w' }]"
             "  node { op_type: 'Identity' input: 'c' output: 'c1' }"
             "  node { op_type: 'Concat' input: ['v', 'v'] output: 'w' attribute { name: 'axis' type: INT i: 0 } } } } } }",
             &m);
  const carnot_type* type = &m.graph->main->outputs[0]->type;
  assert_int_equal(type->rank, 2);
  assert_false(carnot_sym_is_const(type->dims[0]));
  assert_true(carnot_sym_is(type->dims[1], 2));
  close_model(&m);
}

static void external_data_stay_in_the_folder(void** state) {
  (void)state;
  char folder[] = "/tmp/carnot_external_XXXXXX", path[200], link[200];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s/weights", folder);
  snprintf(link, sizeof(link), "%s/link", folder);
  FILE* file = fopen(path, "wb");
  const float numbers[] = {1, 2, 3, 4};
  fwrite(numbers, sizeof(numbers), 1, file);
  fclose(file);
  assert_int_equal(symlink("/etc/hostname", link), 0);
#define EXTERNAL(location, offset)                                                                 \
  HEAD "graph { output { name: 'y' } initializer { name: 'w' data_type: 1 dims: 2 data_location: " \
       "EXTERNAL"                                                                                  \
       " external_data [{ key: 'location' value: '" location                                       \
       "' }, { key: 'offset' value: '" offset                                                      \
       "' },"                                                                                      \
       " { key: 'length' value: '8' }] } node { op_type: 'Relu' input: 'w' output: 'y' } }"
  model m;
  carnot_status* status = read_text(EXTERNAL("weights", "8"), folder, &m);
  if (status) fail_msg("%s", carnot_status_message(status));
  const carnot_node* relu = m.graph->main->first;
  assert_true(((const float*)relu->inputs[0]->constant->tensor.data)[1] == 4);
  close_model(&m);
  static const char* const kPath[] = {"external data", NULL};
  expect_error(EXTERNAL("/etc/hostname", "0"), folder, CARNOT_INVALID_MODEL, kPath);
  expect_error(EXTERNAL("../weights", "0"), folder, CARNOT_INVALID_MODEL, kPath);
  expect_error(EXTERNAL("link", "0"), folder, CARNOT_INVALID_MODEL, kPath);
  expect_error(EXTERNAL("weights", "12"), folder, CARNOT_INVALID_MODEL, kPath);
  expect_error(EXTERNAL("weights", "18446744073709551615"), folder, CARNOT_INVALID_MODEL, kPath);
  unlink(path);
  unlink(link);
  rmdir(folder);
}

static void sizes_are_held_against_data(void** state) {
  (void)state;
  static const char* const kParts[] = {"initializer w", NULL};
#define WEIGHT(text)                                                \
  HEAD "graph { output { name: 'y' } initializer { name: 'w' " text \
       " } node { op_type: 'Relu' input: 'w' output: 'y' } }"
  expect_error(WEIGHT("data_type: 1 dims: 3 float_data: [1, 2]"), NULL, CARNOT_INVALID_MODEL,
               kParts);
  expect_error(WEIGHT("data_type: 1 dims: -1"), NULL, CARNOT_INVALID_MODEL, kParts);
  expect_error(WEIGHT("data_type: 6 dims: 1000000000000"), NULL, CARNOT_INVALID_MODEL, kParts);
  expect_error(WEIGHT("data_type: 1 dims: [4294967296, 4294967296]"), NULL, CARNOT_OUT_OF_RANGE,
               kParts);
  expect_error(WEIGHT("data_type: 99 dims: 1"), NULL, CARNOT_INVALID_MODEL, kParts);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shape_chains_vanish),
      cmocka_unit_test(names_of_dimensions_are_shared),
      cmocka_unit_test(all_unsupported_nodes_are_told),
      cmocka_unit_test(errors_name_the_node),
      cmocka_unit_test(functions_take_attributes),
      cmocka_unit_test(functions_may_not_call_themselves),
      cmocka_unit_test(bodies_are_closed),
      cmocka_unit_test(loops_widen_what_grows),
      cmocka_unit_test(external_data_stay_in_the_folder),
      cmocka_unit_test(sizes_are_held_against_data),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
