// Proposed regions are answered by the tactics of the target: here of the CPU.
#include "builder/analysis/accepts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>

#include "ir/graph_text_test.h"

typedef bool (*question)(void* target, carnot_node* const* nodes, int count);

// What |ask| says of all nodes of the graph |text| as one region.
static bool answer(question ask, const char* text) {
  graph_text reader;
  carnot_graph* graph = graph_text_read(&reader, text);
  if (!graph) fail_msg("%s", reader.error);
  carnot_target target = {.isa = CARNOT_ISA_SCALAR};
  carnot_node* nodes[16];
  int count = 0;
  for (carnot_node* node = graph->main->first; node; node = node->next) nodes[count++] = node;
  uint32_t values = graph->value_count;
  size_t symbols = graph->syms.count;
  bool accepted = ask(&target, nodes, count);
  // Asking leaves no trace in the graph.
  assert_int_equal(graph->value_count, values);
  assert_int_equal(graph->syms.count, symbols);
  carnot_graph_destroy(graph);
  return accepted;
}

static bool accepts(const char* text) { return answer(carnot_target_accepts, text); }
static bool computes(const char* text) { return answer(carnot_target_computes, text); }

static void norms_take_an_activation(void** state) {
  (void)state;
  assert_true(
      accepts("input %0 : float32[n,4,8,8]\n"
              "%1 = group_norm(%0, %2:const float32[4], %3:const float32[4]) num_groups=2\n"
              "%4 = relu(%1)\n"
              "output %4\n"));
  assert_false(
      accepts("input %0 : float32[n,4,8,8]\n"
              "%1 = group_norm(%0, %2:const float32[4], %3:const float32[4]) num_groups=2\n"
              "%4 = exp(%1)\n"
              "output %4\n"));
}

#define ATTENTION(type)            \
  "input %0 : " type               \
  "[1,2,16,8]\n"                   \
  "input %1 : " type               \
  "[1,2,24,8]\n"                   \
  "input %2 : " type               \
  "[1,2,24,8]\n"                   \
  "%3 = matmul(%0, %1) transB=1\n" \
  "%4 = softmax(%3) axis=-1\n"     \
  "%5 = matmul(%4, %2)\n"

static void attention_is_taken_in_f32(void** state) {
  (void)state;
  assert_true(accepts(ATTENTION("float32") "output %5\n"));
  assert_false(accepts(ATTENTION("float16") "output %5\n"));
}

#define NORM_AND(fn, batch)                                                              \
  "input %0 : float32[" batch                                                            \
  ",4,8,8]\n"                                                                            \
  "%1 = group_norm(%0, %2:const float32[4], %3:const float32[4]) num_groups=2\n%4 = " fn \
  "(%1)\noutput %4\n"

static void what_no_tactic_computes(void** state) {
  (void)state;
  assert_true(computes(NORM_AND("relu", "2")));
  assert_false(
      computes("input %0 : float32[4,8]\n"
               "%1 = softmax(%0) axis=-1\n"
               "%2 = matmul(%1, %3:const float32[8,8])\n"
               "output %2\n"));
  assert_true(
      computes("input %0 : float32[n,8]\n"  // cannot be said yet
               "%1 = softmax(%0) axis=-1\n"
               "%2 = matmul(%1, %3:const float32[8,8])\n"
               "output %2\n"));
}

// An inner value that is read outside is an output of the region.
static void two_outputs_are_refused(void** state) {
  (void)state;
  assert_false(accepts(ATTENTION("float32") "output %5 %4\n"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(norms_take_an_activation),
      cmocka_unit_test(attention_is_taken_in_f32),
      cmocka_unit_test(what_no_tactic_computes),
      cmocka_unit_test(two_outputs_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
