// The format of a value: how its elements are stored. A value's declared type is the graph's and
// never changes; its format is chosen by selection.
#ifndef CARNOT_PLAN_FORMAT_H_
#define CARNOT_PLAN_FORMAT_H_

#include "base/dtype.h"

// Order of a tensor's axes in memory. X(NAME, "name").
#define CARNOT_LAYOUTS(X)                                        \
  X(ROW_MAJOR, "row_major")         /* the last axis is dense */ \
  X(CHANNELS_LAST, "channels_last") /* axis 1 is dense: NHWC of an NCHW tensor */

typedef enum carnot_layout {
#define CARNOT_LAYOUT_ENUM(NAME, name) CARNOT_LAYOUT_##NAME,
  CARNOT_LAYOUTS(CARNOT_LAYOUT_ENUM)
#undef CARNOT_LAYOUT_ENUM
      CARNOT_LAYOUT_COUNT
} carnot_layout;

// A memory space: host memory, or the memory of accelerator |i| as CARNOT_MEMORY_DEVICE + i. Device
// indices are those of the plan: 0 is the accelerator that the engine was built for.
typedef enum carnot_memory_space {
  CARNOT_MEMORY_HOST,
  CARNOT_MEMORY_DEVICE,
  CARNOT_MEMORY_SPACE_COUNT = 17
} carnot_memory_space;
static inline bool carnot_memory_is_device(carnot_memory_space space) {
  return space != CARNOT_MEMORY_HOST;
}
// The accelerator's index in the plan; -1 for host memory.
static inline int carnot_memory_device_index(carnot_memory_space space) {
  return (int)space - (int)CARNOT_MEMORY_DEVICE;
}

// real = scale * (stored - zero_point). PER_TENSOR has its numbers here; PER_AXIS and BLOCKED have
// one scale per slice of |axis|, or per |block| consecutive elements along it, in constants of the
// plan. X(NAME, "name").
#define CARNOT_QUANT_SCHEMES(X) \
  X(NONE, "none")               \
  X(PER_TENSOR, "per_tensor")   \
  X(PER_AXIS, "per_axis")       \
  X(BLOCKED, "blocked")
typedef enum carnot_quant_scheme {
#define CARNOT_QUANT_ENUM(NAME, name) CARNOT_QUANT_##NAME,
  CARNOT_QUANT_SCHEMES(CARNOT_QUANT_ENUM)
#undef CARNOT_QUANT_ENUM
      CARNOT_QUANT_SCHEME_COUNT
} carnot_quant_scheme;

typedef struct carnot_quantization {
  carnot_quant_scheme scheme;
  int32_t axis;        // PER_AXIS, BLOCKED
  int32_t block;       // BLOCKED: elements along |axis| that share a scale
  float scale;         // PER_TENSOR
  int32_t zero_point;  // PER_TENSOR
  uint32_t scales,
      zero_points;  // PER_AXIS, BLOCKED: plan values that hold them; zero_points NONE: 0
} carnot_quantization;

typedef struct carnot_format {
  carnot_dtype dtype;  // of the stored elements
  carnot_layout layout;
  carnot_memory_space memory;
  carnot_quantization quant;
} carnot_format;

const char* carnot_layout_name(carnot_layout layout);
const char* carnot_quant_scheme_name(carnot_quant_scheme scheme);
// Strides in elements of a dense tensor [rank] of these dimensions.
void carnot_layout_strides(carnot_layout layout, int rank, const int64_t* dims,
                           int64_t* out_strides);

// Two formats are equal when every field that their scheme uses is equal.
bool carnot_format_equal(const carnot_format* a, const carnot_format* b);
// Equal formats have equal hashes, on every machine.
uint64_t carnot_format_hash(const carnot_format* format, uint64_t seed);
// "float32 channels_last device:0", "int8 row_major host per_axis(1)". Writes at most |size| bytes
// with the NUL and returns |text|.
const char* carnot_format_name(const carnot_format* format, char* text, size_t size);
// Strides in elements of a dense tensor [rank].
void carnot_format_strides(const carnot_format* format, int rank, const int64_t* dims,
                           int64_t* out_strides);
// Bytes of a dense tensor [rank]. INVALID_MODEL for a negative dimension, OUT_OF_RANGE when there
// are too many elements.
carnot_status* carnot_format_bytes(const carnot_format* format, int rank, const int64_t* dims,
                                   size_t* out_bytes) CARNOT_MUST_USE;
// Every field is a value of its enum and fits the others; INVALID_MODEL names the field, the value
// found and the value required.
carnot_status* carnot_format_verify(const carnot_format* format) CARNOT_MUST_USE;

#endif  // CARNOT_PLAN_FORMAT_H_
