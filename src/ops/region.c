// A fused region: the operators of the body "body" as one step.
//   outputs = body(inputs)
// Inputs and outputs as the body's parameters and results. Made by passes; tactics see through it
// to its operators, and the interpreter runs the body. Source: design.md section 4.
#include "ir/op.h"

static const carnot_attr_spec kAttrs[] = {
    {.name = "body", .type = CARNOT_ATTR_BLOCK, .required = true}, {0}};

static carnot_status* infer_region(carnot_infer* infer) {
  if (!infer->infer_block) return NULL;
  const carnot_attr* body = carnot_attrs_find(infer->attrs, "body");
  return infer->infer_block(infer, body, infer->input_count, infer->inputs, infer->output_count,
                            infer->outputs);
}

static carnot_status* run_region(carnot_call* call) {
  const carnot_attr* body = carnot_attrs_find(call->attrs, "body");
  void* memory;
  CARNOT_TRY(
      carnot_call_alloc(call, (size_t)(call->output_count + 1) * sizeof(carnot_rt_value), &memory));
  carnot_rt_value* results = memory;
  CARNOT_TRY(call->host->run_block(call->host, body, call->input_count, call->inputs,
                                   call->output_count, results));
  for (int i = 0; i < call->output_count; i++)
    if (call->outputs[i]) *call->outputs[i] = results[i];
  return NULL;
}

const carnot_op_row carnot_op_region = {
    .name = "region",
    .min_inputs = 0,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .attrs = kAttrs,
    .infer = infer_region,
    .reference = run_region,
    .source = "Carnot",
    .layer_type = "FUSED",
};
