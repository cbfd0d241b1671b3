// Every pass on graphs in text: src/pass/testdata/<pass>.txt holds its cases.
//
//   CASE scale and bias go into the weights
//   OPTIONS device accepts
//   IN
//     (a graph, as --dumpGraph prints it; see ir/graph_text_test.h)
//   OUT
//     (the graph after the pass, or the word UNCHANGED)
//
// Lines that begin with '#' are comments. OPTIONS may be absent; its words:
//   device       for an accelerator
//   accepts      a kernel takes every region that the pass proposes (else none)
//   refit        all constants are weights that may change later
//   f16, bf16    the type that FP32 layers may be stored in
//   factors      every result has the factors 2 and 4 by channel (equalize uses them)
//   ranges       every tensor of floats has the range [-2, 2]; relu: [0, 2] (insert_qdq quantizes)
//   precision=T  every layer was asked to compute in T (float16, bfloat16, float32)
// A failed case prints the graph that came out, ready to be pasted. Values are numbered in order of
// appearance; names are not compared.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>

#include "ir/graph_text_test.h"
#include "pass/pass.h"

enum { kTextBytes = 1 << 14 };

typedef struct test_case {
  char name[128], options[128];
  char in[kTextBytes], out[kTextBytes];
} test_case;

static bool accept_all(void* user, carnot_node* const* nodes, int count) {
  (void)user;
  return nodes && count > 0;
}

static bool has_option(const test_case* c, const char* name) {
  size_t size = strlen(name);
  for (const char* at = c->options; (at = strstr(at, name)) != NULL; at += size)
    if ((at == c->options || at[-1] == ' ') && (at[size] == ' ' || !at[size])) return true;
  return false;
}

static carnot_pass_options options_of(const test_case* c) {
  return (carnot_pass_options){.refit = has_option(c, "refit"),
                               .quantize = has_option(c, "ranges"),
                               .device = has_option(c, "device"),
                               .half = has_option(c, "f16")    ? CARNOT_DTYPE_F16
                                       : has_option(c, "bf16") ? CARNOT_DTYPE_BF16
                                                               : CARNOT_DTYPE_INVALID,
                               .accepts = has_option(c, "accepts") ? accept_all : NULL};
}

static void request_precision(const test_case* c, carnot_graph* graph) {
  static const carnot_dtype kTypes[] = {CARNOT_DTYPE_F16, CARNOT_DTYPE_BF16, CARNOT_DTYPE_F32};
  for (int i = 0; i < 3; i++) {
    char word[32];
    snprintf(word, sizeof(word), "precision=%s", carnot_dtype_name(kTypes[i]));
    if (!has_option(c, word)) continue;
    for (carnot_node* node = graph->main->first; node; node = node->next)
      node->precision = kTypes[i];
  }
}

static void give_range(carnot_value* value, double min) {
  if (!value || value->constant || !carnot_dtype_is_float(value->type.dtype)) return;
  value->range[0] = min;
  value->range[1] = 2;
}

static void give_ranges(const test_case* c, carnot_graph* graph) {
  if (!has_option(c, "ranges")) return;
  double min = has_option(c, "relu") ? 0 : -2;
  for (size_t i = 0; i < graph->main->param_count; i++) give_range(graph->main->params[i], min);
  for (carnot_node* node = graph->main->first; node; node = node->next)
    for (int i = 0; i < node->output_count; i++) give_range(node->outputs[i], min);
}

// The first channel of two is twice as wide as it should be, the second four times.
static void give_factors(const test_case* c, carnot_graph* graph) {
  static const float kFactors[] = {2, 4};
  static const carnot_equalization kEqualization = {kFactors, 2, {-1, 1}};
  if (!has_option(c, "factors")) return;
  for (carnot_node* node = graph->main->first; node; node = node->next)
    for (int i = 0; i < node->output_count; i++)
      if (node->outputs[i]) node->outputs[i]->equalization = &kEqualization;
}

static void name_weights(carnot_graph* graph) {
  for (carnot_node* node = graph->main->first; node; node = node->next)
    for (int i = 0; i < node->input_count; i++)
      if (carnot_value_is_constant(node->inputs[i])) node->inputs[i]->constant->name = "weight";
}

static char* print_normalized(const carnot_graph* graph) {
  char* text;
  size_t size;
  FILE* file = open_memstream(&text, &size);
  assert_non_null(file);
  carnot_graph_print(graph, file);
  fclose(file);
  char* normal = graph_text_normalize(text);
  free(text);
  return normal;
}

