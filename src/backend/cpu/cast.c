// Casts among float32, the integers of 8, 32 and 64 bits and truth values that networks hold, in
// plain loops that the compiler vectorises.
#include "backend/cpu/cpu.h"

typedef void cast_fn(const void* from, void* to, int64_t count);

#define CAST(from_type, to_type)                                                           \
  static void cast_##from_type##_to_##to_type(const void* from, void* to, int64_t count) { \
    const from_type* restrict x = from;                                                    \
    to_type* restrict y = to;                                                              \
    for (int64_t i = 0; i < count; i++) y[i] = (to_type)x[i];                              \
  }
// The same with |convert| for what C leaves open or has otherwise.
#define CAST_BY(from_type, name, to_type, convert)                                      \
  static void cast_##from_type##_to_##name(const void* from, void* to, int64_t count) { \
    const from_type* restrict x = from;                                                 \
    to_type* restrict y = to;                                                           \
    for (int64_t i = 0; i < count; i++) y[i] = (to_type)convert(x[i]);                  \
  }
CAST(int32_t, float)
CAST(int64_t, float)
CAST(uint8_t, float)
CAST(int8_t, float)
CAST(int32_t, int64_t)
CAST(uint8_t, int64_t)
CAST(uint8_t, int32_t)
CAST(int8_t, int32_t)
CAST(int64_t, int32_t)

// Saturated; NaN gives 0.
static inline int64_t to_int64(float x) {
  if (x >= 0x1p63f) return INT64_MAX;
  return x >= -0x1p63f ? (int64_t)x : x != x ? 0 : INT64_MIN;
}
static inline int32_t to_int32(float x) {
  if (x >= 0x1p31f) return INT32_MAX;
  return x >= -0x1p31f ? (int32_t)x : x != x ? 0 : INT32_MIN;
}
#define IS_TRUE(x) ((x) != 0)
CAST_BY(float, int64_t, int64_t, to_int64)
CAST_BY(float, int32_t, int32_t, to_int32)
CAST_BY(float, bool, uint8_t, IS_TRUE)
CAST_BY(int64_t, bool, uint8_t, IS_TRUE)
CAST_BY(int32_t, bool, uint8_t, IS_TRUE)

// Truth values are bytes of 0 or 1.
static const struct {
  carnot_dtype from, to;
  cast_fn* run;
} kCasts[] = {{CARNOT_DTYPE_I32, CARNOT_DTYPE_F32, cast_int32_t_to_float},
              {CARNOT_DTYPE_I64, CARNOT_DTYPE_F32, cast_int64_t_to_float},
              {CARNOT_DTYPE_U8, CARNOT_DTYPE_F32, cast_uint8_t_to_float},
              {CARNOT_DTYPE_BOOL, CARNOT_DTYPE_F32, cast_uint8_t_to_float},
              {CARNOT_DTYPE_I8, CARNOT_DTYPE_F32, cast_int8_t_to_float},
              {CARNOT_DTYPE_I32, CARNOT_DTYPE_I64, cast_int32_t_to_int64_t},
              {CARNOT_DTYPE_BOOL, CARNOT_DTYPE_I64, cast_uint8_t_to_int64_t},
              {CARNOT_DTYPE_U8, CARNOT_DTYPE_I64, cast_uint8_t_to_int64_t},
              {CARNOT_DTYPE_BOOL, CARNOT_DTYPE_I32, cast_uint8_t_to_int32_t},
              {CARNOT_DTYPE_U8, CARNOT_DTYPE_I32, cast_uint8_t_to_int32_t},
              {CARNOT_DTYPE_I8, CARNOT_DTYPE_I32, cast_int8_t_to_int32_t},
              {CARNOT_DTYPE_I64, CARNOT_DTYPE_I32, cast_int64_t_to_int32_t},
              {CARNOT_DTYPE_F32, CARNOT_DTYPE_I64, cast_float_to_int64_t},
              {CARNOT_DTYPE_F32, CARNOT_DTYPE_I32, cast_float_to_int32_t},
              {CARNOT_DTYPE_F32, CARNOT_DTYPE_BOOL, cast_float_to_bool},
              {CARNOT_DTYPE_I64, CARNOT_DTYPE_BOOL, cast_int64_t_to_bool},
              {CARNOT_DTYPE_I32, CARNOT_DTYPE_BOOL, cast_int32_t_to_bool}};

