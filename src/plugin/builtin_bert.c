// The BERT plugins, written as the operators they fuse. Tensors are [S,B,E,1,1] as theirs; the
// int8 interleaved and variable-length versions are refused. Source: TensorRT skipLayerNormPlugin,
// bertQKVToContextPlugin, embLayerNormPlugin, fcPlugin, geluPlugin (README and creators).
#include "plugin/front.h"

// The plugins add no epsilon; this one keeps a constant row finite and is lost in float32 else.
static const double kEpsilon = 1e-12;

// Layer norm of x over axis 2 and what follows (ones), by the fields |gamma| and |beta|.
static carnot_value* layer_norm(carnot_front* f, carnot_value* x, int64_t size, const char* gamma,
                                const char* beta) {
  int rank = front_rank(f, x, 3);
  if (f->status) return NULL;
  int64_t dims[CARNOT_MAX_RANK] = {size, 1, 1, 1, 1, 1};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, f->arena, "axis", 2);
  carnot_attrs_set_float(&attrs, f->arena, "epsilon", kEpsilon);
  return front_op(f, CARNOT_OP_LAYER_NORM, &attrs, 3, x, front_weights(f, gamma, x, dims, rank - 2),
                  front_weights(f, beta, x, dims, rank - 2));
}

// A field of weights over axis 2 of x.
static carnot_value* along_hidden(carnot_front* f, const char* field, carnot_value* x) {
  int rank = front_rank(f, x, 3);
  if (f->status) return NULL;
  int64_t dims[CARNOT_MAX_RANK] = {carnot_fields_length(&f->fields, field), 1, 1, 1, 1, 1};
  return front_weights(f, field, x, dims, rank - 2);
}

// gamma * norm(x + skip + bias) + beta.
static void expand_skip_norm(carnot_front* f) {
  carnot_value* x = front_binary(f, CARNOT_FN_ADD, front_in(f, 0), front_in(f, 1));
  if (carnot_fields_length(&f->fields, "bias") > 0)
    x = front_binary(f, CARNOT_FN_ADD, x, along_hidden(f, "bias", x));
  int64_t size = front_int(f, "ld", carnot_fields_length(&f->fields, "gamma"));
  f->outputs[0] = layer_norm(f, x, size, "gamma", "beta");
}

static void refuse_int8(carnot_front* f) {
  FRONT_FAIL(f, UNSUPPORTED, "the int8 interleaved layout is not there yet");
}

// ---- attention ----

// One of query, key, value from [S,B,N,3,H], as [B,N,S,H].
static carnot_value* part(carnot_front* f, carnot_value* x, int index) {
  const int64_t axis = 3, perm[] = {1, 2, 0, 3};
  carnot_value* y = front_slice(f, x, 3, index, index + 1);
  y = front_op(f, CARNOT_OP_SQUEEZE, NULL, 2, y, front_ints(f, &axis, 1));
  return front_transpose(f, y, perm, 4);
}

// softmax(q k^T / sqrt(H)) v of x [S,B,3E,1,1], heads of q, k and v side by side; input 1 is the
// number of valid keys, int32 [B].
static void expand_attention(carnot_front* f) {
  if (front_int(f, "var_seqlen", 0)) {
    FRONT_FAIL(f, UNSUPPORTED, "variable sequence lengths (var_seqlen 1) are not there yet");
    return;
  }
  int64_t hidden = front_int(f, "hidden_size", 0), heads = front_int(f, "num_heads", 0);
  if (hidden < 1 || heads < 1 || hidden % heads) {
    FRONT_FAIL(f, INVALID_ARGUMENT, "hidden_size %lld is no multiple of num_heads %lld",
               (long long)hidden, (long long)heads);
    return;
  }
  const int64_t split[] = {0, 0, heads, 3, hidden / heads}, perm[] = {2, 0, 1, 3},
                joined[] = {0, 0, hidden, 1, 1};
  carnot_value* x = front_reshape(f, front_in(f, 0), split, 5);
  bool masked = f->input_count > 1 && front_int(f, "has_mask", 1);
  carnot_value* lengths = masked ? front_cast(f, front_in(f, 1), CARNOT_DTYPE_I64) : NULL;
  carnot_value* y = front_op(f, CARNOT_OP_ATTENTION, NULL, 7, part(f, x, 0), part(f, x, 1),
                             part(f, x, 2), NULL, NULL, NULL, lengths);
  f->outputs[0] = front_reshape(f, front_transpose(f, y, perm, 4), joined, 5);
}

// ---- embedding ----

