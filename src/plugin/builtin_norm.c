// Normalization plugins, as the built-in normalization: any rank, float32 statistics, scale and
// bias from fields or tensors. Source: TensorRT groupNormalizationPlugin,
// instanceNormalizationPlugin, normalizePlugin.
#include "plugin/front.h"

// Group normalization of X [N,C,...] with scale [C] and bias [C].
static void expand_group_norm(carnot_front* f) {
  carnot_value* x = front_in(f, 0);
  if (front_rank(f, x, 3) == 0) return;
  int64_t groups = front_int(f, "num_groups", 1);
  carnot_sym channels = x->type.dims[1];
  if (groups < 1 || (carnot_sym_is_const(channels) && channels.bits % groups)) {
    FRONT_FAIL(f, INVALID_ARGUMENT, "num_groups is %lld, must divide the channels of %s",
               (long long)groups, x->name);
    return;
  }
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, f->arena, "num_groups", groups);
  carnot_attrs_set_float(&attrs, f->arena, "epsilon", front_float(f, "eps", 1e-5f));
  f->outputs[0] = front_op(f, CARNOT_OP_GROUP_NORM, &attrs, 3, x, front_in(f, 1), front_in(f, 2));
}

// Instance normalization; scale and bias from the fields, or from inputs 1 and 2. relu: leaky with
// slope alpha.
static void expand_instance_norm(carnot_front* f) {
  carnot_value* x = front_in(f, 0);
  front_rank(f, x, 3);
  carnot_value *scale, *bias;
  if (f->input_count == 3) {
    scale = front_in(f, 1);
    bias = front_in(f, 2);
  } else {
    int64_t channels = carnot_fields_length(&f->fields, "scales");
    scale = front_weights(f, "scales", x, &channels, 1);
    bias = front_weights(f, "bias", x, &channels, 1);
  }
  carnot_attrs attrs = {0};
  carnot_attrs_set_float(&attrs, f->arena, "epsilon", front_float(f, "epsilon", 1e-5f));
  f->outputs[0] = front_op(f, CARNOT_OP_INSTANCE_NORM, &attrs, 3, x, scale, bias);
  if (front_int(f, "relu", 0))
    f->outputs[0] = front_fn(f, CARNOT_FN_LEAKY_RELU, f->outputs[0], front_float(f, "alpha", 0), 0);
}

// x / sqrt(sum x^2 + eps) * weights, the sum over the channels, with acrossSpatial over all of a
// batch entry; one weight where channelShared, else one a channel.
static void expand_normalize(carnot_front* f) {
  carnot_value* x = front_in(f, 0);
  int rank = front_rank(f, x, 3);
  int64_t axes[CARNOT_MAX_RANK] = {1}, dims[CARNOT_MAX_RANK];
  int axis_count = front_int(f, "acrossSpatial", 1) ? rank - 1 : 1;
  for (int i = 0; i < axis_count; i++) axes[i] = i + 1;
  for (int i = 0; i < rank; i++) dims[i] = 1;
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, f->arena, "fn", "sum_square");
  carnot_value* sum = front_op(f, CARNOT_OP_REDUCE, &attrs, 2, x, front_ints(f, axes, axis_count));
  carnot_value* norm = front_fn(
      f, CARNOT_FN_SQRT,
      front_binary(f, CARNOT_FN_ADD, sum, front_number(f, x, front_float(f, "eps", 0))), 0, 0);
  if (!front_int(f, "channelShared", 1)) dims[1] = carnot_fields_length(&f->fields, "weights");
  f->outputs[0] = front_binary(f, CARNOT_FN_MUL, front_binary(f, CARNOT_FN_DIV, x, norm),
                               front_weights(f, "weights", x, dims, rank));
}

static const float kEps = 1e-5f, kZero = 0;
static const int32_t kOne = 1;
static const carnot_plugin_field kGroupFields[] = {{"eps", &kEps, CARNOT_FIELD_FLOAT32, 1},
                                                   {"num_groups", &kOne, CARNOT_FIELD_INT32, 1}};
static const carnot_plugin_field kInstanceFields[] = {{"epsilon", &kEps, CARNOT_FIELD_FLOAT32, 1},
                                                      CARNOT_FIELD("scales", FLOAT32),
                                                      CARNOT_FIELD("bias", FLOAT32),
                                                      CARNOT_FIELD("relu", INT32),
                                                      {"alpha", &kZero, CARNOT_FIELD_FLOAT32, 1}};
static const carnot_plugin_field kNormalizeFields[] = {
    CARNOT_FIELD("weights", FLOAT32), CARNOT_FIELD("acrossSpatial", INT32),
    CARNOT_FIELD("channelShared", INT32), CARNOT_FIELD("nbWeights", INT32),
    CARNOT_FIELD("eps", FLOAT32)};

#define INSTANCE_NORM(version)                                                         \
  {                                                                                    \
    "InstanceNormalization_TRT", version, CARNOT_FIELD_LIST(kInstanceFields), 1, 3, 1, \
        expand_instance_norm, NULL, NULL                                               \
  }

static const carnot_plugin_builtin kRows[] = {
    {"GroupNormalizationPlugin", "1", CARNOT_FIELD_LIST(kGroupFields), 3, 3, 1, expand_group_norm,
     NULL, NULL},
    INSTANCE_NORM("1"),
    INSTANCE_NORM("2"),
    INSTANCE_NORM("3"),
    {"Normalize_TRT", "1", CARNOT_FIELD_LIST(kNormalizeFields), 1, 1, 1, expand_normalize, NULL,
     NULL},
};
const carnot_plugin_builtins carnot_plugins_norm = CARNOT_BUILTINS(kRows);
