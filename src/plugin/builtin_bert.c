// The BERT plugins, written as the operators they fuse. Tensors are [S,B,E,1,1] as theirs; with
// variable lengths the sequences are concatenated, [tokens,E,1,1]. The int8 interleaved
// versions are refused. Source: TensorRT skipLayerNormPlugin, bertQKVToContextPlugin,
// embLayerNormPlugin, fcPlugin, geluPlugin (README and creators).
#include <math.h>

#include "plugin/front.h"

// The plugins add no epsilon; this one keeps a constant row finite and is lost in float32 else.
static const double kEpsilon = 1e-12;

// The axis of the hidden size: after sequence and batch, or after the tokens.
static int hidden_axis(carnot_front* f, const carnot_value* x) {
  int rank = front_rank(f, x, 2);
  return rank == 2 || rank == 4 ? 1 : 2;
}

// Layer norm of x over the hidden axis and what follows (ones), by the fields |gamma| and |beta|.
static carnot_value* layer_norm(carnot_front* f, carnot_value* x, int64_t size, const char* gamma,
                                const char* beta) {
  int axis = hidden_axis(f, x);
  if (f->status) return NULL;
  int64_t dims[CARNOT_MAX_RANK] = {size, 1, 1, 1, 1, 1};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, f->arena, "axis", axis);
  carnot_attrs_set_float(&attrs, f->arena, "epsilon", kEpsilon);
  return front_op(f, CARNOT_OP_LAYER_NORM, &attrs, 3, x,
                  front_weights(f, gamma, x, dims, x->type.rank - axis),
                  front_weights(f, beta, x, dims, x->type.rank - axis));
}

// A field of weights over the hidden axis of x.
static carnot_value* along_hidden(carnot_front* f, const char* field, carnot_value* x) {
  int axis = hidden_axis(f, x);
  if (f->status) return NULL;
  int64_t dims[CARNOT_MAX_RANK] = {carnot_fields_length(&f->fields, field), 1, 1, 1, 1, 1};
  return front_weights(f, field, x, dims, x->type.rank - axis);
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
    front_kernel(f);
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

// The same for sequences one after the other: x [tokens,3E,1,1], sequence b being the tokens from
// ends[b] to ends[b+1]. Inputs: x, with has_mask a mask that is not needed, ends [B+1], a tensor as
// long as the longest sequence.
typedef struct attention_job {
  const carnot_plugin_run* run;
  const int32_t* ends;
  int64_t count, heads, size;
} attention_job;

static const int32_t* ends_of(const carnot_fields* fields, const carnot_plugin_run* run,
                              int64_t* out_count) {
  int at = run->input_count == 4 && carnot_fields_int(fields, "has_mask", 0) ? 2 : 1;
  *out_count = run->inputs[at].dims.d[0] - 1;
  return run->inputs[at].data;
}

// One token's one head; the result of a running softmax.
static void attention_part(void* arg, int64_t part) {
  const attention_job* j = arg;
  int64_t row = part / j->heads, head = part % j->heads, b = 0, width = 3 * j->heads * j->size;
  while (b + 1 < j->count && row >= j->ends[b + 1]) b++;
  const float* x = (const float*)j->run->inputs[0].data + head * 3 * j->size;
  const float* q = x + row * width;
  float* dst = (float*)j->run->outputs[0].data + (row * j->heads + head) * j->size;
  for (int64_t i = 0; i < j->size; i++) dst[i] = 0;
  float largest = -INFINITY, sum = 0;
  for (int64_t k = j->ends[b]; row < j->ends[b + 1] && k < j->ends[b + 1]; k++) {
    const float *key = x + k * width + j->size, *value = key + j->size;
    float score = 0;
    for (int64_t i = 0; i < j->size; i++) score += q[i] * key[i];
    score /= sqrtf((float)j->size);
    float top = fmaxf(largest, score), keep = expf(largest - top), share = expf(score - top);
    for (int64_t i = 0; i < j->size; i++) dst[i] = dst[i] * keep + share * value[i];
    sum = sum * keep + share;
    largest = top;
  }
  for (int64_t i = 0; i < j->size && sum > 0; i++) dst[i] /= sum;
}

static bool attention_dims(const carnot_fields* fields, const carnot_plugin_shape* inputs,
                           int32_t input_count, carnot_plugin_shape* outputs, const carnot_exprs* e,
                           carnot_plugin_error* error) {
  int32_t wanted = carnot_fields_int(fields, "has_mask", 0) ? 4 : 3;
  if (input_count != wanted || inputs[0].rank != 4)
    return carnot_plugin_refuse(error, "%d inputs, the first of rank %d; must be %d of rank 4",
                                input_count, inputs[0].rank, wanted);
  outputs[0] = inputs[0];
  outputs[0].dims[1] =
      e->operation(e->host, CARNOT_EXPR_FLOOR_DIV, inputs[0].dims[1], e->constant(e->host, 3));
  return true;
}

static bool attention(const carnot_fields* fields, const carnot_plugin_run* run,
                      carnot_plugin_error* error) {
  attention_job job = {.run = run, .heads = carnot_fields_int(fields, "num_heads", 0)};
  int64_t hidden = carnot_fields_int(fields, "hidden_size", 0);
  const carnot_dims* x = &run->inputs[0].dims;
  job.ends = ends_of(fields, run, &job.count);
  if (hidden < 1 || job.heads < 1 || hidden % job.heads || x->d[1] != 3 * hidden ||
      x->d[2] * x->d[3] != 1)
    return carnot_plugin_refuse(
        error, "input of %lld channels, must be [tokens,%lld,1,1] for hidden_size %lld",
        (long long)x->d[1], 3 * (long long)hidden, (long long)hidden);
  bool rises = job.count >= 1 && job.ends[0] == 0 && job.ends[job.count] <= x->d[0];
  for (int64_t b = 0; b < job.count; b++) rises = rises && job.ends[b] <= job.ends[b + 1];
  if (!rises)
    return carnot_plugin_refuse(error, "the ends of sequences must rise from 0 to at most %lld",
                                (long long)x->d[0]);
  job.size = hidden / job.heads;
  run->threads->parallel(run->threads->host, x->d[0] * job.heads, attention_part, &job);
  return true;
}

static const carnot_plugin_kernel kAttentionKernel = {"fi f", attention_dims, attention, NULL};

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

// Positions of tokens in their sequences, whose ends are in ends [B+1]: t minus the greatest end
// that is not behind t.
static carnot_value* places(carnot_front* f, carnot_value* ids, carnot_value* ends) {
  const int64_t zero = 0, one = 1;
  carnot_value* count =
      front_op(f, CARNOT_OP_SQUEEZE, NULL, 2, front_shape(f, ids), front_ints(f, &zero, 1));
  carnot_value* t = front_op(f, CARNOT_OP_RANGE, NULL, 3, front_ints(f, &zero, -1), count,
                             front_ints(f, &one, -1));
  carnot_value* column = front_op(f, CARNOT_OP_UNSQUEEZE, NULL, 2, t, front_ints(f, &one, 1));
  ends = front_cast(f, ends, CARNOT_DTYPE_I64);
  carnot_value* before =
      front_cast(f, front_binary(f, CARNOT_FN_LESS_EQUAL, ends, column), CARNOT_DTYPE_I64);
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, f->arena, "fn", "max");
  carnot_attrs_set_int(&attrs, f->arena, "keepdims", 0);
  carnot_value* start =
      front_op(f, CARNOT_OP_REDUCE, &attrs, 2, front_binary(f, CARNOT_FN_MUL, before, ends),
               front_ints(f, &one, 1));
  return front_binary(f, CARNOT_FN_SUB, t, start);
}

