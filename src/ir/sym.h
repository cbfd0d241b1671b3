// Symbolic dimensions: expressions over symbols in checked 64-bit integers, with some float
// scalars.
//
// A carnot_sym is either a plain integer or a handle of an expression in a table. Expressions are
// hash-consed and simplified as they are made, so equal handles mean equal values; different
// handles prove nothing. Every expression carries an interval and a divisor. The same functions
// serve concrete arithmetic at run time: on plain integers they touch no table. Overflow and
// division by zero give a symbol of unknown value (build) or an error (evaluation).
#ifndef CARNOT_IR_SYM_H_
#define CARNOT_IR_SYM_H_

#include "base/arena.h"
#include "base/status.h"
#include "carnot/types.h"

typedef struct carnot_sym {
  int64_t bits;
} carnot_sym;

#define CARNOT_SYM_LIMIT ((int64_t)1 << 62)
// The maximum of a dimension that has none: storage is not planned for such sizes.
#define CARNOT_DIM_UNBOUNDED ((int64_t)1 << 40)

// X(NAME, "text", operands). Integer operators first; F_ take and give floats.
// clang-format off
#define CARNOT_SYM_OPS(X)                                                                          \
  X(SYMBOL, "symbol", 0)                                                                           \
  X(ADD, "+", 2)                                                                                   \
  X(SUB, "-", 2)                                                                                   \
  X(MUL, "*", 2)                                                                                   \
  X(FLOORDIV, "floordiv", 2)                                                                       \
  X(CEILDIV, "ceildiv", 2) X(TRUNCDIV, "truncdiv", 2) X(MOD, "mod", 2) X(MIN, "min", 2)            \
      X(MAX, "max", 2) X(EQ, "==", 2) X(LT, "<", 2) X(AND, "and", 2) X(OR, "or", 2)                \
          X(NOT, "not", 1) X(SELECT, "select", 3) X(F_CONST, "float", 0) X(F_FROM_INT, "float", 1) \
              X(F_TO_INT, "int", 1) X(F_ADD, "+.", 2) X(F_SUB, "-.", 2) X(F_MUL, "*.", 2)          \
                  X(F_DIV, "/.", 2) X(F_FLOOR, "floor", 1) X(F_CEIL, "ceil", 1)                    \
                      X(F_ROUND, "round", 1) X(F_SQRT, "sqrt", 1) X(F_LT, "<.", 2)                 \
                          X(F_EQ, "==.", 2) X(F_ROUND32, "f32", 1)
// clang-format on

typedef enum carnot_sym_op {
#define CARNOT_SYM_ENUM(NAME, text, arity) CARNOT_SYM_##NAME,
  CARNOT_SYM_OPS(CARNOT_SYM_ENUM)
#undef CARNOT_SYM_ENUM
      CARNOT_SYM_OP_COUNT
} carnot_sym_op;

// One expression; operands are handles or plain integers.
typedef struct carnot_sym_expr {
  carnot_sym_op op;
  carnot_sym a, b, c;  // F_CONST keeps the bits of a double in a
  int64_t min, max;    // inclusive; of the integer value
  int64_t divisor;     // the value is a multiple of it; ≥ 1
  const char* name;    // of a SYMBOL, may be NULL
} carnot_sym_expr;

// A table of expressions; one thread at a time.
typedef struct carnot_syms {
  carnot_arena arena;
  carnot_sym_expr* items;
  size_t count, capacity;
  uint32_t* buckets;  // hash table of indices + 1
  size_t bucket_count;
  bool failed;  // there was no memory for an expression since init or reset
} carnot_syms;

void carnot_syms_init(carnot_syms* syms);
void carnot_syms_deinit(carnot_syms* syms);
// Forgets all expressions, the failure included, and keeps the memory.
void carnot_syms_reset(carnot_syms* syms);
// OUT_OF_MEMORY when there was no memory for an expression. The function that makes it returns the
// plain integer 1 in its place, which is valid everywhere and refers to no table; what is computed
// from it is dropped with this status.
carnot_status* carnot_syms_status(const carnot_syms* syms) CARNOT_MUST_USE;
// |status|, or OUT_OF_MEMORY in its place when the table failed. Takes |status|.
carnot_status* carnot_syms_end(const carnot_syms* syms, carnot_status* status) CARNOT_MUST_USE;

