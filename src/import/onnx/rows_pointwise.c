// Element-wise operators.
#include <math.h>

#include "import/onnx/importer.h"

static void handle_leaky(onnx_import* n) {
  n->outputs[0] = import_unary_with(&n->node, n->row->fn, onnx_need(n, 0),
                                    onnx_attr_float(n, "alpha", 0.01f), 0);
}

// Functions of one parameter alpha that is 1 by default.
static void handle_alpha(onnx_import* n) {
  n->outputs[0] =
      import_unary_with(&n->node, n->row->fn, onnx_need(n, 0), onnx_attr_float(n, "alpha", 1), 0);
}

static void handle_selu(onnx_import* n) {
  double alpha = onnx_attr_float(n, "alpha", n->version < 6 ? 1.6732f : 1.67326319217681884765625f);
  double gamma = onnx_attr_float(n, "gamma", n->version < 6 ? 1.0507f : 1.05070102214813232421875f);
  n->outputs[0] = import_unary_with(&n->node, CARNOT_FN_SELU, onnx_need(n, 0), alpha, gamma);
}

static void handle_hard_sigmoid(onnx_import* n) {
  n->outputs[0] =
      import_unary_with(&n->node, CARNOT_FN_HARD_SIGMOID, onnx_need(n, 0),
                        onnx_attr_float(n, "alpha", 0.2f), onnx_attr_float(n, "beta", 0.5f));
}

static void handle_shrink(onnx_import* n) {
  n->outputs[0] =
      import_unary_with(&n->node, CARNOT_FN_SHRINK, onnx_need(n, 0),
                        onnx_attr_float(n, "lambd", 0.5f), onnx_attr_float(n, "bias", 0));
}

static void handle_softplus(onnx_import* n) {
  n->outputs[0] = import_unary_with(&n->node, CARNOT_FN_SOFTPLUS, onnx_need(n, 0), 1, 1);
}

static void handle_is_inf(onnx_import* n) {
  n->outputs[0] = import_unary_with(&n->node, CARNOT_FN_IS_INF, onnx_need(n, 0),
                                    (double)onnx_attr_int(n, "detect_negative", 1),
                                    (double)onnx_attr_int(n, "detect_positive", 1));
}

static void handle_gelu(onnx_import* n) {
  carnot_strview kind = onnx_attr_text(n, "approximate", "none");
  bool tanh = carnot_view_is(kind, "tanh");
  if (!tanh && !carnot_view_is(kind, "none")) {
    ONNX_FAIL(n, INVALID_MODEL, "approximate \"" CARNOT_VIEW_FMT "\", must be none or tanh",
              CARNOT_VIEW_ARG(kind));
  }
  n->outputs[0] =
      import_unary(&n->node, tanh ? CARNOT_FN_GELU_TANH : CARNOT_FN_GELU_ERF, onnx_need(n, 0));
}

// gate * sigmoid(alpha * gate) * value.
static void handle_swiglu(onnx_import* n) {
  carnot_value* gate = import_unary_with(&n->node, CARNOT_FN_SWISH, onnx_need(n, 0),
                                         onnx_attr_float(n, "alpha", 1), 0);
  n->outputs[0] = import_binary(&n->node, CARNOT_FN_MUL, gate, onnx_need(n, 1));
}

// Clip-1 and Clip-6: the bounds are attributes.
static void handle_clip_attributes(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  double low = onnx_attr_float(n, "min", -INFINITY), high = onnx_attr_float(n, "max", INFINITY);
  n->outputs[0] = low == -INFINITY && high == INFINITY
                      ? x
                      : import_unary_with(&n->node, CARNOT_FN_CLAMP, x, low, high);
}

