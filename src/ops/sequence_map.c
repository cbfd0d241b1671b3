// SequenceMap. Inputs: sequences and tensors, the first a sequence; the last |captured| inputs are
// the values that the body reads.
//   body(an item of each sequence, each tensor.., read..) -> an item of each output
// Source: ONNX SequenceMap-17.
#include "ops/control.h"

static carnot_status* infer_map(carnot_infer* infer) {
  if (!infer->infer_block) {
    for (int i = 0; i < infer->output_count; i++)
      carnot_infer_set_list(infer, i, CARNOT_VALUE_SEQUENCE, NULL);
    return NULL;
  }
  int whole = infer->input_count - (int)carnot_infer_int(infer, "captured");
  carnot_infer_input* inputs =
      CARNOT_NEW_ARRAY(infer->arena, carnot_infer_input, (size_t)infer->input_count + 1);
  carnot_infer_output* outputs =
      CARNOT_NEW_ARRAY(infer->arena, carnot_infer_output, (size_t)infer->output_count + 1);
  CARNOT_TRY(carnot_arena_status(infer->arena));
  memcpy(inputs, infer->inputs, (size_t)infer->input_count * sizeof(*inputs));
  for (int i = 0; i < whole; i++) {
    const carnot_type* type = inputs[i].type;
    // A sequence of unknown items leaves the parameter the type that it has.
    if (type && type->kind == CARNOT_VALUE_SEQUENCE)
      inputs[i] = (carnot_infer_input){.type = type->element};
  }
  CARNOT_TRY(infer->infer_block(infer, carnot_control_body(infer->attrs, "body"),
                                infer->input_count, inputs, infer->output_count, outputs));
  for (int i = 0; i < infer->output_count; i++) {
    carnot_infer_set_list(infer, i, CARNOT_VALUE_SEQUENCE, &outputs[i].type);
  }
  return NULL;
}

static carnot_status* run_map(carnot_call* call) {
  const carnot_rt_value* first = call->inputs[0];
  CARNOT_CHECK(first && first->kind == CARNOT_VALUE_SEQUENCE, INVALID_ARGUMENT,
               "input 0 is no sequence");
  int captured = 0;
  CARNOT_TRY(carnot_control_count(call, "captured", call->input_count, &captured));
  int whole = call->input_count - captured;
  carnot_iterations it;
  CARNOT_TRY(
      carnot_iterations_init(&it, call, call->input_count, call->output_count, call->output_count));
  for (size_t step = 0; step < first->item_count; step++) {
    for (int i = 0; i < call->input_count; i++) {
      const carnot_rt_value* x = call->inputs[i];
      it.inputs[i] = x;
      if (i >= whole || !x || x->kind != CARNOT_VALUE_SEQUENCE) continue;
      CARNOT_CHECK(x->item_count == first->item_count, INVALID_ARGUMENT,
                   "sequence %d has %zu items, sequence 0 has %zu", i, x->item_count,
                   first->item_count);
      it.inputs[i] = x->items[step];
    }
    CARNOT_TRY_AT(carnot_iterations_step(&it), "item %zu", step);
    for (int i = 0; i < call->output_count; i++) {
      const carnot_rt_value* kept;
      CARNOT_TRY(carnot_call_keep(call, &it.outputs[i], &kept));
      CARNOT_TRY(carnot_rt_value_list_add(call, &it.scanned[i], kept));
    }
  }
  for (int i = 0; i < call->output_count; i++) {
    CARNOT_TRY(carnot_call_set_items(call, i, CARNOT_VALUE_SEQUENCE, it.scanned[i].items,
                                     it.scanned[i].count));
  }
  return NULL;
}

static const carnot_attr_spec kMap[] = {{"body", CARNOT_ATTR_BLOCK, true, 0, NULL, NULL},
                                        {"captured", CARNOT_ATTR_INT, false, 0, NULL, NULL},
                                        {0}};

const carnot_op_row carnot_op_sequence_map = {
    .name = "sequence_map",
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .flags = CARNOT_OP_CONTROL,
    .attrs = kMap,
    .infer = infer_map,
    .reference = run_map,
    .source = "ONNX SequenceMap-17",
    .layer_type = "REFERENCE",
};
