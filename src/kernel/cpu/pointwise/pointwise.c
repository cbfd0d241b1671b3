// The interpreter of pointwise programs over tiles of a row.
#include "kernel/cpu/pointwise/pointwise.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/pointwise/pointwise_fn.h"

enum { kTile = 256 };  // elements of a register: a few registers fit L1; 128 and 512 were no faster

// Registers of their own memory, and the current memory of each: its own, or an operand's.
typedef struct tile {
  float own[CARNOT_PW_MAX_REGISTERS][kTile];
  const float* at[CARNOT_PW_MAX_REGISTERS];
} tile;

// ---- functions: one loop for each, taken from a table by code ----

typedef void (*pw_loop)(const carnot_pw_instruction* in, const tile* t, float* dst, int64_t n);

CARNOT_INLINE void loop_of(int fn, int arity, const carnot_pw_instruction* in, const tile* t,
                           float* dst, int64_t n) {
  const float *x = t->at[in->src[0]], *y = t->at[in->src[1]], *z = t->at[in->src[2]];
  for (int64_t i = 0; i < n; i += V_LANES) {
    if (arity < 2) {
      v_store(dst + i, pw_unary(fn, arity ? v_load(x + i) : v_zero(), in->a, in->b));
    } else {
      const vf32 third = arity > 2 ? v_load(z + i) : v_zero();
      v_store(dst + i, pw_several(fn, v_load(x + i), v_load(y + i), third));
    }
  }
}

#define FN(NAME, name, arity, ...)                                                                 \
  static void loop_##NAME(const carnot_pw_instruction* in, const tile* t, float* dst, int64_t n) { \
    loop_of(CARNOT_PW_##NAME, arity, in, t, dst, n);                                               \
  }
#include "base/fn.def"
#undef FN

static void loop_constant(const carnot_pw_instruction* in, const tile* t, float* dst, int64_t n) {
  loop_of(CARNOT_PW_CONSTANT, 0, in, t, dst, n);
}

static const pw_loop kLoops[CARNOT_PW_FN_COUNT] = {
#define FN(NAME, ...) loop_##NAME,
#include "base/fn.def"
#undef FN
    loop_constant,
};

// ---- operands ----

CARNOT_INLINE void load_typed(int type, const void* data, int64_t at, float* dst, int64_t n) {
  if (type == CARNOT_PW_BOOL) {
    const uint8_t* src = (const uint8_t*)data + at;
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i] != 0;
    return;
  }
  const float* f32 = (const float*)data + at;
  const uint16_t* half = (const uint16_t*)data + at;
  for (int64_t i = 0; i < n; i += V_LANES) {
    const int64_t left = n - i;
    vf32 x;
    if (type == CARNOT_PW_F32) {
      x = v_load_upto(f32 + i, left);
    } else if (type == CARNOT_PW_F16) {
      x = left >= V_LANES ? v_load_f16(half + i) : v_load_f16_n(half + i, left);
    } else {
      x = left >= V_LANES ? v_load_bf16(half + i) : v_load_bf16_n(half + i, left);
    }
    v_store_upto(dst + i, x, left);
  }
}

// How an operand is stored.
typedef struct storage {
  int type;
  carnot_pw_quantization quant;
} storage;

CARNOT_INLINE void load_bytes(bool is_signed, const carnot_pw_quantization* q, const uint8_t* src,
                              float* dst, int64_t n) {
  const vf32 zero = v_set((float)q->zero_point), scale = v_set(q->scale);
  for (int64_t i = 0; i < n; i += V_LANES) {
    const vf32 x = v_load_bytes_upto(src + i, n - i, is_signed);
    v_store_upto(dst + i, v_mul(v_sub(x, zero), scale), n - i);
  }
}

CARNOT_INLINE void store_bytes(bool is_signed, const carnot_pw_quantization* q, uint8_t* dst,
                               const float* src, int64_t n) {
  const vf32 zero = v_set((float)q->zero_point), scale = v_set(q->scale);
  const vf32 lo = v_set(is_signed ? -128 : 0), hi = v_set(is_signed ? 127 : 255);
  for (int64_t i = 0; i < n; i += V_LANES) {
    vf32 x = v_round(v_div(v_load_upto(src + i, n - i), scale));
    x = v_add(v_select(v_is_nan(x), v_zero(), x), zero);
    v_store_bytes_upto(dst + i, v_to_int(v_min_to(hi, v_max_to(lo, x))), n - i);
  }
}

