// Casts in plain loops that the compiler vectorises.
#include "kernel/cpu/pointwise/cast.h"

#include "kernel/cpu/common/kernels_isa.h"

typedef void cast_fn(const void* from, void* to, int64_t count);

#define CAST(name, from_type, to_type, expression)                    \
  static void name(const void* from, void* to, int64_t count) {       \
    const from_type* restrict x = from;                               \
    to_type* restrict y = to;                                         \
    for (int64_t i = 0; i < count; ++i) y[i] = (to_type)(expression); \
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

static bool is_same(carnot_cast_type a, carnot_cast_type b) {
  return a.is_float == b.is_float && a.is_signed == b.is_signed && a.is_truth == b.is_truth &&
         a.bytes_log2 == b.bytes_log2;
}

static cast_fn* find(carnot_cast_type from, carnot_cast_type to) {
  const int x = from.bytes_log2, y = to.bytes_log2;
  const bool is_double = from.is_float && x == 3;
  if (is_same(from, to)) return NULL;
  if (from.is_float && to.is_float) return is_double ? float_of_double : double_of_float;
  if (from.is_float && to.is_truth) return is_double ? bool_of_double : bool_of_float;
  if (from.is_float) return (is_double ? kOfDouble : kOfFloat)[to.is_signed][y];
  if (to.is_float) return (y == 3 ? kToDouble : kToFloat)[from.is_signed][x];
  return to.is_truth ? kToBool[x] : (from.is_signed ? kOfSigned : kOfUnsigned)[x][y];
}

bool CARNOT_KERNEL(cast)(carnot_cast_type from, carnot_cast_type to, const void* x, void* y,
                         int64_t n) {
  cast_fn* const run = find(from, to);
  if (!run) return false;
  if (n > 0) run(x, y, n);
  return true;
}
