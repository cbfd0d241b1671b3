// Facts about data types, and conversion between storage and the four types that reference kernels
// compute in.
#ifndef CARNOT_BASE_DTYPE_H_
#define CARNOT_BASE_DTYPE_H_

#include "base/status.h"
#include "carnot/types.h"

typedef enum carnot_dtype_kind {
  CARNOT_KIND_NONE,
  CARNOT_KIND_FLOAT,
  CARNOT_KIND_INT,
  CARNOT_KIND_UINT,
  CARNOT_KIND_BOOL,
  CARNOT_KIND_COMPLEX,
  CARNOT_KIND_STRING,
} carnot_dtype_kind;

// The kind of numbers that |dtype| holds; NONE for INVALID.
carnot_dtype_kind carnot_dtype_kind_of(carnot_dtype dtype);
// Floating point of any width, FP8 and smaller included.
static inline bool carnot_dtype_is_float(carnot_dtype dtype) {
  return carnot_dtype_kind_of(dtype) == CARNOT_KIND_FLOAT;
}
// FP16 or BF16.
static inline bool carnot_dtype_is_half(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F16 || dtype == CARNOT_DTYPE_BF16;
}
// Signed or unsigned integers, not bool.
static inline bool carnot_dtype_is_integer(carnot_dtype dtype) {
  carnot_dtype_kind kind = carnot_dtype_kind_of(dtype);
  return kind == CARNOT_KIND_INT || kind == CARNOT_KIND_UINT;
}
// True when |dtype| is one of the known types, not INVALID.
bool carnot_dtype_valid(carnot_dtype dtype);

// Element |index| of packed storage at |data|, as a number.
double carnot_load_f64(carnot_dtype dtype, const void* data, size_t index);
// The same as an integer: U64 keeps its bits, bool is 0 or 1.
int64_t carnot_load_i64(carnot_dtype dtype, const void* data, size_t index);
// Floats round to nearest even and follow their format's rule at the ends (infinity where it has
// one, else saturation); integers keep their low bits from i64 and saturate from f64 (NaN gives 0);
// bool is value != 0.
void carnot_store_f64(carnot_dtype dtype, void* data, size_t index, double value);
// The same from an integer.
void carnot_store_i64(carnot_dtype dtype, void* data, size_t index, int64_t value);

// |count| elements from |start| on, |step| elements apart, to or from a dense array. F32 takes any
// floating type but F64 (widths up to 32 bits are exact); F64 any number; I64 any integer or bool
// (U64 keeps its bits).
void carnot_load_block_f32(carnot_dtype dtype, const void* data, size_t start, int64_t step,
                           size_t count, float* out);
// As F64.
void carnot_load_block_f64(carnot_dtype dtype, const void* data, size_t start, int64_t step,
                           size_t count, double* out);
// As I64.
void carnot_load_block_i64(carnot_dtype dtype, const void* data, size_t start, int64_t step,
                           size_t count, int64_t* out);
// Stores with the rounding of carnot_store_f64.
void carnot_store_block_f32(carnot_dtype dtype, void* data, size_t start, int64_t step,
                            size_t count, const float* in);
// From F64.
void carnot_store_block_f64(carnot_dtype dtype, void* data, size_t start, int64_t step,
                            size_t count, const double* in);
// From I64.
void carnot_store_block_i64(carnot_dtype dtype, void* data, size_t start, int64_t step,
                            size_t count, const int64_t* in);

// Copies one element between arrays of one type, packed types included.
void carnot_copy_element(carnot_dtype dtype, void* dst, size_t dst_index, const void* src,
                         size_t src_index);

// The small floating formats, as bits in the low end of a word.
// FP16; from_float rounds to nearest even.
float carnot_half_to_float(uint16_t bits);
uint16_t carnot_half_from_float(float value);
// BF16; from_float rounds to nearest even.
float carnot_bfloat_to_float(uint16_t bits);
uint16_t carnot_bfloat_from_float(float value);
// Any F8, F6 or F4 format. |saturate|: overflow gives the largest finite value, else infinity or
// NaN as the format has it (ONNX Cast-19, table of saturation).
float carnot_minifloat_to_float(carnot_dtype dtype, uint8_t bits);
// Rounds to nearest even.
uint8_t carnot_minifloat_from_float(carnot_dtype dtype, float value, bool saturate);

#endif  // CARNOT_BASE_DTYPE_H_
