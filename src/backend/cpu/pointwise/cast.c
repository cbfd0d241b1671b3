// Casts between integers, truth values, float32 and float64, in plain loops that the compiler
// vectorises. As the reference kernel has it: floats are truncated, kept within the integer's
// range, and 0 where they are no number; integers keep their low bits; anything to bool is x != 0.
#include "backend/cpu/common/cpu.h"

typedef void cast_fn(const void* from, void* to, int64_t count);

#define CAST(name, from_type, to_type, expression)                    \
  static void name(const void* from, void* to, int64_t count) {       \
    const from_type* restrict x = from;                               \
    to_type* restrict y = to;                                         \
    for (int64_t i = 0; i < count; i++) y[i] = (to_type)(expression); \
  }

// |high|: the least float that is too large, a power of two.
#define TRUNCATE(bits, real, high)                \
  CAST(i##bits##_of_##real, real, int##bits##_t,  \
       x[i] != x[i]    ? 0                        \
       : x[i] <= -high ? INT##bits##_MIN          \
       : x[i] >= high  ? INT##bits##_MAX          \
                       : (int##bits##_t)x[i])      \
  CAST(u##bits##_of_##real, real, uint##bits##_t, \
       !(x[i] > 0)        ? 0                     \
       : x[i] >= 2 * high ? UINT##bits##_MAX      \
                          : (uint##bits##_t)x[i])
#define OF_REAL(real)              \
  TRUNCATE(8, real, (real)0x1p7)   \
  TRUNCATE(16, real, (real)0x1p15) \
  TRUNCATE(32, real, (real)0x1p31) \
  TRUNCATE(64, real, (real)0x1p63) \
  CAST(bool_of_##real, real, uint8_t, x[i] != 0)
OF_REAL(float)
OF_REAL(double)
CAST(double_of_float, float, double, x[i])
CAST(float_of_double, double, float, x[i])

#define OF_INTEGER(bits)                                \
  CAST(float_of_i##bits, int##bits##_t, float, x[i])    \
  CAST(float_of_u##bits, uint##bits##_t, float, x[i])   \
  CAST(double_of_i##bits, int##bits##_t, double, x[i])  \
  CAST(double_of_u##bits, uint##bits##_t, double, x[i]) \
  CAST(bool_of_##bits, uint##bits##_t, uint8_t, x[i] != 0)
OF_INTEGER(8)
OF_INTEGER(16)
OF_INTEGER(32)
OF_INTEGER(64)

#define LOW_BITS(to, from) CAST(n##to##_of_##from, uint##from##_t, uint##to##_t, x[i])
#define WIDER(to, from)                                      \
  CAST(i##to##_of_i##from, int##from##_t, int##to##_t, x[i]) \
  CAST(i##to##_of_u##from, uint##from##_t, int##to##_t, x[i])
#define OF_8              LOW_BITS(8, 8) WIDER(16, 8) WIDER(32, 8) WIDER(64, 8)
#define OF_16             LOW_BITS(8, 16) LOW_BITS(16, 16) WIDER(32, 16) WIDER(64, 16)
#define OF_32             LOW_BITS(8, 32) LOW_BITS(16, 32) LOW_BITS(32, 32) WIDER(64, 32)
#define OF_64             LOW_BITS(8, 64) LOW_BITS(16, 64) LOW_BITS(32, 64) LOW_BITS(64, 64)
#define INTEGERS_OF(bits) OF_##bits
INTEGERS_OF(8)
INTEGERS_OF(16)
INTEGERS_OF(32)
INTEGERS_OF(64)

// By log2 of bytes.
static cast_fn* const kOfFloat[2][4] = {{u8_of_float, u16_of_float, u32_of_float, u64_of_float},
                                        {i8_of_float, i16_of_float, i32_of_float, i64_of_float}};
static cast_fn* const kOfDouble[2][4] = {
    {u8_of_double, u16_of_double, u32_of_double, u64_of_double},
    {i8_of_double, i16_of_double, i32_of_double, i64_of_double}};
static cast_fn* const kToFloat[2][4] = {{float_of_u8, float_of_u16, float_of_u32, float_of_u64},
                                        {float_of_i8, float_of_i16, float_of_i32, float_of_i64}};
static cast_fn* const kToDouble[2][4] = {
    {double_of_u8, double_of_u16, double_of_u32, double_of_u64},
    {double_of_i8, double_of_i16, double_of_i32, double_of_i64}};
static cast_fn* const kToBool[4] = {bool_of_8, bool_of_16, bool_of_32, bool_of_64};
static cast_fn* const kOfUnsigned[4][4] = {{n8_of_8, i16_of_u8, i32_of_u8, i64_of_u8},
                                           {n8_of_16, n16_of_16, i32_of_u16, i64_of_u16},
                                           {n8_of_32, n16_of_32, n32_of_32, i64_of_u32},
                                           {n8_of_64, n16_of_64, n32_of_64, n64_of_64}};
static cast_fn* const kOfSigned[4][4] = {{n8_of_8, i16_of_i8, i32_of_i8, i64_of_i8},
                                         {n8_of_16, n16_of_16, i32_of_i16, i64_of_i16},
                                         {n8_of_32, n16_of_32, n32_of_32, i64_of_i32},
                                         {n8_of_64, n16_of_64, n32_of_64, n64_of_64}};

// log2 of the bytes of an integer or truth value; -1 of other types.
static int width_of(carnot_dtype dtype) {
  if (!carnot_dtype_is_integer(dtype) && dtype != CARNOT_DTYPE_BOOL) return -1;
  switch (carnot_dtype_bits(dtype)) {
    case 8: return 0;
    case 16: return 1;
    case 32: return 2;
    case 64: return 3;
    default: return -1;
  }
}

static cast_fn* find(carnot_dtype from, carnot_dtype to) {
  int x = width_of(from), y = width_of(to);
  bool from_signed = carnot_dtype_kind_of(from) == CARNOT_KIND_INT,
       to_signed = carnot_dtype_kind_of(to) == CARNOT_KIND_INT, to_bool = to == CARNOT_DTYPE_BOOL;
  if (from == to) return NULL;
  if (from == CARNOT_DTYPE_F32 && to == CARNOT_DTYPE_F64) return double_of_float;
  if (from == CARNOT_DTYPE_F64 && to == CARNOT_DTYPE_F32) return float_of_double;
  if (from == CARNOT_DTYPE_F32 && y >= 0) return to_bool ? bool_of_float : kOfFloat[to_signed][y];
  if (from == CARNOT_DTYPE_F64 && y >= 0) return to_bool ? bool_of_double : kOfDouble[to_signed][y];
  if (x < 0) return NULL;
  if (to == CARNOT_DTYPE_F32) return kToFloat[from_signed][x];
  if (to == CARNOT_DTYPE_F64) return kToDouble[from_signed][x];
  if (y < 0) return NULL;
  return to_bool ? kToBool[x] : (from_signed ? kOfSigned : kOfUnsigned)[x][y];
}

static const char* cast_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_CAST || problem->region->node_count != 1) return "";
  const carnot_operand_desc *x = &problem->inputs[0], *y = &problem->outputs[0];
  if (x->kind != CARNOT_VALUE_TENSOR || !find(x->format.dtype, y->format.dtype))
    return carnot_because(reason, size, "no loop from %s to %s", carnot_dtype_name(x->format.dtype),
                          carnot_dtype_name(y->format.dtype));
  problem->outputs[0].format.layout = x->format.layout;  // elements stay where they are
  return NULL;
}

static carnot_status* cast_validate(const carnot_step_view* step) {
  CARNOT_CHECK(step->region->node_count == 1 && step->region->nodes[0].op == CARNOT_OP_CAST,
               INVALID_MODEL, "the step holds no cast");
  return NULL;
}

enum { kPart = 1 << 15 };

static carnot_status* cast_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  (void)step;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  *out_workspace_bytes = 0;
  CARNOT_CHECK(find(x->format.dtype, y->format.dtype) && x->rank == y->rank, INVALID_MODEL,
               "no loop from %s to %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(y->format.dtype));
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

static carnot_status* cast_run_all(const carnot_step_view* step, void* memory,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  (void)step, (void)workspace;
  cast_run run = {.run = find(inputs[0].format.dtype, outputs[0].format.dtype),
                  .x = inputs[0].data,
                  .y = outputs[0].data,
                  .count = *(int64_t*)memory,
                  .x_bytes = carnot_dtype_bits(inputs[0].format.dtype) / 8,
                  .y_bytes = carnot_dtype_bits(outputs[0].format.dtype) / 8};
  carnot_executor_parallel(executor, carnot_ceildiv(run.count, kPart), cast_part, &run);
  return NULL;
}

const carnot_tactic carnot_tactic_cast = {.name = "cpu_cast",
                                          .anchor = CARNOT_OP_CAST,
                                          .isa = CARNOT_ISA_SCALAR,
                                          .numerics = CARNOT_NUMERICS_EXACT,
                                          .reject = cast_reject,
                                          .validate = cast_validate,
                                          .configure = cast_configure,
                                          .run = cast_run_all};