// The same for sequences one after the other: ids and segments [tokens], ends [B+1] →
// [tokens,E,1,1] and a scalar that means nothing.
static void expand_embedding_of_tokens(carnot_front* f) {
  int64_t hidden = carnot_fields_length(&f->fields, "bert_embeddings_layernorm_beta");
  const int64_t zero = 0, last[] = {2, 3};
  carnot_value* ids = front_in(f, 0);
  if (front_rank(f, ids, 1) != 1)
    FRONT_FAIL(f, INVALID_MODEL, "the tokens must have one dimension");
  carnot_value* x = front_binary(
      f, CARNOT_FN_ADD, rows_of(f, table(f, "bert_embeddings_word_embeddings", hidden), ids),
      rows_of(f, table(f, "bert_embeddings_token_type_embeddings", hidden), front_in(f, 1)));
  x = front_binary(f, CARNOT_FN_ADD, x,
                   rows_of(f, table(f, "bert_embeddings_position_embeddings", hidden),
                           places(f, ids, front_in(f, 2))));
  x = layer_norm(f, x, hidden, "bert_embeddings_layernorm_gamma", "bert_embeddings_layernorm_beta");
  f->outputs[0] = front_op(f, CARNOT_OP_UNSQUEEZE, NULL, 2, x, front_ints(f, last, 2));
  f->outputs[1] = front_cast(f, front_ints(f, &zero, -1), CARNOT_DTYPE_I32);
}

static void refuse_megatron(carnot_front* f) {
  FRONT_FAIL(f, UNSUPPORTED, "the Megatron form is not there yet: use version 2");
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
#define ATTENTION(version, most)                                                                 \
  {                                                                                              \
    "CustomQKVToContextPluginDynamic", version, CARNOT_FIELD_LIST(kAttentionFields), 1, most, 1, \
        expand_attention, &kAttentionKernel, NULL                                                \
  }
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
    EMBEDDING("2", 4, 4, 2, expand_embedding_of_tokens),
    EMBEDDING("3", 4, 4, 2, refuse_megatron),
    EMBEDDING("4", 3, 3, 2, expand_embedding),
    EMBEDDING("5", 4, 4, 2, expand_embedding_of_tokens),
    EMBEDDING("6", 4, 4, 2, refuse_megatron),
    ROW("CustomFCPluginDynamic", "1", kFcFields, 1, 1, 1, expand_fc),
    ROW("CustomGeluPluginDynamic", "1", kGeluFields, 1, 1, 1, expand_gelu),
};
const carnot_plugin_builtins carnot_plugins_bert = CARNOT_BUILTINS(kRows);
