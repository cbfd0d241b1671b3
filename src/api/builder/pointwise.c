// Element-wise layers.
#include "api/builder/network.h"

carnot_status* carnot_network_add_activation(carnot_network* network, carnot_value* input,
                                             carnot_activation type, double alpha, double beta,
                                             carnot_value** out_value) {
  *out_value = NULL;
#define FN_OF(NAME, FN) CARNOT_FN_##FN,
  static const carnot_fn kFns[] = {CARNOT_ACTIVATIONS(FN_OF)};
#undef FN_OF
  carnot_fn fn;
  CARNOT_PICK(kFns, type, "activation", fn);
  return carnot_network_add_fn(network, CARNOT_OP_UNARY, fn, alpha, beta, CARNOT_VALUES(input),
                               out_value);
}

carnot_status* carnot_network_add_elementwise(carnot_network* network, carnot_value* a,
                                              carnot_value* b, carnot_elementwise type,
                                              carnot_value** out_value) {
  *out_value = NULL;
#define FN_OF(NAME, FN) CARNOT_FN_##FN,
  static const carnot_fn kFns[] = {CARNOT_ELEMENTWISES(FN_OF)};
#undef FN_OF
  carnot_fn fn;
  CARNOT_PICK(kFns, type, "element-wise function", fn);
  return carnot_network_add_fn(network, CARNOT_OP_BINARY, fn, 0, 0, CARNOT_VALUES(a, b), out_value);
}

carnot_status* carnot_network_add_unary(carnot_network* network, carnot_value* input,
                                        carnot_unary type, carnot_value** out_value) {
  *out_value = NULL;
#define FN_OF(NAME, FN) CARNOT_FN_##FN,
  static const carnot_fn kFns[] = {CARNOT_UNARIES(FN_OF)};
#undef FN_OF
  carnot_fn fn;
  CARNOT_PICK(kFns, type, "unary function", fn);
  // Both infinities count.
  double both = fn == CARNOT_FN_IS_INF;
  return carnot_network_add_fn(network, CARNOT_OP_UNARY, fn, both, both, CARNOT_VALUES(input),
                               out_value);
}

carnot_status* carnot_network_add_parametric_relu(carnot_network* network, carnot_value* input,
                                                  carnot_value* slope, carnot_value** out_value) {
  return carnot_network_add_fn(network, CARNOT_OP_BINARY, CARNOT_FN_PRELU, 0, 0,
                               CARNOT_VALUES(input, slope), out_value);
}

carnot_status* carnot_network_add_select(carnot_network* network, carnot_value* condition,
                                         carnot_value* a, carnot_value* b,
                                         carnot_value** out_value) {
  return carnot_network_add_fn(network, CARNOT_OP_TERNARY, CARNOT_FN_SELECT, 0, 0,
                               CARNOT_VALUES(condition, a, b), out_value);
}

// A list [C] reshaped to [C,1..], so that it broadcasts along |axis| of |rank| dimensions.
static carnot_status* along_axis(carnot_network* network, carnot_value* list, int rank, int axis,
                                 carnot_value** out_value) {
  *out_value = list;
  if (list->type.rank != 1 || rank - axis <= 1) return NULL;
  int64_t dims[CARNOT_MAX_RANK] = {-1, 1, 1, 1, 1, 1, 1, 1};
  return carnot_network_add_one(
      network, CARNOT_OP_RESHAPE, NULL,
      CARNOT_VALUES(list, carnot_network_ints(network, dims, rank - axis)), out_value);
}

carnot_status* carnot_network_add_scale(carnot_network* network, carnot_value* input,
                                        int channel_axis, carnot_value* shift, carnot_value* scale,
                                        carnot_value* power, carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(input && channel_axis >= 0 && channel_axis < input->type.rank, INVALID_ARGUMENT,
               "scale: channel axis %d of %d dimensions", channel_axis,
               input ? input->type.rank : 0);
  carnot_value* operands[3] = {scale, shift, power};
  static const carnot_fn kFns[3] = {CARNOT_FN_MUL, CARNOT_FN_ADD, CARNOT_FN_POW};
  carnot_value* value = input;
  for (int i = 0; i < 3; i++) {
    if (!operands[i]) continue;
    carnot_value* operand;
    CARNOT_TRY(along_axis(network, operands[i], input->type.rank, channel_axis, &operand));
    CARNOT_TRY(carnot_network_add_fn(network, CARNOT_OP_BINARY, kFns[i], 0, 0,
                                     CARNOT_VALUES(value, operand), &value));
  }
  if (value == input) return carnot_network_add_identity(network, input, out_value);
  *out_value = value;
  return NULL;
}

carnot_status* carnot_network_add_cast(carnot_network* network, carnot_value* input,
                                       carnot_dtype to, carnot_value** out_value) {
  carnot_attrs attrs = {0};
  CARNOT_SET_INT(attrs, network, "to", to);
  return carnot_network_add_one(network, CARNOT_OP_CAST, &attrs, CARNOT_VALUES(input), out_value);
}
