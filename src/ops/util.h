// Helpers that the operator families share: attribute lists, whole tensors as numbers, strides,
// axes.
//
// All are plain functions of their arguments; memory they hand out lives as long as the run.
#ifndef CARNOT_OPS_UTIL_H_
#define CARNOT_OPS_UTIL_H_

#include <math.h>
#include <string.h>

#include "ir/op.h"

// ---- lines of an attribute list ----

#define CARNOT_SPEC_INT(name, value) \
  { name, CARNOT_ATTR_INT, false, value, NULL, NULL }
#define CARNOT_SPEC_FLOAT(name, value) \
  { name, CARNOT_ATTR_FLOAT, false, value, NULL, NULL }
#define CARNOT_SPEC_TEXT(name, value) \
  { name, CARNOT_ATTR_STRING, false, 0, value, NULL }
// A text that is one of |words|, which spaces part.
#define CARNOT_SPEC_WORD(name, value, words) \
  { name, CARNOT_ATTR_STRING, false, 0, value, words }
#define CARNOT_SPEC_REQUIRED_WORD(name, words) \
  { name, CARNOT_ATTR_STRING, true, 0, NULL, words }
#define CARNOT_SPEC_LIST(name, type) \
  { name, CARNOT_ATTR_##type, false, 0, NULL, NULL }
#define CARNOT_SPEC_REQUIRED(name, type) \
  { name, CARNOT_ATTR_##type, true, 0, NULL, NULL }
#define CARNOT_SPEC_END \
  { NULL, CARNOT_ATTR_NONE, false, 0, NULL, NULL }

// ---- whole tensors as one type of number ----

// The elements of |t| as one type of number: its own data, or a converted copy in the memory of the
// run. NULL for an absent tensor. OUT_OF_MEMORY.
carnot_status* carnot_call_f32(const carnot_call* call, const carnot_tensor* t,
                               const float** out) CARNOT_MUST_USE;
carnot_status* carnot_call_f64(const carnot_call* call, const carnot_tensor* t,
                               const double** out) CARNOT_MUST_USE;
carnot_status* carnot_call_i64(const carnot_call* call, const carnot_tensor* t,
                               const int64_t** out) CARNOT_MUST_USE;
// Memory to compute the elements of |t| in: its own data, or a buffer for carnot_write_*. NULL for
// an absent tensor. OUT_OF_MEMORY.
carnot_status* carnot_call_f32_out(const carnot_call* call, carnot_tensor* t,
                                   float** out) CARNOT_MUST_USE;
carnot_status* carnot_call_f64_out(const carnot_call* call, carnot_tensor* t,
                                   double** out) CARNOT_MUST_USE;
carnot_status* carnot_call_i64_out(const carnot_call* call, carnot_tensor* t,
                                   int64_t** out) CARNOT_MUST_USE;
// Converts |from|, what carnot_call_*_out gave, into |t|; nothing where it is the tensor's own
// data.
void carnot_write_f32(carnot_tensor* t, const float* from);
void carnot_write_f64(carnot_tensor* t, const double* from);
void carnot_write_i64(carnot_tensor* t, const int64_t* from);

// Zeroed memory for |count| items.
static inline carnot_status* carnot_call_array(const carnot_call* call, int64_t count, size_t size,
                                               void* out_items) {
  void* memory = NULL;
  size_t bytes;
  CARNOT_CHECK(count >= 0 && carnot_mul_size((size_t)count, size, &bytes), OUT_OF_RANGE,
               "%lld items of %zu bytes are too many", (long long)count, size);
  CARNOT_TRY(carnot_call_alloc(call, bytes, &memory));
  if (bytes) memset(memory, 0, bytes);
  memcpy(out_items, &memory, sizeof(memory));
  return NULL;
}

// The first element of an optional tensor, or |otherwise|.
static inline int64_t carnot_scalar_i64(const carnot_tensor* t, int64_t otherwise) {
  return t && carnot_tensor_count(t) > 0 ? carnot_load_i64(t->dtype, t->data, 0) : otherwise;
}
static inline double carnot_scalar_f64(const carnot_tensor* t, double otherwise) {
  return t && carnot_tensor_count(t) > 0 ? carnot_load_f64(t->dtype, t->data, 0) : otherwise;
}

// ---- shapes ----

// Row-major strides, in elements.
static inline void carnot_strides(const int64_t* dims, int rank, int64_t* out_strides) {
  int64_t stride = 1;
  for (int i = rank - 1; i >= 0; i--) {
    out_strides[i] = stride;
    stride *= dims[i];
  }
}

// Strides that read |t| as if stretched to |rank| dimensions: 0 along those it lacks or has as 1.
static inline void carnot_broadcast_strides(const carnot_tensor* t, int rank,
                                            int64_t* out_strides) {
  int64_t stride = 1;
  for (int i = 0; i < rank; i++) out_strides[i] = 0;
  for (int i = t->rank - 1; i >= 0; i--) {
    int at = i + rank - t->rank;
    if (at >= 0) out_strides[at] = t->dims[i] == 1 ? 0 : stride;
    stride *= t->dims[i];
  }
}

// The offset of row-major position |index| of |dims| under |strides|.
static inline int64_t carnot_offset(int64_t index, const int64_t* dims, const int64_t* strides,
                                    int rank) {
  int64_t offset = 0;
  for (int i = rank - 1; i >= 0 && index; i--) {
    offset += index % dims[i] * strides[i];
    index /= dims[i];
  }
  return offset;
}

// Row-major position |index| of |dims| as coordinates.
static inline void carnot_unravel(int64_t index, const int64_t* dims, int rank, int64_t* out_at) {
  for (int i = rank - 1; i >= 0; i--) {
    out_at[i] = index % dims[i];
    index /= dims[i];
  }
}

// |t| seen as [outer, length, inner] around an axis.
typedef struct carnot_axis_view {
  int64_t outer, length, inner;
} carnot_axis_view;
static inline carnot_axis_view carnot_axis_view_of(const int64_t* dims, int rank, int axis) {
  return (carnot_axis_view){carnot_dims_count(dims, axis), dims[axis],
                            carnot_dims_count(dims + axis + 1, rank - axis - 1)};
}
// Where lane |i| of outer*inner begins; its elements are |inner| apart.
static inline int64_t carnot_axis_slice_start(const carnot_axis_view* lanes, int64_t i) {
  return i / lanes->inner * lanes->length * lanes->inner + i % lanes->inner;
}

// ---- axes ----

// A list of axes as a mask of |rank| bits; a repeated axis is INVALID_MODEL.
static inline carnot_status* carnot_axes_mask(const int64_t* axes, size_t count, int rank,
                                              unsigned* out_mask) {
  *out_mask = 0;
  for (size_t i = 0; i < count; i++) {
    int axis;
    CARNOT_TRY(carnot_axis(axes[i], rank, "axes", &axis));
    CARNOT_CHECK(!(*out_mask >> axis & 1), INVALID_MODEL, "axes has %d twice", axis);
    *out_mask |= 1u << axis;
  }
  return NULL;
}

// The elements of an optional integer tensor of at most |limit| elements; count 0 when absent.
static inline carnot_status* carnot_call_list(const carnot_call* call, int input, size_t limit,
                                              int64_t* out_values, size_t* out_count) {
  const carnot_tensor* t = carnot_call_in(call, input);
  *out_count = t ? (size_t)carnot_tensor_count(t) : 0;
  CARNOT_CHECK(*out_count <= limit, INVALID_MODEL, "input %d has %zu elements; at most %zu fit",
               input, *out_count, limit);
  if (t) carnot_load_block_i64(t->dtype, t->data, 0, 1, *out_count, out_values);
  return NULL;
}

// Plain integers for the elements of an integer input; false where one is not known.
static inline bool carnot_syms_plain(const carnot_sym* syms, size_t count, int64_t* out_values) {
  if (!syms) return false;
  for (size_t i = 0; i < count; i++) {
    if (!carnot_sym_is_const(syms[i])) return false;
    out_values[i] = syms[i].bits;
  }
  return true;
}

// ---- infer ----

// The input's rank is |rank|, or unknown: then *out_known is false.
static inline carnot_status* carnot_infer_rank(const carnot_infer* infer, int input, int min_rank,
                                               int max_rank, const carnot_type** out_type) {
  CARNOT_TRY(carnot_infer_tensor(infer, input, out_type));
  int rank = (*out_type)->rank;
  CARNOT_CHECK(rank < 0 || (rank >= min_rank && rank <= max_rank), INVALID_MODEL,
               "input %d has rank %d; a rank from %d to %d is required", input, rank, min_rank,
               max_rank);
  return NULL;
}

// Two inputs have one element type.
static inline carnot_status* carnot_infer_same_dtype(const carnot_infer* infer, int a, int b) {
  const carnot_type *x, *y;
  CARNOT_TRY(carnot_infer_tensor(infer, a, &x));
  CARNOT_TRY(carnot_infer_tensor(infer, b, &y));
  CARNOT_CHECK(x->dtype == y->dtype, INVALID_MODEL,
               "input %d is %s where input %d is %s; both must have one type", b,
               carnot_dtype_name(y->dtype), a, carnot_dtype_name(x->dtype));
  return NULL;
}

// The infer of operators whose output 0 is as input 0.
static inline carnot_status* carnot_infer_as_input(carnot_infer* infer) {
  const carnot_type* x;
  CARNOT_TRY(carnot_infer_tensor(infer, 0, &x));
  return carnot_infer_like(infer, 0, 0, x->dtype);
}

#endif  // CARNOT_OPS_UTIL_H_
