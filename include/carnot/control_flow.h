// Loops and conditionals of a network, in two forms: bodies between begin and end, and TensorRT's
// flat form.
#ifndef CARNOT_CONTROL_FLOW_H_
#define CARNOT_CONTROL_FLOW_H_

#include "carnot/network.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- bodies between begin and end: layers added between them are the body, which may use values
// from outside ----

typedef struct carnot_loop carnot_loop;
// |trip_count| int64 scalar or NULL; |condition| bool scalar (whether a first iteration runs) or
// NULL; not both NULL.
CARNOT_API carnot_status* carnot_network_begin_loop(carnot_network* network,
                                                    carnot_value* trip_count,
                                                    carnot_value* condition,
                                                    carnot_loop** out_loop) CARNOT_MUST_USE;
// In the body: the index of the iteration from 0 (int64 scalar).
CARNOT_API carnot_value* carnot_loop_iteration(carnot_loop* loop);
// In the body: a loop-carried value; |initial| from outside is its value in the first iteration.
CARNOT_API carnot_status* carnot_loop_add_recurrence(carnot_loop* loop, carnot_value* initial,
                                                     carnot_value** out_value) CARNOT_MUST_USE;
// The value of |recurrence| in the next iteration.
CARNOT_API carnot_status* carnot_loop_set_next(carnot_loop* loop, carnot_value* recurrence,
                                               carnot_value* next) CARNOT_MUST_USE;
// In the body: the iteration's slice of |tensor| along |axis|, from the end when |reverse|.
CARNOT_API carnot_status* carnot_loop_add_iterator(carnot_loop* loop, carnot_value* tensor,
                                                   int axis, bool reverse,
                                                   carnot_value** out_value) CARNOT_MUST_USE;
// Whether another iteration follows: a bool scalar of the body.
CARNOT_API carnot_status* carnot_loop_set_condition(carnot_loop* loop,
                                                    carnot_value* condition) CARNOT_MUST_USE;
// *out_value is valid after end: the last value of |recurrence|, or all values of a body's |value|
// along a new axis 0.
CARNOT_API carnot_status* carnot_loop_add_last_output(carnot_loop* loop, carnot_value* recurrence,
                                                      carnot_value** out_value) CARNOT_MUST_USE;
// All values of the body's |value| along a new axis 0; *out_value is valid after end.
CARNOT_API carnot_status* carnot_loop_add_stacked_output(carnot_loop* loop, carnot_value* value,
                                                         carnot_value** out_value) CARNOT_MUST_USE;
// Closes the body and sets the outputs; |loop| is freed.
CARNOT_API carnot_status* carnot_loop_end(carnot_loop* loop) CARNOT_MUST_USE;

typedef struct carnot_conditional carnot_conditional;
// Begins the branch for true; else begins that for false; both have |count| results of the same
// types.
CARNOT_API carnot_status* carnot_network_begin_if(carnot_network* network, carnot_value* condition,
                                                  carnot_conditional** out_conditional)
    CARNOT_MUST_USE;
// Ends the branch for true with its results |values| [count] and begins the branch for false.
CARNOT_API carnot_status* carnot_conditional_else(carnot_conditional* conditional,
                                                  carnot_value* const* values,
                                                  int count) CARNOT_MUST_USE;
// Ends the branch for false with its |values| [count]; |out_values| [count] are the results of the
// branch that runs. |conditional| is freed.
CARNOT_API carnot_status* carnot_conditional_end(carnot_conditional* conditional,
                                                 carnot_value* const* values, int count,
                                                 carnot_value** out_values) CARNOT_MUST_USE;

// ---- the flat form, as TensorRT's ILoop and IIfConditional: the layers of a body are
// added to the network like any others, on placeholders. Closing the form makes the layers that
// depend on the placeholders the body. Inner forms are closed first. ----

// A value that iterations carry; |initial| in the first.
CARNOT_API carnot_status* carnot_network_add_loop_recurrence(
    carnot_network* network, carnot_value* initial, carnot_value** out_value) CARNOT_MUST_USE;
// The iteration's slice of |tensor| along |axis|, from the end when |reverse|.
CARNOT_API carnot_status* carnot_network_add_loop_iterator(
    carnot_network* network, carnot_value* tensor, int axis, bool reverse,
    carnot_value** out_value) CARNOT_MUST_USE;
typedef struct carnot_loop_recurrence {
  carnot_value *value, *next;  // the placeholder and its value in the next iteration
} carnot_loop_recurrence;
typedef enum carnot_loop_output_kind {
  CARNOT_LOOP_LAST_VALUE,   // of a recurrence
  CARNOT_LOOP_CONCATENATE,  // all values along a new axis
  CARNOT_LOOP_REVERSE       // the same, the last one first
} carnot_loop_output_kind;
typedef struct carnot_loop_output {
  carnot_value* value;
  carnot_loop_output_kind kind;
  int axis;  // the new axis
} carnot_loop_output;
typedef struct carnot_flat_loop {
  carnot_value* trip_count;  // an integer, or NULL
  // A bool, computed before each iteration from recurrences and values outside, or NULL.
  carnot_value* condition;
  const carnot_loop_recurrence* recurrences;
  carnot_value* const* iterators;  // placeholders
  const carnot_loop_output* outputs;
  int recurrence_count, iterator_count, output_count;  // at most 64 each
} carnot_flat_loop;
// Makes the loop; |out_values| [output_count]. INVALID_MODEL where a value of the body is an output
// of the network; UNSUPPORTED where the condition depends on an iterator.
// Source: TensorRT ILoop.
CARNOT_API carnot_status* carnot_network_close_flat_loop(carnot_network* network,
                                                         const carnot_flat_loop* loop,
                                                         carnot_value** out_values) CARNOT_MUST_USE;

// |input| as the branches of a conditional read it.
CARNOT_API carnot_status* carnot_network_add_conditional_input(
    carnot_network* network, carnot_value* input, carnot_value** out_value) CARNOT_MUST_USE;
typedef struct carnot_flat_conditional {
  carnot_value* condition;
  carnot_value* const* inputs;  // placeholders
  int input_count;
  carnot_value *const *true_values, *const *false_values;  // [output_count]
  int output_count;                                        // at most 64
} carnot_flat_conditional;
// Makes the conditional: layers that depend on |inputs| run in the branch whose results need them.
// |out_values| [output_count]. Errors as of loops. Source: TensorRT IIfConditional.
CARNOT_API carnot_status* carnot_network_close_flat_conditional(
    carnot_network* network, const carnot_flat_conditional* conditional,
    carnot_value** out_values) CARNOT_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_CONTROL_FLOW_H_