static void load_run(const storage* s, const void* data, int64_t at, float* dst, int64_t n) {
  switch (s->type) {
    case CARNOT_PW_U8: load_bytes(false, &s->quant, (const uint8_t*)data + at, dst, n); break;
    case CARNOT_PW_S8: load_bytes(true, &s->quant, (const uint8_t*)data + at, dst, n); break;
    case CARNOT_PW_F32: load_typed(CARNOT_PW_F32, data, at, dst, n); break;
    case CARNOT_PW_F16: load_typed(CARNOT_PW_F16, data, at, dst, n); break;
    case CARNOT_PW_BF16: load_typed(CARNOT_PW_BF16, data, at, dst, n); break;
    default: load_typed(CARNOT_PW_BOOL, data, at, dst, n); break;
  }
}

CARNOT_INLINE void store_typed(int type, void* data, int64_t at, const float* src, int64_t n) {
  if (type == CARNOT_PW_BOOL) {
    uint8_t* dst = (uint8_t*)data + at;
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i] != 0;
    return;
  }
  float* f32 = (float*)data + at;
  uint16_t* half = (uint16_t*)data + at;
  for (int64_t i = 0; i < n; i += V_LANES) {
    const int64_t left = n - i;
    const vf32 x = v_load_upto(src + i, left);
    if (type == CARNOT_PW_F32) {
      v_store_upto(f32 + i, x, left);
    } else if (type == CARNOT_PW_F16) {
      left >= V_LANES ? v_store_f16(half + i, x) : v_store_f16_n(half + i, x, left);
    } else {
      left >= V_LANES ? v_store_bf16(half + i, x) : v_store_bf16_n(half + i, x, left);
    }
  }
}

static void store_run(const storage* s, void* data, int64_t at, const float* src, int64_t n) {
  switch (s->type) {
    case CARNOT_PW_U8: store_bytes(false, &s->quant, (uint8_t*)data + at, src, n); break;
    case CARNOT_PW_S8: store_bytes(true, &s->quant, (uint8_t*)data + at, src, n); break;
    case CARNOT_PW_F32: store_typed(CARNOT_PW_F32, data, at, src, n); break;
    case CARNOT_PW_F16: store_typed(CARNOT_PW_F16, data, at, src, n); break;
    case CARNOT_PW_BF16: store_typed(CARNOT_PW_BF16, data, at, src, n); break;
    default: store_typed(CARNOT_PW_BOOL, data, at, src, n); break;
  }
}

// The part of an operand that a tile covers: |rows| rows of |n| elements, side by side in a
// register.
typedef struct part {
  int64_t row, rows, column, n;
} part;

// Rows are written in whole vectors: what goes beyond a row is written again by the next one.

// The first row once more for each other row.
static void repeat_row(const part* p, float* dst) {
  const int64_t count = p->rows * p->n;
  for (int64_t row = p->n; row < count; row += p->n)
    for (int64_t j = 0; j < p->n; j += V_LANES)
      v_store_upto(dst + row + j, v_load(dst + j), count - row - j);
}

// One number for each row, |stride| apart.
static void load_column(const float* src, int64_t stride, const part* p, float* dst) {
  const int64_t count = p->rows * p->n;
  for (int64_t row = 0; row < count; row += p->n, src += stride)
    for (int64_t j = 0; j < p->n; j += V_LANES)
      v_store_upto(dst + row + j, v_set(*src), count - row - j);
}

// |rows| rows of |n| floats, at most a vector.
static void copy_short_rows(float* dst, int64_t dst_stride, const float* src, int64_t src_stride,
                            int64_t rows, int64_t n) {
#define COPY(count)                                                              \
  case count:                                                                    \
    for (int64_t i = 0; i < rows; ++i)                                           \
      memcpy(dst + i * dst_stride, src + i * src_stride, (count) * sizeof *dst); \
    break;
  switch (n) {
    COPY(1)
    COPY(2)
    COPY(3)
    COPY(4)
    default:
      for (int64_t i = 0; i < rows; ++i)
        v_store_upto(dst + i * dst_stride, v_load_upto(src + i * src_stride, n), n);
  }
#undef COPY
}

