// The com.microsoft domain: fusions that ONNX Runtime's optimizer leaves in files, written as what
// they are made of. Source: the operator documentation of ONNX Runtime, version 1 of the domain.
#include "import/onnx/importer.h"

static double parameter(onnx_import* n, size_t i, double absent) {
  size_t count = 0;
  const float* values = onnx_attr_floats(n, "activation_params", &count);
  return i < count ? values[i] : absent;
}

// The activation that a fused node names; |first| and |second| are its parameters.
static carnot_value* activate(onnx_import* n, carnot_value* x, double first, double second) {
  static const struct {
    const char* name;
    carnot_fn fn;
  } kKnown[] = {{"Relu", CARNOT_FN_RELU},
                {"Tanh", CARNOT_FN_TANH},
                {"Sigmoid", CARNOT_FN_SIGMOID},
                {"LeakyRelu", CARNOT_FN_LEAKY_RELU},
                {"Clip", CARNOT_FN_CLAMP},
                {"HardSigmoid", CARNOT_FN_HARD_SIGMOID},
                {"HardSwish", CARNOT_FN_HARD_SWISH},
                {"Elu", CARNOT_FN_ELU},
                {"Softplus", CARNOT_FN_SOFTPLUS},
                {"Gelu", CARNOT_FN_GELU_ERF}};
  carnot_strview name = onnx_attr_text(n, "activation", "");
  if (name.size == 0) return x;
  for (size_t i = 0; i < sizeof(kKnown) / sizeof(kKnown[0]); i++) {
    if (!carnot_view_is(name, kKnown[i].name)) continue;
    if (kKnown[i].fn == CARNOT_FN_SOFTPLUS) first = second = 1;
    return import_unary_with(&n->node, kKnown[i].fn, x, first, second);
  }
  ONNX_FAIL(n, UNSUPPORTED, "activation \"" CARNOT_VIEW_FMT "\" is not known",
            CARNOT_VIEW_ARG(name));
  return NULL;
}

// activation(conv(x, w) + b + z).
static void handle_fused_conv(onnx_import* n) {
  carnot_attrs attrs = onnx_attrs_known_to(n, CARNOT_OP_CONV);
  carnot_value* y = import_op(&n->node, CARNOT_OP_CONV, &attrs, 3, onnx_need(n, 0), onnx_need(n, 1),
                              onnx_in(n, 2));
  if (onnx_in(n, 3)) y = import_binary(&n->node, CARNOT_FN_ADD, y, onnx_in(n, 3));
  n->outputs[0] = activate(n, y, parameter(n, 0, 0.01), parameter(n, 1, 0));
}

static void handle_fused_gemm(onnx_import* n) {
  carnot_attrs attrs = onnx_attrs_known_to(n, CARNOT_OP_GEMM);
  carnot_value* y = import_op(&n->node, CARNOT_OP_GEMM, &attrs, 3, onnx_need(n, 0), onnx_need(n, 1),
                              onnx_in(n, 2));
  n->outputs[0] = activate(n, y, onnx_attr_float(n, "activation_alpha", 0.01),
                           onnx_attr_float(n, "activation_beta", 0));
}

static carnot_value* swap_last(onnx_import* n, carnot_value* x) {
  int rank = import_rank(&n->node, x);
  if (rank < 2) return x;
  int64_t perm[CARNOT_MAX_RANK];
  for (int i = 0; i < rank; i++) perm[i] = i;
  perm[rank - 1] = rank - 2;
  perm[rank - 2] = rank - 1;
  return import_transpose(&n->node, x, perm, rank);
}

// alpha * a b, with either transposed in its last two dimensions.
static void handle_fused_matmul(onnx_import* n) {
  if (onnx_attr_int(n, "transBatchA", 0) || onnx_attr_int(n, "transBatchB", 0)) {
    ONNX_FAIL(n, UNSUPPORTED, "transBatchA and transBatchB are not supported");
  }
  carnot_value *a = onnx_need(n, 0), *b = onnx_need(n, 1);
  if (onnx_attr_int(n, "transA", 0)) a = swap_last(n, a);
  if (onnx_attr_int(n, "transB", 0)) b = swap_last(n, b);
  double alpha = onnx_attr_float(n, "alpha", 1);
  carnot_value* y = import_matmul(&n->node, a, b);
  n->outputs[0] = alpha == 1 ? y : import_unary_with(&n->node, CARNOT_FN_AFFINE, y, alpha, 0);
}

// FastGelu, BiasGelu and Gelu: row->fn of x + bias.
static void handle_gelu(onnx_import* n) {
  carnot_value* x = onnx_need(n, 0);
  if (onnx_in(n, 1)) x = import_binary(&n->node, CARNOT_FN_ADD, x, onnx_in(n, 1));
  n->outputs[0] = import_unary(&n->node, n->row->fn, x);
}

static void handle_quick_gelu(onnx_import* n) {
  n->outputs[0] = import_unary_with(&n->node, CARNOT_FN_SWISH, onnx_need(n, 0),
                                    onnx_attr_float(n, "alpha", 1.702f), 0);
}

// ---- norms ----

