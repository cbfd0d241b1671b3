// Mixture of experts, composed of einsums: every expert computes every token, and the scores of the
// selected experts weight the sum. Right for any number of experts; the cost is that of all of
// them.
#include <math.h>

#include "api/builder/network.h"

// y += bias, where there is one.
static carnot_status* add_bias(carnot_network* network, carnot_value* bias, carnot_value** y) {
  return bias ? carnot_network_add_elementwise(network, *y, bias, CARNOT_ELEMENTWISE_SUM, y) : NULL;
}

static carnot_status* einsum(carnot_network* network, const char* equation, carnot_value* a,
                             carnot_value* b, carnot_value** out_value) {
  return carnot_network_add_einsum(network, equation, CARNOT_VALUES(a, b), out_value);
}

// y = f(y, number) in the type of y.
static carnot_status* apply(carnot_network* network, carnot_elementwise fn, double number,
                            carnot_value** y) {
  carnot_value* operand;
  CARNOT_TRY(carnot_network_add_scalar(network, carnot_value_dtype(*y), number, &operand));
  return carnot_network_add_elementwise(network, *y, operand, fn, y);
}

// SwiGLU: gate = min(gate, limit), gate *= sigmoid(alpha * gate); up = clip(up, limit) + beta.
static carnot_status* apply_silu(carnot_network* network, const carnot_moe_config* config,
                                 carnot_value** gate, carnot_value** up) {
  if (isfinite(config->limit)) {
    CARNOT_TRY(apply(network, CARNOT_ELEMENTWISE_MIN, config->limit, gate));
    CARNOT_TRY(apply(network, CARNOT_ELEMENTWISE_MIN, config->limit, up));
    CARNOT_TRY(apply(network, CARNOT_ELEMENTWISE_MAX, -config->limit, up));
  }
  carnot_value* factor = *gate;
  CARNOT_TRY(apply(network, CARNOT_ELEMENTWISE_PROD, config->alpha, &factor));
  CARNOT_TRY(carnot_network_add_activation(network, factor, CARNOT_ACTIVATION_TYPE_SIGMOID, 0, 0,
                                           &factor));
  CARNOT_TRY(carnot_network_add_elementwise(network, *gate, factor, CARNOT_ELEMENTWISE_PROD, gate));
  return apply(network, CARNOT_ELEMENTWISE_SUM, config->beta, up);
}

// [batch, sequence, experts]: the score of each expert, 0 where it is not selected.
static carnot_status* expert_weights(carnot_network* network, carnot_value* selected,
                                     carnot_value* scores, int64_t experts,
                                     carnot_value** out_weights) {
  carnot_value *zero, *one, *values, *one_hot;
  const int64_t first = 0;
  carnot_dtype dtype = carnot_value_dtype(scores);
  CARNOT_TRY(carnot_network_add_scalar(network, dtype, 0, &zero));
  CARNOT_TRY(carnot_network_add_scalar(network, dtype, 1, &one));
  CARNOT_TRY(carnot_network_add_unsqueeze(network, zero, &first, 1, &zero));
  CARNOT_TRY(carnot_network_add_unsqueeze(network, one, &first, 1, &one));
  CARNOT_TRY(carnot_network_add_concatenation(network, CARNOT_VALUES(zero, one), 0, &values));
  CARNOT_TRY(carnot_network_add_one_hot(
      network, selected, carnot_network_ints(network, &experts, -1), values, -1, &one_hot));
  return einsum(network, "bsk,bske->bse", scores, one_hot, out_weights);
}

carnot_status* carnot_network_add_moe(carnot_network* network, carnot_value* hidden,
                                      carnot_value* selected, carnot_value* scores,
                                      const carnot_moe_config* config, carnot_value** out_value) {
  *out_value = NULL;
  CARNOT_CHECK(hidden && selected && scores && config && config->gate_weights &&
                   config->up_weights && config->down_weights,
               INVALID_ARGUMENT,
               "a mixture of experts needs hidden states, selected experts, their scores and the "
               "weights of gate, up and down");
  CARNOT_CHECK((unsigned)config->activation <= CARNOT_MOE_SILU, INVALID_ARGUMENT,
               "activation %d of a mixture of experts; 0 or 1 is required",
               (int)config->activation);
  carnot_dims dims = carnot_value_dims(config->gate_weights);
  CARNOT_CHECK(
      dims.rank == 3 && dims.d[0] > 0, INVALID_ARGUMENT,
      "gate weights %s have rank %d and %lld experts; rank 3 and a known number of experts "
      "are required",
      carnot_value_name(config->gate_weights), dims.rank,
      dims.rank > 0 ? (long long)dims.d[0] : -1);
  carnot_value *gate, *up, *inner, *down, *weights;
  CARNOT_TRY(einsum(network, "bsh,ehi->bsei", hidden, config->gate_weights, &gate));
  CARNOT_TRY(add_bias(network, config->gate_bias, &gate));
  CARNOT_TRY(einsum(network, "bsh,ehi->bsei", hidden, config->up_weights, &up));
  CARNOT_TRY(add_bias(network, config->up_bias, &up));
  if (config->activation == CARNOT_MOE_SILU) CARNOT_TRY(apply_silu(network, config, &gate, &up));
  CARNOT_TRY(carnot_network_add_elementwise(network, gate, up, CARNOT_ELEMENTWISE_PROD, &inner));
  CARNOT_TRY(einsum(network, "bsei,eih->bseh", inner, config->down_weights, &down));
  CARNOT_TRY(add_bias(network, config->down_bias, &down));
  CARNOT_TRY(expert_weights(network, selected, scores, dims.d[0], &weights));
  if (carnot_value_dtype(weights) != carnot_value_dtype(hidden))
    CARNOT_TRY(carnot_network_add_cast(network, weights, carnot_value_dtype(hidden), &weights));
  return einsum(network, "bse,bseh->bsh", weights, down, out_value);
}
