// Data types: sizes, names, kinds; loading and storing of elements as numbers.
#include "base/dtype.h"

#include <math.h>
#include <string.h>

typedef struct dtype_fact {
  const char* name;
  int bits;
  carnot_dtype_kind kind;
} dtype_fact;

#define KIND_N CARNOT_KIND_NONE
#define KIND_F CARNOT_KIND_FLOAT
#define KIND_I CARNOT_KIND_INT
#define KIND_U CARNOT_KIND_UINT
#define KIND_B CARNOT_KIND_BOOL
#define KIND_C CARNOT_KIND_COMPLEX
#define KIND_S CARNOT_KIND_STRING
static const dtype_fact kFacts[CARNOT_DTYPE_COUNT] = {
#define FACT(NAME, name, bits, kind) {name, bits, KIND_##kind},
    CARNOT_DTYPES(FACT)
#undef FACT
};

bool carnot_dtype_valid(carnot_dtype dtype) {
  return (int)dtype > CARNOT_DTYPE_INVALID && (int)dtype < CARNOT_DTYPE_COUNT;
}
static const dtype_fact* fact(carnot_dtype dtype) {
  return &kFacts[carnot_dtype_valid(dtype) ? dtype : CARNOT_DTYPE_INVALID];
}
const char* carnot_dtype_name(carnot_dtype dtype) { return fact(dtype)->name; }
int carnot_dtype_bits(carnot_dtype dtype) { return fact(dtype)->bits; }
carnot_dtype_kind carnot_dtype_kind_of(carnot_dtype dtype) { return fact(dtype)->kind; }
size_t carnot_dtype_bytes(carnot_dtype dtype, size_t count) {
  size_t bits = (size_t)fact(dtype)->bits;
  return bits >= 8 ? count * (bits / 8) : (count * bits + 7) / 8;
}

// ---- packed elements under a byte: the first in the low bits ----

static uint8_t load_bits(int bits, const void* data, size_t index) {
  const uint8_t* bytes = data;
  if (bits == 8) return bytes[index];
  size_t at = index * (size_t)bits;
  unsigned word = bytes[at / 8];
  if (at % 8 + (size_t)bits > 8) word |= (unsigned)bytes[at / 8 + 1] << 8;
  return (uint8_t)(word >> at % 8 & ((1u << bits) - 1));
}
static void store_bits(int bits, void* data, size_t index, uint8_t value) {
  uint8_t* bytes = data;
  if (bits == 8) {
    bytes[index] = value;
    return;
  }
  for (int i = 0; i < bits; i++) {
    size_t at = index * (size_t)bits + (size_t)i;
    uint8_t mask = (uint8_t)(1u << at % 8);
    bytes[at / 8] = (uint8_t)((bytes[at / 8] & ~mask) | (value >> i & 1 ? mask : 0));
  }
}

void carnot_copy_element(carnot_dtype dtype, void* dst, size_t dst_index, const void* src,
                         size_t src_index) {
  int bits = carnot_dtype_bits(dtype);
  if (bits < 8) {
    store_bits(bits, dst, dst_index, load_bits(bits, src, src_index));
  } else {
    size_t bytes = (size_t)bits / 8;
    memcpy((char*)dst + dst_index * bytes, (const char*)src + src_index * bytes, bytes);
  }
}

// ---- single elements ----

#define LOAD(type)  ((const type*)data)[index]
#define STORE(type) ((type*)data)[index] = (type)

static int64_t sign_extend(uint8_t value, int bits) {
  return (int64_t)(value ^ (1u << (bits - 1))) - (int64_t)(1u << (bits - 1));
}

int64_t carnot_load_i64(carnot_dtype dtype, const void* data, size_t index) {
  switch (dtype) {
    case CARNOT_DTYPE_I64: return LOAD(int64_t);
    case CARNOT_DTYPE_I32: return LOAD(int32_t);
    case CARNOT_DTYPE_I16: return LOAD(int16_t);
    case CARNOT_DTYPE_I8: return LOAD(int8_t);
    case CARNOT_DTYPE_I4: return sign_extend(load_bits(4, data, index), 4);
    case CARNOT_DTYPE_I2: return sign_extend(load_bits(2, data, index), 2);
    case CARNOT_DTYPE_U64: return (int64_t)LOAD(uint64_t);
    case CARNOT_DTYPE_U32: return LOAD(uint32_t);
    case CARNOT_DTYPE_U16: return LOAD(uint16_t);
    case CARNOT_DTYPE_U8: return LOAD(uint8_t);
    case CARNOT_DTYPE_U4: return load_bits(4, data, index);
    case CARNOT_DTYPE_U2: return load_bits(2, data, index);
    case CARNOT_DTYPE_BOOL: return LOAD(uint8_t) != 0;
    default: {
      double value = carnot_load_f64(dtype, data, index);
      if (!(value == value)) return 0;
      return value >= 0x1p63 ? INT64_MAX : value <= -0x1p63 ? INT64_MIN : (int64_t)value;
    }
  }
}