static void load_part(const carnot_pw_operand* in, const storage* s, const part* p, float* dst) {
  if (in->stride == 1 && (p->rows == 1 || in->row_stride == p->n)) {
    load_run(s, in->data, p->row * in->row_stride + p->column, dst, p->rows * p->n);
    return;
  }
  if (in->row_stride == 0 && in->stride == 1) {
    load_run(s, in->data, p->column, dst, p->n);
    repeat_row(p, dst);
    return;
  }
  if (in->stride == 0 && s->type == CARNOT_PW_F32) {
    load_column((const float*)in->data + p->row * in->row_stride, in->row_stride, p, dst);
    return;
  }
  if (in->stride == 1 && s->type == CARNOT_PW_F32 && p->n <= V_LANES) {
    copy_short_rows(dst, p->n, (const float*)in->data + p->row * in->row_stride + p->column,
                    in->row_stride, p->rows, p->n);
    return;
  }
  for (int64_t i = 0; i < p->rows; ++i) {
    if (in->stride == 1) {
      const int64_t at = (p->row + i) * in->row_stride + p->column;
      load_run(s, in->data, at, dst + i * p->n, p->n);
    } else {
      float x;
      load_run(s, in->data, (p->row + i) * in->row_stride, &x, 1);
      for (int64_t j = 0; j < p->n; ++j) dst[i * p->n + j] = x;
    }
  }
}

static void store_part(const carnot_pw_operand* out, const storage* s, const part* p,
                       const float* src) {
  if (p->rows == 1 || out->row_stride == p->n) {
    store_run(s, out->data, p->row * out->row_stride + p->column, src, p->rows * p->n);
    return;
  }
  if (s->type == CARNOT_PW_F32 && p->n <= V_LANES) {
    copy_short_rows((float*)out->data + p->row * out->row_stride + p->column, out->row_stride, src,
                    p->n, p->rows, p->n);
    return;
  }
  for (int64_t i = 0; i < p->rows; ++i) {
    const int64_t at = (p->row + i) * out->row_stride + p->column;
    store_run(s, out->data, at, src + i * p->n, p->n);
  }
}

// The memory of a part of a float32 operand, if that is one run of whole vectors; else NULL.
static float* run_of(const carnot_pw_operand* operand, int type, const part* p) {
  const bool is_run = operand->stride == 1 && (p->rows == 1 || operand->row_stride == p->n);
  if (type != CARNOT_PW_F32 || !is_run || p->rows * p->n % V_LANES) return NULL;
  return (float*)operand->data + p->row * operand->row_stride + p->column;
}

// What holds for all parts of a call.
typedef struct plan {
  bool is_scalar[CARNOT_PW_MAX_INPUTS];    // one number, whose register nothing else takes
  bool is_column[CARNOT_PW_MAX_INPUTS];    // one number a row, likewise
  bool ends_in_output;                     // the last instruction makes the only output
  bool joins[CARNOT_PW_MAX_INSTRUCTIONS];  // a product that the sum behind it alone reads
} plan;

static bool joins_next(const carnot_pw_program* p, int i) {
  const carnot_pw_instruction *mul = &p->instructions[i], *add = mul + 1;
  if (i + 1 >= p->instruction_count || mul->fn != CARNOT_PW_MUL || add->fn != CARNOT_PW_ADD ||
      (add->src[0] == mul->dst) == (add->src[1] == mul->dst))
    return false;
  for (int k = i + 2; k < p->instruction_count; ++k)
    for (int j = 0; j < 3; ++j)
      if (p->instructions[k].src[j] == mul->dst) return false;
  for (int k = 0; k < p->output_count; ++k)
    if (p->output_register[k] == mul->dst) return false;
  return true;
}

