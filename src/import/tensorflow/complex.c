// Operators of complex numbers: structural and linear ones work on each part, the others have a
// formula here.
#include "import/tensorflow/complex.h"

#include "import/tensorflow/rows.h"

enum { kComplex64 = 8, kComplex128 = 18 };  // of DataType

// No value of the graph: its name marks it.
typedef struct complex_value {
  carnot_value value;  // first
  carnot_value* parts[2];
  carnot_value* joined;  // NULL: not needed yet
} complex_value;

static char kMark[] = "a complex number";

bool tf_is_complex(const carnot_value* value) { return value->name == kMark; }

bool tf_is_complex_type(int64_t dtype) { return dtype == kComplex64 || dtype == kComplex128; }

carnot_dtype tf_complex_part_type(int64_t dtype) {
  return dtype == kComplex64 ? CARNOT_DTYPE_F32 : CARNOT_DTYPE_F64;
}

carnot_value* tf_complex_new(tf_import* n, carnot_value* real, carnot_value* imaginary) {
  complex_value* c = CARNOT_NEW_ARRAY(n->node.arena, complex_value, 1);
  if (!import_has_memory(&n->node) || n->node.status) return NULL;
  c->value.name = kMark;
  c->value.type = real->type;
  c->value.type.dtype = CARNOT_DTYPE_INVALID;
  c->parts[0] = real, c->parts[1] = imaginary;
  return &c->value;
}

carnot_value* tf_complex_part(tf_import* n, carnot_value* value, int part) {
  if (tf_is_complex(value)) return ((complex_value*)value)->parts[part];
  return part ? import_binary(&n->node, CARNOT_FN_SUB, value, value) : value;
}

carnot_value* tf_complex_joined(tf_import* n, carnot_value* value) {
  complex_value* c = (complex_value*)value;
  if (c->joined && c->joined->block == n->node.block) return c->joined;
  const int64_t last = import_rank(&n->node, c->parts[0]);
  carnot_value* parts[2];
  for (int i = 0; i < 2; i++) parts[i] = import_unsqueeze(&n->node, c->parts[i], &last, 1);
  return c->joined = import_concat(&n->node, last, parts, 2);
}

carnot_value* tf_complex_pairs(carnot_value* value) { return ((complex_value*)value)->joined; }

void tf_complex_pair_type(tf_import* n, carnot_type* type) {
  if (type->rank >= CARNOT_MAX_RANK)
    TF_FAIL(n, UNSUPPORTED, "complex numbers of %d dimensions; at most %d are supported",
            type->rank, CARNOT_MAX_RANK - 1);
  else if (type->rank >= 0)
    type->dims[type->rank++] = carnot_sym_of(2);
}

carnot_value* tf_complex_split(tf_import* n, carnot_value* pairs) {
  const int64_t last = import_rank(&n->node, pairs) - 1;
  carnot_value* parts[2];
  for (int i = 0; i < 2; i++)
    parts[i] = import_squeeze(&n->node, import_slice(&n->node, pairs, last, i, i + 1), &last, 1);
  carnot_value* value = tf_complex_new(n, parts[0], parts[1]);
  if (value) ((complex_value*)value)->joined = pairs;
  return value;
}

// ---- formulas ----

static carnot_value* binary(tf_import* n, carnot_fn fn, carnot_value* x, carnot_value* y) {
  return import_binary(&n->node, fn, x, y);
}

typedef struct parts {
  carnot_value *re, *im;
} parts;

static parts parts_of(tf_import* n, int input) {
  return (parts){tf_complex_part(n, n->inputs[input], 0), tf_complex_part(n, n->inputs[input], 1)};
}

static carnot_value* squared_magnitude(tf_import* n, parts x) {
  return binary(n, CARNOT_FN_ADD, binary(n, CARNOT_FN_MUL, x.re, x.re),
                binary(n, CARNOT_FN_MUL, x.im, x.im));
}

// x * y, with the conjugate of y where |conjugates|.
static parts product(tf_import* n, parts x, parts y, bool conjugates) {
  const carnot_fn minus = conjugates ? CARNOT_FN_ADD : CARNOT_FN_SUB,
                  plus = conjugates ? CARNOT_FN_SUB : CARNOT_FN_ADD;
  return (parts){
      binary(n, minus, binary(n, CARNOT_FN_MUL, x.re, y.re), binary(n, CARNOT_FN_MUL, x.im, y.im)),
      binary(n, plus, binary(n, CARNOT_FN_MUL, x.im, y.re), binary(n, CARNOT_FN_MUL, x.re, y.im))};
}

static void result(tf_import* n, parts y) { n->outputs[0] = tf_complex_new(n, y.re, y.im); }

