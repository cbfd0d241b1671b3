// Scan. Inputs: |carried| values, |scanned| tensors, the values that the body reads.
//   body(carried.., a slice of each.., read..) -> carried.., scanned..
// Source: ONNX Scan-25.
#include "ops/control.h"
#include "ops/strided_copy.h"

static int64_t listed(const carnot_attrs* attrs, const char* name, int i) {
  size_t count;
  const int64_t* values = carnot_attr_ints(attrs, name, &count);
  return (size_t)i < count ? values[i] : 0;
}

static carnot_status* infer_scan(carnot_infer* infer) {
  if (!infer->infer_block) return NULL;
  int carried = (int)carnot_infer_int(infer, "carried"),
      scanned = (int)carnot_infer_int(infer, "scanned");
  CARNOT_CHECK(carried >= 0 && scanned > 0 && carried + scanned <= infer->input_count &&
                   carried <= infer->output_count,
               INVALID_MODEL, "%d carried and %d scanned of %d inputs", carried, scanned,
               infer->input_count);
  size_t input_count = (size_t)infer->input_count, output_count = (size_t)infer->output_count;
  carnot_infer_input* inputs = CARNOT_NEW_ARRAY(infer->arena, carnot_infer_input, input_count + 1);
  carnot_infer_output* outputs =
      CARNOT_NEW_ARRAY(infer->arena, carnot_infer_output, output_count + 1);
  carnot_type* slices = CARNOT_NEW_ARRAY(infer->arena, carnot_type, (size_t)scanned);
  CARNOT_TRY(carnot_arena_status(infer->arena));
  memcpy(inputs, infer->inputs, input_count * sizeof(*inputs));
  carnot_sym steps = carnot_infer_unknown(infer, CARNOT_DIM_UNBOUNDED);
  for (int i = 0; i < scanned; i++) {
    const carnot_type* x;
    CARNOT_TRY(carnot_infer_tensor(infer, carried + i, &x));
    slices[i] = *x;
    inputs[carried + i] = (carnot_infer_input){.type = &slices[i]};
    if (x->rank < 0) continue;
    int axis;
    CARNOT_TRY(
        carnot_axis(listed(infer->attrs, "scan_input_axes", i), x->rank, "scan axis", &axis));
    steps = x->dims[axis];
    slices[i].rank--;
    for (int d = axis; d < slices[i].rank; d++) slices[i].dims[d] = x->dims[d + 1];
  }
  CARNOT_TRY(carnot_control_infer(infer, inputs, (int)input_count, 0, carried, 0, outputs,
                                  (int)output_count));
  for (int i = carried; i < infer->output_count; i++) {
    carnot_control_set_stacked(infer, i, &outputs[i].type, steps,
                               listed(infer->attrs, "scan_output_axes", i - carried));
  }
  return NULL;
}

// Slice |at| of |x| on |axis| in a cell of its own.
static carnot_status* take_slice(const carnot_call* call, const carnot_tensor* x, int axis,
                                 int64_t at, const carnot_rt_value** out_cell) {
  int64_t dims[CARNOT_MAX_RANK];
  for (int d = 0; d < x->rank - 1; d++) dims[d] = x->dims[d < axis ? d : d + 1];
  carnot_rt_value* cell;
  CARNOT_TRY(carnot_call_new_tensor(call, x->dtype, x->rank - 1, dims, &cell));
  int64_t outer = carnot_dims_count(x->dims, axis),
          inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1);
  carnot_strided_copy move = {.dtype = x->dtype,
                              .rank = 2,
                              .dims = {outer, inner},
                              .src_strides = {x->dims[axis] * inner, 1},
                              .dst_strides = {inner, 1},
                              .src_offset = at * inner};
  carnot_strided_copy_run(&move, cell->tensor.data, x->data);
  *out_cell = cell;
  return NULL;
}

static carnot_status* scan_length(const carnot_call* call, int carried, int scanned,
                                  int64_t* out_steps) {
  *out_steps = -1;
  for (int i = 0; i < scanned; i++) {
    const carnot_tensor* x = carnot_call_in(call, carried + i);
    CARNOT_CHECK(x, INVALID_MODEL, "scan input %d is absent", i);
    int axis;
    CARNOT_TRY(carnot_axis(listed(call->attrs, "scan_input_axes", i), x->rank, "scan axis", &axis));
    CARNOT_CHECK(*out_steps < 0 || *out_steps == x->dims[axis], INVALID_ARGUMENT,
                 "scan input %d has %lld steps, others have %lld", i, (long long)x->dims[axis],
                 (long long)*out_steps);
    *out_steps = x->dims[axis];
  }
  return NULL;
}

static carnot_status* run_scan(carnot_call* call) {
  int carried = 0, scanned = 0, most = (int)carnot_min_i64(call->input_count, call->output_count);
  CARNOT_TRY(carnot_control_count(call, "carried", most, &carried));
  CARNOT_TRY(carnot_control_count(call, "scanned", call->input_count - carried, &scanned));
  int stacked = call->output_count - carried;
  int64_t steps;
  CARNOT_TRY(scan_length(call, carried, scanned, &steps));
  carnot_iterations it;
  CARNOT_TRY(carnot_iterations_init(&it, call, call->input_count, call->output_count, stacked));
  for (int i = 0; i < call->input_count; i++) it.inputs[i] = call->inputs[i];
  for (int64_t step = 0; step < steps; step++) {
    for (int i = 0; i < scanned; i++) {
      const carnot_tensor* x = carnot_call_in(call, carried + i);
      int axis;
      CARNOT_TRY(
          carnot_axis(listed(call->attrs, "scan_input_axes", i), x->rank, "scan axis", &axis));
      int64_t at = listed(call->attrs, "scan_input_directions", i) ? steps - 1 - step : step;
      CARNOT_TRY(take_slice(call, x, axis, at, &it.inputs[carried + i]));
    }
    CARNOT_TRY_AT(carnot_iterations_step(&it), "step %lld", (long long)step);
    CARNOT_TRY(carnot_iterations_turn(&it, 0, carried, 0, stacked));
  }
  CARNOT_TRY(carnot_iterations_end(&it, 0, carried));
  for (int i = 0; i < stacked; i++) {
    carnot_tensor none;
    CARNOT_TRY(carnot_control_empty_item(call, (size_t)i, &none));
    CARNOT_TRY(carnot_call_stack(call, carried + i, it.scanned[i].items, it.scanned[i].count,
                                 listed(call->attrs, "scan_output_axes", i),
                                 listed(call->attrs, "scan_output_directions", i) != 0, &none));
  }
  return NULL;
}

static const carnot_attr_spec kScan[] = {
    {"body", CARNOT_ATTR_BLOCK, true, 0, NULL, NULL},
    {"carried", CARNOT_ATTR_INT, true, 0, NULL, NULL},
    {"scanned", CARNOT_ATTR_INT, true, 0, NULL, NULL},
    {"scan_input_axes", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
    {"scan_input_directions", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
    {"scan_output_axes", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
    {"scan_output_directions", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
    {"scan_dtypes", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
    {"scan_ranks", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
    {"scan_dims", CARNOT_ATTR_INTS, false, 0, NULL, NULL},
    {0}};

const carnot_op_row carnot_op_scan = {
    .name = "scan",
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .flags = CARNOT_OP_CONTROL | CARNOT_OP_DATA_DEPENDENT,
    .attrs = kScan,
    .infer = infer_scan,
    .reference = run_scan,
    .source = "ONNX Scan-25",
    .layer_type = "RECURRENCE",
};
