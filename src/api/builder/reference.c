// Reference execution of networks.
#include "carnot/reference.h"

#include <stdlib.h>

#include "api/builder/network.h"
#include "ops/evaluate.h"

struct carnot_reference {
  carnot_executor* executor;
  carnot_evaluator evaluator;
  bool is_ready;  // the evaluator was initialised
};

static carnot_status* evaluate(carnot_reference* reference, const carnot_network* network,
                               const carnot_data* const* inputs) {
  const carnot_block* main = network->graph->main;
  for (size_t i = 0; i < main->param_count; i++)
    CARNOT_CHECK(inputs[i], INVALID_ARGUMENT, "input %s is NULL", main->params[i]->name);
  CARNOT_TRY(carnot_evaluator_init(&reference->evaluator, network->graph, reference->executor,
                                   /*seed=*/0));
  reference->is_ready = true;
  void* outputs;
  CARNOT_TRY(carnot_calloc(main->output_count + 1, sizeof(carnot_rt_value), "results", &outputs));
  carnot_status* status = carnot_evaluate_block(&reference->evaluator, main, (int)main->param_count,
                                                inputs, (int)main->output_count, outputs);
  free(outputs);
  return status;
}

carnot_status* carnot_reference_create(const carnot_network* network,
                                       const carnot_data* const* inputs, int thread_count,
                                       carnot_reference** out_reference) {
  *out_reference = NULL;
  CARNOT_CHECK(network->scope == &network->main, FAILED_PRECONDITION,
               "a loop or conditional of the network is still open");
  carnot_graph_lend_constants(network->graph);  // values may be constants
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_reference), "a reference", &memory));
  carnot_reference* reference = memory;
  carnot_status* status = carnot_executor_create(thread_count, &reference->executor);
  if (!status) status = evaluate(reference, network, inputs);
  if (status)
    carnot_reference_destroy(reference);
  else
    *out_reference = reference;
  return status;
}

void carnot_reference_destroy(carnot_reference* reference) {
  if (!reference) return;
  if (reference->is_ready) carnot_evaluator_deinit(&reference->evaluator);
  carnot_executor_destroy(reference->executor);
  free(reference);
}

const carnot_data* carnot_reference_value(const carnot_reference* reference,
                                          const carnot_value* value) {
  return value->id < reference->evaluator.cell_count ? reference->evaluator.cells[value->id] : NULL;
}
