// The same bits as another type. Source: tensorflow/core/ops/array_ops.cc, Bitcast.
#include "import/tensorflow/rows.h"

static carnot_value* bit_cast(tf_import* n, carnot_value* x, carnot_dtype to) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "to", to);
  return import_op(&n->node, CARNOT_OP_BIT_CAST, &attrs, 1, x);
}

static carnot_dtype unsigned_of(int bits) {
  return bits == 8    ? CARNOT_DTYPE_U8
         : bits == 16 ? CARNOT_DTYPE_U16
         : bits == 32 ? CARNOT_DTYPE_U32
                      : CARNOT_DTYPE_U64;
}

static carnot_value* with(tf_import* n, carnot_fn fn, carnot_value* x, int64_t y) {
  return import_binary(&n->node, fn, x, import_int(&n->node, y));
}

// The bits of |x| as int64, the upper ones 0 where it is narrower.
static carnot_value* as_int64(tf_import* n, carnot_value* x) {
  const int bits = carnot_dtype_bits(x->type.dtype);
  if (bits == 64) return bit_cast(n, x, CARNOT_DTYPE_I64);
  return tf_int64(n, bit_cast(n, x, unsigned_of(bits)));
}

// The lower bits of |x|, int64, as |to|.
static carnot_value* as_type(tf_import* n, carnot_value* x, carnot_dtype to) {
  const int bits = carnot_dtype_bits(to);
  if (bits == 64) return bit_cast(n, x, to);
  x = with(n, CARNOT_FN_BIT_AND, x, ((int64_t)1 << bits) - 1);
  return bit_cast(n, import_cast(&n->node, x, unsigned_of(bits)), to);
}

// To narrower elements, least bits first along a new last axis; from narrower ones, that axis goes.
static void change_width(tf_import* n, carnot_value* x, carnot_dtype to) {
  const int from_bits = carnot_dtype_bits(x->type.dtype), to_bits = carnot_dtype_bits(to),
            rank = import_rank(&n->node, x),
            count = from_bits > to_bits ? from_bits / to_bits : to_bits / from_bits;
  const int64_t last = from_bits > to_bits ? rank : rank - 1;
  carnot_value *parts[8] = {NULL}, *bits = as_int64(n, x), *y = NULL;
  // An open dimension is that of the run.
  const int64_t given = rank > 0 ? import_dim(x, rank - 1) : 0;
  if (from_bits < to_bits && given >= 0 && given != count)
    TF_FAIL(n, INVALID_MODEL, "the last dimension is %lld; %d is required", (long long)given,
            count);
  for (int i = 0; i < count && !n->node.status; i++) {
    if (from_bits > to_bits) {
      parts[i] = as_type(n, with(n, CARNOT_FN_SHIFT_RIGHT, bits, (int64_t)i * to_bits), to);
      parts[i] = import_unsqueeze(&n->node, parts[i], &last, 1);
      continue;
    }
    carnot_value* part = import_slice(&n->node, bits, last, i, i + 1);
    part = with(n, CARNOT_FN_SHIFT_LEFT, import_squeeze(&n->node, part, &last, 1),
                (int64_t)i * from_bits);
    y = y ? import_binary(&n->node, CARNOT_FN_BIT_OR, y, part) : part;
  }
  n->outputs[0] =
      from_bits > to_bits ? import_concat(&n->node, last, parts, count) : as_type(n, y, to);
}

static void handle_bitcast(tf_import* n) {
  carnot_value* x = n->inputs[0];
  const carnot_dtype from = x->type.dtype, to = tf_type(n, "type", from);
  if (n->node.status) return;
  if (from == CARNOT_DTYPE_STRING || to == CARNOT_DTYPE_STRING || from == CARNOT_DTYPE_BOOL ||
      to == CARNOT_DTYPE_BOOL)
    TF_FAIL(n, INVALID_MODEL, "from %s to %s", carnot_dtype_name(from), carnot_dtype_name(to));
  else if (carnot_dtype_bits(from) == carnot_dtype_bits(to))
    n->outputs[0] = bit_cast(n, x, to);
  else
    change_width(n, x, to);
}

static const tf_row kRows[] = {{"Bitcast", handle_bitcast, 1, 1, 0, NULL, NULL}};
const tf_row_table tf_rows_bits = TF_ROW_TABLE(kRows);
