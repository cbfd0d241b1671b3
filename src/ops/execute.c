// One operator on concrete values: infer on plain integers, output storage, reference kernel.
#include "ops/execute.h"

void carnot_infer_scratch_init(carnot_infer_scratch* scratch) {
  carnot_arena_init(&scratch->arena);
  carnot_syms_init(&scratch->syms);
}
void carnot_infer_scratch_deinit(carnot_infer_scratch* scratch) {
  carnot_arena_deinit(&scratch->arena);
  carnot_syms_deinit(&scratch->syms);
}

static carnot_type type_of(carnot_infer_scratch* scratch, const carnot_rt_value* cell) {
  carnot_type type = {.kind = cell->kind, .dtype = cell->tensor.dtype, .rank = cell->tensor.rank};
  if (cell->kind == CARNOT_VALUE_TENSOR) {
    for (int i = 0; i < cell->tensor.rank; i++)
      type.dims[i] = cell->tensor.dims[i] >= 0 ? carnot_sym_of(cell->tensor.dims[i])
                                               : carnot_sym_new(&scratch->syms, NULL, 0, INT64_MAX);
  } else if (cell->item_count) {
    carnot_type* element = CARNOT_NEW(&scratch->arena, carnot_type);
    *element = type_of(scratch, cell->items[0]);
    type.element = element;
  }
  return type;
}

static void take_type(carnot_rt_value* cell, const carnot_type* type) {
  *cell =
      (carnot_rt_value){.kind = type->kind, .tensor = {.dtype = type->dtype, .rank = type->rank}};
  for (int i = 0; i < type->rank; i++)
    cell->tensor.dims[i] = carnot_sym_is_const(type->dims[i]) ? type->dims[i].bits : -1;
}

carnot_status* carnot_infer_values(carnot_infer_scratch* scratch, const carnot_op_row* row,
                                   const carnot_attrs* attrs, const carnot_infer_host* around,
                                   int input_count, const carnot_rt_value* const* inputs,
                                   int output_count, carnot_rt_value* const* outputs) {
  carnot_arena_reset(&scratch->arena);
  carnot_syms_reset(&scratch->syms);
  CARNOT_TRY(carnot_arena_prepare(&scratch->arena));
  carnot_infer_input* in =
      CARNOT_NEW_ARRAY(&scratch->arena, carnot_infer_input, (size_t)input_count + 1);
  carnot_type* types = CARNOT_NEW_ARRAY(&scratch->arena, carnot_type, (size_t)input_count + 1);
  carnot_infer_output* out =
      CARNOT_NEW_ARRAY(&scratch->arena, carnot_infer_output, (size_t)output_count + 1);
  CARNOT_TRY(carnot_arena_status(&scratch->arena));
  for (int i = 0; i < input_count; i++) {
    if (!inputs[i]) continue;
    types[i] = type_of(scratch, inputs[i]);
    in[i].type = &types[i];
    if (inputs[i]->kind == CARNOT_VALUE_TENSOR && inputs[i]->tensor.data)
      in[i].tensor = &inputs[i]->tensor;
  }
  for (int i = 0; i < output_count; i++) {
    out[i].type = (carnot_type){.kind = CARNOT_VALUE_UNKNOWN, .rank = -1};
    out[i].wanted = outputs[i] != NULL;
  }
  carnot_infer infer = {.row = row,
                        .attrs = attrs,
                        .syms = &scratch->syms,
                        .arena = &scratch->arena,
                        .input_count = input_count,
                        .output_count = output_count,
                        .inputs = in,
                        .outputs = out,
                        .infer_block = around ? around->infer_block : NULL,
                        .host = around ? around->host : NULL};
  carnot_status* status = carnot_arena_end(&scratch->arena, row->infer(&infer));
  CARNOT_TRY(carnot_syms_end(&scratch->syms, status));
  for (int i = 0; i < output_count; i++)
    if (outputs[i]) take_type(outputs[i], &out[i].type);
  return NULL;
}

bool carnot_rt_value_is_sized(const carnot_rt_value* cell) {
  const carnot_tensor* t = &cell->tensor;
  bool sized = cell->kind == CARNOT_VALUE_TENSOR && t->rank >= 0 && carnot_dtype_valid(t->dtype);
  for (int i = 0; sized && i < t->rank; i++) sized = t->dims[i] >= 0;
  return sized;
}

carnot_status* carnot_execute(carnot_infer_scratch* scratch, const carnot_op_row* row,
                              const carnot_attrs* attrs, const carnot_call_host* host,
                              int input_count, const carnot_rt_value* const* inputs,
                              int output_count, carnot_rt_value* const* outputs) {
  CARNOT_TRY(
      carnot_infer_values(scratch, row, attrs, NULL, input_count, inputs, output_count, outputs));
  carnot_call call = {.row = row,
                      .attrs = attrs,
                      .input_count = input_count,
                      .output_count = output_count,
                      .inputs = inputs,
                      .outputs = outputs,
                      .host = host};
  for (int i = 0; i < output_count; i++) {
    if (!outputs[i] || !carnot_rt_value_is_sized(outputs[i])) continue;
    carnot_tensor* t = &outputs[i]->tensor;
    CARNOT_TRY(carnot_call_size_output(&call, i, t->dtype, t->rank, t->dims));
  }
  return row->reference(&call);
}
