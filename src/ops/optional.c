// Values that may be absent: a list of no or one item.
// Source: ONNX Optional-28, OptionalGetElement-28, OptionalHasElement-28.
#include "ops/rt_value.h"

static carnot_status* infer_optional(carnot_infer* infer) {
  if (carnot_infer_has(infer, 0)) {
    carnot_infer_set_list(infer, 0, CARNOT_VALUE_OPTIONAL, infer->inputs[0].type);
    return NULL;
  }
  carnot_type tensor = {.kind = CARNOT_VALUE_TENSOR,
                        .dtype = (carnot_dtype)carnot_infer_int(infer, "dtype"),
                        .rank = -1};
  carnot_type element = tensor;
  if (carnot_infer_int(infer, "sequence")) {
    element = (carnot_type){.kind = CARNOT_VALUE_SEQUENCE, .rank = -1};
    element.element = carnot_arena_copy(infer->arena, &tensor, sizeof(tensor));
    CARNOT_TRY(carnot_arena_status(infer->arena));
  }
  carnot_infer_set_list(infer, 0, CARNOT_VALUE_OPTIONAL, &element);
  return NULL;
}

static carnot_status* run_optional(carnot_call* call) {
  if (call->input_count < 1 || !call->inputs[0])
    return carnot_call_set_items(call, 0, CARNOT_VALUE_OPTIONAL, NULL, 0);
  const carnot_rt_value* item;
  CARNOT_TRY(carnot_call_keep(call, call->inputs[0], &item));
  return carnot_call_set_items(call, 0, CARNOT_VALUE_OPTIONAL, &item, 1);
}

// A value that is no optional is its own element.
static carnot_status* infer_get_element(carnot_infer* infer) {
  CARNOT_CHECK(carnot_infer_has(infer, 0), INVALID_MODEL, "input 0 is missing");
  const carnot_type* x = infer->inputs[0].type;
  if (x->kind != CARNOT_VALUE_OPTIONAL)
    infer->outputs[0].type = *x;
  else if (x->element)
    infer->outputs[0].type = *x->element;
  return NULL;
}

static carnot_status* run_get_element(carnot_call* call) {
  const carnot_rt_value* x = call->inputs[0];
  if (x->kind != CARNOT_VALUE_OPTIONAL) return carnot_call_give(call, 0, x);
  CARNOT_CHECK(x->item_count == 1, INVALID_ARGUMENT, "the optional is empty");
  return carnot_call_give(call, 0, x->items[0]);
}

static carnot_status* infer_has_element(carnot_infer* infer) {
  carnot_infer_set(infer, 0, CARNOT_DTYPE_BOOL, 0, NULL);
  return NULL;
}

static carnot_status* run_has_element(carnot_call* call) {
  const carnot_rt_value* x = call->input_count ? call->inputs[0] : NULL;
  carnot_tensor* y = carnot_call_out(call, 0);
  if (y) *(uint8_t*)y->data = x && (x->kind != CARNOT_VALUE_OPTIONAL || x->item_count == 1);
  return NULL;
}

// What an empty optional would hold: tensors of |dtype|, or sequences of them.
static const carnot_attr_spec kOptionalAttrs[] = {
    {"dtype", CARNOT_ATTR_INT, false, 0, NULL, NULL},
    {"sequence", CARNOT_ATTR_INT, false, 0, NULL, NULL},
    {0}};

const carnot_op_row carnot_op_optional = {
    .name = "optional",
    .min_inputs = 0,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .attrs = kOptionalAttrs,
    .infer = infer_optional,
    .reference = run_optional,
    .source = "ONNX Optional-28",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_optional_get_element = {
    .name = "optional_get_element",
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = CARNOT_OP_DATA_DEPENDENT,
    .infer = infer_get_element,
    .reference = run_get_element,
    .source = "ONNX OptionalGetElement-28",
    .layer_type = "REFERENCE",
};
const carnot_op_row carnot_op_optional_has_element = {
    .name = "optional_has_element",
    .min_inputs = 0,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_has_element,
    .reference = run_has_element,
    .source = "ONNX OptionalHasElement-28",
    .layer_type = "REFERENCE",
};
