"""Mixture of experts: each token is computed by its selected experts."""

from __future__ import annotations

from typing import Any, List

from ..._carnot import ffi
from ...enums import DataType, LayerType, MoEActType
from ...types import Dims
from ..emitter import Emitter, model_error
from ..layer import ILayer, enum_prop, prop

_WEIGHTS, _BIASES = 3, 6  # index of the first one among the inputs: gate, up, down


class IMoELayer(ILayer):
    """y[t] = sum over the experts e of token t: score[t,e] · ((act(x·gate_e) · (x·up_e)) · down_e), biases added.

    Inputs: x [batch, sequence, hidden], selected experts and their scores [batch, sequence, k]. Weights of gate and up
    [experts, hidden, inner], of down [experts, inner, hidden]; biases [experts, inner] and [experts, hidden]. With
    SILU gate and up are clamped to the limit, act(g) = g · sigmoid(alpha·g), and beta is added to up.
    """

    _layer_type = LayerType.MOE
    _min_inputs = 3
    _defaults = {
        "activation_type": MoEActType.SILU,
        "swiglu_param_limit": float("inf"),
        "swiglu_param_alpha": 1.0,
        "swiglu_param_beta": 0.0,
        "quantization_to_type": DataType.FLOAT,
        "quantization_block_shape": Dims(),
        "dyn_q_output_scale_type": DataType.FLOAT,
    }
    activation_type = enum_prop("activation_type", MoEActType)
    swiglu_param_limit = prop("swiglu_param_limit", float)
    swiglu_param_alpha = prop("swiglu_param_alpha", float)
    swiglu_param_beta = prop("swiglu_param_beta", float)
    quantization_to_type = prop("quantization_to_type")
    quantization_block_shape = prop("quantization_block_shape")
    dyn_q_output_scale_type = prop("dyn_q_output_scale_type")

    def set_gated_weights(
        self, fc_gate_weights: Any, fc_up_weights: Any, fc_down_weights: Any, activation_type: MoEActType
    ) -> None:
        self.activation_type = activation_type
        for i, tensor in enumerate((fc_gate_weights, fc_up_weights, fc_down_weights)):
            self.set_input(_WEIGHTS + i, tensor)

    def set_gated_biases(self, fc_gate_biases: Any, fc_up_biases: Any, fc_down_biases: Any) -> None:
        for i, tensor in enumerate((fc_gate_biases, fc_up_biases, fc_down_biases)):
            self.set_input(_BIASES + i, tensor)

    def set_swiglu_params(self, limit: float, alpha: float, beta: float) -> None:
        self.swiglu_param_limit, self.swiglu_param_alpha, self.swiglu_param_beta = limit, alpha, beta

    def set_quantization_static(self, fc_down_activation_scale: Any, data_type: DataType) -> None:
        self._network._fail(f"layer {self._name}: quantization of experts is not available in this version")

    def set_quantization_dynamic_dbl_q(
        self, fc_down_activation_dbl_q_scale: Any, data_type: DataType, block_shape: Any, dyn_q_output_scale_type: Any
    ) -> None:
        self._network._fail(f"layer {self._name}: quantization of experts is not available in this version")

    def _emit(self, e: Emitter) -> List[Any]:
        inputs = self._inputs + [None] * (_BIASES + 3 - len(self._inputs))
        if None in inputs[:_BIASES]:
            raise model_error(f"layer {self._name} has no weights: call set_gated_weights")
        values = [e.value(tensor) for tensor in inputs]
        config = ffi.new("carnot_moe_config*")
        config.activation = int(self.activation_type)
        config.limit, config.alpha = self.swiglu_param_limit, self.swiglu_param_alpha
        config.beta = self.swiglu_param_beta
        config.gate_weights, config.up_weights, config.down_weights = values[_WEIGHTS:_BIASES]
        config.gate_bias, config.up_bias, config.down_bias = values[_BIASES:]
        return [e.add("moe", *values[:_WEIGHTS], config)]
