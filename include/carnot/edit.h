// Reading and changing existing networks: attributes, wiring, order, requests of precision.
//
// Changes do not infer shapes by themselves: call carnot_network_infer when they are done. Values
// and layers of the network's main part only; bodies of loops and conditionals are closed. One
// thread at a time a network. Errors: INVALID_ARGUMENT for NULL and enums out of range, NOT_FOUND
// for attributes that a layer does not have, FAILED_PRECONDITION where the order of calls is wrong.
#ifndef CARNOT_EDIT_H_
#define CARNOT_EDIT_H_

#include "carnot/network.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- order and wiring ----

// The name of the network; "" where it has none.
CARNOT_API const char* carnot_network_name(const carnot_network* network);
// The last layer of the main part; NULL in an empty network.
CARNOT_API carnot_layer* carnot_network_last_layer(const carnot_network* network);
// The layer before |layer|; NULL before the first.
CARNOT_API carnot_layer* carnot_layer_previous(const carnot_layer* layer);
// Layers added from now on are inserted before |layer|; NULL: at the end again.
CARNOT_API carnot_status* carnot_network_insert_before(carnot_network* network,
                                                       carnot_layer* layer) CARNOT_MUST_USE;
// Input |index| of |layer| becomes |value|, which may be NULL where the input is optional.
CARNOT_API carnot_status* carnot_layer_set_input(carnot_network* network, carnot_layer* layer,
                                                 int index, carnot_value* value) CARNOT_MUST_USE;
// Every reader of |from|, outputs of the network too, reads |to|.
CARNOT_API carnot_status* carnot_network_replace_value(carnot_network* network, carnot_value* from,
                                                       carnot_value* to) CARNOT_MUST_USE;
// Removes and frees |layer|. FAILED_PRECONDITION names an output that is still read.
CARNOT_API carnot_status* carnot_layer_remove(carnot_network* network,
                                              carnot_layer* layer) CARNOT_MUST_USE;
// |value| is no output any more. INVALID_ARGUMENT where it was none.
CARNOT_API carnot_status* carnot_network_unmark_output(carnot_network* network,
                                                       carnot_value* value) CARNOT_MUST_USE;
// Removes an input that no layer reads.
CARNOT_API carnot_status* carnot_network_remove_input(carnot_network* network,
                                                      carnot_value* value) CARNOT_MUST_USE;
// Sorts the layers topologically and infers all types and shapes
// again. INVALID_MODEL names the layer that does not fit, or one of a cycle.
CARNOT_API carnot_status* carnot_network_infer(carnot_network* network) CARNOT_MUST_USE;

// ---- values ----

// A new type of input |value|, as in carnot_network_add_input.
CARNOT_API carnot_status* carnot_network_set_input_type(
    carnot_network* network, carnot_value* value, carnot_dtype dtype, const carnot_dims* dims,
    const char* const* dim_names) CARNOT_MUST_USE;
// The name of dimension |d|; "" where it has none.
CARNOT_API const char* carnot_value_dim_name(const carnot_network* network,
                                             const carnot_value* value, int d);
// True for an output of the network.
CARNOT_API bool carnot_value_is_output(const carnot_value* value);
// True for an input of the network whose elements decide shapes in the network as it is now.
CARNOT_API carnot_status* carnot_network_is_shape_input(const carnot_network* network,
                                                        const carnot_value* value,
                                                        bool* out_is_shape) CARNOT_MUST_USE;
// True where the elements of |value| are known as expressions of dimensions.
CARNOT_API bool carnot_value_is_shape(const carnot_value* value);
// The data of a constant, and its name for refit (NULL: none); NULL where |value| is none.
CARNOT_API const void* carnot_value_constant(const carnot_value* value, const char** out_name);
// Calls |visit| once for every named weight, those of bodies too, in the order of their readers.
// OUT_OF_MEMORY before the first call.
CARNOT_API carnot_status* carnot_network_visit_weights(const carnot_network* network,
                                                       void (*visit)(void* user, const char* name,
                                                                     carnot_dtype dtype,
                                                                     const carnot_dims* dims,
                                                                     const void* data),
                                                       void* user) CARNOT_MUST_USE;

// ---- layers ----

// The operator, as in src/ir/ops.def: "conv"; and what the model called it ("Conv"), or "".
CARNOT_API const char* carnot_layer_operator(const carnot_layer* layer);
// The name of the operator in the imported model ("Conv"); "" for layers that were added.
CARNOT_API const char* carnot_layer_source_type(const carnot_layer* layer);
// The function of an element-wise layer: "add"; "" elsewhere.
CARNOT_API const char* carnot_layer_function(const carnot_layer* layer);
// Attributes as ONNX names them, their defaults where absent. Lists that are absent have count 0;
// lists and texts belong to the layer.
CARNOT_API carnot_status* carnot_layer_get_int(const carnot_layer* layer, const char* name,
                                               int64_t* out_value) CARNOT_MUST_USE;
// The same of a floating-point attribute.
CARNOT_API carnot_status* carnot_layer_get_float(const carnot_layer* layer, const char* name,
                                                 double* out_value) CARNOT_MUST_USE;
// The same of a text attribute.
CARNOT_API carnot_status* carnot_layer_get_text(const carnot_layer* layer, const char* name,
                                                const char** out_value) CARNOT_MUST_USE;
// The same of a list of integers.
CARNOT_API carnot_status* carnot_layer_get_ints(const carnot_layer* layer, const char* name,
                                                const int64_t** out_values,
                                                size_t* out_count) CARNOT_MUST_USE;
// Each copies what it is given.
CARNOT_API carnot_status* carnot_layer_set_int(carnot_layer* layer, const char* name,
                                               int64_t value) CARNOT_MUST_USE;
// The same of a floating-point attribute.
CARNOT_API carnot_status* carnot_layer_set_float(carnot_layer* layer, const char* name,
                                                 double value) CARNOT_MUST_USE;
// The same of a text attribute.
CARNOT_API carnot_status* carnot_layer_set_text(carnot_layer* layer, const char* name,
                                                const char* value) CARNOT_MUST_USE;
// The same of a list of |count| integers.
CARNOT_API carnot_status* carnot_layer_set_ints(carnot_layer* layer, const char* name,
                                                const int64_t* values,
                                                size_t count) CARNOT_MUST_USE;

// Requests of weak typing: the type that |layer| shall compute in, and that of an output. INVALID
// withdraws the request and is what get gives where there is none.
CARNOT_API carnot_status* carnot_layer_set_precision(carnot_layer* layer,
                                                     carnot_dtype dtype) CARNOT_MUST_USE;
// The type requested for |layer|; INVALID: none.
CARNOT_API carnot_dtype carnot_layer_precision(const carnot_layer* layer);
// Requests a type for output |index|; INVALID withdraws the request. INVALID_ARGUMENT past the last
// output.
CARNOT_API carnot_status* carnot_layer_set_output_type(carnot_layer* layer, int index,
                                                       carnot_dtype dtype) CARNOT_MUST_USE;
// The type requested for output |index|; INVALID: none.
CARNOT_API carnot_dtype carnot_layer_output_type(const carnot_layer* layer, int index);
// True where INT8 can be requested for |layer|: a build quantizes it if its input has a range.
CARNOT_API bool carnot_layer_takes_int8(const carnot_layer* layer);

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_EDIT_H_