// Rounded twice, as two instructions do.
static void loop_mul_add(const carnot_pw_instruction* mul, const tile* t, float* dst, int64_t n) {
  const carnot_pw_instruction* add = mul + 1;
  const float *x = t->at[mul->src[0]], *y = t->at[mul->src[1]],
              *z = t->at[add->src[add->src[0] == mul->dst]];
  for (int64_t i = 0; i < n; i += V_LANES)
    v_store(dst + i, v_add(v_mul(v_load(x + i), v_load(y + i)), v_load(z + i)));
}

static plan plan_of(const carnot_pw_program* p, const carnot_pw_operand* inputs) {
  plan plan = {.ends_in_output =
                   p->output_count == 1 && p->instruction_count > 0 &&
                   p->instructions[p->instruction_count - 1].dst == p->output_register[0]};
  for (int i = 0; i < p->instruction_count; ++i) plan.joins[i] = joins_next(p, i);
  for (int i = 0; i < p->input_count; ++i) {
    bool kept = inputs[i].stride == 0;
    for (int k = 0; k < p->instruction_count; ++k) kept = kept && p->instructions[k].dst != i;
    plan.is_scalar[i] = kept && inputs[i].row_stride == 0;
    plan.is_column[i] = kept && inputs[i].row_stride != 0;
  }
  return plan;
}

static void load_input(const carnot_pw_program* p, const carnot_pw_operand* inputs, int i,
                       const part* part, int64_t padded, tile* t) {
  t->at[i] = run_of(&inputs[i], p->input_type[i], part);
  if (t->at[i]) return;
  t->at[i] = t->own[i];
  const storage s = {p->input_type[i], p->input_quant[i]};
  load_part(&inputs[i], &s, part, t->own[i]);
  for (int64_t j = part->rows * part->n; j < padded; ++j) t->own[i][j] = 0;
}

static void run_part(const carnot_pw_program* p, const plan* plan, const carnot_pw_operand* inputs,
                     const carnot_pw_operand* outputs, const part* part, tile* t) {
  const int64_t n = part->rows * part->n, padded = (n + V_LANES - 1) / V_LANES * V_LANES;
  for (int i = 0; i < p->input_count; ++i) {
    const bool is_there = plan->is_scalar[i] || (plan->is_column[i] && part->column > 0);
    if (!is_there) load_input(p, inputs, i, part, padded, t);
  }
  float* out = plan->ends_in_output ? run_of(&outputs[0], p->output_type[0], part) : NULL;
  for (int i = 0; i < p->instruction_count; ++i) {
    const carnot_pw_instruction* first = &p->instructions[i];
    i += plan->joins[i];
    const carnot_pw_instruction* in = &p->instructions[i];
    const bool is_last = i + 1 == p->instruction_count;
    if (is_last && !out && in->fn == CARNOT_PW_IDENTITY) {  // a cast: its operand is converted
      t->at[in->dst] = t->at[in->src[0]];
      break;
    }
    float* dst = out && is_last ? out : t->own[in->dst];
    (in == first ? kLoops[in->fn] : loop_mul_add)(first, t, dst, padded);
    t->at[in->dst] = dst;
  }
  for (int i = 0; i < p->output_count && !out; ++i) {
    const storage s = {p->output_type[i], p->output_quant[i]};
    store_part(&outputs[i], &s, part, t->at[p->output_register[i]]);
  }
}

void CARNOT_KERNEL(pointwise)(const carnot_pw_program* p, const carnot_pw_operand* inputs,
                              const carnot_pw_operand* outputs, int64_t row0, int64_t row1,
                              int64_t n) {
  tile t;
  const plan plan = plan_of(p, inputs);
  for (int i = 0; i < CARNOT_PW_MAX_REGISTERS; ++i) t.at[i] = t.own[i];
  for (int i = 0; i < p->input_count; ++i) {
    const part whole = {row0, 1, 0, kTile};
    if (plan.is_scalar[i]) load_input(p, inputs, i, &whole, kTile, &t);
  }
  const int64_t rows = n < kTile ? kTile / n : 1;  // short rows share a tile
  for (int64_t row = row0; row < row1; row += rows) {
    for (int64_t column = 0; column < n; column += kTile) {
      const part part = {row, min_i64(rows, row1 - row), column, min_i64(kTile, n - column)};
      run_part(p, &plan, inputs, outputs, &part, &t);
    }
  }
}
