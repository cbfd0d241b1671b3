// Adding plugins to graphs: a plugin node, or the operators that a built-in one consists of.
//
// The helpers note the first error in the front's |status| and do nothing (and return NULL) from
// then on, so that a composition reads as its formula.
#ifndef CARNOT_PLUGIN_FRONT_H_
#define CARNOT_PLUGIN_FRONT_H_

#include "ir/graph.h"
#include "plugin/builtin.h"

typedef struct carnot_front {
  const carnot_plugin_entry* entry;
  carnot_block* block;
  carnot_arena* arena;  // the graph's
  const char* name;     // of the layer
  const char* version;  // of the plugin
  carnot_fields fields;
  int input_count, output_count;
  carnot_value* const* inputs;
  carnot_value** outputs;
  carnot_status* status;
} carnot_front;

// Adds what |entry|'s plugin with |fields| computes of |inputs| (NULL: absent) to the end of
// |block|. |outputs| has room for |output_count| values, at most the plugin's.
carnot_status* carnot_plugin_add(carnot_block* block, const carnot_plugin_entry* entry,
                                 const char* name, const carnot_plugin_field* fields,
                                 int32_t field_count, carnot_value* const* inputs, int input_count,
                                 carnot_value** outputs, int output_count) CARNOT_MUST_USE;

// The same for a plugin that the program made, whose fields are taken now. |name| NULL: one of the
// plugin's name. |outputs| has room for all of its outputs.
carnot_status* carnot_plugin_add_made(carnot_block* block, const carnot_plugin* plugin,
                                      const char* name, carnot_value* const* inputs,
                                      int input_count, carnot_value** outputs) CARNOT_MUST_USE;

#define FRONT_FAIL(f, ...)                                     \
  do {                                                         \
    if (!(f)->status) (f)->status = CARNOT_ERROR(__VA_ARGS__); \
  } while (0)

// Computes by the kernel of the plugin's own, for expand functions that do so in some cases.
void front_kernel(carnot_front* f);

int64_t front_int(carnot_front* f, const char* field, int64_t absent);
double front_float(carnot_front* f, const char* field, double absent);

carnot_value* front_in(carnot_front* f, int input);  // absence is an error
// The rank; an error where it is not known or below |least|.
int front_rank(carnot_front* f, const carnot_value* x, int least);
// A dimension that must be known at build.
int64_t front_dim(carnot_front* f, const carnot_value* x, int axis, const char* what);

// A node's first output; NULL inputs are absent.
carnot_value* front_op(carnot_front* f, carnot_op op, const carnot_attrs* attrs, int input_count,
                       ...);
void front_node(carnot_front* f, carnot_op op, const carnot_attrs* attrs,
                carnot_value* const* inputs, int input_count, carnot_value** outputs,
                int output_count);
carnot_value* front_fn(carnot_front* f, carnot_fn fn, carnot_value* x, double alpha, double beta);
carnot_value* front_binary(carnot_front* f, carnot_fn fn, carnot_value* x, carnot_value* y);
carnot_value* front_cast(carnot_front* f, carnot_value* x, carnot_dtype dtype);
// A scalar of the type of |like|.
carnot_value* front_number(carnot_front* f, const carnot_value* like, double value);
carnot_value* front_ints(carnot_front* f, const int64_t* values, int count);
// A float field's elements as a constant of these dimensions and the type of |like|.
carnot_value* front_weights(carnot_front* f, const char* field, const carnot_value* like,
                            const int64_t* dims, int rank);
carnot_value* front_reshape(carnot_front* f, carnot_value* x, const int64_t* dims, int rank);
carnot_value* front_transpose(carnot_front* f, carnot_value* x, const int64_t* perm, int rank);
carnot_value* front_slice(carnot_front* f, carnot_value* x, int64_t axis, int64_t start,
                          int64_t end);
carnot_value* front_concat(carnot_front* f, int64_t axis, carnot_value* const* parts, int count);
carnot_value* front_matmul(carnot_front* f, carnot_value* a, carnot_value* b);
// x's dimensions as int64 [rank].
carnot_value* front_shape(carnot_front* f, carnot_value* x);

#endif  // CARNOT_PLUGIN_FRONT_H_
