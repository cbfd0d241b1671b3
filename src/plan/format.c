// Value formats: names, equality, hashes, sizes and checks.
#include "plan/format.h"

#include <stdio.h>

#include "base/hash.h"
#include "ir/tensor.h"

const char* carnot_layout_name(carnot_layout layout) {
  static const char* const kNames[] = {
#define LAYOUT_NAME(NAME, name) name,
      CARNOT_LAYOUTS(LAYOUT_NAME)
#undef LAYOUT_NAME
  };
  return (unsigned)layout < CARNOT_LAYOUT_COUNT ? kNames[layout] : "unknown";
}

const char* carnot_quant_scheme_name(carnot_quant_scheme scheme) {
  static const char* const kNames[] = {
#define SCHEME_NAME(NAME, name) name,
      CARNOT_QUANT_SCHEMES(SCHEME_NAME)
#undef SCHEME_NAME
  };
  return (unsigned)scheme < CARNOT_QUANT_SCHEME_COUNT ? kNames[scheme] : "unknown";
}

void carnot_layout_strides(carnot_layout layout, int rank, const int64_t* dims,
                           int64_t* out_strides) {
  int64_t stride = 1;
  if (layout == CARNOT_LAYOUT_CHANNELS_LAST && rank > 2) {
    out_strides[1] = 1;
    stride = dims[1];
    for (int i = rank - 1; i >= 2; i--) {
      out_strides[i] = stride;
      stride *= dims[i];
    }
    out_strides[0] = stride;
    return;
  }
  for (int i = rank - 1; i >= 0; i--) {
    out_strides[i] = stride;
    stride *= dims[i];
  }
}

// The fields that the scheme uses, in one order; the others are 0.
static carnot_quantization canonical(const carnot_quantization* q) {
  carnot_quantization out = {.scheme = q->scheme};
  if (q->scheme == CARNOT_QUANT_NONE) return out;
  if (q->scheme == CARNOT_QUANT_PER_TENSOR) {
    out.scale = q->scale;
    out.zero_point = q->zero_point;
    return out;
  }
  out.axis = q->axis;
  out.block = q->scheme == CARNOT_QUANT_BLOCKED ? q->block : 0;
  out.scales = q->scales;
  out.zero_points = q->zero_points;
  return out;
}

bool carnot_format_equal(const carnot_format* a, const carnot_format* b) {
  carnot_quantization qa = canonical(&a->quant), qb = canonical(&b->quant);
  return a->dtype == b->dtype && a->layout == b->layout && a->memory == b->memory &&
         qa.scheme == qb.scheme && qa.axis == qb.axis && qa.block == qb.block &&
         qa.scale == qb.scale && qa.zero_point == qb.zero_point && qa.scales == qb.scales &&
         qa.zero_points == qb.zero_points;
}

uint64_t carnot_format_hash(const carnot_format* format, uint64_t seed) {
  carnot_quantization q = canonical(&format->quant);
  float scale = q.scale + 0.0f;  // -0 equals 0
  uint32_t scale_bits;
  memcpy(&scale_bits, &scale, sizeof(scale_bits));
  const uint32_t words[] = {(uint32_t)format->dtype,
                            (uint32_t)format->layout,
                            (uint32_t)format->memory,
                            (uint32_t)q.scheme,
                            (uint32_t)q.axis,
                            (uint32_t)q.block,
                            scale_bits,
                            (uint32_t)q.zero_point,
                            q.scales,
                            q.zero_points};
  return carnot_hash(words, sizeof(words), seed);
}

const char* carnot_format_name(const carnot_format* format, char* text, size_t size) {
  char memory[32] = "host", quant[64] = "";
  const carnot_quantization* q = &format->quant;
  if (carnot_memory_is_device(format->memory))
    snprintf(memory, sizeof(memory), "device:%d", carnot_memory_device_index(format->memory));
  const char* scheme = carnot_quant_scheme_name(q->scheme);
  if (q->scheme == CARNOT_QUANT_PER_TENSOR)
    snprintf(quant, sizeof(quant), " %s(%.9g,%d)", scheme, (double)q->scale, q->zero_point);
  else if (q->scheme == CARNOT_QUANT_PER_AXIS)
    snprintf(quant, sizeof(quant), " %s(%d)", scheme, q->axis);
  else if (q->scheme != CARNOT_QUANT_NONE)
    snprintf(quant, sizeof(quant), " %s(%d,%d)", scheme, q->axis, q->block);
  snprintf(text, size, "%s %s %s%s", carnot_dtype_name(format->dtype),
           carnot_layout_name(format->layout), memory, quant);
  return text;
}

void carnot_format_strides(const carnot_format* format, int rank, const int64_t* dims,
                           int64_t* out_strides) {
  carnot_layout_strides(format->layout, rank, dims, out_strides);
}

carnot_status* carnot_format_bytes(const carnot_format* format, int rank, const int64_t* dims,
                                   size_t* out_bytes) {
  return carnot_dims_bytes(format->dtype, dims, rank, out_bytes);
}

carnot_status* carnot_format_verify(const carnot_format* f) {
  const carnot_quantization* q = &f->quant;
  CARNOT_CHECK((unsigned)f->dtype < CARNOT_DTYPE_COUNT, INVALID_MODEL,
               "format has type %d, must be in [0, %d)", (int)f->dtype, (int)CARNOT_DTYPE_COUNT);
  CARNOT_CHECK((unsigned)f->layout < CARNOT_LAYOUT_COUNT, INVALID_MODEL,
               "format has layout %d, must be in [0, %d)", (int)f->layout,
               (int)CARNOT_LAYOUT_COUNT);
  CARNOT_CHECK((unsigned)f->memory < CARNOT_MEMORY_SPACE_COUNT, INVALID_MODEL,
               "format has memory space %d, must be in [0, %d)", (int)f->memory,
               (int)CARNOT_MEMORY_SPACE_COUNT);
  CARNOT_CHECK((unsigned)q->scheme < CARNOT_QUANT_SCHEME_COUNT, INVALID_MODEL,
               "format has quantization scheme %d, must be in [0, %d)", (int)q->scheme,
               (int)CARNOT_QUANT_SCHEME_COUNT);
  CARNOT_CHECK(q->scheme < CARNOT_QUANT_PER_AXIS || (q->axis >= 0 && q->axis < CARNOT_MAX_RANK),
               INVALID_MODEL, "format is quantized along axis %d, must be in [0, %d)", q->axis,
               CARNOT_MAX_RANK);
  CARNOT_CHECK(q->scheme != CARNOT_QUANT_BLOCKED || q->block >= 1, INVALID_MODEL,
               "format has quantization blocks of %d elements, must be 1 or more", q->block);
  return NULL;
}
