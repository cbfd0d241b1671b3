// Problems: small graphs as lines of text, which tests and benchmarks share.
//
//   line     := name ":" node { ";" node }
//   node     := operator "(" operand { "," operand } ")" { attribute "=" value }
//   operand  := type shape          an input of random numbers: float32[1,3,5,5]
//             | "=" type shape      a constant of random numbers: =float32[8,3,3,3]
//             | "=" type shape "{" number { "," number } "}"   a constant; one number fills it
//             | "$" [node [ "." output ]]   an earlier result: $ is the node before, $0.1 the
//             second
//                                           output of the first node
//             | "_"                 an absent operand
//   value    := a number, numbers with commas between, or a word
//
// Operators and attributes are those of ir/ops.def, types those of carnot/types.h. A word as an
// integer is a function of base/fn.def or a type. An operator that is not in ops.def is a plugin of
// version 1, whose fields are integers.
// Blanks separate attributes. A line that begins with # is a comment. The results of the last node
// are the outputs; outputs=N as an attribute asks for N of them (1 without).
// Random floats are in [-1, 1), integers are small; both depend on the line alone.
#ifndef CARNOT_TESTS_CONFORMANCE_PROBLEM_H_
#define CARNOT_TESTS_CONFORMANCE_PROBLEM_H_

#include "case.h"

enum { PROBLEM_MAX_LINE = 1024 };

// Makes the graph of |line| without its name, one data set and a tolerance; the interpreter
// computes the wanted outputs. INVALID_ARGUMENT names the text that is wrong.
carnot_status* problem_read(const char* line, test_case* out) CARNOT_MUST_USE;

#endif  // CARNOT_TESTS_CONFORMANCE_PROBLEM_H_