static inline carnot_sym carnot_sym_of(int64_t value) { return (carnot_sym){value}; }
static inline bool carnot_sym_is_const(carnot_sym s) { return s.bits >= -CARNOT_SYM_LIMIT; }
static inline bool carnot_sym_is(carnot_sym s, int64_t value) { return s.bits == value; }
// Proved equal.
static inline bool carnot_sym_same(carnot_sym a, carnot_sym b) { return a.bits == b.bits; }
// The index of a handle's expression.
static inline size_t carnot_sym_index(carnot_sym s) { return (size_t)(s.bits - INT64_MIN); }
static inline const carnot_sym_expr* carnot_sym_get(const carnot_syms* syms, carnot_sym s) {
  return &syms->items[carnot_sym_index(s)];
}

// A fresh symbol in [min, max]; |name| is copied and may be NULL.
carnot_sym carnot_sym_new(carnot_syms* syms, const char* name, int64_t min, int64_t max);
// The float constant |value|.
carnot_sym carnot_sym_float(carnot_syms* syms, double value);
// |op| of the operands (c and b ignored where it takes fewer). On plain integers in range: a plain
// integer.
carnot_sym carnot_sym_make(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b,
                           carnot_sym c);

// The expression as given, without simplification: for copying tables.
carnot_sym carnot_sym_intern(carnot_syms* syms, carnot_sym_op op, carnot_sym a, carnot_sym b,
                             carnot_sym c);

static inline carnot_sym carnot_sym_add(carnot_syms* t, carnot_sym a, carnot_sym b) {
  return carnot_sym_make(t, CARNOT_SYM_ADD, a, b, carnot_sym_of(0));
}
static inline carnot_sym carnot_sym_sub(carnot_syms* t, carnot_sym a, carnot_sym b) {
  return carnot_sym_make(t, CARNOT_SYM_SUB, a, b, carnot_sym_of(0));
}
static inline carnot_sym carnot_sym_mul(carnot_syms* t, carnot_sym a, carnot_sym b) {
  return carnot_sym_make(t, CARNOT_SYM_MUL, a, b, carnot_sym_of(0));
}
static inline carnot_sym carnot_sym_floordiv(carnot_syms* t, carnot_sym a, carnot_sym b) {
  return carnot_sym_make(t, CARNOT_SYM_FLOORDIV, a, b, carnot_sym_of(0));
}
static inline carnot_sym carnot_sym_ceildiv(carnot_syms* t, carnot_sym a, carnot_sym b) {
  return carnot_sym_make(t, CARNOT_SYM_CEILDIV, a, b, carnot_sym_of(0));
}
static inline carnot_sym carnot_sym_min(carnot_syms* t, carnot_sym a, carnot_sym b) {
  return carnot_sym_make(t, CARNOT_SYM_MIN, a, b, carnot_sym_of(0));
}
static inline carnot_sym carnot_sym_max(carnot_syms* t, carnot_sym a, carnot_sym b) {
  return carnot_sym_make(t, CARNOT_SYM_MAX, a, b, carnot_sym_of(0));
}
// The product of |count| dimensions.
carnot_sym carnot_sym_product(carnot_syms* syms, const carnot_sym* dims, size_t count);

// True when the operator takes or gives floats, so that its value is a double.
bool carnot_sym_is_float(const carnot_syms* syms, carnot_sym s);
// The interval of |s|; a plain integer is its own.
void carnot_sym_range(const carnot_syms* syms, carnot_sym s, int64_t* out_min, int64_t* out_max);
int64_t carnot_sym_divisor(const carnot_syms* syms, carnot_sym s);

// Narrows the interval of a symbol; call carnot_syms_rebound when all are set.
void carnot_sym_set_range(carnot_syms* syms, carnot_sym symbol, int64_t min, int64_t max);
// Computes the intervals of all expressions again.
void carnot_syms_rebound(carnot_syms* syms);

// The value of |s| when symbol i (expression index i) has value |values|[i]; expressions may use
// the array as a memo: |known|[i] says whether values[i] is set. OUT_OF_RANGE on overflow,
// INVALID_ARGUMENT on x/0 or an unset symbol.
carnot_status* carnot_sym_eval(const carnot_syms* syms, carnot_sym s, int64_t* values, bool* known,
                               int64_t* out_value) CARNOT_MUST_USE;
// One operator on plain values, floats as the bits of a double: what eval applies and what engines
// are evaluated by.
carnot_status* carnot_sym_apply(carnot_sym_op op, int64_t a, int64_t b, int64_t c,
                                int64_t* out_value) CARNOT_MUST_USE;
int carnot_sym_arity(carnot_sym_op op);

// "4*batch + 1" into |text| of |size| bytes, cut if need be.
void carnot_sym_print(const carnot_syms* syms, carnot_sym s, char* text, size_t size);

#endif  // CARNOT_IR_SYM_H_
