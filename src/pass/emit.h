// What passes write nodes with before a position. The first error stays; from then on the functions
// do nothing and return NULL, so that a composition reads as its formula.
#ifndef CARNOT_PASS_EMIT_H_
#define CARNOT_PASS_EMIT_H_

#include "pass/pass.h"

typedef struct carnot_emitter {
  carnot_node* at;  // nodes are inserted before it
  carnot_status* status;
  const char* name;  // of the nodes; NULL: made up
} carnot_emitter;

// The first output of a new node. |attrs| may be NULL.
carnot_value* carnot_emit(carnot_emitter* e, carnot_op op, const carnot_attrs* attrs,
                          carnot_value* const* inputs, int count);
// An element-wise function of two values.
carnot_value* carnot_emit_binary(carnot_emitter* e, carnot_fn fn, carnot_value* a, carnot_value* b);
// |x| itself where it has the type.
carnot_value* carnot_emit_cast(carnot_emitter* e, carnot_value* x, carnot_dtype dtype);
// int64 constants: a list, and a scalar.
carnot_value* carnot_emit_ints(carnot_emitter* e, const int64_t* values, int count);
carnot_value* carnot_emit_int(carnot_emitter* e, int64_t value);
// To |rank| dimensions as Reshape takes them.
carnot_value* carnot_emit_reshape(carnot_emitter* e, carnot_value* x, const int64_t* dims,
                                  int rank);
// Elements [start, end) of |axis|.
carnot_value* carnot_emit_slice(carnot_emitter* e, carnot_value* x, int64_t axis, int64_t start,
                                int64_t end);
// |axis| in reversed order.
carnot_value* carnot_emit_reversed(carnot_emitter* e, carnot_value* x, int64_t axis);
carnot_value* carnot_emit_transpose(carnot_emitter* e, carnot_value* x, const int64_t* perm,
                                    int rank);
carnot_value* carnot_emit_unsqueeze(carnot_emitter* e, carnot_value* x, int64_t axis);
carnot_value* carnot_emit_squeeze(carnot_emitter* e, carnot_value* x, int64_t axis);
carnot_value* carnot_emit_concat(carnot_emitter* e, int64_t axis, carnot_value* const* parts,
                                 int count);

// |made| takes the readers, name, range, precision and origin of the only result of |node|.
carnot_status* carnot_emit_replace(const carnot_emitter* e, carnot_node* node,
                                   carnot_value* made) CARNOT_MUST_USE;

#endif  // CARNOT_PASS_EMIT_H_