static cast_fn* find(carnot_dtype from, carnot_dtype to) {
  for (size_t i = 0; i < sizeof(kCasts) / sizeof(kCasts[0]); i++)
    if (kCasts[i].from == from && kCasts[i].to == to) return kCasts[i].run;
  return NULL;
}

static const char* cast_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_CAST || problem->region->node_count != 1) return "";
  const carnot_operand_type *x = &problem->inputs[0], *y = &problem->outputs[0];
  if (x->kind != CARNOT_VALUE_TENSOR || !find(x->dtype, y->dtype))
    return carnot_because(reason, size, "no loop from %s to %s", carnot_dtype_name(x->dtype),
                          carnot_dtype_name(y->dtype));
  problem->outputs[0].layout = x->layout;  // elements stay where they are
  return NULL;
}

static carnot_status* cast_check(const carnot_step_view* step) {
  CARNOT_CHECK(step->region->node_count == 1 && step->region->nodes[0].op == CARNOT_OP_CAST,
               INVALID_MODEL, "the step holds no cast");
  return NULL;
}

enum { kPart = 1 << 15 };

static carnot_status* cast_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, void* memory,
                                 size_t* out_workspace_bytes) {
  (void)step;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  *out_workspace_bytes = 0;
  CARNOT_CHECK(find(x->dtype, y->dtype) && x->rank == y->rank, INVALID_MODEL,
               "no loop from %s to %s", carnot_dtype_name(x->dtype), carnot_dtype_name(y->dtype));
  int64_t extent = 1;  // dense in some order, the same on both sides
  for (int d = 0; d < x->rank; d++) {
    CARNOT_CHECK(x->dims[d] == y->dims[d] && (x->dims[d] == 1 || x->strides[d] == y->strides[d]),
                 INVALID_MODEL, "dimension %d lies differently on both sides", d);
    if (x->dims[d] > 1) extent += (x->dims[d] - 1) * x->strides[d];
  }
  *(int64_t*)memory = carnot_dims_count(x->dims, x->rank);
  CARNOT_CHECK(extent == *(int64_t*)memory || *(int64_t*)memory == 0, INVALID_MODEL,
               "the elements are not dense");
  return NULL;
}

typedef struct cast_run {
  cast_fn* run;
  const char* x;
  char* y;
  int64_t count, x_bytes, y_bytes;
} cast_run;

static void cast_part(void* argument, int64_t part) {
  const cast_run* run = argument;
  int64_t at = part * kPart;
  run->run(run->x + at * run->x_bytes, run->y + at * run->y_bytes,
           carnot_min_i64(kPart, run->count - at));
}

static carnot_status* cast_run_row(const carnot_step_view* step, void* memory,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)step, (void)workspace;
  cast_run run = {.run = find(inputs[0].dtype, outputs[0].dtype),
                  .x = inputs[0].data,
                  .y = outputs[0].data,
                  .count = *(int64_t*)memory,
                  .x_bytes = carnot_dtype_bits(inputs[0].dtype) / 8,
                  .y_bytes = carnot_dtype_bits(outputs[0].dtype) / 8};
  carnot_executor_parallel(executor, carnot_ceildiv(run.count, kPart), cast_part, &run);
  return NULL;
}

const carnot_tactic_row carnot_tactic_cast = {.name = "cpu_cast",
                                              .anchor = CARNOT_OP_CAST,
                                              .isa = CARNOT_ISA_SCALAR,
                                              .numerics = "exact",
                                              .reject = cast_reject,
                                              .check = cast_check,
                                              .shape = cast_shape,
                                              .run = cast_run_row};