static void handle_clip(onnx_import* n) {
  carnot_value *x = onnx_need(n, 0), *low = onnx_in(n, 1), *high = onnx_in(n, 2);
  if (low && high)
    n->outputs[0] = import_ternary(&n->node, CARNOT_FN_CLIP, x, low, high);
  else if (low)
    n->outputs[0] = import_binary(&n->node, CARNOT_FN_MAX, x, low);
  else
    n->outputs[0] = high ? import_binary(&n->node, CARNOT_FN_MIN, x, high) : x;
}

// Base and exponent may have different types; the result has the base's.
static void handle_pow(onnx_import* n) {
  carnot_value *x = onnx_need(n, 0), *y = onnx_need(n, 1);
  if (n->version < 7) y = onnx_old_broadcast(n, x, y);
  if (n->node.status) return;
  carnot_dtype type = x->type.dtype;
  if (type != y->type.dtype) {
    if (carnot_dtype_is_integer(type) && carnot_dtype_is_float(y->type.dtype))
      x = import_cast(&n->node, x, y->type.dtype);
    else
      y = import_cast(&n->node, y, type);
  }
  n->outputs[0] = import_cast(&n->node, import_binary(&n->node, CARNOT_FN_POW, x, y), type);
}

static void handle_mod(onnx_import* n) {
  carnot_fn fn = onnx_attr_int(n, "fmod", 0) ? CARNOT_FN_FMOD : CARNOT_FN_MOD;
  n->outputs[0] = import_binary(&n->node, fn, onnx_need(n, 0), onnx_need(n, 1));
}

static void handle_bit_shift(onnx_import* n) {
  carnot_strview direction = onnx_attr_text(n, "direction", "");
  bool left = carnot_view_is(direction, "LEFT");
  if (!left && !carnot_view_is(direction, "RIGHT")) {
    ONNX_FAIL(n, INVALID_MODEL, "direction \"" CARNOT_VIEW_FMT "\", must be LEFT or RIGHT",
              CARNOT_VIEW_ARG(direction));
  }
  n->outputs[0] = import_binary(&n->node, left ? CARNOT_FN_SHIFT_LEFT : CARNOT_FN_SHIFT_RIGHT,
                                onnx_need(n, 0), onnx_need(n, 1));
}

static void handle_mean(onnx_import* n) {
  carnot_value* sum = onnx_need(n, 0);
  for (int i = 1; i < n->input_count; i++)
    sum = import_binary(&n->node, CARNOT_FN_ADD, sum, onnx_need(n, i));
  n->outputs[0] = n->input_count == 1 ? sum
                                      : import_binary(&n->node, CARNOT_FN_DIV, sum,
                                                      import_number(&n->node, sum, n->input_count));
}

// Before version 7 a slope of one dimension runs over the channels.
static void handle_prelu_old(onnx_import* n) {
  carnot_value *x = onnx_need(n, 0), *slope = onnx_need(n, 1);
  if (!n->node.status && slope->type.rank == 1 && import_dim(slope, 0) != 1) {
    n->outputs[0] = import_add_channel(&n->node, x, slope, CARNOT_FN_PRELU);
  } else {
    n->outputs[0] = import_binary(&n->node, CARNOT_FN_PRELU, x, slope);
  }
}

static void handle_where(onnx_import* n) {
  n->outputs[0] =
      import_ternary(&n->node, CARNOT_FN_SELECT, onnx_need(n, 0), onnx_need(n, 1), onnx_need(n, 2));
}