static void complex_mul(tf_import* n) {
  result(n, product(n, parts_of(n, 0), parts_of(n, 1), false));
}
static void complex_square(tf_import* n) {
  result(n, product(n, parts_of(n, 0), parts_of(n, 0), false));
}
// x * conj(y) / |y|^2
static void complex_div(tf_import* n) {
  const parts y = parts_of(n, 1), p = product(n, parts_of(n, 0), y, true);
  carnot_value* size = squared_magnitude(n, y);
  result(n, (parts){binary(n, CARNOT_FN_DIV, p.re, size), binary(n, CARNOT_FN_DIV, p.im, size)});
}
static void complex_reciprocal(tf_import* n) {
  const parts x = parts_of(n, 0);
  carnot_value* size = squared_magnitude(n, x);
  result(n, (parts){binary(n, CARNOT_FN_DIV, x.re, size),
                    import_unary(&n->node, CARNOT_FN_NEG, binary(n, CARNOT_FN_DIV, x.im, size))});
}
static void complex_exp(tf_import* n) {
  const parts x = parts_of(n, 0);
  carnot_value* size = import_unary(&n->node, CARNOT_FN_EXP, x.re);
  result(n, (parts){binary(n, CARNOT_FN_MUL, size, import_unary(&n->node, CARNOT_FN_COS, x.im)),
                    binary(n, CARNOT_FN_MUL, size, import_unary(&n->node, CARNOT_FN_SIN, x.im))});
}
static void complex_equal(tf_import* n) {
  const parts x = parts_of(n, 0), y = parts_of(n, 1);
  carnot_value* same = binary(n, CARNOT_FN_AND, binary(n, CARNOT_FN_EQUAL, x.re, y.re),
                              binary(n, CARNOT_FN_EQUAL, x.im, y.im));
  n->outputs[0] = n->row->op[0] == 'N' ? import_unary(&n->node, CARNOT_FN_NOT, same) : same;
}

// Sums of products: MatMul and BatchMatMul, by the handler of real numbers on the parts.
static void complex_matmul(tf_import* n) {
  const parts x = parts_of(n, 0), y = parts_of(n, 1);
  carnot_value *factors[2], *terms[4];
  carnot_value** inputs = n->inputs;
  n->inputs = factors;
  for (int i = 0; i < 4; i++) {
    factors[0] = i & 1 ? x.im : x.re, factors[1] = i & 2 ? y.im : y.re;
    n->row->handler(n);
    terms[i] = n->outputs[0];
  }
  n->inputs = inputs;
  // adj_x, adj_y and the transposition of a conjugate turn the sign of the imaginary part.
  const bool turns_x = tf_bool(n, "adj_x", false), turns_y = tf_bool(n, "adj_y", false);
  const carnot_fn re = turns_x == turns_y ? CARNOT_FN_SUB : CARNOT_FN_ADD;
  carnot_value *left = terms[1], *right = terms[2];
  if (turns_x) left = import_unary(&n->node, CARNOT_FN_NEG, left);
  if (turns_y) right = import_unary(&n->node, CARNOT_FN_NEG, right);
  result(n, (parts){binary(n, re, terms[0], terms[3]), binary(n, CARNOT_FN_ADD, left, right)});
}

static void complex_cast(tf_import* n) {
  const tf_attr_value* to = tf_attr_find(n->proto, "DstT");
  const bool stays = to && tf_is_complex_type(to->type);
  const carnot_dtype dtype =
      stays ? tf_complex_part_type(to->type) : tf_type(n, "DstT", CARNOT_DTYPE_F32);
  const parts x = parts_of(n, 0);
  carnot_value* re = import_cast(&n->node, x.re, dtype);
  n->outputs[0] = stays ? tf_complex_new(n, re, import_cast(&n->node, x.im, dtype)) : re;
}

// ---- on the parts ----

// The handler of real numbers on the real parts of the inputs (0), or on the imaginary ones.
static void run_on(tf_import* n, int part) {
  carnot_value** inputs = n->inputs;
  n->inputs = CARNOT_NEW_ARRAY(n->node.arena, carnot_value*, (size_t)n->input_count + 1);
  if (!import_has_memory(&n->node)) return;
  for (int i = 0; i < n->input_count; i++)
    n->inputs[i] = tf_is_complex(inputs[i]) ? tf_complex_part(n, inputs[i], part) : inputs[i];
  n->row->handler(n);
  n->inputs = inputs;
}

static void on_real_part(tf_import* n) { run_on(n, 0); }

