// What follows the primitives of a step over the rows of a part: the residual, where they do not
// add it, the activation, and the store of results that lie in the workspace.
#ifndef CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_PASS_H_
#define CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_PASS_H_

#include "backend/cpu/onednn/onednn_step.h"

typedef struct carnot_onednn_pass {
  bool rectifies;  // ReLU or clip up to |limit| in place; else the program, where it has any
  float limit;
  carnot_pw_program program;
  bool is_bf16;  // of the result
} carnot_onednn_pass;

// The result of a part: |rows| of |columns|, |ld| elements apart.
typedef struct carnot_onednn_tile {
  int64_t rows, columns, ld;
  void* dst;
  void* stage;     // what the primitive wrote, dense; NULL: it wrote to dst
  void* residual;  // rows as dst; NULL: none
} carnot_onednn_tile;

carnot_onednn_pass carnot_onednn_pass_of(const carnot_onednn_parts* parts,
                                         const carnot_onednn_result* result);
void carnot_onednn_pass_run(const carnot_cpu_kernels* kernels, const carnot_onednn_pass* pass,
                            const carnot_onednn_tile* tile);

#endif  // CARNOT_BACKEND_CPU_ONEDNN_ONEDNN_PASS_H_