#define UNARY(op_type, since, FN) \
  { "", op_type, since, onnx_import_unary, 0, CARNOT_FN_##FN, NULL }
#define BINARY(op_type, since, FN) \
  { "", op_type, since, onnx_import_binary, 0, CARNOT_FN_##FN, NULL }
#define WITH(op_type, since, handler, FN) \
  { "", op_type, since, handler, 0, CARNOT_FN_##FN, NULL }

static const onnx_row kRows[] = {
    UNARY("Abs", 1, ABS),
    UNARY("Acos", 7, ACOS),
    UNARY("Acosh", 9, ACOSH),
    UNARY("Asin", 7, ASIN),
    UNARY("Asinh", 9, ASINH),
    UNARY("Atan", 7, ATAN),
    UNARY("Atanh", 9, ATANH),
    UNARY("BitwiseNot", 18, BIT_NOT),
    UNARY("Ceil", 1, CEIL),
    UNARY("Cos", 7, COS),
    UNARY("Cosh", 9, COSH),
    UNARY("Erf", 9, ERF),
    UNARY("Exp", 1, EXP),
    UNARY("Floor", 1, FLOOR),
    UNARY("HardSwish", 14, HARD_SWISH),
    UNARY("IsNaN", 9, IS_NAN),
    UNARY("Log", 1, LOG),
    UNARY("Mish", 18, MISH),
    UNARY("Neg", 1, NEG),
    UNARY("Not", 1, NOT),
    UNARY("Reciprocal", 1, RECIP),
    UNARY("Relu", 1, RELU),
    UNARY("Round", 11, ROUND),
    UNARY("Sigmoid", 1, SIGMOID),
    UNARY("Sign", 9, SIGN),
    UNARY("Sin", 7, SIN),
    UNARY("Sinh", 9, SINH),
    UNARY("Softsign", 1, SOFTSIGN),
    UNARY("Sqrt", 1, SQRT),
    UNARY("Tan", 7, TAN),
    UNARY("Tanh", 1, TANH),
    WITH("Celu", 12, handle_alpha, CELU),
    WITH("Elu", 1, handle_alpha, ELU),
    WITH("Gelu", 20, handle_gelu, GELU_ERF),
    WITH("HardSigmoid", 1, handle_hard_sigmoid, HARD_SIGMOID),
    WITH("IsInf", 10, handle_is_inf, IS_INF),
    WITH("LeakyRelu", 1, handle_leaky, LEAKY_RELU),
    WITH("Selu", 1, handle_selu, SELU),
    WITH("Shrink", 9, handle_shrink, SHRINK),
    WITH("Softplus", 1, handle_softplus, SOFTPLUS),
    WITH("Swish", 24, handle_alpha, SWISH),
    WITH("SwiGLU", 28, handle_swiglu, SWISH),
    WITH("ThresholdedRelu", 1, handle_alpha, THRESHOLDED_RELU),
    BINARY("Add", 1, ADD),
    BINARY("And", 1, AND),
    BINARY("BitwiseAnd", 18, BIT_AND),
    BINARY("BitwiseOr", 18, BIT_OR),
    BINARY("BitwiseXor", 18, BIT_XOR),
    BINARY("Div", 1, DIV),
    BINARY("Equal", 1, EQUAL),
    BINARY("Greater", 1, GREATER),
    BINARY("GreaterOrEqual", 12, GREATER_EQUAL),
    BINARY("Less", 1, LESS),
    BINARY("LessOrEqual", 12, LESS_EQUAL),
    BINARY("Mul", 1, MUL),
    BINARY("Or", 1, OR),
    BINARY("PRelu", 7, PRELU),
    BINARY("Sub", 1, SUB),
    BINARY("Xor", 1, XOR),
    WITH("BitShift", 11, handle_bit_shift, SHIFT_LEFT),
    WITH("Mod", 10, handle_mod, MOD),
    WITH("Pow", 1, handle_pow, POW),
    WITH("PRelu", 1, handle_prelu_old, PRELU),
    WITH("Max", 1, onnx_import_variadic, MAX),
    WITH("Mean", 1, handle_mean, ADD),
    WITH("Min", 1, onnx_import_variadic, MIN),
    WITH("Sum", 1, onnx_import_variadic, ADD),
    WITH("Clip", 1, handle_clip_attributes, CLAMP),
    WITH("Clip", 11, handle_clip, CLIP),
    WITH("Where", 9, handle_where, SELECT),
};
const onnx_row_table onnx_rows_pointwise = ONNX_ROW_TABLE(kRows);
