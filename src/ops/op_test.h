// For the tests of operators: tensors from lists, and one call of an operator with one thread.
#ifndef CARNOT_OPS_OP_TEST_H_
#define CARNOT_OPS_OP_TEST_H_

// cmocka wants these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/execute.h"

// Lists and dimensions of literal tests.
#define DIMS(...) ((const int64_t[]){__VA_ARGS__}), (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8)
#define LIST(...) ((const double[]){__VA_ARGS__})

typedef struct op_test {
  carnot_call_host host;  // first: the host's functions find the test
  carnot_arena arena;
  carnot_infer_scratch scratch;
  carnot_attrs attrs;
} op_test;

static inline carnot_status* op_test_alloc(const carnot_call_host* host, size_t bytes,
                                           void** out_memory) {
  op_test* t = (op_test*)(uintptr_t)host;
  return carnot_arena_try(&t->arena, (bytes + 127) / 64, 64, "a test", out_memory);
}

static inline void op_test_init(op_test* t) {
  memset(t, 0, sizeof(*t));
  t->host.alloc = op_test_alloc;
  t->host.seed = 1;
  carnot_infer_scratch_init(&t->scratch);
}
static inline void op_test_deinit(op_test* t) {
  carnot_infer_scratch_deinit(&t->scratch);
  carnot_arena_deinit(&t->arena);
}
static inline void op_test_int(op_test* t, const char* name, int64_t value) {
  carnot_attrs_set_int(&t->attrs, &t->arena, name, value);
}
static inline void op_test_text(op_test* t, const char* name, const char* value) {
  carnot_attrs_set_text(&t->attrs, &t->arena, name, value);
}
static inline void op_test_ints(op_test* t, const char* name, const int64_t* values, int count) {
  carnot_attrs_set_ints(&t->attrs, &t->arena, name, values, (size_t)count);
}

// A tensor of |values|, or of numbers in [-1, 1) that depend on |seed| when values is NULL.
static inline carnot_rt_value* op_test_tensor(op_test* t, carnot_dtype dtype, const int64_t* dims,
                                              int rank, const double* values, uint32_t seed) {
  carnot_rt_value* cell = CARNOT_NEW(&t->arena, carnot_rt_value);
  cell->kind = CARNOT_VALUE_TENSOR;
  cell->tensor.dtype = dtype;
  cell->tensor.rank = rank;
  for (int i = 0; i < rank; i++) cell->tensor.dims[i] = dims[i];
  size_t count = (size_t)carnot_tensor_count(&cell->tensor);
  cell->tensor.data = carnot_arena_alloc(&t->arena, count + 1, 8);
  for (size_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    double value = values ? values[i] : (double)(seed >> 8) / (1 << 23) - 1;
    carnot_store_f64(dtype, cell->tensor.data, i, value);
  }
  return cell;
}
static inline carnot_rt_value* op_test_floats(op_test* t, const int64_t* dims, int rank,
                                              const double* values) {
  return op_test_tensor(t, CARNOT_DTYPE_F32, dims, rank, values, 1);
}

// Runs the operator; fails the test where it fails. The outputs are new cells.
static inline void op_test_run(op_test* t, const carnot_op_row* row, int input_count,
                               const carnot_rt_value* const* inputs, int output_count,
                               carnot_rt_value** outputs) {
  for (int i = 0; i < output_count; i++) outputs[i] = CARNOT_NEW(&t->arena, carnot_rt_value);
  carnot_status* status = carnot_execute(&t->scratch, row, &t->attrs, &t->host, input_count, inputs,
                                         output_count, outputs);
  if (status) fail_msg("%s: %s", row->name, carnot_status_message(status));
}
// The same for one output.
static inline const carnot_tensor* op_test_run1(op_test* t, const carnot_op_row* row,
                                                int input_count,
                                                const carnot_rt_value* const* inputs) {
  carnot_rt_value* output;
  op_test_run(t, row, input_count, inputs, 1, &output);
  return &output->tensor;
}
// The operator refuses with |code|.
static inline void op_test_refuses(op_test* t, const carnot_op_row* row, int input_count,
                                   const carnot_rt_value* const* inputs, carnot_code code) {
  carnot_rt_value* output = CARNOT_NEW(&t->arena, carnot_rt_value);
  carnot_status* status =
      carnot_execute(&t->scratch, row, &t->attrs, &t->host, input_count, inputs, 1, &output);
  assert_int_equal(carnot_status_code(status), code);
  carnot_status_free(status);
}

static inline double op_test_at(const carnot_tensor* t, int64_t i) {
  return carnot_load_f64(t->dtype, t->data, (size_t)i);
}
// Dimensions and elements; NaN equals NaN.
static inline void op_test_expect(const carnot_tensor* t, const int64_t* dims, int rank,
                                  const double* values, double tolerance) {
  assert_int_equal(t->rank, rank);
  for (int i = 0; i < rank; i++) assert_int_equal(t->dims[i], dims[i]);
  for (int64_t i = 0; i < carnot_tensor_count(t); i++) {
    double found = op_test_at(t, i), wanted = values[i];
    bool same = found == wanted || (found != found && wanted != wanted) ||
                fabs(found - wanted) <= tolerance * (1 + fabs(wanted));
    if (!same) fail_msg("element %lld is %.9g, wanted %.9g", (long long)i, found, wanted);
  }
}

#endif  // CARNOT_OPS_OP_TEST_H_
