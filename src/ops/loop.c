// Loop. Inputs: trip count or absent, condition or absent, |carried| values, the values that the
// body reads.
//   body(iteration, condition, carried.., read..) -> condition, carried.., scanned..
// Scanned results are stacked. Source: ONNX Loop-25.
#include "ops/control.h"

// The number of iterations where it is plain, else a new unknown size.
static carnot_sym known_trips(carnot_infer* infer, const carnot_infer_input* trips) {
  const bool known = carnot_infer_int(infer, "counted") && trips->syms && trips->sym_count == 1 &&
                     carnot_sym_is_const(trips->syms[0]) && trips->syms[0].bits >= 0;
  return known ? trips->syms[0] : carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
}

static carnot_status* infer_loop(carnot_infer* infer) {
  if (!infer->infer_block) return NULL;
  int carried = (int)carnot_infer_int(infer, "carried");
  CARNOT_CHECK(carried >= 0 && 2 + carried <= infer->input_count && carried <= infer->output_count,
               INVALID_MODEL, "%d carried values of %d inputs and %d outputs", carried,
               infer->input_count, infer->output_count);
  carnot_type iteration = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_I64, .rank = 0};
  carnot_type condition = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_BOOL, .rank = 0};
  size_t input_count = (size_t)infer->input_count, output_count = (size_t)infer->output_count + 1;
  carnot_infer_input* inputs = CARNOT_NEW_ARRAY(infer->arena, carnot_infer_input, input_count + 1);
  carnot_infer_output* outputs = CARNOT_NEW_ARRAY(infer->arena, carnot_infer_output, output_count);
  CARNOT_TRY(carnot_arena_status(infer->arena));
  const carnot_infer_input* trips = &infer->inputs[0];
  memcpy(inputs, infer->inputs, input_count * sizeof(*inputs));
  inputs[0] = (carnot_infer_input){.type = &iteration};
  inputs[1] = (carnot_infer_input){.type = &condition};
  CARNOT_TRY(carnot_control_infer(infer, inputs, (int)input_count, 2, carried, 1, outputs,
                                  (int)output_count));
  for (int i = carried; i < infer->output_count; i++)
    carnot_control_set_stacked(infer, i, &outputs[1 + i].type, known_trips(infer, trips), 0);
  return NULL;
}

static carnot_status* scalar_cell(const carnot_call* call, carnot_dtype dtype, int64_t value,
                                  const carnot_rt_value** out) {
  carnot_rt_value* cell;
  const int64_t no_dims[1] = {0};
  CARNOT_TRY(carnot_call_new_tensor(call, dtype, 0, no_dims, &cell));
  carnot_store_i64(dtype, cell->tensor.data, 0, value);
  *out = cell;
  return NULL;
}

static bool is_true(const carnot_rt_value* cell) {
  return cell->kind == CARNOT_VALUE_TENSOR && carnot_tensor_count(&cell->tensor) > 0 &&
         *(const uint8_t*)cell->tensor.data != 0;
}

static carnot_status* run_loop(carnot_call* call) {
  int carried = 0, most_carried = (int)carnot_min_i64(call->input_count - 2, call->output_count);
  CARNOT_TRY(carnot_control_count(call, "carried", most_carried, &carried));
  int scanned = call->output_count - carried;
  const carnot_tensor* trips = carnot_call_in(call, 0);
  CARNOT_CHECK(!trips || carnot_tensor_count(trips) == 1, INVALID_MODEL,
               "the trip count has %lld elements, must be 1",
               (long long)carnot_tensor_count(trips));
  int64_t most = trips ? carnot_load_i64(trips->dtype, trips->data, 0) : INT64_MAX;
  const bool counted = trips && carnot_call_int(call, "counted") != 0;
  bool again = !carnot_call_in(call, 1) || is_true(call->inputs[1]);
  carnot_iterations it;
  CARNOT_TRY(carnot_iterations_init(&it, call, call->input_count, 1 + call->output_count, scanned));
  for (int i = 2; i < call->input_count; i++) it.inputs[i] = call->inputs[i];
  CARNOT_TRY(scalar_cell(call, CARNOT_DTYPE_BOOL, again, &it.inputs[1]));
  for (int64_t trip = 0; again && trip < most; trip++) {
    CARNOT_TRY(scalar_cell(call, CARNOT_DTYPE_I64, trip, &it.inputs[0]));
    CARNOT_TRY_AT(carnot_iterations_step(&it), "iteration %lld", (long long)trip);
    again = counted || is_true(&it.outputs[0]);
    CARNOT_TRY(carnot_iterations_turn(&it, 0, 1 + carried, 1, scanned));
  }
  CARNOT_TRY(carnot_iterations_end(&it, 2, carried));
  for (int i = 0; i < scanned; i++) {
    carnot_tensor none;
    CARNOT_TRY(carnot_control_empty_item(call, (size_t)i, &none));
    CARNOT_TRY(carnot_call_stack(call, carried + i, it.scanned[i].items, it.scanned[i].count, 0,
                                 false, &none));
  }
  return NULL;
}

// counted: the trip count alone says how often the body runs, its condition does not end the loop.
// scan_dtypes, scan_ranks and scan_dims give the type of the items of a stacked output for a run
// without iterations.
static const carnot_attr_spec kLoop[] = {{"body", CARNOT_ATTR_BLOCK, true, 0, NULL, NULL},
                                         {"carried", CARNOT_ATTR_INT, true, 0, NULL, NULL},
                                         {"counted", CARNOT_ATTR_INT, false, 0, NULL, NULL},
                                         {"scan_dtypes", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
                                         {"scan_ranks", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
                                         {"scan_dims", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
                                         {0}};

const carnot_op_row carnot_op_loop = {
    .name = "loop",
    .min_inputs = 2,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .flags = CARNOT_OP_CONTROL | CARNOT_OP_DATA_DEPENDENT,
    .attrs = kLoop,
    .infer = infer_loop,
    .reference = run_loop,
    .source = "ONNX Loop-25",
    .layer_type = "RECURRENCE",
};