// A table of rows of |hidden| from a field.
static carnot_value* table(carnot_front* f, const char* field, int64_t hidden) {
  int64_t dims[] = {hidden ? carnot_fields_length(&f->fields, field) / hidden : 0, hidden};
  const carnot_value like = {
      .type = {.dtype = front_int(f, "output_fp16", 0) ? CARNOT_DTYPE_F16 : CARNOT_DTYPE_F32}};
  return front_weights(f, field, &like, dims, 2);
}

static carnot_value* rows_of(carnot_front* f, carnot_value* from, carnot_value* at) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, f->arena, "axis", 0);
  return front_op(f, CARNOT_OP_GATHER, &attrs, 2, from, at);
}

// norm(word[ids] + type[segments] + position[0 .. S)) [S,B,E,1,1]; mask [S,B] → its sums, int32
// [B].
static void expand_embedding(carnot_front* f) {
  int64_t hidden = carnot_fields_length(&f->fields, "bert_embeddings_layernorm_beta");
  const int64_t zero = 0, one = 1, last[] = {3, 4};
  carnot_value* ids = front_in(f, 0);
  if (front_rank(f, ids, 2) == 0) return;
  carnot_value* length = front_slice(f, front_shape(f, ids), 0, 0, 1);
  carnot_value* positions = table(f, "bert_embeddings_position_embeddings", hidden);
  positions = front_op(f, CARNOT_OP_SLICE, NULL, 4, positions, front_ints(f, &zero, 1), length,
                       front_ints(f, &zero, 1));
  positions = front_op(f, CARNOT_OP_UNSQUEEZE, NULL, 2, positions, front_ints(f, &one, 1));
  carnot_value* x = front_binary(
      f, CARNOT_FN_ADD, rows_of(f, table(f, "bert_embeddings_word_embeddings", hidden), ids),
      rows_of(f, table(f, "bert_embeddings_token_type_embeddings", hidden), front_in(f, 1)));
  x = front_binary(f, CARNOT_FN_ADD, x, positions);
  x = layer_norm(f, x, hidden, "bert_embeddings_layernorm_gamma", "bert_embeddings_layernorm_beta");
  f->outputs[0] = front_op(f, CARNOT_OP_UNSQUEEZE, NULL, 2, x, front_ints(f, last, 2));
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, f->arena, "fn", "sum");
  carnot_attrs_set_int(&attrs, f->arena, "keepdims", 0);
  f->outputs[1] = front_op(f, CARNOT_OP_REDUCE, &attrs, 2, front_in(f, 2), front_ints(f, &zero, 1));
}

static void refuse_variable(carnot_front* f) {
  FRONT_FAIL(f, UNSUPPORTED, "variable sequence lengths are not there yet: use version 1");
}

// ---- products and gelu ----

// x [S,B,K,1,1] times the transpose of W [out_dims,K].
static void expand_fc(carnot_front* f) {
  carnot_value* x = front_in(f, 0);
  int64_t out = front_int(f, "out_dims", 0), count = carnot_fields_length(&f->fields, "W");
  if (out < 1 || count % out) {
    FRONT_FAIL(f, INVALID_ARGUMENT, "W has %lld elements, out_dims is %lld", (long long)count,
               (long long)out);
    return;
  }
  const int64_t dims[] = {out, count / out}, perm[] = {1, 0}, flat[] = {0, 0, count / out},
                full[] = {0, 0, out, 1, 1};
  carnot_value* weights = front_transpose(f, front_weights(f, "W", x, dims, 2), perm, 2);
  f->outputs[0] = front_reshape(f, front_matmul(f, front_reshape(f, x, flat, 3), weights), full, 5);
}

// gelu by tanh, of x + bias.
static void expand_gelu(carnot_front* f) {
  carnot_value* x = front_in(f, 0);
  if (carnot_fields_length(&f->fields, "bias") > 0)
    x = front_binary(f, CARNOT_FN_ADD, x, along_hidden(f, "bias", x));
  f->outputs[0] = front_fn(f, CARNOT_FN_GELU_TANH, x, 0, 0);
}

static const carnot_plugin_field kSkipFields[] = {
    CARNOT_FIELD("type_id", INT32), CARNOT_FIELD("ld", INT32), CARNOT_FIELD("beta", FLOAT32),
    CARNOT_FIELD("gamma", FLOAT32), CARNOT_FIELD("bias", FLOAT32)};
static const carnot_plugin_field kSkipInt8Fields[] = {CARNOT_FIELD("beta", FLOAT32),
                                                      CARNOT_FIELD("gamma", FLOAT32)};
