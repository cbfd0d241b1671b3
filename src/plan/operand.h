// Operand descriptors: what is known of an operand when tactics are selected.
#ifndef CARNOT_PLAN_OPERAND_H_
#define CARNOT_PLAN_OPERAND_H_

#include "ir/op.h"
#include "plan/format.h"

// One operand of a problem. A refittable engine keeps the descriptors of its steps, because packing
// new weights means calling prepare again.
typedef struct carnot_operand_desc {
  carnot_value_kind kind;
  carnot_format format;
  int rank;                       // -1 unknown
  int64_t dims[CARNOT_MAX_RANK];  // at the profile's optimum; -1 unknown
  int64_t min[CARNOT_MAX_RANK], max[CARNOT_MAX_RANK];
  bool is_constant;
  const carnot_tensor* tensor;  // data of a constant
} carnot_operand_desc;

// A constant whose elements are available when the engine is built.
static inline bool carnot_is_known(const carnot_operand_desc* t) {
  return t->is_constant && t->tensor && t->tensor->data;
}
// A float32 constant whose data is available at build time.
static inline bool carnot_is_f32_constant(const carnot_operand_desc* t) {
  return t->format.dtype == CARNOT_DTYPE_F32 && carnot_is_known(t);
}
static inline bool carnot_is_8bit(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_U8 || dtype == CARNOT_DTYPE_I8;
}

// Its rank is known, and so is each dimension, which is the same in every profile.
static inline bool carnot_has_fixed_dims(const carnot_operand_desc* t) {
  bool fixed = t->rank >= 0;
  for (int d = 0; fixed && d < t->rank; d++) fixed = t->dims[d] >= 0 && t->min[d] == t->max[d];
  return fixed;
}

#endif  // CARNOT_PLAN_OPERAND_H_
