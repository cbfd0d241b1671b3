// What the operators of control flow share: bodies as attributes, types that hold in every
// iteration, and the iterations of a body at run time.
//
// Bodies are closed: the values that a body reads from its surroundings are inputs of the operator
// after those of ONNX, and parameters of the body after those of ONNX, in the same order. Output
// sizes are unknown before the operator ran, except in the builder, where the body's types are
// known.
#ifndef CARNOT_OPS_CONTROL_H_
#define CARNOT_OPS_CONTROL_H_

#include "ir/graph.h"
#include "ops/infer_help.h"
#include "ops/rt_value.h"

// The body that attribute |name| holds.
const carnot_attr* carnot_control_body(const carnot_attrs* attrs, const char* name);
// A count of inputs or outputs among the attributes, which an engine may give any value.
// INVALID_MODEL outside [0, most].
carnot_status* carnot_control_count(const carnot_call* call, const char* name, int most,
                                    int* out_count) CARNOT_MUST_USE;

// Infers the body with |inputs|, of which |carried| from |first| on take the types of its outputs
// from |first_out| on, until nothing changes. Sets the carried outputs; those that are stacked are
// left in |outputs| with the types seen outside the body.
carnot_status* carnot_control_infer(carnot_infer* infer, carnot_infer_input* inputs,
                                    int input_count, int first, int carried, int first_out,
                                    carnot_infer_output* outputs, int output_count) CARNOT_MUST_USE;
// Sets the type of stacked output |i|: the dimensions of |item| with |count| inserted on |axis|.
void carnot_control_set_stacked(carnot_infer* infer, int i, const carnot_type* item,
                                carnot_sym count, int64_t axis);
// Notes the types of |count| values that a body gives to be stacked, for runs without iterations:
// dimensions that are not known are 0 then. Memory of |arena|.
void carnot_control_note_items(carnot_attrs* attrs, carnot_arena* arena, carnot_value* const* items,
                               size_t count);
// The type of an item of stacked output |i| as it was noted; no data.
carnot_status* carnot_control_empty_item(const carnot_call* call, size_t i,
                                         carnot_tensor* out_item) CARNOT_MUST_USE;

// Runs a body once an iteration: values in, values out. One thread; memory of the run.
typedef struct carnot_iterations {
  carnot_call* call;
  const carnot_attr* body;
  const carnot_rt_value** inputs;  // the caller sets them before each step
  carnot_rt_value* outputs;        // of the last step
  int input_count, output_count;
  carnot_rt_value_list* scanned;  // by stacked output: its items so far
  bool turns;                     // the memory of past iterations is reused
} carnot_iterations;

carnot_status* carnot_iterations_init(carnot_iterations* it, carnot_call* call, int input_count,
                                      int output_count, int scanned_count) CARNOT_MUST_USE;
// Runs the body once; its results are in new values.
carnot_status* carnot_iterations_step(carnot_iterations* it) CARNOT_MUST_USE;
// Passes results to the next iteration: |carried| results from |first| on become the inputs from
// |to| on; the |scanned| results behind them are appended to their lists.
carnot_status* carnot_iterations_turn(carnot_iterations* it, int first, int carried, int to,
                                      int scanned) CARNOT_MUST_USE;
// Makes the last |carried| values, inputs from |first_input| on, the first outputs of the call, in
// memory that outlives the loop.
carnot_status* carnot_iterations_end(carnot_iterations* it, int first_input,
                                     int carried) CARNOT_MUST_USE;

#endif  // CARNOT_OPS_CONTROL_H_