void carnot_store_i64(carnot_dtype dtype, void* data, size_t index, int64_t value) {
  switch (dtype) {
    case CARNOT_DTYPE_I64:
    case CARNOT_DTYPE_U64: STORE(uint64_t)(uint64_t) value; break;
    case CARNOT_DTYPE_I32:
    case CARNOT_DTYPE_U32: STORE(uint32_t)(uint64_t) value; break;
    case CARNOT_DTYPE_I16:
    case CARNOT_DTYPE_U16: STORE(uint16_t)(uint64_t) value; break;
    case CARNOT_DTYPE_I8:
    case CARNOT_DTYPE_U8: STORE(uint8_t)(uint64_t) value; break;
    case CARNOT_DTYPE_I4:
    case CARNOT_DTYPE_U4: store_bits(4, data, index, (uint8_t)(value & 15)); break;
    case CARNOT_DTYPE_I2:
    case CARNOT_DTYPE_U2: store_bits(2, data, index, (uint8_t)(value & 3)); break;
    case CARNOT_DTYPE_BOOL: STORE(uint8_t)(value != 0); break;
    default: carnot_store_f64(dtype, data, index, (double)value); break;
  }
}

double carnot_load_f64(carnot_dtype dtype, const void* data, size_t index) {
  switch (dtype) {
    case CARNOT_DTYPE_F64: return LOAD(double);
    case CARNOT_DTYPE_F32: return (double)LOAD(float);
    case CARNOT_DTYPE_F16: return (double)carnot_half_to_float(LOAD(uint16_t));
    case CARNOT_DTYPE_BF16: return (double)carnot_bfloat_to_float(LOAD(uint16_t));
    case CARNOT_DTYPE_U64: return (double)LOAD(uint64_t);
    default: break;
  }
  if (carnot_dtype_is_float(dtype))
    return (double)carnot_minifloat_to_float(dtype,
                                             load_bits(carnot_dtype_bits(dtype), data, index));
  return carnot_dtype_kind_of(dtype) >= CARNOT_KIND_COMPLEX
             ? 0
             : (double)carnot_load_i64(dtype, data, index);
}

// The nearest value of an integer type of |bits| bits; NaN gives 0.
static int64_t saturate(double value, int bits, bool is_signed) {
  if (!(value == value)) return 0;
  double low = is_signed ? -ldexp(1, bits - 1) : 0, high = ldexp(1, is_signed ? bits - 1 : bits);
  if (value <= low) return is_signed ? (int64_t)(UINT64_MAX << (bits - 1)) : 0;
  if (value >= high) return (int64_t)(UINT64_MAX >> (64 - bits + (is_signed ? 1 : 0)));
  return value >= 0x1p63 ? (int64_t)(uint64_t)value : (int64_t)value;
}

void carnot_store_f64(carnot_dtype dtype, void* data, size_t index, double value) {
  int bits = carnot_dtype_bits(dtype);
  switch (dtype) {
    case CARNOT_DTYPE_F64: ((double*)data)[index] = value; return;
    case CARNOT_DTYPE_F32: ((float*)data)[index] = (float)value; return;
    case CARNOT_DTYPE_F16: ((uint16_t*)data)[index] = carnot_half_from_float((float)value); return;
    case CARNOT_DTYPE_BF16:
      ((uint16_t*)data)[index] = carnot_bfloat_from_float((float)value);
      return;
    case CARNOT_DTYPE_BOOL: ((uint8_t*)data)[index] = value != 0; return;
    default: break;
  }
  carnot_dtype_kind kind = carnot_dtype_kind_of(dtype);
  if (kind == CARNOT_KIND_FLOAT) {
    store_bits(bits, data, index,
               carnot_minifloat_from_float(dtype, (float)value, /*saturate=*/true));
  } else if (kind == CARNOT_KIND_INT || kind == CARNOT_KIND_UINT) {
    carnot_store_i64(dtype, data, index, saturate(value, bits, kind == CARNOT_KIND_INT));
  }
}

// ---- blocks: typed loops for the common types, the single-element form for the rest ----

#define EACH(statement)                                          \
  for (size_t i = 0; i < count; i++) {                           \
    size_t index = (size_t)((int64_t)start + (int64_t)i * step); \
    statement;                                                   \
  }                                                              \
  return

