// Tensors, attributes and types: what graph, reference kernels and engine have in common.
#ifndef CARNOT_IR_TENSOR_H_
#define CARNOT_IR_TENSOR_H_

#include "base/arena.h"
#include "base/checked.h"
#include "base/dtype.h"
#include "base/strview.h"
#include "ir/sym.h"

// A dense row-major tensor whose data somebody else owns. Text: |data| is an array of
// carnot_strview.
typedef struct carnot_tensor {
  carnot_dtype dtype;
  int rank;
  int64_t dims[CARNOT_MAX_RANK];
  void* data;
} carnot_tensor;

static inline int64_t carnot_dims_count(const int64_t* dims, int rank) {
  // Sizes from outside may overflow before they are checked: the count then stays at the top, where
  // every check fails.
  int64_t count = 1;
  bool overflow = false;
  for (int i = 0; i < rank; i++) {
    if (dims[i] == 0) return 0;
    overflow |= !carnot_mul_i64(count, dims[i], &count);
  }
  return overflow ? INT64_MAX : count;
}
// Elements of a tensor whose dimensions were checked when it was made.
static inline int64_t carnot_tensor_count(const carnot_tensor* t) {
  return carnot_dims_count(t->dims, t->rank);
}
static inline size_t carnot_tensor_bytes(const carnot_tensor* t) {
  size_t count = (size_t)carnot_tensor_count(t);
  return t->dtype == CARNOT_DTYPE_STRING ? count * sizeof(carnot_strview)
                                         : carnot_dtype_bytes(t->dtype, count);
}
// Bytes for these dimensions. INVALID_MODEL for an unknown type or a negative dimension,
// OUT_OF_RANGE when there are too many elements.
carnot_status* carnot_dims_bytes(carnot_dtype dtype, const int64_t* dims, int rank,
                                 size_t* out_bytes) CARNOT_MUST_USE;

typedef enum carnot_value_kind {
  CARNOT_VALUE_UNKNOWN,
  CARNOT_VALUE_TENSOR,
  CARNOT_VALUE_SEQUENCE,
  CARNOT_VALUE_OPTIONAL,
} carnot_value_kind;

// The type of a value. A tensor's rank is -1 where it is unknown.
typedef struct carnot_type {
  carnot_value_kind kind;
  carnot_dtype dtype;
  int rank;
  carnot_sym dims[CARNOT_MAX_RANK];
  const struct carnot_type* element;  // of a sequence or optional; may be NULL where unknown
} carnot_type;

// A copy of |type| (NULL stays NULL) with the types of its elements.
const carnot_type* carnot_type_copy(carnot_arena* arena, const carnot_type* type);
// "float32[batch,3,224,224]" into |text|.
void carnot_type_print(const carnot_syms* syms, const carnot_type* type, char* text, size_t size);
// "[1,3,224,224]".
void carnot_dims_print(const int64_t* dims, int rank, char* text, size_t size);

// ---- attributes ----

typedef enum carnot_attr_type {
  CARNOT_ATTR_NONE,
  CARNOT_ATTR_INT,
  CARNOT_ATTR_FLOAT,
  CARNOT_ATTR_STRING,
  CARNOT_ATTR_INTS,
  CARNOT_ATTR_FLOATS,
  CARNOT_ATTR_STRINGS,
  CARNOT_ATTR_TENSOR,
  CARNOT_ATTR_BLOCK,
  CARNOT_ATTR_SYMS,  // a list of symbolic integers: dimensions known as expressions
} carnot_attr_type;

struct carnot_block;

typedef struct carnot_attr {
  const char* name;
  carnot_attr_type type;
  size_t count;  // of a list
  union {
    int64_t i;
    double f;
    carnot_strview s;
    const int64_t* ints;
    const double* floats;
    const carnot_strview* strings;
    const carnot_tensor* tensor;
    struct carnot_block* block;  // in a graph
    int64_t block_index;         // in an engine
    const carnot_sym* syms;
  };
} carnot_attr;

typedef struct carnot_attrs {
  carnot_attr* items;
  size_t count;
} carnot_attrs;

// What an operator's row says of an attribute. Absent and not required: the default.
typedef struct carnot_attr_spec {
  const char* name;  // NULL ends the list
  carnot_attr_type type;
  bool required;
  double number;      // default of INT and FLOAT
  const char* text;   // default of STRING
  const char* words;  // of STRING: those that it may be, parted by spaces; NULL: any text
} carnot_attr_spec;

// The attribute, or NULL.
const carnot_attr* carnot_attrs_find(const carnot_attrs* attrs, const char* name);
// Adds or replaces. |attr| and what it points to are borrowed: copy into the same arena first.
void carnot_attrs_set(carnot_attrs* attrs, carnot_arena* arena, carnot_attr attr);
void carnot_attrs_set_int(carnot_attrs* attrs, carnot_arena* arena, const char* name,
                          int64_t value);
void carnot_attrs_set_float(carnot_attrs* attrs, carnot_arena* arena, const char* name,
                            double value);
void carnot_attrs_set_text(carnot_attrs* attrs, carnot_arena* arena, const char* name,
                           const char* value);
// Copies |values|.
void carnot_attrs_set_ints(carnot_attrs* attrs, carnot_arena* arena, const char* name,
                           const int64_t* values, size_t count);
void carnot_attrs_set_floats(carnot_attrs* attrs, carnot_arena* arena, const char* name,
                             const double* values, size_t count);

#endif  // CARNOT_IR_TENSOR_H_