static const carnot_pass_row* find_pass(const char* name) {
  size_t count;
  const carnot_pass_row* rows = carnot_passes(&count);
  for (size_t i = 0; i < count; i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  return NULL;
}

// False when the case fails; says why.
static bool run_case(const carnot_pass_row* pass, const test_case* c) {
  graph_text reader;
  carnot_graph* graph = graph_text_read(&reader, c->in);
  if (!graph) {
    fprintf(stderr, "%s: %s: the graph cannot be read: %s\n", pass->name, c->name, reader.error);
    return false;
  }
  request_precision(c, graph);
  give_ranges(c, graph);
  give_factors(c, graph);
  if (has_option(c, "refit")) name_weights(graph);
  char* before = print_normalized(graph);
  carnot_pass_options options = options_of(c);
  carnot_status* status = pass->run(graph, &options);
  if (!status) status = carnot_graph_verify(graph);
  char* found = print_normalized(graph);
  char* wanted = graph_text_normalize(c->out);
  const char* expected = strncmp(c->out, "UNCHANGED", 9) == 0 ? before : wanted;
  bool good = !status && strcmp(found, expected) == 0;
  if (!good)
    fprintf(stderr, "%s: %s: %s\n---- wanted ----\n%s---- found ----\n%s", pass->name, c->name,
            status ? carnot_status_message(status) : "another graph", expected, found);
  carnot_status_free(status);
  free(before), free(found), free(wanted);
  carnot_graph_destroy(graph);
  return good;
}

static void append(char* to, const char* line) {
  size_t used = strlen(to);
  if (used + strlen(line) >= kTextBytes) fail_msg("a case is longer than %d bytes", kTextBytes);
  snprintf(to + used, kTextBytes - used, "%s", line);
}

static void trim_end(char* text) { text[strcspn(text, "\n")] = 0; }

// Runs the cases of one file; the number of cases.
static int run_file(const carnot_pass_row* pass, const char* path, int* failed) {
  FILE* file = fopen(path, "r");
  if (!file) fail_msg("pass %s has no cases: %s is missing", pass->name, path);
  test_case* c = test_calloc(1, sizeof(*c));
  char line[1024], *section = NULL;
  int count = 0;
  while (fgets(line, sizeof(line), file)) {
    if (line[0] == '#') continue;
    if (strncmp(line, "CASE ", 5) == 0) {
      if (count++) *failed += !run_case(pass, c);
      memset(c, 0, sizeof(*c));
      trim_end(line);
      snprintf(c->name, sizeof(c->name), "%s", line + 5);
      section = NULL;
    } else if (strncmp(line, "OPTIONS ", 8) == 0) {
      trim_end(line);
      snprintf(c->options, sizeof(c->options), "%s", line + 8);
    } else if (strcmp(line, "IN\n") == 0) {
      section = c->in;
    } else if (strcmp(line, "OUT\n") == 0) {
      section = c->out;
    } else if (section) {
      append(section, line);
    }
  }
  if (count) *failed += !run_case(pass, c);
  fclose(file);
  test_free(c);
  return count;
}

static void passes_rewrite_as_their_cases_say(void** state) {
  (void)state;
  size_t count;
  int failed = 0;
  const carnot_pass_row* rows = carnot_passes(&count);
  for (size_t i = 0; i < count; i++) {
    if (find_pass(rows[i].name) != &rows[i]) continue;          // occurs twice
    if (strcmp(rows[i].name, "simplify_loops") == 0) continue;  // bodies: simplify_loops_test.c
    char path[1024];
    snprintf(path, sizeof(path), "%s/%s.txt", CARNOT_PASS_CASES, rows[i].name);
    int cases = run_file(&rows[i], path, &failed);
    if (cases < 2)
      fail_msg("pass %s has %d cases, needs a positive and a negative one", rows[i].name, cases);
  }
  assert_int_equal(failed, 0);
}

// What is printed can be read again.
static void text_survives(void** state) {
  (void)state;
  static const char kText[] =
      "input %0 \"x\" : float32[batch,3,8]\n"
      "%1 = leaky_relu(%0) alpha=0.25\n"
      "%2 = reshape(%1, %3:const int64[2]=[0,-1])\n"
      "%4 = softmax(%2) axis=-1\n"
      "%5 = reduce(%4, %6:const int64[1]=[1]) fn=\"mean\" keepdims=0\n"
      "output %5 \"y\"\n";
  graph_text reader;
  carnot_graph* graph = graph_text_read(&reader, kText);
  if (!graph) fail_msg("%s", reader.error);
  char* once = print_normalized(graph);
  carnot_graph* again = graph_text_read(&reader, once);
  if (!again) fail_msg("%s", reader.error);
  char* twice = print_normalized(again);
  assert_string_equal(once, twice);
  free(once), free(twice);
  carnot_graph_destroy(graph);
  carnot_graph_destroy(again);
}

static void reader_reports_errors(void** state) {
  (void)state;
  static const char* const kWrong[] = {
      "%0 = relu(%1)\n", "input %0 : float33[1]\n", "input %0 : float32[2]\n%1 = nothing(%0)\n",
      "input %0 : float32[2]\n%1 = relu(%0) beta_=1\n", "input %0 : float32[2]\n%1 = matmul(%0)\n"};
  for (size_t i = 0; i < sizeof(kWrong) / sizeof(kWrong[0]); i++) {
    graph_text reader;
    assert_null(graph_text_read(&reader, kWrong[i]));
    assert_true(reader.error[0]);
  }
}

static void passes_are_left_out_by_name(void** state) {
  (void)state;
  static const char kText[] =
      "input %0 : float32[2]\n%1 = identity(%0)\n%2 = relu(%1)\noutput %2\n";
  const char* const disabled[] = {"algebraic_simplify"};
  for (int off = 0; off < 2; off++) {
    graph_text reader;
    carnot_graph* graph = graph_text_read(&reader, kText);
    assert_non_null(graph);
    carnot_pass_options options = {.disabled = disabled, .disabled_count = (size_t)off};
    assert_null(carnot_passes_run(graph, &options));
    assert_int_equal(graph->main->first->op == CARNOT_OP_IDENTITY, off);
    carnot_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(text_survives),
      cmocka_unit_test(reader_reports_errors),
      cmocka_unit_test(passes_rewrite_as_their_cases_say),
      cmocka_unit_test(passes_are_left_out_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
