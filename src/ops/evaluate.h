// The interpreter: runs a graph node by node with the reference kernels. The oracle, and what
// constant folding uses.
#ifndef CARNOT_OPS_EVALUATE_H_
#define CARNOT_OPS_EVALUATE_H_

#include "ir/graph.h"
#include "ops/execute.h"

// One evaluation; keeps every value until deinit. One thread at a time.
typedef struct carnot_evaluator {
  carnot_call_host host;  // first, so that the host's functions find the evaluator
  carnot_infer_scratch scratch;
  carnot_arena store;
  carnot_rt_value** cells;  // by value id, of the blocks being run
  size_t cell_count;
} carnot_evaluator;

carnot_status* carnot_evaluator_init(carnot_evaluator* evaluator, const carnot_graph* graph,
                                     struct carnot_executor* executor,
                                     uint64_t seed) CARNOT_MUST_USE;
void carnot_evaluator_deinit(carnot_evaluator* evaluator);

// Runs |block| on |inputs| in the order of its parameters (borrowed). |outputs| are filled with the
// block's results, whose data live in the evaluator or are the inputs'.
carnot_status* carnot_evaluate_block(carnot_evaluator* evaluator, const carnot_block* block,
                                     int input_count, const carnot_rt_value* const* inputs,
                                     int output_count, carnot_rt_value* outputs) CARNOT_MUST_USE;
// Runs one node whose inputs are all constants; |outputs| as above, NULL for absent ones.
carnot_status* carnot_evaluate_node(carnot_evaluator* evaluator, const carnot_node* node,
                                    carnot_rt_value* const* outputs) CARNOT_MUST_USE;

#endif  // CARNOT_OPS_EVALUATE_H_