static carnot_value* layer_norm(onnx_import* n, carnot_op op, carnot_value* x, carnot_value* scale,
                                carnot_value* bias, double epsilon) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, n->node.arena, "axis", onnx_attr_int(n, "axis", -1));
  carnot_attrs_set_float(&attrs, n->node.arena, "epsilon", onnx_attr_float(n, "epsilon", epsilon));
  return op == CARNOT_OP_RMS_NORM ? import_op(&n->node, op, &attrs, 2, x, scale)
                                  : import_op(&n->node, op, &attrs, 3, x, scale, bias);
}

static void handle_simplified_norm(onnx_import* n) {
  n->outputs[0] = layer_norm(n, CARNOT_OP_RMS_NORM, onnx_need(n, 0), onnx_need(n, 1), NULL, 1e-5f);
}

// norm(input + skip + bias); output 3 is the sum.
static void handle_skip_norm(onnx_import* n) {
  bool simplified = n->row->op == CARNOT_OP_RMS_NORM;
  carnot_value* sum = import_binary(&n->node, CARNOT_FN_ADD, onnx_need(n, 0), onnx_need(n, 1));
  carnot_value* bias = onnx_in(n, simplified ? 3 : 4);
  if (bias) sum = import_binary(&n->node, CARNOT_FN_ADD, sum, bias);
  n->outputs[0] =
      layer_norm(n, n->row->op, sum, onnx_need(n, 2), simplified ? NULL : onnx_in(n, 3), 1e-12f);
  if (n->output_count > 3) n->outputs[3] = sum;
}

// norm(word[ids] + position[0 .. length) + segment[segments]).
static void handle_embed_norm(onnx_import* n) {
  carnot_value *ids = onnx_need(n, 0), *positions = onnx_in(n, 8), *mask = onnx_in(n, 7);
  const int64_t axis = 0, one = 1;
  if (!positions) {
    carnot_value* length =
        import_squeeze(&n->node, import_shape_part(&n->node, ids, 1, 2), &axis, 1);
    positions = import_op(&n->node, CARNOT_OP_RANGE, NULL, 3, import_int(&n->node, 0), length,
                          import_int(&n->node, 1));
  }
  carnot_value* sum =
      import_binary(&n->node, CARNOT_FN_ADD, import_gather(&n->node, onnx_need(n, 2), ids, 0),
                    import_gather(&n->node, onnx_need(n, 3), positions, 0));
  if (onnx_in(n, 1))
    sum = import_binary(&n->node, CARNOT_FN_ADD, sum,
                        import_gather(&n->node, onnx_need(n, 4), onnx_in(n, 1), 0));
  n->outputs[0] =
      layer_norm(n, CARNOT_OP_LAYER_NORM, sum, onnx_need(n, 5), onnx_need(n, 6), 1e-12f);
  if (n->output_count > 1 && n->proto->output.items[1].size) {
    carnot_value* words = mask ? import_reduce(&n->node, "sum", mask, &one, 1) : NULL;
    if (mask)
      n->outputs[1] = import_squeeze(&n->node, words, &one, 1);
    else
      ONNX_FAIL(n, UNSUPPORTED, "a mask index without a mask");
  }
  if (n->output_count > 2) n->outputs[2] = sum;
}

// ---- channels last ----

static void handle_nhwc(onnx_import* n) {
  carnot_attrs attrs = onnx_attrs_for(n, n->row->op);
  carnot_value* x = import_move_channels(&n->node, onnx_need(n, 0), /*last=*/false);
  carnot_value* y = n->row->op == CARNOT_OP_CONV ? import_op(&n->node, n->row->op, &attrs, 3, x,
                                                             onnx_need(n, 1), onnx_in(n, 2))
                                                 : import_op(&n->node, n->row->op, &attrs, 1, x);
  n->outputs[0] = import_move_channels(&n->node, y, /*last=*/true);
}

#define MS(op_type, handler, OP, FN) \
  { "com.microsoft", op_type, 1, handler, CARNOT_OP_##OP, CARNOT_FN_##FN, NULL }

static const onnx_row kRows[] = {
    MS("FusedConv", handle_fused_conv, CONV, RELU),
    MS("FusedGemm", handle_fused_gemm, GEMM, RELU),
    MS("FusedMatMul", handle_fused_matmul, MATMUL, AFFINE),
    MS("TransposeMatMul", handle_fused_matmul, MATMUL, AFFINE),
    MS("Gelu", handle_gelu, UNARY, GELU_ERF),
    MS("BiasGelu", handle_gelu, UNARY, GELU_ERF),
    MS("FastGelu", handle_gelu, UNARY, GELU_TANH),
    MS("QuickGelu", handle_quick_gelu, UNARY, SWISH),
    MS("SkipLayerNormalization", handle_skip_norm, LAYER_NORM, ADD),
    MS("SkipSimplifiedLayerNormalization", handle_skip_norm, RMS_NORM, ADD),
    MS("EmbedLayerNormalization", handle_embed_norm, LAYER_NORM, ADD),
    MS("SimplifiedLayerNormalization", handle_simplified_norm, RMS_NORM, ADD),
    // ONNX Runtime writes this one without a domain.
    {"", "SimplifiedLayerNormalization", 1, handle_simplified_norm, CARNOT_OP_RMS_NORM, 0, NULL},
    MS("NhwcConv", handle_nhwc, CONV, ADD),
    MS("NhwcMaxPool", handle_nhwc, MAX_POOL, ADD),
    MS("CropAndResize", onnx_one_to_one, CROP_AND_RESIZE, ADD),
};
const onnx_row_table onnx_rows_com_microsoft = ONNX_ROW_TABLE(kRows);
