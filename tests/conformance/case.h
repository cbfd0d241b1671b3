// A conformance case: a graph with inputs and the outputs they must give, and the ways to run it.
#ifndef CARNOT_TESTS_CONFORMANCE_CASE_H_
#define CARNOT_TESTS_CONFORMANCE_CASE_H_

#include "builder/builder.h"
#include "import/onnx/onnx.h"
#include "run/context.h"

// How the engine of a case is built.
typedef struct case_options {
  bool no_passes;
  const char* disabled_pass;  // NULL: none
  int isa, level;             // isa -1: this machine's
  const char* backend;        // "cpu", or an accelerator
  bool time;                  // --every-tactic prints times
  bool half;                  // layers of float32 may compute in float16, bfloat16 and fewer parts
  bool (*pins)(void* user, const carnot_tactic* tactic);  // as in carnot_build_config
  void* user;
} case_options;

enum { CASE_MAX_VALUES = 64, CASE_MAX_SETS = 64 };

// Inputs with the outputs that they must give.
typedef struct data_set {
  carnot_arena arena;
  size_t input_count, output_count;
  carnot_rt_value inputs[CASE_MAX_VALUES], outputs[CASE_MAX_VALUES];
} data_set;

// Nothing of a case is freed: each case has a process, or the process ends after the cases.
typedef struct test_case {
  carnot_graph* graph;
  double relative, absolute;  // |difference| <= absolute + relative * |wanted|
  data_set* sets[CASE_MAX_SETS];
  size_t set_count;
} test_case;

// Imports the model of |folder|, a case as export_cases.py writes it, without its data.
carnot_status* case_import(const char* folder, test_case* out) CARNOT_MUST_USE;
// Reads the tolerance and the data of |folder| after case_import. NOT_FOUND without data.
carnot_status* case_read_data(const char* folder, test_case* out) CARNOT_MUST_USE;

// Evaluates the graph node by node with the reference kernels on |set|'s inputs. |outputs| has
// CASE_MAX_VALUES elements.
carnot_status* case_interpret(const test_case* test, const data_set* set,
                              carnot_rt_value* outputs) CARNOT_MUST_USE;
// The same for every set, compared with the wanted outputs.
carnot_status* case_check_interpreter(const test_case* test) CARNOT_MUST_USE;

// Builds an engine, serializes and loads it and creates a context on it.
carnot_status* case_open(const test_case* test, const case_options* options,
                         carnot_context** out_context) CARNOT_MUST_USE;
// Runs every set in |context| and compares the outputs with the wanted ones. Where |half_bound| is
// positive, an element may also differ by that part of the greatest magnitude of its tensor.
carnot_status* case_check_engine(const test_case* test, carnot_context* context,
                                 double half_bound) CARNOT_MUST_USE;

#endif  // CARNOT_TESTS_CONFORMANCE_CASE_H_