static void on_both_parts(tf_import* n) {
  carnot_value* first[TF_MOST_OUTPUTS];
  run_on(n, 0);
  const int count = n->output_count;
  for (int i = 0; i < count; i++) first[i] = n->outputs[i];
  if (!n->node.status) run_on(n, 1);
  for (int i = 0; i < count && !n->node.status; i++)
    n->outputs[i] = tf_complex_new(n, first[i], n->outputs[i]);
}

static void by_itself(tf_import* n) { n->row->handler(n); }

// Operators of several tensors, all of which must be complex or none.
static void on_all_parts(tf_import* n) {
  carnot_value** inputs = n->inputs;
  for (int i = 0; i < n->input_count; i++)
    if (!tf_is_complex(inputs[i])) {
      TF_FAIL(n, INVALID_MODEL, "input %d is no complex number and others are", i);
      return;
    }
  on_both_parts(n);
}

static const struct {
  const char* op;
  void (*handler)(tf_import*);
} kOps[] = {
    {"Mul", complex_mul},
    {"Square", complex_square},
    {"RealDiv", complex_div},
    {"Div", complex_div},
    {"Reciprocal", complex_reciprocal},
    {"Inv", complex_reciprocal},
    {"Exp", complex_exp},
    {"Equal", complex_equal},
    {"NotEqual", complex_equal},
    {"MatMul", complex_matmul},
    {"BatchMatMul", complex_matmul},
    {"BatchMatMulV2", complex_matmul},
    {"BatchMatMulV3", complex_matmul},
    {"Cast", complex_cast},
    {"Shape", on_real_part},
    {"ShapeN", on_real_part},
    {"Size", on_real_part},
    {"Rank", on_real_part},
    {"Add", on_all_parts},
    {"AddV2", on_all_parts},
    {"AddN", on_all_parts},
    {"AccumulateNV2", on_all_parts},
    {"Sub", on_all_parts},
    {"BiasAdd", on_all_parts},
    {"Pack", on_all_parts},
    {"Neg", on_both_parts},
    {"ConcatV2", on_both_parts},
    {"Concat", on_both_parts},
    {"Reshape", on_both_parts},
    {"Transpose", on_both_parts},
    {"Slice", on_both_parts},
    {"StridedSlice", on_both_parts},
    {"Split", on_both_parts},
    {"SplitV", on_both_parts},
    {"Unpack", on_both_parts},
    {"ExpandDims", on_both_parts},
    {"Squeeze", on_both_parts},
    {"Gather", on_both_parts},
    {"GatherV2", on_both_parts},
    {"GatherNd", on_both_parts},
    {"Tile", on_both_parts},
    {"Pad", on_both_parts},
    {"MirrorPad", on_both_parts},
    {"Sum", on_both_parts},
    {"Mean", on_both_parts},
    {"Cumsum", on_both_parts},
    {"ReverseV2", on_both_parts},
    {"ReverseSequence", on_both_parts},
    {"Roll", on_both_parts},
    {"BroadcastTo", on_both_parts},
    {"ZerosLike", on_both_parts},
    {"Select", on_both_parts},
    {"SelectV2", on_both_parts},
    {"MatrixDiag", on_both_parts},
    {"MatrixDiagPart", on_both_parts},
    {"MatrixBandPart", on_both_parts},
    {"Identity", by_itself},
    {"IdentityN", by_itself},
    {"Snapshot", by_itself},
    {"StopGradient", by_itself},
    {"PreventGradient", by_itself},
    {"EnsureShape", by_itself},
    {"If", by_itself},
    {"StatelessIf", by_itself},
    {"Case", by_itself},
    {"StatelessCase", by_itself},
    {"Switch", by_itself},
    {"_SwitchN", by_itself},
    {"PartitionedCall", by_itself},
    {"StatefulPartitionedCall", by_itself},
    {"Real", by_itself},
    {"Imag", by_itself},
    {"Conj", by_itself},
    {"Angle", by_itself},
    {"ComplexAbs", by_itself},
    {"ConjugateTranspose", by_itself},
    {"FFT", by_itself},
    {"FFT2D", by_itself},
    {"FFT3D", by_itself},
    {"IFFT", by_itself},
    {"IFFT2D", by_itself},
    {"IFFT3D", by_itself},
    {"IRFFT", by_itself},
    {"IRFFT2D", by_itself},
    {"IRFFT3D", by_itself},
};

void tf_handle_complex(tf_import* n) {
  for (size_t i = 0; i < sizeof(kOps) / sizeof(kOps[0]); i++)
    if (carnot_view_is(carnot_view(n->row->op), kOps[i].op)) {
      kOps[i].handler(n);
      return;
    }
  TF_FAIL(n, UNSUPPORTED, "an input is a complex number, which this operator does not take here");
}