void carnot_load_block_f32(carnot_dtype dtype, const void* data, size_t start, int64_t step,
                           size_t count, float* out) {
  switch (dtype) {
    case CARNOT_DTYPE_F32:
      if (step == 1) {
        memcpy(out, (const float*)data + start, count * sizeof(float));
        return;
      }
      EACH(out[i] = LOAD(float));
    case CARNOT_DTYPE_F16: EACH(out[i] = carnot_half_to_float(LOAD(uint16_t)));
    case CARNOT_DTYPE_BF16: EACH(out[i] = carnot_bfloat_to_float(LOAD(uint16_t)));
    default: EACH(out[i] = (float)carnot_load_f64(dtype, data, index));
  }
}
void carnot_load_block_f64(carnot_dtype dtype, const void* data, size_t start, int64_t step,
                           size_t count, double* out) {
  switch (dtype) {
    case CARNOT_DTYPE_F64: EACH(out[i] = LOAD(double));
    case CARNOT_DTYPE_F32: EACH(out[i] = (double)LOAD(float));
    default: EACH(out[i] = carnot_load_f64(dtype, data, index));
  }
}
void carnot_load_block_i64(carnot_dtype dtype, const void* data, size_t start, int64_t step,
                           size_t count, int64_t* out) {
  switch (dtype) {
    case CARNOT_DTYPE_I64: EACH(out[i] = LOAD(int64_t));
    case CARNOT_DTYPE_I32: EACH(out[i] = LOAD(int32_t));
    case CARNOT_DTYPE_U8: EACH(out[i] = LOAD(uint8_t));
    case CARNOT_DTYPE_I8: EACH(out[i] = LOAD(int8_t));
    default: EACH(out[i] = carnot_load_i64(dtype, data, index));
  }
}

// Sixteen numbers as float16 at a time by integers, where all are zero or normal float16.
static void store_halves(uint16_t* out, const float* in, size_t count) {
  enum { kBlock = 16 };
  const int32_t least = 0x38800000, most = 0x477ff000;  // bits of 2^-14 and of 65520
  size_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    int32_t bits[kBlock], others = 0;
    memcpy(bits, in + i, sizeof(bits));
    for (int k = 0; k < kBlock; k++) {
      const int32_t rest = bits[k] & 0x7fffffff;
      others |= ((rest < least) | (rest >= most)) & (rest != 0);
    }
    if (others) {
      for (int k = 0; k < kBlock; k++)
        out[i + (size_t)k] = carnot_half_from_float(in[i + (size_t)k]);
      continue;
    }
    for (int k = 0; k < kBlock; k++) {
      const int32_t rest = bits[k] & 0x7fffffff,
                    rounded = rest + 0xfff + (rest >> 13 & 1) - 0x38000000;
      const int32_t sign = bits[k] >> 16 & 0x8000;
      out[i + (size_t)k] = (uint16_t)(sign | (rest ? rounded >> 13 : 0));
    }
  }
  for (; i < count; i++) out[i] = carnot_half_from_float(in[i]);
}

void carnot_store_block_f32(carnot_dtype dtype, void* data, size_t start, int64_t step,
                            size_t count, const float* in) {
  switch (dtype) {
    case CARNOT_DTYPE_F32:
      if (step == 1) {
        memcpy((float*)data + start, in, count * sizeof(float));
        return;
      }
      EACH(STORE(float) in[i]);
    case CARNOT_DTYPE_F16:
      if (step == 1) {
        store_halves((uint16_t*)data + start, in, count);
        return;
      }
      EACH(STORE(uint16_t) carnot_half_from_float(in[i]));
    case CARNOT_DTYPE_BF16: EACH(STORE(uint16_t) carnot_bfloat_from_float(in[i]));
    default: EACH(carnot_store_f64(dtype, data, index, (double)in[i]));
  }
}
void carnot_store_block_f64(carnot_dtype dtype, void* data, size_t start, int64_t step,
                            size_t count, const double* in) {
  switch (dtype) {
    case CARNOT_DTYPE_F64: EACH(STORE(double) in[i]);
    case CARNOT_DTYPE_F32: EACH(STORE(float) in[i]);
    default: EACH(carnot_store_f64(dtype, data, index, in[i]));
  }
}
void carnot_store_block_i64(carnot_dtype dtype, void* data, size_t start, int64_t step,
                            size_t count, const int64_t* in) {
  switch (dtype) {
    case CARNOT_DTYPE_I64: EACH(STORE(int64_t) in[i]);
    case CARNOT_DTYPE_I32: EACH(STORE(int32_t) in[i]);
    default: EACH(carnot_store_i64(dtype, data, index, in[i]));
  }
}
