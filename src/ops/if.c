// If. Inputs: condition, the values that then_branch reads (then_inputs of them), those that
// else_branch reads. Source: ONNX If-25.
#include "ops/control.h"

static carnot_status* infer_if(carnot_infer* infer) {
  if (!infer->infer_block) return NULL;
  int then_count = (int)carnot_infer_int(infer, "then_inputs"), count = infer->output_count;
  CARNOT_CHECK(then_count >= 0 && then_count < infer->input_count, INVALID_MODEL,
               "then_inputs is %d", then_count);
  carnot_infer_output* outputs[2];
  for (int b = 0; b < 2; b++) {
    outputs[b] = CARNOT_NEW_ARRAY(infer->arena, carnot_infer_output, (size_t)count + 1);
    CARNOT_TRY(carnot_arena_status(infer->arena));
    const carnot_infer_input* inputs = infer->inputs + 1 + (b ? then_count : 0);
    int input_count = b ? infer->input_count - 1 - then_count : then_count;
    const char* name = b ? "else_branch" : "then_branch";
    CARNOT_TRY_AT(infer->infer_block(infer, carnot_control_body(infer->attrs, name), input_count,
                                     inputs, count, outputs[b]),
                  "%s", name);
  }
  for (int i = 0; i < count; i++) {
    infer->outputs[i].type = carnot_infer_join(infer, &outputs[0][i].type, &outputs[1][i].type);
  }
  return NULL;
}

static carnot_status* run_if(carnot_call* call) {
  const carnot_tensor* condition = carnot_call_in(call, 0);
  CARNOT_CHECK(condition && carnot_tensor_count(condition) == 1, INVALID_ARGUMENT,
               "the condition has %lld elements, must be 1",
               condition ? (long long)carnot_tensor_count(condition) : 0);
  bool yes = *(const uint8_t*)condition->data != 0;
  int then_count = 0;
  CARNOT_TRY(carnot_control_count(call, "then_inputs", call->input_count - 1, &then_count));
  int first = yes ? 1 : 1 + then_count,
      count = yes ? then_count : call->input_count - 1 - then_count;
  void* memory;
  CARNOT_TRY(
      carnot_call_alloc(call, sizeof(carnot_rt_value) * (size_t)call->output_count, &memory));
  carnot_rt_value* outputs = memory;
  memset(outputs, 0, sizeof(*outputs) * (size_t)call->output_count);
  const carnot_attr* body = carnot_control_body(call->attrs, yes ? "then_branch" : "else_branch");
  CARNOT_TRY(call->host->run_block(call->host, body, count, call->inputs + first,
                                   call->output_count, outputs));
  for (int i = 0; i < call->output_count; i++) CARNOT_TRY(carnot_call_give(call, i, &outputs[i]));
  return NULL;
}

static const carnot_attr_spec kIf[] = {{"then_branch", CARNOT_ATTR_BLOCK, true, 0, NULL, NULL},
                                       {"else_branch", CARNOT_ATTR_BLOCK, true, 0, NULL, NULL},
                                       {"then_inputs", CARNOT_ATTR_INT, false, 0, NULL, NULL},
                                       {0}};

const carnot_op_row carnot_op_if = {
    .name = "if",
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .flags = CARNOT_OP_CONTROL | CARNOT_OP_DATA_DEPENDENT,
    .attrs = kIf,
    .infer = infer_if,
    .reference = run_if,
    .source = "ONNX If-25",
    .layer_type = "CONDITION",
};