static const carnot_plugin_field kAttentionFields[] = {
    CARNOT_FIELD("type_id", INT32),           CARNOT_FIELD("hidden_size", INT32),
    CARNOT_FIELD("num_heads", INT32),         CARNOT_FIELD("has_mask", INT32),
    CARNOT_FIELD("dq_probs", FLOAT32),        CARNOT_FIELD("var_seqlen", INT32),
    CARNOT_FIELD("use_int8_scale_max", INT32)};
static const carnot_plugin_field kAttentionInt8Fields[] = {
    CARNOT_FIELD("hidden_size", INT32),       CARNOT_FIELD("num_heads", INT32),
    CARNOT_FIELD("dq_probs", FLOAT32),        CARNOT_FIELD("use_int8_scale_max", INT32),
    CARNOT_FIELD("use_explicit_int8", INT32), CARNOT_FIELD("input_qkv_scale", FLOAT32),
    CARNOT_FIELD("output_ctx_scale", FLOAT32)};
static const carnot_plugin_field kEmbeddingFields[] = {
    CARNOT_FIELD("bert_embeddings_layernorm_beta", FLOAT32),
    CARNOT_FIELD("bert_embeddings_layernorm_gamma", FLOAT32),
    CARNOT_FIELD("bert_embeddings_word_embeddings", FLOAT32),
    CARNOT_FIELD("bert_embeddings_token_type_embeddings", FLOAT32),
    CARNOT_FIELD("bert_embeddings_position_embeddings", FLOAT32),
    CARNOT_FIELD("output_fp16", INT32),
    CARNOT_FIELD("full_mask", INT32),
    CARNOT_FIELD("mha_type_id", INT32)};
static const carnot_plugin_field kFcFields[] = {
    CARNOT_FIELD("out_dims", INT32), CARNOT_FIELD("type_id", INT32), CARNOT_FIELD("W", FLOAT32)};
static const carnot_plugin_field kGeluFields[] = {CARNOT_FIELD("type_id", INT32),
                                                  CARNOT_FIELD("bias", FLOAT32)};

#define ROW(name, version, fields, min, max, outputs, expand) \
  { name, version, CARNOT_FIELD_LIST(fields), min, max, outputs, expand, NULL, NULL }
#define SKIP(version) \
  ROW("CustomSkipLayerNormPluginDynamic", version, kSkipFields, 2, 2, 1, expand_skip_norm)
#define SKIP_INT8(version, outputs) \
  ROW("CustomSkipLayerNormPluginDynamic", version, kSkipInt8Fields, 2, 2, outputs, refuse_int8)
#define ATTENTION(version, most) \
  ROW("CustomQKVToContextPluginDynamic", version, kAttentionFields, 1, most, 1, expand_attention)
#define ATTENTION_INT8(version) \
  ROW("CustomQKVToContextPluginDynamic", version, kAttentionInt8Fields, 1, 3, 1, refuse_int8)
#define EMBEDDING(version, least, most, outputs, expand) \
  ROW("CustomEmbLayerNormPluginDynamic", version, kEmbeddingFields, least, most, outputs, expand)

// Versions of the same behaviour: those of IPluginV2, then those of IPluginV3.
static const carnot_plugin_builtin kRows[] = {
    SKIP("1"),
    SKIP("2"),
    SKIP_INT8("3", 1),
    SKIP_INT8("4", 2),
    SKIP("5"),
    SKIP("6"),
    SKIP_INT8("7", 1),
    SKIP_INT8("8", 2),
    ATTENTION("1", 2),
    ATTENTION("2", 4),
    ATTENTION_INT8("3"),
    ATTENTION("4", 2),
    ATTENTION("5", 4),
    ATTENTION_INT8("6"),
    EMBEDDING("1", 3, 3, 2, expand_embedding),
    EMBEDDING("2", 4, 4, 2, refuse_variable),
    EMBEDDING("3", 4, 4, 3, refuse_variable),
    EMBEDDING("4", 3, 3, 2, expand_embedding),
    EMBEDDING("5", 4, 4, 2, refuse_variable),
    EMBEDDING("6", 4, 4, 3, refuse_variable),
    ROW("CustomFCPluginDynamic", "1", kFcFields, 1, 1, 1, expand_fc),
    ROW("CustomGeluPluginDynamic", "1", kGeluFields, 1, 1, 1, expand_gelu),
};
const carnot_plugin_builtins carnot_plugins_bert = CARNOT_BUILTINS(kRows);
